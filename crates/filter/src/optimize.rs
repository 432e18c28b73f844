//! The optimiser of the BPF paper, over the acyclic graph of blocks: value numbering within and between blocks,
//! elimination of decided branches, merging of tests, and merging of equal blocks.
//!
//! Its purpose is the verdict and not speed. A load beyond the captured bytes rejects the packet, and the optimiser
//! determines which loads remain, and in which order. Each pass, and the order in which it walks the graph, is that of
//! libpcap 1.10, so that programs are equal, instruction for instruction.

use std::collections::HashMap;

use crate::bpf::{MEMORY_WORDS, arithmetic, op};
use crate::graph::{Block, BlockId, FALSE, Graph, NONE, Stmt, TRUE};

/// Registers: the scratch words, A and X.
const ATOMS: usize = MEMORY_WORDS + 2;
const A: usize = MEMORY_WORDS;
const X: usize = MEMORY_WORDS + 1;

/// A set of registers.
type Atoms = u32;

/// Number of a value; 0 for an unknown value.
type Value = u32;
const UNKNOWN: Value = 0;

/// Number of blocks beyond which a program is not optimised: sets of dominators grow with the square.
const MAX_BLOCKS: usize = 4000;

/// Passes that only move branches; after this number they are assumed to be in a cycle.
const MAX_MOVES: u32 = 100;

/// The reason why a program is impossible.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Impossible {
    DivisionByZero,
    ModulusByZero,
    LongShift,
}

/// Optimises a program; the result is the first block.
pub(crate) fn optimize(graph: &mut Graph, root: BlockId) -> Result<BlockId, Impossible> {
    let order = graph.reachable(root);
    if order.len() > MAX_BLOCKS {
        return Ok(root);
    }
    let mut o = Optimizer::new(graph, root, order);
    o.fixed_point(false)?;
    o.fixed_point(true)?;
    o.merge_equal_blocks();
    Ok(o.shrink_root())
}

/// Facts about a block.
#[derive(Clone, Default)]
struct Facts {
    level: usize,
    /// Registers used before they are defined here, or after it.
    in_use: Atoms,
    out_use: Atoms,
    killed: Atoms,
    values: [Value; ATOMS],
    /// Value that the test compares with.
    operand: Value,
    /// Edges that lead to this block, in the order in which they were found.
    in_edges: Vec<Edge>,
    /// An equal block that replaces this one.
    same: Option<BlockId>,
}

/// An edge: its source block, and the branch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Edge {
    from: usize,
    branch: usize,
}

#[derive(Clone)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(len: usize, full: bool) -> Self {
        Self(vec![if full { u64::MAX } else { 0 }; len.div_ceil(64).max(1)])
    }
    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }
    fn contains(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }
    fn intersect(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
    }
}

struct Optimizer<'g> {
    graph: &'g mut Graph,
    root: BlockId,
    /// Blocks by their number, and the number of each block.
    order: Vec<BlockId>,
    number: Vec<usize>,
    facts: Vec<Facts>,
    /// Numbers of the blocks at each distance from the end, as they were reached.
    levels: Vec<Vec<usize>>,
    dominators: Vec<BitSet>,
    /// Dominators of edges. An edge has the number of its block; for the other branch, that number plus the number of
    /// blocks.
    edge_dominators: Vec<BitSet>,
    values: HashMap<(u16, u32, u32), Value>,
    constants: Vec<Option<u32>>,
    done: bool,
    /// Whether the pass changed something other than a branch.
    progress: bool,
}

/// The register of a scratch word; an invalid one counts as the first.
fn word(k: u32) -> usize {
    if (k as usize) < MEMORY_WORDS { k as usize } else { 0 }
}

