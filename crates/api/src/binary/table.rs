//! The binary form of tables.

use super::{Binary, Bytes, DecodeError, MAX_ROWS, WITH_SHED, check};
use crate::{Datum, Fold, Folded, KeyColumn, SampledValues, Schema, Shown, Table, TableColumn, TableRow};
use std::borrow::Cow;

position!(Fold in Fold::ALL);
fields!(TableRow: key, values, error);
fields!(KeyColumn: name, field, help);
fields!(TableColumn: name, fold, unit, help);

impl Binary for Cow<'static, str> {
    fn write(&self, to: &mut Vec<u8>) {
        self.clone().into_owned().write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        String::read(from).map(Cow::Owned)
    }
}

impl Binary for Schema {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { name, keys, columns, shown } = self;
        name.write(to);
        keys.to_vec().write(to);
        columns.to_vec().write(to);
        match shown {
            Shown::Heaviest(rows) => {
                to.push(0);
                rows.write(to);
            }
            Shown::Scans => to.push(1),
            Shown::Udp(rows) => {
                to.push(2);
                rows.write(to);
            }
            Shown::Syn(rows) => {
                to.push(3);
                rows.write(to);
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: Binary::read(from)?,
            keys: Cow::Owned(Vec::read(from)?),
            columns: Cow::Owned(Vec::read(from)?),
            shown: match from.byte()? {
                0 => Shown::Heaviest(Binary::read(from)?),
                1 => Shown::Scans,
                2 => Shown::Udp(Binary::read(from)?),
                3 => Shown::Syn(Binary::read(from)?),
                _ => return Err(DecodeError::Invalid("rows shown")),
            },
        })
    }
}

impl Binary for Datum {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Datum::Nothing => to.push(0),
            Datum::Address(address) => {
                to.push(1);
                address.write(to);
            }
            Datum::Number(number) => {
                to.push(2);
                number.write(to);
            }
            Datum::Text(text) => {
                to.push(3);
                text.to_string().write(to);
            }
            Datum::Mac(mac) => {
                to.push(4);
                to.extend(mac);
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(match from.byte()? {
            0 => Datum::Nothing,
            1 => Datum::Address(Binary::read(from)?),
            2 => Datum::Number(Binary::read(from)?),
            3 => Datum::Text(String::read(from)?.into()),
            4 => Datum::Mac(*from.take(6)?.first_chunk().ok_or(DecodeError::Truncated)?),
            _ => return Err(DecodeError::Invalid("value")),
        })
    }
}

impl Binary for Folded {
    fn write(&self, to: &mut Vec<u8>) {
        self.fold().write(to);
        match self {
            Folded::Sum(sum) => sum.write(to),
            Folded::Min(value) | Folded::Max(value) => value.write(to),
            Folded::Distinct(values) => values.write(to),
            Folded::Last(value) => value.write(to),
            Folded::Sketch(sketch) => sketch.write(to),
            Folded::Sample(sample) => sample.write(to),
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(match Fold::read(from)? {
            Fold::Sum => Folded::Sum(Binary::read(from)?),
            Fold::Min => Folded::Min(Binary::read(from)?),
            Fold::Max => Folded::Max(Binary::read(from)?),
            Fold::Distinct => Folded::Distinct(Binary::read(from)?),
            Fold::Last => Folded::Last(Binary::read(from)?),
            Fold::Sketch => Folded::Sketch(Binary::read(from)?),
            Fold::Sample => Folded::Sample(Binary::read(from)?),
        })
    }
}

impl Binary for SampledValues {
    fn write(&self, to: &mut Vec<u8>) {
        let (kept, added) = self.parts();
        kept.write(to);
        added.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let kept = Binary::read(from)?;
        Self::from_parts(kept, from.count()?).ok_or(DecodeError::Invalid("sample"))
    }
}

impl Binary for Table {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { schema, capacity, rows, absent, shed } = self;
        schema.write(to);
        capacity.write(to);
        rows.write(to);
        absent.write(to);
        shed.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let schema = Schema::read(from)?;
        let schema = match schema == crate::SCANS {
            true => (&crate::SCANS).into(),
            false => schema.into(),
        };
        let table = Self {
            schema,
            capacity: Binary::read(from)?,
            rows: Binary::read(from)?,
            absent: Binary::read(from)?,
            shed: if from.version >= WITH_SHED { Binary::read(from)? } else { None },
        };
        check(table.capacity as u64 <= MAX_ROWS && table.rows.len() <= table.capacity, "number of rows")?;
        let Schema { keys, columns, .. } = &*table.schema;
        let folds = || columns.iter().map(|column| column.fold);
        let is_row =
            |row: &TableRow| row.key.len() == keys.len() && row.values.iter().map(Folded::fold).eq(folds());
        check(table.rows.iter().all(is_row), "columns")?;
        let has_all = |shed: &Vec<u64>| shed.len() == columns.len();
        check(table.shed.as_ref().is_none_or(has_all), "columns of what is shed")?;
        Ok(table)
    }
}
