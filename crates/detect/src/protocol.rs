//! The protocols that a rule's header may name.

use crate::fault::Fault;
use crate::nearest::hint;
use weir_proto::PROTOCOLS;

/// What of a flow or packet a rule's protocol selects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Selects {
    /// Every packet, also one that is not IP (`pkthdr`).
    Everything,
    /// IP of these versions: 4, 6, or both.
    Ip {
        /// IPv4.
        v4: bool,
        /// IPv6.
        v6: bool,
    },
    /// TCP: its packets, its streams, or both.
    Tcp {
        /// Packets are looked at.
        packets: bool,
        /// Streams are looked at.
        streams: bool,
    },
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP of these versions.
    Icmp {
        /// ICMP (RFC 792).
        v4: bool,
        /// ICMPv6 (RFC 4443).
        v6: bool,
    },
    /// Flows of an application protocol: its name in Weir.
    Application(&'static str),
}

/// A protocol that a rule's header may name.
#[derive(Debug)]
pub struct RuleProtocol {
    /// Its name in rules.
    pub name: &'static str,
    /// What it selects.
    pub selects: Selects,
}

impl Eq for RuleProtocol {}

impl PartialEq for RuleProtocol {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn of(name: &'static str, selects: Selects) -> RuleProtocol {
    RuleProtocol { name, selects }
}

const fn application(name: &'static str, in_weir: &'static str) -> RuleProtocol {
    RuleProtocol { name, selects: Selects::Application(in_weir) }
}

/// The protocols of rules, by their names. Where Suricata's name is not that of Weir, Weir's follows it.
pub static RULE_PROTOCOLS: &[RuleProtocol] = &[
    of("ip", Selects::Ip { v4: true, v6: true }),
    of("any", Selects::Ip { v4: true, v6: true }),
    of("ipv4", Selects::Ip { v4: true, v6: false }),
    of("ip4", Selects::Ip { v4: true, v6: false }),
    of("ipv6", Selects::Ip { v4: false, v6: true }),
    of("ip6", Selects::Ip { v4: false, v6: true }),
    of("pkthdr", Selects::Everything),
    of("tcp", Selects::Tcp { packets: true, streams: true }),
    of("tcp-pkt", Selects::Tcp { packets: true, streams: false }),
    of("tcp-stream", Selects::Tcp { packets: false, streams: true }),
    of("udp", Selects::Udp),
    of("sctp", Selects::Sctp),
    of("icmp", Selects::Icmp { v4: true, v6: true }),
    of("icmpv4", Selects::Icmp { v4: true, v6: false }),
    of("icmpv6", Selects::Icmp { v4: false, v6: true }),
    application("http", "http"),
    application("http1", "http"),
    application("dns", "dns"),
    application("mdns", "mdns"),
    application("llmnr", "llmnr"),
    application("tls", "tls"),
    application("ssl", "tls"),
    application("smtp", "smtp"),
    application("ftp", "ftp"),
    application("ftp-data", "ftp_data"),
    application("smb", "smb"),
    application("dcerpc", "dce_rpc"),
    application("ssh", "ssh"),
    application("imap", "imap"),
    application("pop3", "pop3"),
    application("irc", "irc"),
    application("ldap", "ldap"),
    application("modbus", "modbus"),
    application("enip", "enip"),
    application("dnp3", "dnp3"),
    application("nfs", "nfs"),
    application("ntp", "ntp"),
    application("dhcp", "dhcp"),
    application("snmp", "snmp"),
    application("sip", "sip"),
    application("rdp", "rdp"),
    application("rfb", "rfb"),
    application("mqtt", "mqtt"),
    application("telnet", "telnet"),
    application("tftp", "tftp"),
    application("krb5", "kerberos"),
    application("ike", "ike"),
    application("quic", "quic"),
    application("pgsql", "postgresql"),
    application("websocket", "websocket"),
    application("bittorrent-dht", "bt_dht"),
    application("kerberos", "kerberos"),
    application("postgresql", "postgresql"),
    application("mysql", "mysql"),
    application("radius", "radius"),
    application("socks", "socks"),
    application("rtp", "rtp"),
    application("stun", "stun"),
    application("syslog", "syslog"),
    application("xmpp", "xmpp"),
    application("dtls", "dtls"),
    application("nbns", "nbns"),
    application("dhcpv6", "dhcpv6"),
];

/// Protocols of Suricata that no parser of Weir reads for rules.
const NOT_READ: [&str; 7] = ["http2", "doh2", "template", "ethernet", "arp", "sdp", "frame"];

/// The protocol of a name at a byte of a rule.
pub(crate) fn named(name: &str, at: usize) -> Result<&'static RuleProtocol, Fault> {
    if let Some(known) = RULE_PROTOCOLS.iter().find(|protocol| protocol.name == name) {
        return Ok(known);
    }
    if NOT_READ.contains(&name) {
        return Err(Fault::not_supported(at, format!("rules of `{name}` are not supported")));
    }
    let hint = hint(name, RULE_PROTOCOLS.iter().map(|protocol| protocol.name));
    Err(Fault::wrong(at, format!("`{name}` is not a protocol{hint}")))
}

/// Whether Weir reads a protocol.
pub fn is_read(in_weir: &str) -> bool {
    PROTOCOLS.iter().any(|protocol| protocol.name == in_weir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_weir_reads_each_application() {
        for (number, protocol) in RULE_PROTOCOLS.iter().enumerate() {
            assert!(RULE_PROTOCOLS.iter().skip(number + 1).all(|other| other.name != protocol.name));
            if let Selects::Application(name) = protocol.selects {
                assert!(is_read(name), "{name}");
            }
        }
    }

    #[test]
    fn what_is_not_read_is_refused_by_name() {
        assert_eq!(named("http2", 6).unwrap_err().kind, crate::FaultKind::NotSupported);
        assert!(named("htpp", 6).unwrap_err().reason.contains("`http` is one"));
    }
}
