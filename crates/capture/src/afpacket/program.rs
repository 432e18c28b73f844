//! Classic BPF programs for the kernel: a socket's packet filter, and the steering of packets to workers.
//!
//! Steering must keep both directions of an address pair, all its fragments and all its tunnelled packets on one
//! worker. It therefore uses only the outermost IP addresses. The kernel's own flow hash (PACKET_FANOUT_HASH) also
//! uses the ports, which later fragments lack, and the innermost addresses of tunnels that the kernel decodes.

use weir_wire::STEER_MULTIPLIER;

use super::SockFilter;

// Instruction codes (linux/bpf_common.h).
const LDW_ABS: u16 = 0x20;
const LDH_ABS: u16 = 0x28;
const LDB_ABS: u16 = 0x30;
const LDW_IND: u16 = 0x40;
const LDH_IND: u16 = 0x48;
const LDB_IND: u16 = 0x50;
const LD_IMM: u16 = 0x00;
const LD_MEM: u16 = 0x60;
const LDX_IMM: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const LDX_LEN: u16 = 0x81;
const LDX_MSH: u16 = 0xb1;
const LD_LEN: u16 = 0x80;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ADD_X: u16 = 0x0c;
const MUL_K: u16 = 0x24;
const RSH_K: u16 = 0x74;
const XOR_X: u16 = 0xac;
const JEQ_K: u16 = 0x15;
const JGT_K: u16 = 0x25;
const JSET_K: u16 = 0x45;
const JA: u16 = 0x05;
const RET_K: u16 = 0x06;
const RET_A: u16 = 0x16;
const TAX: u16 = 0x07;

/// Loads at or above this offset read metadata of the packet (linux/filter.h, SKF_AD_OFF).
const FACT: u32 = libc::SKF_AD_OFF as u32;
/// Loads at or above this offset are relative to the link-layer header, wherever the kernel's view of the packet
/// starts.
const LINK: u32 = libc::SKF_LL_OFF as u32;
/// Loads at or above this offset are relative to the network header.
const NETWORK: u32 = libc::SKF_NET_OFF as u32;

/// The lowest of these offsets; no packet is that long.
const FACTS_AND_HEADERS: u32 = LINK;

const fn op(code: u16, k: u32) -> SockFilter {
    SockFilter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code, jt, jf, k }
}

/// A filter that rejects every packet.
pub(super) const NOTHING: [SockFilter; 1] = [op(RET_K, 0)];

/// The socket filter for an expression's program, or for all packets if `filter` is `None`; packets are cut to
/// `snaplen` bytes.
///
/// The loopback interface shows each packet twice, outgoing and incoming. The filter rejects the first, as libpcap
/// does.
pub(super) fn gate(filter: Option<&[SockFilter]>, snaplen: u32) -> Vec<SockFilter> {
    let mut program = vec![
        op(LDH_ABS, FACT + libc::SKF_AD_HATYPE as u32),
        jump(JEQ_K, u32::from(libc::ARPHRD_LOOPBACK), 0, 3),
        op(LDW_ABS, FACT + libc::SKF_AD_PKTTYPE as u32),
        jump(JEQ_K, u32::from(libc::PACKET_OUTGOING), 0, 1),
        op(RET_K, 0),
        // The kernel sets register A to 0 at the start of a program, and the filter may rely on it.
        op(LD_IMM, 0),
    ];
    match filter {
        None => program.push(op(RET_K, snaplen)),
        Some(filter) => program.extend(filter.iter().map(|i| match i.code {
            RET_K => op(RET_K, i.k.min(snaplen)),
            _ => *i,
        })),
    }
    program
}

/// Translates a filter for LINKTYPE_LINUX_SLL2 to the kernel's view of such packets, in which the header is not in
/// front of them yet and its fields are metadata. `None` if the filter reads more than these fields.
pub(super) fn cooked(filter: &[SockFilter]) -> Option<Vec<SockFilter>> {
    const HEADER: u32 = 20;
    filter
        .iter()
        .map(|i| {
            let k = match (i.code, i.k) {
                (LDW_ABS | LDH_ABS | LDB_ABS, k) if k >= FACTS_AND_HEADERS => k,
                (LDW_ABS | LDH_ABS | LDB_ABS | LDW_IND | LDH_IND | LDB_IND | LDX_MSH, k) if k >= HEADER => {
                    k - HEADER
                }
                (LDH_ABS, 0) => FACT + libc::SKF_AD_PROTOCOL as u32,
                (LDW_ABS, 4) => FACT + libc::SKF_AD_IFINDEX as u32,
                (LDH_ABS, 8) => FACT + libc::SKF_AD_HATYPE as u32,
                (LDB_ABS, 10) => FACT + libc::SKF_AD_PKTTYPE as u32,
                (
                    LDW_ABS | LDH_ABS | LDB_ABS | LDW_IND | LDH_IND | LDB_IND | LDX_MSH | LD_LEN | LDX_LEN,
                    _,
                ) => {
                    return None;
                }
                (_, k) => k,
            };
            Some(SockFilter { k, ..*i })
        })
        .collect()
}

