//! The atoms of all expressions of a set, each once.

use super::Expression;
use super::columns::Columns;
use super::index::{AtomBits, MAX_ATOMS};
use super::kind::{Classes, Kinds};
use super::look::Look;
use super::lower::{Atom, Base, Comparison};
use super::simd::{BATCH, Column, InstructionSet, Mask};
use crate::ast::Expr;
use crate::filter::Filter;
use crate::names::ip_protocol;
use foldhash::{HashMap, HashMapExt};
use std::sync::Arc;
use weir_wire::{Layers, Packet};

/// A number at an offset of a header, which several atoms may test.
#[derive(Clone, Debug)]
struct Field {
    base: Base,
    offset: u32,
    size: u8,
    kinds: Kinds,
}

/// The left side of an atom.
#[derive(Clone, Debug)]
enum Bound {
    /// A field, under a mask, in packets of some classes.
    Field { field: usize, mask: u32, range: (u32, u32), kinds: Kinds, classes: Vec<u16> },
    /// The bytes on the wire.
    Length { range: (u32, u32) },
    /// The verdict of a program, by the program's number.
    Program(usize),
    /// Never holds: no number is above the largest.
    Never,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Atoms {
    bound: Vec<Bound>,
    fields: Vec<Field>,
    /// Offset of each field in an IPv4 packet without options after an Ethernet header, and number of bits after the
    /// field in the four bytes from that offset.
    plain_fields: Vec<(u32, u32)>,
    /// For each class, the fields that its packets have.
    fields_of_class: Vec<Vec<u32>>,
    programs: Vec<Arc<Filter>>,
    /// For each expression the numbers of its atoms; `None` if there were too many.
    of_expression: Vec<Option<Vec<usize>>>,
}

impl Atoms {
    pub fn new(expressions: &[Arc<Expression>], options: super::SetOptions) -> Self {
        let mut atoms = Self::default();
        let mut known: HashMap<String, usize> = HashMap::new();
        for expression in expressions {
            let own = expression.lowered.iter().flat_map(|lowered| &lowered.atoms);
            let own: Option<Vec<usize>> =
                own.map(|atom| atoms.add(atom, expression, &mut known, options)).collect();
            atoms.of_expression.push(own);
        }
        atoms
    }

    /// Returns the number of an atom; `None` if there is no room for another one.
    fn add(
        &mut self,
        atom: &Atom,
        expression: &Expression,
        known: &mut HashMap<String, usize>,
        options: super::SetOptions,
    ) -> Option<usize> {
        let name = atom.name();
        if let Some(at) = known.get(&name) {
            return Some(*at);
        }
        if self.bound.len() == MAX_ATOMS {
            return None;
        }
        let bound = match atom {
            Atom::Field { kinds, base, offset, size, mask, comparison, value } => {
                match range(*comparison, *value) {
                    Some(range) => {
                        let field = self.field(*base, *offset, *size, kinds);
                        Bound::Field { field, mask: *mask, range, kinds: *kinds, classes: Vec::new() }
                    }
                    None => Bound::Never,
                }
            }
            Atom::Length { comparison, value } => match range(*comparison, *value) {
                Some(range) => Bound::Length { range },
                None => Bound::Never,
            },
            Atom::Program(test) => {
                let expr = Some(Expr::Test(test.clone()));
                self.programs.push(Arc::new(Filter::of(&expression.text, expr, &options.to_options())));
                Bound::Program(self.programs.len() - 1)
            }
        };
        self.bound.push(bound);
        known.insert(name, self.bound.len() - 1);
        Some(self.bound.len() - 1)
    }

    fn field(&mut self, base: Base, offset: u32, size: u8, kinds: &Kinds) -> usize {
        let same = |f: &Field| (f.base, f.offset, f.size) == (base, offset, size);
        match self.fields.iter().position(same) {
            Some(at) => {
                self.fields[at].kinds = self.fields[at].kinds.union(kinds);
                at
            }
            None => {
                self.fields.push(Field { base, offset, size, kinds: *kinds });
                let start = match base {
                    Base::Link => 0,
                    Base::Network => 14,
                    Base::Transport => 34,
                };
                self.plain_fields.push((start + offset, 32 - 8 * u32::from(size)));
                self.fields.len() - 1
            }
        }
    }

