//! The binary form of readings and snapshots, for other processes, machines and the store.
//!
//! Two bytes name the kind of content (`WR` a reading, `WS` a snapshot), a third its version. Whole numbers are LEB128
//! (7 bits in each byte, least significant first), lists begin with their length, text is UTF-8, numbers are IEEE 754 in
//! little-endian order. A changed form gets a new version; a reader accepts all versions up to its own.
//!
//! Bytes can come from anywhere: reading checks what merging and showing rely on, and takes memory in proportion to the
//! number of bytes.

mod answers;
mod earlier;
mod events;
mod senders;

use crate::distinct::Seen;
use crate::event::MAX_EVENTS;
use crate::{
    Answer, AnswerId, CaptureCount, Class, Costs, Count, DecodeErrors, Distinct, DistinctCount, DistinctOf,
    DistinctValues, Event, FlowCount, FunctionCall, Histogram, Interval, Key, KeyKind, Keyed, Ledger,
    Outline, Reading, Rows, Series, SessionCount, Sketch, Snapshot, Top, TopRow, Unit,
};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The last version of any kind of content.
pub const VERSION: u8 = 9;

/// A kind of content.
struct Form {
    /// The first bytes.
    head: [u8; 2],
    /// The version that is written.
    version: u8,
}

const READING: Form = Form { head: *b"WR", version: WITH_LATE };
const SNAPSHOT: Form = Form { head: *b"WS", version: VERSION };
/// The first version of snapshots that counts events that a mute hides.
const WITH_MUTED: u8 = 9;
/// The first version of snapshots that has events.
const WITH_EVENTS: u8 = 2;
/// The first version of snapshots that has senders of checksums.
const WITH_SENDERS: u8 = 3;
/// The first version of snapshots and, after 1, of readings in which ports are counted exactly.
const WITH_NUMBERS: u8 = 4;
/// The first version of snapshots and, after 1, of readings in which tables can count what they leave out.
const WITH_SHED: u8 = 5;
/// The first version of snapshots that has flows of late segments.
const WITH_LATE: u8 = 6;
/// The first version of snapshots in which events have origins, and answers judges.
const WITH_ORIGINS: u8 = 7;
/// The first version of snapshots in which answers have the states of flows, the identified protocols, the tunnels and the packets
/// without IP. Before it, the parts of a snapshot have them.
const WITH_TABLES: u8 = 8;
/// Maximum of a count: sums of a few do not overflow.
const MAX_COUNT: u64 = 1 << 62;
/// Maximum number of rows of a list.
const MAX_ROWS: u64 = 1 << 24;

/// Bytes are not in the binary form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecodeError {
    /// The first bytes are those of something else.
    Kind,
    /// A later version wrote them.
    Version(u8),
    /// They end too early.
    Truncated,
    /// Bytes follow the end.
    Further,
    /// The named part is not valid.
    Invalid(&'static str),
    /// The reading has another shape than the one to which it is to be added.
    Unlike,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Kind => out.write_str("not a reading or a snapshot in binary form"),
            DecodeError::Version(version) => {
                write!(out, "version {version} of the binary form; this program reads 1 to {VERSION}")
            }
            DecodeError::Truncated => out.write_str("the bytes end too early"),
            DecodeError::Further => out.write_str("bytes follow the end"),
            DecodeError::Invalid(part) => write!(out, "invalid {part}"),
            DecodeError::Unlike => out.write_str("the readings have different shapes"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Reading {
    /// The binary form.
    pub fn encode(&self) -> Vec<u8> {
        encode(READING, self)
    }

    /// Reads the binary form.
    ///
    /// # Errors
    ///
    /// The bytes are not the binary form of a reading.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(READING, bytes)
    }

    /// Merges a reading in binary form.
    ///
    /// # Errors
    ///
    /// The bytes are not the binary form of a reading of this shape; nothing is changed then.
    pub fn merge_encoded(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let other = Self::decode(bytes)?;
        if !self.is_like(&other) {
            return Err(DecodeError::Unlike);
        }
        self.merge(&other);
        Ok(())
    }
}

impl Snapshot {
    /// The binary form.
    pub fn encode(&self) -> Vec<u8> {
        encode(SNAPSHOT, self)
    }

    /// Reads the binary form.
    ///
    /// # Errors
    ///
    /// The bytes are not the binary form of a snapshot.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(SNAPSHOT, bytes)
    }

    /// Merges a snapshot in binary form.
    ///
    /// # Errors
    ///
    /// The bytes are not the binary form of a snapshot, or answers of one number have different shapes; nothing is changed
    /// then. The answers of the snapshot must be ordered by [`Answer::id`].
    pub fn merge_encoded(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let other = Self::decode(bytes)?;
        if !are_alike(&other.answers, &self.answers) {
            return Err(DecodeError::Unlike);
        }
        self.merge(&other);
        Ok(())
    }
}

