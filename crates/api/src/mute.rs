//! Mutes: which events are kept out of sight, until when, and why.
//!
//! A mute is a decision of a person about events, or about alerts of a rule, that are known and need no attention. What it matches
//! is still stored and counted.

use crate::{Event, Net, web};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use utoipa::ToSchema;

/// Maximum number of kinds of a mute.
pub const MAX_KINDS: usize = 32;
/// Maximum length of the name of a kind in bytes; that of the function `event`.
const MAX_KIND: usize = 64;
/// Maximum number of characters of a reason, and of a note.
pub const MAX_REASON: usize = 200;
/// Maximum time from now to the end of a mute in nanoseconds: 366 days.
pub const MAX_TIME: u64 = 366 * 86_400_000_000_000;

/// A port with its IP protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Service {
    /// IP protocol number: 6 TCP, 17 UDP, 132 SCTP.
    pub protocol: u8,
    /// The port.
    pub port: u16,
}

/// Protocols with ports, by their names in expressions.
static PROTOCOLS: [(&str, u8); 3] = [("tcp", 6), ("udp", 17), ("sctp", 132)];

/// `tcp/445`; `47/1` for a protocol without a name.
impl fmt::Display for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == self.protocol) {
            Some((name, _)) => write!(out, "{name}/{}", self.port),
            None => write!(out, "{}/{}", self.protocol, self.port),
        }
    }
}

/// Reads `tcp/445`, `udp/53` or `sctp/36412`, and a number in place of the protocol. The error is what is accepted.
impl FromStr for Service {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a port with its protocol, as tcp/445, udp/53 or sctp/36412";
        let (protocol, port) = text.split_once('/').ok_or(FORM)?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let named = PROTOCOLS.iter().find(|(name, _)| *name == protocol).map(|(_, number)| *number);
        let number = || protocol.parse().ok().filter(|_| is_number(protocol));
        let protocol = named.or_else(number).ok_or(FORM)?;
        let port = port.parse().ok().filter(|_| is_number(port)).ok_or(FORM)?;
        Ok(Self { protocol, port })
    }
}

/// A rule by its group and its number, in all of its revisions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RuleId {
    /// The group.
    pub gid: u64,
    /// The number in the group.
    pub sid: u64,
}

/// `1:2013028`.
impl fmt::Display for RuleId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.gid, self.sid)
    }
}

/// Reads `1:2013028`: group and number, each of 32 bits as in rules. The error is what is accepted.
impl FromStr for RuleId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a rule by its group and its number, as 1:2013028";
        let (gid, sid) = text.split_once(':').ok_or(FORM)?;
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_number).map(u64::from).ok_or(FORM)
        };
        Ok(Self { gid: number(gid)?, sid: number(sid)? })
    }
}

/// The facts of an event that a mute compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts<'e> {
    /// Its name: that of its kind, or the one that its subscription gives it.
    pub name: &'e str,
    /// The acting host.
    pub source: Option<IpAddr>,
    /// The host that it acts on.
    pub target: Option<IpAddr>,
    /// The port that it acts on.
    pub service: Option<Service>,
}

impl<'e> Facts<'e> {
    /// Those of an event.
    pub fn of(event: &'e Event) -> Self {
        Self {
            name: event.name(),
            source: event.subject.source(),
            target: event.subject.target(),
            service: event.subject.port().map(|(protocol, port)| Service { protocol, port }),
        }
    }

    /// Those of a stored event.
    pub fn of_stored(event: &'e web::Event) -> Self {
        let address = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        Self {
            name: &event.kind,
            source: address(&event.host),
            target: address(&event.target),
            service: event.port.as_ref().and_then(|text| text.parse().ok()),
        }
    }
}

/// Which events, or which alerts of a rule, a mute hides: those that meet all of its conditions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scope {
    /// Names of events; every one if there are none. There are none with a rule.
    pub kinds: Vec<String>,
    /// The rule whose alerts it hides. With one it hides no events, and without one no alerts.
    pub rule: Option<RuleId>,
    /// A net of the acting host; of an alert, of the sender of its packet. An event without an acting host is in no net.
    pub source: Option<Net>,
    /// A net of the host that it acts on; of an alert, of the receiver of its packet.
    pub target: Option<Net>,
    /// The port that it acts on; of an alert, that of the server.
    pub port: Option<Service>,
}

