//! The command line: help, manual page and completions are made from these definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use weir_output::store::sqlite::Keep;
use weir_proto::Hashes;

/// Reads the packets of a link once and answers every question about them.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    about,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "`weir --help` shows all options and examples, `weir help COMMAND` those of a command.",
    after_long_help = LONG_NOTES,
)]
pub struct Cli {
    /// The command, in place of a summary.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunOptions,
}

impl Cli {
    /// The mode of the files that the command writes.
    pub fn file_mode(&self) -> weir_files::Mode {
        let given = match &self.command {
            None => self.run.file_mode,
            Some(Command::Open(open)) => open.run.file_mode,
            Some(Command::Serve(serve)) => serve.run.file_mode,
            Some(Command::Anon(anon)) => anon.file_mode,
            Some(Command::Streams(streams)) => streams.file_mode,
            Some(Command::Talk(talk)) => talk.file_mode,
            Some(Command::Report(report)) => report.file_mode,
            Some(Command::Generate(generate)) => generate.file_mode,
            Some(_) => None,
        };
        given.unwrap_or(weir_files::Mode::PRIVATE)
    }
}

/// A macro, because concat! takes no constants.
macro_rules! examples {
    () => {
        "\
Examples:
  weir x.pcap                              a summary of a capture file
  weir x.pcap 'tcp port 443'               a summary of the packets that match
  weir -i eth0                             live statistics; on a terminal a full-screen view
  weir open x.pcap                         the summary, then its pages until Ctrl-C
  weir serve -i eth0                       pages of a link: http://127.0.0.1:8470/
  weir x.pcap -o logs --log zeek,eve       logs into a directory
  weir x.pcap 'host 10.0.0.1' -w y.pcapng  the packets that match into a file
  weir count x.pcap -e tcp -e 'port 53'    packets and bytes of each expression
  weir explain 'tcp port 80' x.pcap        how an expression is evaluated, and its cost
  weir streams x.pcap -o DIR               each direction of each TCP stream into a file
  weir anon x.pcap y.pcap --key-file K     an anonymised copy of a capture
  weir x.pcap -o logs --anon cryptopan --key-file K    anonymised logs"
    };
}

const LONG_NOTES: &str = concat!(
    examples!(),
    "

Exit codes:
  0    good
  1    usage or configuration
  2    unreadable input
  3    truncated or corrupt input: the results are partial
  4    an output failed
  5    loss above --max-loss
  130  interrupted, after all received packets were reported"
);

/// The command, in place of a summary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count packets and bytes of many expressions in one pass.
    Count(Count),
    /// Write an anonymised copy of a capture.
    Anon(Anon),
    /// Show how an expression is evaluated, and its cost.
    Explain(Explain),
    /// Write each direction of each TCP stream into a file.
    Streams(Streams),
    /// Write conversations of a capture as text, in the form of the test data.
    Talk(Talk),
    /// Write a report about captures as one HTML page, and a model of their traffic.
    Report(Report),
    /// Generate a capture from a model of traffic.
    Generate(Generate),
    /// Query a store, e.g. `top src by bytes since 24h where dst net 10.0.0.0/8`.
    Query(Query),
    /// Show the state of a store, or export its series.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Analyse a capture, print its summary, and serve its pages until Ctrl-C.
    Open(Box<Open>),
    /// Monitor a link, store the results, and serve its pages.
    Serve(Box<Serve>),
    /// Check or explain a configuration, or translate one of Ourmon's.
    #[command(subcommand)]
    Config(Config),
    /// Print shell completions.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page in troff: of the program, or of every table and field.
    #[command(hide = true)]
    Man {
        /// Which page.
        #[arg(value_enum, default_value_t)]
        page: ManPage,
    },
    /// Open rings for a run that has given its rights away.
    #[command(hide = true)]
    RingHelper(RingHelper),
}

/// A manual page.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ManPage {
    /// weir(1): commands and options.
    #[default]
    Weir,
    /// weir-fields(7): tables of records and their fields.
    Fields,
}

