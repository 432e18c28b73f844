//! Names of well-known ports, as registered by IANA.
//!
//! A name describes the port, not the protocol that was used on it.

pub use weir_wire::has_ports;

/// IP protocol numbers with ports.
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// The transports of a service name.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Tcp,
    Udp,
    Both,
    Sctp,
}
use On::{Both, Sctp, Tcp, Udp};

/// Ordered by port, then transport.
static SERVICES: &[(u16, On, &str)] = &[
    (7, Both, "echo"),
    (9, Both, "discard"),
    (13, Both, "daytime"),
    (17, Both, "qotd"),
    (19, Both, "chargen"),
    (20, Tcp, "ftp-data"),
    (21, Tcp, "ftp"),
    (22, Tcp, "ssh"),
    (22, Sctp, "ssh"),
    (23, Tcp, "telnet"),
    (25, Tcp, "smtp"),
    (37, Both, "time"),
    (43, Tcp, "whois"),
    (49, Both, "tacacs"),
    (53, Both, "domain"),
    (67, Udp, "bootps"),
    (68, Udp, "bootpc"),
    (69, Udp, "tftp"),
    (70, Tcp, "gopher"),
    (79, Tcp, "finger"),
    (80, Both, "http"),
    (88, Both, "kerberos"),
    (102, Tcp, "iso-tsap"),
    (109, Tcp, "pop2"),
    (110, Tcp, "pop3"),
    (111, Both, "sunrpc"),
    (113, Tcp, "auth"),
    (119, Tcp, "nntp"),
    (123, Udp, "ntp"),
    (135, Both, "epmap"),
    (137, Both, "netbios-ns"),
    (138, Both, "netbios-dgm"),
    (139, Both, "netbios-ssn"),
    (143, Tcp, "imap"),
    (161, Both, "snmp"),
    (162, Both, "snmptrap"),
    (177, Both, "xdmcp"),
    (179, Tcp, "bgp"),
    (179, Sctp, "bgp"),
    (194, Both, "irc"),
    (319, Udp, "ptp-event"),
    (320, Udp, "ptp-general"),
    (389, Both, "ldap"),
    (427, Both, "svrloc"),
    (443, Both, "https"),
    (443, Sctp, "https"),
    (445, Both, "microsoft-ds"),
    (464, Both, "kpasswd"),
    (465, Tcp, "submissions"),
    (500, Udp, "isakmp"),
    (502, Both, "mbap"),
    (512, Tcp, "exec"),
    (512, Udp, "biff"),
    (513, Tcp, "login"),
    (513, Udp, "who"),
    (514, Tcp, "shell"),
    (514, Udp, "syslog"),
    (515, Tcp, "printer"),
    (520, Udp, "router"),
    (521, Udp, "ripng"),
    (546, Both, "dhcpv6-client"),
    (547, Both, "dhcpv6-server"),
    (548, Tcp, "afpovertcp"),
    (554, Both, "rtsp"),
    (563, Tcp, "nntps"),
    (587, Tcp, "submission"),
    (593, Tcp, "http-rpc-epmap"),
    (623, Udp, "asf-rmcp"),
    (631, Both, "ipp"),
    (636, Tcp, "ldaps"),
    (646, Both, "ldp"),
    (647, Tcp, "dhcp-failover"),
    (749, Both, "kerberos-adm"),
    (830, Tcp, "netconf-ssh"),
    (853, Both, "domain-s"),
    (860, Tcp, "iscsi"),
    (873, Tcp, "rsync"),
    (989, Tcp, "ftps-data"),
    (990, Tcp, "ftps"),
    (992, Tcp, "telnets"),
    (993, Tcp, "imaps"),
    (995, Tcp, "pop3s"),
    (1080, Tcp, "socks"),
    (1194, Both, "openvpn"),
    (1352, Tcp, "lotusnote"),
    (1433, Tcp, "ms-sql-s"),
    (1434, Udp, "ms-sql-m"),
    (1494, Tcp, "ica"),
    (1645, Udp, "sightline"),
    (1701, Both, "l2tp"),
    (1719, Both, "h323gatestat"),
    (1720, Both, "h323hostcall"),
    (1723, Tcp, "pptp"),
    (1812, Both, "radius"),
    (1813, Both, "radius-acct"),
    (1883, Tcp, "mqtt"),
    (1900, Udp, "ssdp"),
    (1985, Udp, "hsrp"),
    (2000, Tcp, "cisco-sccp"),
    (2049, Both, "nfs"),
    (2123, Udp, "gtp-control"),
    (2152, Udp, "gtp-user"),
    (2222, Tcp, "EtherNet-IP-1"),
    (2375, Tcp, "docker"),
    (2376, Tcp, "docker-s"),
    (2379, Tcp, "etcd-client"),
    (2404, Tcp, "iec-104"),
    (2427, Udp, "mgcp-gateway"),
    (2628, Tcp, "dict"),
    (2905, Sctp, "m3ua"),
    (2944, Both, "megaco-h248"),
    (3205, Both, "isns"),
    (3260, Tcp, "iscsi-target"),
    (3268, Tcp, "msft-gc"),
    (3269, Tcp, "msft-gc-ssl"),
    (3306, Tcp, "mysql"),
    (3389, Both, "ms-wbt-server"),
    (3478, Both, "stun"),
    (3544, Udp, "teredo"),
    (3690, Tcp, "svn"),
    (3702, Both, "ws-discovery"),
    (3784, Udp, "bfd-control"),
    (3785, Udp, "bfd-echo"),
    (3868, Tcp, "diameter"),
    (3868, Sctp, "diameter"),
    (4317, Tcp, "opentelemetry"),
    (4500, Udp, "ipsec-nat-t"),
    (4739, Both, "ipfix"),
    (4789, Udp, "vxlan"),
    (4840, Tcp, "opcua-tcp"),
    (5004, Both, "avt-profile-1"),
    (5005, Both, "avt-profile-2"),
    (5060, Both, "sip"),
    (5060, Sctp, "sip"),
    (5061, Both, "sips"),
    (5222, Tcp, "xmpp-client"),
    (5246, Udp, "capwap-control"),
    (5247, Udp, "capwap-data"),
    (5269, Tcp, "xmpp-server"),
    (5349, Both, "stuns"),
    (5350, Udp, "pcp-multicast"),
    (5351, Udp, "nat-pmp"),
    (5353, Udp, "mdns"),
    (5355, Both, "llmnr"),
    (5432, Tcp, "postgresql"),
    (5671, Tcp, "amqps"),
    (5672, Tcp, "amqp"),
    (5683, Both, "coap"),
    (5684, Both, "coaps"),
    (5900, Tcp, "rfb"),
    (5985, Tcp, "wsman"),
    (5986, Tcp, "wsmans"),
    (6000, Tcp, "x11"),
    (6081, Udp, "geneve"),
    (6343, Udp, "sflow"),
    (6379, Tcp, "redis"),
    (6633, Udp, "cisco-vpath-tun"),
    (6653, Tcp, "openflow"),
    (6665, Tcp, "ircu"),
    (6666, Tcp, "ircu"),
    (6667, Tcp, "ircu"),
    (6668, Tcp, "ircu"),
    (6669, Tcp, "ircu"),
    (6697, Tcp, "ircs-u"),
    (8008, Both, "http-alt"),
    (8080, Both, "http-alt"),
    (8443, Tcp, "pcsync-https"),
    (8883, Tcp, "secure-mqtt"),
    (9090, Tcp, "websm"),
    (9100, Tcp, "pdl-datastream"),
    (9418, Tcp, "git"),
    (10050, Tcp, "zabbix-agent"),
    (10051, Tcp, "zabbix-trapper"),
    (11211, Both, "memcache"),
    (20000, Both, "dnp"),
    (27017, Tcp, "mongodb"),
    (34962, Both, "profinet-rt"),
    (36412, Sctp, "s1-control"),
    (38412, Sctp, "ng-control"),
    (44818, Both, "EtherNet-IP-2"),
    (47808, Udp, "bacnet"),
];

