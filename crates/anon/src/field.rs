//! Treatment of single fields, beyond the classes of a policy: the functions of MAPI's ANONYMIZE over fields of IP,
//! TCP, UDP and ICMP in packets, and over the fields of every table of records.
//!
//! A rule has MAPI's notation: protocol, field, function and its arguments, separated by commas. Results depend on the
//! key: equal values of a field have equal results, except for RANDOM.

use super::Anonymiser;
use std::borrow::Cow;
use std::str::FromStr;
use weir_proto::{Value, tables};
use weir_wire::{Fragment, Layers, Network};

/// The field of a rule, and its function.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRule {
    place: Place,
    function: Function,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Bytes of a header, by offset and length, or the payload after it.
    Packet(&'static PacketField),
    /// A field of a table of records, by table and field name.
    Record(&'static str, &'static str),
}

#[derive(Clone, Debug, PartialEq)]
enum Function {
    Unchanged,
    Map,
    Uniform(u64, u64),
    Gaussian(f64, f64),
    Strip(usize),
    Random,
    FilenameRandom,
    /// Whether bytes that the hash does not fill are zeros; else the field ends there.
    Hashed(bool),
    Pattern(Vec<u8>),
    Number(u64),
    Zero,
    Replace(Vec<u8>),
    PrefixPreserving,
    ChecksumAdjust,
}

/// Every function, with its arguments.
pub const FUNCTIONS: &str = "UNCHANGED, MAP, MAP_DISTRIBUTION,UNIFORM,LEAST,MOST, MAP_DISTRIBUTION,GAUSSIAN,MEAN,DEVIATION, \
                             STRIP,BYTES, RANDOM, FILENAME_RANDOM, HASHED,SHA_2,PAD_WITH_ZERO or STRIP_REST, \
                             PATTERN_FILL,STR,TEXT, PATTERN_FILL,INTEGER,NUMBER, ZERO, REPLACE,TEXT, PREFIX_PRESERVING, \
                             CHECKSUM_ADJUST";

/// A field of packets.
#[derive(Debug, Eq, PartialEq)]
struct PacketField {
    protocol: &'static str,
    name: &'static str,
    /// Its offset in the header, and its length in bytes.
    at: usize,
    bytes: usize,
}

const fn packet(protocol: &'static str, name: &'static str, at: usize, bytes: usize) -> PacketField {
    PacketField { protocol, name, at, bytes }
}

static PACKET_FIELDS: [PacketField; 39] = [
    packet("IP", "TOS", 1, 1),
    packet("IP", "LENGTH", 2, 2),
    packet("IP", "ID", 4, 2),
    packet("IP", "FRAGMENT_OFFSET", 6, 2),
    packet("IP", "TTL", 8, 1),
    packet("IP", "PROTOCOL", 9, 1),
    packet("IP", CHECKSUM, 10, 2),
    packet("IP", "SRC_IP", 12, 4),
    packet("IP", "DST_IP", 16, 4),
    packet("IP", OPTIONS, 20, 0),
    packet("IP", PAYLOAD, 0, 0),
    packet("IPV6", "LENGTH", 4, 2),
    packet("IPV6", "NEXT_HEADER", 6, 1),
    packet("IPV6", "HOP_LIMIT", 7, 1),
    packet("IPV6", "SRC_IP", 8, 16),
    packet("IPV6", "DST_IP", 24, 16),
    packet("IPV6", PAYLOAD, 0, 0),
    packet("TCP", "SRC_PORT", 0, 2),
    packet("TCP", "DST_PORT", 2, 2),
    packet("TCP", "SEQUENCE_NUMBER", 4, 4),
    packet("TCP", "ACK_NUMBER", 8, 4),
    packet("TCP", "FLAGS", 13, 1),
    packet("TCP", "WINDOW", 14, 2),
    packet("TCP", CHECKSUM, 16, 2),
    packet("TCP", "URGENT_POINTER", 18, 2),
    packet("TCP", OPTIONS, 20, 0),
    packet("TCP", PAYLOAD, 0, 0),
    packet("UDP", "SRC_PORT", 0, 2),
    packet("UDP", "DST_PORT", 2, 2),
    packet("UDP", "LENGTH", 4, 2),
    packet("UDP", CHECKSUM, 6, 2),
    packet("UDP", PAYLOAD, 0, 0),
    packet("ICMP", "TYPE", 0, 1),
    packet("ICMP", "CODE", 1, 1),
    packet("ICMP", CHECKSUM, 2, 2),
    packet("ICMP", "ID", 4, 2),
    packet("ICMP", "SEQUENCE_NUMBER", 6, 2),
    packet("ICMP", "REST", 4, 4),
    packet("ICMP", PAYLOAD, 0, 0),
];

