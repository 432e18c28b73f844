//! The system calls that read a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Reads at most `max` bytes at an offset of a regular file to the end of `out`.
pub(crate) fn read_at(file: &File, out: &mut Vec<u8>, max: usize, at: u64) -> io::Result<usize> {
    loop {
        match read_spare(file, out, max, Some(at)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Makes one read(2), or one pread(2) at an offset, of at most `max` bytes to the end of `out`.
#[allow(unsafe_code)]
pub(crate) fn read_spare(file: &File, out: &mut Vec<u8>, max: usize, at: Option<u64>) -> io::Result<usize> {
    out.reserve(max);
    let spare = out.spare_capacity_mut();
    let max = max.min(spare.len());
    let (from, to) = (file.as_raw_fd(), spare.as_mut_ptr().cast());
    // SAFETY: `spare` is writable memory of at least `max` bytes that belongs to `out`, and both calls write at most that many
    // into it. Read::read() would want it zeroed first: 4 ns per packet.
    let count = unsafe {
        match at {
            Some(at) => libc::pread(from, to, max, at as libc::off_t),
            None => libc::read(from, to, max),
        }
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the call has written the first `count` bytes after the old length.
    unsafe { out.set_len(out.len() + count) };
    Ok(count)
}
