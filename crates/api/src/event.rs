//! Events: what happened, to what, when, how often, and the numbers that show it.
//!
//! Judges find events in the merged readings of functions, where an interval is complete, so that they do not depend on the
//! number of workers. Two events of one kind, origin and subject are one event. The program keeps events open, adds what is
//! found later, and ends them when nothing was found for [`Event::quiet`].

use crate::{Folded, Interval, LINE, NAMES};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of events of a snapshot. Of more, those with the first kinds and subjects are kept, so that the order
/// of merging makes no difference.
pub const MAX_EVENTS: usize = 1024;

/// Maximum number of numbers of evidence.
pub(crate) const MAX_EVIDENCE: usize = 64;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// How urgent an event is. The order is by urgency.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Normal, but to be known.
    Notice,
    /// A person should look at it.
    Warning,
    /// The monitor does not do what it should.
    Error,
}

impl Severity {
    /// All severities, in the order of the binary form.
    pub const ALL: [Severity; 3] = [Severity::Notice, Severity::Warning, Severity::Error];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }

    /// Its number in syslog (RFC 5424, table 2).
    pub fn syslog(self) -> u8 {
        match self {
            Severity::Notice => 5,
            Severity::Warning => 4,
            Severity::Error => 3,
        }
    }
}

/// A kind of event.
#[derive(Debug, Eq, PartialEq)]
pub struct EventKind {
    /// Its name: lower-case letters and underscores.
    pub name: &'static str,
    /// How urgent it is.
    pub severity: Severity,
    /// Its name in Zeek's notice.log.
    pub notice: &'static str,
    /// Meaning, one or two sentences.
    pub help: &'static str,
    /// A part of the expression that shows its packets, besides the subject; "" without one.
    pub scope: &'static str,
    /// Nanoseconds without a further finding after which the event has ended. `None` if only the end of its cause, or of
    /// the run, ends it.
    pub quiet: Option<u64>,
}

/// Every kind, in the order in which events are kept when there are too many.
pub static EVENT_KINDS: &[&EventKind] = &[
    &LINK_DOWN,
    &DISK_FULL,
    &STORE_FAILED,
    &OUTPUT_FAILED,
    &DUMP_FULL,
    &CLOCK_LEAP,
    &MANY,
    &PORT_SCAN,
    &ADDRESS_SCAN,
    &SYN_FLOOD,
    &UDP_FLOOD,
    &ICMP_FLOOD,
    &FRAGMENT_FLOOD,
    &REFLECTION,
    &NEW_SIGNATURE,
    &BEACON,
    &NEW_HOST,
    &NEW_SERVICE,
    &CHANGED_SERIES,
    &FINDING,
];

/// An interface is down or was removed.
pub static LINK_DOWN: EventKind = EventKind {
    name: "link_down",
    severity: Severity::Warning,
    notice: "Weir::Link_Down",
    help: "An interface is down, or was removed: no packets until it is up again.",
    scope: "",
    quiet: None,
};

/// A disk is full.
pub static DISK_FULL: EventKind = EventKind {
    name: "disk_full",
    severity: Severity::Error,
    notice: "Weir::Disk_Full",
    help: "A log, a packet file, an extracted file or the store was not written because its disk is full.",
    scope: "",
    quiet: Some(60 * SECOND),
};

/// The store was not written.
pub static STORE_FAILED: EventKind = EventKind {
    name: "store_failed",
    severity: Severity::Error,
    notice: "Weir::Store_Failed",
    help: "The store was not written.",
    scope: "",
    quiet: Some(60 * SECOND),
};

/// A log was not written.
pub static OUTPUT_FAILED: EventKind = EventKind {
    name: "output_failed",
    severity: Severity::Error,
    notice: "Weir::Output_Failed",
    help: "A log, a packet file or an extracted file was not written.",
    scope: "",
    quiet: Some(60 * SECOND),
};

/// A packet file of a trigger has reached its limit.
pub static DUMP_FULL: EventKind = EventKind {
    name: "dump_full",
    severity: Severity::Notice,
    notice: "Weir::Dump_Full",
    help: "A packet file of a trigger has reached its limit of packets or bytes: later packets are not in it.",
    scope: "",
    quiet: Some(60 * SECOND),
};

