//! Link types: the format of a captured packet's first header.

use crate::{ErrorKind, Hints, Packet, Time};

/// A LINKTYPE_ value (<https://www.tcpdump.org/linktypes.html>), as capture files hold it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: an address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet (DIX, IEEE 802.3).
    pub const ETHERNET: Self = Self(1);
    /// ARCNET with the header of BSD.
    pub const ARCNET: Self = Self(7);
    /// SLIP, with a header of the BSD driver.
    pub const SLIP: Self = Self(8);
    /// PPP (RFC 1661, RFC 1662), or Cisco HDLC if the first byte indicates it.
    pub const PPP: Self = Self(9);
    /// FDDI, from frame control on.
    pub const FDDI: Self = Self(10);
    /// PPP in HDLC-like framing (RFC 1662).
    pub const PPP_HDLC: Self = Self(50);
    /// PPPoE from the session header on.
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IPv4 or IPv6, distinguished by the version field.
    pub const RAW: Self = Self(101);
    /// SLIP, with a header of the driver of BSD/OS.
    pub const SLIP_BSDOS: Self = Self(102);
    /// Cisco PPP with HDLC framing.
    pub const C_HDLC: Self = Self(104);
    /// IEEE 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// Frame relay, from the address on.
    pub const FRELAY: Self = Self(107);
    /// OpenBSD loopback: an address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// The log of the packet filter of OpenBSD and FreeBSD.
    pub const PFLOG: Self = Self(117);
    /// IEEE 802.11 after a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = Self(127);
    /// ARCNET with the header of Linux.
    pub const ARCNET_LINUX: Self = Self(129);
    /// Per-Packet Information before a frame of any link type.
    pub const PPI: Self = Self(192);
    /// Frame relay after one byte with the direction.
    pub const FRELAY_WITH_DIR: Self = Self(206);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// The log of Linux's netfilter.
    pub const NFLOG: Self = Self(239);
    /// IP over InfiniBand (RFC 4391).
    pub const IPOIB: Self = Self(242);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
    /// Ethernet with a Broadcom tag of 4 bytes before the type.
    pub const DSA_TAG_BRCM: Self = Self(281);
    /// Ethernet after a Broadcom tag of 4 bytes.
    pub const DSA_TAG_BRCM_PREPEND: Self = Self(282);
    /// Ethernet with a Marvell tag of 4 bytes before the type.
    pub const DSA_TAG_DSA: Self = Self(284);
    /// Ethernet with a Marvell tag of 8 bytes before the type.
    pub const DSA_TAG_EDSA: Self = Self(285);

    /// Whether packets of this link type are decoded. Packets of others are only counted
    /// ([`ErrorKind::UnknownLink`](crate::ErrorKind::UnknownLink)).
    pub fn is_decoded(self) -> bool {
        let (data, hints) = (&[][..], Hints::default());
        let nothing = Packet { time: Time(0), data, wire_len: 0, interface: 0, link: self, hints, number: 0 };
        crate::decode(&nothing).error.is_none_or(|error| error.kind != ErrorKind::UnknownLink)
    }

    /// The registry's name without its prefix, or `None` for rare link types.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(value, _)| *value == self.0).map(|(_, name)| *name)
    }
}

impl std::fmt::Display for LinkType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "LINKTYPE_{}", self.0),
        }
    }
}

