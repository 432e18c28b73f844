//! Records in transit between threads: one allocation of bytes that holds only present values.
//!
//! Most fields of a table have no value in any one record, and each text would be an allocation that another thread
//! frees. The format is private to the running program and never written to disk.

use crate::{Record, Span, Table, Value};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::Time;

/// Records of one batch.
#[derive(Debug, Default)]
pub struct Packed {
    bytes: Vec<u8>,
}

/// Memory for the values of one record after another.
#[derive(Debug, Default)]
pub struct Spare(Vec<Value<'static>>);

impl Spare {
    /// Takes the memory of a record that is not needed any more.
    pub fn take_back(&mut self, record: Record<'_>) {
        let mut values = record.values;
        values.clear();
        // Nothing is left to convert: the memory changes its type, and is not allocated again.
        self.0 = values.into_iter().map(|_| Value::None).collect();
    }
}

/// A record in a batch: its table, its time, and the position of its values in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// See [`Record::table`].
    pub table: &'static Table,
    /// See [`Record::time`].
    pub time: Time,
    /// See [`Record::packet`].
    pub packet: u32,
    from: u32,
}

/// Kind of a value, in the byte before it.
mod tag {
    pub const NONE: u8 = 0;
    pub const NO: u8 = 1;
    pub const YES: u8 = 2;
    pub const UINT: u8 = 3;
    pub const INT: u8 = 4;
    pub const REAL: u8 = 5;
    pub const TIME: u8 = 6;
    pub const SPAN: u8 = 7;
    pub const TEXT: u8 = 8;
    pub const V4: u8 = 9;
    pub const V6: u8 = 10;
    pub const LIST: u8 = 11;
    pub const ROWS: u8 = 12;
}

impl Packed {
    /// Adds a record.
    pub fn push(&mut self, record: &Record<'_>) -> Place {
        self.push_fields(record, 0..record.values.len())
    }

    /// Adds a record with the values of the fields at some positions; the others are absent.
    pub fn push_fields(&mut self, record: &Record<'_>, fields: impl Iterator<Item = usize> + Clone) -> Place {
        let Record { table, time, packet, .. } = *record;
        let place = Place { table, time, packet, from: self.bytes.len() as u32 };
        let present =
            fields.filter_map(|at| Some((at, record.values.get(at)?))).filter(|(_, value)| !value.is_none());
        self.length(record.values.len());
        self.length(present.clone().count());
        for (at, value) in present {
            self.length(at);
            self.value(value);
        }
        place
    }

    /// The record at a position that [`Packed::push`] returned. Its values are in `memory`, which is empty until the record is
    /// [given back](Spare::take_back).
    pub fn get<'a>(&'a self, place: &Place, memory: &mut Spare) -> Record<'a> {
        let mut rest = Rest(self.bytes.get(place.from as usize..).unwrap_or_default());
        let mut values: Vec<Value<'a>> = std::mem::take(&mut memory.0);
        if rest.values(&mut values).is_none() {
            values.clear();
        }
        Record { table: place.table, time: place.time, values, packet: place.packet, at: Span::default() }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    fn length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&(length as u32).to_ne_bytes());
    }

    fn number(&mut self, tag: u8, number: u64) {
        let mut bytes = [tag; 9];
        bytes[1..].copy_from_slice(&number.to_ne_bytes());
        self.bytes.extend_from_slice(&bytes);
    }

    fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::None => self.bytes.push(tag::NONE),
            Value::Bool(yes) => self.bytes.push(if *yes { tag::YES } else { tag::NO }),
            Value::Uint(number) => self.number(tag::UINT, *number),
            Value::Int(number) => self.number(tag::INT, *number as u64),
            Value::Real(number) => self.number(tag::REAL, number.to_bits()),
            Value::Time(time) => self.number(tag::TIME, time.0),
            Value::Duration(span) => self.number(tag::SPAN, *span),
            Value::Text(text) => {
                self.bytes.push(tag::TEXT);
                self.length(text.len());
                self.bytes.extend_from_slice(text);
            }
            Value::Address(IpAddr::V4(address)) => {
                self.bytes.push(tag::V4);
                self.bytes.extend_from_slice(&address.octets());
            }
            Value::Address(IpAddr::V6(address)) => {
                self.bytes.push(tag::V6);
                self.bytes.extend_from_slice(&address.octets());
            }
            Value::List(values) => {
                self.bytes.push(tag::LIST);
                self.list(values);
            }
            Value::Rows(rows) => {
                self.bytes.push(tag::ROWS);
                self.length(rows.len());
                rows.iter().for_each(|row| self.list(row));
            }
        }
    }

    fn list(&mut self, values: &[Value<'_>]) {
        self.length(values.len());
        values.iter().for_each(|value| self.value(value));
    }
}

