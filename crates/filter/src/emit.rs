//! From blocks to instructions in libpcap's layout: a block comes before its successors, the successor of its true
//! branch first.

use std::collections::HashMap;

use crate::bpf::{BpfInsn, Insn, Op, op};
use crate::graph::{Block, BlockId, FALSE, Graph, NONE, Stmt, TRUE};

/// Blocks in the order in which they are laid out.
fn layout(graph: &Graph, root: BlockId) -> Vec<BlockId> {
    let mut seen = vec![false; graph.len()];
    let mut order = Vec::new();
    let mut stack = vec![(root, 0)];
    while let Some((b, step)) = stack.pop() {
        if b == NONE || step == 0 && std::mem::replace(&mut seen[b as usize], true) {
            continue;
        }
        match step {
            0 => stack.extend([(b, 1), (graph[b].succ[FALSE], 0)]),
            1 => stack.extend([(b, 2), (graph[b].succ[TRUE], 0)]),
            _ => order.push(b),
        }
    }
    order.reverse();
    order
}

fn live(b: &Block) -> impl Iterator<Item = &Stmt> {
    b.stmts.iter().filter(|s| !s.dead)
}

/// Positions of the statements of a block, for the jumps inside it.
fn positions(b: &Block) -> HashMap<u32, usize> {
    if live(b).all(|s| op::class(s.code) != op::JMP) {
        return HashMap::new();
    }
    live(b).enumerate().map(|(i, s)| (s.id, i)).collect()
}

/// Instructions with jumps of any length. A load directly before a test is fused with it: most blocks consist of such
/// a pair.
pub(crate) fn program(graph: &Graph, root: BlockId) -> Vec<Insn> {
    let order = layout(graph, root);
    let mut starts = vec![0u32; graph.len()];
    let mut at = 0;
    for b in &order {
        starts[*b as usize] = at;
        at += live(&graph[*b]).count() as u32 + u32::from(fused(&graph[*b]).is_none());
    }
    let mut insns: Vec<Insn> = Vec::with_capacity(at as usize);
    for b in &order {
        let start = insns.len() as u32;
        let block = &graph[*b];
        let positions = positions(block);
        for (i, s) in live(block).enumerate() {
            let here = start + i as u32 + 1;
            let (mut jt, mut jf) = (0, 0);
            if s.code == op::JMP | op::JA {
                jt = here.wrapping_add(s.k);
            } else if op::class(s.code) == op::JMP {
                let to = |id: u32| positions.get(&id).map_or(here, |at| start + *at as u32);
                (jt, jf) = (to(s.jt), to(s.jf));
            }
            insns.push(Insn { op: Op::of(s.code), k: s.k, value: u32::from(s.code), jt, jf });
        }
        let to = |branch: usize| match block.succ[branch] {
            NONE => 0,
            to => starts[to as usize],
        };
        let (jt, jf) = (to(TRUE), to(FALSE));
        let test = Op::of(block.code);
        match (insns.last_mut(), fused(block)) {
            (Some(last), Some(op)) => *last = Insn { op, k: last.k, value: block.k, jt, jf },
            _ => insns.push(Insn { op: test, k: block.k, value: 0, jt, jf }),
        }
    }
    insns
}

/// The last statement of a block and its test in one operation, if they are a load and a comparison. No jump may lead
/// between them.
fn fused(b: &Block) -> Option<Op> {
    if live(b).any(|s| op::class(s.code) == op::JMP) {
        return None;
    }
    let last = b.stmts.iter().rev().find(|s| !s.dead)?;
    Op::of(last.code).then(Op::of(b.code))
}

/// Instructions of the kernel. A jump reaches 255 instructions ahead; a longer one uses an unconditional jump directly
/// after it. `None` if a jump inside a block is too long for that.
pub(crate) fn classic(graph: &Graph, root: BlockId) -> Option<Vec<BpfInsn>> {
    let order = layout(graph, root);
    // Long jumps: the position of each block depends on which branches are long. A branch that has become long stays
    // long.
    let mut long = vec![[false; 2]; graph.len()];
    loop {
        let mut starts = vec![0usize; graph.len()];
        let mut at = 0;
        for b in &order {
            starts[*b as usize] = at;
            at += live(&graph[*b]).count() + 1 + long[*b as usize].iter().filter(|l| **l).count();
        }
        let mut insns = Vec::with_capacity(at);
        let mut again = false;
        for b in &order {
            let block = &graph[*b];
            let positions = positions(block);
            let start = insns.len();
            for (i, s) in live(block).enumerate() {
                let mut insn = BpfInsn { code: s.code, k: s.k, ..BpfInsn::default() };
                if op::class(s.code) == op::JMP && s.code != op::JMP | op::JA {
                    let skip = |id: u32| {
                        let to = positions.get(&id)?.checked_sub(i + 1)?;
                        u8::try_from(to).ok()
                    };
                    (insn.jt, insn.jf) = (skip(s.jt)?, skip(s.jf)?);
                }
                insns.push(insn);
            }
            let test = insns.len();
            debug_assert_eq!(start, starts[*b as usize]);
            insns.push(BpfInsn { code: block.code, k: block.k, ..BpfInsn::default() });
            if block.succ[TRUE] == NONE {
                continue;
            }
            let mut extra = 0u8;
            for branch in [TRUE, FALSE] {
                let to = starts[block.succ[branch] as usize].wrapping_sub(test + 1);
                let is_long = &mut long[*b as usize][branch];
                let mut skip = to.min(255) as u8;
                if to >= 256 && !*is_long {
                    *is_long = true;
                    again = true;
                } else if *is_long {
                    skip = extra;
                    extra += 1;
                    let k = to.wrapping_sub(extra as usize) as u32;
                    insns.push(BpfInsn { code: op::JMP | op::JA, k, ..BpfInsn::default() });
                }
                if let Some(insn) = insns.get_mut(test) {
                    if branch == TRUE {
                        insn.jt = skip;
                    } else {
                        insn.jf = skip;
                    }
                }
            }
        }
        if !again {
            return Some(insns);
        }
    }
}
