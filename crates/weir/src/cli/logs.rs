//! Logs, their files, and measurements that only logs have.

use super::values::{KeepLimits, bytes, keep, named, period};
use crate::syslog;
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// Logs and their files.
#[derive(Debug, Args)]
pub struct LogOptions {
    /// Write logs into a directory. `-` writes one log of lines, eve or ndjson, to standard output.
    #[arg(short, long, value_name = "DIR", help_heading = "Logs")]
    pub output: Option<PathBuf>,

    /// Logs to write, separated by commas: zeek, zeek-json, eve, fast, csv, parquet, ndjson, events, text, mon, mon-paper,
    /// prometheus, store.
    /// A colon selects rows of a log (e.g. eve:flow+http+dns). With flow alone, payload is not parsed. An expression selects
    /// flows and records (--log zeek:dns='dns.query under example.org'). May be repeated.
    #[arg(long, value_name = "LOG,...[=EXPR]", action = ArgAction::Append, requires = "output", help_heading = "Logs")]
    pub log: Vec<String>,

    /// Send events to a syslog server (RFC 5424): udp:HOST, tcp:HOST, tls:HOST (each also with :PORT) or unix:/dev/log.
    #[arg(long, value_name = "SERVER", help_heading = "Logs", hide_short_help = true)]
    pub syslog: Option<syslog::Destination>,

    /// Begin new log files at this interval (e.g. 30s, 10m, 1h, 1d). Finished files get the time in their names. SIGHUP
    /// begins new files at once.
    #[arg(long, value_name = "TIME", value_parser = period, help_heading = "Logs", hide_short_help = true)]
    pub log_rotate: Option<u64>,

    /// Begin a new log file after this many bytes (e.g. 100M).
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Logs", hide_short_help = true)]
    pub log_rotate_size: Option<u64>,

    /// Compress finished log files with zstd.
    #[arg(long, help_heading = "Logs", hide_short_help = true)]
    pub log_zstd: bool,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Directories get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE", help_heading = "Logs", hide_short_help = true)]
    pub file_mode: Option<weir_files::Mode>,

    /// Limits of flows and records in a store: age, size, and space to leave free on the disk (e.g. 30d,10G,free=1G).
    #[arg(long, value_name = "KEEP", value_parser = keep, help_heading = "Store", hide_short_help = true)]
    pub keep: Option<KeepLimits>,

    /// Measure each flow for the logs csv and text: round trips, jitter, loss, hops, windows, throughput (record
    /// `stream`).
    #[arg(long, help_heading = "Logs", hide_short_help = true)]
    pub measure: bool,

    /// Measure each flow in periods of this many seconds (record `stream_sample`).
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Logs", hide_short_help = true)]
    pub sample: Option<u32>,
}

impl LogOptions {
    /// The logs of all rows.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.each().filter(|(_, expression)| expression.is_none()).map(|(log, _)| log)
    }

    /// The logs of the rows that an expression selects, each with its expression.
    pub fn selected(&self) -> impl Iterator<Item = (&str, &str)> {
        self.each().filter_map(|(log, expression)| Some((log, expression?)))
    }

    /// The logs; of several in one text, the last has the expression.
    fn each(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.log.iter().flat_map(|text| {
            let (logs, expression) = named(text);
            let (before, last) =
                logs.rsplit_once(',').map_or((None, logs), |(before, last)| (Some(before), last));
            let before = before.into_iter().flat_map(|before| before.split(','));
            before.map(|log| (log, None)).chain([(last, expression)])
        })
    }
}
