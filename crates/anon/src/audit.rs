//! Searches the output of an anonymisation for the originals of a capture.
//!
//! An address is searched as bytes and as text in each of its usual forms; a name, user or mail address as text, as
//! labels of a DNS message and in UTF-16. Excluded are addresses and names that another original was mapped to, and
//! those that identify no host (0.0.0.0, ::, loopback, broadcast, and names that the policy keeps).

use super::{Anonymiser, Treatment, dns};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_proto::{Kind, Privacy, Record, Value};
use weir_wire::{Network, Packet, addresses, decapsulate, decode};

/// The originals to search for.
#[derive(Debug, Default)]
pub struct Originals {
    addresses: BTreeSet<IpAddr>,
    names: BTreeMap<Vec<u8>, Privacy>,
}

/// Minimum length of a name in bytes: shorter ones occur everywhere by chance.
const MIN_LENGTH: usize = 4;

/// Words in the place of a user name that are no names: SASL mechanisms (IANA's registry), as arguments of `AUTH` and
/// `AUTHENTICATE`, and placeholders. They are also common words of logs and headers.
const NOBODYS: &[&str] = &[
    "anonymous",
    "cram-md5",
    "digest-md5",
    "external",
    "gssapi",
    "login",
    "ntlm",
    "oauthbearer",
    "plain",
    "scram-sha-1",
    "scram-sha-256",
    "xoauth2",
];
/// Maximum number of names to search for: of a flood of random ones any part shows a leak.
const MAX: usize = 200_000;

impl Originals {
    /// Notes the addresses in the headers of a packet, and the names in a DNS message.
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
                    if let Some(bytes) = body.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
                        self.address(Ipv4Addr::from(*bytes).into());
                    }
                }
            }
            if layers.ip_proto == 17 && layers.ports.iter().any(|port| matches!(port, 53 | 5353 | 5355)) {
                dns::names(layers.payload_of(packet.data), |name| self.name(name, Privacy::Name));
            }
            match decapsulate(packet, &layers) {
                Some(inner) => layers = inner,
                None => break,
            }
        }
    }

    /// Notes the private values of a record.
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
                self.name(text, privacy);
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
        if !is_nobodys && self.addresses.len() < MAX {
            self.addresses.insert(address);
        }
    }

    fn name(&mut self, name: &[u8], class: Privacy) {
        let name = name.trim_ascii().to_ascii_lowercase();
        // An address in the place of a name is searched for as an address.
        if let Some(address) = std::str::from_utf8(&name).ok().and_then(|name| name.parse().ok()) {
            return self.address(address);
        }
        let is_number = name.iter().all(u8::is_ascii_digit);
        let is_nobodys = NOBODYS.iter().any(|word| word.as_bytes() == name);
        if name.len() >= MIN_LENGTH && !is_number && !is_nobodys && self.names.len() < MAX {
            self.names.entry(name).or_insert(class);
        }
    }

    /// Number of addresses, and of names.
    pub fn len(&self) -> (usize, usize) {
        (self.addresses.len(), self.names.len())
    }

    /// Whether there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// The search over the anonymiser's output.
    ///
    /// # Errors
    ///
    /// There are too many originals for the tables of the search.
    pub fn finder(&self, anonymiser: &mut Anonymiser) -> Result<Finder, String> {
        let images: BTreeSet<IpAddr> =
            self.addresses.iter().map(|address| anonymiser.addresses.ip(*address)).collect();
        let wanted: Vec<IpAddr> = self.addresses.difference(&images).copied().collect();
        let kept = |class: &Privacy| anonymiser.policy.treatment(*class) == Treatment::Keep;
        let names: Vec<(&Vec<u8>, Privacy)> =
            self.names.iter().filter(|(_, class)| !kept(class)).map(|(name, class)| (name, *class)).collect();
        let names: Vec<(&Vec<u8>, Vec<u8>)> =
            names.into_iter().map(|(name, class)| (name, anonymiser.text(class, name))).collect();
        let images: BTreeSet<&Vec<u8>> = names.iter().map(|(_, image)| image).collect();
        let names: Vec<&Vec<u8>> = names
            .iter()
            .filter(|(name, image)| *name != image && !images.contains(name))
            .map(|(name, _)| *name)
            .collect();
        let (mut texts, mut bytes) = (Needles::default(), Needles::default());
        for address in &wanted {
            for form in forms(*address) {
                texts.add(form.into_bytes(), &address.to_string(), true);
            }
            match address {
                IpAddr::V4(v4) => bytes.add(v4.octets().to_vec(), &address.to_string(), true),
                IpAddr::V6(v6) => bytes.add(v6.octets().to_vec(), &address.to_string(), true),
            }
        }
        for name in names {
            let shown = String::from_utf8_lossy(name).into_owned();
            texts.add(name.clone(), &shown, false);
            bytes.add(name.iter().flat_map(|byte| [*byte, 0]).collect(), &shown, false);
            let labels: Vec<&[u8]> = name.split(|byte| *byte == b'.').collect();
            if labels.len() > 1 && labels.iter().all(|label| (1..64).contains(&label.len())) {
                let with_length = |label: &&[u8]| [&[label.len() as u8], *label].concat();
                bytes.add(labels.iter().flat_map(with_length).collect(), &shown, false);
            }
        }
        let (in_text, in_bytes) = (texts.search()?, bytes.search()?);
        Ok(Finder { wanted: wanted.into_iter().collect(), texts, bytes, in_text, in_bytes })
    }
}

