//! Files of whole lines: whatever happens (a full disk, a killed process), what is on the disk ends with a
//! whole line, and every line that could not be written is counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Octets that are gathered before they are written.
const BLOCK: usize = 64 << 10;
/// Octets that wait while the disk is full; beyond them lines are lost, and counted.
const MOST_WAITING: usize = 1 << 20;

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Existing {
    /// For runs over files. It is replaced when the new one is complete: until then that has `.part` after its
    /// name.
    #[default]
    Replace,
    /// For live runs, whose logs are read while they grow. It is gone on with, in place. A last line that was cut off is taken away before.
    Continue,
}

/// What lines are written to.
trait Store: Send {
    /// As [`Write::write`].
    fn put(&mut self, octets: &[u8]) -> io::Result<usize>;
    /// Cuts to a length; what is put next comes right after it.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// Opened for appending.
impl Store for File {
    fn put(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.write(octets)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// A file to which lines are added.
pub struct LineFile {
    /// The name that it has when it is complete, and that messages tell.
    path: PathBuf,
    /// The name that it has until then, where that is another.
    temporary: Option<PathBuf>,
    store: Box<dyn Store>,
    /// Octets in the file, all of them of whole lines.
    length: u64,
    /// Part of a line may stand behind them, which could not be cut off yet.
    torn: bool,
    waiting: Vec<u8>,
    /// The error that the disk gave, until writing goes well again.
    failure: Option<io::Error>,
    /// It has been told.
    told: bool,
    lost: u64,
}

impl LineFile {
    /// Opens the file `name` in `directory`.
    ///
    /// # Errors
    /// When it cannot be opened or repaired, with its path.
    pub fn open(directory: &Path, name: &str, existing: Existing) -> io::Result<Self> {
        let path = directory.join(name);
        let (temporary, opened) = match existing {
            Existing::Replace => {
                let temporary = directory.join(format!("{name}.part"));
                let opened = open_for_appending(&temporary).and_then(|file| {
                    file.set_len(0)?;
                    Ok((file, 0))
                });
                (Some(temporary), opened)
            }
            Existing::Continue => (None, open_repaired(&path)),
        };
        let (file, length) = opened.map_err(|error| at(&path, &error))?;
        Ok(Self { temporary, length, ..Self::over(path, Box::new(file)) })
    }

    fn over(path: PathBuf, store: Box<dyn Store>) -> Self {
        Self {
            path,
            temporary: None,
            store,
            length: 0,
            torn: false,
            waiting: Vec::with_capacity(BLOCK * 2),
            failure: None,
            told: false,
            lost: 0,
        }
    }

    /// Whether there is no line in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.waiting.is_empty()
    }

    /// The first line of the file as it was opened, at most 64 KiB of it; empty when there is none.
    pub fn first_line(&self) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        let path = self.temporary.as_deref().unwrap_or(&self.path);
        File::open(path)?.take(BLOCK as u64).read_to_end(&mut start)?;
        Ok(start.split(|&octet| octet == b'\n').next().unwrap_or_default().to_vec())
    }

    /// Adds a line, which `write` puts at the end of what it is given, without the line break. A full disk is
    /// told by [`Self::flush`]: lines wait for space while there is room for them, then they are lost and
    /// counted.
    pub fn line(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.waiting.len() >= BLOCK && self.failure.is_none() {
            self.write_out();
        }
        if self.waiting.len() >= MOST_WAITING {
            self.lost += 1;
            return;
        }
        write(&mut self.waiting);
        self.waiting.push(b'\n');
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// When it cannot be written; once for each time that the disk begins to refuse.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_out();
        match &self.failure {
            Some(error) if !self.told => {
                self.told = true;
                let text = format!("{error}; lines wait for space, {} lost so far", self.lost);
                Err(at(&self.path, &io::Error::new(error.kind(), text)))
            }
            _ => Ok(()),
        }
    }

