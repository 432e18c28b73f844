//! The packets of a conversation. Client and server take turns.

use super::packet::{HEADER, header};
use super::state::State;
use crate::Out;
use crate::frames::Size;
use crate::turns::{MAX_HELD, Next, Turns};
use weir_wire::Direction;
use weir_wire::stream::Chunk;

/// Number of bytes that show whether a packet begins: its header and the first byte.
const BEGIN: usize = HEADER + 1;

impl Turns for State {
    type Phase = ();

    fn phase(&self, _: Direction) -> Self::Phase {}

    fn size(_: Self::Phase, _: Direction, head: &[u8]) -> Size {
        match header(head) {
            Some((length, _)) => Size::Bytes((HEADER + length).min(MAX_HELD)),
            None => Size::Within(HEADER),
        }
    }

    fn begins(&mut self, side: Direction, head: &[u8], out: &mut dyn Out) -> Option<bool> {
        head.first_chunk::<BEGIN>().map(|head| self.takes_up(side, head, out))
    }

    fn message(
        &mut self,
        _: Self::Phase,
        packet: &[u8],
        unread: usize,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> (usize, Next) {
        out.message(unread);
        let length = header(packet).map_or(0, |(length, _)| HEADER + length);
        (length.saturating_sub(packet.len()), self.packet(packet, chunk, out))
    }

    fn miss(&mut self, side: Direction) {
        self.miss_of(side);
    }

    fn finish(&mut self, out: &mut dyn Out) {
        self.end(out);
    }

    fn memory(&self) -> usize {
        self.held()
    }
}