const CHECKSUM: &str = "CHECKSUM";
/// The part between the fixed header and its payload.
const OPTIONS: &str = "OPTIONS";
/// All bytes after the header.
const PAYLOAD: &str = "PAYLOAD";

impl FromStr for FieldRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let [protocol, field, function, given @ ..] = &parts[..] else {
            return Err(format!("{text:?}: expected PROTOCOL,FIELD,FUNCTION, such as IP,TTL,ZERO"));
        };
        let place = place(protocol, field)?;
        let function = self::function(function, given)?;
        let is_address = matches!(place, Place::Packet(field) if field.name.ends_with("_IP"));
        let is_checksum = matches!(place, Place::Packet(field) if field.name == CHECKSUM);
        match function {
            Function::PrefixPreserving if matches!(place, Place::Packet(_)) && !is_address => {
                Err(format!("{text:?}: PREFIX_PRESERVING applies to addresses only: SRC_IP and DST_IP"))
            }
            Function::ChecksumAdjust if !is_checksum => {
                Err(format!("{text:?}: CHECKSUM_ADJUST applies to the field {CHECKSUM} only"))
            }
            function => Ok(Self { place, function }),
        }
    }
}

fn place(protocol: &str, field: &str) -> Result<Place, String> {
    let same = |name: &&str| name.eq_ignore_ascii_case(field);
    let of = || PACKET_FIELDS.iter().filter(|known| known.protocol.eq_ignore_ascii_case(protocol));
    if let Some(known) = of().find(|known| same(&known.name)) {
        return Ok(Place::Packet(known));
    }
    let table = tables().find(|table| table.name.eq_ignore_ascii_case(protocol));
    if let Some(table) = table {
        let found = table.fields.iter().find(|known| same(&known.name));
        let names = || table.fields.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        return found
            .map(|known| Place::Record(table.name, known.name))
            .ok_or_else(|| format!("{protocol} has no field {field:?}; it has {}", names()));
    }
    let names: Vec<&str> = of().map(|known| known.name).collect();
    if names.is_empty() {
        let tables: Vec<&str> = tables().map(|table| table.name).collect();
        return Err(format!(
            "no protocol {protocol:?}; there are IP, IPV6, TCP, UDP, ICMP, {}",
            tables.join(", ")
        ));
    }
    Err(format!("{protocol} has no field {field:?}; it has {}", names.join(", ")))
}

fn function(name: &str, given: &[&str]) -> Result<Function, String> {
    let upper: Vec<String> = given.iter().map(|word| word.to_ascii_uppercase()).collect();
    let words: Vec<&str> = upper.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a whole number"));
    let real = |text: &str| {
        text.parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(|| format!("{text:?} is not a number"))
    };
    Ok(match (name.to_ascii_uppercase().as_str(), &words[..]) {
        ("UNCHANGED", []) => Function::Unchanged,
        ("MAP", []) => Function::Map,
        ("MAP_DISTRIBUTION", ["UNIFORM", min, max]) => match (number(min)?, number(max)?) {
            (min, max) if min <= max => Function::Uniform(min, max),
            (min, max) => return Err(format!("UNIFORM: {min} is more than {max}")),
        },
        ("MAP_DISTRIBUTION", ["GAUSSIAN", mean, deviation]) => {
            Function::Gaussian(real(mean)?, real(deviation)?)
        }
        ("STRIP", [bytes]) => Function::Strip(number(bytes)? as usize),
        ("RANDOM", []) => Function::Random,
        ("FILENAME_RANDOM", []) => Function::FilenameRandom,
        ("HASHED", ["SHA_2", "PAD_WITH_ZERO"]) => Function::Hashed(true),
        ("HASHED", ["SHA_2", "STRIP_REST"]) => Function::Hashed(false),
        ("PATTERN_FILL", ["INTEGER", value]) => Function::Number(number(value)?),
        ("PATTERN_FILL", ["STR", ..]) => match given.get(1).filter(|text| !text.is_empty()) {
            Some(text) => Function::Pattern(text.as_bytes().to_vec()),
            None => return Err("PATTERN_FILL,STR: expected a text".to_owned()),
        },
        ("ZERO", []) => Function::Zero,
        ("REPLACE", [_]) => Function::Replace(given.concat().into_bytes()),
        ("PREFIX_PRESERVING", []) => Function::PrefixPreserving,
        ("CHECKSUM_ADJUST", []) => Function::ChecksumAdjust,
        _ => {
            return Err(format!(
                "no function {:?}; there are {FUNCTIONS}",
                [&[name], given].concat().join(",")
            ));
        }
    })
}