/// Registers that an instruction uses.
fn uses(code: u16, k: u32) -> Atoms {
    const BOTH: Atoms = 1 << A | 1 << X;
    match op::class(code) {
        op::RET => match op::return_value(code) {
            0x10 => 1 << A,
            0x08 => 1 << X,
            _ => 0,
        },
        op::LD | op::LDX => match op::mode(code) {
            op::IND => 1 << X,
            op::MEM => 1 << word(k),
            _ => 0,
        },
        op::ST => 1 << A,
        op::STX => 1 << X,
        op::JMP | op::ALU => {
            if op::source(code) == op::X {
                BOTH
            } else {
                1 << A
            }
        }
        _ if op::misc(code) == op::TXA => 1 << X,
        _ => 1 << A,
    }
}

/// The register that an instruction defines.
fn defines(code: u16, k: u32) -> Option<usize> {
    match op::class(code) {
        op::LD | op::ALU => Some(A),
        op::LDX => Some(X),
        op::ST | op::STX => Some(word(k)),
        op::MISC if op::misc(code) == op::TAX => Some(X),
        op::MISC => Some(A),
        _ => None,
    }
}

impl<'g> Optimizer<'g> {
    fn new(graph: &'g mut Graph, root: BlockId, order: Vec<BlockId>) -> Self {
        let n = order.len();
        let mut number = vec![usize::MAX; graph.len()];
        for (i, b) in order.iter().enumerate() {
            number[*b as usize] = i;
        }
        Self {
            graph,
            root,
            order,
            number,
            facts: vec![Facts::default(); n],
            levels: Vec::new(),
            dominators: Vec::new(),
            edge_dominators: Vec::new(),
            values: HashMap::new(),
            constants: Vec::new(),
            done: true,
            progress: false,
        }
    }

    fn n(&self) -> usize {
        self.order.len()
    }

    fn block(&self, i: usize) -> &Block {
        &self.graph[self.order[i]]
    }

    fn block_mut(&mut self, i: usize) -> &mut Block {
        &mut self.graph[self.order[i]]
    }

    /// Number of the block that a branch leads to.
    fn succ(&self, e: Edge) -> Option<usize> {
        match self.block(e.from).succ[e.branch] {
            NONE => None,
            b => Some(self.number[b as usize]),
        }
    }

    fn set_succ(&mut self, e: Edge, to: usize) {
        let to = self.order[to];
        self.block_mut(e.from).succ[e.branch] = to;
    }

    fn branches(&self, i: usize) -> Option<[usize; 2]> {
        let t = self.succ(Edge { from: i, branch: TRUE })?;
        let f = self.succ(Edge { from: i, branch: FALSE })?;
        Some([t, f])
    }

    fn changed(&mut self) {
        self.done = false;
        self.progress = true;
    }

    /// Repeats the passes until one changes nothing.
    fn fixed_point(&mut self, statements: bool) -> Result<(), Impossible> {
        let mut moves = 0;
        loop {
            self.done = true;
            self.progress = false;
            self.find_levels();
            self.find_dominators();
            self.find_uses();
            self.find_edge_dominators();
            self.pass(statements)?;
            if self.done {
                return Ok(());
            }
            if self.progress {
                moves = 0;
            } else {
                moves += 1;
                if moves >= MAX_MOVES {
                    return Ok(());
                }
            }
        }
    }

    fn top(&self) -> usize {
        self.facts[self.number[self.root as usize]].level
    }

    /// Numbers of the blocks of a level, the last one reached first.
    fn level(&self, level: usize) -> Vec<usize> {
        self.levels.get(level).map_or(Vec::new(), |l| l.iter().rev().copied().collect())
    }

    /// The longest path of each block to a return.
    fn find_levels(&mut self) {
        let mut seen = vec![false; self.n()];
        self.levels = vec![Vec::new(); self.n()];
        let mut stack = vec![(self.number[self.root as usize], 0)];
        while let Some((i, step)) = stack.pop() {
            match (step, self.branches(i)) {
                (0, _) if std::mem::replace(&mut seen[i], true) => {}
                (0, Some([t, _])) => stack.extend([(i, 1), (t, 0)]),
                (1, Some([_, f])) => stack.extend([(i, 2), (f, 0)]),
                (_, branches) => {
                    let level = branches.map_or(0, |[t, f]| self.facts[t].level.max(self.facts[f].level) + 1);
                    self.facts[i].level = level;
                    self.levels[level].push(i);
                }
            }
        }
    }

