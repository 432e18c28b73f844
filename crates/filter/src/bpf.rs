//! The classic BPF machine (S. McCanne and V. Jacobson, "The BSD Packet Filter", USENIX 1993): its instruction
//! words, and the interpreter that decides a packet.

use crate::view::View;

/// Instruction classes, modes, sizes and operators, by the names that bpf(4) has for them.
#[allow(missing_docs)]
pub(crate) mod op {
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;

    pub const W: u16 = 0x00;
    pub const H: u16 = 0x08;
    pub const B: u16 = 0x10;

    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const IND: u16 = 0x40;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    pub const MSH: u16 = 0xa0;
    /// Not in bpf(4): loads what is known of a packet besides its octets, see [`super::Extension`].
    pub const EXT: u16 = 0xc0;
    /// Not in bpf(4): a flag on a packet load that sees the frame as it was captured, where other loads see it
    /// without its VLAN tags, MPLS labels and PPPoE header.
    pub const RAW: u16 = 0x100;

    pub const ADD: u16 = 0x00;
    pub const SUB: u16 = 0x10;
    pub const MUL: u16 = 0x20;
    pub const DIV: u16 = 0x30;
    pub const OR: u16 = 0x40;
    pub const AND: u16 = 0x50;
    pub const LSH: u16 = 0x60;
    pub const RSH: u16 = 0x70;
    pub const NEG: u16 = 0x80;
    pub const MOD: u16 = 0x90;
    pub const XOR: u16 = 0xa0;

    pub const JA: u16 = 0x00;
    pub const JEQ: u16 = 0x10;
    pub const JGT: u16 = 0x20;
    pub const JGE: u16 = 0x30;
    pub const JSET: u16 = 0x40;

    pub const K: u16 = 0x00;
    pub const X: u16 = 0x08;

    pub const TAX: u16 = 0x00;
    pub const TXA: u16 = 0x80;

    pub const fn class(code: u16) -> u16 {
        code & 0x07
    }
    pub const fn mode(code: u16) -> u16 {
        code & 0xe0
    }
    pub const fn operator(code: u16) -> u16 {
        code & 0xf0
    }
    pub const fn source(code: u16) -> u16 {
        code & 0x08
    }
    pub const fn return_value(code: u16) -> u16 {
        code & 0x18
    }
    pub const fn misc(code: u16) -> u16 {
        code & 0xf8
    }
}

/// Scratch memory words of the machine.
pub(crate) const MEMORY_WORDS: usize = 16;

/// What an [`op::EXT`] load gives; the kind is in the top byte of the operand, an index or a value below it.
pub(crate) mod extension {
    /// 4 (PACKET_OUTGOING of packet(7)) where the interface sent the packet, else 0.
    pub const PACKET_TYPE: u32 = 0x0100_0000;
    /// Identifier of the VLAN tag of that index, outermost 0; [`ABSENT`] without one.
    pub const VLAN: u32 = 0x0200_0000;
    /// MPLS label of that index.
    pub const MPLS: u32 = 0x0300_0000;
    /// PPPoE session of that index.
    pub const PPPOE: u32 = 0x0400_0000;
    /// 1 where an encapsulation of that EtherType was removed, else 0.
    pub const HAS_TYPE: u32 = 0x0500_0000;
    /// Index of the interface, counted from 1.
    pub const INTERFACE: u32 = 0x0600_0000;
    /// 1 where the kernel keeps a VLAN tag apart from the octets; only the kernel can tell.
    pub const TAG_APART: u32 = 0x0700_0000;
    /// There is none.
    pub const ABSENT: u32 = u32::MAX;

    pub const fn split(k: u32) -> (u32, u32) {
        (k & 0xff00_0000, k & 0x00ff_ffff)
    }
}

/// An instruction of classic BPF as the kernel takes it (`struct sock_filter`), in host byte order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BpfInsn {
    /// Operation.
    pub code: u16,
    /// Instructions to skip where a conditional jump is taken.
    pub jt: u8,
    /// Instructions to skip where it is not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// The same with jumps that reach anywhere: absolute, so that no program is too long.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Insn {
    pub code: u16,
    pub k: u32,
    pub jt: u32,
    pub jf: u32,
}

/// Instructions that one packet may take before it is rejected. Only `protochain` can loop, and no packet has
/// this many headers.
const STEP_LIMIT: u32 = 1 << 16;