/// The program of a fanout group. It computes [`weir_wire::steer_hash`], which the kernel takes modulo the number of
/// workers, so that live captures and files are steered alike. Packets other than IP give 0, which is worker 0.
///
/// `link` is whether packets have an Ethernet header. The program skips VLAN and other tags, MPLS labels, PPPoE and
/// SNAP headers.
pub(super) fn steer(link: bool) -> Vec<SockFilter> {
    let mut a = Assembler::default();
    // X is the offset of the current header, A the EtherType before it.
    let base = if link { LINK } else { NETWORK };
    if link {
        a.push(op(LDX_IMM, 14));
        a.push(op(LDH_ABS, base + 12));
    } else {
        a.push(op(LDX_IMM, 0));
        a.push(op(LDH_ABS, FACT + libc::SKF_AD_PROTOCOL as u32));
    }
    for _ in 0..DEPTH {
        a.if_eq(0x0800, Label::Four);
        a.if_eq(0x86dd, Label::Six);
        a.if_eq(0x8847, Label::Mpls);
        a.if_eq(0x8848, Label::Mpls);
        a.if_eq(0x8864, Label::Pppoe);
        a.look_through(base);
    }
    a.goto(Label::Other);

    a.label(Label::Mpls);
    for _ in 0..LABELS {
        a.push(op(LDB_IND, base + 2));
        a.push(op(ST, 1));
        a.push(op(LD_IMM, 4));
        a.advance();
        a.push(op(LD_MEM, 1));
        // The bottom-of-stack bit (RFC 3032 2.1).
        a.if_set(1, Label::Bottom);
    }
    a.goto(Label::Other);

    // IP, or a pseudowire with a control word and Ethernet (RFC 4448).
    a.label(Label::Bottom);
    a.push(op(LDB_IND, base));
    a.push(op(RSH_K, 4));
    a.push(jump(JEQ_K, 0, 1, 0));
    a.goto(Label::Version);
    a.push(op(LD_IMM, 18));
    a.advance();
    a.push(op(LDH_IND, base.wrapping_sub(2)));
    a.if_eq(0x0800, Label::Four);
    a.if_eq(0x86dd, Label::Six);
    a.goto(Label::Other);

    a.label(Label::Pppoe);
    a.push(op(LD_IMM, 8));
    a.advance();
    a.push(op(LDH_IND, base.wrapping_sub(2)));
    a.if_eq(0x0021, Label::Four);
    a.if_eq(0x0057, Label::Six);
    a.goto(Label::Other);

    // A packet announced as IP must have the version, as in the decoder.
    for (label, four, six) in
        [(Label::Version, true, true), (Label::Four, true, false), (Label::Six, false, true)]
    {
        a.label(label);
        a.push(op(LDB_IND, base));
        a.push(op(RSH_K, 4));
        if four {
            a.if_eq(4, Label::Ipv4);
        }
        if six {
            a.if_eq(6, Label::Ipv6);
        }
        a.goto(Label::Other);
    }

    a.label(Label::Other);
    a.push(op(RET_K, 0));

    a.label(Label::Ipv4);
    a.fold(base + 12, 2);
    a.goto(Label::Pair);

    a.label(Label::Ipv6);
    a.fold(base + 8, 8);

    a.label(Label::Pair);
    a.push(op(TAX, 0));
    a.push(op(RSH_K, 16));
    a.push(op(XOR_X, 0));
    a.push(op(MUL_K, STEER_MULTIPLIER));
    a.push(op(RSH_K, 21));
    a.push(op(RET_A, 0));
    a.finish()
}

/// Maximum number of headers between Ethernet and IP that are skipped, and of MPLS labels.
const DEPTH: usize = 5;
const LABELS: usize = 8;