/// A step of the clock that packets have their times from.
pub static CLOCK_LEAP: EventKind = EventKind {
    name: "clock_leap",
    severity: Severity::Warning,
    notice: "Weir::Clock_Leap",
    help: "The time of packets went back by more than a second, or ahead by more than a day; while links are read: the system's clock was set by a second or more.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// More events than begin in a minute.
pub static MANY: EventKind = EventKind {
    name: "many",
    severity: Severity::Warning,
    notice: "Weir::Many",
    help: "More than 100 events about traffic began in a minute: this one stands for the further ones, which were not opened.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A scan of the ports of a host.
pub static PORT_SCAN: EventKind = EventKind {
    name: "port_scan",
    severity: Severity::Warning,
    notice: "Scan::Port_Scan",
    help: "A host tried 20 or more TCP ports of another host, with at least four in five attempts failing.",
    scope: "tcp",
    quiet: Some(300 * SECOND),
};

/// A scan of hosts for a port.
pub static ADDRESS_SCAN: EventKind = EventKind {
    name: "address_scan",
    severity: Severity::Warning,
    notice: "Scan::Address_Scan",
    help: "A host tried one TCP port of 20 or more hosts, with at least four in five attempts failing.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A flood of SYNs.
pub static SYN_FLOOD: EventKind = EventKind {
    name: "syn_flood",
    severity: Severity::Warning,
    notice: "Weir::SYN_Flood",
    help: "A port of a host was sent 1,000 SYNs or more in an interval, at most one in ten was answered, and they were 100 a second or at most two of each source.",
    scope: "tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn",
    quiet: Some(300 * SECOND),
};

/// A flood of datagrams.
pub static UDP_FLOOD: EventKind = EventKind {
    name: "udp_flood",
    severity: Severity::Warning,
    notice: "Weir::UDP_Flood",
    help: "A port of a host was sent 1,000 datagrams or more in an interval, at most one in ten was answered, and they were at most five of each source.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A flood of ICMP.
pub static ICMP_FLOOD: EventKind = EventKind {
    name: "icmp_flood",
    severity: Severity::Warning,
    notice: "Weir::ICMP_Flood",
    help: "A host was sent 1,000 messages of ICMP or more in an interval, 100 a second, and at most one in ten was answered.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A flood of fragments without a first one.
pub static FRAGMENT_FLOOD: EventKind = EventKind {
    name: "fragment_flood",
    severity: Severity::Warning,
    notice: "Weir::Fragment_Flood",
    help: "A host was sent 1,000 fragments or more without a first one in an interval, 100 a second.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A flood of answers that a host did not ask for, which servers reflect.
pub static REFLECTION: EventKind = EventKind {
    name: "reflection",
    severity: Severity::Warning,
    notice: "Weir::Reflection",
    help: "A host was sent answers that it did not ask for in an interval: 1,000 SYNs with ACK or RSTs, 100 a second or at most five of each source; or 500 datagrams of 20 servers or more.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A port signature that was not known.
pub static NEW_SIGNATURE: EventKind = EventKind {
    name: "new_signature",
    severity: Severity::Notice,
    notice: "Weir::New_Signature",
    help: "Hosts that may be worms sent SYNs to a set of at most ten destination ports that the list of port signatures of the store did not have.",
    scope: "",
    quiet: Some(300 * SECOND),
};

/// A pair of hosts whose flows begin at even times, found in the flows of a store when an hour has ended.
pub static BEACON: EventKind = EventKind {
    name: "beacon",
    severity: Severity::Warning,
    notice: "Weir::Beacon",
    help: "A host began 20 flows or more to a port of another host within 24 hours, at even times and with even bytes: the mean of the six parts of its score is 0.9 or more.",
    scope: "",
    quiet: Some(2 * HOUR),
};

/// A host at home that the flows of a store did not have, found when an hour has ended.
pub static NEW_HOST: EventKind = EventKind {
    name: "new_host",
    severity: Severity::Notice,
    notice: "Weir::New_Host",
    help: "A host at home sent packets, and is in no flow of the seven days before.",
    scope: "",
    quiet: Some(2 * HOUR),
};

/// A service at home that the flows of a store did not have, found when an hour has ended.
pub static NEW_SERVICE: EventKind = EventKind {
    name: "new_service",
    severity: Severity::Notice,
    notice: "Weir::New_Service",
    help: "A port below 32,768 of a host at home answered, and is in no flow of the seven days before.",
    scope: "",
    quiet: Some(2 * HOUR),
};

/// A line of a chart that has another value than in the weeks before, found in the series of a store when an hour has ended.
pub static CHANGED_SERIES: EventKind = EventKind {
    name: "changed_series",
    severity: Severity::Notice,
    notice: "Weir::Changed_Series",
    help: "The mean of a line of a chart in an hour is a quarter beyond all of this hour in up to four weeks before: at least twice their median or at most half of it, and further from it than 3.5 robust standard deviations.",
    scope: "",
    quiet: Some(2 * HOUR),
};

/// What the function `event` of a subscription found.
pub static FINDING: EventKind = EventKind {
    name: "finding",
    severity: Severity::Warning,
    notice: "Weir::Finding",
    help: "The function event of a subscription found something. The event has the name and the severity that the function gives it.",
    scope: "",
    quiet: Some(300 * SECOND),
};

impl EventKind {
    /// The kind of that name.
    pub fn find(name: &str) -> Option<&'static EventKind> {
        EVENT_KINDS.iter().find(|kind| kind.name == name).copied()
    }

    /// Whether it is about traffic, and not about the monitor.
    pub fn is_of_traffic(&self) -> bool {
        let of_monitor =
            [&LINK_DOWN, &DISK_FULL, &STORE_FAILED, &OUTPUT_FAILED, &DUMP_FULL, &CLOCK_LEAP, &MANY];
        !of_monitor.contains(&self)
    }

    /// Its place in [`EVENT_KINDS`].
    pub fn place(&self) -> usize {
        EVENT_KINDS.iter().position(|kind| kind.name == self.name).unwrap_or(EVENT_KINDS.len())
    }
}

/// The subscription that found an event.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Origin {
    /// The name of the subscription.
    pub subscription: Box<str>,
    /// The name that the subscription gives its events; `None` for that of the kind.
    pub name: Option<Box<str>>,
    /// How urgent its events are; `None` as the kind.
    pub severity: Option<Severity>,
    /// Nanoseconds without a further finding after which an event has ended; `None` as the kind.
    pub quiet: Option<u64>,
}

/// What an event is about.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// The monitor itself.
    Sensor,
    /// An interface, by its name.
    Interface(Box<str>),
    /// Something that the monitor writes, by its name.
    Output(Box<str>),
    /// A host.
    Host(IpAddr),
    /// What one host does to another.
    Pair {
        /// The acting host.
        source: IpAddr,
        /// The other host.
        target: IpAddr,
    },
    /// A host that talks to a watched host, or about a watched address or name.
    Watched {
        /// The initiator.
        source: IpAddr,
        /// The responder.
        target: IpAddr,
        /// The watched address, net or name.
        entry: Box<str>,
        /// The file of the entry.
        list: Box<str>,
    },
    /// What a host does to one port of many hosts.
    Port {
        /// The acting host.
        source: IpAddr,
        /// IP protocol: 6 TCP, 17 UDP, 132 SCTP.
        protocol: u8,
        /// The port.
        port: u16,
    },
    /// What a host does to a port of another.
    Called {
        /// The acting host.
        source: IpAddr,
        /// The other host.
        target: IpAddr,
        /// IP protocol number.
        protocol: u8,
        /// The port, if the protocol has ports.
        port: Option<u16>,
    },
    /// A line of a chart.
    Line {
        /// The name of its series.
        series: Box<str>,
        /// Its expression; "" for a line without one, or where expressions are not shown.
        expression: Box<str>,
    },
    /// What is done to a host by others, who need not be known.
    Target {
        /// The host that receives.
        target: IpAddr,
        /// IP protocol number.
        protocol: u8,
        /// The port, if there is one.
        port: Option<u16>,
        /// Whether it is the port of the senders, which is that of a service that answers.
        of_sender: bool,
    },
    /// The key of a row of a reading, as it is shown. It can come from packets.
    Key(Box<str>),
}

impl Subject {
    /// The acting host.
    pub fn source(&self) -> Option<IpAddr> {
        match self {
            Subject::Host(source)
            | Subject::Pair { source, .. }
            | Subject::Watched { source, .. }
            | Subject::Called { source, .. }
            | Subject::Port { source, .. } => Some(*source),
            _ => None,
        }
    }

    /// The host that it acts on.
    pub fn target(&self) -> Option<IpAddr> {
        match self {
            Subject::Pair { target, .. }
            | Subject::Watched { target, .. }
            | Subject::Called { target, .. }
            | Subject::Target { target, .. } => Some(*target),
            _ => None,
        }
    }

    /// The port that it acts on, with its IP protocol.
    pub fn port(&self) -> Option<(u8, u16)> {
        match self {
            Subject::Port { protocol, port, .. }
            | Subject::Called { protocol, port: Some(port), .. }
            | Subject::Target { protocol, port: Some(port), .. } => Some((*protocol, *port)),
            _ => None,
        }
    }

    /// The subject with other addresses. What of it is watched and the expression of a line are left out, because they state
    /// addresses or names.
    #[must_use]
    pub fn map(&self, mut address: impl FnMut(IpAddr) -> IpAddr) -> Subject {
        match self {
            Subject::Host(host) => Subject::Host(address(*host)),
            Subject::Pair { source, target } | Subject::Watched { source, target, .. } => {
                Subject::Pair { source: address(*source), target: address(*target) }
            }
            Subject::Port { source, protocol, port } => {
                Subject::Port { source: address(*source), protocol: *protocol, port: *port }
            }
            Subject::Called { source, target, protocol, port } => Subject::Called {
                source: address(*source),
                target: address(*target),
                protocol: *protocol,
                port: *port,
            },
            Subject::Line { series, .. } => {
                Subject::Line { series: series.clone(), expression: Box::default() }
            }
            Subject::Target { target, protocol, port, of_sender } => Subject::Target {
                target: address(*target),
                protocol: *protocol,
                port: *port,
                of_sender: *of_sender,
            },
            other => other.clone(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Subject::Interface(name) | Subject::Output(name) | Subject::Key(name) => name.len(),
            Subject::Watched { entry, list, .. } => entry.len() + list.len(),
            Subject::Line { series, expression } => series.len() + expression.len(),
            _ => 0,
        }
    }
}

/// The name of an IP protocol in expressions; `None` for one without ports.
fn protocol_name(protocol: u8) -> Option<&'static str> {
    match protocol {
        6 => Some("tcp"),
        17 => Some("udp"),
        132 => Some("sctp"),
        _ => None,
    }
}

/// A protocol, and a port of it if there is one.
struct Service(u8, Option<u16>);

/// `tcp/80`, `icmp`, `ip 47`.
impl fmt::Display for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (protocol_name(self.0), self.0) {
            (Some(name), _) => out.write_str(name)?,
            (None, 1) => out.write_str("icmp")?,
            (None, 58) => out.write_str("icmp6")?,
            (None, number) => write!(out, "ip {number}")?,
        }
        self.1.map_or(Ok(()), |port| write!(out, "/{port}"))
    }
}

/// `10.0.0.1 -> 10.0.0.2`, `10.0.0.1 -> 10.0.0.2 a.example of bad.txt`, `10.0.0.1 -> tcp/445`, `10.0.0.1 -> 10.0.0.2 tcp/443`,
/// `-> 10.0.0.2 tcp/80`, `udp/53 -> 10.0.0.2`, `chart/ports/ssh/packets`, `eth0`, `sensor`.
impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Sensor => out.write_str("sensor"),
            Subject::Interface(name) | Subject::Output(name) | Subject::Key(name) => out.write_str(name),
            Subject::Host(host) => write!(out, "{host}"),
            Subject::Pair { source, target } => write!(out, "{source} -> {target}"),
            Subject::Watched { source, target, entry, list } => {
                write!(out, "{source} -> {target} {entry} of {list}")
            }
            Subject::Port { source, protocol, port } => match protocol_name(*protocol) {
                Some(name) => write!(out, "{source} -> {name}/{port}"),
                None => write!(out, "{source} -> ip {protocol}/{port}"),
            },
            Subject::Called { source, target, protocol, port } => {
                write!(out, "{source} -> {target} {}", Service(*protocol, *port))
            }
            Subject::Line { series, .. } => out.write_str(series),
            Subject::Target { target, protocol, port, of_sender } => {
                let service = Service(*protocol, *port);
                match of_sender {
                    true => write!(out, "{service} -> {target}"),
                    false => write!(out, "-> {target} {service}"),
                }
            }
        }
    }
}

