//! Expressions in a configuration. They are compiled while the file is read, so that an error is shown in its line.

use super::fault::Fault;
use super::read::{ConfigReader, Node};
use crate::fields::RunFields;
use weir_api::Level;
use weir_filter::{FilterError, FlowTest, Options, RecordTest};

/// The options of expressions that may test these fields of records.
pub fn over_records(fields: &RunFields) -> Options<'_> {
    Options { fields: Some(fields), ..Options::default() }
}

/// Maximum length of an expression, in bytes. The memory of its program grows with it, and pages can send a text to be
/// checked.
const MAX_BYTES: usize = 64 << 10;

/// Checks that an expression of a subscription over these fields compiles at its level.
///
/// # Errors
///
/// The expression is invalid, or tests what this level does not have.
pub fn check_at(text: &str, level: Level, fields: &RunFields) -> Result<(), FilterError> {
    let options = over_records(fields);
    match level {
        Level::Record => RecordTest::compile(text, &options).map(drop),
        Level::Stream => FlowTest::of_key(text, &options).map(drop),
        Level::Flow => FlowTest::of_ended(text, &options).map(drop),
        Level::Packet => weir_filter::check(text, &options).map(drop),
    }
}

/// Reads an expression over packets, which must compile; an empty one matches every packet.
pub fn read(r: &mut ConfigReader<'_>, node: &Node<'_>) -> Option<String> {
    read_at(r, node, Level::Packet)
}

/// Reads an expression at a level, which must compile; an empty one matches everything.
pub fn read_at(r: &mut ConfigReader<'_>, node: &Node<'_>, level: Level) -> Option<String> {
    let text = r.string(node)?;
    if text.len() > MAX_BYTES {
        let length = text.len();
        let message = format!("this expression has {length} bytes; at most 64 KiB are read");
        r.faults.push(Fault::new(node.span(), message));
        return None;
    }
    let checked = match level {
        Level::Packet => r.known.check(text),
        Level::Stream | Level::Flow | Level::Record => check_at(text, level, r.fields),
    };
    if let Err(error) = checked {
        let at = r.inside(node, error.span.start)..r.inside(node, error.span.end);
        r.faults.push(Fault::new(at, error.message));
        return None;
    }
    Some(text.to_owned())
}