fn encode(form: Form, value: &impl Binary) -> Vec<u8> {
    let mut to = form.head.to_vec();
    to.push(form.version);
    value.write(&mut to);
    to
}

fn decode<T: Binary>(form: Form, bytes: &[u8]) -> Result<T, DecodeError> {
    let (head, rest) = bytes.split_at_checked(form.head.len()).ok_or(DecodeError::Truncated)?;
    if head != form.head {
        return Err(DecodeError::Kind);
    }
    let mut from = Bytes { rest, version: form.version };
    from.version = from.byte()?;
    if !(1..=form.version).contains(&from.version) {
        return Err(DecodeError::Version(from.version));
    }
    let value = T::read(&mut from)?;
    if from.rest.is_empty() { Ok(value) } else { Err(DecodeError::Further) }
}

/// Bytes that are not read yet.
pub(crate) struct Bytes<'b> {
    rest: &'b [u8],
    /// The version that wrote them.
    version: u8,
}

impl<'b> Bytes<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], DecodeError> {
        self.take(LENGTH)?.try_into().map_err(|_| DecodeError::Truncated)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// A number that others are added to.
    pub(crate) fn count(&mut self) -> Result<u64, DecodeError> {
        let count = u64::read(self)?;
        if count <= MAX_COUNT { Ok(count) } else { Err(DecodeError::Invalid("count")) }
    }

    /// A length of items, each of which takes at least one byte.
    fn length(&mut self) -> Result<usize, DecodeError> {
        let length = u64::read(self)?;
        usize::try_from(length).ok().filter(|length| *length <= self.rest.len()).ok_or(DecodeError::Truncated)
    }
}

/// A type with a binary form.
pub(crate) trait Binary: Sized {
    /// Appends the binary form.
    fn write(&self, to: &mut Vec<u8>);
    /// Reads the binary form.
    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError>;
}

/// The binary form of a structure: its fields in order. `counts` are numbers that others are added to.
macro_rules! fields {
    ($name:ident: $($field:ident),*) => { fields! { $name counts: ; others: $($field),* } };
    ($name:ident counts: $($count:ident),* $(; others: $($field:ident),*)?) => {
        impl Binary for $name {
            fn write(&self, to: &mut Vec<u8>) {
                let Self { $($count,)* $($($field,)*)? } = self;
                $($count.write(to);)*
                $($($field.write(to);)*)?
            }

            fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
                Ok(Self {
                    $($count: from.count()?,)*
                    $($($field: Binary::read(from)?,)*)?
                })
            }
        }
    };
}

/// The binary form of an enumeration without content: its position in a list.
macro_rules! position {
    ($name:ident in $list:expr) => {
        impl Binary for $name {
            fn write(&self, to: &mut Vec<u8>) {
                let at = $list.iter().position(|one| one == self).unwrap_or_default();
                to.push(at as u8);
            }

            fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
                let at = from.byte()?;
                $list.get(usize::from(at)).copied().ok_or(DecodeError::Invalid(stringify!($name)))
            }
        }
    };
}

position!(Unit in [Unit::Packets, Unit::Bytes]);
position!(KeyKind in KeyKind::ALL.map(|(_, kind)| kind));
position!(DistinctOf in DistinctOf::ALL.map(|(_, of)| of));

fields!(Count counts: packets, bytes);
fields!(Class: label, count);
fields!(Interval: start, end);
fields!(CaptureCount counts: offered, dropped, interface_dropped, outside);
fields!(Ledger counts: caught, bytes, captured_bytes, filtered, analysed, flowed, unflowed, checksums_verified,
    checksums_bad, checksums_offloaded, time_jumps, late, rows_shed, ticks_joined, packets_unwritten; others: capture, errors);
