//! Files beside rules: classes, systems of references, messages and thresholds.

use super::super::files::MAX_FILE;
use super::sources::{BESIDE, SourceFile};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The file of the user's own lines. One that is there stays.
const OF_USER: &str = "threshold.config";

/// A file to write beside the merged rules.
pub struct BesideFile {
    /// Its path.
    pub path: PathBuf,
    /// What it has.
    pub bytes: Vec<u8>,
}

/// Files that are written, and paths of those that stay although sources have others.
#[derive(Default)]
pub struct BesideFiles {
    /// Files that have other bytes than what is there.
    pub written: Vec<BesideFile>,
    /// Files that stay.
    pub kept: Vec<PathBuf>,
}

impl BesideFiles {
    /// What the sources have, for a directory. Files with one name of several sources become one.
    pub fn of(sources: &[SourceFile], directory: &Path) -> Self {
        let mut files = Self::default();
        for name in BESIDE {
            let named =
                |file: &&SourceFile| Path::new(&file.name).file_name().is_some_and(|last| last == name);
            let parts: Vec<&[u8]> = sources.iter().filter(named).map(|file| &*file.bytes).collect();
            let path = directory.join(name);
            if parts.is_empty() {
                continue;
            }
            let (bytes, old) = (joined(&parts), weir_files::read_named(Path::new(""), &path, MAX_FILE));
            match old {
                Ok(old) if old == bytes => {}
                Ok(_) if name == OF_USER => files.kept.push(path),
                _ => files.written.push(BesideFile { path, bytes }),
            }
        }
        files
    }
}

/// The first file, and the lines of others that say something of which the files before have nothing.
fn joined(files: &[&[u8]]) -> Vec<u8> {
    let (mut text, mut known) = (Vec::new(), HashSet::new());
    for (number, file) in files.iter().enumerate() {
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        for line in file.split_inclusive(|byte| *byte == b'\n') {
            let is_new = known.insert(key(line).to_vec());
            if number == 0 || (is_new && !line.trim_ascii().is_empty() && !line.starts_with(b"#")) {
                text.extend_from_slice(line);
            }
        }
    }
    text
}

/// What a line is about: the name of a class or of a system of references; else the line itself.
fn key(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    let Some(value) =
        line.strip_prefix(b"config ").and_then(|rest| rest.splitn(2, |byte| *byte == b':').nth(1))
    else {
        return line;
    };
    value.trim_ascii().split(|byte| b", \t".contains(byte)).next().unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_several_sources_become_one_file() {
        let first: &[u8] = b"# classes\nconfig classification: a,A,1\nconfig classification: b,B,2";
        let second: &[u8] = b"# more\nconfig classification: b,Other,3\r\nconfig classification:c,C,3\n";
        let text = String::from_utf8(joined(&[first, second])).unwrap();
        let expected = "# classes\nconfig classification: a,A,1\nconfig classification: b,B,2\nconfig classification:c,C,3\n";
        assert_eq!(text, expected);
        assert_eq!(joined(&[first]), first);
    }
}
