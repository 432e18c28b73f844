//! Wi-Fi networks and their stations (IEEE 802.11).

use super::FunctionSpec;
use super::link_list::{self, LinkKey, Ssid, mac, word};
use crate::keyed::{KeyHash, Keyed};
use weir_api::{Datum, KeyColumn, NETWORK_NAMES, Schema};
use weir_wire::{Layers, Mac, Packet, WifiKind, link_ends};

pub(super) static WIFI: FunctionSpec = link_list::spec::<Key>(
    "wifi",
    "Wi-Fi networks by access point, name and channel, with a row for the management frames of each, and one for each of its stations, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row. Data frames whose IP packets are readable show no station.",
);

static KEYS: [KeyColumn; 4] = [
    KeyColumn::new("bssid", "", "Hardware address of the access point."),
    KeyColumn::new(
        "ssid",
        NETWORK_NAMES,
        "Name of the network, where the frame has it; none in rows of stations.",
    ),
    KeyColumn::new("channel", "", "Channel, of beacons and probe responses."),
    KeyColumn::new(
        "station",
        "",
        "Hardware address of the station; none in rows of the network's management frames.",
    ),
];

/// A network, or a station of one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Key {
    bssid: Mac,
    ssid: Ssid,
    channel: Option<u8>,
    station: Option<Mac>,
}

impl LinkKey for Key {
    const SCHEMA: Schema = link_list::schema("wifi", &KEYS);
    const TEXTS: usize = Ssid::TEXT;

    fn each(packet: &Packet<'_>, _: &Layers, each: &mut dyn FnMut(Self)) {
        let ends = link_ends(packet);
        let (Some(bssid @ [first, ..]), Some(kind)) = (ends.bssid, ends.wifi) else { return };
        // A station that looks for any network writes the address of everyone.
        if first & 1 != 0 || ends.is_damaged {
            return;
        }
        if matches!(kind, WifiKind::Management(_)) {
            each(Self { bssid, ssid: Ssid::new(ends.ssid), channel: ends.channel, station: None });
        }
        if ends.station.is_some() {
            each(Self { bssid, station: ends.station, ..Self::default() });
        }
    }

    fn parts(&self) -> Vec<Datum> {
        let channel = self.channel.map_or(Datum::Nothing, |channel| Datum::Number(channel.into()));
        vec![Datum::Mac(self.bssid), self.ssid.part(), channel, mac(self.station)]
    }
}

impl Keyed for Key {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let name = hash.of(self.ssid.words());
        let channel = self.channel.map_or(u64::MAX, u64::from);
        hash.of([word(Some(self.bssid)), name, channel, word(self.station)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Item;
    use crate::function::tests::table_of;
    use weir_api::{FunctionCall, Table};
    use weir_wire::build::packet;
    use weir_wire::{LinkType, decode};

    const AP: Mac = [2, 0, 0, 0, 0, 0xa];
    const ONE: Mac = [2, 0, 0, 0, 0, 1];
    const TWO: Mac = [2, 0, 0, 0, 0, 2];
    const ALL: Mac = [0xff; 6];

    fn frame(control: u8, flags: u8, addresses: [Mac; 3], body: &[u8]) -> Vec<u8> {
        let [one, two, three] = addresses;
        [&[control, flags, 0, 0][..], &one, &two, &three, &[0; 2], body].concat()
    }

    fn beacon(bssid: Mac, name: &[u8], channel: u8) -> Vec<u8> {
        let body = [&[0; 12][..], &[0, name.len() as u8], name, &[3, 1, channel]].concat();
        frame(0x80, 0, [ALL, bssid, bssid], &body)
    }

    fn table(frames: &[Vec<u8>], workers: usize, rows: usize) -> Table {
        table_of(&WIFI, &FunctionCall::new("wifi").with("rows", rows), (frames, workers), |list, frame| {
            let packet = packet(frame, LinkType::IEEE802_11);
            list.item(&Item::Packet(&packet, &decode(&packet)));
        })
    }

    fn frames() -> Vec<Vec<u8>> {
        let encrypted = [0; 20];
        vec![
            beacon(AP, b"home", 6),
            beacon(AP, b"home", 6),
            // A probe for any network, and its answer: no station of the network yet.
            frame(0x40, 0, [ALL, TWO, ALL], &[0, 4, b'h', b'o', b'm', b'e']),
            frame(0x50, 0, [TWO, AP, AP], &[&[0; 12][..], &[0, 4], b"home", &[3, 1, 6]].concat()),
            frame(0xb0, 0, [AP, ONE, AP], &[0; 6]),
            frame(0x08, 0x41, [AP, ONE, TWO], &encrypted),
            // From a host without radio behind the access point.
            frame(0x08, 0x42, [ONE, AP, [4; 6]], &encrypted),
            frame(0x08, 0x42, [ALL, AP, [4; 6]], &encrypted),
        ]
    }

    #[test]
    fn networks_have_names_channels_and_stations() {
        let table = table(&frames(), 1, 64);
        let row = |ssid: Datum, channel: Datum, station: Datum, packets: u64| {
            (vec![Datum::Mac(AP), ssid, channel, station], packets)
        };
        let (name, none) = (Datum::Text("home".into()), Datum::Nothing);
        let mut expected = vec![
            row(name, Datum::Number(6), none.clone(), 3),
            row(none.clone(), none.clone(), none.clone(), 1),
            row(none.clone(), none, Datum::Mac(ONE), 3),
        ];
        expected.sort();
        let found: Vec<_> =
            table.rows.by_key().into_iter().map(|row| (row.key.clone(), row.weight())).collect();
        assert_eq!(found, expected);
        assert!(table.is_exact());
    }

    #[test]
    fn workers_do_not_matter() {
        let frames = std::iter::repeat_with(frames).take(5).flatten().collect::<Vec<_>>();
        let alone = table(&frames, 1, 64);
        for workers in [2, 3, 7] {
            assert_eq!(table(&frames, workers, 64), alone, "{workers}");
        }
    }

    /// Of beacons of ever new networks, what has no row is stated, and a network that is often seen stays.
    #[test]
    fn a_flood_of_beacons_is_bounded() {
        let mut frames = Vec::new();
        for n in 0..4_000_u32 {
            let [a, b, c, d] = n.to_be_bytes();
            frames.push(beacon([2, 1, a, b, c, d], format!("net {n}").as_bytes(), 1));
            frames.extend((n % 4 == 0).then(|| beacon(AP, b"home", 6)));
        }
        let table = table(&frames, 1, 64);
        let home = table.rows.iter().find(|row| row.key[0] == Datum::Mac(AP)).unwrap();
        assert!((home.weight()..=home.weight() + home.error).contains(&1_000), "{home:?}");
        let listed: u64 = table.rows.iter().map(|row| row.weight()).sum();
        assert_eq!(listed + table.shed.as_ref().unwrap()[0], 5_000);
        assert!(table.rows.len() <= 64 && table.absent > 0);
        let stated = WIFI.memory(&FunctionCall::new("wifi").with("rows", 64)).unwrap();
        assert!(table.memory() <= stated.reading);
    }
}