    fn find_dominators(&mut self) {
        let n = self.n();
        self.dominators = vec![BitSet::new(n, true); n];
        let root = self.number[self.root as usize];
        self.dominators[root] = BitSet::new(n, false);
        for level in (0..=self.top()).rev() {
            for b in self.level(level) {
                self.dominators[b].insert(b);
                let Some([t, f]) = self.branches(b) else { continue };
                let of_b = self.dominators[b].clone();
                self.dominators[t].intersect(&of_b);
                self.dominators[f].intersect(&of_b);
            }
        }
    }

    fn edge_number(&self, e: Edge) -> usize {
        if e.branch == TRUE { e.from } else { self.n() + e.from }
    }

    fn find_edge_dominators(&mut self) {
        let edges = 2 * self.n();
        self.edge_dominators = vec![BitSet::new(edges, true); edges];
        let root = self.number[self.root as usize];
        for branch in [TRUE, FALSE] {
            let e = self.edge_number(Edge { from: root, branch });
            self.edge_dominators[e] = BitSet::new(edges, false);
        }
        for level in (0..=self.top()).rev() {
            for b in self.level(level) {
                for branch in [TRUE, FALSE] {
                    let edge = Edge { from: b, branch };
                    let e = self.edge_number(edge);
                    self.edge_dominators[e].insert(e);
                    let Some(to) = self.succ(edge) else { continue };
                    let of_e = self.edge_dominators[e].clone();
                    for branch in [TRUE, FALSE] {
                        let next = self.edge_number(Edge { from: to, branch });
                        self.edge_dominators[next].intersect(&of_e);
                    }
                }
            }
        }
    }

    /// The registers that each block needs, and those that are needed after it.
    fn find_uses(&mut self) {
        let top = self.top();
        for level in (0..=top).rev() {
            for i in self.level(level) {
                let (mut defined, mut used, mut killed) = (0, 0, 0);
                let b = self.block(i);
                for s in b.stmts.iter().filter(|s| !s.dead) {
                    used |= uses(s.code, s.k) & !defined;
                    if let Some(atom) = defines(s.code, s.k) {
                        if used >> atom & 1 == 0 {
                            killed |= 1 << atom;
                        }
                        defined |= 1 << atom;
                    }
                }
                if op::class(b.code) == op::JMP {
                    used |= uses(b.code, b.k) & !defined;
                }
                let facts = &mut self.facts[i];
                (facts.in_use, facts.killed, facts.out_use) = (used, killed, 0);
            }
        }
        for level in 1..=top {
            for i in self.level(level) {
                let Some([t, f]) = self.branches(i) else { continue };
                let out = self.facts[t].in_use | self.facts[f].in_use;
                let facts = &mut self.facts[i];
                facts.out_use |= out;
                facts.in_use |= facts.out_use & !facts.killed;
            }
        }
    }

    fn pass(&mut self, statements: bool) -> Result<(), Impossible> {
        self.values.clear();
        self.constants = vec![None];
        let top = self.top();
        self.find_in_edges();
        for level in (0..=top).rev() {
            for i in self.level(level) {
                self.block_values(i, statements)?;
            }
        }
        if statements {
            return Ok(());
        }
        for level in 1..=top {
            for i in self.level(level) {
                self.move_edge(Edge { from: i, branch: TRUE });
                self.move_edge(Edge { from: i, branch: FALSE });
            }
        }
        self.find_in_edges();
        for level in 1..=top {
            for i in self.level(level) {
                self.pull_up(i, TRUE);
                self.pull_up(i, FALSE);
            }
        }
        Ok(())
    }

    fn find_in_edges(&mut self) {
        for facts in &mut self.facts {
            facts.in_edges.clear();
        }
        for level in (1..=self.top()).rev() {
            for i in self.level(level) {
                for branch in [TRUE, FALSE] {
                    let edge = Edge { from: i, branch };
                    if let Some(to) = self.succ(edge) {
                        self.facts[to].in_edges.push(edge);
                    }
                }
            }
        }
    }

    // Value numbering.

