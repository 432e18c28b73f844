//! Files that a text names: lists, keys and tables of users in a configuration.
//!
//! Whoever writes such a text can name anything. A pipe would block whoever opens it until somebody writes, a device may have
//! no end, and files of the kernel (`/proc/kmsg`) can look regular and never end a read.

use rustix::fs::{OFlags, fstatfs};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a read, after which the time is looked at.
const PIECE: u64 = 64 << 10;
/// Maximum time for reading a file. Media can be slow, such as those of another machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Types of file systems (statfs(2), linux/magic.h) whose files are made by the kernel as they are read: proc, sysfs, debugfs,
/// tracefs, securityfs, cgroup, cgroup2, selinuxfs, bpf, pstore, configfs, efivarfs.
const OF_THE_KERNEL: [u64; 12] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
    0xf97c_ff8c,
    0xcafe_4a11,
    0x6165_676c,
    0x6265_6570,
    0xde5e_81e4,
];

/// Opens a regular file for reading. A relative path begins in `folder`.
///
/// # Errors
/// The file cannot be opened, is not a regular file, or is one of the kernel.
pub fn open_named(folder: &Path, path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK a pipe blocks until it has a writer. O_NOCTTY: a terminal does not become that of the process.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(path))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let kind = fstatfs(&file)?.f_type as u64 & 0xffff_ffff;
    if OF_THE_KERNEL.contains(&kind) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file of the kernel, which has no end"));
    }
    Ok(file)
}

/// Reads a regular file that a text names. A relative path begins in `folder`.
///
/// # Errors
/// As for [`open_named`]; or the file has more than `limit` bytes, or reading takes more than 10 s.
pub fn read_named(folder: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut file = open_named(folder, path)?;
    let mut bytes = Vec::new();
    loop {
        if (&mut file).take(PIECE).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
        // A file that grows meanwhile is read no further.
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {limit} bytes")));
        }
        if begun.elapsed() > PATIENCE {
            let text = format!("reading takes more than {} s", PATIENCE.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn regular_files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("list"), vec![b'x'; 200_000]).unwrap();
        let read = |limit| read_named(folder.path(), Path::new("list"), limit);
        assert_eq!(read(200_000).unwrap().len(), 200_000);
        assert_eq!(read(199_999).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let whole = folder.path().join("list");
        assert_eq!(read_named(Path::new("/nowhere"), &whole, 1 << 20).unwrap().len(), 200_000);
        assert_eq!(read_named(folder.path(), Path::new("x"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// None of these blocks, though nobody writes to the pipe and the files of the kernel have no end.
    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let others =
            ["/dev/zero", "/dev/stdin", "/proc/kmsg", "/proc/self/environ", "/sys/kernel/uevent_seqnum"];
        let paths =
            [pipe, link, socket, folder.path().to_owned()].into_iter().chain(others.map(PathBuf::from));
        for path in paths.filter(|path| path.exists()) {
            assert!(read_named(Path::new(""), &path, 1 << 20).is_err(), "{}", path.display());
        }
    }
}
