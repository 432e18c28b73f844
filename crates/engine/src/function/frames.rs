//! Packets without IP: who sends what to whom on the link.

use super::FunctionSpec;
use super::link_list::{self, LinkKey, Ssid, mac, word};
use crate::keyed::{KeyHash, Keyed};
use crate::non_ip::{NonIp, WifiFrame};
use std::borrow::Cow;
use weir_api::{Datum, KeyColumn, NETWORK_NAMES, OWN_WORDS, Schema};
use weir_wire::{Layers, LinkEnds, Mac, Packet, WifiKind, link_ends};

pub(super) static FRAMES: FunctionSpec = link_list::spec::<Key>(
    "frames",
    "Packets without IP by sender, receiver and kind (ARP, STP, a beacon of Wi-Fi), and of Wi-Fi by access point and name of the network, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row.",
);

/// Maximum bytes of the name of a kind.
const MAX_NAME: usize = 48;

const SCHEMA: Schema = link_list::schema("frames", &KEYS);

static KEYS: [KeyColumn; 5] = [
    KeyColumn::new("sender", "", "Hardware address of the sender."),
    KeyColumn::new("receiver", "", "Hardware address of the receiver; ff:ff:ff:ff:ff:ff is everyone."),
    KeyColumn::new("kind", OWN_WORDS, "Protocol, or kind of the frame."),
    KeyColumn::new("bssid", "", "Hardware address of the access point, of Wi-Fi."),
    KeyColumn::new("ssid", NETWORK_NAMES, "Name of the wireless network, where the frame has it."),
];

/// What a frame is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Kind {
    /// Not even its link layer could be decoded.
    #[default]
    Undecoded,
    /// A frame of IEEE 802.11 that carries no packet that can be read.
    Wifi(WifiKind),
    EtherType(u16),
    /// An EtherType whose header is cut or malformed.
    Broken(u16),
    Cisco(u16),
    Llc(u8),
}

impl Kind {
    fn of(packet: &Packet<'_>, layers: &Layers, ends: &LinkEnds<'_>) -> Self {
        match (ends.wifi, layers.error) {
            (Some(kind), None) if kind != WifiKind::Data => return Kind::Wifi(kind),
            (_, None) => {}
            (_, Some(_)) if layers.ether_type != 0 => return Kind::Broken(layers.ether_type),
            (Some(kind), Some(_)) => return Kind::Wifi(kind),
            (None, Some(_)) => return Kind::Undecoded,
        }
        match NonIp::carried(packet, layers) {
            NonIp::EtherType(kind) => Kind::EtherType(kind),
            NonIp::Cisco(kind) => Kind::Cisco(kind),
            NonIp::Llc(service) => Kind::Llc(service),
            NonIp::Wifi(_) => Kind::Undecoded,
        }
    }

    /// A number for each kind.
    fn number(self) -> u64 {
        let (class, value) = match self {
            Kind::Undecoded => (0, 0),
            Kind::EtherType(kind) => (1, kind),
            Kind::Broken(kind) => (2, kind),
            Kind::Cisco(kind) => (3, kind),
            Kind::Llc(service) => (4, service.into()),
            Kind::Wifi(WifiKind::Management(subtype)) => (5, subtype.into()),
            Kind::Wifi(WifiKind::Control(subtype)) => (6, subtype.into()),
            Kind::Wifi(WifiKind::Extension(subtype)) => (7, subtype.into()),
            Kind::Wifi(WifiKind::Data) => (8, 0),
            Kind::Wifi(WifiKind::Null) => (8, 1),
            Kind::Wifi(WifiKind::Fragment) => (8, 2),
            Kind::Wifi(WifiKind::Encrypted) => (8, 3),
        };
        class << 16 | u64::from(value)
    }

    fn name(self) -> Cow<'static, str> {
        match self {
            Kind::Undecoded => Cow::Borrowed("not decoded"),
            Kind::EtherType(kind) => NonIp::EtherType(kind).name(),
            Kind::Broken(kind) => Cow::Owned(format!("{}, cut or malformed", NonIp::EtherType(kind).name())),
            Kind::Cisco(kind) => NonIp::Cisco(kind).name(),
            Kind::Llc(service) => NonIp::Llc(service).name(),
            Kind::Wifi(kind) => wifi_name(kind),
        }
    }
}

