//! Link types that few captures have: the network header is found after each of them, and no truncation and no changed
//! byte makes the decoder panic.

use weir_wire::build;
use weir_wire::{DecodeError, ErrorKind, Layer, Layers, LinkType, Network, decode};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];

fn layers(data: &[u8], link: LinkType) -> Layers {
    decode(&build::packet(data, link))
}

/// IPv4 with UDP from port 5 to port 6.
fn ip() -> Vec<u8> {
    build::ip().ipv4(A, B).udp(5, 6).payload(b"payload")
}

fn ip6() -> Vec<u8> {
    build::ip().ipv6([1; 16], [2; 16]).udp(5, 6).payload(b"payload")
}

/// Asserts that `header` leads to a packet of the given IP version, and that no truncation and no changed byte makes
/// the decoder panic.
fn leads_to_ip(link: LinkType, header: &[u8], of: Network) {
    let packet = if of == Network::Ipv6 { ip6() } else { ip() };
    let data = [header, &packet].concat();
    let found = layers(&data, link);
    assert_eq!(found.error, None, "{link}: {data:02x?}");
    assert_eq!((found.network_kind, found.network as usize), (of, header.len()), "{link}: {data:02x?}");
    assert_eq!((found.ip_proto, found.ports), (17, [5, 6]), "{link}");
    for len in 0..data.len() {
        let cut = layers(&data[..len], link);
        assert!(
            len > header.len() || cut.error.is_some() || cut.network_kind == Network::None,
            "{link} {len}"
        );
    }
    for at in 0..header.len() {
        for value in 0..=255 {
            let mut other = data.clone();
            other[at] = value;
            let _ = layers(&other, link);
        }
    }
}

const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

#[test]
fn slip() {
    for (link, header) in [(LinkType::SLIP, 16), (LinkType::SLIP_BSDOS, 24)] {
        leads_to_ip(link, &vec![1; header], Network::Ipv4);
        leads_to_ip(link, &vec![0; header], Network::Ipv6);
    }
}

#[test]
fn frame_relay() {
    let link = LinkType::FRELAY;
    // RFC 2427: an NLPID, with padding, with SNAP, bridged; and Cisco's form with an EtherType.
    leads_to_ip(link, &[0x18, 0x41, 3, 0xcc], Network::Ipv4);
    leads_to_ip(link, &[0x18, 0x41, 3, 0x8e], Network::Ipv6);
    leads_to_ip(link, &[0x18, 0x41, 3, 0, 0xcc], Network::Ipv4);
    leads_to_ip(link, &[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0], Network::Ipv4);
    leads_to_ip(link, &[0x18, 0x41, 8, 0], Network::Ipv4);
    leads_to_ip(link, &[0x18, 0x41, 0x86, 0xdd], Network::Ipv6);
    leads_to_ip(link, &[0x18, 0x41, 3, 0xcf, 0, 0x21], Network::Ipv4);
    let bridged = [&[0x18, 0x41, 3, 0, 0x80, 0, 0x80, 0xc2, 0, 7][..], &[2; 12], &[8, 0]].concat();
    leads_to_ip(link, &bridged, Network::Ipv4);
    // Addresses of three and four bytes.
    leads_to_ip(link, &[0x18, 0x40, 0x41, 3, 0xcc], Network::Ipv4);
    leads_to_ip(link, &[0x18, 0x40, 0x40, 0x41, 3, 0xcc], Network::Ipv4);
    leads_to_ip(LinkType::FRELAY_WITH_DIR, &[1, 0x18, 0x41, 3, 0xcc], Network::Ipv4);
    let endless = layers(&[0x18, 0x40, 0x40, 0x40, 0x41, 3, 0xcc], link);
    assert_eq!(endless.error, Some(DecodeError { layer: Layer::Link, kind: ErrorKind::Malformed }));
    // OSI is not decoded, and is no error.
    assert_eq!(layers(&[0x18, 0x41, 3, 0x83, 1, 2, 3], link).error, None);
}

#[test]
fn tags_of_switches() {
    let addresses = [[2; 6], [4; 6]].concat();
    let behind = |tag: &[u8], kind: [u8; 2]| [&addresses, tag, &kind].concat();
    for link in [LinkType::DSA_TAG_BRCM, LinkType::DSA_TAG_DSA] {
        leads_to_ip(link, &behind(&[0x20, 0, 0, 4], [8, 0]), Network::Ipv4);
        leads_to_ip(link, &behind(&[0x20, 0, 0, 4], [0x86, 0xdd]), Network::Ipv6);
    }
    leads_to_ip(LinkType::DSA_TAG_EDSA, &behind(&[0xda, 0xda, 0, 0, 0x40, 1, 0, 1], [8, 0]), Network::Ipv4);
    leads_to_ip(
        LinkType::DSA_TAG_BRCM_PREPEND,
        &[&[0, 0, 0, 4][..], &behind(&[], [8, 0])].concat(),
        Network::Ipv4,
    );
    let tagged = layers(
        &[&behind(&[0, 0, 0, 4], [0x81, 0])[..], &[0, 7, 8, 0], &ip()].concat(),
        LinkType::DSA_TAG_BRCM,
    );
    assert_eq!((tagged.vlan_count, tagged.vlan[0], tagged.ports), (1, 7, [5, 6]));
}

