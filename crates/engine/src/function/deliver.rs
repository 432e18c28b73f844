//! Functions that deliver what they see instead of measuring it: to logs, to files of packets, streams or content.

use super::typed::{DIRECTORY, PACKET_FILE, directory, packet_file};
use super::{Argument, Arguments, BuildTarget};
use crate::demand::{Demand, Tables};
use crate::streams::Measuring;
use crate::target::{Of, Target};
use weir_api::{FunctionCall, Level};
use weir_proto::{Hashes, Table, tables};

/// Every function that delivers, in the order of the manual.
pub static DELIVERIES: &[&Delivery] =
    &[&ROWS, &WRITE, &STREAM, &EXTRACT, &HASH, &MEASURE, &WRITE_UNIDENTIFIED];

/// Description of a function that delivers.
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
    /// Where packets or files leave to, if it delivers any.
    target: Option<BuildTarget>,
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

    /// Where packets or files leave to by a call; `None` if it delivers neither.
    ///
    /// # Errors
    /// An argument is invalid.
    pub fn target(&self, call: &FunctionCall) -> Result<Option<Target>, String> {
        self.target.map(|target| target(&self.arguments(call)?, self.level)).transpose()
    }

    fn arguments<'c>(&self, call: &'c FunctionCall) -> Result<Arguments<'c>, String> {
        Arguments::new(self.name, self.arguments, call, 0_u64.into())
    }
}

/// The name for rows of flows.
const FLOW: &str = "flow";

static ROWS: Delivery = Delivery {
    name: "rows",
    help: "Rows of the logs of the run: of flows that end, and of records.",
    arguments: &[
        Argument {
            name: "of",
            help: "Names of tables and `flow`, joined by plus signs, or `all`.",
            default: Some("all"),
        },
        Argument {
            name: "bodies",
            help: "Whether fields made from bodies are shown: yes or no.",
            default: Some("yes"),
        },
    ],
    level: Level::Record,
    demand: |arguments| {
        let rows = arguments.text("of")?;
        let bodies = arguments.choice("bodies", &[("yes", true), ("no", false)])?;
        if rows == "all" {
            return Ok(Demand { rows: true, logged: Tables::All, bodies, ..Demand::default() });
        }
        let mut demand = Demand { bodies, ..Demand::default() };
        let mut logged: Vec<&'static Table> = Vec::new();
        for row in rows.split('+').filter(|row| !row.is_empty()) {
            if row == FLOW {
                demand.rows = true;
                continue;
            }
            let table = tables().find(|table| table.name == row);
            logged.push(table.ok_or_else(|| format!("`rows`: of = `{row}`: no such table"))?);
        }
        if !logged.is_empty() {
            demand.logged = Tables::Some(logged);
        }
        Ok(demand)
    },
    target: None,
};

static WRITE: Delivery = Delivery {
    name: "writematching",
    help: "The packets that match the expression of the run, into a packet file.",
    arguments: PACKET_FILE,
    level: Level::Packet,
    demand: |_| Ok(Demand::default()),
    target: Some(|arguments, _| Ok(Target::Packets { file: packet_file(arguments)?, of: None })),
};

static STREAM: Delivery = Delivery {
    name: "stream",
    help: "The bytes of reassembled streams.",
    arguments: &[],
    level: Level::Stream,
    demand: |_| Ok(Demand { chunks: true, ..Demand::default() }),
    target: None,
};

static EXTRACT: Delivery = Delivery {
    name: "extractall",
    help: "The content of all files, into a directory. Files are named by their SHA-256.",
    arguments: DIRECTORY,
    level: Level::Stream,
    demand: |_| {
        Ok(Demand { content: true, logged: Tables::Some(vec![&weir_proto::FILES]), ..Demand::default() })
    },
    target: Some(|arguments, _| directory(arguments)),
};

static HASH: Delivery = Delivery {
    name: "hash",
    help: "Checksums of files in records of files.",
    arguments: &[Argument {
        name: "of",
        help: "md5, sha1, sha256, joined by plus signs, or `none`.",
        default: Some("sha256"),
    }],
    level: Level::Stream,
    demand: |arguments| {
        let mut hashes = Hashes::default();
        for name in arguments.text("of")?.split('+') {
            match name {
                "md5" => hashes.md5 = true,
                "sha1" => hashes.sha1 = true,
                "sha256" => hashes.sha256 = true,
                "none" => {}
                other => return Err(format!("`hash`: of = `{other}` is none of md5, sha1, sha256, none")),
            }
        }
        Ok(Demand { hashes, ..Demand::default() })
    },
    target: None,
};

static MEASURE: Delivery = Delivery {
    name: "measure",
    help: "Measurements of flows: round-trip times, loss, windows.",
    arguments: &[
        Argument {
            name: "sample",
            help: "Length of running samples in seconds; 0 for none.",
            default: Some("0"),
        },
        Argument {
            name: "details",
            help: "Whether each packet, exchange and burst is emitted: yes or no.",
            default: Some("no"),
        },
    ],
    level: Level::Flow,
    demand: |arguments| {
        let sample: u64 = arguments.parse("sample")?;
        let details = arguments.choice("details", &[("yes", true), ("no", false)])?;
        let sample = sample.saturating_mul(1_000_000_000);
        let measure = Some(Measuring { sample, details, delays: false });
        Ok(Demand { measure, measured: true, ..Demand::default() })
    },
    target: None,
};

static WRITE_UNIDENTIFIED: Delivery = Delivery {
    name: "writeunidentified",
    help: "The packets of flows in which no protocol was identified, into a packet file.",
    arguments: PACKET_FILE,
    level: Level::Stream,
    demand: |_| Ok(Demand { unidentified: true, ..Demand::default() }),
    target: Some(|arguments, _| {
        Ok(Target::Packets { file: packet_file(arguments)?, of: Some(Of::Unidentified) })
    }),
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
            let needs = delivery.demand(&call).unwrap() != Demand::default();
            assert!(needs || delivery.target(&call).unwrap().is_some(), "{name} needs nothing");
            assert_eq!(delivery.target(&call).unwrap().is_some(), is_to_path, "{name}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let error = |call: FunctionCall| Delivery::find(&call.name).unwrap().demand(&call).unwrap_err();
        assert!(error(FunctionCall::new("rows").with("of", "flow+htp")).contains("htp"));
        assert!(error(FunctionCall::new("hash").with("of", "crc")).contains("md5"));
        assert!(error(FunctionCall::new("stream").with("to", "x")).contains("no arguments"));
        let write = Delivery::find("writematching").unwrap();
        let target = |call| write.target(&call).unwrap_err();
        assert!(target(FunctionCall::new("writematching")).contains("needs the argument `to`"));
        assert!(
            target(FunctionCall::new("writematching").with("to", "x").with("files", "-1")).contains("files")
        );
    }
}
