//! Selection of rows of an output: `eve` for all rows, `eve:flow+http+dns` for these.

use crate::OutputSpec;
use weir_proto::{Field, Table, tables};

/// The name for the rows of flows.
const FLOW: &str = "flow";

/// The name for the rows of events.
const EVENT: &str = "event";

/// An output, and the selected rows.
#[derive(Clone)]
pub struct Log {
    spec: &'static OutputSpec,
    /// The text of the selection.
    text: String,
    /// Whether flows have rows.
    flows: bool,
    /// Whether events have rows.
    events: bool,
    /// The tables whose records have rows.
    tables: Vec<&'static Table>,
}

impl Log {
    /// Parses a selection: the name of one of these outputs, and after a colon, joined by plus signs, `flow`, `event` and names
    /// of tables, as Weir, Zeek or Suricata call them.
    ///
    /// # Errors
    ///
    /// The output is unknown, or lacks such rows; the text lists the rows that it has.
    pub fn find(outputs: &[&'static OutputSpec], text: &str) -> Result<Self, String> {
        let (name, rows) = text.split_once(':').map_or((text, None), |(name, rows)| (name, Some(rows)));
        let spec = OutputSpec::find_in(outputs, name)?;
        let all: Vec<&'static Table> = tables().filter(|table| (spec.has)(table)).collect();
        let events = !spec.events.is_empty();
        let mut log = Self { spec, text: text.to_owned(), flows: spec.flows, events, tables: all };
        let Some(rows) = rows else { return Ok(log) };
        let all = std::mem::take(&mut log.tables);
        (log.flows, log.events) = (false, false);
        for row in rows.split('+') {
            let before = log.tables.len();
            log.tables.extend(all.iter().filter(|table| [table.name, table.zeek, table.eve].contains(&row)));
            let is_event = events && !row.is_empty() && [EVENT, spec.events].contains(&row);
            log.events |= is_event;
            if row == FLOW && spec.flows {
                log.flows = true;
            } else if is_event {
                continue;
            } else if row.is_empty() || log.tables.len() == before {
                let mut names: Vec<&str> = all.iter().map(|table| table.name).collect();
                names.extend(spec.flows.then_some(FLOW));
                names.extend(events.then_some(EVENT));
                names.sort_unstable();
                names.dedup();
                return Err(format!("log {name} has no rows {row:?}; there are {}", names.join(", ")));
            }
        }
        Ok(log)
    }

    /// Parses selections and removes duplicates.
    ///
    /// # Errors
    ///
    /// [`Log::find`] returns an error, or two selections would write one file.
    pub fn find_all<'n>(
        outputs: &[&'static OutputSpec],
        texts: impl IntoIterator<Item = &'n str>,
    ) -> Result<Vec<Self>, String> {
        let mut found: Vec<Self> = Vec::new();
        for text in texts {
            let log = Self::find(outputs, text)?;
            if found.iter().any(|other| other.text == log.text) {
                continue;
            }
            let both = found.iter().find_map(|other| Some((other, log.shares(other)?)));
            if let Some((other, file)) = both {
                return Err(format!("logs {} and {text} both write {file}: choose one of them", other.text));
            }
            found.push(log);
        }
        Ok(found)
    }

    /// A file that both write.
    pub fn shares(&self, other: &Self) -> Option<&'static str> {
        self.spec.files.iter().find(|file| other.spec.files.contains(file)).copied()
    }

    /// The text of the selection.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The output.
    pub fn spec(&self) -> &'static OutputSpec {
        self.spec
    }

    /// Whether it has a row for each flow: if no log has, none are built.
    pub fn flows(&self) -> bool {
        self.flows
    }

    /// The tables whose records are selected.
    pub fn tables(&self) -> &[&'static Table] {
        &self.tables
    }

    /// The fields of these tables that the output writes.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
        let shows = self.spec.shows;
        self.tables.iter().flat_map(|table| table.fields).filter(move |field| shows(field))
    }

    /// Whether it has rows of events.
    pub fn events(&self) -> bool {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OUTPUTS;

    #[test]
    fn rows_are_selected_by_the_names_of_weir_zeek_and_suricata() {
        let log = Log::find(OUTPUTS, "eve:flow+tls+dns").unwrap();
        assert!(log.flows());
        assert!(log.tables().iter().all(|table| ["tls", "dns"].contains(&table.eve)));
        assert!(log.tables().len() >= 2);
        let log = Log::find(OUTPUTS, "zeek:ssl").unwrap();
        assert!(!log.flows() && !log.events && log.tables().iter().all(|table| table.zeek == "ssl"));
        for text in ["eve:event", "zeek:notice", "csv:event+dns", "eve"] {
            assert!(Log::find(OUTPUTS, text).unwrap().events, "{text}");
        }
    }

    #[test]
    fn an_unknown_row_is_answered_with_the_known_ones() {
        for (text, right) in [("eve:htp", "http"), ("zeek:", "conn"), ("mon:flow", "")] {
            let error = Log::find(OUTPUTS, text).err().unwrap();
            assert!(error.contains(right) && error.contains("there are"), "{error}");
        }
        assert!(
            Log::find(OUTPUTS, "csv").unwrap().tables().len()
                > Log::find(OUTPUTS, "eve").unwrap().tables().len()
        );
    }
}