/// A number that shows an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Name: lower-case letters and underscores.
    pub name: Cow<'static, str>,
    /// Unit, "" without one. `time`: nanoseconds since the epoch.
    pub unit: Cow<'static, str>,
    /// The value, with the way in which it adds up.
    pub value: Folded,
}

impl Evidence {
    /// A number of evidence.
    pub fn new(name: &'static str, unit: &'static str, value: Folded) -> Self {
        Self { name: Cow::Borrowed(name), unit: Cow::Borrowed(unit), value }
    }

    /// Rewrites distinct values and times, as far as they are not only numbers. Lines of files are left out: see [`LINE`].
    pub fn map(&mut self, mut value: impl FnMut(u128) -> u128, time: impl Fn(u64) -> u64) {
        match &mut self.value {
            Folded::Distinct(_) if self.unit == NAMES => {}
            Folded::Distinct(values) => values.rename(&mut value),
            Folded::Sample(sample) => sample.rename(&mut value),
            Folded::Min(Some(at)) | Folded::Max(Some(at)) if self.unit == "time" => *at = time(*at),
            Folded::Max(line) if self.unit == LINE => *line = None,
            _ => {}
        }
    }

    /// The number: a sum, a minimum or maximum, or a number of distinct values.
    pub fn number(&self) -> u64 {
        self.value.weight()
    }
}

