//! Typed columns of a Parquet file, written in row groups of bounded size.

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Bytes that a text takes besides its own.
const TEXT: usize = 48;

/// The type of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A point in time: INT64, TIMESTAMP(NANOS, UTC).
    Time,
    /// Seconds: DOUBLE.
    Seconds,
    /// A whole number: INT64, INTEGER(64, unsigned).
    Unsigned,
    /// A whole number, also negative: INT64.
    Signed,
    /// DOUBLE.
    Real,
    /// BOOLEAN.
    Bool,
    /// BYTE_ARRAY, STRING.
    Text,
    /// BYTE_ARRAY, JSON: lists and rows.
    Json,
}

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// Absent.
    Null,
    /// Of [`Kind::Time`] (nanoseconds since the epoch), [`Kind::Unsigned`] and [`Kind::Signed`].
    Whole(i64),
    /// Of [`Kind::Seconds`] and [`Kind::Real`].
    Real(f64),
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Text`] and [`Kind::Json`].
    Text(&'a [u8]),
}

enum Values {
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
}

struct Column {
    values: Values,
    /// 1 for a value, 0 where it is absent.
    levels: Vec<i16>,
}

impl Kind {
    fn values(self) -> Values {
        match self {
            Kind::Time | Kind::Unsigned | Kind::Signed => Values::Whole(Vec::new()),
            Kind::Seconds | Kind::Real => Values::Real(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Text | Kind::Json => Values::Text(Vec::new()),
        }
    }

    fn column(self, name: &str) -> Result<Type, ParquetError> {
        let (physical, logical) = match self {
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
            Kind::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Signed => (Physical::INT64, None),
            Kind::Seconds | Kind::Real => (Physical::DOUBLE, None),
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }
}

/// A file of rows. Rows wait in memory until [`Rows::write_group`].
pub struct Rows<W: Write + Send> {
    columns: Vec<Column>,
    rows: usize,
    waiting: usize,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> Rows<W> {
    /// A file with these columns. A name that occurs again gets a number.
    pub fn new<'n>(
        to: W,
        name: &str,
        columns: impl IntoIterator<Item = (&'n str, Kind)>,
    ) -> Result<Self, ParquetError> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut fields, mut buffers) = (Vec::new(), Vec::new());
        for (name, kind) in columns {
            let times = seen.entry(name).or_default();
            *times += 1;
            let unique = if *times == 1 { name.to_owned() } else { format!("{name}_{times}") };
            fields.push(Arc::new(kind.column(&unique)?));
            buffers.push(Column { values: kind.values(), levels: Vec::new() });
        }
        let schema = Arc::new(Type::group_type_builder(name).with_fields(fields).build()?);
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let writer = SerializedFileWriter::new(to, schema, properties)?;
        Ok(Self { columns: buffers, rows: 0, waiting: 0, writer })
    }

    /// Adds a row: a cell for each column. A cell of another type is absent.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        let mut cells = cells.into_iter();
        for Column { values, levels } in &mut self.columns {
            let is_present = match (values, cells.next().unwrap_or(Cell::Null)) {
                (Values::Whole(values), Cell::Whole(number)) => {
                    values.push(number);
                    self.waiting += size_of::<i64>();
                    true
                }
                (Values::Real(values), Cell::Real(number)) => {
                    values.push(number);
                    self.waiting += size_of::<f64>();
                    true
                }
                (Values::Bool(values), Cell::Bool(yes)) => {
                    values.push(yes);
                    self.waiting += 1;
                    true
                }
                (Values::Text(values), Cell::Text(text)) => {
                    values.push(ByteArray::from(text.to_vec()));
                    self.waiting += text.len() + TEXT;
                    true
                }
                _ => false,
            };
            levels.push(i16::from(is_present));
            self.waiting += size_of::<i16>();
        }
        self.rows += 1;
    }

    /// Bytes of the rows that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Writes the rows that wait.
    pub fn write_group(&mut self) -> Result<(), ParquetError> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        self.waiting = 0;
        let mut group = self.writer.next_row_group()?;
        for Column { values, levels } in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            match (column.untyped(), &mut *values) {
                (ColumnWriter::Int64ColumnWriter(to), Values::Whole(values)) => {
                    to.write_batch(values, Some(levels), None)?;
                    values.clear();
                }
                (ColumnWriter::DoubleColumnWriter(to), Values::Real(values)) => {
                    to.write_batch(values, Some(levels), None)?;
                    values.clear();
                }
                (ColumnWriter::BoolColumnWriter(to), Values::Bool(values)) => {
                    to.write_batch(values, Some(levels), None)?;
                    values.clear();
                }
                (ColumnWriter::ByteArrayColumnWriter(to), Values::Text(values)) => {
                    to.write_batch(values, Some(levels), None)?;
                    values.clear();
                }
                _ => return Err(ParquetError::General("a column of another type".to_owned())),
            }
            levels.clear();
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the rows that wait and the end of the file.
    pub fn finish(mut self) -> Result<(), ParquetError> {
        self.write_group()?;
        self.writer.close()?;
        Ok(())
    }
}