impl Anonymiser {
    /// Applies the rules to the fields of one level of a packet: those that checksums cover, or the checksums
    /// themselves. Returns the bytes of the packet that are kept.
    pub(super) fn fields(
        &mut self,
        before: &[u8],
        out: &mut [u8],
        layers: &Layers,
        checksums: bool,
    ) -> usize {
        let rules = std::mem::take(&mut self.policy.fields);
        let mut keep = out.len();
        for rule in &rules {
            let Place::Packet(field) = rule.place else { continue };
            if (field.name == CHECKSUM) != checksums {
                continue;
            }
            let Some((from, to)) = field.range(layers, out.len()) else { continue };
            let (Some(old), Some(place)) = (before.get(from..to), out.get_mut(from..to)) else { continue };
            if rule.function == Function::ChecksumAdjust {
                continue;
            }
            if rule.function == Function::PrefixPreserving {
                if let Ok(address) = <[u8; 4]>::try_from(old) {
                    place.copy_from_slice(&self.addresses.v4(address));
                } else if let Ok(address) = <[u8; 16]>::try_from(old) {
                    place.copy_from_slice(&self.addresses.v6(address));
                }
                continue;
            }
            if let (Function::Strip(bytes), PAYLOAD) = (&rule.function, field.name) {
                keep = keep.min(from + bytes);
            }
            let image = self.apply(&rule.function, field.name.as_bytes(), old, field.name != PAYLOAD);
            place.fill(0);
            for (to, from) in place.iter_mut().zip(image) {
                *to = from;
            }
        }
        self.policy.fields = rules;
        keep
    }

    /// Applies a rule to a value of a record. Returns whether there is a rule for it.
    pub(super) fn field(&mut self, table: &str, name: &str, value: &mut Value<'_>) -> bool {
        let found = self
            .policy
            .fields
            .iter()
            .find(|rule| rule.place == Place::Record(table_of(table), name_of(table, name)));
        let Some(function) = found.map(|rule| rule.function.clone()) else { return false };
        match value {
            _ if function == Function::Unchanged => {}
            Value::Text(text) => *text = Cow::Owned(self.apply(&function, name.as_bytes(), text, false)),
            Value::Address(address) => *address = self.addresses.ip(*address),
            Value::Uint(number) => {
                let image = self.apply(&function, name.as_bytes(), &number.to_be_bytes(), true);
                *number = image.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
            }
            Value::List(values) => {
                for value in values {
                    self.field(table, name, value);
                }
            }
            // Other kinds of value have no form that a function could produce.
            value => *value = Value::None,
        }
        true
    }