    fn value(&mut self, code: u16, v0: u32, v1: u32) -> Value {
        if let Some(value) = self.values.get(&(code, v0, v1)) {
            return *value;
        }
        let value = self.constants.len() as Value;
        let constant = op::mode(code) == op::IMM && matches!(op::class(code), op::LD | op::LDX);
        self.constants.push(constant.then_some(v0));
        self.values.insert((code, v0, v1), value);
        value
    }

    fn constant_value(&mut self, k: u32) -> Value {
        self.value(op::LD | op::IMM, k, 0)
    }

    fn constant(&self, value: Value) -> Option<u32> {
        self.constants.get(value as usize).copied().flatten()
    }

    fn block_values(&mut self, i: usize, alter: bool) -> Result<(), Impossible> {
        let mut values = [UNKNOWN; ATOMS];
        let mut edges = self.facts[i].in_edges.iter().rev();
        if let Some(first) = edges.next() {
            values = self.facts[first.from].values;
            for edge in edges {
                for (value, other) in values.iter_mut().zip(&self.facts[edge.from].values) {
                    if *value != *other {
                        *value = UNKNOWN;
                    }
                }
            }
        }
        let (a, x) = (values[A], values[X]);
        let mut stmts = std::mem::take(&mut self.block_mut(i).stmts);
        let mut result = Ok(());
        for s in stmts.iter_mut().filter(|s| !s.dead) {
            result = self.statement(s, &mut values, alter);
            if result.is_err() {
                break;
            }
        }
        self.block_mut(i).stmts = stmts;
        result?;
        self.facts[i].values = values;
        let same =
            self.facts[i].out_use == 0 && a != UNKNOWN && values[A] == a && x != UNKNOWN && values[X] == x;
        if alter && (same || op::class(self.block(i).code) == op::RET) {
            if !self.block(i).stmts.is_empty() {
                self.block_mut(i).stmts.clear();
                self.changed();
            }
        } else {
            self.peephole(i);
            self.dead_stores(i);
        }
        let (code, k) = (self.block(i).code, self.block(i).k);
        self.facts[i].operand =
            if op::source(code) == op::K { self.constant_value(k) } else { self.facts[i].values[X] };
        Ok(())
    }

    /// Gives a register a value. With `alter` the statement is removed if the register has the value already.
    fn store(s: &mut Stmt, slot: &mut Value, value: Value, alter: bool) {
        if alter && value != UNKNOWN && *slot == value {
            s.dead = true;
        } else {
            *slot = value;
        }
    }

    fn statement(
        &mut self,
        s: &mut Stmt,
        values: &mut [Value; ATOMS],
        alter: bool,
    ) -> Result<(), Impossible> {
        let (class, mode) = (op::class(s.code), op::mode(s.code));
        match (class, mode) {
            (op::LD, op::ABS | op::EXT) => {
                let v = self.value(s.code, s.k, 0);
                Self::store(s, &mut values[A], v, alter);
            }
            (op::LD, op::IND) => {
                let x = values[X];
                let v = match self.constant(x) {
                    Some(x) if alter => {
                        s.code = s.code & !op::IND | op::ABS;
                        s.k = s.k.wrapping_add(x);
                        self.changed();
                        self.value(s.code, s.k, 0)
                    }
                    _ => self.value(s.code, s.k, x),
                };
                Self::store(s, &mut values[A], v, alter);
            }
            (op::LD, op::LEN) => {
                let v = self.value(s.code, 0, 0);
                Self::store(s, &mut values[A], v, alter);
            }
            (op::LD, op::IMM) => {
                let v = self.constant_value(s.k);
                Self::store(s, &mut values[A], v, alter);
            }
            (op::LDX, op::IMM) => {
                let v = self.constant_value(s.k);
                Self::store(s, &mut values[X], v, alter);
            }
            (op::LDX, op::MSH) => {
                let v = self.value(s.code, s.k, 0);
                Self::store(s, &mut values[X], v, alter);
            }
            (op::LD | op::LDX, op::MEM) => {
                let v = values[word(s.k)];
                if let Some(k) = self.constant(v)
                    && alter
                {
                    s.code = class | op::IMM;
                    s.k = k;
                    self.changed();
                }
                Self::store(s, &mut values[if class == op::LD { A } else { X }], v, alter);
            }
            (op::ST, _) => {
                let v = values[A];
                Self::store(s, &mut values[word(s.k)], v, alter);
            }
            (op::STX, _) => {
                let v = values[X];
                Self::store(s, &mut values[word(s.k)], v, alter);
            }
            (op::MISC, _) => {
                let (from, to) = if op::misc(s.code) == op::TXA { (X, A) } else { (A, X) };
                let v = values[from];
                Self::store(s, &mut values[to], v, alter);
            }
            (op::ALU, _) => return self.alu(s, values, alter),
            _ => {}
        }
        Ok(())
    }