/// Query a store: a question on one line, or as a JSON object.
#[derive(Debug, Args)]
#[command(after_help = QUESTIONS)]
pub struct Query {
    /// The question.
    #[arg(required = true, num_args = 1..)]
    pub question: Vec<String>,
    /// The folder of the store.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Print a JSON object.
    #[arg(short, long, conflicts_with = "csv")]
    pub json: bool,
    /// Print CSV.
    #[arg(long)]
    pub csv: bool,
    /// Write a Parquet file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv"])]
    pub parquet: Option<PathBuf>,
}

const QUESTIONS: &str = "\
Questions: a subject, then clauses in any order; `where` takes the rest of the line.
  top KEY      src, dst, talker, service, flow, protocol, pair, vlan, state, application, name
  list NAME    a list of the configuration
  flows | count | distinct | records TABLE | series NAME
Clauses:
  by bytes|packets|flows     since 24h     until 1h     in 2026-03     limit 20
  order -bytes (flows)       points 600 (series)        text WORD (records)
  where EXPR                 pcap-filter(7) over flows: `src` is the initiator";

/// Show the state of a store, or export its series.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show size, maximum size, and retention of a store.
    State {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Print a JSON object.
        #[arg(short, long)]
        json: bool,
    },
    /// List all series with unit and meaning.
    Series {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
    /// Export series for other tools.
    Export {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// Folder for one file per series, readable by `rrdtool restore`.
        #[arg(long, value_name = "DIR", required_unless_present = "prometheus")]
        rrd: Option<PathBuf>,
        /// Print OpenMetrics text with times, for `promtool tsdb create-blocks-from openmetrics`.
        #[arg(long, conflicts_with = "rrd")]
        prometheus: bool,
        /// Export only these series.
        #[arg(short, long, value_name = "NAME")]
        series: Vec<String>,
    },
}

