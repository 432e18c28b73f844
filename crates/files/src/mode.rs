//! The mode of files and folders.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Permission bits of a file for its owner, its group and others (chmod(2)).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mode(u32);

/// The text is not a valid file mode.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is not a file mode: expected three octal digits such as 600, 640 or 0660, with which the owner may read and write"
)]
pub struct ModeError(String);

impl Mode {
    /// Read and write permission for the owner alone (0600).
    pub const PRIVATE: Mode = Mode(0o600);

    /// The permission bits of a file.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The permission bits of a folder: everyone who may read its files may also enter it.
    pub fn folder(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }

    /// The umask(2) that limits files created by libraries, such as SQLite's, to this mode.
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

/// The mode is a property of the process, as the umask is: it applies to each file that any part of the program
/// creates.
static MODE: AtomicU32 = AtomicU32::new(Mode::PRIVATE.0);

/// The mode of files created from now on.
pub fn mode() -> Mode {
    Mode(MODE.load(Ordering::Relaxed))
}

/// Sets the mode of files created from now on, and the umask, which applies to files that libraries create.
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
