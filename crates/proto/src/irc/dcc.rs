//! Files over DCC: the connecting side receives the file and acknowledges its length in four bytes.

use crate::file::{About, File, Files};
use crate::{Out, Parser, Probe, Protocol, Setup, Step, Transport};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "irc_dcc",
    help: "Files between clients of Internet Relay Chat (DCC SEND), as the chat announces them.",
    transport: Transport::Tcp,
    ports: &[],
    // The content can be anything: only the chat identifies the flow.
    probe: |_| Probe::Reject,
    parser: |setup| Box::new(Dcc::new(setup, Vec::new(), None)),
    tables: &[],
    buffers: &[],
};

pub(super) struct Dcc {
    files: Files,
    name: Vec<u8>,
    size: Option<u64>,
    file: Option<File>,
    has_gap: bool,
}

impl Dcc {
    pub fn new(setup: &Setup, name: Vec<u8>, size: Option<u64>) -> Self {
        Self { files: Files::new(setup), name, size, file: None, has_gap: false }
    }
}

impl Parser for Dcc {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.direction == Direction::Forward {
            return Step::Next;
        }
        let about = About {
            source: "IRC_DATA",
            protocol: "irc_dcc",
            direction: chunk.direction,
            transaction: 0,
            depth: 0,
            filename: Some(&self.name).filter(|name| !name.is_empty()).map(Vec::as_slice),
            path: None,
            declared: None,
            total: self.size,
        };
        let file = self.file.get_or_insert_with(|| self.files.open(chunk.time, about));
        if chunk.gap > 0 {
            file.gap(chunk.gap);
            self.has_gap = true;
        }
        file.bytes(chunk.data, chunk.time, out);
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        out.rest(Direction::Reverse);
        if let Some(file) = self.file.take() {
            let is_whole = !self.has_gap && self.size.is_none_or(|size| file.seen() >= size);
            file.close(is_whole, out);
        }
    }

    fn memory(&self) -> usize {
        self.name.capacity() + self.file.as_ref().map_or(0, File::memory)
    }
}