/// The name of a kind of frame of IEEE 802.11 (IEEE 802.11-2020, table 9-1).
fn wifi_name(kind: WifiKind) -> Cow<'static, str> {
    Cow::Borrowed(match kind {
        WifiKind::Management(0) => "association request",
        WifiKind::Management(1) => "association response",
        WifiKind::Management(2) => "reassociation request",
        WifiKind::Management(3) => "reassociation response",
        WifiKind::Management(4) => "probe request",
        WifiKind::Management(5) => "probe response",
        WifiKind::Management(6) => "timing advertisement",
        WifiKind::Management(8) => "beacon",
        WifiKind::Management(9) => "ATIM",
        WifiKind::Management(10) => "disassociation",
        WifiKind::Management(11) => "authentication",
        WifiKind::Management(12) => "deauthentication",
        WifiKind::Management(13 | 14) => "action",
        WifiKind::Control(2) => "trigger",
        WifiKind::Control(4) => "beamforming report poll",
        WifiKind::Control(5) => "sounding announcement",
        WifiKind::Control(7) => "control wrapper",
        WifiKind::Control(8) => "block ack request",
        WifiKind::Control(9) => "block ack",
        WifiKind::Control(10) => "PS-Poll",
        WifiKind::Control(11) => "RTS",
        WifiKind::Control(12) => "CTS",
        WifiKind::Control(13) => "ack",
        WifiKind::Control(14 | 15) => "CF-End",
        WifiKind::Data => return NonIp::Wifi(WifiFrame::Data).name(),
        WifiKind::Encrypted => return NonIp::Wifi(WifiFrame::Encrypted).name(),
        WifiKind::Null => "Wi-Fi data without content",
        WifiKind::Fragment => "later fragment of Wi-Fi data",
        WifiKind::Management(subtype) => return Cow::Owned(format!("Wi-Fi management {subtype}")),
        WifiKind::Control(subtype) => return Cow::Owned(format!("Wi-Fi control {subtype}")),
        WifiKind::Extension(subtype) => return Cow::Owned(format!("Wi-Fi extension {subtype}")),
    })
}

/// A conversation on the link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Key {
    sender: Option<Mac>,
    receiver: Option<Mac>,
    bssid: Option<Mac>,
    kind: Kind,
    ssid: Ssid,
}

impl LinkKey for Key {
    const SCHEMA: Schema = SCHEMA;
    const TEXTS: usize = MAX_NAME + Ssid::TEXT;

    fn each(packet: &Packet<'_>, layers: &Layers, each: &mut dyn FnMut(Self)) {
        let ends = link_ends(packet);
        each(Self {
            sender: ends.sender,
            receiver: ends.receiver,
            bssid: ends.bssid,
            kind: Kind::of(packet, layers, &ends),
            ssid: Ssid::new(ends.ssid),
        });
    }

    fn parts(&self) -> Vec<Datum> {
        vec![
            mac(self.sender),
            mac(self.receiver),
            Datum::Text(self.kind.name().into()),
            mac(self.bssid),
            self.ssid.part(),
        ]
    }
}