    /// Applies a function to bytes; a number keeps its length.
    fn apply(&mut self, function: &Function, context: &[u8], old: &[u8], is_number: bool) -> Vec<u8> {
        let number = |value: u64| {
            let bytes = value.to_be_bytes();
            let size = old.len().min(8);
            [vec![0; old.len() - size], bytes.get(8 - size..).unwrap_or_default().to_vec()].concat()
        };
        let written = |value: u64| if is_number { number(value) } else { value.to_string().into_bytes() };
        match function {
            Function::Unchanged | Function::ChecksumAdjust => old.to_vec(),
            Function::Map if is_number => {
                let parts = old.chunks(8).enumerate();
                parts.flat_map(|(at, part)| self.turned(&[context, &vec![0; at]].concat(), part)).collect()
            }
            Function::Map => self.names.word(context, old),
            Function::Uniform(min, max) => {
                let hash = u64::from_be_bytes(first(&self.names.hash(context, old)));
                written(min + hash.checked_rem((max - min).wrapping_add(1)).unwrap_or(hash))
            }
            Function::Gaussian(mean, deviation) => {
                let hash = self.names.hash(context, old);
                // The Box-Muller transform of two numbers between 0 and 1.
                let [one, two] = [0, 8].map(|at| {
                    let bytes = hash.get(at..).unwrap_or_default();
                    (u64::from_be_bytes(first(bytes)) >> 11) as f64 / (1_u64 << 53) as f64
                });
                let normal = libm::sqrt(-2.0 * libm::log(1.0 - one)) * libm::cos(std::f64::consts::TAU * two);
                let max = if is_number && old.len() < 8 { (1_u64 << (8 * old.len())) - 1 } else { u64::MAX };
                written(((mean + deviation * normal).round().max(0.0) as u64).min(max))
            }
            Function::Strip(bytes) => old.get(..*bytes).unwrap_or(old).to_vec(),
            Function::Random => {
                self.drawn += 1;
                let drawn = self.drawn.to_be_bytes();
                if is_number { self.names.stream(&drawn, old.len()) } else { self.names.word(&drawn, old) }
            }
            Function::FilenameRandom => {
                let point = old.iter().rposition(|byte| *byte == b'.').unwrap_or(old.len());
                let from = old.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                let (name, ending) = old.split_at(point.max(from));
                self.drawn += 1;
                let drawn = self.drawn.to_be_bytes();
                let (folder, name) = name.split_at(from.min(name.len()));
                [folder.to_vec(), self.names.word(&drawn, name), ending.to_vec()].concat()
            }
            Function::Hashed(pads) => {
                let hash = self.names.hash(context, old);
                let text = if is_number {
                    hash.to_vec()
                } else {
                    hash.iter().flat_map(|o| format!("{o:02x}").into_bytes()).collect()
                };
                let mut text: Vec<u8> =
                    text.into_iter().take(if is_number { old.len() } else { 64 }).collect();
                if *pads && text.len() < old.len() {
                    text.resize(old.len(), if is_number { 0 } else { b'0' });
                }
                text
            }
            Function::Pattern(pattern) => pattern.iter().copied().cycle().take(old.len()).collect(),
            Function::Number(value) => written(*value),
            Function::Zero if is_number => vec![0; old.len()],
            Function::Zero => vec![b'0'; old.len()],
            Function::Replace(text) => text.clone(),
            Function::PrefixPreserving => {
                let address = std::str::from_utf8(old).ok().and_then(|text| text.parse().ok());
                let image = address.map(|address| self.addresses.ip(address).to_string().into_bytes());
                image.unwrap_or_else(|| self.names.word(context, old))
            }
        }
    }

    /// A permutation of the numbers of one length: a Feistel network over the two halves of their bits.
    fn turned(&self, context: &[u8], old: &[u8]) -> Vec<u8> {
        const ROUNDS: u8 = 8;
        let bits = (old.len().min(8) * 8) as u32;
        let number = old.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let mask = (1_u64 << (bits / 2)) - 1;
        let (mut left, mut right) = (number >> (bits / 2), number & mask);
        for round in 0..ROUNDS {
            let hash = self.names.hash(&[context, &[round, old.len() as u8]].concat(), &right.to_be_bytes());
            (left, right) = (right, left ^ u64::from_be_bytes(first(&hash)) & mask);
        }
        let image = (left << (bits / 2) | right).to_be_bytes();
        image.get(8 - old.len().min(8)..).unwrap_or_default().to_vec()
    }
}

fn first(bytes: &[u8]) -> [u8; 8] {
    bytes.first_chunk().copied().unwrap_or_default()
}

/// The name in the registry.
fn table_of(name: &str) -> &'static str {
    tables().find(|table| table.name == name).map_or("", |table| table.name)
}

