//! Functions that deliver everything of a kind, whatever it holds: no code of theirs sees it. What they need of the pass, and where it
//! leaves to, follows from their arguments. Functions that deliver what reaches them at the end of a chain are among those that
//! measure: they count it.

use super::typed::{DIRECTORY, PACKET_FILE, directory, packet_file};
use super::{Argument, Arguments, BuildTarget};
use crate::demand::{Demand, Tables};
use crate::target::{AllRows, Of, Target};
use weir_api::{FunctionCall, Level};
use weir_proto::{Table, tables};

/// Every function that delivers, in the order of the manual.
pub static DELIVERIES: &[&Delivery] = &[&ROWS, &WRITE, &EXTRACT, &WRITE_UNIDENTIFIED];

/// Description of a function that delivers everything of a kind.
#[derive(Debug)]
pub struct Delivery {
    /// Its name in the configuration.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The level that it is used at.
    pub level: Level,
    /// What it needs of the pass.
    demand: fn(&Arguments<'_>) -> Result<Demand, String>,
    /// Where what it delivers leaves to.
    target: BuildTarget,
}

impl Delivery {
    /// The function of that name.
    pub fn find(name: &str) -> Option<&'static Delivery> {
        DELIVERIES.iter().find(|delivery| delivery.name == name).copied()
    }

    /// What a call needs of the pass.
    ///
    /// # Errors
    /// An argument is invalid; the text has the accepted values.
    pub fn demand(&self, call: &FunctionCall) -> Result<Demand, String> {
        (self.demand)(&self.arguments(call)?)
    }

    /// Where what a call delivers leaves to.
    ///
    /// # Errors
    /// An argument is invalid.
    pub fn target(&self, call: &FunctionCall) -> Result<Target, String> {
        (self.target)(&self.arguments(call)?, self.level)
    }

    fn arguments<'c>(&self, call: &'c FunctionCall) -> Result<Arguments<'c>, String> {
        Arguments::new(self.name, self.arguments, call, 0_u64.into())
    }
}

/// The names for rows of flows and of events.
const FLOW: &str = "flow";
const EVENT: &str = "event";

static ROWS: Delivery = Delivery {
    name: "rows",
    help: "All rows of a log: of flows that end, of records, and of events.",
    arguments: &[
        Argument {
            name: "of",
            help: "Names of tables, `flow` and `event`, joined by plus signs, or `all`.",
            default: Some("all"),
        },
        Argument {
            name: "to",
            help: "The name of the log; by default the caller takes the rows.",
            default: Some("caller"),
        },
        Argument {
            name: "bodies",
            help: "Whether fields made from bodies are shown: yes or no.",
            default: Some("yes"),
        },
    ],
    level: Level::Record,
    demand: |arguments| {
        let AllRows { flows: rows, tables: logged, .. } = all_rows(arguments)?;
        let bodies = arguments.choice("bodies", &[("yes", true), ("no", false)])?;
        Ok(Demand { rows, logged, bodies, ..Demand::default() })
    },
    target: |arguments, _| all_rows(arguments).map(Target::Rows),
};

/// The rows of a call.
fn all_rows(arguments: &Arguments<'_>) -> Result<AllRows, String> {
    let (of, log) = (arguments.text("of")?, arguments.text("to")?.into());
    if of == "all" {
        return Ok(AllRows { log, flows: true, events: true, tables: Tables::All });
    }
    let mut rows = AllRows { log, flows: false, events: false, tables: Tables::None };
    let mut named: Vec<&'static Table> = Vec::new();
    for name in of.split('+').filter(|name| !name.is_empty()) {
        match name {
            FLOW => rows.flows = true,
            EVENT => rows.events = true,
            _ => {
                let table = tables().find(|table| table.name == name);
                named.push(table.ok_or_else(|| format!("`rows`: of = `{name}`: no such table"))?);
            }
        }
    }
    if !named.is_empty() {
        rows.tables = Tables::Some(named);
    }
    Ok(rows)
}

static WRITE: Delivery = Delivery {
    name: "writematching",
    help: "The packets that match the expression of the run, into a packet file.",
    arguments: PACKET_FILE,
    level: Level::Packet,
    demand: |_| Ok(Demand::default()),
    target: |arguments, _| Ok(Target::Packets { file: packet_file(arguments)?, of: None }),
};

static EXTRACT: Delivery = Delivery {
    name: "extractall",
    help: "The content of all files, into a directory. Files are named by their SHA-256.",
    arguments: DIRECTORY,
    level: Level::Stream,
    demand: |_| {
        Ok(Demand { content: true, logged: Tables::Some(vec![&weir_proto::FILES]), ..Demand::default() })
    },
    target: |arguments, _| directory(arguments),
};

static WRITE_UNIDENTIFIED: Delivery = Delivery {
    name: "writeunidentified",
    help: "The packets of flows in which no protocol was identified, into a packet file.",
    arguments: PACKET_FILE,
    level: Level::Stream,
    demand: |_| Ok(Demand { unidentified: true, ..Demand::default() }),
    target: |arguments, _| Ok(Target::Packets { file: packet_file(arguments)?, of: Some(Of::Unidentified) }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FUNCTIONS;

    #[test]
    fn names_are_unique_among_all_functions_and_defaults_are_accepted() {
        for (at, delivery) in DELIVERIES.iter().enumerate() {
            let name = delivery.name;
            assert!(name.chars().all(|c| c.is_ascii_lowercase()) && delivery.help.ends_with('.'), "{name}");
            assert!(delivery.arguments.iter().all(|argument| argument.help.ends_with('.')), "{name}");
            assert!(DELIVERIES[..at].iter().all(|other| other.name != name), "{name}");
            assert!(FUNCTIONS.iter().all(|function| function.name != name), "{name}");
            let call = FunctionCall::new(name);
            let is_to_path = delivery.arguments.iter().any(|argument| argument.name == "to");
            let call = if is_to_path { call.with("to", "x.pcap") } else { call };
            let limits = delivery.arguments.iter().filter(|argument| argument.default.is_none());
            let limits = limits.filter(|argument| argument.name != "to");
            let call = limits.fold(call, |call, argument| call.with(argument.name, 1));
            assert!(delivery.demand(&call).is_ok() && delivery.target(&call).is_ok(), "{name}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let error = |call: FunctionCall| Delivery::find(&call.name).unwrap().demand(&call).unwrap_err();
        assert!(error(FunctionCall::new("rows").with("of", "flow+htp")).contains("htp"));
        let write = Delivery::find("writematching").unwrap();
        let target = |call| write.target(&call).unwrap_err();
        assert!(target(FunctionCall::new("writematching")).contains("needs the argument `to`"));
        assert!(
            target(FunctionCall::new("writematching").with("to", "x").with("files", "-1")).contains("files")
        );
    }
}