/// What the process beside a run is told.
#[derive(Debug, Args)]
pub struct RingHelper {
    /// The user that it becomes.
    #[arg(long, requires = "gid")]
    pub uid: Option<u32>,
    /// The group that it becomes.
    #[arg(long)]
    pub gid: Option<u32>,
    /// Rings on each interface.
    #[arg(long)]
    pub workers: usize,
    /// Memory of each ring.
    #[arg(long)]
    pub ring_bytes: usize,
    /// Milliseconds after which a block is handed over that is not full.
    #[arg(long)]
    pub block_timeout: u32,
    /// Do not make the interfaces promiscuous.
    #[arg(long)]
    pub no_promiscuous: bool,
    /// The interfaces.
    #[arg(last = true, required = true)]
    pub interfaces: Vec<String>,
}

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

    /// A number: stop after this many matching packets. Otherwise the path of a configuration, as --config.
    #[arg(short = 'c', value_name = "N|FILE", help_heading = "Input")]
    pub count_or_config: Option<String>,

    /// Read subscriptions, charts and outputs from a configuration file.
    #[arg(long, value_name = "FILE", help_heading = "Input", hide_short_help = true)]
    pub config: Option<PathBuf>,

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

    /// Write matching packets: pcapng, or classic pcap if the name ends in .pcap; compressed if it ends in .gz or .zst;
    /// `-` for standard output.
    #[arg(short, long, value_name = "FILE", help_heading = "Packets")]
    pub write: Option<String>,

    /// Begin a new file of -w after this many seconds. strftime(3) sequences in its name are expanded.
    #[arg(
        short = 'G',
        value_name = "SECONDS",
        requires = "write",
        help_heading = "Packets",
        hide_short_help = true
    )]
    pub rotate_seconds: Option<u64>,

    /// Begin a new file of -w before it exceeds this many million bytes.
    #[arg(
        short = 'C',
        value_name = "MB",
        requires = "write",
        help_heading = "Packets",
        hide_short_help = true
    )]
    pub rotate_size: Option<u64>,

    /// With -C, keep this many files and overwrite the oldest; with -G, stop after this many files.
    #[arg(
        short = 'W',
        value_name = "N",
        requires = "write",
        help_heading = "Packets",
        hide_short_help = true
    )]
    pub rotate_files: Option<u32>,

    /// Write each packet of -w immediately.
    #[arg(short = 'U', requires = "write", help_heading = "Packets", hide_short_help = true)]
    pub unbuffered: bool,

    /// Write the packets of unidentified flows, including their first ones, to a file of their own. Formats as for -w.
    #[arg(long, alias = "unparsed", value_name = "FILE", help_heading = "Packets", hide_short_help = true)]
    pub unidentified: Option<String>,

    /// Extract files from streams into a directory. A complete file is named by its SHA-256, others by their identifier
    /// in the logs.
    #[arg(long, value_name = "DIR", conflicts_with = "anonymisation", help_heading = "Files")]
    pub files: Option<PathBuf>,

    /// Maximum size of each extracted file (e.g. 64M, 1G).
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "64M", value_parser = bytes, help_heading = "Files", hide_short_help = true)]
    pub files_each: u64,

    /// Maximum size of all extracted files together.
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "4G", value_parser = bytes, help_heading = "Files", hide_short_help = true)]
    pub files_total: u64,

    /// Maximum number of extracted files.
    #[arg(
        long,
        value_name = "N",
        requires = "files",
        default_value_t = 100_000,
        help_heading = "Files",
        hide_short_help = true
    )]
    pub files_count: u64,

    /// Checksums of files, separated by commas: md5, sha1, sha256; or none [default: none; sha256 with --files].
    #[arg(long, value_name = "HASH,...", value_parser = hashes, help_heading = "Files", hide_short_help = true)]
    pub hash: Option<Hashes>,

    /// Size up to which compressed content of a flow is always decompressed (e.g. 64K, 1M) [default: 1M]. Beyond this
    /// size and --inflate-ratio, decompression stops with an anomaly.
    #[arg(long, value_name = "SIZE", value_parser = inflated, help_heading = "Limits", hide_short_help = true)]
    pub inflate: Option<u32>,

    /// Maximum ratio of decompressed to compressed bytes of a flow, 1 to 2000, beyond --inflate [default: 100].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=2000),
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub inflate_ratio: Option<u32>,

    /// Write logs into a directory.
    #[arg(short, long, value_name = "DIR", help_heading = "Logs")]
    pub output: Option<PathBuf>,

    /// Logs to write, separated by commas: zeek, zeek-json, eve, csv, ndjson, text, mon, mon-paper, prometheus, store.
    /// A colon selects rows of a log (e.g. eve:flow+http+dns). With flow alone, payload is not parsed.
    #[arg(long, value_name = "LOG,...", value_delimiter = ',', requires = "output", help_heading = "Logs")]
    pub log: Vec<String>,

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

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Folders get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE", help_heading = "Logs", hide_short_help = true)]
    pub file_mode: Option<weir_files::Mode>,

    /// Limits of flows and records in a store: age, size, and space to leave free on the disk (e.g. 30d,10G,free=1G).
    #[arg(long, value_name = "KEEP", value_parser = keep, help_heading = "Store", hide_short_help = true)]
    pub keep: Option<Limits>,

    /// Measure each flow for the logs csv and text: round trips, jitter, loss, hops, windows, throughput (record
    /// `stream`).
    #[arg(long, requires = "output", help_heading = "Logs", hide_short_help = true)]
    pub measure: bool,

    /// Measure each flow in periods of this many seconds (record `stream_sample`).
    #[arg(long, value_name = "SECONDS", requires = "output", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Logs", hide_short_help = true)]
    pub sample: Option<u32>,

    /// Length of an interval, 1s to 1h [default: 30s]. Intervals follow packet time in files and the clock on links.
    #[arg(long, value_name = "TIME", value_parser = interval, help_heading = "Display", hide_short_help = true)]
    pub interval: Option<u64>,

    /// Print the summary as NDJSON, one object a line.
    #[arg(short, long, help_heading = "Display")]
    pub json: bool,

    /// Do not resolve port numbers to names.
    #[arg(short, long, help_heading = "Display")]
    pub numeric: bool,

    /// Flush standard output after each line.
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
    #[arg(short, long, help_heading = "Display")]
    pub quiet: bool,

    /// Print more: the packet ledger, memory, and the contents of each file.
    #[arg(short, long, help_heading = "Display")]
    pub verbose: bool,

    /// Number of worker threads; 0 for one per core.
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

    /// Verify checksums. `on`: packets with a wrong checksum do not count in flows. `auto`: verify a sample and report
    /// the result.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Checksum::Auto, help_heading = "Input", hide_short_help = true)]
    pub checksum: Checksum,

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

