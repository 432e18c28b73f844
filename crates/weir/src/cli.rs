//! The command line: help, manual page and completions are made from these definitions.

mod anon;
mod checksum;
mod expressions;
mod extraction;
mod logs;
mod model;
mod packets;
mod pages;
mod rules;
mod run;
mod store;
mod streams;
mod tcpdump;
mod times;
mod values;

pub use anon::{Anon, AnonHow, AnonMode, AnonPayload, AnonRun};
pub use checksum::Checksum;
pub use expressions::{Count, Explain};
pub use logs::LogOptions;
pub use model::{Generate, HostPeriod, Report};
pub use packets::PacketOptions;
pub use pages::{Open, PORT, Pages, Serve};
pub use rules::{RuleCaptures, RuleFiles, RuleOptions, RuleUpdate, RulesCommand};
pub use run::RunOptions;
pub use store::{Query, StoreCommand};
pub use streams::{Streams, Talk};
pub use times::{TimeOptions, ZonedTimeOptions};
pub use values::{bytes, inflated, period};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Reads the packets of a link once and answers every question about them.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    about,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "`weir --help` shows all options and examples, `weir help COMMAND` the options of a command.",
    after_long_help = LONG_NOTES,
)]
pub struct Cli {
    /// The command; without one, a summary is printed.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunOptions,
}

impl Cli {
    /// The mode of the files that the command writes.
    pub fn file_mode(&self) -> weir_files::Mode {
        let given = match &self.command {
            None => self.run.logs.file_mode,
            Some(Command::Open(open)) => open.run.logs.file_mode,
            Some(Command::Serve(serve)) => serve.run.logs.file_mode,
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

/// A macro, because `concat!` accepts only literals.
macro_rules! examples {
    () => {
        "\
Examples:
  weir x.pcap                              a summary of a capture file
  weir x.pcap 'tcp port 443'               a summary of matching packets
  weir -i eth0                             live statistics; on a terminal a full-screen view
  weir open x.pcap                         the summary, then its pages until Ctrl-C
  weir serve -i eth0                       pages of a link: http://127.0.0.1:8470/
  weir x.pcap -o logs --log zeek,eve       logs into a directory
  weir x.pcap 'host 10.0.0.1' -w y.pcapng  matching packets into a file
  weir x.pcap --since 10s                  the last ten seconds of a capture
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

/// The command; without one, a summary is printed.
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
    /// Print what the two sides of each flow said (Wireshark's Follow Stream) as text.
    Talk(Talk),
    /// Write a report about captures as one HTML page, and a model of their traffic; or print one about hosts from a store.
    Report(Box<Report>),
    /// Generate a capture from a model of traffic.
    Generate(Generate),
    /// Query a store, e.g. `top client by bytes since 24h where dst net 10.0.0.0/8`.
    Query(Query),
    /// Show the state of a store, or list or export its series.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Analyse a capture, print its summary, and serve its pages until Ctrl-C.
    Open(Box<Open>),
    /// Monitor a link, store the results, and serve its pages.
    Serve(Box<Serve>),
    /// Check rules of Suricata and Snort, count what they ask for, or list their keywords.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Check, explain or apply a configuration, or translate one of Ourmon's.
    #[command(subcommand)]
    Config(Config),
    /// Print shell completions.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page in troff: of the program, of tables and fields, or of functions.
    #[command(hide = true)]
    Man {
        /// The page.
        #[arg(value_enum, default_value_t)]
        page: ManPage,
    },
    /// Open rings for a run that has dropped its privileges.
    #[command(hide = true)]
    RingHelper(RingHelper),
    /// Send events for a run that has dropped its privileges.
    #[command(hide = true)]
    EventSender(EventSender),
}

/// A manual page.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ManPage {
    /// weir(1): commands and options.
    #[default]
    Weir,
    /// weir-fields(7): tables of records and their fields.
    Fields,
    /// weir-functions(7): functions of subscriptions and their results.
    Functions,
}

/// Options of the helper process of a run.
#[derive(Debug, Args)]
pub struct RingHelper {
    /// Numeric identifier of its user.
    #[arg(long, requires = "gid")]
    pub uid: Option<u32>,
    /// Numeric identifier of its group.
    #[arg(long)]
    pub gid: Option<u32>,
    /// Rings on each interface.
    #[arg(long)]
    pub workers: usize,
    /// Memory of each ring, in bytes.
    #[arg(long)]
    pub ring_bytes: usize,
    /// Milliseconds after which a block is delivered that is not full.
    #[arg(long)]
    pub block_timeout: u32,
    /// Maximum number of bytes to keep of a packet; 0 means all.
    #[arg(long)]
    pub snaplen: u32,
    /// Do not make the interfaces promiscuous.
    #[arg(long)]
    pub no_promiscuous: bool,
    /// The interfaces.
    #[arg(last = true, required = true)]
    pub interfaces: Vec<String>,
}

/// Options of a process that sends events. What else it needs arrives on its standard input.
#[derive(Debug, Args)]
pub struct EventSender {
    /// Numeric identifier of its user.
    #[arg(long, requires = "gid")]
    pub uid: Option<u32>,
    /// Numeric identifier of its group.
    #[arg(long)]
    pub gid: Option<u32>,
}

/// Check, explain or apply a configuration, or translate one of Ourmon's.
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
    /// Apply a configuration to a running program, as its page Configuration does.
    Apply(Apply),
    /// Translate an ourmon.conf.
    FromOurmon {
        /// Ourmon's configuration.
        file: PathBuf,
    },
}

/// Apply a configuration to a running program.
#[derive(Debug, Args)]
pub struct Apply {
    /// The configuration. The program writes it into its own file.
    pub file: PathBuf,
    /// Address of the program's pages [default: the address in the file's table `server`, else http://localhost:8470].
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// File with a token that has the right `write`. Without users and tokens, the user who runs the program needs none.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The program's certificate (PEM), or the certificate of its authority [default: `tls_cert` of the file].
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
