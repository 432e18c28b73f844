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
    after_help = EXAMPLES,
    after_long_help = LONG_NOTES,
)]
pub struct Cli {
    /// What to do instead of a summary.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: Run,
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
  weir x.pcap 'tcp port 443'               of the packets that match
  weir -i eth0                             live; on a terminal a full-screen view
  weir open x.pcap                         the summary, then pages in a browser until Ctrl-C
  weir serve -i eth0                       pages of a link: http://127.0.0.1:8470/
  weir x.pcap -o logs --log zeek,eve       logs into a directory
  weir x.pcap 'host 10.0.0.1' -w y.pcapng  the packets that match into a file
  weir count x.pcap -e tcp -e 'port 53'    packets and bytes of each expression
  weir explain 'tcp port 80' x.pcap        how that is evaluated, and its cost
  weir streams x.pcap -o DIR               each direction of each TCP stream into a file
  weir anon x.pcap y.pcap --key-file K     the same capture with other addresses and names
  weir x.pcap -o logs --anon cryptopan --key-file K    and logs of it"
    };
}

const EXAMPLES: &str = examples!();

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
  130  interrupted, after everything received was reported"
);

/// What to do instead of a summary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count packets and bytes of many expressions in one pass.
    Count(Count),
    /// Write a capture in which nobody can be found.
    Anon(Anon),
    /// Say how an expression is evaluated and what it costs.
    Explain(Explain),
    /// Write each direction of each TCP stream into a file.
    Streams(Streams),
    /// Write conversations of a capture as text, in the form of the test data.
    Talk(Talk),
    /// Write a page about captures, and the model of their traffic.
    Report(Report),
    /// Play a model of traffic as a capture.
    Generate(Generate),
    /// Ask a store: `top src by bytes since 24h where dst net 10.0.0.0/8`.
    Query(Query),
    /// Look into a store, or write its series for other tools.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Analyse a capture, print its summary, and serve pages about it until Ctrl-C.
    Open(Box<Open>),
    /// Listen to a link, store what is found, and serve pages about it.
    Serve(Box<Serve>),
    /// Check or explain a configuration, or translate one of Ourmon's.
    #[command(subcommand)]
    Config(Config),
    /// Print shell completions.
    Completion {
        /// For which shell.
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

/// Ask a store: a question on one line, or the same as a JSON object.
#[derive(Debug, Args)]
#[command(after_help = QUESTIONS)]
pub struct Query {
    /// The question.
    #[arg(required = true, num_args = 1..)]
    pub question: Vec<String>,
    /// The folder of the store.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The answer as a JSON object.
    #[arg(short, long, conflicts_with = "csv")]
    pub json: bool,
    /// The answer as CSV.
    #[arg(long)]
    pub csv: bool,
    /// The answer as a Parquet file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv"])]
    pub parquet: Option<PathBuf>,
}

const QUESTIONS: &str = "\
Questions: what is asked, then clauses in any order; `where` takes the rest of the line.
  top KEY      src, dst, talker, service, flow, protocol, pair, vlan, state, application, name
  list NAME    a list of the configuration
  flows | count | distinct | records TABLE | series NAME
Clauses:
  by bytes|packets|flows     since 24h     until 1h     in 2026-03     limit 20
  order -bytes (flows)       points 600 (series)        text WORD (records)
  where EXPR                 pcap-filter(7) of flows: `src` is who began the flow";

/// Look into a store, or write its series for other tools.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// How large it is, how large it can become, and what is kept how long.
    State {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// As a JSON object.
        #[arg(short, long)]
        json: bool,
    },
    /// The names of all series, with unit and meaning.
    Series {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
    /// Write series for other tools.
    Export {
        /// The folder of the store.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// A folder for files that `rrdtool restore` reads, one for each series.
        #[arg(long, value_name = "DIR", required_unless_present = "prometheus")]
        rrd: Option<PathBuf>,
        /// OpenMetrics text with times on standard output, for `promtool tsdb create-blocks-from openmetrics`.
        #[arg(long, conflicts_with = "rrd")]
        prometheus: bool,
        /// Only these series.
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
pub struct Run {
    /// Capture files or directories, then a pcap-filter(7) expression: leading words that exist as files are
    /// inputs, the rest is the expression. `--` ends the files.
    #[arg(value_name = "FILE|EXPR", num_args = 0..)]
    pub words: Vec<String>,

    /// The expression, where its first word is also the name of a file.
    #[arg(last = true, value_name = "EXPR")]
    pub after_dashes: Vec<String>,

    /// Read a capture file or a directory of them, `-` for standard input. May be repeated: several are
    /// merged in time order.
    #[arg(short = 'r', value_name = "FILE", action = clap::ArgAction::Append)]
    pub read: Vec<PathBuf>,

    /// Listen to a network interface, `any` for all. May be repeated: several are one stream.
    #[arg(short, long, value_name = "IF", action = clap::ArgAction::Append)]
    pub interface: Vec<String>,

    /// Read the expression from a file.
    #[arg(short = 'F', value_name = "FILE")]
    pub expression_file: Option<PathBuf>,

    /// A number: stop after so many packets that match. Else the path of a configuration, as --config.
    #[arg(short = 'c', value_name = "N|FILE")]
    pub count_or_config: Option<String>,

    /// Take subscriptions, charts and outputs from a configuration file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Bytes of each packet that are looked at; 0 for all.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub snaplen: u32,

    /// Write the packets that match: pcapng, or classic pcap where the name ends in .pcap; .gz and .zst by
    /// name; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<String>,

    /// Begin a new file of -w every so many seconds; strftime(3) sequences in its name are filled in.
    #[arg(short = 'G', value_name = "SECONDS", requires = "write")]
    pub rotate_seconds: Option<u64>,

    /// Begin a new file of -w before it is longer than so many million bytes.
    #[arg(short = 'C', value_name = "MB", requires = "write")]
    pub rotate_size: Option<u64>,

    /// With -C, overwrite from the first after so many files; with -G, end after so many.
    #[arg(short = 'W', value_name = "N", requires = "write")]
    pub rotate_files: Option<u32>,

    /// Write each packet of -w as soon as it is caught.
    #[arg(short = 'U', requires = "write")]
    pub unbuffered: bool,

    /// Write the packets of flows that no protocol knows, the first ones too, into a file of their own, named as
    /// that of -w.
    #[arg(long, alias = "unparsed", value_name = "FILE")]
    pub unidentified: Option<String>,

    /// Write the files that are seen in streams into a directory, each under its SHA-256 or else its name in the
    /// records of the logs, which say where it is.
    #[arg(long, value_name = "DIR", conflicts_with = "anonymisation")]
    pub files: Option<PathBuf>,

    /// Of each file no more than so many bytes, as 64M or 1G.
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "64M", value_parser = bytes)]
    pub files_each: u64,

    /// No more than so many bytes of all files.
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "4G", value_parser = bytes)]
    pub files_total: u64,

    /// No more than so many files.
    #[arg(long, value_name = "N", requires = "files", default_value_t = 100_000)]
    pub files_count: u64,

    /// Checksums of files, separated by commas: md5, sha1, sha256; or none, which is what is done when nothing is said,
    /// but for sha256 with --files.
    #[arg(long, value_name = "HASH,...", value_parser = hashes)]
    pub hash: Option<Hashes>,

    /// Bytes that compressed content of a flow may grow to whatever comes in, as 64K or 1M (1M when nothing is said).
    /// Content that grows beyond that and beyond --inflate-ratio is not looked at, and is an anomaly.
    #[arg(long, value_name = "SIZE", value_parser = inflated)]
    pub inflate: Option<u32>,

    /// Bytes that compressed content of a flow may grow to for each byte that comes in, 1 to 2000, besides --inflate (100
    /// when nothing is said).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub inflate_ratio: Option<u32>,

    /// Write logs into a directory.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Which logs, separated by commas: zeek, zeek-json, eve, csv, ndjson, mon, mon-paper, text. Behind a colon, which
    /// of a log's rows, as eve:flow+http+dns; without any but flow, what is said in flows is not read.
    #[arg(long, value_name = "LOG,...", value_delimiter = ',', requires = "output")]
    pub log: Vec<String>,

    /// Begin new files of the logs every so often, as 30s, 10m, 1h or 1d: those that are finished get the time into their
    /// names. Where the interval ends; files by packet time, links by the clock. SIGHUP does the same at once.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub log_rotate: Option<u64>,

    /// Begin a new file of a log after so many bytes, as 100M.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub log_rotate_size: Option<u64>,

    /// Compress finished files of the logs with zstd.
    #[arg(long)]
    pub log_zstd: bool,

    /// Mode of the files that are written, in octal (600 when nothing is given): 640 lets the group read them. Whoever may
    /// read the files may enter the folders.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// How much of flows and records a store keeps, as `30d,10G,free=1G`: age, size, and what stays free on the disk.
    #[arg(long, value_name = "KEEP", value_parser = keep)]
    pub keep: Option<Limits>,

    /// Measure each flow, for the logs csv and text: round trips, jitter, loss, hops, windows, throughput, as a
    /// record `stream`.
    #[arg(long, requires = "output")]
    pub measure: bool,

    /// Measure each flow, and tell every so many seconds what it had in them, as a record `stream_sample`.
    #[arg(long, value_name = "SECONDS", requires = "output", value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: Option<u32>,

    /// Report every so often, 1s to 1h (30s when nothing is said). Files by packet time, links by the clock.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<u64>,

    /// The summary's facts as NDJSON, one object a line.
    #[arg(short, long)]
    pub json: bool,

    /// Do not name ports.
    #[arg(short, long)]
    pub numeric: bool,

    /// Flush standard output after each line.
    #[arg(short = 'l')]
    pub line_buffered: bool,

    /// The user that Weir becomes when it listens, without any rights (weir when there is such a user, else the one who
    /// called sudo). root stays root, without rights.
    #[arg(short = 'Z', long, value_name = "NAME")]
    pub user: Option<String>,

    /// Do not make the interface promiscuous.
    #[arg(short = 'p', long)]
    pub no_promiscuous: bool,

    /// List the interfaces.
    #[arg(short = 'D', long)]
    pub list_interfaces: bool,

    /// Only what was asked for: no progress, no hints.
    #[arg(short, long)]
    pub quiet: bool,

    /// More: the ledger and what each file held.
    #[arg(short, long)]
    pub verbose: bool,

    /// Worker threads; 0 for as many as there are cores.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,

    /// All memory that tables may take, as 512M or 2G (512M when nothing is said): held under any flood.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<usize>,

    #[command(flatten)]
    pub anon: AnonRun,

    /// Exit with 5 when more packets than this were lost.
    #[arg(long, value_name = "PERCENT")]
    pub max_loss: Option<f64>,

    /// Expressions mean exactly what they mean to libpcap: they do not look through VLAN tags, MPLS labels
    /// and PPPoE.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Expressions look at the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,

    /// Verify checksums: with `on` a packet with a wrong one counts for nothing in its flow, `auto` only says
    /// what it saw.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Checksum::Auto)]
    pub checksum: Checksum,

    /// After a corrupt record, look for the next one.
    #[arg(long)]
    pub recover: bool,

    /// Times in UTC (the default).
    #[arg(long, conflicts_with = "tz")]
    pub utc: bool,

    /// Times in this zone, as Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
}