fields!(Costs counts: expression, counted, shown, checksums, flows);
fields!(TopRow counts: flows; others: key, count, error);
fields!(FunctionCall: name, arguments);
fields!(AnswerId: subscription, place);

/// The judges of the answers of a snapshot and of its outline, by their numbers.
type Judges = BTreeMap<AnswerId, Vec<FunctionCall>>;

fn judges(snapshot: &Snapshot) -> Judges {
    let all = snapshot.answers.iter().chain(snapshot.outline.answers().map(|(_, answer)| answer));
    let judged = all.filter(|answer| !answer.label.judges.is_empty());
    judged.map(|answer| (answer.id, answer.label.judges.clone())).collect()
}

/// Gives answers their judges.
fn set_judges(snapshot: &mut Snapshot, judges: &Judges) {
    if judges.is_empty() {
        return;
    }
    let judged = |answer: &mut Answer| {
        if let Some(judges) = judges.get(&answer.id) {
            Arc::make_mut(&mut answer.label).judges.clone_from(judges);
        }
    };
    snapshot.answers.iter_mut().for_each(judged);
    let listed = snapshot.outline.listed().into_iter().map(|(answer, is_counted)| {
        let mut answer = answer.clone();
        judged(&mut answer);
        (answer, is_counted)
    });
    snapshot.outline = Arc::new(Outline::new(snapshot.outline.plan, listed.collect::<Vec<_>>()));
}

impl Binary for FlowCount {
    fn write(&self, to: &mut Vec<u8>) {
        // The counts of late segments are at the end of the snapshot.
        let Self { created, ended, evicted, fragments_joined, fragments_unmatched, .. } = self;
        let Self { fragments_shed, holes_shed, .. } = self;
        let counts =
            [created, ended, evicted, fragments_joined, fragments_unmatched, fragments_shed, holes_shed];
        counts.into_iter().for_each(|count| count.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let counts = Self {
            created: from.count()?,
            ended: from.count()?,
            evicted: from.count()?,
            fragments_joined: from.count()?,
            fragments_unmatched: from.count()?,
            fragments_shed: from.count()?,
            holes_shed: from.count()?,
            ..Self::default()
        };
        if from.version < WITH_TABLES {
            earlier::skip_states(from)?;
        }
        Ok(counts)
    }
}

impl Binary for u64 {
    fn write(&self, to: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            to.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        to.push(rest as u8);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = from.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(DecodeError::Invalid("number"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Invalid("number"))
    }
}

/// A narrower number, in the form of the wide one.
macro_rules! narrow {
    ($($name:ident)*) => {$(
        impl Binary for $name {
            fn write(&self, to: &mut Vec<u8>) {
                (*self as u64).write(to);
            }

            fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
                u64::read(from)?.try_into().map_err(|_| DecodeError::Invalid(stringify!($name)))
            }
        }
    )*};
}

narrow!(u8 u16 u32 usize);

impl Binary for u128 {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(u128::from_le_bytes(from.array()?))
    }
}

impl Binary for f64 {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(f64::from_le_bytes(from.array()?))
    }
}

/// Small numbers of either sign are short: 0, -1, 1, -2 and so on.
impl Binary for i32 {
    fn write(&self, to: &mut Vec<u8>) {
        ((*self << 1 ^ *self >> 31) as u32).write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let bits = u32::read(from)?;
        Ok((bits >> 1) as i32 ^ -((bits & 1) as i32))
    }
}

impl Binary for String {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        to.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let length = from.length()?;
        let text = std::str::from_utf8(from.take(length)?).map_err(|_| DecodeError::Invalid("text"))?;
        Ok(text.to_owned())
    }
}

impl<T: Binary> Binary for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        match from.byte()? {
            0 => Ok(None),
            1 => T::read(from).map(Some),
            _ => Err(DecodeError::Invalid("option")),
        }
    }
}

impl<T: Binary> Binary for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        self.iter().for_each(|item| item.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let length = from.length()?;
        (0..length).map(|_| T::read(from)).collect()
    }
}

