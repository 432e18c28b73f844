//! Keys of queries: names of keys, and fields.

use super::QueryError;
use super::words::Word;
use crate::GroupBy;
use crate::tally::{Dimension, Measure, Subject};
use weir_filter::FLOW;
use weir_filter::fields::{FieldInfo, FieldKind, Fields, find};

/// A key: its names, the kept list of it, how it is counted, and whether records have it.
pub struct KeyName {
    /// Its names, the one of columns first.
    pub names: &'static [&'static str],
    /// The list that is kept of it.
    pub list: Option<&'static str>,
    /// How it is counted.
    pub by: GroupBy,
    /// Whether records have it, by their flow.
    pub has_records: bool,
}

macro_rules! keys {
    ($($names:expr, $list:expr, $by:ident $has_records:literal;)*) => {
        /// Every key.
        pub static KEYS: &[KeyName] =
            &[$(KeyName { names: &$names, list: $list, by: GroupBy::$by, has_records: $has_records }),*];
    };
}

keys! {
    ["sender", "senders", "source", "sources"], Some("sources"), Sender false;
    ["receiver", "receivers", "destination", "destinations"], Some("destinations"), Receiver false;
    ["client", "clients", "initiator", "initiators"], None, Client true;
    ["server", "servers", "responder", "responders"], None, Server true;
    ["host", "hosts"], None, Host true;
    ["talker", "talkers"], Some("talkers"), Talker true;
    ["service", "services", "port", "ports"], Some("services"), Service true;
    ["flow", "flows"], Some("flows"), Flow true;
    ["protocol", "protocols"], Some("protocols"), Protocol true;
    ["pair", "pairs"], None, Pair true;
    ["vlan", "vlans"], None, Vlan true;
    ["state", "states"], None, State false;
    ["application", "applications"], None, Application false;
    ["name", "names"], None, Name false;
}

/// The names of expressions for the ends of a packet, which are no keys, and what to use instead.
const ENDS: [(&str, &str); 2] = [
    ("src", "use `sender` for that end of packets, or `client` for the host that began the flow"),
    ("dst", "use `receiver` for that end of packets, or `server` for the host that answered the flow"),
];

/// The key of a name.
pub fn key(name: &str) -> Option<&'static KeyName> {
    KEYS.iter().find(|key| key.names.contains(&name))
}

/// The list of a key that can be computed from flows, by its name or that of the kept list.
pub fn list_of_flows(name: &str) -> Option<GroupBy> {
    KEYS.iter().find(|key| key.list == Some(name) || key.names.contains(&name)).map(|key| key.by)
}

/// The name of the list that is kept of a key.
pub fn kept_list(name: &str) -> Option<&'static str> {
    KEYS.iter().find(|key| key.names.contains(&name)).and_then(|key| key.list)
}

/// The lists that are kept of keys.
pub fn lists_kept() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|key| key.list)
}

/// The names of lists that can be computed from flows.
pub fn lists_of_flows() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|key| key.list.or_else(|| key.names.get(1).copied()))
}

/// Names of a question's fields.
pub struct Names<'f> {
    /// The fields.
    pub fields: &'f dyn Fields,
}