/// The port of the pages when nothing is said.
pub const PORT: u16 = 8470;

/// Analyse a capture, print its summary, and serve pages about it until Ctrl-C.
///
/// Everything that a summary can be asked for can be asked here too. The address is the last line; no browser is
/// started. The exit code is that of the analysis.
#[derive(Debug, Args)]
pub struct Open {
    #[command(flatten)]
    pub run: Run,

    #[command(flatten)]
    pub pages: Pages,

    /// Print the summary and the address, and end: for where nobody can press Ctrl-C.
    #[arg(long, help_heading = "Pages")]
    pub no_wait: bool,
}

/// Where pages are, and what they show is kept.
#[derive(Debug, Args)]
pub struct Pages {
    /// The port of the pages [default: 8470; `weir open` takes the next one where that is taken].
    #[arg(long, value_name = "N", help_heading = "Pages", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// Keep what is found in a folder; without one it is in a temporary folder, and gone at the end.
    #[arg(long, value_name = "DIR", help_heading = "Pages")]
    pub store: Option<PathBuf>,
}

/// Listen to a link, store what is found, and serve pages about it.
///
/// Everything that a live run can be asked for can be asked here too. Without interfaces only what is stored is
/// served. On loopback every user of the machine may look, and the user who started it may download packets; elsewhere
/// there must be TLS and users or tokens, which have rights: look, packets (download packets, see payload) and write
/// (apply a configuration).
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub run: Run,

    #[command(flatten)]
    pub pages: Pages,

    /// The address of the pages, without which they are on 127.0.0.1 and ::1. Any but these needs --tls-cert and
    /// --tls-key, and --user-file or --token-file.
    #[arg(long, value_name = "ADDRESS", help_heading = "Pages")]
    pub listen: Option<IpAddr>,

    /// The certificate of the pages, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Pages")]
    pub tls_cert: Option<PathBuf>,

    /// Its key, PEM.
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

    /// Read a password from standard input, print its line for --user-file, and end.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "weir", help_heading = "Pages")]
    pub hash_password: Option<String>,
}

