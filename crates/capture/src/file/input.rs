//! The inputs of a run: paths, directories, standard input.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::bytes::ByteSource;
use super::error::ReadError;

/// A source of packets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Input {
    /// A file, or a directory whose capture files are read in name order (files that start as a capture;
    /// subdirectories are not searched).
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// A regular file that is open.
    Kept(Kept),
}

/// A regular file that was opened once, and can be read any number of times, by a process that may not open it any more.
#[derive(Clone, Debug)]
pub struct Kept {
    path: PathBuf,
    file: Arc<File>,
}

/// Two are equal if they have the same path.
impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Kept {}

/// Maximum number of inputs that stay open. A process has 1,024 descriptors by default, and inputs that overlap in time use a
/// second one.
const MAX_KEPT: usize = 256;

impl Input {
    /// The same inputs, of which the regular files, and those of directories, are open from now on, up to 256 of them. What
    /// cannot be opened is reported when it is read.
    pub fn keep(inputs: Vec<Input>) -> Vec<Input> {
        let Ok(all) = expand(&inputs) else { return inputs };
        let mut kept = 0;
        let keep = |origin: Origin| match (origin.input, origin.size) {
            (Input::Path(path), Some(_)) if kept < MAX_KEPT => match File::open(&path) {
                Ok(file) => {
                    kept += 1;
                    Input::Kept(Kept { path, file: Arc::new(file) })
                }
                Err(_) => Input::Path(path),
            },
            (input, _) => input,
        };
        all.into_iter().map(keep).collect()
    }

    /// The paths of the files of inputs, also of those in directories; none if an input is not there.
    pub fn files(inputs: &[Input]) -> Vec<PathBuf> {
        let files = expand(inputs).unwrap_or_default();
        files.iter().filter_map(|origin| origin.input.path().map(Path::to_owned)).collect()
    }

    /// Bytes of the files of inputs on the disk; `None` if one of them is not a regular file, or not there.
    pub fn bytes(inputs: &[Input]) -> Option<u64> {
        expand(inputs).ok()?.iter().map(|origin| origin.size).sum()
    }

    /// The path, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Input::Path(path) | Input::Kept(Kept { path, .. }) => Some(path),
            Input::Stdin => None,
        }
    }

    /// Whether its packets can be read more than once: not from standard input or a pipe.
    pub fn can_be_read_again(&self) -> bool {
        match self {
            Input::Path(path) => path.is_file() || path.is_dir(),
            Input::Kept(_) => true,
            Input::Stdin => false,
        }
    }
}

/// One file to read.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) input: Input,
    /// Size in bytes of a regular file; `None` for others.
    pub(crate) size: Option<u64>,
}

impl Origin {
    /// Opens the source. A source that is not a regular file can be opened only once. With a `stop`, a fifo without a
    /// writer is opened at once, and the first read waits for a writer.
    pub(crate) fn file(&self, stop: Option<&Arc<AtomicBool>>) -> Result<File, ReadError> {
        let file = match &self.input {
            Input::Path(path) if self.size.is_none() && stop.is_some() => {
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
            }
            Input::Path(path) => File::open(path),
            // The copy has the position of the original, which nobody moves: regular files are read at positions of their own.
            Input::Kept(kept) => kept.file.try_clone(),
            Input::Stdin => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        };
        file.map_err(|source| ReadError::Open { input: self.name.clone(), source: Arc::new(source) })
    }
}

/// The files of `inputs`, in order.
pub(crate) fn expand(inputs: &[Input]) -> Result<Vec<Origin>, ReadError> {
    let mut sources = Vec::new();
    for input in inputs {
        match input {
            Input::Path(path) if path.is_dir() => list(path, &mut sources)?,
            Input::Path(path) => sources.push(source(path)),
            Input::Kept(kept) => {
                let size = kept.file.metadata().ok().map(|data| data.len());
                let name = kept.path.display().to_string();
                sources.push(Origin { name, input: input.clone(), size });
            }
            Input::Stdin => {
                let (name, input, size) = ("-".to_owned(), Input::Stdin, None);
                sources.push(Origin { name, input, size });
            }
        }
    }
    if sources.is_empty() {
        let input = match inputs {
            [Input::Path(path), ..] => path.display().to_string(),
            _ => "input".to_owned(),
        };
        return Err(ReadError::NoCapture { input });
    }
    Ok(sources)
}

fn source(path: &Path) -> Origin {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|data| data.len());
    Origin { name: path.display().to_string(), input: Input::Path(path.to_owned()), size }
}

/// The capture files of a directory, in name order. A file counts if its first bytes or its name are those of a
/// capture. The errors of such a file are reported.
fn list(directory: &Path, sources: &mut Vec<Origin>) -> Result<(), ReadError> {
    let name = || directory.display().to_string();
    let refused = |source| ReadError::Open { input: name(), source: Arc::new(source) };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        // Opening a pipe in a directory would block until a writer opens it.
        if path.is_file() && is_capture(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    sources.extend(paths.iter().map(|path| source(path)));
    Ok(())
}

fn is_capture(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return starts_as_capture(path) };
    // A name that starts with a dot is a hidden file, or a file that is still being written.
    !name.starts_with('.') && (named_capture(name) || starts_as_capture(path))
}

fn named_capture(name: &str) -> bool {
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    [".pcap", ".pcapng", ".cap", ".ntar"].iter().any(|end| name.ends_with(end))
}

fn starts_as_capture(path: &Path) -> bool {
    let head = File::open(path).and_then(|file| ByteSource::new(file, None)).and_then(|(mut bytes, _)| {
        let mut head = Vec::new();
        while head.len() < 4 && bytes.read(&mut head, 4)? > 0 {}
        Ok(head)
    });
    head.is_ok_and(|head| {
        super::pcap::Magic::of(&head).is_some() || head.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
    })
}