/// Bytes that have not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<usize> {
        Some(u32::from_ne_bytes(self.array()?) as usize)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.array()?))
    }

    /// Reads the values of a record into an empty vector.
    fn values(&mut self, values: &mut Vec<Value<'a>>) -> Option<()> {
        let all = self.length()?;
        values.resize_with(all, || Value::None);
        for _ in 0..self.length()? {
            let at = self.length()?;
            *values.get_mut(at)? = self.value()?;
        }
        Some(())
    }

    fn list(&mut self) -> Option<Vec<Value<'a>>> {
        (0..self.length()?).map(|_| self.value()).collect()
    }

    fn value(&mut self) -> Option<Value<'a>> {
        let [tag] = self.array()?;
        Some(match tag {
            tag::NONE => Value::None,
            tag::NO => Value::Bool(false),
            tag::YES => Value::Bool(true),
            tag::UINT => Value::Uint(self.number()?),
            tag::INT => Value::Int(self.number()? as i64),
            tag::REAL => Value::Real(f64::from_bits(self.number()?)),
            tag::TIME => Value::Time(Time(self.number()?)),
            tag::SPAN => Value::Duration(self.number()?),
            tag::TEXT => {
                let length = self.length()?;
                Value::Text(Cow::Borrowed(self.take(length)?))
            }
            tag::V4 => Value::Address(Ipv4Addr::from(self.array::<4>()?).into()),
            tag::V6 => Value::Address(Ipv6Addr::from(self.array::<16>()?).into()),
            tag::LIST => Value::List(self.list()?),
            tag::ROWS => Value::Rows((0..self.length()?).map(|_| self.list()).collect::<Option<_>>()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_read_back() {
        let text = |text: &'static str| Value::from(text);
        let values = vec![
            Value::None,
            Value::Bool(true),
            Value::Bool(false),
            Value::Uint(u64::MAX),
            Value::Int(i64::MIN),
            Value::Real(-0.5),
            Value::Time(Time(7)),
            Value::Duration(8),
            text(""),
            text("a\0b"),
            Value::Address("192.0.2.1".parse().unwrap()),
            Value::Address("2001:db8::1".parse().unwrap()),
            Value::List(vec![]),
            Value::List(vec![text("x"), Value::None, Value::List(vec![Value::Uint(1)])]),
            Value::Rows(vec![vec![], vec![Value::None, text("y")]]),
            Value::None,
        ];
        let record = Record::new(&crate::ANOMALY, Time(42), values);
        let none = Record::new(&crate::FILES, Time(43), Vec::new());
        let mut packed = Packed::default();
        let places = [packed.push(&record), packed.push(&none), packed.push(&record)];
        let mut spare = Spare::default();
        for (place, pushed) in places.iter().zip([&record, &none, &record]) {
            let read = packed.get(place, &mut spare);
            assert_eq!(read, *pushed);
            spare.take_back(read);
        }
    }

    #[test]
    fn the_memory_of_values_is_used_again() {
        let record = Record::new(&crate::ANOMALY, Time(1), vec![Value::from("text"), Value::Uint(7)]);
        let mut packed = Packed::default();
        let (place, mut spare) = (packed.push(&record), Spare::default());
        let first = packed.get(&place, &mut spare);
        let memory = first.values.as_ptr();
        spare.take_back(first);
        assert_eq!(packed.get(&place, &mut spare).values.as_ptr(), memory);
    }

    #[test]
    fn truncated_values_are_none() {
        let record = Record::new(&crate::ANOMALY, Time(1), vec![Value::from("text")]);
        let mut packed = Packed::default();
        let place = packed.push(&record);
        packed.bytes.pop();
        assert_eq!(packed.get(&place, &mut Spare::default()).values, vec![]);
    }
}
