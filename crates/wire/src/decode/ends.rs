//! The ends of a frame on its link: hardware addresses, and what IEEE 802.11 adds to them.

use super::wifi;
use crate::{LinkType, Packet};

/// A hardware address (EUI-48), in the order of transmission.
pub type Mac = [u8; 6];

/// The ends of a frame. What its link does not have, or what was not captured, is `None`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkEnds<'a> {
    /// The station that sent it; of a frame that an access point relays, the original one.
    pub sender: Option<Mac>,
    /// The station, or the group, that it is for.
    pub receiver: Option<Mac>,
    /// The access point of a frame of IEEE 802.11.
    pub bssid: Option<Mac>,
    /// The name of a wireless network, 1 to 32 bytes, where the frame has it; empty in others, and where it is hidden.
    pub ssid: &'a [u8],
    /// What a frame of IEEE 802.11 is; `None` on other links.
    pub wifi: Option<WifiKind>,
    /// The station that exchanges the frame with its access point, of data, and of management that belongs to the network:
    /// no station that only looks for networks, and no group.
    pub station: Option<Mac>,
    /// The channel of the network, in its beacons and probe responses.
    pub channel: Option<u8>,
    /// Whether the receiver of a frame of IEEE 802.11 found its check sequence wrong, so that any of this may be wrong too.
    pub is_damaged: bool,
}

/// What a frame of IEEE 802.11 is (IEEE 802.11-2020 9.2.4.1.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WifiKind {
    /// Management, by its subtype.
    Management(u8),
    /// Control, by its subtype.
    Control(u8),
    /// Data that has content for a network layer.
    Data,
    /// Data without content: it only announces what a station does, such as to save power.
    Null,
    /// A later fragment of data.
    Fragment,
    /// Encrypted data.
    Encrypted,
    /// An extension, by its subtype.
    Extension(u8),
}

/// Bits of the second byte of frame control.
const TO_DS: u8 = 0x01;
const FROM_DS: u8 = 0x02;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;
/// Bit of the first byte of frame control: data without content.
const EMPTY: u8 = 0x40;

/// The ends of a packet's outermost frame.
pub fn link_ends<'a>(packet: &Packet<'a>) -> LinkEnds<'a> {
    if let Some(at) = wifi::frame_at(packet) {
        let ends = of_wifi(packet.data.get(at..).unwrap_or_default());
        return LinkEnds { is_damaged: wifi::is_damaged(packet), ..ends };
    }
    let mac = |at: usize| packet.data.get(at..)?.first_chunk::<6>().copied();
    let frame = |at: usize| LinkEnds { sender: mac(at + 6), receiver: mac(at), ..LinkEnds::default() };
    match packet.link {
        LinkType::ETHERNET | LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA | LinkType::DSA_TAG_EDSA => {
            frame(0)
        }
        LinkType::DSA_TAG_BRCM_PREPEND => frame(4),
        // After the byte of frame control.
        LinkType::FDDI => frame(1),
        // A cooked capture has the sender only, and the length of its address.
        LinkType::LINUX_SLL if packet.data.get(4..6) == Some(&[0, 6]) => {
            LinkEnds { sender: mac(6), ..LinkEnds::default() }
        }
        LinkType::LINUX_SLL2 if packet.data.get(11) == Some(&6) => {
            LinkEnds { sender: mac(12), ..LinkEnds::default() }
        }
        _ => LinkEnds::default(),
    }
}

/// The ends of a frame of IEEE 802.11, from frame control on.
fn of_wifi(frame: &[u8]) -> LinkEnds<'_> {
    let Some(&[control, flags]) = frame.first_chunk::<2>() else { return LinkEnds::default() };
    let address = |at: usize| frame.get(at..)?.first_chunk::<6>().copied();
    let (first, second, third) = (address(4), address(10), address(16));
    let subtype = control >> 4;
    let ends = LinkEnds { receiver: first, ..LinkEnds::default() };
    match control & 0x0c {
        // 9.3.3.1.
        0x00 => LinkEnds {
            sender: second,
            bssid: third,
            ssid: ssid(frame, subtype, flags),
            wifi: Some(WifiKind::Management(subtype)),
            station: of_network(subtype).then(|| other(first, second, third)).flatten(),
            channel: channel(frame, subtype, flags),
            ..ends
        },
        // 9.3.1: clear to send and acknowledgements have a receiver only.
        0x04 => {
            let sender = second.filter(|_| has_transmitter(subtype));
            let bssid = match subtype {
                PS_POLL => first,
                CF_END | CF_END_ACK => second,
                _ => None,
            };
            LinkEnds { sender, bssid, wifi: Some(WifiKind::Control(subtype)), ..ends }
        }
        0x08 => {
            // Table 9-30.
            let (receiver, sender, bssid) = match flags & (TO_DS | FROM_DS) {
                0 => (first, second, third),
                TO_DS => (third, second, first),
                FROM_DS => (first, third, second),
                _ => (third, address(24), None),
            };
            // Behind an access point there are hosts without radio.
            let station = bssid.and_then(|_| other(first, second, bssid));
            let wifi = Some(of_data(frame, control, flags));
            LinkEnds { sender, receiver, bssid, wifi, station, ..ends }
        }
        _ => LinkEnds { wifi: Some(WifiKind::Extension(subtype)), ..LinkEnds::default() },
    }
}

