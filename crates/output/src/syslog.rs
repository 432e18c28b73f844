//! Events as messages of syslog (RFC 5424).

use crate::event::words;
use crate::zone::rfc3339;
use std::fmt::Write;
use weir_api::Event;

/// The facility of system daemons (RFC 5424, table 1).
const DAEMON: u8 = 3;
/// Name of the structured data. 32473 is the number for those who have no private enterprise number (RFC 5612).
const DATA: &str = "weir@32473";
/// Maximum bytes of a message: what a receiver should accept (RFC 5424, 6.1).
pub const MAX_MESSAGE: usize = 2048;
/// Maximum characters of a host name.
const MAX_HOST: usize = 255;

/// An event as one message, at most [`MAX_MESSAGE`] bytes. `host` is the name of this host; "" if it is unknown. The message
/// has no process number, so that equal packets give equal messages.
pub fn message(event: &Event, host: &str) -> String {
    let priority = DAEMON * 8 + event.severity().syslog();
    // Microseconds: six digits are the most of a time.
    let time = rfc3339(event.last);
    let time = time.get(..26).unwrap_or(&time);
    let host: String = host.chars().filter(char::is_ascii_graphic).take(MAX_HOST).collect();
    let host = if host.is_empty() { "-" } else { &host };
    let mut text = format!("<{priority}>1 {time}Z {host} weir - {} [{DATA}", event.name());
    let mut parameter = |name: &str, value: &str| {
        text.push(' ');
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars().filter(|c| !c.is_control()) {
            if matches!(c, '"' | '\\' | ']') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
    };
    parameter("id", &format!("{:016x}", event.id));
    parameter("state", event.state.name());
    parameter("severity", event.severity().name());
    parameter("subject", &event.subject.to_string());
    parameter("begin", &rfc3339(event.begin));
    parameter("last", &rfc3339(event.last));
    parameter("count", &event.count.to_string());
    for one in &event.evidence {
        parameter(&one.name, &one.number().to_string());
    }
    if let Some(expression) = event.expression() {
        parameter("expression", &expression);
    }
    // A byte order mark means UTF-8.
    let _ = write!(text, "] \u{feff}{}", words(event, usize::MAX));
    let mut end = text.len().min(MAX_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_api::event::OUTPUT_FAILED;
    use weir_api::{EventState, Subject};

    #[test]
    fn a_message_has_the_parts_of_rfc_5424() {
        let event = Event { state: EventState::End, ..fixtures::events().remove(1) };
        assert_eq!(
            message(&event, "probe1"),
            format!(
                "<28>1 2026-11-21T01:46:11.985000Z probe1 weir - address_scan [weir@32473 id=\"{:016x}\" state=\"end\" \
                 severity=\"warning\" subject=\"10.99.0.102 -> tcp/445\" begin=\"2026-11-21T01:46:08.985000000Z\" \
                 last=\"2026-11-21T01:46:11.985000000Z\" count=\"30\" answered=\"0\" failed=\"30\" refused_flows=\"4\" \
                 unanswered_flows=\"26\" expression=\"src host 10.99.0.102 and tcp dst port 445\"] \
                 \u{feff}10.99.0.102 -> 30 hosts, tcp/445 in 3.000 s, 13% of flows refused",
                event.id
            )
        );
    }

    #[test]
    fn values_are_escaped_and_the_length_is_limited() {
        let name = format!("a\"b\\c]d\u{1b}\n{}", "ü".repeat(3_000));
        let text = message(&Event::at(&OUTPUT_FAILED, Subject::Output(name.into()), 1), "a b\n");
        assert!(text.starts_with("<27>1 1970-01-01T00:00:00.000000Z ab weir - output_failed ["), "{text}");
        assert!(text.contains("subject=\"a\\\"b\\\\c\\]dü"), "{text}");
        assert!(text.len() <= MAX_MESSAGE && text.len() > MAX_MESSAGE - 4);
        assert!(!text.contains(char::is_control));
        assert!(message(&fixtures::full_disk(), "").contains("Z - weir - disk_full ["));
    }
}
