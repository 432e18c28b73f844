//! Packets without IP by what they are.

use super::FunctionSpec;
use super::link_list::{self, LinkKey};
use crate::keyed::{KeyHash, Keyed};
use crate::non_ip::{MAX_NAME, NonIp};
use weir_api::{Datum, KeyColumn, OWN_WORDS, Schema};
use weir_wire::{Layers, Packet, Tunnel};

pub(super) static NONIP: FunctionSpec = link_list::spec::<NonIp>(
    "nonip",
    "Packets without IP by protocol (ARP, STP, management of Wi-Fi), without packets in tunnels and those that could not be decoded, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row.",
);

static KEYS: [KeyColumn; 1] =
    [KeyColumn::new("protocol", OWN_WORDS, "Protocol that the link layer announces, or kind of the frame.")];

impl LinkKey for NonIp {
    const SCHEMA: Schema = link_list::schema("non_ip", &KEYS);
    const TEXTS: usize = MAX_NAME;

    fn each(packet: &Packet<'_>, layers: &Layers, each: &mut dyn FnMut(Self)) {
        // Errors of decoding are counted in the ledger.
        if layers.tunnel == Tunnel::None && layers.error.is_none() {
            each(Self::of(packet, layers));
        }
    }

    fn parts(&self) -> Vec<Datum> {
        vec![Datum::Text(self.name().into())]
    }
}

impl Keyed for NonIp {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let (class, value) = match *self {
            Self::Wifi(frame) => (0, frame as u16),
            Self::EtherType(kind) => (1, kind),
            Self::Cisco(kind) => (2, kind),
            Self::Llc(service) => (3, service.into()),
        };
        hash.of([class << 16 | u64::from(value)])
    }
}
