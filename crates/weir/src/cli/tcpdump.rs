//! Options of tcpdump(1) that Weir does not have: each names what answers its question here.

use clap::{ArgAction, Args};

/// Options that are refused with a hint. They may be repeated, as in tcpdump.
#[derive(Debug, Args)]
pub struct TcpdumpOptions {
    /// tcpdump: print payload as text.
    #[arg(short = 'A', action = ArgAction::Count, hide = true)]
    ascii: u8,
    /// tcpdump: print packets in hexadecimal and as text.
    #[arg(short = 'X', action = ArgAction::Count, hide = true)]
    hex_and_ascii: u8,
    /// tcpdump: print packets in hexadecimal.
    #[arg(short = 'x', action = ArgAction::Count, hide = true)]
    hex: u8,
    /// tcpdump: print link headers.
    #[arg(short = 'e', action = ArgAction::Count, hide = true)]
    link_header: u8,
    /// tcpdump: format of the times in lines of packets.
    #[arg(short = 't', action = ArgAction::Count, hide = true)]
    times: u8,
    /// tcpdump: list link types.
    #[arg(short = 'L', action = ArgAction::Count, hide = true)]
    list_link_types: u8,
    /// tcpdump: print the compiled expression.
    #[arg(short = 'd', action = ArgAction::Count, hide = true)]
    compiled: u8,
}

impl TcpdumpOptions {
    /// What to use in place of the first given option.
    pub fn refused(&self) -> Option<&'static str> {
        let hints = [
            (
                self.ascii.max(self.hex_and_ascii).max(self.hex),
                "-A, -X and -x print payload in tcpdump: `weir talk x.pcap EXPR` prints what the two sides of a flow sent; \
                 packets go to tcpdump by `weir x.pcap EXPR -w - | tcpdump -r - -X`",
            ),
            (
                self.link_header,
                "-e prints link headers in tcpdump: `weir x.pcap EXPR -w - | tcpdump -r - -e`; expressions of Weir go to \
                 `weir count x.pcap -e EXPR`",
            ),
            (
                self.times,
                "-t sets the time format of packet lines in tcpdump, and Weir prints no lines of packets: --tz ZONE sets the \
                 zone of its times, and logs have times of their formats",
            ),
            (
                self.list_link_types,
                "-L lists link types in tcpdump: `weir -D` lists interfaces, and a summary begins with the link types of a \
                 capture",
            ),
            (
                self.compiled,
                "-d prints a compiled expression in tcpdump: `weir explain EXPR` shows how an expression is evaluated",
            ),
        ];
        hints.into_iter().find(|(given, _)| *given > 0).map(|(_, hint)| hint)
    }
}