/// Whether an event has begun, goes on or has ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventState {
    /// It was found for the first time.
    #[default]
    Begin,
    /// It goes on, with at least twice the count.
    Update,
    /// Nothing was found for some time, or its cause has ended.
    End,
}

impl EventState {
    /// All states, in the order of the binary form.
    pub const ALL: [EventState; 3] = [EventState::Begin, EventState::Update, EventState::End];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            EventState::Begin => "begin",
            EventState::Update => "update",
            EventState::End => "end",
        }
    }
}

/// Something that happened, with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Identifies the event from its begin to its end. 0 until it is opened.
    pub id: u64,
    /// Its state.
    pub state: EventState,
    /// What happened.
    pub kind: &'static EventKind,
    /// The subscription that found it; `None` for the subscriptions of the program, and for what is about the monitor.
    pub origin: Option<Arc<Origin>>,
    /// What it happened to, or who did it.
    pub subject: Subject,
    /// Time of the first finding, in nanoseconds since the epoch.
    pub begin: u64,
    /// Time of the last finding.
    pub last: u64,
    /// Number of single findings, such as failed attempts.
    pub count: u64,
    /// Numbers by name, ordered by name; at most 64.
    pub evidence: Vec<Evidence>,
}

impl Event {
    /// An event of one moment, in nanoseconds since the epoch.
    pub fn at(kind: &'static EventKind, subject: Subject, time: u64) -> Self {
        Self {
            id: 0,
            state: EventState::Begin,
            kind,
            origin: None,
            subject,
            begin: time,
            last: time,
            count: 1,
            evidence: Vec::new(),
        }
    }