    /// Writes what waits and gives the file its name. What does not get onto the disk now is lost.
    ///
    /// # Errors
    /// When lines were lost, now or before, with their number; or when the file cannot be renamed.
    pub fn finish(&mut self) -> io::Result<()> {
        self.write_out();
        self.lost += self.waiting.iter().filter(|&&octet| octet == b'\n').count() as u64;
        self.waiting.clear();
        if let Some(temporary) = self.temporary.take() {
            std::fs::rename(&temporary, &self.path).map_err(|error| at(&self.path, &error))?;
        }
        match std::mem::take(&mut self.lost) {
            0 => Ok(()),
            lost => {
                let (kind, why) = match &self.failure {
                    Some(error) => (error.kind(), format!(": {error}")),
                    None => (io::ErrorKind::StorageFull, " while the disk was full".to_owned()),
                };
                Err(at(&self.path, &io::Error::new(kind, format!("{lost} lines were lost{why}"))))
            }
        }
    }

    fn write_out(&mut self) {
        match self.try_write_out() {
            Ok(()) => {
                self.failure = None;
                self.told = false;
            }
            Err(error) => self.failure = Some(error),
        }
    }

    fn try_write_out(&mut self) -> io::Result<()> {
        if self.torn {
            self.store.cut(self.length)?;
            self.torn = false;
        }
        let mut done = 0;
        while let Some(rest) = self.waiting.get(done..).filter(|rest| !rest.is_empty()) {
            let outcome = match self.store.put(rest) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                outcome => outcome,
            };
            match outcome {
                Ok(octets) => done += octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.keep_whole_lines(done);
                    return Err(error);
                }
            }
        }
        self.length += done as u64;
        self.waiting.clear();
        Ok(())
    }

    /// The first `done` octets of what waits are in the file: the lines that are whole among them stay there.
    fn keep_whole_lines(&mut self, done: usize) {
        let written = self.waiting.get(..done).unwrap_or_default();
        let whole = written.iter().rposition(|&octet| octet == b'\n').map_or(0, |at| at + 1);
        self.length += whole as u64;
        self.torn = whole < done && self.store.cut(self.length).is_err();
        self.waiting.drain(..whole);
    }
}

/// The file for appending, cut after its last whole line, and its length.
fn open_repaired(path: &Path) -> io::Result<(File, u64)> {
    let mut file = open_for_appending(path)?;
    let length = file.metadata()?.len();
    let whole = whole_lines(&mut file, length)?;
    if whole < length {
        file.set_len(whole)?;
    }
    Ok((file, whole))
}