#[test]
fn fddi_and_infiniband() {
    leads_to_ip(LinkType::FDDI, &[&[0x50][..], &[2; 12], &SNAP].concat(), Network::Ipv4);
    // A token carries no packet.
    let token = layers(&[&[0x80][..], &[2; 12], &SNAP, &ip()].concat(), LinkType::FDDI);
    assert_eq!((token.error, token.network_kind), (None, Network::None));
    leads_to_ip(LinkType::IPOIB, &[&[0; 40][..], &[8, 0, 0, 0]].concat(), Network::Ipv4);
    leads_to_ip(LinkType::IPOIB, &[&[0; 40][..], &[0x86, 0xdd, 0, 0]].concat(), Network::Ipv6);
}

#[test]
fn arcnet() {
    for (link, between) in [(LinkType::ARCNET, &[][..]), (LinkType::ARCNET_LINUX, &[0, 0][..])] {
        let header = |rest: &[u8]| [&[1, 2][..], between, rest].concat();
        leads_to_ip(link, &header(&[212, 0, 0, 1]), Network::Ipv4);
        leads_to_ip(link, &header(&[196, 0, 0, 1]), Network::Ipv6);
        // RFC 1051, without the rest of the header.
        leads_to_ip(link, &header(&[240]), Network::Ipv4);
        // The first part of two, and one with an exception before it.
        leads_to_ip(link, &header(&[212, 1, 0, 1]), Network::Ipv4);
        leads_to_ip(link, &header(&[212, 0xff, 0xff, 0xff, 0xff, 0, 0, 1]), Network::Ipv4);
        let second = layers(&[&header(&[212, 2, 0, 1])[..], b"rest"].concat(), link);
        assert_eq!((second.error, second.network_kind, second.ether_type), (None, Network::None, 0x0800));
    }
}

#[test]
fn pflog() {
    let header = |len: u8, family: u8| {
        let mut header = vec![0; usize::from(len).next_multiple_of(4)];
        header[0] = len;
        header[1] = family;
        header
    };
    leads_to_ip(LinkType::PFLOG, &header(61, 2), Network::Ipv4);
    leads_to_ip(LinkType::PFLOG, &header(100, 2), Network::Ipv4);
    for family in [24, 28, 30, 10] {
        leads_to_ip(LinkType::PFLOG, &header(61, family), Network::Ipv6);
    }
    let short = layers(&header(44, 2), LinkType::PFLOG);
    assert_eq!(short.error, Some(DecodeError { layer: Layer::Link, kind: ErrorKind::Malformed }));
}

#[test]
fn nflog_in_both_byte_orders() {
    for little in [true, false] {
        let word = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let attribute = |kind: u16, len: usize, value: &[u8]| {
            let mut out = [word(len as u16 + 4), word(kind)].concat();
            out.extend(value);
            out.resize(out.len().next_multiple_of(4), 0);
            out
        };
        for (family, packet, of) in
            [(2, ip(), Network::Ipv4), (10, ip6(), Network::Ipv6), (7, ip(), Network::Ipv4)]
        {
            let header = [
                &[family, 0, 0, 5][..],
                &attribute(1, 4, &[8, 0, 1, 0]),
                &attribute(10, 7, b"prefix\0"),
                &attribute(9, packet.len(), &[]),
            ]
            .concat();
            leads_to_ip(LinkType::NFLOG, &header, of);
        }
        // A log without a packet.
        let none = [&[2, 0, 0, 5][..], &attribute(1, 4, &[8, 0, 1, 0])].concat();
        let none = layers(&none, LinkType::NFLOG);
        assert_eq!((none.error, none.network_kind), (None, Network::None));
    }
}

#[test]
fn per_packet_information() {
    let header = |fields: &[u8], link: u32| {
        let len = (8 + fields.len() as u16).to_le_bytes();
        [&[0, 0][..], &len, &link.to_le_bytes(), fields].concat()
    };
    let data_frame = [&[8, 0, 0, 0][..], &[2; 18], &[0, 0], &SNAP].concat();
    leads_to_ip(LinkType::PPI, &[header(&[], 105), data_frame.clone()].concat(), Network::Ipv4);
    leads_to_ip(LinkType::PPI, &[header(&[9; 12], 1), vec![2; 12], vec![8, 0]].concat(), Network::Ipv4);
    leads_to_ip(LinkType::PPI, &header(&[], 101), Network::Ipv4);
    // The field of IEEE 802.11 indicates a frame check sequence at the end.
    let common = [&[2, 0, 20, 0][..], &[0; 8], &[1, 0], &[0; 10]].concat();
    let data = [header(&common, 105), data_frame, ip(), vec![1, 2, 3, 4]].concat();
    let found = layers(&data, LinkType::PPI);
    assert_eq!((found.error, found.ports, found.payload_len), (None, [5, 6], 7));
    let unknown = layers(&header(&[], 147), LinkType::PPI);
    assert_eq!(unknown.error.map(|e| e.kind), Some(ErrorKind::UnknownLink));
}