/// The default port of the pages.
pub const PORT: u16 = 8470;

/// Analyse a capture, print its summary, and serve its pages until Ctrl-C.
///
/// Takes all options of a summary. The last line is the address of the pages; no browser is started. The exit code is
/// that of the analysis.
#[derive(Debug, Args)]
pub struct Open {
    #[command(flatten)]
    pub run: RunOptions,

    #[command(flatten)]
    pub pages: Pages,

    /// Print the summary and the address, and exit: for runs without a terminal.
    #[arg(long, help_heading = "Pages")]
    pub no_wait: bool,
}

/// The port and the store of the pages.
#[derive(Debug, Args)]
pub struct Pages {
    /// Port of the pages [default: 8470; `weir open` uses the next free port].
    #[arg(long, value_name = "N", help_heading = "Pages", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Store results in a folder. Without it they go to a temporary folder that is removed at the end.
    #[arg(long, value_name = "DIR", help_heading = "Pages")]
    pub store: Option<PathBuf>,
}

/// Monitor a link, store the results, and serve its pages.
///
/// Takes all options of a live run. Without interfaces, the pages of an existing store are served. On loopback every user
/// of the machine may look, and the user who started the program may download packets. Other addresses need TLS, and
/// users or tokens with rights: look, packets (download packets, see payload) and write (apply a configuration).
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub run: RunOptions,

    #[command(flatten)]
    pub pages: Pages,

    /// Address of the pages [default: 127.0.0.1 and ::1]. Any other needs --tls-cert and --tls-key, and --user-file or
    /// --token-file.
    #[arg(long, value_name = "ADDRESS", help_heading = "Pages")]
    pub listen: Option<IpAddr>,

    /// Certificate of the pages (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Pages")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Pages")]
    pub tls_key: Option<PathBuf>,

    /// Tokens, a line each: `TOKEN NAME RIGHTS`, such as `... backup look,packets`. RIGHTS are look, packets (download
    /// packets, see payload) and write (apply a configuration). `TOKEN` alone may look. The file is for its owner alone
    /// (chmod 600).
    #[arg(long, value_name = "FILE", help_heading = "Pages")]
    pub token_file: Option<PathBuf>,

    /// Users, a line each: `NAME:RIGHTS:HASH`, as --hash-password prints, with rights as in --token-file. The file is
    /// for its owner alone (chmod 600).
    #[arg(long, value_name = "FILE", help_heading = "Pages")]
    pub user_file: Option<PathBuf>,

    /// Write who downloaded packets, who applied a configuration and whose log-in failed to this file, an object a
    /// line, and to standard error; FILE.1 has the lines before [default: access.log in the folder of --store].
    #[arg(long, value_name = "FILE", help_heading = "Pages")]
    pub access_log: Option<PathBuf>,

    /// Read a password from standard input, print its line for --user-file, and exit.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "weir", help_heading = "Pages")]
    pub hash_password: Option<String>,
}

/// Anonymisation of a run.
#[derive(Debug, Args)]
pub struct AnonRun {
    /// Map addresses and replace names by pseudonyms in all output: logs, summary, live view and -w.
    #[arg(
        id = "anonymisation",
        long = "anon",
        value_name = "MODE",
        value_enum,
        help_heading = "Anonymisation",
        hide_short_help = true
    )]
    pub mode: Option<AnonMode>,

    #[command(flatten)]
    pub how: AnonHow,
}

/// Address mapping.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AnonMode {
    /// Replace all addresses by 0.0.0.0 or ::.
    Nullip,
    /// Prefix-preserving and random, different in each run.
    Table,
    /// Prefix-preserving with a key: Crypto-PAn. Equal in every run and at every site with that key.
    Cryptopan,
    /// Prefix-preserving with a key: ipcrypt-pfx of draft-denis-ipcrypt.
    Ipcrypt,
}

