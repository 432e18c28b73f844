//! Link types: what a captured packet's first octet means.

/// A LINKTYPE_ value (<https://www.tcpdump.org/linktypes.html>), as capture files hold it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: an address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet (DIX, IEEE 802.3).
    pub const ETHERNET: Self = Self(1);
    /// PPP, by RFC 1661 and RFC 1662; also Cisco HDLC when the first octet says so.
    pub const PPP: Self = Self(9);
    /// PPP in HDLC-like framing (RFC 1662).
    pub const PPP_HDLC: Self = Self(50);
    /// PPPoE from the session header on.
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IPv4 or IPv6, told apart by the version.
    pub const RAW: Self = Self(101);
    /// Cisco PPP with HDLC framing.
    pub const C_HDLC: Self = Self(104);
    /// IEEE 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// OpenBSD loopback: an address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// IEEE 802.11 after a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = Self(127);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// The registry's name without its prefix, where it is one that a user is likely to meet.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(value, _)| *value == self.0).map(|(_, name)| *name)
    }
}

impl std::fmt::Display for LinkType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "LINKTYPE {}", self.0),
        }
    }
}

/// Names as `tcpdump -L` prints them.
const NAMES: &[(u16, &str)] = &[
    (0, "NULL"),
    (1, "Ethernet"),
    (9, "PPP"),
    (50, "PPP_HDLC"),
    (51, "PPP_ETHER"),
    (101, "RAW"),
    (104, "C_HDLC"),
    (105, "IEEE802_11"),
    (108, "LOOP"),
    (113, "LINUX_SLL"),
    (127, "IEEE802_11_RADIO"),
    (228, "IPV4"),
    (229, "IPV6"),
    (276, "LINUX_SLL2"),
];