/// Anonymisation of a run.
#[derive(Debug, Args)]
pub struct AnonRun {
    /// Map addresses and put pseudonyms in the place of names in everything that comes out: logs, summary, live
    /// view and -w.
    #[arg(
        id = "anonymisation",
        long = "anon",
        value_name = "MODE",
        value_enum,
        help_heading = "Anonymisation"
    )]
    pub mode: Option<AnonMode>,

    #[command(flatten)]
    pub how: AnonHow,
}

/// How addresses are mapped.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AnonMode {
    /// All are 0.0.0.0 or ::.
    Nullip,
    /// Prefix-preserving and random, for this run alone.
    Table,
    /// Prefix-preserving by a key: Crypto-PAn, the same in every run and at every site that has the key.
    Cryptopan,
    /// Prefix-preserving by a key: ipcrypt-pfx of draft-denis-ipcrypt.
    Ipcrypt,
}

/// What becomes of payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum AnonPayload {
    /// Packets end behind the transport header, but for messages of DNS, which are rewritten.
    Cut,
    /// Bytes are 0; messages of DNS are rewritten.
    Blank,
    /// It stays, but for messages of DNS and lines of text that are known: whoever is named elsewhere can be found.
    Keep,
}

/// What both a run and `weir anon` may say of anonymisation.
#[derive(Debug, Args)]
pub struct AnonHow {
    /// The key of cryptopan and ipcrypt: a file of 32 bytes, or of 64 hexadecimal digits.
    #[arg(long, value_name = "FILE", help_heading = "Anonymisation")]
    pub key_file: Option<PathBuf>,

