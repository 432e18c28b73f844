//! The mode of files and folders.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Which of owner, group and others may read and write a file (chmod(2)).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mode(u32);

/// A text that is no mode of a file.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is no mode of a file: three octal digits such as 600, 640 or 0660, where the owner may read and write"
)]
pub struct ModeError(String);

impl Mode {
    /// The owner alone.
    pub const PRIVATE: Mode = Mode(0o600);

    /// The permission bits of a file.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The permission bits of a folder: whoever may read files may also enter it.
    pub fn folder(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }

    /// The umask(2) that gives files of libraries, such as those of SQLite, no more than this mode.
    pub fn umask(self) -> u32 {
        0o777 & !self.folder()
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let bits = u32::from_str_radix(text, 8).ok();
        let bits = bits.filter(|bits| bits & 0o600 == 0o600 && bits & !0o666 == 0);
        match bits {
            Some(bits) if (3..=4).contains(&text.len()) && !text.starts_with('+') => Ok(Mode(bits)),
            _ => Err(ModeError(text.to_owned())),
        }
    }
}

/// The mode is a property of the process, as the umask is: each file that any part of the program makes has it.
static MODE: AtomicU32 = AtomicU32::new(Mode::PRIVATE.0);

/// The mode of files that are made from now on.
pub fn mode() -> Mode {
    Mode(MODE.load(Ordering::Relaxed))
}

/// Sets the mode of files that are made from now on, and the umask, which holds for files that libraries make.
pub fn set_mode(mode: Mode) {
    MODE.store(mode.0, Ordering::Relaxed);
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(mode.umask()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        for (text, bits, folder, umask) in [
            ("600", 0o600, 0o700, 0o077),
            ("0640", 0o640, 0o750, 0o027),
            ("660", 0o660, 0o770, 0o007),
            ("0644", 0o644, 0o755, 0o022),
        ] {
            let mode: Mode = text.parse().unwrap();
            assert_eq!((mode.bits(), mode.folder(), mode.umask()), (bits, folder, umask), "{text}");
        }
        for text in ["", "0", "6", "60", "400", "0777", "4600", "608", "00600", "+600", "u=rw", "-600"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }
}
