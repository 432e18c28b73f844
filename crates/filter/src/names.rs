//! Names for numbers in expressions: the registries, as far as pcap-filter(7) and common use need them. They are
//! embedded, so that an expression has one meaning on every machine.

use crate::bpf::op;

/// EtherTypes (<https://www.iana.org/assignments/ieee-802-numbers>).
pub(crate) mod ethertype {
    pub const NS: u16 = 0x0600;
    pub const IP: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const MOPDL: u16 = 0x6001;
    pub const MOPRC: u16 = 0x6002;
    pub const DECNET: u16 = 0x6003;
    pub const LAT: u16 = 0x6004;
    pub const SCA: u16 = 0x6007;
    pub const TRANSPARENT_BRIDGING: u16 = 0x6558;
    pub const RARP: u16 = 0x8035;
    pub const ATALK: u16 = 0x809b;
    pub const AARP: u16 = 0x80f3;
    pub const VLAN: u16 = 0x8100;
    pub const IPX: u16 = 0x8137;
    pub const IPV6: u16 = 0x86dd;
    pub const SLOW: u16 = 0x8809;
    pub const MPLS: u16 = 0x8847;
    pub const MPLS_MULTICAST: u16 = 0x8848;
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    pub const PPPOE_SESSION: u16 = 0x8864;
    pub const PROVIDER_BRIDGE: u16 = 0x88a8;
    pub const LLDP: u16 = 0x88cc;
    pub const LOOPBACK: u16 = 0x9000;
    pub const QINQ_OLD: u16 = 0x9100;
    pub const QINQ_OLD_2: u16 = 0x9200;
    pub const QINQ_OLD_3: u16 = 0x9300;
}

/// IEEE 802.2 service access points.
pub(crate) mod sap {
    pub const IP: u32 = 0x06;
    pub const SPANNING_TREE: u32 = 0x42;
    pub const SNAP: u32 = 0xaa;
    pub const IPX: u32 = 0xe0;
    pub const NETBEUI: u32 = 0xf0;
    pub const ISO: u32 = 0xfe;
}

/// IP protocol numbers that the code generator tests.
pub(crate) mod ip_protocol {
    pub const HOP_OPTIONS: u32 = 0;
    pub const ICMP: u32 = 1;
    pub const IGMP: u32 = 2;
    pub const TCP: u32 = 6;
    pub const IGRP: u32 = 9;
    pub const UDP: u32 = 17;
    pub const ROUTING: u32 = 43;
    pub const FRAGMENT: u32 = 44;
    pub const ESP: u32 = 50;
    pub const AH: u32 = 51;
    pub const ICMPV6: u32 = 58;
    pub const NONE: u32 = 59;
    pub const DESTINATION_OPTIONS: u32 = 60;
    pub const PIM: u32 = 103;
    pub const VRRP: u32 = 112;
    pub const SCTP: u32 = 132;
}

/// OSI network layer protocol identifiers (ISO/IEC TR 9577).
pub(crate) mod nlpid {
    pub const CLNP: u32 = 0x81;
    pub const ESIS: u32 = 0x82;
    pub const ISIS: u32 = 0x83;
}

/// The protocols that qualify a primitive or are a primitive.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(missing_docs)]
pub enum Protocol {
    Link,
    Ip,
    Arp,
    Rarp,
    Sctp,
    Tcp,
    Udp,
    Icmp,
    Igmp,
    Igrp,
    Pim,
    Vrrp,
    Carp,
    Radio,
    Ip6,
    Icmp6,
    Ah,
    Esp,
    Atalk,
    Aarp,
    Decnet,
    Lat,
    Sca,
    Moprc,
    Mopdl,
    Iso,
    Esis,
    Isis,
    L1,
    L2,
    Iih,
    Lsp,
    Snp,
    Csnp,
    Psnp,
    Clnp,
    Stp,
    Ipx,
    Netbeui,
}

