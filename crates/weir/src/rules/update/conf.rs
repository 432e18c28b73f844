//! The files disable.conf, enable.conf, drop.conf and modify.conf: a line each, whose faults are named together.

use super::modification::Modification;
use super::selection::Selection;
use crate::exit::Exit;
use std::path::PathBuf;

/// Maximum size of such a file.
const MAX_CONF: u64 = 16 << 20;

/// A line that was read.
#[derive(Debug)]
pub struct Line<T> {
    /// `disable.conf:3`.
    pub place: String,
    /// What it says.
    pub says: T,
    /// The number of rules on which it had an effect, or that it names.
    pub uses: usize,
}

/// The lines of all files that an option names.
pub type Lines<T> = Vec<Line<T>>;

/// What is done with rules, in this order.
pub struct Confs {
    /// Rules that are switched off.
    pub disable: Lines<Selection>,
    /// Rules that are switched on.
    pub enable: Lines<Selection>,
    /// Rules whose `alert` becomes `drop`.
    pub drop: Lines<Selection>,
    /// Rules whose text is changed.
    pub modify: Lines<Modification>,
}

/// Lines of files that name rules.
///
/// # Errors
/// A file cannot be read, or lines are wrong: the exit code and the reasons, a line each.
pub fn selections(files: &[PathBuf]) -> Result<Lines<Selection>, (Exit, String)> {
    // A comment may follow on the line.
    lines(files, |line| Selection::new(line.split(" #").next().unwrap_or_default()))
}

/// Lines of files that change rules.
///
/// # Errors
/// As for [`selections`].
pub fn modifications(files: &[PathBuf]) -> Result<Lines<Modification>, (Exit, String)> {
    lines(files, Modification::new)
}

fn lines<T>(files: &[PathBuf], read: impl Fn(&str) -> Result<T, String>) -> Result<Lines<T>, (Exit, String)> {
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    for file in files {
        let bytes = weir_files::read_named("".as_ref(), file, MAX_CONF)
            .map_err(|error| (Exit::Unreadable, format!("{}: {error}", file.display())))?;
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let place = format!("{}:{}", file.display(), number + 1);
            let says =
                std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned()).and_then(&read);
            match says {
                Ok(says) => lines.push(Line { place, says, uses: 0 }),
                Err(reason) => faults.push(format!("{place}: {reason}")),
            }
        }
    }
    if faults.is_empty() { Ok(lines) } else { Err((Exit::Usage, faults.join("\n"))) }
}