impl Names<'_> {
    /// The field of `table.name`; `None` where the word has no point.
    fn field(&self, word: Word<'_>) -> Result<Option<FieldInfo>, QueryError> {
        let Some((table, name)) = word.text.split_once('.') else { return Ok(None) };
        find(self.fields, table, name).map(Some).map_err(|message| word.wrong(message))
    }

    /// A field of a table, or another one by `table.name`.
    fn field_of(&self, table: &str, word: Word<'_>) -> Result<Option<FieldInfo>, QueryError> {
        match self.field(word)? {
            Some(field) => Ok(Some(field)),
            None => self.fields.find(table, word.text).map_err(|message| word.wrong(message)),
        }
    }

    /// The table of records of a word.
    pub fn table(&self, word: Word<'_>) -> Result<&'static str, QueryError> {
        let tables = self.fields.tables();
        let found = tables.iter().find(|table| **table == word.text && **table != FLOW);
        found.copied().ok_or_else(|| {
            let near = find(self.fields, word.text, "").err().unwrap_or_default();
            let near = near.strip_prefix(&format!("no table `{}`", word.text)).unwrap_or_default().to_owned();
            let tables: Vec<&str> = tables.into_iter().filter(|table| *table != FLOW).collect();
            word.wrong(format!("no records `{}`{near}; there are {}", word.text, tables.join(", ")))
        })
    }

    /// The subject of a query that names none: the table of the first field of records, else flows.
    pub fn subject(&self, words: &[Word<'_>]) -> Result<Subject, QueryError> {
        for word in words {
            if let Some(field) = self.field(*word)?
                && field.table != FLOW
            {
                return Ok(Subject::Records(field.table));
            }
        }
        Ok(Subject::Flows)
    }

    /// A dimension of flows or records.
    pub fn dimension(&self, subject: Subject, word: Word<'_>) -> Result<Dimension, QueryError> {
        if let Some((_, message)) = ENDS.iter().find(|(end, _)| *end == word.text) {
            return Err(word.wrong(*message));
        }
        let key = key(word.text);
        match subject {
            Subject::Flows => {
                if let Some(key) = key {
                    return Ok(Dimension::Key(key.by));
                }
                match self.field_of(FLOW, word)? {
                    Some(field) if field.table == FLOW => Ok(Dimension::Field(field)),
                    Some(field) => Err(word.wrong(format!(
                        "`{}.{}` is a field of records: count them by `count {} by ...`, or name this field as the first key",
                        field.table, field.name, field.table
                    ))),
                    None => {
                        let names: Vec<&str> =
                            KEYS.iter().filter_map(|key| key.names.first().copied()).collect();
                        let text = word.text;
                        Err(word.wrong(format!(
                            "expected one of {}, or a field such as `tls.server_name` or `flow.state`, found `{text}`",
                            names.join(", ")
                        )))
                    }
                }
            }
            Subject::Records(table) => {
                // `host` of http is its field.
                if let Some(field) = self.field_of(table, word)? {
                    if field.table == table {
                        return Ok(Dimension::Field(field));
                    }
                    let message = format!(
                        "`{}.{}` is not a field of the table `{table}`: the keys of a query are fields of one table, or client, server, \
                         service, protocol, vlan",
                        field.table, field.name
                    );
                    return Err(word.wrong(message));
                }
                match key {
                    Some(key) if key.has_records => Ok(Dimension::Key(key.by)),
                    Some(key) => Err(word.wrong(format!(
                        "records of `{table}` have no `{}`; they have client, server, host, service, protocol, vlan",
                        key.names.first().unwrap_or(&"")
                    ))),
                    None => {
                        let message = find(self.fields, table, word.text).err().unwrap_or_default();
                        Err(word.wrong(message))
                    }
                }
            }
        }
    }

    /// A dimension whose distinct values are counted.
    pub fn distinct(&self, subject: Subject, word: Word<'_>) -> Result<Dimension, QueryError> {
        match self.dimension(subject, word)? {
            Dimension::Key(GroupBy::Sender | GroupBy::Receiver | GroupBy::Host) => Err(word.wrong(
                "a flow has two hosts: distinct values are counted of `client`, `server`, `pair`, `service` or a field",
            )),
            found => Ok(found),
        }
    }

    /// A field with numbers in it.
    pub fn number(&self, subject: Option<Subject>, word: Word<'_>) -> Result<FieldInfo, QueryError> {
        let table = match subject {
            Some(Subject::Records(table)) => table,
            _ => FLOW,
        };
        let Some(field) = self.field_of(table, word)? else {
            let message = find(self.fields, table, word.text).err().unwrap_or_default();
            return Err(word.wrong(message));
        };
        match field.kind {
            FieldKind::Number | FieldKind::Duration | FieldKind::Time => Ok(field),
            _ => Err(word.wrong(format!("`{}.{}` is not a number", field.table, field.name))),
        }
    }

    /// The ranking of a question.
    pub fn measure(&self, subject: Subject, word: Word<'_>) -> Result<Measure, QueryError> {
        Ok(match word.text {
            "bytes" => Measure::Bytes,
            "packets" => Measure::Packets,
            "flows" => Measure::Flows,
            "records" | "rows" => Measure::Rows,
            _ => {
                let is_field = word.text.contains('.') || subject != Subject::Flows;
                if !is_field {
                    return Err(word.wrong(
                        "expected `bytes`, `packets` or `flows`, or a field such as `flow.retransmitted`, which is added up",
                    ));
                }
                let field = self.number(Some(subject), word)?;
                let table = match subject {
                    Subject::Flows => FLOW,
                    Subject::Records(table) => table,
                };
                if field.table != table || field.kind == FieldKind::Time {
                    return Err(word.wrong(format!("expected a number of the table `{table}`")));
                }
                Measure::Sum(field)
            }
        })
    }
}