    fn alu(&mut self, s: &mut Stmt, values: &mut [Value; ATOMS], alter: bool) -> Result<(), Impossible> {
        let operator = op::operator(s.code);
        let a = values[A];
        if operator == op::NEG {
            values[A] = match self.constant(a) {
                Some(k) if alter => {
                    s.code = op::LD | op::IMM;
                    s.k = k.wrapping_neg();
                    self.constant_value(s.k)
                }
                _ => self.value(s.code, a, 0),
            };
            return Ok(());
        }
        if op::source(s.code) == op::K {
            let operand = self.constant_value(s.k);
            if alter {
                if s.k == 0 {
                    match operator {
                        op::ADD | op::LSH | op::RSH | op::OR | op::XOR => {
                            s.dead = true;
                            return Ok(());
                        }
                        op::MUL | op::AND => {
                            s.code = op::LD | op::IMM;
                            values[A] = operand;
                            return Ok(());
                        }
                        op::DIV => return Err(Impossible::DivisionByZero),
                        op::MOD => return Err(Impossible::ModulusByZero),
                        _ => {}
                    }
                }
                if let Some(left) = self.constant(a) {
                    self.fold(s, operator, left, s.k)?;
                    values[A] = self.constant_value(s.k);
                    return Ok(());
                }
            }
            values[A] = self.value(s.code, a, operand);
            return Ok(());
        }
        let x = values[X];
        if let Some(right) = self.constant(x)
            && alter
        {
            if let Some(left) = self.constant(a) {
                self.fold(s, operator, left, right)?;
                values[A] = self.constant_value(s.k);
                return Ok(());
            }
            s.code = op::ALU | op::K | operator;
            s.k = right;
            if matches!(operator, op::LSH | op::RSH) && right > 31 {
                return Err(Impossible::LongShift);
            }
            self.changed();
            let operand = self.constant_value(s.k);
            values[A] = self.value(s.code, a, operand);
            return Ok(());
        }
        if alter && self.constant(a) == Some(0) {
            match operator {
                op::ADD | op::OR | op::XOR => {
                    s.code = op::MISC | op::TXA;
                    Self::store(s, &mut values[A], x, alter);
                    return Ok(());
                }
                op::MUL | op::DIV | op::MOD | op::AND | op::LSH | op::RSH => {
                    s.code = op::LD | op::IMM;
                    s.k = 0;
                    let zero = self.constant_value(0);
                    Self::store(s, &mut values[A], zero, alter);
                    return Ok(());
                }
                _ => {}
            }
        }
        values[A] = self.value(s.code, a, x);
        Ok(())
    }

    fn fold(&mut self, s: &mut Stmt, operator: u16, a: u32, b: u32) -> Result<(), Impossible> {
        let Some(k) = arithmetic(operator, a, b) else {
            return Err(if operator == op::MOD {
                Impossible::ModulusByZero
            } else {
                Impossible::DivisionByZero
            });
        };
        s.k = k;
        s.code = op::LD | op::IMM;
        self.changed();
        Ok(())
    }

    // Within a block.

