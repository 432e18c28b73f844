//! Which hardware addresses claim an IPv4 address by ARP (RFC 826).

use super::FunctionSpec;
use super::link_list::{self, LinkKey, word};
use crate::keyed::{KeyHash, Keyed};
use std::net::Ipv4Addr;
use weir_api::{Datum, KeyColumn, Schema};
use weir_wire::{Layers, Mac, Network, Packet, Reader};

pub(super) static ARP: FunctionSpec = link_list::spec::<Claim>(
    "arp",
    "IPv4 addresses with the hardware addresses that claim them by ARP, as senders of requests, replies and announcements, within a VLAN, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row. Probes claim nothing (RFC 5227).",
);

static KEYS: [KeyColumn; 4] = [
    KeyColumn::new("address", "", "The claimed IPv4 address."),
    KeyColumn::new("vlan", "", "The outer VLAN identifier; none without a tag."),
    KeyColumn::new("inner_vlan", "", "The inner VLAN identifier; none without a second tag."),
    KeyColumn::new("mac", "", "The hardware address that claims it."),
];

/// A claim to an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Claim {
    address: Ipv4Addr,
    vlan: [u16; 2],
    mac: Mac,
}

impl Default for Claim {
    fn default() -> Self {
        Self { address: Ipv4Addr::UNSPECIFIED, vlan: [0; 2], mac: [0; 6] }
    }
}

impl Claim {
    /// The claim of a packet; `None` if it has none.
    fn of(packet: &Packet<'_>, layers: &Layers) -> Option<Self> {
        const ETHERNET: u16 = 1;
        const IPV4: u16 = 0x0800;
        const REQUEST: u16 = 1;
        const REPLY: u16 = 2;
        if layers.network_kind != Network::Arp || layers.error.is_some() {
            return None;
        }
        let mut reader = Reader::new(packet.data.get(layers.network as usize..)?);
        let kinds = (reader.u16()?, reader.u16()?, reader.u8()?, reader.u8()?);
        // Reverse ARP has operations of its own.
        if kinds != (ETHERNET, IPV4, 6, 4) || !matches!(reader.u16()?, REQUEST | REPLY) {
            return None;
        }
        let mac: Mac = *reader.take(6)?.first_chunk()?;
        let address = Ipv4Addr::from_bits(reader.u32()?);
        // A probe has no address of its sender (RFC 5227 2.1.1). A group has no station.
        let is_claim = !address.is_unspecified() && mac != [0; 6] && mac.first()? & 1 == 0;
        is_claim.then_some(Self { address, vlan: layers.vlan, mac })
    }
}

impl LinkKey for Claim {
    const SCHEMA: Schema = link_list::schema("arp", &KEYS);
    const TEXTS: usize = 0;

    fn each(packet: &Packet<'_>, layers: &Layers, each: &mut dyn FnMut(Self)) {
        if let Some(claim) = Self::of(packet, layers) {
            each(claim);
        }
    }

    fn parts(&self) -> Vec<Datum> {
        let vlan = |id: u16| if id == 0 { Datum::Nothing } else { Datum::Number(id.into()) };
        let [outer, inner] = self.vlan;
        vec![Datum::Address(self.address.into()), vlan(outer), vlan(inner), Datum::Mac(self.mac)]
    }
}

impl Keyed for Claim {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let [outer, inner] = self.vlan.map(u64::from);
        hash.of([u64::from(self.address.to_bits()) << 32 | outer << 16 | inner, word(Some(self.mac))])
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

    const ONE: Mac = [2, 0, 0, 0, 0, 1];
    const TWO: Mac = [2, 0, 0, 0, 0, 2];
    const HOST: [u8; 4] = [10, 0, 0, 1];

    /// A packet of ARP: its operation, and the sender's two addresses.
    fn arp(operation: u8, mac: Mac, address: [u8; 4], tag: &[u8]) -> Vec<u8> {
        let head = [&[0xff; 6][..], &mac, tag, &[8, 6]].concat();
        let body = [&[0, 1, 8, 0, 6, 4, 0, operation][..], &mac, &address, &[0; 6], &HOST].concat();
        [head, body].concat()
    }

    fn table(packets: &[Vec<u8>], workers: usize) -> Table {
        table_of(&ARP, &FunctionCall::new("arp").with("rows", 64), (packets, workers), |list, data| {
            let packet = packet(data, LinkType::ETHERNET);
            list.item(&Item::Packet(&packet, &decode(&packet)));
        })
    }

    fn claims(table: &Table) -> Vec<(Vec<Datum>, u64)> {
        table.rows.by_key().into_iter().map(|row| (row.key.clone(), row.weight())).collect()
    }

    fn claim(vlan: Option<u64>, mac: Mac, packets: u64) -> (Vec<Datum>, u64) {
        let vlan = vlan.map_or(Datum::Nothing, Datum::Number);
        (vec![Datum::Address(Ipv4Addr::from(HOST).into()), vlan, Datum::Nothing, Datum::Mac(mac)], packets)
    }

    #[test]
    fn requests_and_replies_claim_the_address_of_their_sender() {
        let tag = [0x81, 0, 0, 5];
        let packets =
            [arp(1, ONE, HOST, &[]), arp(2, ONE, HOST, &[]), arp(2, TWO, HOST, &[]), arp(2, TWO, HOST, &tag)];
        let expected = [claim(None, ONE, 2), claim(None, TWO, 1), claim(Some(5), TWO, 1)];
        assert_eq!(claims(&table(&packets, 1)), expected);
        for workers in [2, 3, 7] {
            assert_eq!(table(&packets, workers), table(&packets, 1), "{workers}");
        }
    }

    #[test]
    fn probes_and_other_packets_claim_nothing() {
        let cut = |mut data: Vec<u8>, len| {
            data.truncate(len);
            data
        };
        let mut other = arp(2, ONE, HOST, &[]);
        other[16] = 0x12;
        let packets = [
            arp(1, ONE, [0; 4], &[]),
            arp(3, ONE, HOST, &[]),
            arp(2, [0xff; 6], HOST, &[]),
            arp(2, [0; 6], HOST, &[]),
            cut(arp(2, ONE, HOST, &[]), 30),
            other,
        ];
        assert_eq!(claims(&table(&packets, 1)), []);
    }
}