/// Words for protocols. Messages use the first word of each protocol.
pub(crate) const PROTOCOLS: &[(&str, Protocol)] = &[
    ("link", Protocol::Link),
    ("ether", Protocol::Link),
    ("ppp", Protocol::Link),
    ("slip", Protocol::Link),
    ("fddi", Protocol::Link),
    ("tr", Protocol::Link),
    ("wlan", Protocol::Link),
    ("ip", Protocol::Ip),
    ("arp", Protocol::Arp),
    ("rarp", Protocol::Rarp),
    ("sctp", Protocol::Sctp),
    ("tcp", Protocol::Tcp),
    ("udp", Protocol::Udp),
    ("icmp", Protocol::Icmp),
    ("igmp", Protocol::Igmp),
    ("igrp", Protocol::Igrp),
    ("pim", Protocol::Pim),
    ("vrrp", Protocol::Vrrp),
    ("carp", Protocol::Carp),
    ("radio", Protocol::Radio),
    ("ip6", Protocol::Ip6),
    ("icmp6", Protocol::Icmp6),
    ("ah", Protocol::Ah),
    ("esp", Protocol::Esp),
    ("atalk", Protocol::Atalk),
    ("aarp", Protocol::Aarp),
    ("decnet", Protocol::Decnet),
    ("lat", Protocol::Lat),
    ("sca", Protocol::Sca),
    ("moprc", Protocol::Moprc),
    ("mopdl", Protocol::Mopdl),
    ("iso", Protocol::Iso),
    ("esis", Protocol::Esis),
    ("es-is", Protocol::Esis),
    ("isis", Protocol::Isis),
    ("is-is", Protocol::Isis),
    ("l1", Protocol::L1),
    ("l2", Protocol::L2),
    ("iih", Protocol::Iih),
    ("lsp", Protocol::Lsp),
    ("snp", Protocol::Snp),
    ("csnp", Protocol::Csnp),
    ("psnp", Protocol::Psnp),
    ("clnp", Protocol::Clnp),
    ("stp", Protocol::Stp),
    ("ipx", Protocol::Ipx),
    ("netbeui", Protocol::Netbeui),
];

impl Protocol {
    /// The word for the protocol.
    pub fn name(self) -> &'static str {
        PROTOCOLS.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }
}

/// Words for numbers: offsets, types and flags.
pub(crate) const CONSTANTS: &[(&str, u32)] = &[
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141),
    ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143),
    ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145),
    ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147),
    ("icmp6-certpathsolicit", 148),
    ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151),
    ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153),
    ("tcpflags", 13),
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
];

/// Frame types of IEEE 802.11, as bits of the first byte of frame control.
pub(crate) const WLAN_TYPES: &[(&str, u32)] =
    &[("data", 0x08), ("mgt", 0x00), ("management", 0x00), ("ctl", 0x04), ("control", 0x04)];

/// Subtypes of management, control and data frames, each with its type.
pub(crate) const WLAN_SUBTYPES: &[(u32, &[(&str, u32)])] = &[
    (
        0x00,
        &[
            ("assocreq", 0x00),
            ("assoc-req", 0x00),
            ("assocresp", 0x10),
            ("assoc-resp", 0x10),
            ("reassocreq", 0x20),
            ("reassoc-req", 0x20),
            ("reassocresp", 0x30),
            ("reassoc-resp", 0x30),
            ("probereq", 0x40),
            ("probe-req", 0x40),
            ("proberesp", 0x50),
            ("probe-resp", 0x50),
            ("beacon", 0x80),
            ("atim", 0x90),
            ("disassoc", 0xa0),
            ("disassociation", 0xa0),
            ("auth", 0xb0),
            ("authentication", 0xb0),
            ("deauth", 0xc0),
            ("deauthentication", 0xc0),
        ],
    ),
    (
        0x04,
        &[
            ("bar", 0x80),
            ("ba", 0x90),
            ("ps-poll", 0xa0),
            ("rts", 0xb0),
            ("cts", 0xc0),
            ("ack", 0xd0),
            ("cf-end", 0xe0),
            ("cf-end-ack", 0xf0),
        ],
    ),
    (
        0x08,
        &[
            ("data", 0x00),
            ("data-cf-ack", 0x10),
            ("data-cf-poll", 0x20),
            ("data-cf-ack-poll", 0x30),
            ("null", 0x40),
            ("cf-ack", 0x50),
            ("cf-poll", 0x60),
            ("cf-ack-poll", 0x70),
            ("qos-data", 0x80),
            ("qos-data-cf-ack", 0x90),
            ("qos-data-cf-poll", 0xa0),
            ("qos-data-cf-ack-poll", 0xb0),
            ("qos", 0xc0),
            ("qos-cf-poll", 0xe0),
            ("qos-cf-ack-poll", 0xf0),
        ],
    ),
];

/// Directions of IEEE 802.11 data frames.
pub(crate) const WLAN_DIRECTIONS: &[(&str, u32)] = &[("nods", 0), ("tods", 1), ("fromds", 2), ("dstods", 3)];

