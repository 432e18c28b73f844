//! Flows that were chosen before the pass, whose packets are the scope of a run.

use std::collections::HashMap;
use std::net::IpAddr;
use weir_api::basis::CLOSING;
use weir_api::mapped;
use weir_wire::{FlowKey, Layers, Packet, decapsulate, has_ports};

/// Headers of packets in packets that are looked at.
const MAX_HEADERS: usize = 8;

const TCP: u8 = 6;

/// Both ends of a flow, the lower first, and its IP protocol.
type Ends = ([(u128, u16); 2], u8);

/// Flows by their ends and times.
#[derive(Clone, Debug, Default)]
pub struct ChosenFlows {
    /// The first and the last time at which packets belong to a flow, in nanoseconds since 1970.
    times: HashMap<Ends, Vec<[u64; 2]>>,
}

impl ChosenFlows {
    /// Adds a flow: its ends, its IP protocol, and the times of its first and its last packet in nanoseconds since 1970.
    pub fn add(&mut self, ends: [(IpAddr, u16); 2], ip_proto: u8, times: [u64; 2]) {
        let [first, last] = times;
        let late = if ip_proto == TCP { CLOSING } else { 0 };
        let ends = ends.map(|(address, port)| (mapped(address), port));
        self.times.entry(of(ends, ip_proto)).or_default().push([first, last.saturating_add(late)]);
    }

    /// Whether a packet belongs to one of them, by its outermost headers or by those in a tunnel. `layers` must be its own.
    pub fn has(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        let mut layers = *layers;
        for _ in 0..MAX_HEADERS {
            if self.has_ends(packet, &layers) {
                return true;
            }
            let Some(inner) = decapsulate(packet, &layers) else { return false };
            layers = inner;
        }
        false
    }

    fn has_ends(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        let Some((key, _)) = FlowKey::of(packet, layers) else { return false };
        let ([low, high], [low_port, high_port]) = (key.addr.map(u128::from_be_bytes), key.port);
        let ends = [(low, low_port), (high, high_port)];
        let times = self.times.get(&of(ends, key.proto));
        times.is_some_and(|times| times.iter().any(|[first, last]| (*first..=*last).contains(&packet.time.0)))
    }
}

/// Ports count for protocols that have some: of others, flows have something else in their place.
fn of(ends: [(u128, u16); 2], ip_proto: u8) -> Ends {
    let mut ends = ends.map(|(address, port)| (address, if has_ports(ip_proto) { port } else { 0 }));
    ends.sort_unstable();
    (ends, ip_proto)
}
