//! What is odd about the windows of receivers, and about FINs and RSTs in great number.
//!
//! The flow table has no room for windows in the lines that each packet touches, so these values are beside it, for those that
//! ask what is odd. The conditions are Zeek's (`update_window` and `init_window` of `TCPSessionAdapter.cc`; `tcp_storm_thresh` and
//! `tcp_storm_interarrival_thresh` of `init-bare.zeek`).

use crate::oddity::{Oddities, Oddity};
use crate::tcp_options::{MAX_SCALE, window_scale};
use crate::{FlowPacket, Rows};
use weir_wire::build::flags::{ACK, FIN, RST, SYN};
use weir_wire::{Direction, Reader, Time};

/// From this number on, FINs or RSTs of one endpoint are a storm.
const STORM: u16 = 1000;
/// Nanoseconds in which the endpoint sent its last segment before one of a storm.
const STORM_GAP: u64 = 1_000_000_000;

/// The window that an endpoint announced last, as a receiver.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Sequence number and acknowledgement of the segment that announced it. Until a segment or a window scale is seen they
    /// are 0, as in Zeek: windows of a stream in the upper half of the numbers are then not looked at.
    seq: u32,
    ack: u32,
    /// Bytes from `ack` on that it takes.
    window: u32,
    scale: u8,
    /// Whether it sent a FIN or RST: receivers that end often shrink their windows.
    has_ended: bool,
    fins: u16,
    rsts: u16,
    /// Time of its last segment.
    last: Time,
}

/// The windows of open connections.
#[derive(Debug, Default)]
pub struct Windows {
    flows: Rows<Flow>,
}

/// The state of a connection.
#[derive(Debug, Default)]
struct Flow {
    /// The initiator first.
    ends: [End; 2],
    /// What was told.
    told: Oddities,
}

impl Windows {
    /// Takes a packet that was counted to a flow. Returns what is odd about it and was not told of the flow.
    #[inline]
    pub fn packet(&mut self, seen: &FlowPacket<'_>) -> Option<Oddities> {
        if seen.layers.ip_proto != 6 {
            return None;
        }
        let segment = seen.segment()?;
        let mut header = Reader::new(seen.packet.data.get(seen.layers.transport as usize + 14..)?);
        let window = u32::from(header.u16()?);
        let Flow { ends: [first, second], told } = self.flows.make(seen.row)?;
        let (me, you) = if seen.direction == Direction::Forward { (first, second) } else { (second, first) };
        let (flags, seq, ack) = (segment.flags, segment.seq, segment.ack.unwrap_or_default());
        let mut oddities = Oddities::default();
        if flags & (SYN | FIN | RST) == 0 {
            oddities.note(Oddity::WindowRecision, !me.has_ended && me.shrinks(seq, ack, window << me.scale));
        } else {
            me.control(you, seen, (flags, seq, ack), &mut oddities);
        }
        me.last = segment.time;
        if oddities.is_empty() { None } else { Some(told.add(oddities)) }
    }

    /// Forgets the flow of a row.
    pub fn end(&mut self, row: u32) {
        if let Some(flow) = self.flows.get_mut(row) {
            *flow = Flow::default();
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.flows.memory()
    }
}

impl End {
    /// Takes a window in bytes. Returns whether the peer may no longer send what it was allowed to.
    #[inline]
    fn shrinks(&mut self, seq: u32, ack: u32, window: u32) -> bool {
        // A segment from before the last one says nothing.
        if (seq.wrapping_sub(self.seq) as i32) < 0 || (ack.wrapping_sub(self.ack) as i32) < 0 {
            return false;
        }
        let before = self.ack.wrapping_add(self.window);
        let advance = ack.wrapping_add(window).wrapping_sub(before) as i32;
        (self.seq, self.ack, self.window) = (seq, ack, window);
        // A scaled window is rounded down to a multiple of its unit.
        advance <= -(1 << self.scale)
    }