    fn peephole(&mut self, i: usize) {
        const ST: u16 = op::ST;
        const LDX_MEM: u16 = op::LDX | op::MEM;
        const LD_IMM: u16 = op::LD | op::IMM;
        const LDX_IMM: u16 = op::LDX | op::IMM;
        const LDX_MSH: u16 = op::LDX | op::MSH | op::B;
        const ADD_X: u16 = op::ALU | op::ADD | op::X;
        const TAX: u16 = op::MISC | op::TAX;
        const TXA: u16 = op::MISC | op::TXA;
        if self.block(i).stmts.is_empty() {
            return;
        }
        let mut stmts = std::mem::take(&mut self.block_mut(i).stmts);
        let next_live = |stmts: &[Stmt], from: usize| (from..stmts.len()).find(|at| !stmts[*at].dead);
        let out_use = self.facts[i].out_use;
        let mut last = 0;
        let mut at = 0;
        while let Some(this) = next_live(&stmts, at) {
            let Some(next) = next_live(&stmts, this + 1) else { break };
            last = next;
            at = next;
            if stmts[this].code == ST && stmts[next].code == LDX_MEM && stmts[this].k == stmts[next].k {
                self.changed();
                stmts[next].code = TAX;
            }
            if stmts[this].code == LD_IMM && stmts[next].code == TAX {
                stmts[this].code = LDX_IMM;
                stmts[next].code = TXA;
                self.changed();
            }
            // ldi, [ldxms,] addx, tax, ild: the constant goes into the offset of the load.
            if stmts[this].code != LD_IMM || out_use >> X & 1 == 1 {
                continue;
            }
            let add = if stmts[next].code == LDX_MSH { next_live(&stmts, next + 1) } else { Some(next) };
            let Some(add) = add.filter(|at| stmts[*at].code == ADD_X) else { continue };
            let Some(tax) = next_live(&stmts, add + 1).filter(|at| stmts[*at].code == TAX) else { continue };
            let Some(load) = next_live(&stmts, tax + 1)
                .filter(|at| op::class(stmts[*at].code) == op::LD && op::mode(stmts[*at].code) == op::IND)
            else {
                continue;
            };
            stmts[load].k = stmts[load].k.wrapping_add(stmts[this].k);
            for at in [this, add, tax] {
                stmts[at].dead = true;
            }
            self.changed();
        }
        self.simplify_test(i, &mut stmts, last);
        self.block_mut(i).stmts = stmts;
        self.known_test(i);
    }

    /// Moves the last operation into a comparison for equality, if nothing else needs its result.
    fn simplify_test(&mut self, i: usize, stmts: &mut [Stmt], last: usize) {
        if self.block(i).code != op::JMP | op::JEQ | op::K || self.facts[i].out_use >> A & 1 == 1 {
            return;
        }
        let Some(last) = stmts.get_mut(last).filter(|s| !s.dead) else { return };
        let k = self.block(i).k;
        if last.code == op::ALU | op::SUB | op::X {
            let x = self.facts[i].values[X];
            if let Some(x) = self.constant(x) {
                self.block_mut(i).k = k.wrapping_add(x);
            } else if k == 0 {
                self.block_mut(i).code = op::JMP | op::JEQ | op::X;
            } else {
                return;
            }
        } else if last.code == op::ALU | op::SUB | op::K {
            self.block_mut(i).k = k.wrapping_add(last.k);
        } else if last.code == op::ALU | op::AND | op::K && k == 0 {
            let b = self.block_mut(i);
            b.k = last.k;
            b.code = op::JMP | op::JSET | op::K;
            b.succ.swap(TRUE, FALSE);
        } else {
            return;
        }
        last.dead = true;
        self.changed();
    }