fn name_of(table: &str, name: &str) -> &'static str {
    let table = tables().find(|known| known.name == table);
    table
        .and_then(|table| table.fields.iter().find(|field| field.name == name))
        .map_or("", |field| field.name)
}

impl PacketField {
    /// Position of the field in a packet of that length.
    fn range(&self, layers: &Layers, bytes: usize) -> Option<(usize, usize)> {
        let (network, transport) = (layers.network as usize, layers.transport as usize);
        let end = (network + layers.network_len as usize).min(bytes);
        let has_transport = transport != 0 && layers.fragment != Fragment::Later;
        let header = match (self.protocol, layers.ip_proto) {
            ("IP", _) if layers.network_kind == Network::Ipv4 => network,
            ("IPV6", _) if layers.network_kind == Network::Ipv6 => network,
            ("TCP", 6) | ("UDP", 17) | ("ICMP", 1) if has_transport => transport,
            _ => return None,
        };
        if self.bytes > 0 {
            return Some((header + self.at, header + self.at + self.bytes)).filter(|(_, to)| *to <= end);
        }
        let carried = match self.protocol {
            "IP" | "IPV6" => transport,
            "ICMP" => transport + 8,
            _ => layers.payload as usize,
        };
        let (from, to) =
            if self.name == OPTIONS { (header + self.at, carried.min(end)) } else { (carried, end) };
        (from != 0 && from < to).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Mode, Policy};
    use std::collections::BTreeSet;
    use weir_wire::{LinkType, Packet, build, decode, verify};

    fn anonymiser(rules: &[&str]) -> Anonymiser {
        let fields = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let policy = Policy { mode: Mode::CryptoPan, fields, ..Policy::default() };
        Anonymiser::new(policy, &Key(*b"0123456789abcdefghijklmnopqrstuv")).unwrap()
    }

    #[test]
    fn every_field_of_every_table_can_have_rules() {
        for table in tables() {
            for field in table.fields {
                let rule = format!("{},{},UNCHANGED", table.name.to_uppercase(), field.name);
                assert!(rule.parse::<FieldRule>().is_ok(), "{rule}");
            }
        }
    }

    fn frame() -> Vec<u8> {
        build::ip()
            .ipv4([10, 1, 2, 3], [10, 1, 2, 4])
            .ttl(57)
            .tcp(4000, 80, 0x18)
            .seq(77)
            .window(500)
            .payload(b"secret words")
    }

    fn image(rules: &[&str]) -> Vec<u8> {
        image_of(&frame(), rules)
    }

    /// Rewrites a frame; checksums are correct unless a rule changes them.
    fn image_of(frame: &[u8], rules: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        let packet = anonymiser(rules).packet(&build::packet(frame, LinkType::RAW), &mut out).data.to_vec();
        if packet.len() == frame.len() && !rules.iter().any(|rule| rule.contains("CHECKSUM")) {
            let after = Packet { data: &packet, ..build::packet(frame, LinkType::RAW) };
            assert!(!format!("{:?}", verify(&after, &decode(&after))).contains("Bad"), "{rules:?}");
        }
        packet
    }

    fn text(rule: &str, value: &str) -> String {
        let mut value = Value::Text(Cow::Borrowed(value.as_bytes()));
        let (table, name) = match rule.split(',').collect::<Vec<_>>()[..] {
            [table, name, ..] => (table.to_ascii_lowercase(), name.to_ascii_lowercase()),
            _ => panic!("{rule}"),
        };
        assert!(anonymiser(&[rule]).field(&table, &name, &mut value), "{rule}");
        match value {
            Value::Text(text) => String::from_utf8(text.into_owned()).unwrap(),
            value => panic!("{value:?}"),
        }
    }

