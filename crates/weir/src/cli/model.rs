//! Reports and models of traffic: `weir report` and `weir generate`.

use super::anon::AnonRun;
use super::times::ZonedTimeOptions;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use weir_output::Home;

/// Write a report about captures as one HTML page, and a model of their traffic; or print a report about hosts from a store.
///
/// The page is one self-contained file: summary, traffic over time, protocols, talkers, streams, and the distributions of
/// sizes and times by protocol and by pair of hosts, with fitted distributions.
///
/// `--store DIR --hosts hour` reads no capture: it prints who had work, scanned, was flooded, drew errors and was in events, from the
/// lists that a store keeps. `--beacons` and `--new` read the flows that it keeps.
#[derive(Debug, Args)]
pub struct Report {
    /// Capture files or directories, `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "stored")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub hosts: HostReport,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Directories get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// File of the page.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,

    /// Analyse only matching packets.
    #[arg(short, long, value_name = "EXPR")]
    pub expression: Option<String>,

    /// Write the model as JSON, for `weir generate`.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,

    /// Write distributions.csv and fits.csv into a directory.
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,

    #[command(flatten)]
    pub times: ZonedTimeOptions,

    #[command(flatten)]
    pub anon: AnonRun,
}

/// Options of a report about hosts.
#[derive(Debug, Args)]
pub struct HostReport {
    /// Print a report about the hosts of an hour, a day or a week (in UTC, from Monday) from the store of --store.
    #[arg(long = "hosts", value_name = "PERIOD", value_enum, requires = "store", group = "stored", help_heading = "Hosts",
        conflicts_with_all = ["files", "output", "expression", "model", "csv", "since", "until"])]
    pub period: Option<HostPeriod>,

    /// Print the pairs of hosts whose 20 or more flows of a day (in UTC) begin at even times, with even sizes, from the store of
    /// --store.
    #[arg(long, requires = "store", group = "stored", help_heading = "Hosts",
        conflicts_with_all = ["files", "output", "expression", "model", "csv", "since", "until", "anonymisation"])]
    pub beacons: bool,

    /// Print the hosts and services at home that the flows of a day (in UTC) have and those of the 7 days before do not, from the
    /// store of --store.
    #[arg(long, requires = "store", group = "stored", help_heading = "Hosts",
        conflicts_with_all = ["files", "output", "expression", "model", "csv", "since", "until", "anonymisation"])]
    pub new: bool,

    /// Leave out beacons from and to a network or an address; may be given more than once. A file has one in a line, with # before
    /// comments.
    #[arg(long, value_name = "NET|FILE", requires = "beacons", help_heading = "Hosts")]
    pub allow: Vec<String>,

    /// A network at home, instead of the private ones, for --hosts and --new; may be given more than once.
    #[arg(long, value_name = "NET", requires = "stored", conflicts_with = "beacons", help_heading = "Hosts")]
    pub home: Vec<weir_api::Net>,

    /// Directory of the store.
    #[arg(long, value_name = "DIR", requires = "stored", help_heading = "Hosts")]
    pub store: Option<PathBuf>,

    /// A time within the period, in the forms of --since, such as `yesterday` or 2026-03-15T12:30 [default: the last complete
    /// period].
    #[arg(long, value_name = "TIME", requires = "stored", help_heading = "Hosts")]
    pub at: Option<String>,

    /// Hosts with a greater work weight in percent are among the worms.
    #[arg(long, value_name = "PERCENT", default_value_t = 40, help_heading = "Hosts")]
    pub weight: u64,

    /// Maximum number of hosts of a section, or of pairs or services; 0 shows all. JSON has all.
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Hosts")]
    pub limit: usize,

    /// Print NDJSON: a line about the report, and one for each host, pair or service.
    #[arg(short, long, requires = "stored", help_heading = "Hosts")]
    pub json: bool,

    /// Write the report as one HTML page without a script into a file, and print nothing.
    #[arg(long, value_name = "FILE", requires = "period", conflicts_with = "json", help_heading = "Hosts")]
    pub html: Option<PathBuf>,
}

impl HostReport {
    /// The networks at home.
    pub fn home(&self) -> Home {
        if self.home.is_empty() { Home::default() } else { Home { nets: self.home.clone() } }
    }
}

/// The period of a report about hosts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum HostPeriod {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days from Monday.
    Week,
}

/// Generate a capture from a model of traffic.
///
/// Flows, requests, responses and the times between them are drawn from the model's fitted distributions. Equal model and
/// seed give equal captures.
#[derive(Debug, Args)]
pub struct Generate {
    /// A model, as `weir report --model` writes it.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Output file: pcapng, or classic pcap if the name ends in .pcap; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Directories get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Length of the capture in seconds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u32,

    /// Seed of the random generator: another seed gives other traffic of this kind.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}