    /// What becomes of payload in packets that are written [default: blank].
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Anonymisation")]
    pub payload: Option<AnonPayload>,

    /// Move all times by so many seconds.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, help_heading = "Anonymisation")]
    pub shift: Option<f64>,

    /// What becomes of values, as `name=keep,content=drop`: of name, address, url, user, mail, secret, content and mark
    /// each keep, pseudonym, drop or blank. Secret and content are dropped when nothing is said, the others get
    /// pseudonyms.
    #[arg(long, value_name = "CLASS=WHAT,...", help_heading = "Anonymisation")]
    pub anon_policy: Option<String>,

    /// What becomes of a single field, as MAPI's ANONYMIZE says it: PROTOCOL,FIELD,FUNCTION and what the function is given,
    /// such as IP,TTL,ZERO or HTTP,HOST,HASHED,SHA_2,STRIP_REST; may be repeated.
    #[arg(long, value_name = "RULE", help_heading = "Anonymisation")]
    pub anon_field: Vec<String>,

    /// Keep the half of hardware addresses that tells the vendor.
    #[arg(long, help_heading = "Anonymisation")]
    pub keep_vendors: bool,

    /// Put pseudonyms for top-level domains too.
    #[arg(long, help_heading = "Anonymisation")]
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

/// Write a capture in which nobody can be found.
///
/// Addresses are mapped wherever they stand in headers, messages of DNS are rewritten, hardware addresses get pseudonyms,
/// and payload is blanked unless it is to be kept. Checksums that were right are right; wrong ones stay wrong.
#[derive(Debug, Args)]
pub struct Anon {
    /// The capture, `-` for standard input.
    #[arg(value_name = "IN")]
    pub input: PathBuf,