    /// An event of an interval, to its last nanosecond.
    pub fn over(kind: &'static EventKind, subject: Subject, interval: Interval) -> Self {
        let last = interval.end.saturating_sub(1).max(interval.start);
        Self { last, ..Self::at(kind, subject, interval.start) }
    }

    /// The event with a further number of evidence. A name is used once.
    #[must_use]
    pub fn with(mut self, name: &'static str, unit: &'static str, value: Folded) -> Self {
        if self.evidence.len() < MAX_EVIDENCE {
            let at = self.evidence.partition_point(|one| &*one.name < name);
            self.evidence.insert(at, Evidence::new(name, unit, value));
        }
        self
    }

    /// The name of what happened: that of its origin, or of its kind.
    pub fn name(&self) -> &str {
        self.origin.as_ref().and_then(|origin| origin.name.as_deref()).unwrap_or(self.kind.name)
    }

    /// How urgent it is.
    pub fn severity(&self) -> Severity {
        self.origin.as_ref().and_then(|origin| origin.severity).unwrap_or(self.kind.severity)
    }

    /// Nanoseconds without a further finding after which it has ended. `None` if only the end of its cause, or of the run,
    /// ends it.
    pub fn quiet(&self) -> Option<u64> {
        self.origin.as_ref().and_then(|origin| origin.quiet).or(self.kind.quiet)
    }

    /// Compares kinds, origins, then subjects. Events with equal ones are one event.
    pub fn key_cmp(&self, other: &Event) -> Ordering {
        let by_kind = self.kind.place().cmp(&other.kind.place());
        by_kind.then_with(|| self.origin.cmp(&other.origin)).then_with(|| self.subject.cmp(&other.subject))
    }

    /// Adds an event of equal kind, origin and subject.
    pub fn merge(&mut self, other: &Event) {
        self.begin = self.begin.min(other.begin);
        self.last = self.last.max(other.last);
        self.count = self.count.saturating_add(other.count);
        for theirs in &other.evidence {
            let at = self.evidence.partition_point(|one| one.name < theirs.name);
            let is_known = self.evidence.get(at).is_some_and(|mine| mine.name == theirs.name);
            if !is_known && self.evidence.len() < MAX_EVIDENCE {
                self.evidence.insert(at, theirs.clone());
            } else if let Some(mine) = self.evidence.get_mut(at).filter(|_| is_known)
                // A kind has one fold for a name; bytes from elsewhere may not.
                && mine.value.fold() == theirs.value.fold()
            {
                mine.value.merge(&theirs.value);
            }
        }
    }