/// The registered name of a port of an IP protocol, if it is well known.
pub fn service(protocol: u8, port: u16) -> Option<&'static str> {
    let on = match protocol {
        TCP => Tcp,
        UDP | UDP_LITE => Udp,
        SCTP => Sctp,
        _ => return None,
    };
    let at = SERVICES.partition_point(|(number, ..)| *number < port);
    SERVICES
        .iter()
        .skip(at)
        .take_while(|(number, ..)| *number == port)
        .find(|(_, names, _)| *names == on || *names == Both && on != Sctp)
        .map(|(.., name)| *name)
}

/// The name of an IP protocol in lower case, or its number: `tcp`, `gre`, `254`.
pub fn protocol(number: u8) -> String {
    known_protocol(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// The name of an IP protocol in lower case, if it is well known.
pub fn known_protocol(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "hopopt",
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        TCP => "tcp",
        8 => "egp",
        9 => "igp",
        UDP => "udp",
        27 => "rdp",
        DCCP => "dccp",
        41 => "ipv6",
        46 => "rsvp",
        47 => "gre",
        50 => "esp",
        51 => "ah",
        58 => "icmp6",
        59 => "nonxt",
        88 => "eigrp",
        89 => "ospf",
        94 => "ipip",
        97 => "etherip",
        103 => "pim",
        108 => "ipcomp",
        112 => "vrrp",
        115 => "l2tp",
        SCTP => "sctp",
        133 => "fc",
        135 => "mobility",
        UDP_LITE => "udplite",
        137 => "mpls",
        139 => "hip",
        140 => "shim6",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_well_formed() {
        for pair in SERVICES.windows(2) {
            let [(a, on_a, _), (b, on_b, _)] = pair else { continue };
            assert!(a < b || a == b && on_a != on_b, "{a} {b}");
        }
        for (port, _, name) in SERVICES {
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{port} {name}");
            assert!(name.len() <= 15, "{port} {name}: RFC 6335 allows 15");
        }
    }

    #[test]
    fn names_depend_on_the_transport() {
        assert_eq!(service(TCP, 514), Some("shell"));
        assert_eq!(service(UDP, 514), Some("syslog"));
        assert_eq!(service(UDP, 443), Some("https"));
        assert_eq!(service(SCTP, 36412), Some("s1-control"));
        assert_eq!(service(SCTP, 80), None);
        assert_eq!(service(TCP, 8000), None);
        assert_eq!(service(1, 8), None);
        assert_eq!(protocol(6), "tcp");
        assert_eq!(protocol(254), "254");
    }
}
