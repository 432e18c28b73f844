//! Functions that deliver what they see instead of measuring it: to logs, to files of packets, streams or content.

use super::{Argument, Arguments};
use crate::demand::{Demand, Tables};
use crate::streams::Measuring;
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
        (self.demand)(&Arguments::new(self.name, self.arguments, call, 0_u64.into())?)
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
};

static WRITE: Delivery = Delivery {
    name: "writematching",
    help: "The packets, into a packet file.",
    arguments: &[],
    level: Level::Packet,
    demand: |_| Ok(Demand { packets: true, ..Demand::default() }),
};

static STREAM: Delivery = Delivery {
    name: "stream",
    help: "The bytes of reassembled streams.",
    arguments: &[],
    level: Level::Stream,
    demand: |_| Ok(Demand { chunks: true, ..Demand::default() }),
};

static EXTRACT: Delivery = Delivery {
    name: "extractall",
    help: "The content of files, into a directory. Files are named by their SHA-256.",
    arguments: &[],
    level: Level::Stream,
    demand: |_| {
        Ok(Demand { content: true, logged: Tables::Some(vec![&weir_proto::FILES]), ..Demand::default() })
    },
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
        let measure = Some(Measuring { sample: sample.saturating_mul(1_000_000_000), details });
        Ok(Demand { measure, measured: true, ..Demand::default() })
    },
};

static WRITE_UNIDENTIFIED: Delivery = Delivery {
    name: "writeunidentified",
    help: "The packets of flows in which no protocol was identified, into a packet file.",
    arguments: &[],
    level: Level::Stream,
    demand: |_| Ok(Demand { unidentified: true, ..Demand::default() }),
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
            let demand = delivery.demand(&FunctionCall::new(name)).unwrap();
            assert_ne!(demand, Demand::default(), "{name} needs nothing");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let error = |call: FunctionCall| Delivery::find(&call.name).unwrap().demand(&call).unwrap_err();
        assert!(error(FunctionCall::new("rows").with("of", "flow+htp")).contains("htp"));
        assert!(error(FunctionCall::new("hash").with("of", "crc")).contains("md5"));
        assert!(error(FunctionCall::new("writematching").with("to", "x")).contains("no arguments"));
    }
}