    /// Finds tests with a known result.
    fn known_test(&mut self, i: usize) {
        let (a, x) = (self.facts[i].values[A], self.facts[i].values[X]);
        let x = self.constant(x);
        let a = self.constant(a);
        let b = self.block_mut(i);
        if b.code == op::JMP | op::JSET | op::K {
            if b.k == 0 {
                b.succ[TRUE] = b.succ[FALSE];
            }
            if b.k == u32::MAX {
                b.succ[FALSE] = b.succ[TRUE];
            }
        }
        if let Some(x) = x
            && op::source(b.code) == op::X
        {
            b.code &= !op::X;
            b.k = x;
        }
        if let Some(a) = a
            && op::source(b.code) == op::K
        {
            let holds = match op::operator(b.code) {
                op::JEQ => a == b.k,
                op::JGT => a > b.k,
                op::JGE => a >= b.k,
                op::JSET => a & b.k != 0,
                _ => return,
            };
            let both = b.succ[if holds { TRUE } else { FALSE }];
            let changes = b.succ != [both; 2];
            b.succ = [both; 2];
            if changes {
                self.changed();
            }
        }
    }

    /// Removes statements whose result is not used.
    fn dead_stores(&mut self, i: usize) {
        let out_use = self.facts[i].out_use;
        let mut last: [Option<usize>; ATOMS] = [None; ATOMS];
        let mut changes = false;
        let b = self.block_mut(i);
        let test = (b.code, b.k);
        for at in 0..=b.stmts.len() {
            let (code, k) = match b.stmts.get(at) {
                Some(s) if s.dead => continue,
                Some(s) => (s.code, s.k),
                None => test,
            };
            let used = uses(code, k);
            for (atom, slot) in last.iter_mut().enumerate() {
                if used >> atom & 1 == 1 {
                    *slot = None;
                }
            }
            if let Some(atom) = defines(code, k) {
                if let Some(before) = last[atom] {
                    changes = true;
                    b.stmts[before].dead = true;
                }
                last[atom] = Some(at);
            }
        }
        for (atom, slot) in last.iter().enumerate() {
            if let Some(at) = slot
                && out_use >> atom & 1 == 0
                && let Some(s) = b.stmts.get_mut(*at)
            {
                s.dead = true;
                changes = true;
            }
        }
        if changes {
            self.changed();
        }
    }

    // Between blocks.

    /// Whether a register that is used after `to` has different values there and after `from`.
    fn conflict(&self, from: usize, to: usize) -> bool {
        let (a, b) = (&self.facts[from].values, &self.facts[to]);
        (0..ATOMS).any(|atom| b.out_use >> atom & 1 == 1 && a[atom] != b.values[atom])
    }

    /// The successor of `child` when it is reached over `edge` and the facts of that path decide its test.
    fn decided(&self, child: usize, edge: Edge) -> Option<usize> {
        let (before, b) = (self.block(edge.from), self.block(child));
        if before.code != b.code || op::class(b.code) != op::JMP {
            return None;
        }
        let (before, after) = (&self.facts[edge.from], &self.facts[child]);
        if before.values[A] != after.values[A] {
            return None;
        }
        let [t, f] = self.branches(child)?;
        if before.operand == after.operand {
            return Some(if edge.branch == TRUE { t } else { f });
        }
        // A value that equals one constant equals no other.
        (edge.branch == TRUE && b.code == op::JMP | op::JEQ | op::K).then_some(f)
    }