    /// Takes a segment with SYN, FIN or RST: its flags, its sequence number and its acknowledgement.
    #[cold]
    fn control(
        &mut self,
        peer: &mut Self,
        seen: &FlowPacket<'_>,
        (flags, seq, ack): (u8, u32, u32),
        oddities: &mut Oddities,
    ) {
        if flags & SYN != 0 {
            let header = seen.packet.data.get(seen.layers.transport as usize..seen.layers.payload as usize);
            match header.and_then(window_scale) {
                Some(scale) => {
                    self.scale = scale.min(MAX_SCALE);
                    (self.seq, self.ack) = (seq, ack);
                    (peer.seq, peer.ack) = (ack, seq);
                }
                None => {
                    // An answer without the option ends scaling in both directions.
                    self.scale = 0;
                    if flags & ACK != 0 {
                        peer.scale = 0;
                    }
                }
            }
        }
        let is_soon = seen.packet.time.since(self.last) < STORM_GAP;
        for (flag, count, oddity) in
            [(FIN, &mut self.fins, Oddity::FinStorm), (RST, &mut self.rsts, Oddity::RstStorm)]
        {
            if flags & flag != 0 {
                *count = count.saturating_add(1);
                oddities.note(oddity, *count >= STORM && is_soon);
                self.has_ended = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowIdentity;
    use weir_wire::build::{self, flags};
    use weir_wire::{FlowKey, LinkType, Packet, decode};

    const OPTION: [u8; 4] = [1, 3, 3, 7];

    /// A segment: its side, flags, number, acknowledgement, window and options.
    type Sent<'a> = (Direction, u8, u32, u32, u16, &'a [u8]);

    /// The names that segments of one connection have, each one millisecond after the one before.
    fn odd(segments: &[Sent<'_>]) -> Vec<(usize, &'static str)> {
        let (mut windows, mut all) = (Windows::default(), Vec::new());
        for (at, &(direction, flags, seq, ack, window, options)) in segments.iter().enumerate() {
            let ip = build::ip().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
            let tcp = ip.tcp(1, 2, flags).seq(seq).ack(ack).window(window).options(options);
            let data = tcp.payload(b"");
            let time = Time(9_000_000_000 + at as u64 * 1_000_000);
            let packet = Packet { time, ..build::packet(&data, LinkType::RAW) };
            let layers = decode(&packet);
            let (key, initiator_is_lower) = FlowKey::of(&packet, &layers).unwrap();
            let flow = FlowIdentity { key, initiator_is_lower, first: time, vlan: layers.vlan, alias: 0 };
            let seen = FlowPacket { row: 3, flow, direction, packet: &packet, layers: &layers };
            let odd = windows.packet(&seen);
            all.extend(odd.iter().flat_map(|odd| odd.names()).map(|name| (at, name)));
        }
        all
    }

    #[test]
    fn a_window_shrinks_by_at_least_one_unit_of_its_scale() {
        use Direction::{Forward as A, Reverse as B};
        const SHRINKS: [(usize, &str); 1] = [(4, "window_recision")];
        let (syn, ack) = (flags::SYN, flags::ACK);
        let open = [(A, syn, 99, 0, 9, &OPTION[..]), (B, syn | ack, 499, 100, 9, &OPTION[..])];
        let plain = [(A, syn, 99, 0, 9, &[][..]), (B, syn | ack, 499, 100, 9, &[][..])];
        let after = |open: &[_; 2], more: &[_]| odd(&[&open[..], more].concat());
        let of = |ack: u32, window: u16| (A, flags::ACK, 100, ack, window, &[][..]);
        let first = of(500, 20);
        assert_eq!(after(&open, &[first, of(500, 30), of(500, 29)]), SHRINKS);
        // The edge stays, or moves by less than a unit, while the window gets smaller.
        assert_eq!(after(&open, &[first, of(628, 20), of(756, 19), of(883, 18)]), []);
        assert_eq!(after(&open, &[first, of(628, 20), of(755, 18)]), SHRINKS);
        assert_eq!(after(&plain, &[first, of(500, 30), of(500, 29)]), SHRINKS);
        assert_eq!(after(&plain, &[first, of(510, 30), of(511, 29), of(500, 1)]), [], "an old segment");
        // The peer's window is another one.
        assert_eq!(after(&plain, &[first, (B, ack, 500, 100, 5, &[][..]), of(500, 20)]), []);
        for flag in [flags::FIN, flags::RST] {
            let end = (A, flag | ack, 100, 500, 0, &[][..]);
            assert_eq!(after(&plain, &[first, end, of(500, 1)]), [], "{flag}");
        }
        // One side alone does not scale.
        let half = [open[0], plain[1]];
        assert_eq!(after(&half, &[first, of(500, 30), of(500, 29)]), SHRINKS);
    }

    #[test]
    fn a_thousand_fins_or_rsts_are_a_storm() {
        for (flag, name) in [(flags::FIN, "FIN_storm"), (flags::RST, "RST_storm")] {
            let mut all = vec![(Direction::Forward, flag | flags::ACK, 100, 500, 9, &[][..]); 999];
            assert_eq!(odd(&all), []);
            all.push(all[0]);
            assert_eq!(odd(&all), [(999, name)]);
            // Those of the other side are counted for themselves.
            all[7].0 = Direction::Reverse;
            assert_eq!(odd(&all), []);
        }
    }
}