/// Runs a program; the result is what its return instruction says, 0 for "no match". A load from beyond the
/// captured octets ends it with 0, as does a division by 0.
pub(crate) fn run(program: &[Insn], view: &View<'_>) -> u32 {
    use op::*;
    let mut a = 0u32;
    let mut x = 0u32;
    let mut memory = [0u32; MEMORY_WORDS];
    let mut pc = 0usize;
    // Without a loop every instruction is taken at most once, so that a long program is not cut off.
    let mut steps = program.len() as u64 + u64::from(STEP_LIMIT);
    loop {
        let Some(i) = program.get(pc) else { return 0 };
        pc += 1;
        if steps == 0 {
            return 0;
        }
        steps -= 1;
        macro_rules! load {
            ($load:expr) => {
                match $load {
                    Some(value) => a = value,
                    None => return 0,
                }
            };
        }
        const LD_W: u16 = LD | ABS | W;
        const LD_H: u16 = LD | ABS | H;
        const LD_B: u16 = LD | ABS | B;
        const LD_IW: u16 = LD | IND | W;
        const LD_IH: u16 = LD | IND | H;
        const LD_IB: u16 = LD | IND | B;
        const RLD_W: u16 = RAW | LD_W;
        const RLD_H: u16 = RAW | LD_H;
        const RLD_B: u16 = RAW | LD_B;
        const RLD_IW: u16 = RAW | LD_IW;
        const RLD_IH: u16 = RAW | LD_IH;
        const RLD_IB: u16 = RAW | LD_IB;
        const LD_LEN: u16 = LD | LEN | W;
        const LD_MEM: u16 = LD | MEM;
        const LD_EXT: u16 = LD | EXT;
        const LDX_MSH: u16 = LDX | MSH | B;
        const LDX_IMM: u16 = LDX | IMM;
        const LDX_MEM: u16 = LDX | MEM;
        const JA_: u16 = JMP | JA;
        const JEQ_K: u16 = JMP | JEQ | K;
        const JGT_K: u16 = JMP | JGT | K;
        const JGE_K: u16 = JMP | JGE | K;
        const JSET_K: u16 = JMP | JSET | K;
        const JEQ_X: u16 = JMP | JEQ | X;
        const JGT_X: u16 = JMP | JGT | X;
        const JGE_X: u16 = JMP | JGE | X;
        const JSET_X: u16 = JMP | JSET | X;
        const TAX_: u16 = MISC | TAX;
        const TXA_: u16 = MISC | TXA;
        let jump = |taken: bool| if taken { i.jt as usize } else { i.jf as usize };
        match i.code {
            LD_H => load!(view.u16(i.k)),
            LD_B => load!(view.u8(i.k)),
            LD_W => load!(view.u32(i.k)),
            JEQ_K => pc = jump(a == i.k),
            JGT_K => pc = jump(a > i.k),
            JGE_K => pc = jump(a >= i.k),
            JSET_K => pc = jump(a & i.k != 0),
            JEQ_X => pc = jump(a == x),
            JGT_X => pc = jump(a > x),
            JGE_X => pc = jump(a >= x),
            JSET_X => pc = jump(a & x != 0),
            JA_ => pc = i.jt as usize,
            LD_IH => load!(x.checked_add(i.k).and_then(|k| view.u16(k))),
            LD_IB => load!(x.checked_add(i.k).and_then(|k| view.u8(k))),
            LD_IW => load!(x.checked_add(i.k).and_then(|k| view.u32(k))),
            LDX_MSH => match view.u8(i.k) {
                Some(value) => x = (value & 0xf) << 2,
                None => return 0,
            },
            RET => return i.k,
            LD => a = i.k,
            LDX_IMM => x = i.k,
            LD_LEN => a = view.wire_len(),
            LD_MEM => a = memory.get(i.k as usize).copied().unwrap_or(0),
            LDX_MEM => x = memory.get(i.k as usize).copied().unwrap_or(0),
            ST | STX => {
                if let Some(word) = memory.get_mut(i.k as usize) {
                    *word = if i.code == ST { a } else { x };
                }
            }
            TAX_ => x = a,
            TXA_ => a = x,
            LD_EXT => a = view.extension(i.k),
            RLD_W => load!(view.raw().u32(i.k)),
            RLD_H => load!(view.raw().u16(i.k)),
            RLD_B => load!(view.raw().u8(i.k)),
            RLD_IW => load!(x.checked_add(i.k).and_then(|k| view.raw().u32(k))),
            RLD_IH => load!(x.checked_add(i.k).and_then(|k| view.raw().u16(k))),
            RLD_IB => load!(x.checked_add(i.k).and_then(|k| view.raw().u8(k))),
            code if class(code) == ALU => {
                let b = if source(code) == X { x } else { i.k };
                match arithmetic(operator(code), a, b) {
                    Some(value) => a = value,
                    None => return 0,
                }
            }
            _ => return 0,
        }
    }
}

/// An operator of the ALU class; `None` is a division by 0. A shift by more than the word is wide gives 0.
pub(crate) fn arithmetic(operator: u16, a: u32, b: u32) -> Option<u32> {
    Some(match operator {
        op::ADD => a.wrapping_add(b),
        op::SUB => a.wrapping_sub(b),
        op::MUL => a.wrapping_mul(b),
        op::DIV => a.checked_div(b)?,
        op::MOD => a.checked_rem(b)?,
        op::AND => a & b,
        op::OR => a | b,
        op::XOR => a ^ b,
        op::LSH => a.checked_shl(b).unwrap_or(0),
        op::RSH => a.checked_shr(b).unwrap_or(0),
        op::NEG => a.wrapping_neg(),
        _ => return None,
    })
}
