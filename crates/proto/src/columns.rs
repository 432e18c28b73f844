//! The fields of a table that anything reads: a parser need not make the values of others.

use crate::Table;
use crate::record::at;

/// A set of fields of a table, by their positions. Fields from position 128 on belong to every set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Columns(u128);

impl Columns {
    /// Every field.
    pub const ALL: Columns = Columns(u128::MAX);
    /// No field.
    pub const NONE: Columns = Columns(0);

    /// The fields of these names; every field if the table lacks one of them.
    pub fn of<'n>(table: &Table, names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut columns = Self::NONE;
        for name in names {
            match table.fields.iter().position(|field| field.name == name) {
                Some(position) if position < 128 => columns.0 |= 1 << position,
                Some(_) => {}
                None => return Self::ALL,
            }
        }
        columns
    }

    /// The fields of a table from one to another, for the compiler.
    pub(crate) const fn between(table: &Table, first: &str, last: &str) -> Self {
        let (first, last) = (at(table.fields, first), at(table.fields, last));
        Columns((u128::MAX >> (127 - last)) & (u128::MAX << first))
    }

    /// Whether it has the field at a position.
    #[inline]
    pub const fn has(self, position: usize) -> bool {
        position >= 128 || self.0 >> position & 1 == 1
    }

    /// Whether both have a field.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The fields of either.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Columns(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DNS;

    #[test]
    fn fields_are_found_by_name_and_position() {
        let names = ["query", "rcode_name"];
        let columns = Columns::of(&DNS, names);
        for (position, field) in DNS.fields.iter().enumerate() {
            assert_eq!(columns.has(position), names.contains(&field.name), "{}", field.name);
            assert!(Columns::ALL.has(position) && !Columns::NONE.has(position));
            assert_eq!(Columns::of(&DNS, [field.name]).meets(columns), names.contains(&field.name));
        }
        assert_eq!(Columns::of(&DNS, ["query", "no_such_field"]), Columns::ALL);
        assert!(Columns::NONE.has(128), "more fields than it has room for are always read");
        assert_eq!(Columns::of(&DNS, ["query"]).with(Columns::of(&DNS, ["rcode_name"])), columns);
        let (first, last) = (DNS.at("query"), DNS.at("rcode_name"));
        let between = Columns::between(&DNS, "query", "rcode_name");
        assert!((0..DNS.fields.len()).all(|at| between.has(at) == (first..=last).contains(&at)));
    }
}
