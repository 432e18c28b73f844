//! Classic BPF programs for the kernel: what a socket takes in, and which worker gets a packet.
//!
//! Steering must keep both directions of an address pair, all its fragments and all its tunnelled packets on one
//! worker, so it looks at the outermost IP addresses and at nothing behind them. The kernel's own flow hash
//! (PACKET_FANOUT_HASH) takes the ports in too, which later fragments do not have, and the innermost addresses of
//! tunnels that it knows.

use weir_wire::STEER_MULTIPLIER;

use super::SockFilter;

// Instruction codes (linux/bpf_common.h).
const LDW_ABS: u16 = 0x20;
const LDH_ABS: u16 = 0x28;
const LDW_IND: u16 = 0x40;
const LDH_IND: u16 = 0x48;
const LDB_IND: u16 = 0x50;
const LD_IMM: u16 = 0x00;
const LD_MEM: u16 = 0x60;
const LDX_IMM: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ADD_K: u16 = 0x04;
const MUL_K: u16 = 0x24;
const RSH_K: u16 = 0x74;
const XOR_X: u16 = 0xac;
const JEQ_K: u16 = 0x15;
const JSET_K: u16 = 0x45;
const JA: u16 = 0x05;
const RET_K: u16 = 0x06;
const RET_A: u16 = 0x16;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;

/// Loads at this offset and on give facts about the packet (linux/filter.h, SKF_AD_OFF).
const FACT: u32 = libc::SKF_AD_OFF as u32;
/// Loads relative to the link-layer header, wherever the kernel's view of the packet starts.
const LINK: u32 = libc::SKF_LL_OFF as u32;
/// Loads relative to the network header.
const NETWORK: u32 = libc::SKF_NET_OFF as u32;

const fn op(code: u16, k: u32) -> SockFilter {
    SockFilter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> SockFilter {
    SockFilter { code, jt, jf, k }
}

/// Takes in nothing.
pub(super) const NOTHING: [SockFilter; 1] = [op(RET_K, 0)];

/// The socket filter for an expression's program (all packets without one), cut to `snaplen` octets.
///
/// A packet on the loopback interface is seen twice, going out and coming in; the first is left out, as libpcap
/// does.
pub(super) fn gate(filter: Option<&[SockFilter]>, snaplen: u32) -> Vec<SockFilter> {
    let mut program = vec![
        op(LDH_ABS, FACT + libc::SKF_AD_HATYPE as u32),
        jump(JEQ_K, u32::from(libc::ARPHRD_LOOPBACK), 0, 3),
        op(LDW_ABS, FACT + libc::SKF_AD_PKTTYPE as u32),
        jump(JEQ_K, u32::from(libc::PACKET_OUTGOING), 0, 1),
        op(RET_K, 0),
        // Register A is 0 at the start of a program (the kernel promises it), and the filter may count on it.
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

/// The program of a fanout group. It gives [`weir_wire::steer_hash`], which the kernel takes modulo the number of
/// workers: a live capture and a file are steered alike. What is not IP gives 0: worker 0.
///
/// `link` says whether packets have an Ethernet header. VLAN tags, MPLS labels and PPPoE are looked through.
pub(super) fn steer(link: bool) -> Vec<SockFilter> {
    let mut a = Assembler::default();
    // X is the offset of what is looked at, A the EtherType that announced it.
    let base = if link { LINK } else { NETWORK };
    if link {
        a.push(op(LDX_IMM, 14));
        a.push(op(LDH_ABS, base + 12));
    } else {
        a.push(op(LDX_IMM, 0));
        a.push(op(LDH_ABS, FACT + libc::SKF_AD_PROTOCOL as u32));
    }
    for _ in 0..TAGS {
        a.if_eq(0x0800, Label::Ipv4);
        a.if_eq(0x86dd, Label::Ipv6);
        a.if_eq(0x8847, Label::Mpls);
        a.if_eq(0x8848, Label::Mpls);
        a.if_eq(0x8864, Label::Pppoe);
        let tag = a.here() + 5;
        for tpid in [0x8100_u32, 0x88a8, 0x9100, 0x9200] {
            let skip = (tag - a.here() - 1) as u8;
            a.push(jump(JEQ_K, tpid, skip, 0));
        }
        a.goto(Label::Other);
        a.advance(4);
        a.push(op(LDH_IND, base.wrapping_sub(2)));
    }
    a.goto(Label::Other);

    a.label(Label::Mpls);
    for _ in 0..LABELS {
        a.push(op(LDB_IND, base + 2));
        a.push(op(ST, 0));
        a.advance(4);
        a.push(op(LD_MEM, 0));
        // The bottom-of-stack bit (RFC 3032 2.1).
        a.if_set(1, Label::Version);
    }
    a.goto(Label::Other);

    a.label(Label::Pppoe);
    a.push(op(LDH_IND, base + 6));
    a.push(op(ST, 0));
    a.advance(8);
    a.push(op(LD_MEM, 0));
    a.if_eq(0x0021, Label::Ipv4);
    a.if_eq(0x0057, Label::Ipv6);
    a.goto(Label::Other);

    a.label(Label::Version);
    a.push(op(LDB_IND, base));
    a.push(op(RSH_K, 4));
    a.if_eq(4, Label::Ipv4);
    a.if_eq(6, Label::Ipv6);

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
    a.push(op(RSH_K, 16));
    a.push(op(RET_A, 0));
    a.finish()
}

/// Tags that are looked through, and MPLS labels.
const TAGS: usize = 4;
const LABELS: usize = 8;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Label {
    Mpls,
    Pppoe,
    Version,
    Other,
    Ipv4,
    Ipv6,
    Pair,
}

/// Jumps of classic BPF go forward only, and a conditional one no further than 255: so each is written as a short
/// one over an unconditional one, whose distance is filled in when the label is known.
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

    /// X += n; A is lost.
    fn advance(&mut self, n: u32) {
        self.push(op(TXA, 0));
        self.push(op(ADD_K, n));
        self.push(op(TAX, 0));
    }

    /// A = the exclusive or of `words` words at `at` after the offset in X. X is lost.
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
