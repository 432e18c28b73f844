//! Models of traffic: `weir report` and `weir generate`.

use super::anon::AnonRun;
use super::times::ZonedTimeOptions;
use clap::Args;
use std::path::PathBuf;

/// Write a report about captures as one HTML page, and a model of their traffic.
///
/// The page is one self-contained file: summary, traffic over time, protocols, talkers, streams, and the distributions of
/// sizes and times by protocol and by pair of hosts, with fitted distributions.
#[derive(Debug, Args)]
pub struct Report {
    /// Capture files or directories, `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

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