/// Treatment of payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AnonPayload {
    /// Cut packets after the transport header. DNS messages are rewritten.
    Cut,
    /// Set payload bytes to 0. DNS messages are rewritten.
    Blank,
    /// Keep payload, except DNS messages and lines of known text protocols, which are rewritten. Names elsewhere in the
    /// payload remain.
    Keep,
}

/// The options of anonymisation that a run and `weir anon` share.
#[derive(Debug, Args)]
pub struct AnonHow {
    /// Key of cryptopan and ipcrypt: a file of 32 bytes, or of 64 hexadecimal digits.
    #[arg(long, value_name = "FILE", help_heading = "Anonymisation", hide_short_help = true)]
    pub key_file: Option<PathBuf>,

    /// Treatment of payload in written packets [default: blank].
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Anonymisation", hide_short_help = true)]
    pub payload: Option<AnonPayload>,

    /// Shift all times by this many seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        allow_hyphen_values = true,
        help_heading = "Anonymisation",
        hide_short_help = true
    )]
    pub shift: Option<f64>,

    /// Treatment of values by class (e.g. name=keep,content=drop). Classes: name, address, url, user, mail, secret,
    /// content, fingerprint. Treatments: keep, pseudonym, drop, blank. Default: drop for secret and content, pseudonym
    /// for the others.
    #[arg(long, value_name = "CLASS=WHAT,...", help_heading = "Anonymisation", hide_short_help = true)]
    pub anon_policy: Option<String>,

    /// Treatment of one field, in the notation of MAPI's ANONYMIZE: PROTOCOL,FIELD,FUNCTION and its arguments (e.g.
    /// IP,TTL,ZERO or HTTP,HOST,HASHED,SHA_2,STRIP_REST). May be repeated.
    #[arg(long, value_name = "RULE", help_heading = "Anonymisation", hide_short_help = true)]
    pub anon_field: Vec<String>,

    /// Keep the vendor half of hardware addresses.
    #[arg(long, help_heading = "Anonymisation", hide_short_help = true)]
    pub keep_vendors: bool,

    /// Replace top-level domains by pseudonyms too.
    #[arg(long, help_heading = "Anonymisation", hide_short_help = true)]
    pub hide_top_domains: bool,
}

impl AnonHow {
    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            (self.key_file.is_some(), "--key-file"),
            (self.payload.is_some(), "--payload"),
            (self.shift.is_some(), "--shift"),
            (self.anon_policy.is_some(), "--anon-policy"),
            (!self.anon_field.is_empty(), "--anon-field"),
            (self.keep_vendors, "--keep-vendors"),
            (self.hide_top_domains, "--hide-top-domains"),
        ];
        all.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

/// Write an anonymised copy of a capture.
///
/// Addresses in headers are mapped, DNS messages are rewritten, hardware addresses get pseudonyms, and payload is
/// blanked unless --payload says otherwise. Correct checksums remain correct; wrong ones remain wrong.
#[derive(Debug, Args)]
pub struct Anon {
    /// The capture, `-` for standard input.
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// Output file: pcapng, or classic pcap if the name ends in .pcap; compressed if it ends in .gz or .zst; `-` for
    /// standard output.
    #[arg(value_name = "OUT", required_unless_present = "audit_path")]
    pub output: Option<PathBuf>,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Folders get the matching search
    /// permission.
    #[arg(long = "file-mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Address mapping.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AnonMode::Cryptopan, help_heading = "Anonymisation")]
    pub mode: AnonMode,

    #[command(flatten)]
    pub how: AnonHow,

    /// Search the output for every address and name of the capture; exit with 4 if one is found.
    #[arg(long)]
    pub audit: bool,

    /// Search these files and folders, such as logs of the capture, for its addresses, names, users and mail addresses,
    /// also in gzip and zstd files. May be repeated. OUT is then optional.
    #[arg(long, value_name = "PATH")]
    pub audit_path: Vec<PathBuf>,

    /// Print no report.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Verification of checksums.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Checksum {
    /// Verify a sample, and report the result.
    Auto,
    /// Verify all.
    On,
    /// Verify none.
    Off,
}

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

    /// One JSON object per row.
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

    /// Number of worker threads; 0 for one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,
}

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

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Folders get the matching search
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
    pub anon: AnonRun,
}

