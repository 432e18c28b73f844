//! Tests of fields: `table.field op value`, beside the words of pcap-filter(7).
//!
//! ```text
//! dns.rcode_name = NXDOMAIN and net 10.0.0.0/8
//! tls.server_name under "example.org" or http.host in ("a.example", "b.example")
//! flow.bytes > 10M and not flow.service = tls
//! http.uri ~ "^/admin/[0-9]+$"
//! ```
//!
//! Operators are `=`, `!=`, `<`, `<=`, `>`, `>=`, `contains`, `begins`, `ends`, `under` (a domain and the names below it), `~`
//! (a regular expression) and `in`. `in` and `under` take a list in parentheses or `@FILE`, with a value on each line. A field alone
//! holds where it has a value. A field with several values satisfies a test if one of them does, and `!=` if none of them is
//! equal; without a value no operator holds, not even `!=`.
//!
//! Text in double quotes, and a word without quotes, is compared in any case of ASCII letters; text in single quotes as it is
//! written. Regular expressions are decided in time linear in the text (the `regex` crate), over bytes, within [`PATTERN`].
//!
//! The caller provides the fields: [`Fields`].

pub(crate) mod list;
mod operand;
mod parse;
mod test;
mod value;

pub use list::List;
pub use operand::{Addresses, Number, Operand, Search, Text};
pub use parse::operators;
pub use test::{Comparison, FieldTest, Operation, PATTERN, Pattern};
pub use value::FieldValue;

pub(crate) use operand::domain;
pub(crate) use parse::{is_field, looks_like_field, table_test, test};

use crate::error::FilterError;

/// The table of a flow's own fields.
pub const FLOW: &str = "flow";

/// The kind of a field's values, or of the values of its list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldKind {
    /// Yes or no.
    Bool,
    /// A number.
    Number,
    /// A length of time; its values are seconds.
    Duration,
    /// A point of time; its values are seconds since the epoch.
    Time,
    /// Text.
    Text,
    /// An IP address.
    Address,
}

/// A field that can be tested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FieldInfo {
    /// Its table.
    pub table: &'static str,
    /// Its name in the table.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: FieldKind,
    /// Its position among the fields of its table, by which [`crate::RecordRow`] finds its values; of a field of flows the
    /// position among those that are known when a flow ends.
    pub place: usize,
}

impl FieldInfo {
    /// The position of a field of flows that only a store has.
    pub const STORED: usize = usize::MAX;
}

/// The fields that an expression may test. This crate knows no protocol, reads no file and has no clock.
pub trait Fields: Sync {
    /// Names of all tables.
    fn tables(&self) -> Vec<&'static str>;

    /// Names of a table's fields; none where there is no such table.
    fn names(&self, table: &str) -> Vec<&'static str>;

    /// The field of a name, which may be one that another program has for it.
    ///
    /// # Errors
    ///
    /// The reason why it must not be tested.
    fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String>;

    /// A point of time in seconds since the epoch, such as `now` or `2026-03-15`.
    ///
    /// # Errors
    ///
    /// The accepted forms.
    fn time(&self, text: &str) -> Result<f64, String>;

    /// The content of a file, for `in @FILE`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be read.
    fn list(&self, path: &str) -> Result<Vec<u8>, String>;

    /// A number that is another one after the content of this file has changed, found without reading it; `None` if the file cannot be
    /// found, or where files are not followed.
    fn stamp(&self, _path: &str) -> Option<u64> {
        None
    }
}

/// The most names that an error offers.
const OFFERED: usize = 3;

/// Finds a field.
///
/// # Errors
///
/// The field does not exist, with the nearest names, or must not be tested. The message has no position.
pub fn find(fields: &dyn Fields, table: &str, name: &str) -> Result<FieldInfo, String> {
    match fields.find(table, name) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(unknown(fields, table, name)),
        Err(reason) => Err(reason),
    }
}

/// The message about a test of a field where packets or flows in progress are tested.
pub(crate) fn needs_record(field: &str) -> String {
    match field.split_once('.') {
        Some((FLOW, _)) => needs_end(field),
        _ => format!("`{field}` is a field of records: use level = \"record\""),
    }
}

/// The name of the field that stands for a whole record: [`FieldTest::is_of_record`].
pub(crate) const RECORD: &str = "";

/// The fields of the table [`FLOW`] that its key decides.
pub(crate) const ENDS: [&str; 4] = ["client", "client_port", "server", "server_port"];

/// The message about a property of finished flows.
pub(crate) fn needs_end(field: &str) -> String {
    if ENDS.iter().any(|name| field.strip_prefix("flow.") == Some(name)) {
        return format!(
            "`{field}` can be tested only with `=` and `!=` at level = \"flow\" or \"record\"; `src` and `dst` test the ends of packets"
        );
    }
    format!(
        "`{field}` is known only when a flow has ended: test it with level = \"flow\", in `weir query` or on the pages"
    )
}

/// The message about a field that no table has.
fn unknown(fields: &dyn Fields, table: &str, name: &str) -> String {
    let names = fields.names(table);
    if names.is_empty() {
        let near = offer(fields.tables().into_iter(), table, |table| table.to_owned());
        return format!("no table `{table}`{near}");
    }
    let mut near = offer(names.into_iter(), name, |name| format!("{table}.{name}"));
    if near.is_empty() {
        let elsewhere = fields.tables().into_iter().filter(|other| fields.names(other).contains(&name));
        near = list(elsewhere.map(|other| format!("{other}.{name}")).take(OFFERED).collect());
    }
    format!("table `{table}` has no field `{name}`{near}")
}

/// The nearest of some names: few letters away, or with the text in them.
fn offer<'n>(names: impl Iterator<Item = &'n str>, text: &str, show: impl Fn(&str) -> String) -> String {
    let text = text.to_ascii_lowercase();
    if text.len() > 64 {
        return String::new();
    }
    let max = (text.len() / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let is_part = text.len() > 2 && (name.contains(&text) || text.contains(name) && name.len() > 2);
            let distance = strsim::osa_distance(&text, name);
            (distance <= max || is_part).then_some((distance, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    list(near.into_iter().take(OFFERED).map(|(_, name)| show(name)).collect())
}

fn list(names: Vec<String>) -> String {
    match names.as_slice() {
        [] => String::new(),
        names => format!("; did you mean `{}`?", names.join("` or `")),
    }
}

type Parsed<T> = Result<T, FilterError>;

#[cfg(test)]
pub(crate) mod tests;