    /// The number of that name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name).map(Folded::weight)
    }

    /// The value of that name.
    pub fn value(&self, name: &str) -> Option<&Folded> {
        self.evidence.iter().find(|one| one.name == name).map(|one| &one.value)
    }

    /// The expression that shows its packets, in the language of pcap-filter(7); `None` if no packets show it.
    pub fn expression(&self) -> Option<String> {
        let mut text = match &self.subject {
            Subject::Sensor | Subject::Interface(_) | Subject::Output(_) | Subject::Key(_) => return None,
            Subject::Host(host) => format!("host {host}"),
            Subject::Pair { source, target } => format!("src host {source} and dst host {target}"),
            Subject::Watched { source, target, .. } => format!("host {source} and host {target}"),
            Subject::Line { expression, .. } if expression.is_empty() => return None,
            Subject::Line { expression, .. } => expression.to_string(),
            Subject::Called { source, target, protocol, port } => match (protocol_name(*protocol), port) {
                (Some(name), Some(port)) => format!("host {source} and host {target} and {name} port {port}"),
                _ => format!("host {source} and host {target}"),
            },
            Subject::Port { source, protocol, port } => match protocol_name(*protocol) {
                Some(name) => format!("src host {source} and {name} dst port {port}"),
                None => format!("src host {source} and (ip proto {protocol} or ip6 proto {protocol})"),
            },
            Subject::Target { target, protocol, port, of_sender } => {
                let side = if *of_sender { "src" } else { "dst" };
                match (protocol_name(*protocol), port) {
                    (Some(name), Some(port)) => format!("dst host {target} and {name} {side} port {port}"),
                    _ => format!("dst host {target} and (ip proto {protocol} or ip6 proto {protocol})"),
                }
            }
        };
        if !self.kind.scope.is_empty() {
            text.push_str(" and ");
            text.push_str(self.kind.scope);
        }
        Some(text)
    }

    /// Its time.
    pub fn times(&self) -> Interval {
        Interval { start: self.begin, end: self.last }
    }

    /// Gives the event the identifier that its kind, subject and beginning have in every run.
    pub fn identify(&mut self) {
        // FNV-1a of 64 bits, which needs no key: equal packets give equal identifiers.
        let by = self.origin.as_ref().map_or("", |origin| &origin.subscription);
        let text = match by {
            "" => format!("{} {} {}", self.name(), self.subject, self.begin),
            by => format!("{} {} {} {by}", self.name(), self.subject, self.begin),
        };
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.id = hash.max(1);
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let evidence = |one: &Evidence| size_of::<Evidence>() + one.value.memory();
        let origin = |origin: &Arc<Origin>| {
            size_of::<Origin>()
                + origin.subscription.len()
                + origin.name.as_ref().map_or(0, |name| name.len())
        };
        let origin = self.origin.as_ref().map_or(0, origin);
        size_of::<Self>() + origin + self.subject.memory() + self.evidence.iter().map(evidence).sum::<usize>()
    }
}

/// Adds events to others that are ordered by kind, origin and subject. Returns the number of findings that did not fit into
/// [`MAX_EVENTS`].
pub fn add(events: &mut Vec<Event>, more: &[Event]) -> u64 {
    for event in more {
        match events.binary_search_by(|known| known.key_cmp(event)) {
            Ok(at) => {
                if let Some(known) = events.get_mut(at) {
                    known.merge(event);
                }
            }
            Err(at) => events.insert(at, event.clone()),
        }
    }
    events.drain(MAX_EVENTS.min(events.len())..).map(|event| event.count).fold(0, u64::saturating_add)
}

/// Counts of events in an interval: `begun = ended + open` over a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct EventCount {
    /// Events that began.
    pub begun: u64,
    /// Findings that were added to an open event.
    pub merged: u64,
    /// Events that ended.
    pub ended: u64,
    /// Events that began and were hidden by a mute; they are in `begun`, too.
    pub muted: u64,
    /// Findings that belong to no event, because too many were open, or too many were found at a time.
    pub shed: u64,
}

impl EventCount {
    /// Adds the counts of another worker or interval.
    pub fn add(&mut self, other: &EventCount) {
        self.begun += other.begun;
        self.merged += other.merged;
        self.ended += other.ended;
        self.muted += other.muted;
        self.shed = self.shed.saturating_add(other.shed);
    }
}