/// Write conversations of a capture as text, in the form of the test data.
///
/// Each flow of TCP or UDP that matches is one conversation: what each side sent, in order, put together from segments and
/// fragments, with gaps where bytes are missing. Without --output the first flow goes to standard output.
#[derive(Debug, Args)]
pub struct Talk {
    /// Capture files or directories, then a pcap-filter(7) expression.
    #[arg(value_name = "FILE|EXPR", num_args = 1.., required = true)]
    pub words: Vec<String>,

    /// The expression, where its first word is also the name of a file.
    #[arg(last = true, value_name = "EXPR")]
    pub after_dashes: Vec<String>,

    /// A directory for a file of each flow, named after its addresses and ports.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Mode of the files that are written, in octal (600 when nothing is given): 640 lets the group read them. Whoever may
    /// read the files may enter the folders.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// All memory that grows with traffic, as 512M or 2G.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub memory: usize,
}

/// Show how an expression is evaluated, and its cost.
///
/// Tests of fields that all packets of a flow share are decided once per flow. Tests of each packet are compared for many
/// packets and expressions together. Other tests are left to the expression's own program. The cost is measured.
#[derive(Debug, Args)]
pub struct Explain {
    /// A pcap-filter(7) expression.
    #[arg(value_name = "EXPR")]
    pub expression: String,

    /// Capture file whose packets measure the cost, `-` for standard input. Without it, packets are generated in
    /// memory.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Configuration whose expressions the expression joins: shows what they share, and the cost of all together.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(short, long)]
    pub json: bool,

    /// Evaluate the expression exactly as libpcap does.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Apply the expression to the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,
}

/// Write a report about captures as one HTML page, and a model of their traffic.
///
/// The page is one self-contained file: summary, traffic over time, protocols, talkers, streams, and the distributions of
/// sizes and times by protocol and by pair of hosts, with fitted distributions.
#[derive(Debug, Args)]
pub struct Report {
    /// Capture files or directories, `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Folders get the matching search
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

    /// Mode of written files, in octal [default: 600]; 640 lets the group read them. Folders get the matching search
    /// permission.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Length of the capture in seconds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u32,

    /// Seed of the random generator: another seed gives other traffic of the same kind.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// Check or explain a configuration, or translate one of Ourmon's.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Check a configuration, and report all errors.
    Check {
        /// The configuration.
        file: PathBuf,
    },
    /// Print every effective value with its origin.
    Explain {
        /// The configuration.
        file: PathBuf,
    },
    /// Translate an ourmon.conf.
    FromOurmon {
        /// Ourmon's configuration.
        file: PathBuf,
    },
}

/// Nanoseconds of `30s`, `5m` or `1h`; a bare number is seconds.
fn interval(text: &str) -> Result<u64, String> {
    const WANTED: &str = "expected a time from 1s to 1h, e.g. 30s or 5m";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| WANTED)?;
    let seconds = match &text[digits.len()..] {
        "" | "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => None,
    };
    match seconds {
        Some(seconds @ 1..=3600) => Ok(seconds * 1_000_000_000),
        _ => Err(WANTED.to_owned()),
    }
}

/// Nanoseconds of `30s`, `5m`, `1h` or `1d`; a bare number is seconds.
pub fn period(text: &str) -> Result<u64, String> {
    const WANTED: &str = "expected a time, e.g. 30s, 10m, 1h or 1d";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| WANTED)?;
    let unit = match text.get(digits.len()..) {
        Some("" | "s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 86_400,
        _ => return Err(WANTED.to_owned()),
    };
    let nanoseconds = number.checked_mul(unit * 1_000_000_000);
    nanoseconds.filter(|time| *time > 0).ok_or_else(|| WANTED.to_owned())
}

/// Checksums by their names.
fn hashes(text: &str) -> Result<Hashes, String> {
    let mut hashes = Hashes::default();
    if text == "none" {
        return Ok(hashes);
    }
    for name in text.split(',') {
        match name {
            "md5" => hashes.md5 = true,
            "sha1" => hashes.sha1 = true,
            "sha256" => hashes.sha256 = true,
            _ => return Err("expected md5, sha1 and sha256, separated by commas, or none".to_owned()),
        }
    }
    Ok(hashes)
}

