//! Payload: `weir streams` and `weir talk`.

use super::anon::AnonRun;
use super::times::ZonedTimeOptions;
use super::values::size;
use clap::Args;
use std::path::PathBuf;

/// Write each direction of each TCP stream into a file.
///
/// Files are named as tcpflow names them: sender, then receiver. Missing bytes are holes in the file.
#[derive(Debug, Args)]
pub struct Streams {
    /// Capture files or directories, then a pcap-filter(7) expression.
    #[arg(value_name = "FILE|EXPR", num_args = 1.., required = true)]
    pub words: Vec<String>,

    /// The expression, if its first word is also the name of a file.
    #[arg(last = true, value_name = "EXPR")]
    pub after_dashes: Vec<String>,

    /// Directory of the files; `-` writes all streams to standard output, in the order of their data.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Directories get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Write both directions of a stream into one file, in the order of their data.
    #[arg(long)]
    pub both: bool,

    /// Which data wins where segments overlap: first, last, linux, windows or bsd.
    #[arg(long, value_name = "POLICY", default_value = "linux")]
    pub overlap: String,

    /// Leave out urgent bytes, as hosts do without SO_OOBINLINE.
    #[arg(long)]
    pub urgent_apart: bool,

    /// Leave out segments with a wrong checksum, as hosts do.
    #[arg(long)]
    pub verify_checksums: bool,

    /// Evaluate expressions exactly as libpcap does.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Apply expressions to the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,

    /// Memory limit (e.g. 512M, 2G).
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub memory: usize,

    /// Print errors only.
    #[arg(short, long)]
    pub quiet: bool,

    #[command(flatten)]
    pub times: ZonedTimeOptions,

    #[command(flatten)]
    pub anon: AnonRun,
}

/// Print what the two sides of each flow said (Wireshark's Follow Stream) as text.
///
/// Each matching TCP or UDP flow is one conversation: the bytes that each side sent, reassembled in order, with gaps for
/// missing bytes. Without --output the first flow is written to standard output.
#[derive(Debug, Args)]
pub struct Talk {
    /// Capture files or directories, then a pcap-filter(7) expression.
    #[arg(value_name = "FILE|EXPR", num_args = 1.., required = true)]
    pub words: Vec<String>,

    /// The expression, if its first word is also the name of a file.
    #[arg(last = true, value_name = "EXPR")]
    pub after_dashes: Vec<String>,

    /// Write each flow into a file in this directory, named by addresses and ports.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Directories get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Memory limit (e.g. 512M, 2G).
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub memory: usize,

    #[command(flatten)]
    pub times: ZonedTimeOptions,
}
