//! The bytes that go through pipes, as calls of DCE/RPC.

use super::{Fid, RELATED, Smb};
use crate::dce_rpc::pdu::{HEADER, Header, may_begin};
use crate::dce_rpc::{self, Calls, Carrier, Sent};
use crate::frames::{Frames, Size};
use crate::work::looked_at;
use crate::{Out, Span};
use std::collections::BTreeMap;
use weir_wire::Direction;
use weir_wire::stream::Chunk;

/// Maximum number of open pipes whose calls are read.
const MAX_PIPES: usize = 64;

/// The pipes that carry calls.
#[derive(Default)]
pub(super) struct Pipes(BTreeMap<Fid, Pipe>);

/// The calls in a pipe, and the bytes of both sides.
struct Pipe {
    calls: Calls,
    client: Side,
    server: Side,
}

/// The packet of a side that is incomplete, and the messages that its beginning is in.
#[derive(Default)]
struct Side {
    frames: Frames,
    begun: Span,
}

impl Side {
    fn forget(&mut self) {
        self.frames.forget();
        self.begun = Span::default();
    }
}

impl Default for Pipe {
    fn default() -> Self {
        Self { calls: Calls::new(Carrier::Pipe), client: Side::default(), server: Side::default() }
    }
}

impl Smb {
    /// Takes bytes that are written to a pipe or read from it, of which there are `bytes`: the end of them may be missing. `at` has the
    /// messages that they are in.
    pub(super) fn through_pipe(
        &mut self,
        fid: &Fid,
        (data, bytes): (&[u8], usize),
        at: Span,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) {
        if *fid != RELATED {
            let sent = Sent { side: chunk.direction, time: chunk.time, at };
            self.pipes.take(fid, data, data.len() < bytes, sent, out);
        }
    }
}

impl Pipes {
    fn take(&mut self, fid: &Fid, mut data: &[u8], is_cut: bool, sent: Sent, out: &mut dyn Out) {
        if !self.0.contains_key(fid) {
            if Header::read(data).is_none() || self.0.len() == MAX_PIPES {
                return;
            }
            out.carries(&dce_rpc::PROTOCOL);
        }
        let Pipe { calls, client, server } = self.0.entry(*fid).or_default();
        let side = if sent.side == Direction::Forward { client } else { server };
        // Of a packet whose rest was lost only the beginning is here.
        if Header::read(data).is_some() {
            side.forget();
        }
        while !data.is_empty() {
            let mut at = std::mem::take(&mut side.begun);
            at.add(sent.at);
            // Other bytes, as after the lost beginning of a packet, are skipped.
            let taken = side.frames.next(&mut data, size, |packet, _| {
                if Header::read(packet).is_some() {
                    calls.take(packet, Sent { at, ..sent }, out);
                }
            });
            if taken.is_none() {
                side.begun = at;
                break;
            }
        }
        if is_cut {
            side.forget();
            calls.miss(sent.side);
        }
    }

    /// Takes note that messages of a side are missing.
    pub fn miss(&mut self, side: Direction) {
        looked_at(self.0.len());
        self.0.values_mut().for_each(|pipe| pipe.calls.miss(side));
    }

    /// Emits the calls without an answer of a pipe that is closed.
    pub fn close(&mut self, fid: &Fid, out: &mut dyn Out) {
        if let Some(mut pipe) = self.0.remove(fid) {
            pipe.calls.end(out);
        }
    }

    /// Emits the calls without an answer of all pipes.
    pub fn end(&mut self, out: &mut dyn Out) {
        for mut pipe in std::mem::take(&mut self.0).into_values() {
            pipe.calls.end(out);
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        let pipe = |pipe: &Pipe| {
            size_of::<(Fid, Pipe)>()
                + pipe.calls.memory()
                + pipe.client.frames.memory()
                + pipe.server.frames.memory()
        };
        self.0.values().map(pipe).sum()
    }
}

/// The length of a packet, or of other bytes up to the end of those that are here.
fn size(head: &[u8]) -> Size {
    match Header::read(head) {
        Some(header) => Size::Bytes(header.length),
        None if head.len() < HEADER && may_begin(head) => Size::Within(HEADER),
        None => Size::Bytes(head.len()),
    }
}
