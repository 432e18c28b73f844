//! Targets: where the items leave to that reach a delivering function of a chain.

use std::fmt;

/// Where the items leave to that reach a function, apart from its reading. The writers are the caller's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// The rows of a log of a subscription.
    Log(NamedLog),
}

/// A log that a subscription names. Subscriptions that name one log write into one file.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NamedLog {
    /// The name, from which those of its files are made: 1 to 64 letters, digits, hyphens and underscores.
    pub name: Box<str>,
    /// The form of its rows.
    pub format: LogFormat,
}

/// The form of the rows of a log.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum LogFormat {
    /// An object of JSON on each line.
    Ndjson,
    /// RFC 4180 with a header: a file for flows, and one for each table of records.
    Csv,
}

impl LogFormat {
    /// The formats by name.
    pub const ALL: [(&'static str, LogFormat); 2] = [("ndjson", LogFormat::Ndjson), ("csv", LogFormat::Csv)];

    /// The name, which is the ending of its files.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Ndjson => "ndjson",
            LogFormat::Csv => "csv",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Log(NamedLog { name, format }) => write!(f, "{name}.{}", format.name()),
        }
    }
}

impl Target {
    /// The name of what is opened: two targets with one name must be equal.
    pub fn name(&self) -> &str {
        match self {
            Target::Log(log) => &log.name,
        }
    }
}
