//! The classic BPF machine (S. McCanne and V. Jacobson, "The BSD Packet Filter", USENIX 1993): its instruction
//! words. The interpreter is [`crate::machine`].

/// Instruction classes, modes, sizes and operators, by their names in bpf(4).
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
    /// Not in bpf(4): loads a fact about the packet that is not in its bytes, see [`super::Extension`].
    pub const EXT: u16 = 0xc0;
    /// Not in bpf(4): a flag on a packet load that reads the frame as it was captured. Other loads read it without its
    /// VLAN tags, MPLS labels and PPPoE header.
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

/// The result of an [`op::EXT`] load. The kind is in the top byte of the operand, an index or a value in the rest.
pub(crate) mod extension {
    /// 4 (PACKET_OUTGOING of packet(7)) if the interface sent the packet, else 0.
    pub const PACKET_TYPE: u32 = 0x0100_0000;
    /// Identifier of the VLAN tag of that index, the outermost being 0; [`ABSENT`] without one.
    pub const VLAN: u32 = 0x0200_0000;
    /// MPLS label of that index.
    pub const MPLS: u32 = 0x0300_0000;
    /// PPPoE session of that index.
    pub const PPPOE: u32 = 0x0400_0000;
    /// 1 if an encapsulation of that EtherType was removed, else 0.
    pub const HAS_TYPE: u32 = 0x0500_0000;
    /// 1 if the kernel keeps a VLAN tag apart from the bytes; only the kernel can provide it.
    pub const TAG_APART: u32 = 0x0600_0000;
    /// The value of an absent tag, label or session.
    pub const ABSENT: u32 = u32::MAX;

    pub const fn split(k: u32) -> (u32, u32) {
        (k & 0xff00_0000, k & 0x00ff_ffff)
    }
}

/// An instruction of classic BPF in the kernel's format (`struct sock_filter`), in host byte order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BpfInsn {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if a conditional jump is taken.
    pub jt: u8,
    /// Instructions to skip if it is not taken.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// The operation of an [`Insn`]: the operations of bpf(4), and a load fused with the test after it. The variants have
/// no fields, so that one jump dispatches an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Op {
    /// Ends the program without a match: the operation does not exist.
    Reject,
    Return,
    LoadByte,
    LoadHalf,
    LoadWord,
    IndirectByte,
    IndirectHalf,
    IndirectWord,
    /// A load that reads the frame as it was captured; [`Insn::value`] is its code.
    Raw,
    /// The length of an IPv4 header, into X.
    HeaderLength,
    Immediate,
    ImmediateX,
    Length,
    Memory,
    MemoryX,
    Store,
    StoreX,
    Extension,
    Tax,
    Txa,
    /// With a constant; [`Insn::value`] is the operator.
    Alu,
    AluX,
    Jump,
    Equal,
    Greater,
    AtLeast,
    AnyBit,
    EqualX,
    GreaterX,
    AtLeastX,
    AnyBitX,
    // A load from a constant offset and a test with `Insn::value`.
    ByteEqual,
    ByteGreater,
    ByteAtLeast,
    ByteAnyBit,
    HalfEqual,
    HalfGreater,
    HalfAtLeast,
    HalfAnyBit,
    WordEqual,
    WordGreater,
    WordAtLeast,
    WordAnyBit,
}

impl Op {
    /// The operation of an instruction word.
    pub fn of(code: u16) -> Self {
        let size = code & 0x18;
        match (op::class(code), op::mode(code)) {
            (op::LD, op::ABS | op::IND) if code & op::RAW != 0 => Self::Raw,
            (op::LD, op::ABS) => {
                [Self::LoadWord, Self::LoadHalf, Self::LoadByte, Self::Reject][size as usize >> 3]
            }
            (op::LD, op::IND) => {
                [Self::IndirectWord, Self::IndirectHalf, Self::IndirectByte, Self::Reject][size as usize >> 3]
            }
            (op::LD, op::IMM) => Self::Immediate,
            (op::LD, op::MEM) => Self::Memory,
            (op::LD, op::LEN) => Self::Length,
            (op::LD, op::EXT) => Self::Extension,
            (op::LDX, op::IMM) => Self::ImmediateX,
            (op::LDX, op::MEM) => Self::MemoryX,
            (op::LDX, op::MSH) => Self::HeaderLength,
            (op::ST, _) => Self::Store,
            (op::STX, _) => Self::StoreX,
            (op::ALU, _) if op::source(code) == op::X => Self::AluX,
            (op::ALU, _) => Self::Alu,
            (op::JMP, _) => match (op::operator(code), op::source(code)) {
                (op::JA, _) => Self::Jump,
                (op::JEQ, op::K) => Self::Equal,
                (op::JGT, op::K) => Self::Greater,
                (op::JGE, op::K) => Self::AtLeast,
                (op::JSET, op::K) => Self::AnyBit,
                (op::JEQ, _) => Self::EqualX,
                (op::JGT, _) => Self::GreaterX,
                (op::JGE, _) => Self::AtLeastX,
                (op::JSET, _) => Self::AnyBitX,
                _ => Self::Reject,
            },
            (op::RET, _) => Self::Return,
            (op::MISC, _) if op::misc(code) == op::TXA => Self::Txa,
            (op::MISC, _) => Self::Tax,
            _ => Self::Reject,
        }
    }

    /// The operation that combines this load with the test after it; `None` if no operation combines them.
    pub fn then(self, test: Self) -> Option<Self> {
        let row = match self {
            Self::LoadByte => [Self::ByteEqual, Self::ByteGreater, Self::ByteAtLeast, Self::ByteAnyBit],
            Self::LoadHalf => [Self::HalfEqual, Self::HalfGreater, Self::HalfAtLeast, Self::HalfAnyBit],
            Self::LoadWord => [Self::WordEqual, Self::WordGreater, Self::WordAtLeast, Self::WordAnyBit],
            _ => return None,
        };
        let column =
            [Self::Equal, Self::Greater, Self::AtLeast, Self::AnyBit].iter().position(|t| *t == test)?;
        row.get(column).copied()
    }
}

/// An instruction with absolute jumps, so that the length of a program is not limited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Insn {
    pub op: Op,
    pub k: u32,
    /// A second operand, if [`Op`] has one.
    pub value: u32,
    pub jt: u32,
    pub jf: u32,
}

/// An operator of the ALU class; `None` for a division by 0. A shift by more than the width of the word gives 0.
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