/// All facts but the times, with the numbers of evidence as an object.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut members = to.serialize_map(None)?;
        if self.id != 0 {
            members.serialize_entry("id", &format!("{:016x}", self.id))?;
            members.serialize_entry("state", &self.state)?;
        }
        members.serialize_entry("event", self.name())?;
        if let Some(origin) = &self.origin {
            members.serialize_entry("subscription", &origin.subscription)?;
        }
        members.serialize_entry("severity", &self.severity())?;
        members.serialize_entry("subject", &self.subject.to_string())?;
        if let Some(source) = self.subject.source() {
            members.serialize_entry("source", &source)?;
        }
        if let Some(target) = self.subject.target() {
            members.serialize_entry("target", &target)?;
        }
        if let Some((_, port)) = self.subject.port() {
            members.serialize_entry("port", &port)?;
        }
        if let Subject::Watched { entry, list, .. } = &self.subject {
            members.serialize_entry("entry", entry)?;
            members.serialize_entry("list", list)?;
        }
        members.serialize_entry("count", &self.count)?;
        members.serialize_entry("evidence", &Numbers(&self.evidence))?;
        if let Some(expression) = self.expression() {
            members.serialize_entry("expression", &expression)?;
        }
        members.end()
    }
}

/// Evidence as an object of numbers.
struct Numbers<'e>(&'e [Evidence]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|one| (&one.name, one.number())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(n: u64) -> Event {
        let address = |n: u64| IpAddr::from((n as u32).to_be_bytes());
        let subject = match n % 10 {
            0 => Subject::Sensor,
            1 => Subject::Interface("eth0".into()),
            2 => Subject::Output("conn.log".into()),
            3 => Subject::Host(address(n % 40)),
            4 => Subject::Pair { source: address(n % 7), target: address(n % 11) },
            5 => {
                let [source, target] = [n % 5, n % 3].map(address);
                Subject::Watched { source, target, entry: "a.example".into(), list: "bad.txt".into() }
            }
            6 => Subject::Target {
                target: address(n % 6),
                protocol: 17,
                port: n.is_multiple_of(2).then_some(n as u16),
                of_sender: n.is_multiple_of(3),
            },
            7 => Subject::Line { series: "chart/ports/ssh/packets".into(), expression: "tcp port 22".into() },
            8 => Subject::Called {
                source: address(n % 5),
                target: address(n % 3),
                protocol: 6,
                port: n.is_multiple_of(3).then_some(443),
            },
            _ => Subject::Port { source: address(n % 13), protocol: 6, port: (n % 3) as u16 },
        };
        let kind = EVENT_KINDS[n as usize % EVENT_KINDS.len()];
        let event = Event::at(kind, subject, n).with("flows", "flows", Folded::Sum(n % 50)).with(
            "first",
            "time",
            Folded::Min(Some(n)),
        );
        Event { count: 1 + n % 9, ..event }
    }

    fn sum(numbers: &[u64]) -> (Vec<Event>, u64) {
        let mut events = Vec::new();
        let shed = numbers.iter().map(|n| add(&mut events, &[event(*n)])).sum();
        (events, shed)
    }

    proptest! {
        #[test]
        fn events_merge_in_any_order(numbers: Vec<u64>, cut: prop::sample::Index) {
            let whole = sum(&numbers);
            let (left, right) = numbers.split_at(cut.index(numbers.len() + 1));
            for (one, other) in [(left, right), (right, left)] {
                let (mut merged, shed) = sum(one);
                let (more, others) = sum(other);
                let last = add(&mut merged, &more);
                prop_assert_eq!((&merged, shed + others + last), (&whole.0, whole.1));
            }
            let found: u64 = whole.0.iter().map(|event| event.count).sum();
            prop_assert_eq!(found + whole.1, numbers.iter().map(|n| event(*n).count).sum::<u64>());
        }
    }

    /// Which events are kept does not depend on how they were divided, and each finding is counted.
    #[test]
    fn too_many_events_are_bounded_and_counted() {
        let host = |n: u64| Event::at(&PORT_SCAN, Subject::Host(IpAddr::from((n as u32).to_be_bytes())), n);
        let all: Vec<Event> = (0..3_000).map(|n| host(n * 7_919 % 3_000)).collect();
        let of = |events: &mut dyn Iterator<Item = &Event>| {
            let mut sum = Vec::new();
            let shed = events.map(|event| add(&mut sum, std::slice::from_ref(event))).sum::<u64>();
            (sum, shed)
        };
        let whole = of(&mut all.iter());
        assert_eq!((whole.0.len(), whole.1), (MAX_EVENTS, 3_000 - MAX_EVENTS as u64));
        let (mut one, shed) = of(&mut all.iter().step_by(2));
        let (two, others) = of(&mut all.iter().skip(1).step_by(2));
        let last = add(&mut one, &two);
        assert_eq!((one, shed + others + last), whole);
    }

    #[test]
    fn kinds_are_unique_well_formed_and_have_help() {
        for (at, kind) in EVENT_KINDS.iter().enumerate() {
            assert!(kind.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", kind.name);
            assert!(kind.help.ends_with('.') && kind.notice.contains("::"), "{}", kind.name);
            assert_eq!(EventKind::find(kind.name), Some(*kind));
            assert_eq!(kind.place(), at, "{} twice", kind.name);
            // Kinds about the monitor come first.
            assert_eq!(kind.is_of_traffic(), at >= PORT_SCAN.place(), "{}", kind.name);
        }
    }

    #[test]
    fn identifiers_are_those_of_kind_subject_and_beginning() {
        let mut ids: Vec<u64> = (0..1_000)
            .map(event)
            .map(|mut event| {
                event.identify();
                event.id
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1_000);
    }

    #[test]
    fn expressions_show_the_packets() {
        let [source, target] = ["10.0.0.9", "2001:db8::1"].map(|text| text.parse().unwrap());
        let event = |name: &str, subject| Event::at(EventKind::find(name).unwrap(), subject, 5).expression();
        assert_eq!(
            event("port_scan", Subject::Pair { source, target }).unwrap(),
            "src host 10.0.0.9 and dst host 2001:db8::1 and tcp"
        );
        assert_eq!(
            event("address_scan", Subject::Port { source, protocol: 6, port: 22 }).unwrap(),
            "src host 10.0.0.9 and tcp dst port 22"
        );
        assert_eq!(event("clock_leap", Subject::Sensor), None);
        let called = |protocol, port| Subject::Called { source, target: source, protocol, port };
        let line = |text: &str| Subject::Line { series: "chart/a/b/bits".into(), expression: text.into() };
        for (kind, subject, shown, expression) in [
            (
                "beacon",
                called(6, Some(443)),
                "10.0.0.9 -> 10.0.0.9 tcp/443",
                Some("host 10.0.0.9 and host 10.0.0.9 and tcp port 443"),
            ),
            (
                "beacon",
                called(47, None),
                "10.0.0.9 -> 10.0.0.9 ip 47",
                Some("host 10.0.0.9 and host 10.0.0.9"),
            ),
            ("changed_series", line("udp port 53"), "chart/a/b/bits", Some("udp port 53")),
            ("changed_series", line("udp port 53").map(|_| source), "chart/a/b/bits", None),
        ] {
            assert_eq!((&*subject.to_string(), event(kind, subject).as_deref()), (shown, expression));
        }
        let target =
            |protocol, port, of_sender| Subject::Target { target: source, protocol, port, of_sender };
        for (kind, subject, shown, expression) in [
            (
                "syn_flood",
                target(6, Some(80), false),
                "-> 10.0.0.9 tcp/80",
                "dst host 10.0.0.9 and tcp dst port 80 and tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn",
            ),
            (
                "reflection",
                target(17, Some(53), true),
                "udp/53 -> 10.0.0.9",
                "dst host 10.0.0.9 and udp src port 53",
            ),
            (
                "icmp_flood",
                target(1, None, false),
                "-> 10.0.0.9 icmp",
                "dst host 10.0.0.9 and (ip proto 1 or ip6 proto 1)",
            ),
        ] {
            assert_eq!((&*subject.to_string(), event(kind, subject).as_deref()), (shown, Some(expression)));
        }
    }

    #[test]
    fn what_is_watched_is_in_the_object_and_leaves_with_the_addresses() {
        let [source, target] = ["10.0.0.9", "2001:db8::1"].map(|text| text.parse().unwrap());
        let subject = Subject::Watched { source, target, entry: "a.example".into(), list: "bad.txt".into() };
        let mut event = Event::at(&FINDING, subject, 5).with("line", LINE, Folded::Max(Some(7)));
        assert_eq!(event.expression().unwrap(), "host 10.0.0.9 and host 2001:db8::1");
        let value = serde_json::to_value(&event).unwrap();
        assert_eq!((&value["entry"], &value["list"]), (&"a.example".into(), &"bad.txt".into()));
        assert_eq!(value["evidence"], serde_json::json!({"line": 7}));
        assert_eq!(event.subject.map(|_| source), Subject::Pair { source, target: source });
        event.evidence.iter_mut().for_each(|one| one.map(|value| value, |time| time));
        assert_eq!(event.number("line"), Some(0));
    }

    #[test]
    fn the_object_has_the_numbers_by_name() {
        let mut event = event(4);
        assert!(serde_json::to_value(&event).unwrap().get("state").is_none(), "it is not opened");
        event.identify();
        let value = serde_json::to_value(event).unwrap();
        assert_eq!(value["evidence"], serde_json::json!({"first": 4, "flows": 4}));
        assert_eq!((&value["state"], &value["target"]), (&"begin".into(), &"0.0.0.4".into()));
    }
}