/// Control bytes of LLC supervisory frames, and of unnumbered frames.
pub(crate) const LLC_SUPERVISORY: &[(&str, u32)] = &[("rr", 0x01), ("rnr", 0x05), ("rej", 0x09)];
/// See [`LLC_SUPERVISORY`].
pub(crate) const LLC_UNNUMBERED: &[(&str, u32)] = &[
    ("ui", 0x03),
    ("ua", 0x63),
    ("disc", 0x43),
    ("dm", 0x0f),
    ("sabme", 0x6f),
    ("test", 0xe3),
    ("xid", 0xaf),
    ("frmr", 0x87),
];

/// The packet filter's reasons for logging a packet, by their names in pf(4).
pub(crate) const PF_REASONS: &[(&str, u32)] = &[
    ("match", 0),
    ("bad-offset", 1),
    ("fragment", 2),
    ("short", 3),
    ("normalize", 4),
    ("memory", 5),
    ("bad-timestamp", 6),
    ("congestion", 7),
    ("ip-option", 8),
    ("proto-cksum", 9),
    ("state-mismatch", 10),
    ("state-insert", 11),
    ("state-limit", 12),
    ("src-limit", 13),
    ("synproxy", 14),
];

/// The packet filter's actions on a packet.
pub(crate) const PF_ACTIONS: &[(&str, u32)] = &[
    ("pass", 0),
    ("accept", 0),
    ("drop", 1),
    ("block", 1),
    ("scrub", 2),
    ("noscrub", 3),
    ("nat", 4),
    ("nonat", 5),
    ("binat", 6),
    ("nobinat", 7),
    ("rdr", 8),
    ("nordr", 9),
    ("synproxy-drop", 10),
];

/// Names after `ether proto`.
pub(crate) const LINK_PROTOCOLS: &[(&str, u32)] = &[
    ("aarp", ethertype::AARP as u32),
    ("arp", ethertype::ARP as u32),
    ("atalk", ethertype::ATALK as u32),
    ("decnet", ethertype::DECNET as u32),
    ("ip", ethertype::IP as u32),
    ("ip6", ethertype::IPV6 as u32),
    ("lat", ethertype::LAT as u32),
    ("lldp", ethertype::LLDP as u32),
    ("loopback", ethertype::LOOPBACK as u32),
    ("mopdl", ethertype::MOPDL as u32),
    ("moprc", ethertype::MOPRC as u32),
    ("rarp", ethertype::RARP as u32),
    ("sca", ethertype::SCA as u32),
    ("slow", ethertype::SLOW as u32),
    ("iso", sap::ISO),
    ("stp", sap::SPANNING_TREE),
    ("ipx", sap::IPX),
    ("netbeui", sap::NETBEUI),
];

/// Names after `iso proto`.
pub(crate) const ISO_PROTOCOLS: &[(&str, u32)] =
    &[("esis", nlpid::ESIS), ("isis", nlpid::ISIS), ("clnp", nlpid::CLNP)];