/// What is written comes right after the end, also when the file was cut meanwhile.
fn open_for_appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// The length of what ends with the last line break, searched from the end.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        file.seek(SeekFrom::Start(start))?;
        let part = block.get_mut(..(end - start) as usize).unwrap_or_default();
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|&octet| octet == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Replaces a file as a whole: whoever reads it sees the old one or the new one.
///
/// # Errors
/// When it cannot be written, with its path; the old one stays.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let outcome = std::fs::write(&temporary, content).and_then(|()| std::fs::rename(&temporary, path));
    outcome.map_err(|error| {
        // What was written of it only takes space that is needed.
        let _ = std::fs::remove_file(&temporary);
        at(path, &error)
    })
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A disk with so much room.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn new(room: usize) -> Self {
            Self(Arc::new(Mutex::new((Vec::new(), room))))
        }

        fn grow(&self, room: usize) {
            self.0.lock().unwrap().1 = room;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
        }
    }

    impl Store for Disk {
        fn put(&mut self, octets: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let n = octets.len().min(disk.1 - disk.0.len()).min(1000);
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend_from_slice(&octets[..n]);
            Ok(n)
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.0.lock().unwrap().0.truncate(length as usize);
            Ok(())
        }
    }

    fn numbered(file: &mut LineFile, from: usize, to: usize) {
        for n in from..to {
            file.line(|line| line.extend_from_slice(format!("line {n}").as_bytes()));
        }
    }

    fn expected(to: usize) -> String {
        (0..to).map(|n| format!("line {n}\n")).collect()
    }

    /// At whichever octet the disk becomes full: whole lines, an error that says so, and all of them once there
    /// is room again.
    #[test]
    fn a_full_disk_cuts_no_line_and_is_written_on_when_there_is_space() {
        for room in 0..200 {
            let disk = Disk::new(room);
            let mut file = LineFile::over("logs/x.log".into(), Box::new(disk.clone()));
            numbered(&mut file, 0, 30);
            let error = file.flush().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert!(error.to_string().starts_with("logs/x.log: "), "{error}");
            file.flush().expect("it is told once");
            let text = disk.text();
            assert!(text.is_empty() || text.ends_with('\n'), "{room}: {text:?}");
            assert!(expected(30).starts_with(&text));
            disk.grow(usize::MAX);
            numbered(&mut file, 30, 40);
            file.finish().unwrap();
            assert!(disk.text() == expected(40), "room for {room}");
        }
    }

    #[test]
    fn lines_beyond_what_may_wait_are_counted() {
        let disk = Disk::new(100);
        let mut file = LineFile::over("x.log".into(), Box::new(disk.clone()));
        let all = 400_000;
        numbered(&mut file, 0, all);
        assert!(file.waiting.len() < MOST_WAITING + 64);
        let told = file.flush().unwrap_err().to_string();
        let error = file.finish().unwrap_err().to_string();
        let written = disk.text().lines().count();
        assert!(error.contains(&format!("{} lines were lost", all - written)), "{told} / {error}");
        assert!(disk.text().ends_with('\n'));
    }

    #[test]
    fn a_cut_file_is_repaired_wherever_it_was_cut() {
        let directory = tempfile::tempdir().unwrap();
        let whole = expected(20);
        for cut in 0..=whole.len() {
            let path = directory.path().join("x.log");
            std::fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            let mut file = LineFile::open(directory.path(), "x.log", Existing::Continue).unwrap();
            let kept = whole[..cut].matches('\n').count();
            assert_eq!(file.is_empty(), kept == 0);
            numbered(&mut file, kept, 20);
            file.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_last_line_longer_than_a_block_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        std::fs::write(&path, format!("first\n{}", "x".repeat(3 * BLOCK + 1))).unwrap();
        LineFile::open(directory.path(), "x.log", Existing::Continue).unwrap().finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n");
    }

    #[test]
    fn a_replaced_file_has_its_name_only_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        std::fs::write(&path, "old\n").unwrap();
        let mut file = LineFile::open(directory.path(), "x.log", Existing::Replace).unwrap();
        numbered(&mut file, 0, 3);
        file.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\n");
        file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected(3));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = LineFile::open(Path::new("/nowhere"), "x.log", Existing::Replace).err().unwrap();
        assert!(error.to_string().starts_with("/nowhere/x.log: "), "{error}");
        assert!(replace(Path::new("/nowhere/y"), b"").unwrap_err().to_string().starts_with("/nowhere/y: "));
    }

    /// The same on a file system that is really full, where we may make one.
    #[test]
    fn a_full_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            std::process::Command::new(program).args(arguments).arg(directory.path()).output()
        };
        let mounted = run("mount", &["-t", "tmpfs", "-o", "size=16k", "weir-test"]);
        if !mounted.is_ok_and(|output| output.status.success()) {
            println!("skipped: no file system can be mounted here");
            return;
        }
        let ballast = directory.path().join("ballast");
        std::fs::write(&ballast, vec![0; 8192]).unwrap();
        let mut file = LineFile::open(directory.path(), "x.log", Existing::Replace).unwrap();
        numbered(&mut file, 0, 1200);
        let full = file.flush();
        let text = std::fs::read_to_string(directory.path().join("x.log.part")).unwrap();
        std::fs::remove_file(&ballast).unwrap();
        numbered(&mut file, 1200, 1250);
        let end = file.finish();
        let whole = std::fs::read_to_string(directory.path().join("x.log")).unwrap();
        drop(file);
        run("umount", &[]).unwrap();
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(text.ends_with('\n') && text.len() > 1000);
        assert!(expected(1200).starts_with(&text));
        end.unwrap();
        assert!(whole == expected(1250), "lines are missing or cut");
    }
}
