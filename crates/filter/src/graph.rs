//! The control flow graph that the code generator makes and the optimiser rewrites: basic blocks that end in a
//! test, joined by backpatching (A. Aho, R. Sethi, J. Ullman, "Compilers", 8.6).

use crate::bpf::op;

/// A block, by its number.
pub(crate) type BlockId = u32;

/// No block: the end of a backpatch list.
pub(crate) const NONE: BlockId = BlockId::MAX;

/// A statement. Jumps are used only within a block and name statements by [`Stmt::id`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stmt {
    pub id: u32,
    pub code: u16,
    pub k: u32,
    /// Deleted by the optimiser.
    pub dead: bool,
    pub jt: u32,
    pub jf: u32,
}

/// Indexes into [`Block::succ`].
pub(crate) const TRUE: usize = 0;
/// See [`TRUE`].
pub(crate) const FALSE: usize = 1;

/// A basic block: statements, then a test (or a return).
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub stmts: Vec<Stmt>,
    pub code: u16,
    pub k: u32,
    /// The successors of the test; until the expression is complete, links of the two backpatch lists.
    pub succ: [BlockId; 2],
    /// First block of the expression that ends here.
    pub head: BlockId,
    /// The element of `succ` that links this block's list: `false` for the true branch.
    pub sense: bool,
}

/// All blocks of a program.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    blocks: Vec<Block>,
    next_stmt: u32,
}

impl std::ops::Index<BlockId> for Graph {
    type Output = Block;
    fn index(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Graph {
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id as usize]
    }
}

impl Graph {
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn block(&mut self, code: u16, k: u32, stmts: Vec<Stmt>) -> BlockId {
        let id = self.blocks.len() as BlockId;
        self.blocks.push(Block { stmts, code, k, succ: [NONE; 2], head: id, sense: false });
        id
    }

    pub fn stmt(&mut self, code: u16, k: u32) -> Stmt {
        // 0 means "no statement".
        self.next_stmt += 1;
        Stmt { id: self.next_stmt, code, k, ..Stmt::default() }
    }

    fn link(&self, b: BlockId) -> usize {
        if self[b].sense { FALSE } else { TRUE }
    }

    /// Sends every branch of the list to `target`.
    pub fn backpatch(&mut self, mut list: BlockId, target: BlockId) {
        while list != NONE {
            let link = self.link(list);
            list = std::mem::replace(&mut self[list].succ[link], target);
        }
    }

    /// Appends the list of `b1` to the list of `b0`.
    fn merge(&mut self, b0: BlockId, b1: BlockId) {
        let mut last = b0;
        loop {
            let link = self.link(last);
            match self[last].succ[link] {
                NONE => {
                    self[last].succ[link] = b1;
                    return;
                }
                next => last = next,
            }
        }
    }

    pub fn not(&mut self, b: BlockId) {
        self[b].sense = !self[b].sense;
    }

    /// `b0` and then `b1`; returns `b1`.
    pub fn and(&mut self, b0: BlockId, b1: BlockId) -> BlockId {
        let head = self[b1].head;
        self.backpatch(b0, head);
        self.not(b0);
        self.not(b1);
        self.merge(b1, b0);
        self.not(b1);
        self[b1].head = self[b0].head;
        b1
    }

    /// `b0` or else `b1`; returns `b1`.
    pub fn or(&mut self, b0: BlockId, b1: BlockId) -> BlockId {
        let head = self[b1].head;
        self.not(b0);
        self.backpatch(b0, head);
        self.not(b0);
        self.merge(b1, b0);
        self[b1].head = self[b0].head;
        b1
    }

    /// Ends the expression: returns `snaplen` bytes for a matching packet, and 0 for any other.
    pub fn finish(&mut self, b: BlockId, snaplen: u32) -> BlockId {
        let accept = self.block(op::RET, snaplen, Vec::new());
        self.backpatch(b, accept);
        self.not(b);
        let reject = self.block(op::RET, 0, Vec::new());
        self.backpatch(b, reject);
        self[b].head
    }

    /// Blocks that can be reached from `root`, each once, in depth-first order with the true branch first.
    pub fn reachable(&self, root: BlockId) -> Vec<BlockId> {
        let mut seen = vec![false; self.len()];
        let mut order = Vec::new();
        let mut stack = vec![root];
        while let Some(b) = stack.pop() {
            if b == NONE || std::mem::replace(&mut seen[b as usize], true) {
                continue;
            }
            order.push(b);
            stack.push(self[b].succ[FALSE]);
            stack.push(self[b].succ[TRUE]);
        }
        order
    }
}