    /// All sets of kinds that atoms test.
    pub fn kinds(&self) -> impl Iterator<Item = &Kinds> {
        let of_atoms = self.bound.iter().filter_map(|bound| match bound {
            Bound::Field { kinds, .. } => Some(kinds),
            _ => None,
        });
        of_atoms.chain(self.fields.iter().map(|field| &field.kinds))
    }

    /// Assigns fields to classes. Call it when the classes of the set are complete.
    pub fn classes(&mut self, of: &Classes) {
        for bound in &mut self.bound {
            if let Bound::Field { kinds, classes, .. } = bound {
                *classes = of.within(kinds);
            }
        }
        self.fields_of_class = vec![Vec::new(); of.len()];
        for (number, field) in self.fields.iter().enumerate() {
            for class in of.within(&field.kinds) {
                self.fields_of_class[usize::from(class)].push(number as u32);
            }
        }
    }

    /// Whether the atoms of an expression all have a number.
    pub fn fits(&self, expression: u32) -> bool {
        self.of_expression.get(expression as usize).is_some_and(Option::is_some)
    }

    /// The numbers of an expression's atoms.
    pub fn of(&self, expression: u32) -> &[usize] {
        self.of_expression.get(expression as usize).and_then(|own| own.as_deref()).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.bound.len()
    }

    pub fn field_count(&self) -> usize {
        self.fields.len()
    }

    pub fn program_count(&self) -> usize {
        self.programs.len()
    }

    /// Whether no field of a packet needs to be read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty()
    }

    /// Reads the fields of a packet's class into position `at` of the columns, and runs the programs. `None` if the
    /// packet is too short for one of them.
    #[inline]
    pub fn read(
        &self,
        packet: &Packet<'_>,
        layers: Option<&Layers>,
        look: &Look,
        class: u16,
        columns: &mut Columns,
        at: usize,
    ) -> Option<()> {
        for number in self.fields_of_class.get(usize::from(class)).map_or(&[][..], Vec::as_slice) {
            let field = self.fields.get(*number as usize)?;
            let value = field.read(packet.data, look)?;
            if let Some(column) = columns.fields.get_mut(*number as usize) {
                column[at % BATCH] = value;
            }
        }
        for (program, mask) in self.programs.iter().zip(&mut columns.programs) {
            if program.verdict(packet, layers)? {
                mask[at % BATCH / 64] |= 1 << (at % 64);
            }
        }
        Some(())
    }

    /// Whether all values to be read are fields.
    #[inline]
    pub fn are_fields(&self) -> bool {
        self.programs.is_empty()
    }

    /// Reads the fields of an IPv4 packet without options after an Ethernet header into a position of the columns,
    /// including fields of other classes. `None` if the packet is too short for a field of its class.
    #[inline(always)]
    pub fn read_fields(&self, data: &[u8], class: u16, columns: &mut [Column<u32>], at: usize) -> Option<()> {
        for (number, ((start, shift), column)) in self.plain_fields.iter().zip(columns).enumerate() {
            // Most packets have four more bytes there, whatever the size of the field.
            if let Some(bytes) = data.get(*start as usize..).and_then(|rest| rest.first_chunk::<4>()) {
                column[at % BATCH] = u32::from_be_bytes(*bytes) >> shift;
            } else {
                self.read_last_bytes(number, data, class, column, at)?;
            }
        }
        Some(())
    }

    #[cold]
    fn read_last_bytes(
        &self,
        number: usize,
        data: &[u8],
        class: u16,
        column: &mut Column<u32>,
        at: usize,
    ) -> Option<()> {
        let look = Look { network: 14, transport: 34, ..Look::default() };
        match self.fields.get(number)?.read(data, &look) {
            Some(value) => column[at % BATCH] = value,
            None => self.is_not_of(number, class)?,
        }
        Some(())
    }