    /// Sends an edge past tests that it decides.
    fn move_edge(&mut self, edge: Edge) {
        let Some(to) = self.succ(edge) else { return };
        let Some([t, f]) = self.branches(to) else { return };
        if t == f && !self.conflict(edge.from, t) {
            self.changed();
            self.set_succ(edge, t);
        }
        let n = self.n();
        let dominators = self.edge_dominators[self.edge_number(edge)].clone();
        'again: loop {
            for (i, bits) in dominators.0.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    let e = i * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    if e >= 2 * n {
                        break;
                    }
                    let over = if e < n {
                        Edge { from: e, branch: TRUE }
                    } else {
                        Edge { from: e - n, branch: FALSE }
                    };
                    let Some(child) = self.succ(edge) else { return };
                    let Some(target) = self.decided(child, over) else { continue };
                    if self.conflict(edge.from, target) {
                        continue;
                    }
                    self.done = false;
                    self.set_succ(edge, target);
                    if self.branches(target).is_some() {
                        continue 'again;
                    }
                    return;
                }
            }
            return;
        }
    }

    /// In a chain of tests that all leave by `out` for one block, moves a test of the same value as the test before
    /// the chain up to that test.
    fn pull_up(&mut self, b: usize, out: usize) {
        let on = 1 - out;
        let Some(first) = self.facts[b].in_edges.last().copied() else { return };
        let value = self.facts[first.from].values[A];
        if self.facts[b].in_edges.iter().any(|e| self.facts[e.from].values[A] != value) {
            return;
        }
        let exit = self.block(b).succ[out];
        let enters_by_true = self.block(first.from).succ[TRUE] == self.order[b];
        let mut different = Edge { from: first.from, branch: if enters_by_true { TRUE } else { FALSE } };
        let in_chain = |this: &Self, edge: Edge| {
            let at = this.succ(edge)?;
            (this.block(at).succ[out] == exit && this.dominators[at].contains(b)).then_some(at)
        };
        let mut at_top = true;
        loop {
            let Some(at) = in_chain(self, different) else { return };
            if self.facts[at].values[A] != value {
                break;
            }
            different = Edge { from: at, branch: on };
            at_top = false;
        }
        let Some(start) = self.succ(different) else { return };
        let mut same = Edge { from: start, branch: on };
        let pull = loop {
            let Some(at) = in_chain(self, same) else { return };
            if self.facts[at].values[A] == value {
                break at;
            }
            same = Edge { from: at, branch: on };
        };
        let after = self.block(pull).succ[on];
        self.block_mut(same.from).succ[same.branch] = after;
        let to = self.succ(different).map(|at| self.order[at]).unwrap_or(NONE);
        self.block_mut(pull).succ[on] = to;
        if at_top {
            for edge in self.facts[b].in_edges.clone().into_iter().rev() {
                let branch = if self.block(edge.from).succ[TRUE] == self.order[b] { TRUE } else { FALSE };
                self.set_succ(Edge { from: edge.from, branch }, pull);
            }
        } else {
            self.set_succ(different, pull);
        }
        self.done = false;
    }

    // At the end.

    /// Merges equal blocks.
    fn merge_equal_blocks(&mut self) {
        loop {
            for facts in &mut self.facts {
                facts.same = None;
            }
            let mut alive = vec![false; self.n()];
            for b in self.graph.reachable(self.root) {
                alive[self.number[b as usize]] = true;
            }
            for i in (0..self.n().saturating_sub(1)).rev() {
                if !alive[i] {
                    continue;
                }
                let equal = (i + 1..self.n()).find(|j| alive[*j] && self.equal(i, *j));
                if let Some(j) = equal {
                    self.facts[i].same = Some(self.facts[j].same.unwrap_or(self.order[j]));
                }
            }
            let mut done = true;
            for i in 0..self.n() {
                if self.branches(i).is_none() {
                    continue;
                }
                for branch in [TRUE, FALSE] {
                    let edge = Edge { from: i, branch };
                    if let Some(same) = self.succ(edge).and_then(|to| self.facts[to].same) {
                        done = false;
                        self.block_mut(i).succ[branch] = same;
                    }
                }
            }
            if done {
                return;
            }
        }
    }

    fn equal(&self, i: usize, j: usize) -> bool {
        let (a, b) = (self.block(i), self.block(j));
        if a.code != b.code || a.k != b.k || a.succ != b.succ {
            return false;
        }
        let live =
            |b: &'_ Block| b.stmts.iter().filter(|s| !s.dead).map(|s| (s.code, s.k)).collect::<Vec<_>>();
        live(a) == live(b)
    }

    /// Removes tests at the start whose result does not matter; their statements stay.
    fn shrink_root(&mut self) -> BlockId {
        let mut stmts = std::mem::take(&mut self.graph[self.root].stmts);
        loop {
            let b = &self.graph[self.root];
            if op::class(b.code) != op::JMP || b.succ[TRUE] != b.succ[FALSE] {
                break;
            }
            self.root = b.succ[TRUE];
        }
        let root = &mut self.graph[self.root];
        stmts.append(&mut root.stmts);
        if op::class(root.code) != op::RET {
            root.stmts = stmts;
        }
        self.root
    }
}