impl Scope {
    /// Checks names and their number, and that there is a condition at all: events about the monitor itself, such as a full disk,
    /// are not hidden unless their kind is named.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is accepted.
    pub fn check(&self) -> Result<(), (String, &'static str)> {
        const KINDS: &str = "names of events, such as port_scan: at most 32, of letters, digits, - and _";
        let is_name = |kind: &String| {
            (1..=MAX_KIND).contains(&kind.len())
                && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if self.kinds.len() > MAX_KINDS {
            return Err((format!("{} kinds", self.kinds.len()), KINDS));
        }
        if !self.kinds.iter().all(is_name) {
            return Err(("a kind is not the name of an event".to_owned(), KINDS));
        }
        if self.rule.is_some() && !self.kinds.is_empty() {
            return Err(("both kinds and a rule".to_owned(), "kinds of events, or a rule"));
        }
        if *self == Self::default() {
            return Err(("it hides every event".to_owned(), "a kind, a rule, a net or a port"));
        }
        Ok(())
    }

    /// Whether an event meets all conditions.
    pub fn has(&self, facts: &Facts<'_>) -> bool {
        let is_in = |net: &Option<Net>, address: Option<IpAddr>| {
            net.is_none_or(|net| address.is_some_and(|address| net.has(address)))
        };
        self.rule.is_none()
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == facts.name))
            && is_in(&self.source, facts.source)
            && is_in(&self.target, facts.target)
            && self.port.is_none_or(|port| facts.service == Some(port))
    }
}

/// A decision that events, or alerts of a rule, are kept out of sight.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mute {
    /// Its number, from 1. A number is used once in a store.
    pub number: u64,
    /// What it hides.
    pub scope: Scope,
    /// The time from which it hides none, in nanoseconds since the epoch; `None` if it does not end.
    pub until: Option<u64>,
    /// Why, as free text of at most [`MAX_REASON`] characters.
    pub reason: String,
    /// Who made it.
    pub who: String,
    /// When it was made, in nanoseconds since the epoch.
    pub made: u64,
}

impl Mute {
    /// Whether it hides an event at a time in nanoseconds since the epoch.
    pub fn hides(&self, facts: &Facts<'_>, at: u64) -> bool {
        self.until.is_none_or(|until| at < until) && self.scope.has(facts)
    }
}

/// Which events, or which alerts of a rule, a mute hides, as text. They must meet every condition that is there.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MuteScope {
    /// Names of events, such as `port_scan`; all if there are none.
    pub kinds: Vec<String>,
    /// The rule whose alerts are hidden, in place of events: its group and number, as `1:2013028`.
    // An earlier version of the program reads mutes of events if they do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// An address or a net of the acting host; of an alert, of the sender of the packet in which the rule matched.
    pub source: Option<String>,
    /// An address or a net of the host that it acts on; of an alert, of the receiver of this packet.
    pub target: Option<String>,
    /// The port that it acts on, with its protocol, as `tcp/445`; of an alert, that of the server.
    pub port: Option<String>,
}

impl MuteScope {
    /// The conditions.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is accepted.
    pub fn read(&self) -> Result<Scope, (String, &'static str)> {
        const NET: &str = "an address or a net, as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32";
        let net = |name: &str, text: &Option<String>| {
            let read = text.as_deref().map(str::parse::<Net>).transpose();
            read.map_err(|error| (format!("{name}: {error}"), NET))
        };
        let port = self.port.as_deref().map(str::parse::<Service>).transpose();
        let rule = self.rule.as_deref().map(str::parse::<RuleId>).transpose();
        let scope = Scope {
            kinds: self.kinds.clone(),
            rule: rule.map_err(|form| ("rule: not the name of a rule".to_owned(), form))?,
            source: net("source", &self.source)?,
            target: net("target", &self.target)?,
            port: port.map_err(|form| ("port: not a port with its protocol".to_owned(), form))?,
        };
        scope.check()?;
        Ok(scope)
    }
}

impl From<&Scope> for MuteScope {
    fn from(scope: &Scope) -> Self {
        Self {
            kinds: scope.kinds.clone(),
            rule: scope.rule.map(|rule| rule.to_string()),
            source: scope.source.map(|net| net.to_string()),
            target: scope.target.map(|net| net.to_string()),
            port: scope.port.map(|port| port.to_string()),
        }
    }
}