/// The limits of flows and records in --keep.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// Nanoseconds.
    pub age: Option<u64>,
    /// Bytes that the store may take.
    pub bytes: Option<u64>,
    /// Bytes that stay free on the disk.
    pub free: Option<u64>,
}

impl Limits {
    /// Overrides the limits of `keep` by the given ones.
    pub fn over(self, keep: Keep) -> Keep {
        Keep {
            age: self.age.unwrap_or(keep.age),
            bytes: self.bytes.unwrap_or(keep.bytes),
            free: self.free.unwrap_or(keep.free),
            ..keep
        }
    }
}

/// `30d,10G,free=1G`, in any order.
fn keep(text: &str) -> Result<Limits, String> {
    const WANTED: &str = "expected an age, a size and a free size, separated by commas, e.g. 30d,10G,free=1G";
    let mut limits = Limits::default();
    for part in text.split(',') {
        if let Some(size) = part.strip_prefix("free=") {
            limits.free = Some(if size == "0" { 0 } else { bytes(size).map_err(|_| WANTED)? });
        } else if part.ends_with(['h', 'd']) {
            limits.age = Some(period(part).map_err(|_| WANTED)?);
        } else if part.ends_with(['M', 'G', 'T']) {
            limits.bytes = Some(bytes(part).map_err(|_| WANTED)?);
        } else {
            return Err(WANTED.to_owned());
        }
    }
    Ok(limits)
}

/// Bytes of `100`, `64K`, `512M` or `2G`.
pub fn bytes(text: &str) -> Result<u64, String> {
    const WANTED: &str = "expected a size, e.g. 64K, 512M or 2G";
    let upper = text.trim().trim_end_matches("iB").trim_end_matches('B').to_ascii_uppercase();
    let digits = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| WANTED)?;
    let shift = match upper.get(digits.len()..) {
        Some("") => 0,
        Some("K") => 10,
        Some("M") => 20,
        Some("G") => 30,
        Some("T") => 40,
        _ => return Err(WANTED.to_owned()),
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| WANTED.to_owned())
}

/// Bytes of `512M` or `2G`.
pub fn size(text: &str) -> Result<usize, String> {
    let number = bytes(text).ok().filter(|bytes| *bytes >= 16 << 20);
    let number = number.and_then(|bytes| usize::try_from(bytes).ok());
    number.ok_or_else(|| "expected a size of at least 16M, e.g. 512M or 2G".to_owned())
}

/// Bytes that compressed content may grow to.
pub fn inflated(text: &str) -> Result<u32, String> {
    let number = bytes(text).ok().filter(|bytes| *bytes <= 1 << 30);
    let number = number.and_then(|bytes| u32::try_from(bytes).ok());
    number.ok_or_else(|| "expected a size of at most 1G, e.g. 64K or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!((bytes("100"), bytes("64K")), (Ok(100), Ok(64 << 10)));
        assert!(bytes("0").is_err() && bytes("1X").is_err() && bytes("99999999T").is_err());
        assert!(size("1M").is_err() && size("12Q").is_err() && size("").is_err());
        assert_eq!((period("10m"), period("1d")), (Ok(600_000_000_000), Ok(86_400_000_000_000)));
        assert!(period("0").is_err() && period("1y").is_err() && period("m").is_err());
        assert_eq!(interval("30s"), Ok(30_000_000_000));
        let max = Keep { age: 2 * 86_400_000_000_000, bytes: 5 << 30, free: 0, ..Keep::default() };
        assert_eq!(keep("5G,free=0,2d").map(|limits| limits.over(Keep::default())), Ok(max));
        assert!(keep("5").is_err() && keep("").is_err() && keep("free=x").is_err() && keep("1d;2G").is_err());
        assert_eq!(interval("5m"), Ok(300_000_000_000));
        assert!(interval("0").is_err() && interval("2h").is_err() && interval("s").is_err());
    }
}
