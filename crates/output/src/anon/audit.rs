//! What was in a capture, looked for in what was made of it.
//!
//! An address is looked for as octets and as text, a name and a user as text. What is not looked for: addresses and names
//! that another original was mapped to, and those that say nothing of anybody (0.0.0.0, ::, loopback, broadcast, and
//! names that the policy keeps).

use super::{Anonymiser, dns};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_proto::{Kind, Privacy, Record, Value};
use weir_wire::{Network, Packet, addresses, decapsulate, decode};

/// What is to be found nowhere.
#[derive(Debug, Default)]
pub struct Originals {
    addresses: BTreeSet<IpAddr>,
    names: BTreeSet<Vec<u8>>,
}

/// Shorter names are found everywhere by chance.
const SHORTEST: usize = 4;
/// Names that are looked for at most: of a flood of random ones any part shows a leak.
const MOST: usize = 200_000;

impl Originals {
    /// Notes the addresses in the headers of a packet, and the names of a message of DNS.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let mut layers = decode(packet);
        loop {
            if let Some((source, destination)) = addresses(packet, &layers) {
                self.address(Ipv6Addr::from(source).to_canonical());
                self.address(Ipv6Addr::from(destination).to_canonical());
            }
            if layers.network_kind == Network::Arp
                && let Some(body) = packet.data.get(layers.network as usize..)
                && let Some(&[_, _, 8, 0, 6, 4]) = body.first_chunk::<6>()
            {
                for at in [14, 24] {
                    if let Some(octets) = body.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
                        self.address(Ipv4Addr::from(*octets).into());
                    }
                }
            }
            if layers.ip_proto == 17 && layers.ports.iter().any(|port| matches!(port, 53 | 5353 | 5355)) {
                dns::names(layers.payload_of(packet.data), |name| self.name(name));
            }
            match decapsulate(packet, &layers) {
                Some(inner) => layers = inner,
                None => break,
            }
        }
    }

    /// Notes what a record tells of somebody.
    pub fn record(&mut self, record: &Record<'_>) {
        for (field, value) in record.table.fields.iter().zip(&record.values) {
            self.value(value, field.privacy, &field.kind);
        }
    }

    fn value(&mut self, value: &Value<'_>, privacy: Privacy, kind: &Kind) {
        match (value, kind) {
            (Value::Address(address), _) => self.address(*address),
            (Value::List(values), Kind::List(kind) | Kind::Set(kind)) => {
                values.iter().for_each(|value| self.value(value, privacy, kind));
            }
            (Value::Rows(rows), Kind::Rows(fields)) => {
                for (field, value) in rows.iter().flat_map(|row| fields.iter().zip(row)) {
                    self.value(value, field.privacy, &field.kind);
                }
            }
            (Value::Text(text), _) if matches!(privacy, Privacy::Name | Privacy::User | Privacy::Mail) => {
                self.name(text);
            }
            _ => {}
        }
    }

    fn address(&mut self, address: IpAddr) {
        let is_nobodys = match address {
            IpAddr::V4(v4) => {
                v4.is_unspecified() || v4.is_broadcast() || v4.is_loopback() || v4.is_multicast()
            }
            IpAddr::V6(v6) => v6.is_unspecified() || v6.is_loopback() || v6.is_multicast(),
        };
        if !is_nobodys && self.addresses.len() < MOST {
            self.addresses.insert(address);
        }
    }

    fn name(&mut self, name: &[u8]) {
        let name = name.trim_ascii().to_ascii_lowercase();
        if name.len() >= SHORTEST && self.names.len() < MOST {
            self.names.insert(name);
        }
    }

    /// How many there are: addresses, and names.
    pub fn len(&self) -> (usize, usize) {
        (self.addresses.len(), self.names.len())
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// What looks for them in what the anonymiser has made.
    ///
    /// # Errors
    /// When there are too many for the search's tables.
    pub fn finder(&self, anonymiser: &mut Anonymiser) -> Result<Finder, String> {
        let images: BTreeSet<IpAddr> =
            self.addresses.iter().map(|address| anonymiser.addresses.ip(*address)).collect();
        let wanted: Vec<IpAddr> = self.addresses.difference(&images).copied().collect();
        let names: Vec<(&Vec<u8>, Vec<u8>)> =
            self.names.iter().map(|name| (name, anonymiser.text(Privacy::Name, name))).collect();
        let images: BTreeSet<&Vec<u8>> = names.iter().map(|(_, image)| image).collect();
        let names = names.iter().filter(|(name, image)| *name != image && !images.contains(name));
        let mut texts: Vec<Vec<u8>> = wanted.iter().map(|address| address.to_string().into_bytes()).collect();
        texts.extend(names.map(|(name, _)| (*name).clone()));
        let octets: Vec<Vec<u8>> = wanted
            .iter()
            .map(|address| match address {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            })
            .collect();
        let build = |needles: &[Vec<u8>], fold| {
            AhoCorasickBuilder::new()
                .ascii_case_insensitive(fold)
                .build(needles)
                .map_err(|error| error.to_string())
        };
        let (in_text, in_octets) = (build(&texts, true)?, build(&octets, false)?);
        Ok(Finder { wanted: wanted.into_iter().collect(), texts, in_text, in_octets })
    }
}

