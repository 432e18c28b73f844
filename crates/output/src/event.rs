//! Events in words, and as columns.

use crate::figures::{counted, duration};
use crate::row::Value;
use crate::summary::scan_line;
use weir_api::event::{CLOCK_LEAP, DISK_FULL, DUMP_FULL, LINK_DOWN, MANY, OUTPUT_FAILED, STORE_FAILED};
use weir_api::{Event, EventState, Service, Trials};

/// An event in words, as far as `width` columns hold them.
pub fn words(event: &Event, width: usize) -> String {
    if let Some(scan) = Trials::of_event(event) {
        return scan_line(&scan, width);
    }
    let subject = crate::figures::printable(&event.subject.to_string());
    let kind = event.kind;
    if kind == &LINK_DOWN {
        let what = if event.number("removed").unwrap_or(0) > 0 { "removed" } else { "down" };
        return match event.state {
            EventState::End => {
                format!("{subject} was {what} for {}", duration(event.last.saturating_sub(event.begin)))
            }
            _ if what == "removed" => format!("{subject} was removed"),
            _ => format!("{subject} is down"),
        };
    }
    if kind == &DISK_FULL {
        return format!("{subject} was not written: the disk is full");
    }
    if kind == &STORE_FAILED || kind == &OUTPUT_FAILED {
        return format!("{subject} was not written");
    }
    if kind == &DUMP_FULL {
        return format!("{subject} is full: later packets are not in it");
    }
    if kind == &CLOCK_LEAP {
        let side = |times, by, word: &str| match event.number(times) {
            None | Some(0) => None,
            Some(times) => {
                let most = duration(event.number(by).unwrap_or(0));
                let often = counted(times, "time");
                Some(format!("{word} {often}, by {most} at most"))
            }
        };
        let sides = [side("back", "most_back", "back"), side("ahead", "most_ahead", "ahead")];
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        return format!("the clock of the packets went {}", sides.join(" and "));
    }
    if kind == &MANY {
        let events = counted(event.number("events").unwrap_or(0), "further event");
        return format!(
            "{events} with {} not opened: more than 100 began in a minute",
            counted(event.count, "finding")
        );
    }
    let numbers: Vec<String> =
        event.evidence.iter().map(|one| format!("{} {}", one.name, one.number())).collect();
    let what = event.name().replace('_', " ");
    format!("{what} {subject}  {}", numbers.join(", ")).trim_end().to_owned()
}

/// The numbers of evidence in one text: `answered=8 failed=53`.
pub(crate) fn numbers(event: &Event) -> String {
    let texts: Vec<String> =
        event.evidence.iter().map(|one| format!("{}={}", one.name, one.number())).collect();
    texts.join(" ")
}

/// An event for the pages and the store.
pub fn web(event: &Event) -> weir_api::web::Event {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    weir_api::web::Event {
        time: seconds(event.last),
        kind: event.name().to_owned(),
        text: words(event, usize::MAX),
        id: Some(format!("{:016x}", event.id)),
        severity: event.severity().name().to_owned(),
        subject: Some(event.subject.to_string()),
        host: event.subject.source().map(|source| source.to_string()),
        target: event.subject.target().map(|target| target.to_string()),
        port: event.subject.port().map(|(protocol, port)| Service { protocol, port }.to_string()),
        begin: seconds(event.begin),
        count: event.count,
        open: event.state != EventState::End,
        evidence: event.evidence.iter().map(|one| (one.name.to_string(), one.number())).collect(),
        filter: event.expression(),
        muted: None,
        acknowledged: None,
    }
}

/// A column of rows of events.
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: fn(&Event) -> Value,
}

/// The name of an IP protocol with ports; `None` for others.
pub fn transport(protocol: u8) -> Option<&'static str> {
    match protocol {
        6 => Some("tcp"),
        17 => Some("udp"),
        132 => Some("sctp"),
        _ => None,
    }
}

/// All facts about an event.
pub static COLUMNS: &[Column] = &[
    Column { name: "begin", value: |e| Value::Time(e.begin) },
    Column { name: "last", value: |e| Value::Time(e.last) },
    Column { name: "id", value: |e| Value::Text(format!("{:016x}", e.id)) },
    Column { name: "state", value: |e| Value::Word(e.state.name()) },
    Column { name: "kind", value: |e| Value::Text(e.name().to_owned()) },
    Column { name: "severity", value: |e| Value::Word(e.severity().name()) },
    Column { name: "subject", value: |e| Value::Text(e.subject.to_string()) },
    Column { name: "source", value: |e| e.subject.source().map_or(Value::Unset, Value::Address) },
    Column { name: "target", value: |e| e.subject.target().map_or(Value::Unset, Value::Address) },
    Column {
        name: "protocol",
        value: |e| match e.subject.port() {
            Some((protocol, _)) => Value::Count(protocol.into()),
            None => Value::Unset,
        },
    },
    Column {
        name: "port",
        value: |e| match e.subject.port() {
            Some((_, port)) => Value::Count(port.into()),
            None => Value::Unset,
        },
    },
    Column { name: "count", value: |e| Value::Count(e.count) },
    Column { name: "evidence", value: |e| Value::Text(numbers(e)) },
    Column { name: "expression", value: |e| e.expression().map_or(Value::Unset, Value::Text) },
    Column { name: "text", value: |e| Value::Text(words(e, usize::MAX)) },
];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{Folded, Subject};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn events_of_the_monitor_are_in_words() {
        let many = Event::at(&MANY, Subject::Sensor, SECOND).with("events", "events", Folded::Sum(7));
        let many = Event { count: 1_400, ..many };
        assert_eq!(
            words(&many, 80),
            "7 further events with 1,400 findings not opened: more than 100 began in a minute"
        );
        let link = Event::at(&LINK_DOWN, Subject::Interface("eth0".into()), SECOND);
        assert_eq!(words(&link, 80), "eth0 is down");
        let ended =
            Event { state: EventState::End, last: 4 * SECOND, ..link.with("removed", "", Folded::Sum(1)) };
        assert_eq!(words(&ended, 80), "eth0 was removed for 3.000 s");
        let full = Event::at(&DISK_FULL, Subject::Output("a\x1b[31m.log".into()), SECOND);
        assert!(!words(&full, 80).contains('\x1b') && words(&full, 80).ends_with("the disk is full"));
        let leap = Event::at(&CLOCK_LEAP, Subject::Sensor, SECOND).with("back", "", Folded::Sum(2)).with(
            "most_back",
            "duration",
            Folded::Max(Some(3_600 * SECOND)),
        );
        let text = words(&leap, 80);
        assert!(text.starts_with("the clock of the packets went back 2 times, by 1"), "{text}");
        assert_eq!(numbers(&leap), format!("back=2 most_back={}", 3_600 * SECOND));
    }
}
