//! Messages between a run and a process that sends: the number of bytes in four bytes, the most significant first, then these
//! bytes.

use std::io::{self, Read, Write};

/// Maximum bytes of a message. An event is a few thousand, settings have the certificates of a system.
pub const MAX: usize = 8 << 20;

/// Writes a message.
///
/// # Errors
/// It has more than [`MAX`] bytes, or the other end is closed.
pub fn write(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|_| message.len() <= MAX);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(message)
}

/// Reads a message; `None` if the other end is closed.
///
/// # Errors
/// The message is not whole or too long, or the other end fails.
pub fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message)?;
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        for message in [&b""[..], b"one", &[7; 70_000]] {
            write(&mut bytes, message).unwrap();
        }
        let mut from = bytes.as_slice();
        assert_eq!(read(&mut from).unwrap().unwrap(), b"");
        assert_eq!(read(&mut from).unwrap().unwrap(), b"one");
        assert_eq!(read(&mut from).unwrap().unwrap(), [7; 70_000]);
        assert_eq!(read(&mut from).unwrap(), None);
        assert!(read(&mut &bytes[4..9]).is_err(), "cut");
        assert!(read(&mut &[0xff; 9][..]).is_err(), "too long");
        assert!(write(&mut bytes, &vec![0; MAX + 1]).is_err());
    }
}
