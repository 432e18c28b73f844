//! Packet files: `-w` and --unidentified.

use super::values::named;
use clap::{ArgAction, Args};

/// Files of packets, and how they follow each other.
#[derive(Debug, Args)]
pub struct PacketOptions {
    /// Write matching packets: pcapng, or classic pcap if the name ends in .pcap; compressed if it ends in .gz or .zst;
    /// `-` for standard output. With an expression, those that it selects, of flows and records too (-w dns.pcapng='port 53');
    /// this may be repeated.
    #[arg(short, long, value_name = "FILE[=EXPR]", action = ArgAction::Append, help_heading = "Packets")]
    pub write: Vec<String>,

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

    /// Write the packets of unidentified flows, including their first ones, to a separate file. Formats as for -w.
    #[arg(long, alias = "unparsed", value_name = "FILE", help_heading = "Packets", hide_short_help = true)]
    pub unidentified: Option<String>,
}

impl PacketOptions {
    /// The files of all matching packets.
    pub fn whole(&self) -> impl Iterator<Item = &str> {
        self.write
            .iter()
            .map(|text| named(text))
            .filter(|(_, expression)| expression.is_none())
            .map(|(name, _)| name)
    }

    /// The files of the packets that an expression selects, each with its expression.
    pub fn selected(&self) -> impl Iterator<Item = (&str, &str)> {
        self.write.iter().filter_map(|text| {
            let (name, expression) = named(text);
            Some((name, expression?))
        })
    }
}
