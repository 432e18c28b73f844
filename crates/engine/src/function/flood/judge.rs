//! Judges the readings of the function `flood`: which rows are floods.

use super::Kind;
use crate::function::judge::Judge;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_api::event::{FRAGMENT_FLOOD, ICMP_FLOOD, REFLECTION, SYN_FLOOD, UDP_FLOOD};
use weir_api::{Datum, Event, EventKind, FloodKey, Flooded, Folded, Interval, Reading, Subject, TableRow};

/// Minimum number of packets of a flood in an interval.
const LEAST: u64 = 1_000;
/// Packets of a flood for each one that was answered, at least.
const ANSWERED: u64 = 10;
/// Packets in a second of the interval from which a flood is fast.
const FAST: u64 = 100;
/// Maximum number of packets that the sources of a flood of forged addresses sent on average: of SYNs, which are sent again where
/// nothing answers; and of datagrams.
const FORGED_SYNS: u64 = 2;
const FORGED: u64 = 5;
/// Minimum number of datagrams that servers reflect, and of the servers. In ordinary traffic few servers of a service send what a
/// host did not ask for.
const REFLECTED: u64 = 500;
const REFLECTORS: u64 = 20;
/// A flood that is open goes on in an interval with this part of the packets that a new one needs, whatever their sources: its end,
/// and its fragments, which are given up later, may be in the next interval.
const GOES_ON: u64 = 5;

const SECOND: u64 = 1_000_000_000;

/// Finds floods in each reading by itself; those that are open go on with less.
pub(super) struct Floods;

impl Judge for Floods {
    fn judge(
        &mut self,
        reading: &Reading,
        watched: Interval,
        interval: Interval,
        is_open: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event> {
        let length = interval.end.saturating_sub(interval.start);
        let rows: Vec<Received> = match reading {
            Reading::Table(table) => table.rows.iter().filter_map(Received::of).collect(),
            Reading::Flooded(sums) => sums.flooded().into_iter().map(Received::of_sums).collect(),
            _ => Vec::new(),
        };
        let fragments = Fragments::of(&rows);
        let flood = |row: &Received<'_>| {
            let (kind, least, is_flood) = row.flood(length)?;
            let goes_on = || row.packets >= least / GOES_ON && is_open(&row.event(kind, watched));
            (row.is_unanswered() && (is_flood && row.packets >= least || goes_on())).then_some(kind)
        };
        let events = rows.iter().filter_map(|row| Some((row, flood(row)?)));
        events
            .map(|(row, kind)| match fragments.beside(row, kind) {
                Some(packets) => row.event(kind, watched).with("fragments", "packets", Folded::Sum(packets)),
                None => row.event(kind, watched),
            })
            .collect()
    }
}

/// Fragments without a first one by target and IP protocol. Where answers are too large for a packet, those of their fragments
/// whose first one was lost have no port, and thus are in no row of what is reflected.
struct Fragments(BTreeMap<(IpAddr, u8), u64>);

impl Fragments {
    fn of(rows: &[Received]) -> Self {
        let of_kind = rows.iter().filter(|row| row.kind == Kind::Fragment.name());
        Self(of_kind.filter_map(|row| Some((row.place()?, row.packets))).collect())
    }

    /// The number of those to the target of a reflection, of its protocol; `None` for other floods, and without such fragments.
    fn beside(&self, row: &Received, kind: &EventKind) -> Option<u64> {
        let place = row.place().filter(|_| *kind == REFLECTION)?;
        self.0.get(&place).copied().filter(|packets| *packets > 0)
    }
}

/// A row.
struct Received<'r> {
    subject: Subject,
    kind: &'r str,
    packets: u64,
    bytes: u64,
    sources: Cow<'r, Folded>,
    answered: u64,
    /// Packets of others among the numbers, beside `packets`; `None` if these are exact.
    others: Option<u64>,
}

impl<'r> Received<'r> {
    fn of(row: &'r TableRow) -> Option<Self> {
        let [Datum::Address(target), Datum::Text(kind), service, Datum::Number(protocol), port] =
            row.key.as_slice()
        else {
            return None;
        };
        let [Folded::Sum(packets), Folded::Sum(bytes), sources, Folded::Sum(answered)] =
            row.values.as_slice()
        else {
            return None;
        };
        let port = if let Datum::Number(port) = port { u16::try_from(*port).ok() } else { None };
        // What has a service is sent by it.
        let of_sender = *service != Datum::Nothing;
        let subject =
            Subject::Target { target: *target, protocol: u8::try_from(*protocol).ok()?, port, of_sender };
        Some(Self {
            subject,
            kind,
            packets: *packets,
            bytes: *bytes,
            sources: Cow::Borrowed(sources),
            answered: *answered,
            others: None,
        })
    }

    fn of_sums(flooded: Flooded) -> Self {
        let FloodKey { host, kind, protocol, port, of_sender, .. } = flooded.key;
        // The sources of several intervals cannot be counted together.
        let sources = Folded::Max(Some(flooded.sources));
        Self {
            subject: Subject::Target { target: host, protocol, port, of_sender },
            kind,
            packets: flooded.packets,
            bytes: flooded.bytes,
            sources: Cow::Owned(sources),
            answered: flooded.answered,
            others: (!flooded.is_alone).then_some(flooded.others),
        }
    }

    /// The target and the IP protocol.
    fn place(&self) -> Option<(IpAddr, u8)> {
        match self.subject {
            Subject::Target { target, protocol, .. } => Some((target, protocol)),
            _ => None,
        }
    }

    /// The kind of flood that it may be, the packets that a new one needs, and whether its packets are as those of a flood.
    /// `length` is that of the interval in nanoseconds.
    fn flood(&self, length: u64) -> Option<(&'static EventKind, u64, bool)> {
        // Each packet of others may have a source of its own.
        let sources = self.sources.weight().saturating_sub(self.others.unwrap_or(0));
        let is_fast = self.packets >= FAST * length.div_ceil(SECOND);
        let is_forged = |most: u64| self.packets <= sources.saturating_mul(most);
        Some(match self.kind {
            "syn" => (&SYN_FLOOD, LEAST, is_fast || is_forged(FORGED_SYNS)),
            "synack" | "rst" => (&REFLECTION, LEAST, is_fast || is_forged(FORGED)),
            "reflected" => (&REFLECTION, REFLECTED, sources >= REFLECTORS),
            "udp" => (&UDP_FLOOD, LEAST, is_forged(FORGED)),
            "icmp" => (&ICMP_FLOOD, LEAST, is_fast),
            "fragment" => (&FRAGMENT_FLOOD, LEAST, is_fast),
            _ => return None,
        })
    }

    fn is_unanswered(&self) -> bool {
        self.answered.saturating_mul(ANSWERED) <= self.packets
    }

    fn event(&self, kind: &'static EventKind, watched: Interval) -> Event {
        let event = Event::over(kind, self.subject.clone(), watched)
            .with("packets", "packets", Folded::Sum(self.packets))
            .with("bytes", "bytes", Folded::Sum(self.bytes))
            .with("sources", "", self.sources.clone().into_owned())
            .with("answered", "packets", Folded::Sum(self.answered));
        let event = match self.others {
            Some(others) => event.with("others", "packets", Folded::Sum(others)),
            None => event,
        };
        Event { count: self.packets, ..event }
    }
}
