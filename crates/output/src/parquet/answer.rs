//! Answers as Parquet files (Apache Parquet format 2): one row group, columns compressed with zstd.
//!
//! A column of whole numbers is INT64, one of numbers DOUBLE, one of booleans BOOLEAN, any other is UTF-8 text; lists
//! and rows in it are JSON. Absent values are null.

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use weir_api::web::Answered;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Whole,
    Real,
    Bool,
    Text,
}

impl Kind {
    fn of(values: &[&Value]) -> Self {
        let mut known = values.iter().filter(|value| !value.is_null()).peekable();
        if known.peek().is_none() {
            return Kind::Text;
        }
        let known: Vec<_> = known.collect();
        if known
            .iter()
            .all(|value| value.is_i64() || value.as_u64().is_some_and(|n| i64::try_from(n).is_ok()))
        {
            Kind::Whole
        } else if known.iter().all(|value| value.is_number()) {
            Kind::Real
        } else if known.iter().all(|value| value.is_boolean()) {
            Kind::Bool
        } else {
            Kind::Text
        }
    }

    fn column(self, name: &str) -> Result<Type, ParquetError> {
        let (physical, converted) = match self {
            Kind::Whole => (Physical::INT64, ConvertedType::NONE),
            Kind::Real => (Physical::DOUBLE, ConvertedType::NONE),
            Kind::Bool => (Physical::BOOLEAN, ConvertedType::NONE),
            Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(converted)
            .build()
    }
}

/// Writes an answer. The file gets its name when it is complete.
///
/// # Errors
///
/// The file cannot be written; the error has its path.
pub fn write(path: &Path, answer: &Answered) -> io::Result<()> {
    let mut content = Vec::new();
    write_into(&mut content, answer).map_err(io::Error::other)?;
    weir_files::replace(path, &content)
}

fn write_into(to: &mut Vec<u8>, answer: &Answered) -> Result<(), ParquetError> {
    let columns: Vec<Vec<&Value>> = (0..answer.columns.len())
        .map(|at| answer.rows.iter().map(|row| row.get(at).unwrap_or(&Value::Null)).collect())
        .collect();
    let kinds: Vec<Kind> = columns.iter().map(|values| Kind::of(values)).collect();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut fields = Vec::new();
    for (column, kind) in answer.columns.iter().zip(&kinds) {
        // Column names must be unique: a flow has two ports.
        let times = seen.entry(&column.name).or_default();
        *times += 1;
        let name = if *times == 1 { column.name.clone() } else { format!("{}_{times}", column.name) };
        fields.push(Arc::new(kind.column(&name)?));
    }
    let schema = Arc::new(Type::group_type_builder("answer").with_fields(fields).build()?);
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut file = SerializedFileWriter::new(to, schema, properties)?;
    let mut group = file.next_row_group()?;
    for (values, kind) in columns.iter().zip(kinds) {
        let Some(mut column) = group.next_column()? else { break };
        let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_null())).collect();
        let known = values.iter().filter(|value| !value.is_null());
        match (column.untyped(), kind) {
            (ColumnWriter::Int64ColumnWriter(to), Kind::Whole) => {
                let values: Vec<i64> = known.filter_map(|value| value.as_i64()).collect();
                to.write_batch(&values, Some(&levels), None)?;
            }
            (ColumnWriter::DoubleColumnWriter(to), Kind::Real) => {
                let values: Vec<f64> = known.filter_map(|value| value.as_f64()).collect();
                to.write_batch(&values, Some(&levels), None)?;
            }
            (ColumnWriter::BoolColumnWriter(to), Kind::Bool) => {
                let values: Vec<bool> = known.filter_map(|value| value.as_bool()).collect();
                to.write_batch(&values, Some(&levels), None)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(to), Kind::Text) => {
                let values: Vec<ByteArray> = known
                    .map(|value| match value {
                        Value::String(text) => ByteArray::from(text.as_str()),
                        other => ByteArray::from(other.to_string().into_bytes()),
                    })
                    .collect();
                to.write_batch(&values, Some(&levels), None)?;
            }
            _ => return Err(ParquetError::General("a column of another type".to_owned())),
        }
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use serde_json::json;
    use std::fs::File;
    use weir_api::web::Column;

    #[test]
    fn a_written_file_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let column = |name: &str| Column { name: name.to_owned(), unit: String::new() };
        let answer = Answered {
            columns: ["label", "port", "port", "rate", "yes", "nothing"].map(column).into(),
            rows: vec![
                vec![json!("=a,\"b\""), json!(80), json!(null), json!(1.5), json!(true), json!(null)],
                vec![json!(["x", 1]), json!(443), json!(7), json!(2), json!(null), json!(null)],
            ],
            ..Answered::default()
        };
        write(&path, &answer).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get_string(0).unwrap(), "=a,\"b\"");
        assert_eq!((rows[0].get_long(1).unwrap(), rows[1].get_long(2).unwrap()), (80, 7));
        assert_eq!(rows[1].get_double(3).unwrap(), 2.0);
        assert_eq!(rows[1].get_string(0).unwrap(), "[\"x\",1]");
        let names: Vec<&str> =
            reader.metadata().file_metadata().schema_descr().columns().iter().map(|c| c.name()).collect();
        assert_eq!(names, ["label", "port", "port_2", "rate", "yes", "nothing"]);
        assert!(write(Path::new("/nowhere/a.parquet"), &answer).is_err());
    }
}