    #[cold]
    fn is_not_of(&self, field: usize, class: u16) -> Option<()> {
        let own = self.fields_of_class.get(usize::from(class))?;
        (!own.contains(&(field as u32))).then_some(())
    }

    /// TCP flags of which at least one is set if the atom holds; `None` if it can hold without any.
    pub fn flags(&self, atom: usize) -> Option<u8> {
        const FLAGS: u32 = 13;
        let Some(Bound::Field { field, mask, range: (min, _), kinds, .. }) = self.bound.get(atom) else {
            return None;
        };
        let field = self.fields.get(*field)?;
        let tcp = Kinds::with_ports(&[ip_protocol::TCP as u8]).intersection(&Kinds::ip());
        let is_flags = (field.base, field.offset, field.size) == (Base::Transport, FLAGS, 1);
        (is_flags && *kinds == kinds.intersection(&tcp) && *min > 0).then_some(*mask as u8)
    }

    /// The atoms that hold for one packet, as far as they can be evaluated.
    pub fn of_packet(&self, packet: &Packet<'_>, layers: Option<&Layers>, look: &Look) -> AtomBits {
        let mut bits = AtomBits::default();
        for (number, bound) in self.bound.iter().enumerate() {
            let holds = match bound {
                Bound::Field { field, mask, range, kinds, .. } => {
                    let field = self.fields.get(*field).filter(|_| kinds.contains(look.kind));
                    let value = field.and_then(|field| field.read(packet.data, look));
                    value.is_some_and(|value| (range.0..=range.1).contains(&(value & mask)))
                }
                Bound::Length { range } => (range.0..=range.1).contains(&packet.wire_len),
                Bound::Program(program) => {
                    self.programs.get(*program).and_then(|p| p.verdict(packet, layers)).unwrap_or(false)
                }
                Bound::Never => false,
            };
            if let Some(word) = bits.get_mut(number / 64) {
                *word |= u64::from(holds) << (number % 64);
            }
        }
        bits
    }

    /// Evaluates every atom for a batch.
    pub fn compare(&self, isa: InstructionSet, columns: &Columns, classes: &[Mask], results: &mut Vec<Mask>) {
        results.clear();
        for bound in &self.bound {
            results.push(match bound {
                Bound::Field { field, mask, range, classes: own, .. } => {
                    let of_kind = own.iter().fold([0; BATCH / 64], |all, class| {
                        super::columns::or(&all, classes.get(usize::from(*class)).unwrap_or(&[0; BATCH / 64]))
                    });
                    super::columns::and(&columns.field(isa, *field, *mask, *range), &of_kind)
                }
                Bound::Length { range } => columns.of_length(isa, *range),
                Bound::Program(program) => columns.programs.get(*program).copied().unwrap_or_default(),
                Bound::Never => [0; BATCH / 64],
            });
        }
    }
}

impl Field {
    #[inline]
    fn read(&self, data: &[u8], look: &Look) -> Option<u32> {
        let start = match self.base {
            Base::Link => 0,
            Base::Network => look.network,
            Base::Transport => look.transport,
        };
        let bytes = data.get((start + self.offset) as usize..)?;
        Some(match self.size {
            1 => u32::from(*bytes.first()?),
            2 => u32::from(u16::from_be_bytes(*bytes.first_chunk()?)),
            _ => u32::from_be_bytes(*bytes.first_chunk()?),
        })
    }
}

/// The range of numbers for which a comparison holds; `None` if it is empty.
fn range(comparison: Comparison, value: u32) -> Option<(u32, u32)> {
    match comparison {
        Comparison::Equal => Some((value, value)),
        Comparison::AtLeast => Some((value, u32::MAX)),
        Comparison::Greater => Some((value.checked_add(1)?, u32::MAX)),
    }
}