impl Keyed for Key {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let name = hash.of(self.ssid.words());
        hash.of([word(self.sender), word(self.receiver), word(self.bssid), self.kind.number(), name])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChecksumMode, Plan, Settings, Worker};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use weir_api::{Folded, FunctionCall, Reading, Snapshot, SubscriptionSpec, Table, TableRow};
    use weir_filter::Options;
    use weir_flow::FlowConfig;
    use weir_wire::build::{self, packet};
    use weir_wire::{LinkType, PacketBuf, Time};

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];
    const ALL: Mac = [0xff; 6];

    type Frame = (Vec<u8>, LinkType);

    fn ethernet(sender: Mac, receiver: Mac, rest: &[u8]) -> Frame {
        ([&receiver[..], &sender, rest].concat(), LinkType::ETHERNET)
    }

    /// A frame between a station and an access point.
    fn wifi(control: u8, flags: u8, body: &[u8]) -> Frame {
        let parts: [&[u8]; 6] = [&[control, flags, 0, 0], &A, &B, &B, &[0, 0], body];
        (parts.concat(), LinkType::IEEE802_11)
    }

    fn arp() -> Vec<u8> {
        [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat()
    }

    fn ip(n: u8) -> Frame {
        (build::ethernet().ipv4([10, 0, 0, n], [10, 0, 0, 2]).udp(9, 9).payload(b"data"), LinkType::ETHERNET)
    }

    /// The list of some workers, to each of which every n-th packet goes, and their whole.
    fn read(frames: &[Frame], workers: usize, call: &FunctionCall, expression: &str) -> (Table, Snapshot) {
        let settings = Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let spec = SubscriptionSpec::new("list", expression, vec![call.clone()]);
        let plan = Arc::new(Plan::new("", vec![spec], settings).unwrap());
        let mut whole: Option<Snapshot> = None;
        for worker in 0..workers {
            let mut chunk = PacketBuf::default();
            for (frame, link) in frames.iter().skip(worker).step_by(workers) {
                chunk.push(&packet(frame, *link));
            }
            let config = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
            let mut worker = Worker::new(Arc::clone(&plan), &config);
            worker.batch(chunk.batch(), &mut ());
            let mut snapshot = worker.tick(Time(9), &mut ());
            snapshot.fill();
            match &mut whole {
                Some(whole) => whole.merge(&snapshot),
                None => whole = Some(snapshot),
            }
        }
        let whole = whole.unwrap();
        let Reading::Table(table) = &whole.answers[0].reading else { panic!("a table") };
        (table.clone(), whole)
    }

    fn call(rows: usize) -> FunctionCall {
        FunctionCall::new("frames").with("rows", rows)
    }

    /// Key and packets of each row, in words.
    fn words(table: &Table) -> BTreeMap<String, u64> {
        let word = |datum: &Datum| match datum {
            Datum::Mac(mac) => weir_api::mac_text(mac).replace("02:00:00:00:00:0", ""),
            Datum::Text(text) => text.to_string(),
            _ => "-".to_owned(),
        };
        let key = |row: &TableRow| row.key.iter().map(word).collect::<Vec<_>>().join(" ");
        table.rows.iter().map(|row| (key(row), row.weight())).collect()
    }

    /// Frames of many kinds, with the key of each.
    fn examples() -> Vec<(Frame, &'static str)> {
        let beacon = [&[0; 12][..], &[0, 4], b"home"].concat();
        let llc_of = |kind: [u8; 2]| [&[0xaa, 0xaa, 3, 0, 0, 0][..], &kind, &[1, 3, 0, 0]].concat();
        let cut = |(mut frame, link): Frame, len| {
            frame.truncate(len);
            (frame, link)
        };
        vec![
            (ethernet(A, ALL, &arp()), "a ff:ff:ff:ff:ff:ff ARP - -"),
            (ethernet(A, B, &arp()), "a b ARP - -"),
            (ethernet(B, A, &[0, 3, 0x42, 0x42, 3]), "b a STP - -"),
            (ethernet(A, B, &[0x88, 0xcc, 2, 7]), "a b LLDP - -"),
            (ethernet(A, B, &[0x12, 0x34, 2, 7]), "a b type 0x1234 - -"),
            (
                ethernet(A, B, &[&[0, 10, 0xaa, 0xaa, 3, 0, 0, 0xc, 0x20, 0][..], &[0; 2]].concat()),
                "a b CDP - -",
            ),
            (ethernet(A, B, &[&[0x81, 0, 0, 5][..], &arp()].concat()), "a b ARP - -"),
            (cut(ethernet(A, B, &arp()), 20), "a b ARP, cut or malformed - -"),
            (ethernet(A, B, &[8, 0, 0x45, 0]), "a b IPv4, cut or malformed - -"),
            (cut(ethernet(A, B, &arp()), 8), "- b not decoded - -"),
            (wifi(0x80, 0, &beacon), "b a beacon b home"),
            (wifi(0xc0, 0, &[7, 0]), "b a deauthentication b -"),
            (wifi(0xd4, 0, &[]), "- a ack - -"),
            (wifi(0x08, 0x42, &[0; 20]), "b a encrypted Wi-Fi b -"),
            (wifi(0x48, 2, &[]), "b a Wi-Fi data without content b -"),
            (wifi(0x08, 2, &llc_of([0x88, 0x8e])), "b a EAPOL b -"),
            (wifi(0x08, 2, &[0x42, 0x42, 3, 0]), "b a STP b -"),
            (wifi(0x70, 0, &[]), "b a Wi-Fi management 7 b -"),
            (wifi(0x2c, 0, &[]), "- - Wi-Fi extension 2 - -"),
        ]
    }

    #[test]
    fn each_packet_without_ip_counts_to_its_ends_and_its_kind() {
        for (frame, key) in examples() {
            let (table, whole) = read(&[ip(1), frame.clone(), ip(3)], 1, &call(16), "");
            assert_eq!(words(&table), BTreeMap::from([(key.to_owned(), 1)]), "{frame:02x?}");
            assert_eq!(whole.ledger.unflowed, 1, "{key}");
            assert_eq!(table.rows[0].values[1], Folded::Sum(frame.0.len() as u64), "{key}");
        }
        let (table, whole) = read(&[ip(1), ip(2)], 1, &call(16), "");
        assert_eq!((table.rows.len(), table.shed, whole.ledger.unflowed), (0, Some(vec![0, 0]), 0));
    }

    #[test]
    fn workers_do_not_matter() {
        let mut frames: Vec<Frame> = Vec::new();
        for (at, (frame, _)) in examples().into_iter().enumerate() {
            frames.extend(vec![frame; at % 4 + 1]);
            frames.push(ip(at as u8));
        }
        let (table, whole) = read(&frames, 1, &call(1024), "");
        assert!(table.is_exact());
        assert_eq!(table.whole()[0].weight(), whole.ledger.unflowed);
        for workers in [2, 3, 7] {
            assert_eq!(read(&frames, workers, &call(1024), "").0, table, "{workers}");
        }
    }

    /// Rows and the rest add up, and each true number is within the error of its row.
    #[test]
    fn a_flood_of_senders_is_bounded_and_adds_up() {
        let mut truth: BTreeMap<String, u64> = BTreeMap::new();
        let mut frames = Vec::new();
        for n in 0..3_000_u32 {
            let [_, _, high, low] = n.to_be_bytes();
            let sender =
                if n % 3 == 0 { [2, 0, 0, 0, 0, (n % 7) as u8 + 1] } else { [4, 0, 0, 0, high, low] };
            let (frame, link) = ethernet(sender, ALL, &arp());
            let mac = weir_api::mac_text(&sender).replace("02:00:00:00:00:0", "");
            *truth.entry(format!("{mac} ff:ff:ff:ff:ff:ff ARP - -")).or_default() += 1;
            frames.push((frame, link));
            frames.push(ip(n as u8));
        }
        for workers in [1, 3] {
            let (table, whole) = read(&frames, workers, &call(16), "");
            assert_eq!(whole.ledger.unflowed, 3_000);
            let [packets, bytes] = table.shed.as_deref().unwrap() else { panic!("two columns") };
            let sums: Vec<u64> = table.whole().iter().map(Folded::weight).collect();
            assert_eq!((sums[0] + packets, sums[1] + bytes), (3_000, 3_000 * 42));
            assert!(*packets > 0 && table.rows.len() <= table.capacity, "{workers}");
            let found = words(&table);
            for row in &table.rows {
                let alone = Table::new(SCHEMA, 1, vec![row.clone()], 0);
                let (key, count) = words(&alone).pop_first().unwrap();
                assert!((count..=count + row.error).contains(&truth[&key]), "{key}: {count}, {row:?}");
            }
            let missing = truth.iter().filter(|(key, _)| !found.contains_key(*key));
            assert!(missing.map(|(_, count)| *count).max() <= Some(table.absent), "{workers}");
        }
    }

    #[test]
    fn an_expression_narrows_the_list() {
        let frames: Vec<Frame> = examples().into_iter().map(|(frame, _)| frame).chain([ip(1)]).collect();
        let (table, _) = read(&frames, 1, &call(64), "ether host 02:00:00:00:00:0b and not arp");
        let found = words(&table);
        assert!(found.contains_key("a b LLDP - -") && !found.contains_key("a b ARP - -"), "{found:?}");
        let (all, _) = read(&frames, 1, &call(64), "greater 1");
        assert_eq!(all.rows, read(&frames, 1, &call(64), "").0.rows, "packets with IP are in no such list");
    }

    #[test]
    fn names_of_kinds_fit() {
        let mut kinds = vec![Kind::Undecoded];
        for value in 0..=u16::MAX {
            kinds.extend([Kind::EtherType(value), Kind::Broken(value), Kind::Cisco(value)]);
        }
        for value in 0..=u8::MAX {
            kinds.push(Kind::Llc(value));
        }
        for subtype in 0..16 {
            let wifi =
                [WifiKind::Management(subtype), WifiKind::Control(subtype), WifiKind::Extension(subtype)];
            kinds.extend(wifi.map(Kind::Wifi));
        }
        let data = [WifiKind::Data, WifiKind::Null, WifiKind::Fragment, WifiKind::Encrypted];
        kinds.extend(data.map(Kind::Wifi));
        let longest = kinds.iter().map(|kind| kind.name().len()).max();
        assert!(longest <= Some(MAX_NAME), "{longest:?}");
        let mut numbers: Vec<u64> = kinds.iter().map(|kind| kind.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), kinds.len());
    }
}
