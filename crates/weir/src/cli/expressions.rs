//! Expressions: `weir count` and `weir explain`.

use super::times::ZonedTimeOptions;
use clap::Args;
use std::path::PathBuf;

/// Count packets and bytes of many expressions in one pass.
#[derive(Debug, Args)]
pub struct Count {
    /// Capture files or directories, `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// An expression; may be repeated.
    #[arg(short, long = "expression", value_name = "EXPR", action = clap::ArgAction::Append)]
    pub expressions: Vec<String>,

    /// Read expressions from a file, one per line. Empty lines and lines that begin with # are skipped.
    #[arg(short = 'F', value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Print each row as a JSON object.
    #[arg(short, long)]
    pub json: bool,

    /// Evaluate expressions exactly as libpcap does.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Apply expressions to the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,

    /// Number of bytes of each packet to analyse; 0 for all.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub snaplen: u32,

    /// Number of worker threads; 0 for one per core, and for one alone for captures below 64 MiB.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,

    #[command(flatten)]
    pub times: ZonedTimeOptions,
}

/// Show how an expression is evaluated, and its cost.
///
/// Tests of fields that all packets of a flow share are decided once per flow. Tests of each packet are compared for many
/// packets and expressions together. Other tests are left to the expression's own program. The cost is measured.
#[derive(Debug, Args)]
pub struct Explain {
    /// A pcap-filter(7) expression.
    #[arg(value_name = "EXPR", required_unless_present = "plan")]
    pub expression: Option<String>,

    /// Print the plan of a run with these options in place of an expression: its subscriptions, also the built-in ones,
    /// and what the pass does for them. `--plan serve -i eth0` shows the plan of a command.
    #[arg(long, value_name = "OPTIONS", num_args = 0.., allow_hyphen_values = true, conflicts_with = "expression")]
    pub plan: Option<Vec<String>>,

    /// Capture file whose packets measure the cost, `-` for standard input. Without it, packets are generated in
    /// memory.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Configuration whose expressions the expression joins: shows what they share, and the cost of all together.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print a JSON object.
    #[arg(short, long)]
    pub json: bool,

    /// Evaluate the expression exactly as libpcap does.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Apply the expression to the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,

    #[command(flatten)]
    pub times: ZonedTimeOptions,
}