/// Rows are written in the order of their keys: zstd of level 3 makes a stored list 9 % to 12 % larger where rows lie as they
/// came (`mix`, and all captures of ../shared/data; `zipf`, of random addresses, 1 %), and a reader sees without an index that keys
/// are unique. A store keeps up to 1,024 rows of a list, and its writer's thread puts them in order, which is 6 % of what it takes
/// to write them. No worker and no merge does.
impl<R: Keyed + Binary> Binary for Rows<R> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        self.by_key().into_iter().for_each(|row| row.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let rows = Vec::<R>::read(from)?;
        check(rows.is_sorted_by(|one, next| one.key() < next.key()), "order of rows")?;
        Ok(rows.into())
    }
}

impl<A: Binary, B: Binary> Binary for (A, B) {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

impl<K: Binary + Ord, V: Binary> Binary for BTreeMap<K, V> {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        for (key, value) in self {
            key.write(to);
            value.write(to);
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let length = from.length()?;
        (0..length).map(|_| <(K, V)>::read(from)).collect()
    }
}

impl Binary for IpAddr {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            IpAddr::V4(address) => {
                to.push(4);
                to.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                to.push(6);
                to.extend_from_slice(&address.octets());
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        match from.byte()? {
            4 => Ok(from.array::<4>()?.into()),
            6 => Ok(from.array::<16>()?.into()),
            _ => Err(DecodeError::Invalid("address")),
        }
    }
}

impl Binary for DecodeErrors {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.as_flattened().iter().for_each(|count| count.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let mut errors = Self::default();
        for count in errors.0.as_flattened_mut() {
            *count = from.count()?;
        }
        Ok(errors)
    }
}

impl Binary for SessionCount {
    fn write(&self, to: &mut Vec<u8>) {
        self.named().for_each(|(.., count)| count.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Self::from_counts(|| from.count())
    }
}

impl Binary for Snapshot {
    fn write(&self, to: &mut Vec<u8>) {
        let Self {
            interval,
            watched,
            packets,
            ledger,
            flows,
            sessions,
            costs,
            offloaders,
            answers,
            outline,
            events,
            event_count,
            senders,
        } = self;
        interval.write(to);
        watched.write(to);
        packets.write(to);
        ledger.write(to);
        flows.write(to);
        sessions.write(to);
        costs.write(to);
        offloaders.write(to);
        answers.write(to);
        outline.write(to);
        events.write(to);
        event_count.write(to);
        senders.write(to);
        [flows.followed, flows.closed_shed].iter().for_each(|count| count.write(to));
        events::write_origins(events, to);
        judges(self).write(to);
        event_count.muted.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let mut snapshot = Self {
            interval: Binary::read(from)?,
            watched: Binary::read(from)?,
            packets: Binary::read(from)?,
            ledger: Binary::read(from)?,
            flows: Binary::read(from)?,
            sessions: Binary::read(from)?,
            costs: Binary::read(from)?,
            ..Self::default()
        };
        if from.version < WITH_TABLES {
            earlier::skip_tables(from)?;
        }
        snapshot.offloaders = Binary::read(from)?;
        snapshot.answers = Binary::read(from)?;
        snapshot.outline = Arc::new(Binary::read(from)?);
        if from.version >= WITH_EVENTS {
            (snapshot.events, snapshot.event_count) = (Binary::read(from)?, Binary::read(from)?);
        }
        if from.version >= WITH_SENDERS {
            snapshot.senders = Binary::read(from)?;
        }
        if from.version >= WITH_LATE {
            (snapshot.flows.followed, snapshot.flows.closed_shed) = (from.count()?, from.count()?);
        }
        if from.version >= WITH_ORIGINS {
            events::read_origins(&mut snapshot.events, from)?;
            let judges = Binary::read(from)?;
            set_judges(&mut snapshot, &judges);
        }
        if from.version >= WITH_MUTED {
            snapshot.event_count.muted = from.count()?;
        }
        let is_less = |one: &Event, next: &Event| one.key_cmp(next).is_lt();
        check(snapshot.events.is_sorted_by(is_less), "order of events")?;
        check(snapshot.events.len() <= MAX_EVENTS, "number of events")?;
        check(snapshot.answers.is_sorted_by(|one, next| one.id < next.id), "order of answers")?;
        let of_outline = |answer: &Answer| snapshot.outline.answer(answer.id);
        let is_alike =
            |answer: &Answer| of_outline(answer).is_none_or(|other| answer.reading.is_like(&other.reading));
        check(snapshot.answers.iter().all(is_alike), "outline")?;
        Ok(snapshot)
    }
}

/// Whether the answers that both lists have can be merged. Both are ordered by [`Answer::id`].
fn are_alike(some: &[Answer], others: &[Answer]) -> bool {
    let known = |answer: &Answer| {
        let at = others.binary_search_by_key(&answer.id, |other| other.id).ok()?;
        others.get(at)
    };
    some.iter().all(|answer| known(answer).is_none_or(|other| answer.reading.is_like(&other.reading)))
}

impl Binary for Reading {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Reading::Count(count) => {
                to.push(0);
                count.write(to);
            }
            Reading::Top(top) => {
                to.push(1);
                top.write(to);
            }
            Reading::Classes { unit, classes } => {
                to.push(2);
                unit.write(to);
                classes.write(to);
            }
            Reading::Histogram(histogram) => {
                to.push(3);
                histogram.write(to);
            }
            Reading::Series(series) => {
                to.push(4);
                series.write(to);
            }
            Reading::Distinct(count) => {
                to.push(5);
                count.write(to);
            }
            Reading::Table(table) => {
                to.push(6);
                table.write(to);
            }
            // For the judge of the run alone.
            Reading::Flooded(_) => {
                to.push(0);
                Count::default().write(to);
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(match from.byte()? {
            0 => Reading::Count(Binary::read(from)?),
            1 => Reading::Top(Binary::read(from)?),
            2 => Reading::Classes { unit: Binary::read(from)?, classes: Binary::read(from)? },
            3 => Reading::Histogram(Binary::read(from)?),
            4 => Reading::Series(Binary::read(from)?),
            5 => Reading::Distinct(Binary::read(from)?),
            6 => Reading::Table(Binary::read(from)?),
            _ => return Err(DecodeError::Invalid("shape")),
        })
    }
}

/// Fails unless a condition holds.
pub(crate) fn check(holds: bool, part: &'static str) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(part)) }
}

impl Binary for Key {
    fn write(&self, to: &mut Vec<u8>) {
        match *self {
            Key::Address(address) => {
                to.push(0);
                address.write(to);
            }
            Key::Pair(source, destination) => {
                to.push(1);
                (source, destination).write(to);
            }
            Key::Flow { source, source_port, destination, destination_port, protocol } => {
                to.push(2);
                ((source, source_port), (destination, destination_port)).write(to);
                protocol.write(to);
            }
            Key::Port { protocol, port } => {
                to.push(3);
                (protocol, port).write(to);
            }
            Key::Protocol(protocol) => {
                to.push(4);
                protocol.write(to);
            }
            Key::Vlan(id) => {
                to.push(5);
                id.write(to);
            }
            Key::Talker { server, port, client, protocol } => {
                to.push(6);
                ((server, port), (client, protocol)).write(to);
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        Ok(match from.byte()? {
            0 => Key::Address(Binary::read(from)?),
            1 => Key::Pair(Binary::read(from)?, Binary::read(from)?),
            2 => {
                let ((source, source_port), (destination, destination_port)) = Binary::read(from)?;
                let protocol = Binary::read(from)?;
                Key::Flow { source, source_port, destination, destination_port, protocol }
            }
            3 => Key::Port { protocol: Binary::read(from)?, port: Binary::read(from)? },
            4 => Key::Protocol(Binary::read(from)?),
            5 => Key::Vlan(Binary::read(from)?),
            6 => {
                let ((server, port), (client, protocol)) = Binary::read(from)?;
                Key::Talker { server, port, client, protocol }
            }
            _ => return Err(DecodeError::Invalid("key")),
        })
    }
}

impl Binary for Top {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { key, show, unit, capacity, rows, absent, inserts, shed } = self;
        key.write(to);
        show.write(to);
        unit.write(to);
        capacity.write(to);
        rows.write(to);
        absent.write(to);
        inserts.write(to);
        shed.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let top = Self {
            key: Binary::read(from)?,
            show: Binary::read(from)?,
            unit: Binary::read(from)?,
            capacity: Binary::read(from)?,
            rows: Binary::read(from)?,
            absent: Binary::read(from)?,
            inserts: from.count()?,
            shed: Binary::read(from)?,
        };
        check(top.show as u64 <= MAX_ROWS && top.capacity as u64 <= MAX_ROWS, "number of rows")?;
        check(top.rows.len() <= top.capacity, "number of rows")?;
        Ok(top)
    }
}

impl Binary for Histogram {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { of, edges, counts, n, sum, min, max } = self;
        of.write(to);
        edges.write(to);
        counts.write(to);
        n.write(to);
        sum.write(to);
        min.write(to);
        max.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let histogram = Self {
            of: Binary::read(from)?,
            edges: Binary::read(from)?,
            counts: Binary::read(from)?,
            n: from.count()?,
            sum: Binary::read(from)?,
            min: Binary::read(from)?,
            max: Binary::read(from)?,
        };
        check(histogram.edges.len() == histogram.counts.len(), "number of bins")?;
        let counts = histogram.counts.iter().all(|count| *count <= MAX_COUNT);
        check(counts && histogram.sum <= 1 << 126, "count")?;
        Ok(histogram)
    }
}

impl Binary for Series {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { step, first, cells } = self;
        step.write(to);
        first.write(to);
        cells.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let series =
            Self { step: Binary::read(from)?, first: Binary::read(from)?, cells: Binary::read(from)? };
        let last = series.first.checked_add(series.cells.len().saturating_sub(1) as u64);
        check(series.cells.len() <= Series::MAX_CELLS, "number of cells")?;
        check(series.step > 0 && last.and_then(|last| last.checked_mul(series.step)).is_some(), "time")?;
        Ok(series)
    }
}

impl Binary for DistinctCount {
    fn write(&self, to: &mut Vec<u8>) {
        self.of.write(to);
        self.counters().to_vec().write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let (of, counters): (_, Vec<(u64, Distinct)>) = Binary::read(from)?;
        check(counters.is_sorted_by(|(one, _), (next, _)| one < next), "order of counters")?;
        Ok(Self::from_counters(of, counters))
    }
}

impl<T: Binary + crate::Hashed> Binary for Distinct<T> {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Distinct::Few(values) => {
                to.push(0);
                values.write(to);
            }
            Distinct::Registers(registers) => {
                to.push(1);
                to.extend_from_slice(registers);
            }
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        match from.byte()? {
            0 => {
                let values = Vec::<T>::read(from)?;
                check(values.len() <= Self::EXACT, "number of values")?;
                check(values.is_sorted_by(|one, next| one < next), "order of values")?;
                Ok(Distinct::Few(values))
            }
            1 => {
                let registers = from.take(Distinct::SIZE)?;
                check(registers.iter().all(|register| *register <= Distinct::MAX_REGISTER), "register")?;
                Ok(Distinct::Registers(registers.to_vec()))
            }
            _ => Err(DecodeError::Invalid("counter")),
        }
    }
}

