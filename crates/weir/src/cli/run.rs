//! A run over files or links.

use super::anon::AnonRun;
use super::checksum::Checksum;
use super::extraction::ExtractionOptions;
use super::logs::LogOptions;
use super::packets::PacketOptions;
use super::rules::RuleOptions;
use super::tcpdump::TcpdumpOptions;
use super::times::TimeOptions;
use super::values::{inflated, interval, size};
use clap::Args;
use std::path::PathBuf;

/// The options of a run.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Capture files or directories, then a pcap-filter(7) expression. Leading words that name existing files are
    /// inputs; the rest is the expression. `--` ends the files.
    #[arg(value_name = "FILE|EXPR", num_args = 0..)]
    pub words: Vec<String>,

    /// The expression, if its first word is also the name of a file.
    #[arg(last = true, value_name = "EXPR")]
    pub after_dashes: Vec<String>,

    /// Read a capture file or a directory of capture files, `-` for standard input. May be repeated; several are merged
    /// in time order.
    #[arg(short = 'r', value_name = "FILE", action = clap::ArgAction::Append, help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Capture on a network interface, `any` for all. May be repeated; several are one stream.
    #[arg(short, long, value_name = "IF", action = clap::ArgAction::Append, help_heading = "Input")]
    pub interface: Vec<String>,

    /// Read the expression from a file.
    #[arg(short = 'F', value_name = "FILE", help_heading = "Input", hide_short_help = true)]
    pub expression_file: Option<PathBuf>,

    /// Stop after this many matching packets. A path is a configuration, as --config.
    #[arg(short = 'c', value_name = "N", help_heading = "Input")]
    pub count_or_config: Option<String>,

    /// Read subscriptions, charts and outputs from a configuration file. A live run reads it again after SIGHUP.
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub config: Option<PathBuf>,

    /// Ask a question of the run, whose answer follows the summary: functions, and what they are asked of (e.g. 'top dns.query
    /// where dns.rcode_name = NXDOMAIN'). May be repeated.
    #[arg(long, value_name = "QUESTION", action = clap::ArgAction::Append, help_heading = "Input")]
    pub subscribe: Vec<String>,

    /// Number of bytes of each packet to analyse; 0 for all.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Input",
        hide_short_help = true
    )]
    pub snaplen: u32,

    /// Do not verify checksums, as --checksum off.
    #[arg(short = 'K', conflicts_with = "checksum", help_heading = "Input", hide_short_help = true)]
    pub ignore_checksums: bool,

    #[command(flatten)]
    pub rules: RuleOptions,

    #[command(flatten)]
    pub of_tcpdump: TcpdumpOptions,

    #[command(flatten)]
    pub times: TimeOptions,

    #[command(flatten)]
    pub packets: PacketOptions,

    #[command(flatten)]
    pub extraction: ExtractionOptions,

    /// Size up to which compressed content of a flow is always decompressed (e.g. 64K, 1M) [default: 1M]. Beyond this
    /// size and --inflate-ratio, decompression stops with an anomaly.
    #[arg(long, value_name = "SIZE", value_parser = inflated, help_heading = "Limits", hide = true)]
    pub inflate: Option<u32>,

    /// Maximum ratio of decompressed to compressed bytes of a flow, 1 to 2000, beyond --inflate [default: 100].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=2000),
        help_heading = "Limits",
        hide = true
    )]
    pub inflate_ratio: Option<u32>,

    /// Size up to which compressed content of all flows of a worker is decompressed at once [default: 16M]. Packets
    /// refill it; while it is used up, bodies are not decompressed, with an anomaly.
    #[arg(long, value_name = "SIZE", value_parser = inflated, help_heading = "Limits", hide = true)]
    pub inflate_total: Option<u32>,

    /// Bytes by which each byte of packets refills --inflate-total, 1 to 2000 [default: 16].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=2000),
        help_heading = "Limits",
        hide = true
    )]
    pub inflate_total_ratio: Option<u32>,

    /// Bytes of records that are emitted for each byte of packets, beyond 4M at once, 1 to 2000. Records above that are
    /// counted and not emitted.
    #[arg(
        long,
        value_name = "N",
        default_value_t = weir_engine::RECORD_RATIO,
        value_parser = clap::value_parser!(u32).range(1..=2000),
        help_heading = "Limits",
        hide = true
    )]
    pub record_ratio: u32,

    #[command(flatten)]
    pub logs: LogOptions,

    /// Length of an interval, 1s to 1h [default: 30s]. Intervals follow packet time in files and the clock on links.
    #[arg(long, value_name = "TIME", value_parser = interval, help_heading = "Display", hide_short_help = true)]
    pub interval: Option<u64>,

    /// Print the summary as NDJSON, one object a line.
    #[arg(short, long, help_heading = "Display")]
    pub json: bool,

    /// Print port numbers, no names (as tcpdump -n). Saves the work of recognising protocols where no log needs them.
    #[arg(short, long, overrides_with = "numeric", help_heading = "Display")]
    pub numeric: bool,

    /// Flush standard output after each line of a live run. Over files nothing changes: the summary comes at the end.
    #[arg(short = 'l', help_heading = "Display", hide_short_help = true)]
    pub line_buffered: bool,

    /// User of a live run after its rings are open [default: weir if that user exists, else the caller of sudo]. The
    /// process keeps no capability; root remains uid 0 without capabilities.
    #[arg(short = 'Z', long, value_name = "NAME", help_heading = "Limits", hide_short_help = true)]
    pub user: Option<String>,

    /// Do not put the interface into promiscuous mode.
    #[arg(short = 'p', long, help_heading = "Input", hide_short_help = true)]
    pub no_promiscuous: bool,

    /// List the interfaces.
    #[arg(short = 'D', long, help_heading = "Input")]
    pub list_interfaces: bool,

    /// Print results only: no progress, no hints.
    #[arg(short, long, overrides_with = "quiet", help_heading = "Display")]
    pub quiet: bool,

    /// Print more: the packet ledger, memory, and the contents of each file.
    #[arg(short, long, overrides_with = "verbose", help_heading = "Display")]
    pub verbose: bool,

    /// Number of worker threads; 0 for one per core, and for one alone for captures below 64 MiB.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Limits", hide_short_help = true)]
    pub workers: usize,

    /// Memory limit of all tables, queues and lists (e.g. 512M, 2G) [default: 512M].
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Limits")]
    pub memory: Option<usize>,

    #[command(flatten)]
    pub anon: AnonRun,

    /// Exit with 5 if more than this percentage of packets is lost.
    #[arg(long, value_name = "PERCENT", help_heading = "Limits", hide_short_help = true)]
    pub max_loss: Option<f64>,

    /// Evaluate expressions exactly as libpcap does: do not look through VLAN tags, MPLS labels and PPPoE.
    #[arg(long, help_heading = "Input", hide_short_help = true)]
    pub strict_bpf: bool,

    /// Apply expressions to the innermost packet of a tunnel.
    #[arg(long, help_heading = "Input", hide_short_help = true)]
    pub inner: bool,

    /// Verify checksums. `on`: packets with a wrong checksum do not count in flows. `tcp`: those with a wrong one of TCP, as in
    /// Suricata. `auto`: verify a sample and report the result.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Checksum::Auto, help_heading = "Input", hide_short_help = true)]
    pub checksum: Checksum,

    /// Flows with equal addresses and ports in different VLANs are different flows. Without it, a flow may change its VLAN.
    #[arg(long, help_heading = "Input", hide_short_help = true)]
    pub vlan: bool,

    /// After a corrupt record, search for the next valid one.
    #[arg(long, help_heading = "Input", hide_short_help = true)]
    pub recover: bool,

    /// Show times in UTC (the default).
    #[arg(long, conflicts_with = "tz", help_heading = "Display", hide_short_help = true)]
    pub utc: bool,

    /// Show times in this zone (e.g. Europe/Berlin).
    #[arg(long, value_name = "ZONE", help_heading = "Display", hide_short_help = true)]
    pub tz: Option<String>,
}