/// Looks for originals.
pub struct Finder {
    wanted: BTreeSet<IpAddr>,
    texts: Vec<Vec<u8>>,
    in_text: AhoCorasick,
    in_octets: AhoCorasick,
}

/// An original that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leak {
    /// Offset in what was looked through.
    pub at: usize,
    /// What was found.
    pub what: String,
    /// Whether as text; else as octets.
    pub is_text: bool,
}

impl Finder {
    /// Looks through text.
    pub fn text(&self, text: &[u8]) -> Vec<Leak> {
        let is_word = |octet: Option<&u8>| octet.is_some_and(|octet| octet.is_ascii_alphanumeric());
        let found = self.in_text.occurrences(text);
        found
            .filter(|(_, from, to)| !is_word(text.get(from.wrapping_sub(1))) && !is_word(text.get(*to)))
            .filter_map(|(needle, at, _)| {
                let what = String::from_utf8_lossy(self.texts.get(needle)?).into_owned();
                Some(Leak { at, what, is_text: true })
            })
            .collect()
    }

    /// Looks through a packet: its addresses, and whatever is no field of a header that has numbers of another kind.
    pub fn packet(&self, packet: &Packet<'_>) -> Vec<Leak> {
        let mut leaks = Vec::new();
        let mut layers = decode(packet);
        loop {
            if let Some((source, destination)) = addresses(packet, &layers) {
                for address in [source, destination].map(|address| Ipv6Addr::from(address).to_canonical()) {
                    if self.wanted.contains(&address) {
                        let at = layers.network as usize;
                        leaks.push(Leak { at, what: address.to_string(), is_text: false });
                    }
                }
            }
            let (network, transport) = (layers.network as usize, layers.transport as usize);
            match layers.network_kind {
                Network::Ipv4 => self.octets(packet.data, network + 20, transport, &mut leaks),
                Network::Ipv6 => self.octets(packet.data, network + 40, transport, &mut leaks),
                Network::Arp | Network::None => self.all(packet.data, network, &mut leaks),
            }
            match decapsulate(packet, &layers) {
                Some(inner) => layers = inner,
                None => break,
            }
        }
        if matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6) {
            self.all(packet.data, layers.payload as usize, &mut leaks);
        }
        leaks
    }

    fn all(&self, data: &[u8], from: usize, leaks: &mut Vec<Leak>) {
        self.octets(data, from, data.len(), leaks);
        let text = self.text(data.get(from..).unwrap_or_default());
        leaks.extend(text.into_iter().map(|leak| Leak { at: leak.at + from, ..leak }));
    }

    fn octets(&self, data: &[u8], from: usize, to: usize, leaks: &mut Vec<Leak>) {
        let Some(region) = data.get(from..to.min(data.len())) else { return };
        for (_, start, end) in self.in_octets.occurrences(region) {
            let octets = region.get(start..end).unwrap_or_default();
            let address = match octets.first_chunk::<16>() {
                Some(v6) => IpAddr::from(*v6),
                None => octets.first_chunk::<4>().map_or(IpAddr::from([0; 4]), |v4| IpAddr::from(*v4)),
            };
            leaks.push(Leak { at: from + start, what: address.to_string(), is_text: false });
        }
    }
}

/// Every occurrence: number of the needle, beginning and end.
trait Occurrences {
    fn occurrences<'a>(&'a self, haystack: &'a [u8]) -> impl Iterator<Item = (usize, usize, usize)> + 'a;
}

impl Occurrences for AhoCorasick {
    fn occurrences<'a>(&'a self, haystack: &'a [u8]) -> impl Iterator<Item = (usize, usize, usize)> + 'a {
        let found = self.try_find_overlapping_iter(haystack).ok();
        found.into_iter().flatten().map(|hit| (hit.pattern().as_usize(), hit.start(), hit.end()))
    }
}