    #[test]
    fn functions_apply_to_fields_of_ipv6_and_options() {
        let options = [2, 4, 5, 180, 1, 1, 1, 1];
        let addresses = ([0x20; 16], [0x21; 16]);
        let frame = build::ip()
            .ipv6(addresses.0, addresses.1)
            .ttl(57)
            .tcp(4000, 80, 2)
            .options(&options)
            .payload(b"secret words");
        let image = |rule| image_of(&frame, &[rule]);
        assert_eq!(image("IPV6,HOP_LIMIT,ZERO")[7], 0);
        assert_eq!(image("IPV6,SRC_IP,UNCHANGED")[8..24], addresses.0);
        assert_ne!(image("IPV6,SRC_IP,UNCHANGED")[24..40], addresses.1);
        assert_eq!(image("IPV6,DST_IP,PREFIX_PRESERVING"), image("TCP,WINDOW,UNCHANGED"));
        let mapped = image("IPV6,SRC_IP,MAP");
        assert!(mapped[8..16] != [0x20; 8] && mapped[16..24] != [0x20; 8] && mapped[8..16] != mapped[16..24]);
        assert_eq!(image("IPV6,PAYLOAD,STRIP,30").len(), 70);
        assert_eq!(image("TCP,OPTIONS,UNCHANGED")[60..68], options);
        assert_eq!(image("TCP,OPTIONS,PATTERN_FILL,STR,\u{1}")[60..68], [1; 8]);
        assert_eq!(image("TCP,OPTIONS,STRIP,4")[60..68], [2, 4, 5, 180, 0, 0, 0, 0]);
        assert_eq!(image("IP,TTL,ZERO")[7], 57, "a rule of version 4");
        let options = [7, 7, 4, 10, 1, 2, 3, 0];
        let frame = build::ip().ipv4([10, 1, 2, 3], [10, 1, 2, 4]).options(&options).udp(1, 2).payload(b"x");
        assert_eq!(image_of(&frame, &["IP,OPTIONS,ZERO"])[20..28], [0; 8]);
        assert_eq!(image_of(&frame, &["IP,OPTIONS,UNCHANGED"])[20..28], options);
        assert_ne!(image_of(&frame, &[])[20..28], options, "a recorded route");
    }

    #[test]
    fn functions_apply_to_fields_of_packets() {
        assert_eq!(image(&["IP,TTL,ZERO"])[8], 0);
        assert_eq!(image(&["IP,TTL,PATTERN_FILL,INTEGER,64"])[8], 64);
        assert_eq!(image(&["ip,src_ip,unchanged"])[12..16], [10, 1, 2, 3]);
        assert_eq!(image(&["IP,SRC_IP,PREFIX_PRESERVING"])[12..20], image(&[])[12..20]);
        assert_eq!(image(&["IP,DST_IP,REPLACE,abcd"])[16..20], *b"abcd");
        assert_eq!(image(&["TCP,PAYLOAD,UNCHANGED"])[40..], *b"secret words");
        assert_eq!(image(&["TCP,PAYLOAD,PATTERN_FILL,STR,no"])[40..], *b"nononononono");
        assert_eq!(image(&["TCP,PAYLOAD,STRIP,6"])[40..], *b"secret");
        assert_eq!(image(&["TCP,PAYLOAD,STRIP,0"]).len(), 40);
        let hashed = image(&["TCP,PAYLOAD,HASHED,SHA_2,PAD_WITH_ZERO"]);
        assert!(hashed.len() == 52 && hashed[40..].iter().all(u8::is_ascii_hexdigit));
        let ports = image(&["TCP,SRC_PORT,MAP_DISTRIBUTION,UNIFORM,9000,9003"]);
        assert!((9000..=9003).contains(&u16::from_be_bytes([ports[20], ports[21]])));
        let window = image(&["TCP,WINDOW,MAP_DISTRIBUTION,GAUSSIAN,1000,0"]);
        assert_eq!(window[34..36], 1000_u16.to_be_bytes());
        let mapped = image(&["TCP,SEQUENCE_NUMBER,MAP"]);
        assert!(mapped[24..28] != 77_u32.to_be_bytes() && mapped == image(&["TCP,SEQUENCE_NUMBER,MAP"]));
        // Checksums: recomputed, unchanged, or set by a rule.
        let plain = frame();
        assert_eq!(image(&["TCP,CHECKSUM,UNCHANGED"])[36..38], plain[36..38]);
        assert_eq!(image(&["TCP,CHECKSUM,ZERO", "IP,CHECKSUM,CHECKSUM_ADJUST"])[36..38], [0, 0]);
        assert_eq!(image(&["TCP,CHECKSUM,CHECKSUM_ADJUST"]), image(&[]));
        // Packets of other protocols are not changed.
        assert_eq!(image(&["UDP,SRC_PORT,ZERO", "ICMP,TYPE,ZERO"]), image(&[]));
    }

