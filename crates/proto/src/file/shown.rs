//! What rules see of a file: its name, its kind and its first bytes.
//!
//! All of it is emitted at once, when the file has ended or enough of it was received: files that are received side by side do not
//! mix.

use super::{HEAD, magic};
use crate::{Buffer, Out};
use weir_wire::Direction;

pub(crate) static NAME: Buffer =
    Buffer::whole("file.name", "Name of a file that the sender declares, or else the path of the request.");
pub(crate) static MAGIC: Buffer = Buffer::whole(
    "file.magic",
    "Kind of a file by its first bytes, in words that begin like those of libmagic.",
);
pub(crate) static DATA: Buffer =
    Buffer::stream("file.data", "First 100 KiB of a file, decoded. Bodies of HTTP have their own buffers.");

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
    /// Whether everything was emitted.
    is_over: bool,
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
        let is_asked = has_data || asked.has(&NAME) || asked.has(&MAGIC);
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
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let first = std::mem::take(&mut self.first);
        if first.is_empty() {
            return;
        }
        let (asked, side) = (out.asked(), facts.side);
        if let Some(name) = facts.name {
            out.emit(&NAME, side, name);
        }
        if asked.has(&MAGIC) {
            let words = if self.is_headless {
                magic::UNKNOWN.into()
            } else {
                magic::words(first.get(..HEAD).unwrap_or(&first))
            };
            out.buffer(&MAGIC, side, words.as_bytes());
        }
        if self.sight == Sight::Content && asked.has(&DATA) {
            out.buffer(&DATA, side, &first);
            out.buffer(&DATA, side, b"");
        }
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.first.capacity()
    }
}