/// Subtypes of control frames (IEEE 802.11-2020, table 9-1).
const PS_POLL: u8 = 10;
const CTS: u8 = 12;
const ACK: u8 = 13;
const CF_END: u8 = 14;
const CF_END_ACK: u8 = 15;

/// Whether a control frame has the address of its transmitter: those that request, announce or end something.
fn has_transmitter(subtype: u8) -> bool {
    // A wrapper has the receiver's address, and then the frame that it carries; an extension has a form of its own.
    !matches!(subtype, CTS | ACK | 0..=1 | 6 | 7)
}

fn of_data(frame: &[u8], control: u8, flags: u8) -> WifiKind {
    let is_later = frame.get(22).is_some_and(|low| low & 0xf != 0);
    match () {
        () if control & EMPTY != 0 => WifiKind::Null,
        () if flags & PROTECTED != 0 => WifiKind::Encrypted,
        () if is_later => WifiKind::Fragment,
        () => WifiKind::Data,
    }
}

/// Whether management of that subtype is exchanged by a network with its stations: not the search for networks, and not what
/// is for everyone (9.3.3).
fn of_network(subtype: u8) -> bool {
    matches!(subtype, 0..=3 | 10..=14)
}

/// The one of receiver and transmitter that is not the access point; `None` if it is a group.
fn other(receiver: Option<Mac>, transmitter: Option<Mac>, bssid: Option<Mac>) -> Option<Mac> {
    let station = if transmitter == bssid { receiver } else { transmitter }?;
    let [first, ..] = station;
    (first & 1 == 0 && Some(station) != bssid).then_some(station)
}

/// Maximum bytes of a network's name (9.4.2.2).
const MAX_SSID: usize = 32;

/// Elements of management frames (9.4.2.1): the name of the network; its channel, of 2.4 GHz and of any band.
const SSID: u8 = 0;
const DS_PARAMETER_SET: u8 = 3;
const HT_OPERATION: u8 = 61;

/// The first element of one of these kinds in a management frame (9.3.3).
fn element<'a>(frame: &'a [u8], subtype: u8, flags: u8, kinds: &[u8]) -> Option<&'a [u8]> {
    // Bytes of the fixed fields before the elements.
    let fixed = match subtype {
        // Association request; reassociation request; probe request; probe response and beacon.
        0 => 4,
        2 => 10,
        4 => 0,
        5 | 8 => 12,
        _ => return None,
    };
    if flags & PROTECTED != 0 {
        return None;
    }
    let header = if flags & ORDER != 0 { 28 } else { 24 };
    let mut elements = frame.get(header + fixed..).unwrap_or_default();
    while let [kind, length, rest @ ..] = elements {
        let (value, next) = rest.split_at_checked(usize::from(*length))?;
        if kinds.contains(kind) {
            return Some(value);
        }
        elements = next;
    }
    None
}

/// The name of the network in a management frame.
fn ssid(frame: &[u8], subtype: u8, flags: u8) -> &[u8] {
    let name = element(frame, subtype, flags, &[SSID]).unwrap_or_default();
    // A hidden name has no bytes, or only zeros.
    let is_hidden = name.iter().all(|byte| *byte == 0);
    if is_hidden || name.len() > MAX_SSID { &[] } else { name }
}

