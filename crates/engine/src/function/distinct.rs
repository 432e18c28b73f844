//! Number of distinct hosts, pairs, ports or flows.

use super::block::{Block, each};
use super::ends::EndpointRoles;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::keyed::{KeyHash, Keyed, Tuple};
use weir_api::{Distinct, DistinctCount, DistinctOf, Level, Reading};
use weir_filter::PacketMask;
use weir_wire::has_ports;

pub(super) static DISTINCT: FunctionSpec = FunctionSpec {
    name: "distinct",
    help: "Number of distinct values, in fixed memory: exact up to 512, above that with a standard error of 1.6%.",
    arguments: &[Argument {
        name: "of",
        help: "Kind of value: sources, destinations, hosts (on either side), pairs (of hosts, in either direction), ports (with the protocol, on either side) or flows (in either direction).",
        default: Some("hosts"),
    }],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Tallies,
    memory: |_| Ok(Memory { state: 512 + Distinct::SIZE, reading: 512 + Distinct::SIZE }),
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments: &Arguments<'_>| {
        let of = arguments.choice("of", &DistinctOf::ALL)?;
        Ok(Box::new(DistinctFunction {
            of,
            hash: KeyHash::wide(arguments.seeds.distinct),
            seen: Distinct::default(),
        }))
    },
};

/// The hash has a key of its own, which a store keeps from run to run. All workers use one key, so that a value seen by several of them counts once.
/// Senders of packets do not have the key and cannot choose packets that bias the estimate.
struct DistinctFunction {
    of: DistinctOf,
    hash: KeyHash,
    seen: Distinct,
}

impl DistinctFunction {
    fn see(&mut self, key: impl Keyed) {
        self.seen.add(key.hash(&self.hash));
    }

    fn see_ends(&mut self, ends: &EndpointRoles) {
        let EndpointRoles { source, destination, ports: [from, to], protocol, .. } = *ends;
        match self.of {
            DistinctOf::Sources => self.see(source),
            DistinctOf::Destinations => self.see(destination),
            DistinctOf::Hosts => {
                self.see(source);
                self.see(destination);
            }
            DistinctOf::Pairs => self.see((source.min(destination), source.max(destination))),
            DistinctOf::Ports if has_ports(protocol) => {
                self.see((protocol, from));
                self.see((protocol, to));
            }
            DistinctOf::Ports => {}
            DistinctOf::Flows => {
                let (low, high) =
                    ((source, from).min((destination, to)), (source, from).max((destination, to)));
                self.see(Tuple { a: low.0, b: high.0, ports: [low.1, high.1], protocol });
            }
        }
    }
}

impl Function for DistinctFunction {
    fn item(&mut self, item: &Item<'_>) {
        if let Some(ends) = EndpointRoles::of(item) {
            self.see_ends(&ends);
        }
    }

    fn block(&mut self, block: &Block<'_>, mask: &PacketMask) {
        match block {
            Block::Tallies(_, shares) => each(shares, mask, |_, share| self.see_ends(&share.ends)),
            Block::Packets(..) => block.each(mask, |item| self.item(item)),
        }
    }

    fn held(&self) -> usize {
        self.seen.memory()
    }

