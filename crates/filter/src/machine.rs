//! The interpreter of classic BPF, which decides a packet.

use crate::bpf::{Insn, MEMORY_WORDS, Op, arithmetic, op};
use crate::view::{Plain, View};

/// Maximum number of instructions for one packet beyond the length of the program; after them the packet is rejected.
/// Only `protochain` can loop, and no packet has this many headers.
const STEP_LIMIT: usize = 1 << 16;

/// Runs a program and returns the value of its return instruction, 0 for "no match". A load beyond the captured bytes
/// or a division by 0 ends the program with 0.
pub(crate) fn run<V: View>(program: &[Insn], view: V) -> u32 {
    execute(program, view).unwrap_or(0)
}

/// Runs a program; `None` if a load beyond the captured bytes or a division by 0 ended it.
pub(crate) fn execute<V: View>(program: &[Insn], view: V) -> Option<u32> {
    let mut a = 0u32;
    let mut x = 0u32;
    let mut memory = [0u32; MEMORY_WORDS];
    let mut pc = 0u32;
    for _ in 0..program.len() + STEP_LIMIT {
        let i = program.get(pc as usize)?;
        pc += 1;
        let branch = |holds: bool| if holds { i.jt } else { i.jf };
        match i.op {
            Op::ByteEqual => {
                a = view.u8(i.k)?;
                pc = branch(a == i.value);
            }
            Op::ByteGreater => {
                a = view.u8(i.k)?;
                pc = branch(a > i.value);
            }
            Op::ByteAtLeast => {
                a = view.u8(i.k)?;
                pc = branch(a >= i.value);
            }
            Op::ByteAnyBit => {
                a = view.u8(i.k)?;
                pc = branch(a & i.value != 0);
            }
            Op::HalfEqual => {
                a = view.u16(i.k)?;
                pc = branch(a == i.value);
            }
            Op::HalfGreater => {
                a = view.u16(i.k)?;
                pc = branch(a > i.value);
            }
            Op::HalfAtLeast => {
                a = view.u16(i.k)?;
                pc = branch(a >= i.value);
            }
            Op::HalfAnyBit => {
                a = view.u16(i.k)?;
                pc = branch(a & i.value != 0);
            }
            Op::WordEqual => {
                a = view.u32(i.k)?;
                pc = branch(a == i.value);
            }
            Op::WordGreater => {
                a = view.u32(i.k)?;
                pc = branch(a > i.value);
            }
            Op::WordAtLeast => {
                a = view.u32(i.k)?;
                pc = branch(a >= i.value);
            }
            Op::WordAnyBit => {
                a = view.u32(i.k)?;
                pc = branch(a & i.value != 0);
            }
            Op::Equal => pc = branch(a == i.k),
            Op::Greater => pc = branch(a > i.k),
            Op::AtLeast => pc = branch(a >= i.k),
            Op::AnyBit => pc = branch(a & i.k != 0),
            Op::EqualX => pc = branch(a == x),
            Op::GreaterX => pc = branch(a > x),
            Op::AtLeastX => pc = branch(a >= x),
            Op::AnyBitX => pc = branch(a & x != 0),
            Op::Jump => pc = i.jt,
            Op::Return => return Some(i.k),
            Op::LoadByte => a = view.u8(i.k)?,
            Op::LoadHalf => a = view.u16(i.k)?,
            Op::LoadWord => a = view.u32(i.k)?,
            Op::IndirectByte => a = view.u8(x.checked_add(i.k)?)?,
            Op::IndirectHalf => a = view.u16(x.checked_add(i.k)?)?,
            Op::IndirectWord => a = view.u32(x.checked_add(i.k)?)?,
            Op::Raw => a = raw_load(i, x, Plain(view.packet()))?,
            Op::HeaderLength => x = (view.u8(i.k)? & 0xf) << 2,
            Op::Immediate => a = i.k,
            Op::ImmediateX => x = i.k,
            Op::Length => a = view.packet().wire_len,
            Op::Memory => a = *memory.get(i.k as usize)?,
            Op::MemoryX => x = *memory.get(i.k as usize)?,
            Op::Store => *memory.get_mut(i.k as usize)? = a,
            Op::StoreX => *memory.get_mut(i.k as usize)? = x,
            Op::Extension => a = view.extension(i.k),
            Op::Tax => x = a,
            Op::Txa => a = x,
            Op::Alu => a = arithmetic(op::operator(i.value as u16), a, i.k)?,
            Op::AluX => a = arithmetic(op::operator(i.value as u16), a, x)?,
            Op::Reject => return None,
        }
    }
    None
}

fn raw_load(i: &Insn, x: u32, plain: Plain<'_>) -> Option<u32> {
    let code = i.value as u16;
    let k = if op::mode(code) == op::IND { x.checked_add(i.k)? } else { i.k };
    match code & 0x18 {
        op::B => plain.u8(k),
        op::H => plain.u16(k),
        _ => plain.u32(k),
    }
}