    /// Where it goes: pcapng, or classic pcap where the name ends in .pcap; .gz and .zst by name; `-` for standard
    /// output.
    #[arg(value_name = "OUT", required_unless_present = "audit_path")]
    pub output: Option<PathBuf>,

    /// Mode of the files that are written, in octal (600 when nothing is given): 640 lets the group read them. Whoever may
    /// read the files may enter the folders.
    #[arg(long = "file-mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// How addresses are mapped.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AnonMode::Cryptopan, help_heading = "Anonymisation")]
    pub mode: AnonMode,

    #[command(flatten)]
    pub how: AnonHow,

    /// Look for every address and name of the capture in what was written; exit with 4 where one is found.
    #[arg(long)]
    pub audit: bool,

    /// Look for every address, name, user and mail address of the capture in these files and folders, such as logs of it,
    /// gzip and zstd among them; may be repeated. Needs no OUT.
    #[arg(long, value_name = "PATH")]
    pub audit_path: Vec<PathBuf>,

    /// No report.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What is done about checksums.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Checksum {
    /// Look at a part of them, and say what was seen.
    Auto,
    /// Verify all.
    On,
    /// Look at none.
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

    /// A file with an expression on each line; empty lines and lines that begin with # are passed over.
    #[arg(short = 'F', value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// One JSON object per row.
    #[arg(short, long)]
    pub json: bool,

    /// Expressions mean exactly what they mean to libpcap.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Expressions look at the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,

    /// Bytes of each packet that are looked at; 0 for all.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub snaplen: u32,

    /// Worker threads; 0 for as many as there are cores.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub workers: usize,
}

/// Write each direction of each TCP stream into a file.
///
/// Files are named as tcpflow names them: who says it, then to whom. Bytes that are missing are holes in the file.
#[derive(Debug, Args)]
pub struct Streams {
    /// Capture files or directories, then a pcap-filter(7) expression.
    #[arg(value_name = "FILE|EXPR", num_args = 1.., required = true)]
    pub words: Vec<String>,

    /// The expression, where its first word is also the name of a file.
    #[arg(last = true, value_name = "EXPR")]
    pub after_dashes: Vec<String>,

    /// The directory for the files; `-` for no files: what all streams say goes to standard output, in the order in which
    /// it is said.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// Mode of the files that are written, in octal (600 when nothing is given): 640 lets the group read them. Whoever may
    /// read the files may enter the folders.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Write both directions of a stream into one file, as they were said.
    #[arg(long)]
    pub both: bool,

    /// Who wins where segments overlap: first, last, linux, windows or bsd.
    #[arg(long, value_name = "POLICY", default_value = "linux")]
    pub overlap: String,