    fn take(&mut self) -> Reading {
        // The hash distinguishes keys without revealing them.
        let name = self.hash.of([]);
        Reading::Distinct(DistinctCount::new(self.of, name, std::mem::take(&mut self.seen)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;
    use weir_api::FunctionCall;
    use weir_wire::{FlowKey, mapped};

    fn function(of: &str, seed: u64) -> Box<dyn Function> {
        DISTINCT.call(&FunctionCall::new("distinct").with("of", of), seed).unwrap()
    }

    /// A packet of 10.`a` to 10.`b`.
    fn see(function: &mut dyn Function, a: u32, b: u32, ports: [u16; 2], proto: u8) {
        let address = |n: u32| mapped((0x0a00_0000 + n).to_be_bytes());
        let (source_is_lower, key) = if a <= b {
            (true, FlowKey { addr: [address(a), address(b)], port: ports, proto, ..FlowKey::default() })
        } else {
            let [from, to] = ports;
            (false, FlowKey { addr: [address(b), address(a)], port: [to, from], proto, ..FlowKey::default() })
        };
        function.item(&Item::Tally(&Tally {
            key: &key,
            source_is_lower,
            initiator_is_lower: true,
            vlan: 0,
            tag: weir_wire::Tag::NONE,
            packets: 1,
            bytes: 60,
            begins: false,
            carrier: false,
            unasked: false,
        }));
    }

    fn reading(function: &mut dyn Function) -> DistinctCount {
        match function.take() {
            Reading::Distinct(count) => count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_counts_its_values() {
        let counts = DistinctOf::ALL.map(|(name, _)| {
            let mut function = function(name, 1);
            for (a, b) in [(1, 2), (2, 1), (1, 3), (1, 2)] {
                see(&mut *function, a, b, if a < b { [4000, 80] } else { [80, 4000] }, 6);
            }
            // Equal addresses and ports over another protocol, and over a protocol without ports.
            see(&mut *function, 1, 2, [4000, 80], 17);
            see(&mut *function, 1, 2, [8, 0], 1);
            let count = reading(&mut *function);
            assert_eq!((count.of.name(), count.relative_error()), (name, 0.0));
            count.estimate()
        });
        // Sources 1 and 2; destinations 2, 1 and 3; three hosts; two pairs; two ports of TCP and of UDP; two flows of
        // TCP, one of UDP and one of ICMP.
        assert_eq!(counts, [2, 3, 3, 2, 4, 4]);
    }

    #[test]
    fn estimates_do_not_depend_on_workers_and_little_on_the_seed() {
        for (name, _) in DistinctOf::ALL {
            for hosts in [20, 300, 20_000] {
                let of = |seed: u64, workers: usize| {
                    let mut functions: Vec<_> = (0..workers).map(|_| function(name, seed)).collect();
                    for n in 0..hosts {
                        let worker = n as usize * 7 % workers;
                        see(&mut *functions[worker], n, n + 1, [n as u16, 80], 6);
                    }
                    let mut sum = reading(&mut *functions[0]);
                    functions[1..].iter_mut().for_each(|function| {
                        let mut whole = Reading::Distinct(sum.clone());
                        whole.merge(&Reading::Distinct(reading(&mut **function)));
                        let Reading::Distinct(count) = whole else { panic!("another shape") };
                        sum = count;
                    });
                    sum
                };
                let alone = of(5, 1);
                assert_eq!(of(5, 3), alone, "{name} {hosts}");
                let off = of(6, 2).estimate() as f64 / alone.estimate() as f64 - 1.0;
                assert!(off.abs() < 6.0 * alone.relative_error().max(1e-9), "{name} {hosts}: {off}");
            }
        }
    }

    /// Keys with the longest runs of zeros under one hash count normally under another.
    #[test]
    fn keys_crafted_for_one_seed_do_not_bias_another() {
        let long_runs = |hash: &KeyHash, key: u64| [0, key].hash(hash) << Distinct::PRECISION < 1 << 54;
        let known = KeyHash::new(1);
        let keys: Vec<u64> = (0..).filter(|key| long_runs(&known, *key)).take(10_000).collect();
        let count = |hash: &KeyHash| {
            let mut seen = Distinct::default();
            keys.iter().for_each(|key| seen.add([0, *key].hash(hash)));
            seen.estimate()
        };
        assert!(count(&known) > 20_000, "the keys bias the estimate under their own seed: {}", count(&known));
        for seed in 2..10 {
            assert!((9_200..10_800).contains(&count(&KeyHash::new(seed))), "seed {seed}");
        }
    }
}
