//! The header of a rule: what is done, over which protocol, from whom to whom.

use crate::fault::Fault;
use crate::protocol::{self, RuleProtocol};
use crate::sets::{AddressSet, Lists, PortSet};
use std::sync::Arc;

/// What a rule does when it matches.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Action {
    /// The rules after this one are not applied to the flow or packet.
    Pass,
    /// The packet is dropped, with an alert.
    Drop,
    /// The sender is refused, with an alert.
    Reject,
    /// The destination is refused, with an alert.
    RejectDestination,
    /// Both sides are refused, with an alert.
    RejectBoth,
    /// An alert.
    Alert,
}

impl Action {
    /// The number of actions.
    pub(crate) const NUMBER: usize = 6;

    /// All names of actions.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("alert", Self::Alert),
        ("drop", Self::Drop),
        ("pass", Self::Pass),
        ("reject", Self::Reject),
        ("rejectsrc", Self::Reject),
        ("rejectdst", Self::RejectDestination),
        ("rejectboth", Self::RejectBoth),
    ];

    /// The action of a name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, action)| *action)
    }

    /// Its name; that of several names which is the shortest.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, action)| *action == self).map_or("", |(name, _)| name)
    }
}

/// Addresses and ports of a side.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// Its addresses.
    pub addresses: Arc<AddressSet>,
    /// Its ports.
    pub ports: Arc<PortSet>,
}

/// The header of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Header {
    /// What is done.
    pub action: Action,
    /// The protocol.
    pub protocol: &'static RuleProtocol,
    /// The sender of a packet.
    pub source: Endpoint,
    /// The receiver of a packet.
    pub destination: Endpoint,
    /// Which way.
    pub way: Way,
}

/// Which way the packets of a rule go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From the source to the destination (`->`).
    Forward,
    /// Also from the destination to the source (`<>`).
    Both,
    /// A request from the source and its response: the rule looks at the whole transaction (`=>`).
    Transaction,
}

/// Reads a header. Returns it with the place of the `(` after it.
pub(crate) fn parse(text: &[u8], lists: &mut Lists) -> Result<(Header, usize), Fault> {
    let Some(open) = opening(text) else {
        return Err(Fault::wrong(text.len(), "the options are missing: `(` follows the header"));
    };
    let head = text.get(..open).unwrap_or_default();
    let head = std::str::from_utf8(head)
        .map_err(|error| Fault::wrong(error.valid_up_to(), "the header is not text"))?;
    let mut words = Words { text: head, at: 0 };
    let (at, word) = words.next("an action")?;
    let action = Action::named(word.as_bytes()).ok_or_else(|| unknown_action(at, word))?;
    let (at, word) = words.next("a protocol")?;
    let protocol = protocol::named(word, at)?;
    let (source_at, source) = words.next("the source's addresses")?;
    let (source_ports_at, source_ports) = words.next("the source's ports")?;
    let (at, arrow) = words.next("a direction")?;
    let way = match arrow {
        "->" => Way::Forward,
        "<>" => Way::Both,
        "=>" => Way::Transaction,
        "<-" => return Err(Fault::wrong(at, "`<-` is not a direction; exchange the sides and write `->`")),
        _ => return Err(Fault::wrong(at, format!("`{arrow}` is not a direction; `->`, `<>` and `=>` are"))),
    };
    let (destination_at, destination) = words.next("the destination's addresses")?;
    let (destination_ports_at, destination_ports) = words.next("the destination's ports")?;
    if let Ok((at, word)) = words.next("") {
        return Err(Fault::wrong(at, format!("`{word}` follows the header; `(` is missing")));
    }
    let source = Endpoint {
        addresses: lists.addresses(source, source_at)?,
        ports: lists.ports(source_ports, source_ports_at)?,
    };
    let destination = Endpoint {
        addresses: lists.addresses(destination, destination_at)?,
        ports: lists.ports(destination_ports, destination_ports_at)?,
    };
    Ok((Header { action, protocol, source, destination, way }, open))
}

/// The place of the parenthesis that begins the options.
fn opening(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| *byte == b'(')
}

fn unknown_action(at: usize, word: &str) -> Fault {
    if word == "config" {
        return Fault::not_supported(at, "`config` rules change what Suricata does and are not supported");
    }
    let names: Vec<&str> = Action::NAMES.iter().map(|(name, _)| *name).collect();
    Fault::wrong(at, format!("`{word}` is not an action; {} are", names.join(", ")))
}

/// The words of a header. Blanks in brackets belong to their word.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<(usize, &'a str), Fault> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let from = self.at + (rest.len() - rest.trim_start().len());
        let mut depth = 0_usize;
        let rest = self.text.get(from..).unwrap_or_default();
        let end = rest.find(|letter: char| {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter.is_whitespace() && depth == 0
        });
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if word.is_empty() {
            return Err(Fault::wrong(from, format!("the header ends before {what}")));
        }
        self.at = from + word.len();
        Ok((from, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<Header, Fault> {
        parse(text.as_bytes(), &mut Lists::default()).map(|(header, _)| header)
    }

    #[test]
    fn a_header_has_seven_words() {
        let is = header("alert http $HOME_NET any -> [1.2.3.4, !1.2.3.5] $HTTP_PORTS (").unwrap();
        assert_eq!((is.action, is.protocol.name, is.way), (Action::Alert, "http", Way::Forward));
        assert_eq!(is.destination.ports.as_slice(), [(80, 80)]);
        assert_eq!(header("rejectsrc tcp any any <> any any (").unwrap().way, Way::Both);
        assert_eq!(header("alert http any any => any any (").unwrap().way, Way::Transaction);
    }

    #[test]
    fn wrong_headers_say_where() {
        for (text, at, part) in [
            ("alart tcp any any -> any any (", 0, "alert, drop"),
            ("config tcp any any -> any any (", 0, "not supported"),
            ("alert htpp any any -> any any (", 6, "`http` is one"),
            ("alert tcp any any == any any (", 18, "`->`, `<>` and `=>`"),
            ("alert tcp any any <- any any (", 18, "exchange"),
            ("alert tcp any 80 -> any (", 24, "destination's ports"),
            ("alert tcp any any -> any any x (", 29, "follows"),
            ("alert tcp any any -> any any", 28, "`(`"),
            ("alert tcp [1.2.3.4,x] any -> any any (", 19, "not an IP address"),
        ] {
            let fault = header(text).unwrap_err();
            assert!(fault.at == at && fault.reason.contains(part), "{text}: {fault:?}");
        }
    }
}
