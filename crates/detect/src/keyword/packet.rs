//! Headers of packets.

use super::row::{Group, Keyword, reads};
use crate::builder::{Builder, no_value};
use crate::condition::{AddressOf, BitTest, ChecksumOf, Condition, IpOption, PlaceTest, VlanLayer};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::value::{Value, one_of};

const NUMBER: &str = "[<|>|!]NUMBER|FROM-TO";

pub(super) fn keywords() -> Vec<Keyword> {
    let packet = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Packet, arguments, help, accepted, refused, read)
    };
    vec![
        packet(
            "ttl",
            NUMBER,
            "Time to live of IPv4, hop limit of IPv6.",
            &["ttl:<5;", "ttl:1-4;"],
            &["ttl:256;"],
            |builder, value| number(builder, value, 255, Condition::Ttl),
        ),
        packet("tos", "[!]NUMBER", "Type of service.", &["tos:!8;"], &["tos:256;"], |builder, value| {
            number(builder, value, 255, Condition::Tos)
        }),
        packet("id", NUMBER, "Identification of IPv4.", &["id:1;"], &["id:65536;"], |builder, value| {
            number(builder, value, 65_535, Condition::IpId)
        }),
        packet(
            "ip_proto",
            "[!<>]NUMBER|NAME",
            "Protocol number of IP.",
            &["ip_proto:!47;", "ip_proto:igmp;"],
            &["ip_proto:256;", "ip_proto:x;"],
            ip_protocol,
        ),
        packet("ipopts", "NAME", "An option of IPv4.", &["ipopts:lsrr;"], &["ipopts:x;"], ip_option),
        packet(
            "fragbits",
            "[+*!]MDR",
            "The bits about fragments.",
            &["fragbits:!M;"],
            &["fragbits:X;", "fragbits:+;"],
            fragment_bits,
        ),
        packet(
            "fragoffset",
            NUMBER,
            "The offset of a fragment, in units of 8 bytes.",
            &["fragoffset:>0;"],
            &["fragoffset:x;"],
            |builder, value| number(builder, value, 0x1fff, Condition::FragmentOffset),
        ),
        packet(
            "sameip",
            "",
            "Source and destination address are equal.",
            &["sameip;"],
            &["sameip:1;"],
            same_ip,
        ),
        packet(
            "vlan.id",
            "[<|>|!]NUMBER|FROM-TO[,any|all|LAYER]",
            "Identifier of a tag of a VLAN: of any, all, the outer two (0, 1) or the inner two (-1, -2).",
            &["vlan.id:300;", "vlan.id:>2,0;", "vlan.id:!300,all;", "vlan.id:1-9,-1;"],
            &["vlan.id;", "vlan.id:4096;", "vlan.id:1,2;", "vlan.id:1,-3;", "vlan.id:1,x;", "vlan.id:1,0,1;"],
            vlan_id,
        ),
        packet(
            "vlan.layers",
            NUMBER,
            "Number of tags of VLANs.",
            &["vlan.layers:2;", "vlan.layers:>0;"],
            &["vlan.layers:x;", "vlan.layers:256;"],
            |builder, value| number(builder, value, 255, Condition::VlanLayers),
        ),
        packet(
            "geoip",
            "[src|dst|both|any,]COUNTRY[,...]",
            "Country of an address, by a file of the user.",
            &["geoip:DE;", "geoip:src,DE,fr;", "geoip:any,!DE;"],
            &["geoip:x;", "geoip:src;", "geoip:DEU;"],
            place,
        ),
        Keyword {
            old_names: &["tcp.flags"],
            ..packet(
                "flags",
                "[+*!]FSRPAUEC[,MASK]",
                "TCP flags.",
                &["flags:S,12;", "tcp.flags:+A;", "flags:0;"],
                &["flags:X;"],
                flags,
            )
        },
        Keyword {
            old_names: &["tcp.seq"],
            ..packet("seq", "NUMBER", "TCP sequence number.", &["seq:0;"], &["seq:4294967296;"], sequence)
        },
        Keyword {
            old_names: &["tcp.ack"],
            ..packet(
                "ack",
                "NUMBER",
                "TCP acknowledgement number.",
                &["ack:1;"],
                &["ack:x;"],
                acknowledgement,
            )
        },
        Keyword {
            old_names: &["tcp.window"],
            ..packet(
                "window",
                "[!]NUMBER",
                "TCP window, as sent.",
                &["window:!55808;"],
                &["window:65536;"],
                window,
            )
        },
        packet(
            "tcp.mss",
            NUMBER,
            "TCP maximum segment size.",
            &["tcp.mss:<536;"],
            &["tcp.mss:x;"],
            |builder, value| number(builder, value, 65_535, Condition::Mss),
        ),
        packet(
            "tcp.wscale",
            NUMBER,
            "Shift of the window scale option of TCP.",
            &["tcp.wscale:>7;"],
            &["tcp.wscale:256;"],
            |builder, value| number(builder, value, 255, Condition::WindowScale),
        ),
        packet(
            "itype",
            NUMBER,
            "ICMP type.",
            &["itype:8;", "itype:8<>12;"],
            &["itype:256;"],
            |builder, value| number(builder, value, 255, Condition::IcmpType),
        ),
        packet("icode", NUMBER, "ICMP code.", &["icode:>0;"], &["icode:x;"], |builder, value| {
            number(builder, value, 255, Condition::IcmpCode)
        }),
        packet("icmp_id", "NUMBER", "ICMP identifier.", &["icmp_id:0;"], &["icmp_id:65536;"], icmp_id),
        packet(
            "icmp_seq",
            "NUMBER",
            "ICMP sequence number.",
            &["icmp_seq:0;"],
            &["icmp_seq:x;"],
            icmp_sequence,
        ),
        packet(
            "icmpv6.mtu",
            NUMBER,
            "MTU in ICMPv6 \"packet too big\".",
            &["icmpv6.mtu:<1280;"],
            &["icmpv6.mtu:x;"],
            |builder, value| number(builder, value, u64::from(u32::MAX), Condition::IcmpMtu),
        ),
        packet(
            "ipv4-csum",
            "valid|invalid",
            "The checksum of the IPv4 header.",
            &["ipv4-csum:invalid;"],
            &["ipv4-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::Ipv4),
        ),
        packet(
            "tcpv4-csum",
            "valid|invalid",
            "The checksum of TCP over IPv4.",
            &["tcpv4-csum:invalid;"],
            &["tcpv4-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::TcpV4),
        ),
        packet(
            "tcpv6-csum",
            "valid|invalid",
            "The checksum of TCP over IPv6.",
            &["tcpv6-csum:invalid;"],
            &["tcpv6-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::TcpV6),
        ),
        packet(
            "udpv4-csum",
            "valid|invalid",
            "The checksum of UDP over IPv4.",
            &["udpv4-csum:invalid;"],
            &["udpv4-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::UdpV4),
        ),
        packet(
            "udpv6-csum",
            "valid|invalid",
            "The checksum of UDP over IPv6.",
            &["udpv6-csum:invalid;"],
            &["udpv6-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::UdpV6),
        ),
        packet(
            "icmpv4-csum",
            "valid|invalid",
            "The checksum of ICMP.",
            &["icmpv4-csum:invalid;"],
            &["icmpv4-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::IcmpV4),
        ),
        packet(
            "icmpv6-csum",
            "valid|invalid",
            "The checksum of ICMPv6.",
            &["icmpv6-csum:invalid;"],
            &["icmpv6-csum:x;"],
            |builder, value| checksum(builder, value, ChecksumOf::IcmpV6),
        ),
    ]
}

fn checksum(builder: &mut Builder<'_>, value: Value<'_>, of: ChecksumOf) -> Result<(), Fault> {
    let is_right = one_of(value.unquoted(), "a state of a checksum", &[("valid", true), ("invalid", false)])?;
    builder.add_condition(Condition::Checksum { of, is_right })
}

fn number(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    greatest: u64,
    condition: fn(NumberTest) -> Condition,
) -> Result<(), Fault> {
    let test = NumberTest::parse(value.unquoted(), greatest, &[])?;
    builder.add_condition(condition(test))
}

/// Protocols of IP by name (IANA, "Assigned Internet Protocol Numbers").
const IP_PROTOCOLS: [(&str, u64); 24] = [
    ("ip", 0),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
];

fn ip_protocol(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = NumberTest::parse(value.unquoted(), 255, &IP_PROTOCOLS)?;
    builder.add_condition(Condition::IpProtocol(test))
}

fn ip_option(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let option = one_of(value.unquoted(), "an option of IPv4", &IpOption::NAMES)?;
    builder.add_condition(Condition::IpOption(option))
}

fn fragment_bits(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = BitTest::fragments(value.unquoted())?;
    builder.add_condition(Condition::FragmentBits(test))
}

fn same_ip(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.add_condition(Condition::SameIp)
}

fn vlan_id(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let value = value.unquoted();
    let mut parts = value.parts(b',');
    let test = NumberTest::parse(parts.next().unwrap_or(value), 4095, &[])?;
    let layer = match parts.next() {
        None => VlanLayer::Any,
        Some(part) => match part.bytes {
            b"any" => VlanLayer::Any,
            b"all" => VlanLayer::All,
            _ => VlanLayer::At(part.number("a layer of a VLAN", -2, 1)? as i8),
        },
    };
    match parts.next() {
        Some(part) => Err(part.wrong("a tag has one layer; a second one is given")),
        None => builder.add_condition(Condition::VlanId(test, layer)),
    }
}

fn place(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (mut of, mut codes, mut is_negated) = (AddressOf::Either, Vec::new(), false);
    let sides = [
        (b"src".as_slice(), AddressOf::Source),
        (b"dst", AddressOf::Destination),
        (b"any", AddressOf::Either),
        (b"both", AddressOf::Both),
    ];
    for (number, part) in value.unquoted().parts(b',').enumerate() {
        if let Some((_, side)) = sides.iter().find(|(name, _)| number == 0 && *name == part.bytes) {
            of = *side;
            continue;
        }
        let (negated, code) = part.negated();
        match code.bytes {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                codes.push([a.to_ascii_uppercase(), b.to_ascii_uppercase()]);
            }
            _ => {
                return Err(
                    code.wrong(format!("`{}` is not the code of a country: two letters", code.shown()))
                );
            }
        }
        is_negated |= negated;
    }
    if codes.is_empty() {
        return Err(value.wrong("the code of a country is missing"));
    }
    let Some(places) = builder.sources.places() else {
        let reason = "`geoip` needs a database of countries, and none is given; --rule-geoip names one";
        return Err(Fault::not_supported(builder.at, reason));
    };
    builder.add_condition(Condition::Place(PlaceTest { of, codes, is_negated, places }))
}

fn flags(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = BitTest::flags(value.unquoted())?;
    builder.add_condition(Condition::TcpFlags(test))
}

fn sequence(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let number = value.unquoted().number32("a sequence number")?;
    builder.add_condition(Condition::Sequence(number))
}

fn acknowledgement(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let number = value.unquoted().number32("an acknowledgement number")?;
    builder.add_condition(Condition::Acknowledgement(number))
}

fn window(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (is_negated, value) = value.unquoted().negated();
    let is = value.number("a window", 0, 65_535)? as u16;
    builder.add_condition(Condition::Window { is, is_negated })
}

fn icmp_id(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let number = value.unquoted().number("an identifier", 0, 65_535)? as u16;
    builder.add_condition(Condition::IcmpId(number))
}

fn icmp_sequence(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let number = value.unquoted().number("a sequence number", 0, 65_535)? as u16;
    builder.add_condition(Condition::IcmpSequence(number))
}