/// The form of [`Seen::Numbers`], after those of [`Distinct`].
const NUMBERS: u8 = 2;

impl Binary for DistinctValues {
    fn write(&self, to: &mut Vec<u8>) {
        let (seen, floor, added) = self.parts();
        match seen {
            Seen::Values(values) => values.write(to),
            Seen::Numbers(numbers) => {
                to.push(NUMBERS);
                numbers.write(to);
            }
        }
        floor.write(to);
        added.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let is_numbers = from.version >= WITH_NUMBERS && from.rest.first() == Some(&NUMBERS);
        let seen = if is_numbers {
            from.byte()?;
            Seen::Numbers(Binary::read(from)?)
        } else {
            Seen::Values(Binary::read(from)?)
        };
        let floor = from.count()?;
        // Earlier versions do not have it: nothing bounds the estimate.
        let added = if from.version >= WITH_NUMBERS { from.count()? } else { DistinctValues::UNKNOWN };
        Ok(Self::from_parts(seen, floor, added))
    }
}

impl Binary for Sketch {
    fn write(&self, to: &mut Vec<u8>) {
        let Self { max, merged, buckets, range } = self;
        max.write(to);
        merged.write(to);
        buckets.write(to);
        range.write(to);
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let sketch = Self {
            max: Binary::read(from)?,
            merged: Binary::read(from)?,
            buckets: Binary::read(from)?,
            range: Binary::read(from)?,
        };
        check(sketch.is_valid(MAX_COUNT), "sketch")?;
        Ok(sketch)
    }
}

// After the macros that it uses.
mod table;

#[cfg(test)]
#[path = "binary_tests.rs"]
mod tests;