    #[test]
    fn random_differs_each_time_and_map_is_one_to_one() {
        let mut anonymiser = anonymiser(&["IP,ID,RANDOM", "IP,TTL,MAP"]);
        let (mut ids, mut hops) = (BTreeSet::new(), BTreeSet::new());
        for ttl in 0..=255 {
            let frame = build::ip().ipv4([10, 1, 2, 3], [10, 1, 2, 4]).ttl(ttl).udp(1, 2).payload(b"x");
            let mut out = Vec::new();
            let image = anonymiser.packet(&build::packet(&frame, LinkType::RAW), &mut out).data.to_vec();
            ids.insert([image[4], image[5]]);
            hops.insert(image[8]);
        }
        assert!(ids.len() > 240, "{}", ids.len());
        assert_eq!(hops.len(), 256);
    }

    #[test]
    fn functions_apply_to_fields_of_records() {
        assert_eq!(text("HTTP,HOST,UNCHANGED", "www.smith.org"), "www.smith.org");
        assert_eq!(text("HTTP,URI,STRIP,5", "/home/jane"), "/home");
        assert_eq!(text("HTTP,URI,REPLACE,/", "/home/jane"), "/");
        assert_eq!(text("HTTP,URI,ZERO", "/jane"), "00000");
        assert_eq!(text("HTTP,METHOD,PATTERN_FILL,STR,ab", "POST"), "abab");
        assert_eq!(text("HTTP,METHOD,PATTERN_FILL,INTEGER,7", "POST"), "7");
        assert_eq!(text("HTTP,HOST,HASHED,SHA_2,STRIP_REST", "www.smith.org").len(), 64);
        let file = text("FTP_COMMAND,ARGUMENT,FILENAME_RANDOM", "pub/jane.tar");
        assert!(file.starts_with("pub/") && file.ends_with(".tar") && !file.contains("jane"), "{file}");
        assert_ne!(text("HTTP,HOST,RANDOM", "smith"), "smith");
        assert_eq!(text("HTTP,HOST,MAP", "smith"), text("HTTP,HOST,MAP", "smith"));
        assert_ne!(text("HTTP,HOST,PREFIX_PRESERVING", "10.1.2.3"), "10.1.2.3");
        assert!(
            text("HTTP,HOST,MAP_DISTRIBUTION,UNIFORM,3,5", "smith")
                .parse::<u64>()
                .is_ok_and(|n| (3..=5).contains(&n))
        );
        let mut number = Value::Uint(200);
        assert!(anonymiser(&["HTTP,STATUS_CODE,ZERO"]).field("http", "status_code", &mut number));
        assert_eq!(number, Value::Uint(0));
        assert!(!anonymiser(&["HTTP,HOST,ZERO"]).field("http", "uri", &mut Value::None));
    }

    #[test]
    fn errors_in_rules_are_named() {
        for (rule, says) in [
            ("IP,TTL", "FUNCTION"),
            ("IPX,TTL,ZERO", "IP, IPV6, TCP, UDP, ICMP"),
            ("IP,TLL,ZERO", "TTL"),
            ("HTTP,HOSTS,ZERO", "host"),
            ("IP,TTL,NULL", "MAP_DISTRIBUTION"),
            ("IP,TTL,STRIP,x", "whole number"),
            ("IP,TTL,MAP_DISTRIBUTION,UNIFORM,5,3", "more than"),
            ("IP,TTL,PREFIX_PRESERVING", "SRC_IP"),
            ("IP,TTL,CHECKSUM_ADJUST", "CHECKSUM"),
            ("TCP,PAYLOAD,PATTERN_FILL,STR,", "a text"),
            ("TCP,PAYLOAD,HASHED,MD5,STRIP_REST", "SHA_2"),
        ] {
            let error = rule.parse::<FieldRule>().unwrap_err();
            assert!(error.contains(says), "{rule}: {error}");
        }
    }
}
