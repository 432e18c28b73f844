//! Targets: where the items leave to that reach a delivering function of a chain.

use crate::demand::Tables;
use std::fmt;

/// Where the items leave to that reach a function, apart from its reading. The writers are the caller's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// The rows of a log of a subscription.
    Log(NamedLog),
    /// The content of files, in a directory of a subscription.
    Files(NamedDirectory),
    /// Rows in the files of a log of the run, such as `eve`.
    OfRun(Box<str>),
    /// All rows of a log of the run. What it is opened with is the caller's.
    Rows(AllRows),
    /// The bytes of streams, which the caller writes.
    Streams,
    /// Names of hosts, which the caller gives to addresses. Nothing is opened for them.
    Names,
    /// Packets, in a file of a subscription.
    Packets {
        /// The file.
        file: NamedFile,
        /// At flow and record level these packets of flows are written. `None` at packet level, where each packet is decided for
        /// itself.
        of: Option<Of>,
    },
}

/// The rows that a log of the run has, whatever they hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AllRows {
    /// The name of the log.
    pub log: Box<str>,
    /// Whether it has a row for each flow that ends.
    pub flows: bool,
    /// Whether it has a row for each event.
    pub events: bool,
    /// The tables of its records.
    pub tables: Tables,
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

/// Where a file or a directory is that a subscription names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Place {
    /// In the directory of logs.
    Logs,
    /// At the path that is its name: the user who started the program typed it.
    Path,
}

/// A directory of files that a subscription names, and its limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamedDirectory {
    /// Its name. In the directory of logs 1 to 64 letters, digits, hyphens and underscores.
    pub name: Box<str>,
    /// Where it is.
    pub place: Place,
    /// Maximum bytes of a file; of a longer one the beginning is kept.
    pub each: u64,
    /// Maximum number of files, which count with their records.
    pub files: u64,
    /// Maximum bytes of all files, with those that are not decided on yet.
    pub total: u64,
}

/// A file of packets that a subscription names. Subscriptions that name one file with equal arguments write into one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NamedFile {
    /// Its name. In the directory of logs 1 to 64 letters, digits, hyphens and underscores, and `.pcapng` or `.pcap`, which is
    /// its format.
    pub name: Box<str>,
    /// Where it is.
    pub place: Place,
    /// When the next file begins.
    pub rotation: Rotation,
    /// Number of files that are kept; `None` for all. At a path by time, the number after which none begins.
    pub files: Option<u32>,
    /// Maximum number of bytes of a packet that are written; `None` for all.
    pub snaplen: Option<u32>,
}

/// The packets of flows that a function writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Of {
    /// Those of the flow: these before the decision, and all that follow.
    Flow(Before),
    /// Those so far that carry bytes of the record.
    Record,
    /// Those of each flow in which no protocol was identified, with the ones before that was known.
    Unidentified,
}

/// The packets of a flow before the one that decided which are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Before {
    /// The latest ones, up to this number.
    Packets(u32),
    /// All that are held.
    All,
}

/// When the next file of a sequence begins; by default never, so that all packets are in one file.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rotation {
    /// After this number of seconds.
    pub seconds: Option<u64>,
    /// Before a packet, if the file has more bytes than this.
    pub bytes: Option<u64>,
}

impl Rotation {
    /// All packets are in one file.
    pub const NEVER: Rotation = Rotation { seconds: None, bytes: None };

    /// A file begins after this number of seconds.
    pub fn by_time(seconds: u64) -> Self {
        Rotation { seconds: Some(seconds), bytes: None }
    }

    /// A file begins before it has more bytes than this.
    pub fn by_size(bytes: u64) -> Self {
        Rotation { seconds: None, bytes: Some(bytes) }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Log(NamedLog { name, format }) => write!(f, "{name}.{}", format.name()),
            Target::OfRun(name) => f.write_str(name),
            Target::Names | Target::Streams | Target::Rows(_) => f.write_str(self.name()),
            Target::Files(directory) => f.write_str(&directory.name),
            Target::Packets { file, .. } => f.write_str(&file.name),
        }
    }
}

impl Target {
    /// The name of what is opened: two targets of one kind with one name must be equal.
    pub fn name(&self) -> &str {
        match self {
            Target::Log(log) => &log.name,
            Target::OfRun(name) => name,
            Target::Rows(rows) => &rows.log,
            Target::Streams => "streams",
            Target::Names => "host names",
            Target::Files(directory) => &directory.name,
            Target::Packets { file, .. } => &file.name,
        }
    }

    /// Where it is; `None` if it is no file and no directory.
    pub fn place(&self) -> Option<Place> {
        match self {
            Target::Names | Target::Streams | Target::Rows(_) => None,
            Target::Log(_) | Target::OfRun(_) => Some(Place::Logs),
            Target::Files(directory) => Some(directory.place),
            Target::Packets { file, .. } => Some(file.place),
        }
    }

    /// What it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Target::Log(_) => "log",
            Target::OfRun(_) | Target::Rows(_) => "log of the run",
            Target::Streams => "streams",
            Target::Names => "names",
            Target::Files(_) => "directory",
            Target::Packets { .. } => "packet file",
        }
    }
}
