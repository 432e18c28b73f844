//! The fields of a record that hold payload: messages, passwords, cookies, names of files.
//!
//! They are those that `fields::is_payload` names, so that the anonymiser and the rights of a store's readers agree.

use crate::fields::{column_holds_payload, is_payload};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use weir_api::Column;
use weir_proto::Table;

/// Fields that were left out, by their names.
#[derive(Debug, Default)]
pub struct Withheld(BTreeSet<String>);

impl Withheld {
    /// Leaves out the values of a table that hold payload, and values that the table does not name.
    pub fn withhold(&mut self, table: &str, values: &mut Map<String, Value>) {
        // Two protocols can share the name of a table.
        let tables: Vec<&Table> = weir_proto::tables().filter(|known| known.name == table).collect();
        let is_shown = |name: &str| {
            let fields = || tables.iter().flat_map(|table| table.fields).filter(|field| field.name == name);
            fields().next().is_some() && !fields().any(is_payload)
        };
        values.retain(|name, _| {
            let is_shown = is_shown(name);
            if !is_shown && !self.0.contains(name) {
                self.0.insert(name.clone());
            }
            is_shown
        });
    }

    /// Which columns of a function's reading are left out, because they are made of fields that hold payload.
    pub fn columns(&mut self, columns: &[Column<'_>]) -> Vec<bool> {
        let is_withheld = |column: &Column<'_>| {
            let holds = column_holds_payload(&column.name);
            self.0.extend(holds.then(|| column.name.to_string()));
            holds
        };
        columns.iter().map(is_withheld).collect()
    }

    /// A sentence about the fields that were left out; `None` if there are none.
    pub fn sentence(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        let text = format!("without the right packets these fields are empty: {}", names.join(", "));
        (!names.is_empty()).then_some(text)
    }
}

/// Whether one of the values contains a text, ignoring case in ASCII, as in the store's own search.
pub fn has_text(values: &Map<String, Value>, text: &str) -> bool {
    let body = serde_json::to_string(values).unwrap_or_default();
    body.to_ascii_lowercase().contains(&text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_proto::Privacy;

    fn values(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap_or_default()
    }

    #[test]
    fn payload_fields_are_left_out_and_named() {
        let mut withheld = Withheld::default();
        let mut http = values(json!({"host": "example.org", "uri": "/a", "user_agent": "x", "password": "y",
            "cookie": "z", "no_such_field": 1}));
        withheld.withhold("http", &mut http);
        assert_eq!(http, values(json!({"host": "example.org", "uri": "/a"})));
        let mut mqtt = values(json!({"payload": "secret", "qos": "at least once"}));
        withheld.withhold("mqtt_publish", &mut mqtt);
        assert_eq!(mqtt, values(json!({"qos": "at least once"})));
        let sentence = withheld.sentence().unwrap_or_default();
        let names = "cookie, no_such_field, password, payload, user_agent";
        assert_eq!(sentence, format!("without the right packets these fields are empty: {names}"));
        // An unknown table shows no values.
        let mut other = values(json!({"a": 1}));
        withheld.withhold("no such table", &mut other);
        assert!(other.is_empty() && Withheld::default().sentence().is_none());
    }

    #[test]
    fn no_table_shows_a_secret() {
        let (mut shown, mut hidden) = (0, 0);
        for table in weir_proto::tables() {
            let all = table.fields.iter().map(|field| (field.name.to_owned(), json!(1)));
            let mut values: Map<String, Value> = all.collect();
            Withheld::default().withhold(table.name, &mut values);
            for field in table.fields {
                let is_shown = values.contains_key(field.name);
                assert!(
                    !is_shown || !matches!(field.privacy, Privacy::Secret | Privacy::Content),
                    "{}",
                    field.name
                );
                shown += usize::from(is_shown);
                hidden += usize::from(!is_shown);
            }
        }
        assert!(shown > hidden && hidden > 50, "{shown} {hidden}");
    }

    #[test]
    fn a_search_ignores_case() {
        let values = values(json!({"host": "Example.org"}));
        assert!(
            has_text(&values, "example.ORG") && has_text(&values, "") && !has_text(&values, "example.com")
        );
    }
}