/// The channel of the network that sends a beacon or a probe response.
fn channel(frame: &[u8], subtype: u8, flags: u8) -> Option<u8> {
    if !matches!(subtype, 5 | 8) {
        return None;
    }
    // The first byte of both.
    let channel = element(frame, subtype, flags, &[DS_PARAMETER_SET, HT_OPERATION])?.first();
    channel.copied().filter(|channel| *channel != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, packet};

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];
    const C: Mac = [2, 0, 0, 0, 0, 0xc];
    const D: Mac = [2, 0, 0, 0, 0, 0xd];

    /// A frame with four addresses.
    fn frame(control: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let parts: [&[u8]; 6] = [&[control, flags, 0, 0], &A, &B, &C, &[0x10, 0], body];
        parts.concat()
    }

    fn ends(frame: &[u8]) -> LinkEnds<'_> {
        link_ends(&packet(frame, LinkType::IEEE802_11))
    }

    #[test]
    fn addresses_of_data_follow_its_way() {
        let of = |flags| {
            let frame = frame(0x08, flags, &D);
            let LinkEnds { sender, receiver, bssid, wifi, .. } = ends(&frame);
            assert_eq!(wifi, Some(WifiKind::Data));
            (sender.unwrap(), receiver.unwrap(), bssid)
        };
        assert_eq!(of(0), (B, A, Some(C)));
        assert_eq!(of(TO_DS), (B, C, Some(A)));
        assert_eq!(of(FROM_DS), (C, A, Some(B)));
        assert_eq!(of(TO_DS | FROM_DS), (D, C, None));
    }

    #[test]
    fn kinds_of_data() {
        let of = |control, flags| ends(&frame(control, flags, &[])).wifi.unwrap();
        assert_eq!(of(0x48, 0), WifiKind::Null);
        assert_eq!(of(0xc8, PROTECTED), WifiKind::Null);
        assert_eq!(of(0x88, PROTECTED), WifiKind::Encrypted);
        let mut later = frame(0x08, 0, &[]);
        later[22] = 0x11;
        assert_eq!(ends(&later).wifi, Some(WifiKind::Fragment));
        assert_eq!(of(0x1c, 0), WifiKind::Extension(1));
    }

    #[test]
    fn control_frames_have_the_addresses_of_their_kind() {
        let of = |subtype: u8| {
            let frame = frame(subtype << 4 | 4, 0, &[]);
            let ends = ends(&frame);
            assert_eq!((ends.receiver, ends.wifi), (Some(A), Some(WifiKind::Control(subtype))));
            (ends.sender, ends.bssid)
        };
        assert_eq!(of(ACK), (None, None), "what follows is a check sequence");
        assert_eq!(of(CTS), (None, None));
        assert_eq!(of(11), (Some(B), None));
        assert_eq!(of(PS_POLL), (Some(B), Some(A)));
        assert_eq!(of(CF_END), (Some(B), Some(B)));
    }

    #[test]
    fn names_of_networks_are_where_a_frame_has_them() {
        let name = |subtype: u8, flags, body: &[u8]| {
            let frame = frame(subtype << 4, flags, body);
            let ends = ends(&frame);
            assert_eq!((ends.sender, ends.receiver, ends.bssid), (Some(B), Some(A), Some(C)));
            String::from_utf8_lossy(ends.ssid).into_owned()
        };
        let element = [&[3, 1, 6, 0, 4][..], b"home"].concat();
        let body = |fixed: usize| [&vec![0; fixed][..], &element].concat();
        for (subtype, fixed) in [(8, 12), (5, 12), (4, 0), (0, 4), (2, 10)] {
            assert_eq!(name(subtype, 0, &body(fixed)), "home", "{subtype}");
            assert_eq!(name(subtype, ORDER, &body(fixed + 4)), "home", "{subtype} with HT control");
            assert_eq!(name(subtype, PROTECTED, &body(fixed)), "", "{subtype} encrypted");
        }
        assert_eq!(name(12, 0, &body(2)), "", "a deauthentication has no name");
        assert_eq!(name(4, 0, &[0, 0, 1, 1, 2]), "", "a request for any network");
        assert_eq!(name(4, 0, &[0, 3, 0, 0, 0]), "", "a hidden name");
        assert_eq!(name(4, 0, &[0, 33]), "", "cut");
        assert_eq!(name(4, 0, &[&[0, 40][..], &[b'x'; 40]].concat()), "", "longer than a name can be");
    }

    #[test]
    fn channels_are_those_of_beacons_and_probe_responses() {
        let of = |subtype: u8, elements: &[u8]| {
            let fixed = if matches!(subtype, 5 | 8) { 12 } else { 0 };
            let frame = frame(subtype << 4, 0, &[&vec![0; fixed][..], elements].concat());
            ends(&frame).channel
        };
        let name = [0, 2, b'a', b'b'];
        assert_eq!(of(8, &[&name[..], &[1, 1, 2, 3, 1, 11]].concat()), Some(11));
        let ht = [&[61, 22, 36][..], &[0; 21]].concat();
        assert_eq!(of(5, &[&name[..], &ht].concat()), Some(36));
        assert_eq!(of(4, &[3, 1, 11]), None, "the channel of a station that looks for networks");
        assert_eq!(of(8, &[3, 1]), None, "cut");
        assert_eq!(of(8, &[3, 1, 0]), None);
        assert_eq!(of(8, &[3, 0]), None);
    }

    #[test]
    fn stations_are_the_ends_that_are_no_access_point() {
        let between = |control: u8, flags: u8, addresses: [&Mac; 3]| {
            let [one, two, three] = addresses;
            let frame = [&[control, flags, 0, 0][..], one, two, three, &[0; 2]].concat();
            ends(&frame).station
        };
        let group = [1, 0, 0x5e, 0, 0, 1];
        let data = 0x08;
        assert_eq!(between(data, TO_DS, [&A, &B, &C]), Some(B));
        assert_eq!(between(data, FROM_DS, [&B, &A, &C]), Some(B), "C has no radio");
        assert_eq!(between(data, FROM_DS, [&group, &A, &C]), None);
        assert_eq!(between(data, TO_DS | FROM_DS, [&A, &B, &C]), None, "between access points");
        let (association, answer, probe, beacon, deauthentication) = (0x00, 0x10, 0x40, 0x80, 0xc0);
        assert_eq!(between(association, 0, [&A, &B, &A]), Some(B));
        assert_eq!(between(answer, 0, [&B, &A, &A]), Some(B));
        assert_eq!(between(deauthentication, 0, [&B, &A, &A]), Some(B));
        assert_eq!(between(deauthentication, 0, [&[0xff; 6], &A, &A]), None);
        assert_eq!(between(probe, 0, [&A, &B, &A]), None);
        assert_eq!(between(beacon, 0, [&[0xff; 6], &A, &A]), None);
        assert_eq!(between(data, FROM_DS, [&A, &A, &A]), None);
    }

    #[test]
    fn frames_with_a_wrong_check_sequence_are_damaged() {
        let beacon = frame(0x80, 0, &[0; 12]);
        for (flags, is_damaged) in [(0x10, false), (0x50, true), (0x40, true)] {
            let header = [0, 0, 9, 0, 2, 0, 0, 0, flags];
            let packet = [&header[..], &beacon].concat();
            let packet = build::packet(&packet, LinkType::IEEE802_11_RADIOTAP);
            assert_eq!(link_ends(&packet).is_damaged, is_damaged, "{flags:x}");
        }
        assert!(!ends(&beacon).is_damaged);
    }

    #[test]
    fn every_cut_of_a_frame_is_read() {
        let beacon = frame(0x80, 0, &[&[0; 12][..], &[0, 4], b"home"].concat());
        let radio = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &beacon].concat();
        let ppi = [&[0, 0, 8, 0, 105, 0, 0, 0][..], &beacon].concat();
        let cooked = [&[0, 0, 3, 0x21, 0, 6][..], &A, &[0, 0, 0, 4], &beacon].concat();
        let links = [
            (LinkType::IEEE802_11, &beacon),
            (LinkType::IEEE802_11_RADIOTAP, &radio),
            (LinkType::PPI, &ppi),
            (LinkType::LINUX_SLL, &cooked),
        ];
        for (link, bytes) in links {
            for cut in 0..=bytes.len() {
                let found = link_ends(&packet(&bytes[..cut], link));
                assert_eq!(found.ssid == b"home", cut == bytes.len(), "{link:?} {cut}");
            }
        }
    }

    #[test]
    fn ends_of_other_links() {
        let data = [A, B, C].concat();
        let of = |link| {
            let ends = link_ends(&packet(&data, link));
            (ends.receiver, ends.sender, ends.wifi)
        };
        assert_eq!(of(LinkType::ETHERNET), (Some(A), Some(B), None));
        assert_eq!(of(LinkType::RAW), (None, None, None));
        let cooked = [&[0, 0, 0, 1, 0, 6][..], &A, &[0, 0, 8, 6]].concat();
        let ends = link_ends(&packet(&cooked, LinkType::LINUX_SLL));
        assert_eq!((ends.sender, ends.receiver), (Some(A), None));
    }
}
