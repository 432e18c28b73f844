//! What rules see of a file: its name, its kind and its first bytes, and at its end its size and checksums.
//!
//! Name, kind and first bytes are emitted at once, when the file has ended or enough of it was received: files that are received side
//! by side do not mix. For this reason they are emitted again after the size and the checksums, if these are asked for.

use super::{HEAD, Hex, magic};
use crate::{Asked, Buffer, Out};
use weir_wire::Direction;

pub(crate) static NAME: Buffer =
    Buffer::whole("file.name", "Name of a file that the sender declares, or else the path of the request.");
pub(crate) static MAGIC: Buffer = Buffer::whole(
    "file.magic",
    "Kind of a file by its first bytes, in words that begin like those of libmagic.",
);
pub(crate) static DATA: Buffer =
    Buffer::stream("file.data", "First 100 KiB of a file, decoded. Bodies of HTTP have their own buffers.");

pub(crate) static MIN_SIZE: Buffer = Buffer::number(
    "file.least_size",
    "Bytes of a file up to the last one that was received, whether or not it has ended.",
);
pub(crate) static SIZE: Buffer = Buffer::number("file.size", "Size of a file that has ended, in bytes.");
pub(crate) static MD5: Buffer =
    Buffer::whole("file.md5", "MD5 of a file that was received whole, in lower-case hexadecimal digits.");
pub(crate) static SHA1: Buffer =
    Buffer::whole("file.sha1", "SHA-1 of a file that was received whole, in lower-case hexadecimal digits.");
pub(crate) static SHA256: Buffer = Buffer::whole(
    "file.sha256",
    "SHA-256 of a file that was received whole, in lower-case hexadecimal digits.",
);

/// Whether anything is asked for that is known at the end of a file.
fn is_end_asked(asked: Asked) -> bool {
    [&MIN_SIZE, &SIZE, &MD5, &SHA1, &SHA256].into_iter().any(|buffer| asked.has(buffer))
}

/// Maximum number of bytes of a file that rules see: Suricata's limit of bodies.
const MOST: usize = 100 << 10;

/// What of a file rules see.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Sight {
    /// Name, kind and first bytes.
    #[default]
    Content,
    /// Name and kind: its bytes are those of a body, which has its own buffer.
    Head,
    /// Nothing: its bytes are those of other files.
    Nothing,
}

/// The beginning of a file as rules see it.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub sight: Sight,
    first: Vec<u8>,
    /// Whether bytes before the first ones are missing.
    is_headless: bool,
    /// Whether bytes after the first ones are missing.
    is_cut: bool,
    /// Whether everything was emitted that does not need the end of the file.
    is_over: bool,
}

/// What is known at the end of a file.
#[derive(Clone, Copy)]
pub(super) struct Ended<'a> {
    /// Bytes up to the last one that was received.
    pub size: u64,
    /// Whether its end was seen and no byte is missing.
    pub is_whole: bool,
    pub sums: &'a Hex,
}

/// The facts about the file.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub name: Option<&'a [u8]>,
    /// The sending side.
    pub side: Direction,
    /// Bytes of the file that were seen before the present ones.
    pub seen: u64,
}

impl Shown {
    /// Takes the next bytes.
    pub fn bytes(&mut self, facts: Facts<'_>, bytes: &[u8], out: &mut dyn Out) {
        if self.is_over || self.sight == Sight::Nothing {
            return;
        }
        let asked = out.asked();
        let has_data = self.sight == Sight::Content && asked.has(&DATA);
        let is_asked = has_data || asked.has(&NAME) || asked.has(&MAGIC) || is_end_asked(asked);
        // What began before it was asked for is not emitted.
        if !is_asked || facts.seen != self.first.len() as u64 {
            return;
        }
        if self.is_cut {
            return self.end(facts, out);
        }
        let most = if has_data { MOST } else { HEAD };
        let room = most.saturating_sub(self.first.len());
        self.first.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if self.first.len() >= most {
            self.end(facts, out);
        }
    }

    /// Takes note that bytes are missing: what follows is not joined to what was before.
    pub fn gap(&mut self) {
        match self.first.is_empty() {
            true => self.is_headless = true,
            false => self.is_cut = true,
        }
    }

    /// The file has no further bytes that rules see.
    pub fn end(&mut self, facts: Facts<'_>, out: &mut dyn Out) {
        if std::mem::replace(&mut self.is_over, true) || self.first.is_empty() {
            return;
        }
        self.emit(facts, out, false);
        if !is_end_asked(out.asked()) {
            self.first = Vec::new();
        }
    }

    /// The file is closed, after [`Self::end`].
    pub fn close(&mut self, facts: Facts<'_>, ended: Ended<'_>, out: &mut dyn Out) {
        let asked = out.asked();
        if self.first.is_empty() || !is_end_asked(asked) {
            return;
        }
        let side = facts.side;
        out.emit_number(&MIN_SIZE, side, ended.size);
        if ended.is_whole {
            out.emit_number(&SIZE, side, ended.size);
            let Hex { md5, sha1, sha256 } = ended.sums;
            for (buffer, sum) in [(&MD5, md5), (&SHA1, sha1), (&SHA256, sha256)] {
                if let Some(sum) = sum {
                    out.emit(buffer, side, sum.as_bytes());
                }
            }
        }
        self.emit(facts, out, true);
        self.first = Vec::new();
    }

    /// Emits name, kind and first bytes, perhaps once more.
    fn emit(&self, facts: Facts<'_>, out: &mut dyn Out, again: bool) {
        let asked = out.asked();
        let mut emit = |buffer: &'static Buffer, bytes: &[u8]| match again {
            _ if !asked.has(buffer) => {}
            true => out.buffer_again(buffer, facts.side, bytes),
            false => out.buffer(buffer, facts.side, bytes),
        };
        if let Some(name) = facts.name {
            emit(&NAME, name);
        }
        if asked.has(&MAGIC) {
            let words = if self.is_headless {
                magic::UNKNOWN.into()
            } else {
                magic::words(self.first.get(..HEAD).unwrap_or(&self.first))
            };
            emit(&MAGIC, words.as_bytes());
        }
        if self.sight == Sight::Content {
            emit(&DATA, &self.first);
            emit(&DATA, b"");
        }
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.first.capacity()
    }
}