/// Names after `ip proto` and `ip6 proto` (<https://www.iana.org/assignments/protocol-numbers>).
pub(crate) const IP_PROTOCOLS: &[(&str, u32)] = &[
    ("ip", 0),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("ipv4", 4),
    ("st", 5),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("udp", 17),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("xtp", 36),
    ("ddp", 37),
    ("idpr-cmtp", 38),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("skip", 57),
    ("ipv6-icmp", 58),
    ("icmp6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("rspf", 73),
    ("vmtp", 81),
    ("eigrp", 88),
    ("ospf", 89),
    ("ax.25", 93),
    ("ipip", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("sctp", 132),
    ("fc", 133),
    ("mobility-header", 135),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("manet", 138),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
    ("ethernet", 143),
];

/// The transport protocols of a service name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Both,
}

/// Names after `port` (<https://www.iana.org/assignments/service-names-port-numbers>), with the aliases of
/// services(5).
pub(crate) const SERVICES: &[(&str, u16, Transport)] = {
    use Transport::{Both, Tcp, Udp};
    &[
        ("tcpmux", 1, Tcp),
        ("echo", 7, Both),
        ("discard", 9, Both),
        ("systat", 11, Tcp),
        ("daytime", 13, Both),
        ("netstat", 15, Tcp),
        ("qotd", 17, Tcp),
        ("chargen", 19, Both),
        ("ftp-data", 20, Tcp),
        ("ftp", 21, Tcp),
        ("ssh", 22, Tcp),
        ("telnet", 23, Tcp),
        ("smtp", 25, Tcp),
        ("mail", 25, Tcp),
        ("time", 37, Both),
        ("whois", 43, Tcp),
        ("tacacs", 49, Both),
        ("domain", 53, Both),
        ("bootps", 67, Udp),
        ("bootpc", 68, Udp),
        ("tftp", 69, Udp),
        ("gopher", 70, Tcp),
        ("finger", 79, Tcp),
        ("http", 80, Tcp),
        ("www", 80, Tcp),
        ("kerberos", 88, Both),
        ("iso-tsap", 102, Tcp),
        ("acr-nema", 104, Tcp),
        ("pop3", 110, Tcp),
        ("pop-3", 110, Tcp),
        ("sunrpc", 111, Both),
        ("auth", 113, Tcp),
        ("ident", 113, Tcp),
        ("nntp", 119, Tcp),
        ("ntp", 123, Udp),
        ("epmap", 135, Tcp),
        ("netbios-ns", 137, Udp),
        ("netbios-dgm", 138, Udp),
        ("netbios-ssn", 139, Tcp),
        ("imap2", 143, Tcp),
        ("imap", 143, Tcp),
        ("snmp", 161, Both),
        ("snmp-trap", 162, Both),
        ("snmptrap", 162, Both),
        ("bgp", 179, Tcp),
        ("irc", 194, Both),
        ("ldap", 389, Both),
        ("svrloc", 427, Both),
        ("https", 443, Both),
        ("microsoft-ds", 445, Both),
        ("kpasswd", 464, Both),
        ("submissions", 465, Tcp),
        ("ssmtp", 465, Tcp),
        ("smtps", 465, Tcp),
        ("saft", 487, Tcp),
        ("isakmp", 500, Udp),
        ("rtsp", 554, Both),
        ("exec", 512, Tcp),
        ("login", 513, Tcp),
        ("who", 513, Udp),
        ("shell", 514, Tcp),
        ("syslog", 514, Udp),
        ("printer", 515, Tcp),
        ("talk", 517, Udp),
        ("ntalk", 518, Udp),
        ("route", 520, Udp),
        ("router", 520, Udp),
        ("dhcpv6-client", 546, Udp),
        ("dhcpv6-server", 547, Udp),
        ("nntps", 563, Tcp),
        ("submission", 587, Tcp),
        ("ipp", 631, Both),
        ("ldaps", 636, Both),
        ("ldp", 646, Both),
        ("domain-s", 853, Both),
        ("rsync", 873, Tcp),
        ("ftps-data", 989, Tcp),
        ("ftps", 990, Tcp),
        ("telnets", 992, Tcp),
        ("imaps", 993, Tcp),
        ("pop3s", 995, Tcp),
        ("socks", 1080, Tcp),
        ("openvpn", 1194, Both),
        ("ms-sql-s", 1433, Tcp),
        ("ms-sql-m", 1434, Udp),
        ("radius", 1812, Both),
        ("radius-acct", 1813, Both),
        ("ssdp", 1900, Udp),
        ("nfs", 2049, Both),
        ("mysql", 3306, Tcp),
        ("rdp", 3389, Tcp),
        ("ms-wbt-server", 3389, Tcp),
        ("stun", 3478, Both),
        ("svn", 3690, Tcp),
        ("vxlan", 4789, Udp),
        ("ipsec-nat-t", 4500, Udp),
        ("sip", 5060, Both),
        ("sip-tls", 5061, Both),
        ("xmpp-client", 5222, Tcp),
        ("xmpp-server", 5269, Tcp),
        ("mdns", 5353, Udp),
        ("llmnr", 5355, Both),
        ("postgresql", 5432, Tcp),
        ("amqp", 5672, Tcp),
        ("amqps", 5671, Tcp),
        ("x11", 6000, Tcp),
        ("geneve", 6081, Udp),
        ("redis", 6379, Tcp),
        ("ircd", 6667, Tcp),
        ("ircs-u", 6697, Tcp),
        ("http-alt", 8080, Tcp),
        ("webcache", 8080, Tcp),
        ("bacula-dir", 9101, Tcp),
        ("git", 9418, Tcp),
    ]
};

/// The value for a name.
pub(crate) fn lookup<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Looks a name up without regard to case.
pub(crate) fn lookup_any_case<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// Words that compare two numbers: the jump that tests the relation, and whether its result is negated.
pub(crate) fn comparison(word: &str) -> Option<(u16, bool)> {
    Some(match word {
        ">" => (op::JGT, false),
        ">=" => (op::JGE, false),
        "=" | "==" => (op::JEQ, false),
        "<=" => (op::JGT, true),
        "<" => (op::JGE, true),
        "!=" => (op::JEQ, true),
        _ => return None,
    })
}