/// The text forms of an address.
fn forms(address: IpAddr) -> Vec<String> {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            let padded = format!("{a:03}.{b:03}.{c:03}.{d:03}");
            let mut forms = vec![
                v4.to_string(),
                format!("{a},{b},{c},{d}"),
                format!("{a}-{b}-{c}-{d}"),
                format!("{d}.{c}.{b}.{a}.in-addr.arpa"),
                format!("{a:02x}{b:02x}{c:02x}{d:02x}"),
            ];
            forms.extend((padded != v4.to_string()).then_some(padded));
            forms
        }
        IpAddr::V6(v6) => {
            let whole = v6.segments().map(|segment| format!("{segment:04x}"));
            let nibbles: String = whole.concat();
            let backwards: Vec<String> = nibbles.chars().rev().map(String::from).collect();
            let mut forms = vec![v6.to_string(), format!("{}.ip6.arpa", backwards.join("."))];
            let (parted, short) =
                (whole.join(":"), v6.segments().map(|segment| format!("{segment:x}")).join(":"));
            forms.extend([parted, short].into_iter().filter(|form| *form != v6.to_string()));
            forms.push(nibbles);
            forms
        }
    }
}

/// The patterns, and the original of each.
#[derive(Default)]
struct Needles {
    bytes: Vec<Vec<u8>>,
    of: Vec<(String, bool)>,
}

impl Needles {
    fn add(&mut self, bytes: Vec<u8>, what: &str, is_address: bool) {
        self.bytes.push(bytes);
        self.of.push((what.to_owned(), is_address));
    }

    fn search(&self) -> Result<AhoCorasick, String> {
        AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .build(&self.bytes)
            .map_err(|error| error.to_string())
    }

    fn leak(&self, needle: usize, at: usize, is_text: bool) -> Option<(Leak, bool)> {
        let (what, is_address) = self.of.get(needle)?;
        let exact = *is_address && !is_text;
        Some((Leak { at, what: what.clone(), is_text }, exact))
    }
}

/// Searches for originals.
pub struct Finder {
    wanted: BTreeSet<IpAddr>,
    texts: Needles,
    bytes: Needles,
    in_text: AhoCorasick,
    in_bytes: AhoCorasick,
}

/// An original that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leak {
    /// Offset in the searched data.
    pub at: usize,
    /// The original.
    pub what: String,
    /// Whether it was found as text; else as bytes.
    pub is_text: bool,
}

impl Finder {
    /// The longest pattern in bytes.
    pub fn longest(&self) -> usize {
        self.texts.bytes.iter().chain(&self.bytes.bytes).map(Vec::len).max().unwrap_or(0)
    }

    /// Searches text.
    pub fn text(&self, text: &[u8]) -> Vec<Leak> {
        let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let found = self.in_text.occurrences(text);
        found
            .filter(|(_, from, to)| !is_word(text.get(from.wrapping_sub(1))) && !is_word(text.get(*to)))
            .filter_map(|(needle, at, _)| self.texts.leak(needle, at, true))
            .map(|(leak, _)| leak)
            .collect()
    }

    /// Searches a part of a log. A name that is a key, or part of a header line, is a word of the log itself;
    /// `begins`: the part begins with the header of a table. In binary parts, byte patterns are searched too.
    pub fn log(&self, log: &[u8], begins: bool) -> Vec<Leak> {
        let mut leaks = Vec::new();
        let first_line = log.iter().position(|byte| *byte == b'\n').unwrap_or(log.len());
        let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        for (needle, from, to) in self.in_text.occurrences(log) {
            if is_word(log.get(from.wrapping_sub(1))) || is_word(log.get(to)) {
                continue;
            }
            let is_address = self.texts.of.get(needle).is_some_and(|(_, is_address)| *is_address);
            let behind = log.get(to..).unwrap_or_default();
            let before = log.get(..from).unwrap_or_default();
            let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let is_head = log.get(line) == Some(&b'#') || begins && from < first_line;
            let is_key = behind.starts_with(b"\":") && before.ends_with(b"\"") || behind.starts_with(b"=");
            if is_address || !is_head && !is_key {
                leaks.extend(self.texts.leak(needle, from, true).map(|(leak, _)| leak));
            }
        }
        if log.contains(&0) {
            self.bytes(log, 0, log.len(), &mut leaks);
        }
        leaks
    }

    /// Searches a packet: its addresses, and everything outside header fields of other types.
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
                Network::Ipv4 => self.bytes(packet.data, network + 20, transport, &mut leaks),
                Network::Ipv6 => self.bytes(packet.data, network + 40, transport, &mut leaks),
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
        self.bytes(data, from, data.len(), leaks);
        let text = self.text(data.get(from..).unwrap_or_default());
        leaks.extend(text.into_iter().map(|leak| Leak { at: leak.at + from, ..leak }));
    }

    fn bytes(&self, data: &[u8], from: usize, to: usize, leaks: &mut Vec<Leak>) {
        let Some(region) = data.get(from..to.min(data.len())) else { return };
        for (needle, start, end) in self.in_bytes.occurrences(region) {
            let Some((leak, exact)) = self.bytes.leak(needle, from + start, false) else { continue };
            // The search ignores case; the bytes of an address must be equal.
            if !exact || region.get(start..end) == self.bytes.bytes.get(needle).map(Vec::as_slice) {
                leaks.push(leak);
            }
        }
    }
}

/// Every occurrence: number of the pattern, beginning and end.
trait Occurrences {
    fn occurrences<'a>(&'a self, haystack: &'a [u8]) -> impl Iterator<Item = (usize, usize, usize)> + 'a;
}

impl Occurrences for AhoCorasick {
    fn occurrences<'a>(&'a self, haystack: &'a [u8]) -> impl Iterator<Item = (usize, usize, usize)> + 'a {
        let found = self.try_find_overlapping_iter(haystack).ok();
        found.into_iter().flatten().map(|hit| (hit.pattern().as_usize(), hit.start(), hit.end()))
    }
}