    /// Leave urgent bytes out, as hosts do that do not ask for them in line.
    #[arg(long)]
    pub urgent_apart: bool,

    /// Leave out segments with a wrong checksum, as hosts do.
    #[arg(long)]
    pub verify_checksums: bool,

    /// Expressions mean exactly what they mean to libpcap.
    #[arg(long)]
    pub strict_bpf: bool,

    /// Expressions look at the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,

    /// All memory that grows with traffic, as 512M or 2G.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub memory: usize,

    /// Print nothing but errors.
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

/// Say how an expression is evaluated and what it costs.
///
/// An expression that asks only for what all packets of a flow have in common is decided once per flow; what it
/// asks of each packet is compared for many packets and expressions together; what is neither is left to a program
/// of its own. What it costs is measured.
#[derive(Debug, Args)]
pub struct Explain {
    /// A pcap-filter(7) expression.
    #[arg(value_name = "EXPR")]
    pub expression: String,

    /// A capture file on whose packets the cost is measured, `-` for standard input; without one, packets made in
    /// memory.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// A configuration whose expressions it joins: what it shares with them, and what all cost together.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// One JSON object.
    #[arg(short, long)]
    pub json: bool,

    /// The expression means exactly what it means to libpcap.
    #[arg(long)]
    pub strict_bpf: bool,

    /// The expression looks at the innermost packet of a tunnel.
    #[arg(long)]
    pub inner: bool,
}

/// Write a page about captures, and the model of their traffic.
///
/// The page is one file that needs no other: summary, traffic over time, protocols, talkers, streams, and the
/// distributions of sizes and times by protocol and by who speaks with whom, with what fits them.
#[derive(Debug, Args)]
pub struct Report {
    /// Capture files or directories, `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Mode of the files that are written, in octal (600 when nothing is given): 640 lets the group read them. Whoever may
    /// read the files may enter the folders.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// Where the page goes.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,

    /// Only packets that match.
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

/// Play a model of traffic as a capture.
///
/// Flows, requests, responses and the times between them are drawn from the fits of the model; the same model and
/// seed give the same capture.
#[derive(Debug, Args)]
pub struct Generate {
    /// A model, as `weir report --model` writes it.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Where packets go: pcapng, or classic pcap where the name ends in .pcap; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Mode of the files that are written, in octal (600 when nothing is given): 640 lets the group read them. Whoever may
    /// read the files may enter the folders.
    #[arg(long = "mode", value_name = "MODE")]
    pub file_mode: Option<weir_files::Mode>,

    /// How long the capture is.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u32,

    /// Another seed gives other traffic of the same kind.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// Check or explain a configuration, or translate one of Ourmon's.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Say whether a configuration is good, and if not everything that is wrong with it.
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
    const WANTED: &str = "a time from 1s to 1h is wanted, as 30s or 5m";
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
    const WANTED: &str = "a time is wanted, as 30s, 10m, 1h or 1d";
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
            _ => return Err("md5, sha1 and sha256 are wanted, separated by commas, or none".to_owned()),
        }
    }
    Ok(hashes)
}

/// What --keep says of flows and records.
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
    /// What is said here instead of what was said elsewhere.
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
    const WANTED: &str = "an age, a size and a free size are wanted, separated by commas, as 30d,10G,free=1G";
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
    const WANTED: &str = "a size is wanted, as 64K, 512M or 2G";
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
    number.ok_or_else(|| "a size of at least 16M is wanted, as 512M or 2G".to_owned())
}

/// Bytes that compressed content may grow to.
pub fn inflated(text: &str) -> Result<u32, String> {
    let number = bytes(text).ok().filter(|bytes| *bytes <= 1 << 30);
    let number = number.and_then(|bytes| u32::try_from(bytes).ok());
    number.ok_or_else(|| "a size of at most 1G is wanted, as 64K or 1M".to_owned())
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