/// Names as `tcpdump -L` prints them.
const NAMES: &[(u16, &str)] = &[
    (0, "NULL"),
    (1, "Ethernet"),
    (3, "AX25"),
    (6, "IEEE802"),
    (7, "ARCNET"),
    (8, "SLIP"),
    (9, "PPP"),
    (10, "FDDI"),
    (50, "PPP_HDLC"),
    (51, "PPP_ETHER"),
    (99, "SYMANTEC_FIREWALL"),
    (100, "ATM_RFC1483"),
    (101, "RAW"),
    (102, "SLIP_BSDOS"),
    (104, "C_HDLC"),
    (105, "IEEE802_11"),
    (107, "FRELAY"),
    (108, "LOOP"),
    (109, "ENC"),
    (113, "LINUX_SLL"),
    (114, "LTALK"),
    (117, "PFLOG"),
    (119, "PRISM_HEADER"),
    (122, "IP_OVER_FC"),
    (123, "SUNATM"),
    (127, "IEEE802_11_RADIO"),
    (129, "ARCNET_LINUX"),
    (135, "JUNIPER_ATM2"),
    (137, "JUNIPER_ATM1"),
    (138, "APPLE_IP_OVER_IEEE1394"),
    (139, "MTP2_WITH_PHDR"),
    (140, "MTP2"),
    (141, "MTP3"),
    (142, "SCCP"),
    (143, "DOCSIS"),
    (144, "LINUX_IRDA"),
    (147, "USER0"),
    (148, "USER1"),
    (149, "USER2"),
    (150, "USER3"),
    (151, "USER4"),
    (152, "USER5"),
    (153, "USER6"),
    (154, "USER7"),
    (155, "USER8"),
    (156, "USER9"),
    (157, "USER10"),
    (158, "USER11"),
    (159, "USER12"),
    (160, "USER13"),
    (161, "USER14"),
    (162, "USER15"),
    (163, "IEEE802_11_RADIO_AVS"),
    (165, "BACNET_MS_TP"),
    (166, "PPP_PPPD"),
    (169, "GPRS_LLC"),
    (177, "LINUX_LAPD"),
    (182, "MFR"),
    (187, "BLUETOOTH_HCI_H4"),
    (189, "USB_LINUX"),
    (192, "PPI"),
    (195, "IEEE802_15_4_WITHFCS"),
    (196, "SITA"),
    (197, "ERF"),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR"),
    (202, "AX25_KISS"),
    (203, "LAPD"),
    (204, "PPP_WITH_DIR"),
    (205, "C_HDLC_WITH_DIR"),
    (206, "FRELAY_WITH_DIR"),
    (209, "IPMB_LINUX"),
    (215, "IEEE802_15_4_NONASK_PHY"),
    (220, "USB_LINUX_MMAPPED"),
    (224, "FC_2"),
    (226, "IPNET"),
    (227, "CAN_SOCKETCAN"),
    (228, "IPV4"),
    (229, "IPV6"),
    (230, "IEEE802_15_4_NOFCS"),
    (231, "DBUS"),
    (235, "DVB_CI"),
    (236, "MUX27010"),
    (237, "STANAG_5066_D_PDU"),
    (239, "NFLOG"),
    (240, "NETANALYZER"),
    (242, "IPOIB"),
    (243, "MPEG_2_TS"),
    (245, "NFC_LLCP"),
    (247, "INFINIBAND"),
    (248, "SCTP"),
    (249, "USBPCAP"),
    (250, "RTAC_SERIAL"),
    (251, "BLUETOOTH_LE_LL"),
    (253, "NETLINK"),
    (254, "BLUETOOTH_LINUX_MONITOR"),
    (256, "BLUETOOTH_LE_LL_WITH_PHDR"),
    (257, "PROFIBUS_DL"),
    (258, "PKTAP"),
    (259, "EPON"),
    (261, "ZWAVE_R1_R2"),
    (262, "ZWAVE_R3"),
    (263, "WATTSTOPPER_DLM"),
    (264, "ISO_14443"),
    (265, "RDS"),
    (266, "USB_DARWIN"),
    (268, "SDLC"),
    (269, "TI_LLN_SNIFFER"),
    (270, "LORATAP"),
    (271, "VSOCK"),
    (272, "NORDIC_BLE"),
    (273, "DOCSIS31_XRA31"),
    (274, "ETHERNET_MPACKET"),
    (276, "LINUX_SLL2"),
    (278, "OPENVIZSLA"),
    (279, "EBHSCR"),
    (280, "VPP_DISPATCH"),
    (281, "DSA_TAG_BRCM"),
    (282, "DSA_TAG_BRCM_PREPEND"),
    (283, "IEEE802_15_4_TAP"),
    (284, "DSA_TAG_DSA"),
    (285, "DSA_TAG_EDSA"),
    (286, "ELEE"),
    (287, "Z_WAVE_SERIAL"),
    (288, "USB_2_0"),
    (289, "ATSC_ALP"),
    (290, "ETW"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_link_types_match_the_decoder() {
        let decoded = (0..=u16::MAX).filter(|number| LinkType(*number).is_decoded()).collect::<Vec<_>>();
        assert_eq!(
            decoded,
            [
                0, 1, 7, 8, 9, 10, 12, 14, 50, 51, 101, 102, 104, 105, 107, 108, 113, 117, 127, 129, 192,
                206, 228, 229, 239, 242, 276, 281, 282, 284, 285
            ]
        );
    }
}
