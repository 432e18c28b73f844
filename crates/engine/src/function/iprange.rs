//! Bytes between two networks: Ourmon's `fixed_iprange1`.

use super::classes::Classifier;
use super::{Argument, FunctionSpec, InputKind, Memory};
use crate::Item;
use std::net::IpAddr;
use std::str::FromStr;
use weir_api::{Level, Unit};
use weir_wire::{addresses, mapped};

pub(super) static IPRANGE: FunctionSpec = FunctionSpec {
    name: "iprange",
    help: "IP bytes between two networks, and bytes of all other IP packets; at stream level, bytes of payload.",
    arguments: &[
        Argument { name: "net1", help: "First network, as address/prefix length.", default: None },
        Argument { name: "net2", help: "Second network, as address/prefix length.", default: None },
    ],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (one, two): (Net, Net) = (arguments.parse("net1")?, arguments.parse("net2")?);
        let labels = [format!("{}-{}", arguments.text("net1")?, arguments.text("net2")?), "xtra".to_owned()];
        Ok(Classifier::boxed(&labels, Unit::Bytes, move |item| {
            let (a, b) = match item {
                Item::Packet(packet, layers) => addresses(packet, layers)?,
                _ => item.key().map(|key| key.addr.into())?,
            };
            let between = one.holds(a) && two.holds(b) || one.holds(b) && two.holds(a);
            Some(usize::from(!between))
        }))
    },
};

/// A network, IPv4 mapped into IPv6.
#[derive(Clone, Copy)]
struct Net {
    address: u128,
    mask: u128,
}

impl Net {
    fn holds(self, address: [u8; 16]) -> bool {
        u128::from_be_bytes(address) & self.mask == self.address
    }
}

impl FromStr for Net {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "expected a network such as 10.0.0.0/8 or 2001:db8::/32";
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().map_err(|_| WANTED)?)),
            None => (text, None),
        };
        let (bytes, unused) = match address.parse::<IpAddr>().map_err(|_| WANTED)? {
            IpAddr::V4(v4) => (mapped(v4.octets()), 96),
            IpAddr::V6(v6) => (v6.octets(), 0),
        };
        let prefix = unused + prefix.unwrap_or(128 - unused);
        if prefix > 128 {
            return Err(WANTED);
        }
        let mask = if prefix == 0 { 0 } else { u128::MAX << (128 - prefix) };
        Ok(Self { address: u128::from_be_bytes(bytes) & mask, mask })
    }
}