/// EtherTypes of headers that end with an EtherType, each with the number of bytes from its own EtherType to the end
/// of the next one.
const TAGS: [(u32, u32); 10] = [
    // VLAN tags (IEEE 802.1Q and 802.1ad, and their predecessors).
    (0x8100, 4),
    (0x88a8, 4),
    (0x9100, 4),
    (0x9200, 4),
    (0x9300, 4),
    // Bridged Ethernet, provider backbone, fabric path.
    (0x6558, 14),
    (0x88e7, 18),
    (0x8903, 16),
    // VN-tag and E-tag.
    (0x8926, 6),
    (0x893f, 8),
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Label {
    Mpls,
    Bottom,
    Pppoe,
    Version,
    Four,
    Six,
    Other,
    Ipv4,
    Ipv6,
    Pair,
}

/// Jumps of classic BPF go forward only, and a conditional one by at most 255 instructions. Each jump is therefore a
/// short conditional one over an unconditional one, whose distance is filled in when the label is placed.
#[derive(Debug, Default)]
struct Assembler {
    program: Vec<SockFilter>,
    open: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, instruction: SockFilter) {
        self.program.push(instruction);
    }

    fn here(&self) -> usize {
        self.program.len()
    }

    fn goto(&mut self, to: Label) {
        self.open.push((self.here(), to));
        self.push(op(JA, 0));
    }

    fn if_eq(&mut self, value: u32, to: Label) {
        self.push(jump(JEQ_K, value, 0, 1));
        self.goto(to);
    }

    fn if_set(&mut self, bits: u32, to: Label) {
        self.push(jump(JSET_K, bits, 0, 1));
        self.goto(to);
    }

    fn label(&mut self, label: Label) {
        let here = self.here();
        let Self { program, open } = self;
        open.retain(|(at, to)| {
            if *to == label
                && let Some(instruction) = program.get_mut(*at)
            {
                instruction.k = (here - at - 1) as u32;
            }
            *to != label
        });
    }

    /// X += A.
    fn advance(&mut self) {
        self.push(op(ADD_X, 0));
        self.push(op(TAX, 0));
    }

    /// Skips the header that the EtherType in A announces, and loads the EtherType at its end.
    fn look_through(&mut self, base: u32) {
        let mut found = Vec::new();
        for (kind, length) in TAGS {
            self.push(jump(JEQ_K, kind, 0, 2));
            self.push(op(LD_IMM, length));
            found.push(self.here());
            self.push(op(JA, 0));
        }
        // A length: LLC with SNAP and an EtherType (RFC 1042).
        self.push(jump(JGT_K, 1500, 4, 0));
        self.push(op(LDW_IND, base));
        self.push(jump(JEQ_K, 0xaaaa_0300, 0, 2));
        self.push(op(LD_IMM, 8));
        self.push(op(JA, 1));
        self.goto(Label::Other);
        let here = self.here();
        for at in found {
            if let Some(instruction) = self.program.get_mut(at) {
                instruction.k = (here - at - 1) as u32;
            }
        }
        self.advance();
        self.push(op(LDH_IND, base.wrapping_sub(2)));
    }

    /// Sets A to the exclusive or of `words` words at `at` after the offset in X. Overwrites X.
    fn fold(&mut self, at: u32, words: u32) {
        self.push(op(STX, 1));
        self.push(op(LDW_IND, at));
        for word in 1..words {
            self.push(op(ST, 0));
            self.push(op(LDX_MEM, 1));
            self.push(op(LDW_IND, at + word * 4));
            self.push(op(LDX_MEM, 0));
            self.push(op(XOR_X, 0));
        }
    }

    fn finish(self) -> Vec<SockFilter> {
        debug_assert!(self.open.is_empty());
        self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cooked_filter_loads_metadata() {
        let fact = |n: i32| FACT + n as u32;
        let pairs = [
            (op(LDH_ABS, 0), Some(op(LDH_ABS, fact(libc::SKF_AD_PROTOCOL)))),
            (op(LDW_ABS, 4), Some(op(LDW_ABS, fact(libc::SKF_AD_IFINDEX)))),
            (op(LDH_ABS, 8), Some(op(LDH_ABS, fact(libc::SKF_AD_HATYPE)))),
            (op(LDB_ABS, 10), Some(op(LDB_ABS, fact(libc::SKF_AD_PKTTYPE)))),
            (op(LDW_ABS, 20 + 12), Some(op(LDW_ABS, 12))),
            (op(LDX_MSH, 20), Some(op(LDX_MSH, 0))),
            (op(LDH_IND, 22), Some(op(LDH_IND, 2))),
            (op(LDW_ABS, fact(0)), Some(op(LDW_ABS, fact(0)))),
            (op(RET_K, 4), Some(op(RET_K, 4))),
            (jump(JEQ_K, 8, 1, 2), Some(jump(JEQ_K, 8, 1, 2))),
            // The address of the link layer, a field's half, the length.
            (op(LDW_ABS, 12), None),
            (op(LDH_ABS, 4), None),
            (op(LDH_IND, 2), None),
            (op(LD_LEN, 0), None),
        ];
        for (from, to) in pairs {
            assert_eq!(cooked(&[from]), to.map(|i| vec![i]), "{from:?}");
        }
    }

    #[test]
    fn jumps_stay_in_the_program() {
        for program in [steer(true), steer(false), gate(None, 9), gate(Some(&NOTHING), 9)] {
            // The kernel takes 4,096 instructions (BPF_MAXINSNS).
            assert!(program.len() < 1000, "{}", program.len());
            for (at, i) in program.iter().enumerate() {
                let far = match i.code {
                    JA => i.k as usize,
                    JEQ_K | JGT_K | JSET_K => usize::from(i.jt.max(i.jf)),
                    _ => 0,
                };
                assert!(at + 1 + far < program.len() || matches!(i.code, RET_K | RET_A), "{at}: {i:?}");
            }
        }
    }

    #[test]
    fn a_gate_cuts_packets_to_the_snaplen() {
        let keeps = |filter: Option<&[SockFilter]>| gate(filter, 96).last().map(|i| i.k);
        assert_eq!(keeps(None), Some(96));
        assert_eq!(keeps(Some(&[op(RET_K, 262_144)])), Some(96));
        assert_eq!(keeps(Some(&[op(RET_K, 64)])), Some(64));
        assert_eq!(keeps(Some(&NOTHING)), Some(0));
    }
}