/// Checks a reason or a note: free text of a person, of at most [`MAX_REASON`] characters and without control characters.
///
/// # Errors
///
/// What is wrong, and what is accepted.
pub fn check_text(name: &str, text: &str) -> Result<(), (String, &'static str)> {
    const FORM: &str = "at most 200 characters in one line";
    let long = text.chars().count();
    if long > MAX_REASON {
        return Err((format!("{name}: {long} characters"), FORM));
    }
    match text.chars().any(char::is_control) {
        true => Err((format!("{name}: a control character"), FORM)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Subject;
    use crate::event::{DISK_FULL, PORT_SCAN, SYN_FLOOD};

    fn scope(
        kinds: &[&str],
        source: &str,
        target: &str,
        port: &str,
    ) -> Result<Scope, (String, &'static str)> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let kinds = kinds.iter().map(|&kind| kind.to_owned()).collect();
        let rule = None;
        MuteScope { kinds, rule, source: some(source), target: some(target), port: some(port) }.read()
    }

    #[test]
    fn an_event_is_hidden_if_it_meets_every_condition() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let pair = Subject::Pair { source: ip("10.0.0.1"), target: ip("2001:db8::2") };
        let scan = Event::at(&PORT_SCAN, pair, 5);
        let target =
            Subject::Target { target: ip("192.0.2.9"), protocol: 6, port: Some(80), of_sender: false };
        let flood = Event::at(&SYN_FLOOD, target, 5);
        let full = Event::at(&DISK_FULL, Subject::Sensor, 5);
        for (kinds, source, target, port, hidden) in [
            (&["port_scan"][..], "", "", "", [true, false, false]),
            (&["syn_flood", "port_scan"], "", "", "", [true, true, false]),
            (&[], "10.0.0.0/8", "", "", [true, false, false]),
            (&[], "10.0.0.0/8", "2001:db8::/32", "", [true, false, false]),
            (&[], "10.0.0.0/8", "2001:db9::/32", "", [false; 3]),
            (&[], "", "0.0.0.0/0", "", [false, true, false]),
            (&[], "", "::/0", "", [true, false, false]),
            (&[], "", "", "tcp/80", [false, true, false]),
            (&[], "", "", "udp/80", [false; 3]),
            (&["port_scan"], "", "", "tcp/80", [false; 3]),
            (&["disk_full"], "", "", "", [false, false, true]),
        ] {
            let scope = scope(kinds, source, target, port).unwrap();
            assert_eq!([&scan, &flood, &full].map(|event| scope.has(&Facts::of(event))), hidden, "{scope:?}");
            assert_eq!(MuteScope::from(&scope).read(), Ok(scope));
        }
        let mute = Mute {
            number: 1,
            scope: scope(&["port_scan"], "", "", "").unwrap(),
            until: Some(7),
            reason: String::new(),
            who: String::new(),
            made: 0,
        };
        assert!(mute.hides(&Facts::of(&scan), 6) && !mute.hides(&Facts::of(&scan), 7));
    }

    #[test]
    fn a_mute_is_of_events_or_of_a_rule() {
        let of = |rule: &str| MuteScope { rule: Some(rule.to_owned()), ..MuteScope::default() };
        let scope = of("1:2013028").read().unwrap();
        assert_eq!(scope.rule, Some(RuleId { gid: 1, sid: 2_013_028 }));
        assert_eq!(MuteScope::from(&scope), of("1:2013028"));
        // An event is no alert of a rule, wherever it is.
        let scan = Event::at(&PORT_SCAN, Subject::Sensor, 5);
        assert!(!scope.has(&Facts::of(&scan)));
        for wrong in ["", "7", "1:", ":7", "1:+7", "1:7:2", "1:4294967296", "1:x"] {
            assert!(of(wrong).read().is_err(), "{wrong}");
        }
        assert!(MuteScope { kinds: vec!["port_scan".to_owned()], ..of("1:7") }.read().is_err());
        // Mutes of events are written as before there were mutes of rules.
        let of_kind = MuteScope { kinds: vec!["port_scan".to_owned()], ..MuteScope::default() };
        assert!(!serde_json::to_string(&of_kind).unwrap().contains("rule"));
    }

    #[test]
    fn what_is_no_mute_is_refused() {
        let long = "k".repeat(65);
        let many = ["port_scan"; MAX_KINDS + 1];
        for (kinds, source, target, port) in [
            (&[][..], "", "", ""),
            (&[""], "", "", ""),
            (&["<b>"], "", "", ""),
            (&["port scan"], "", "", ""),
            (&["a\u{1b}[31m"], "", "", ""),
            (&[long.as_str()], "", "", ""),
            (&many, "", "", ""),
            (&[], "10.0.0.0/33", "", ""),
            (&[], "", "::/129", ""),
            (&[], "", "host", ""),
            (&[], "", "", "80"),
            (&[], "", "", "tcp/65536"),
            (&[], "", "", "tcp/+80"),
            (&[], "", "", "256/1"),
            (&[], "", "", "tcp/"),
        ] {
            assert!(scope(kinds, source, target, port).is_err(), "{kinds:?} {source} {target} {port}");
        }
        assert_eq!("47/1".parse::<Service>().unwrap().to_string(), "47/1");
        assert_eq!("6/80".parse::<Service>().unwrap().to_string(), "tcp/80");
        let reason = |text: &str| check_text("reason", text).is_ok();
        assert!(reason("") && reason(&"ä".repeat(200)) && reason("<script>alert(1)</script>"));
        assert!(!reason(&"ä".repeat(201)) && !reason("a\u{1b}[31m") && !reason("two\nlines"));
    }
}
