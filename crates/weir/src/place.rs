//! A host and a port, as configurations name them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where to connect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Place {
    /// A name or an address, an address of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Place {
    /// Parses `HOST`, `HOST:PORT`, `ADDRESS`, `[ADDRESS]` or `[ADDRESS]:PORT`. `None` for other texts.
    pub fn parse(text: &str, port: u16) -> Option<Self> {
        let of = |host: &str, port: u16| {
            let is_host = !host.is_empty()
                && !host.contains(['[', ']', '/', '@'])
                && !host.contains(char::is_whitespace);
            is_host.then(|| Self { host: host.to_owned(), port })
        };
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            return match rest.strip_prefix(':') {
                Some(port) => of(host, number(port)?),
                None => of(host, port).filter(|_| rest.is_empty()),
            };
        }
        match text.split_once(':') {
            None => of(text, port),
            // More than one colon: an address of IPv6.
            Some((_, rest)) if rest.contains(':') => {
                text.parse::<std::net::Ipv6Addr>().ok().and_then(|_| of(text, port))
            }
            Some((host, port)) => of(host, number(port)?),
        }
    }
}

/// As it is parsed.
impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(out, "[{host}]:{port}") } else { write!(out, "{host}:{port}") }
    }
}

/// A port.
fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_parsed() {
        for (text, host, port) in [
            ("log.example", "log.example", 514),
            ("log.example:6514", "log.example", 6514),
            ("192.0.2.1", "192.0.2.1", 514),
            ("192.0.2.1:1", "192.0.2.1", 1),
            ("2001:db8::1", "2001:db8::1", 514),
            ("[2001:db8::1]", "2001:db8::1", 514),
            ("[2001:db8::1]:99", "2001:db8::1", 99),
        ] {
            let expected = Place { host: host.to_owned(), port };
            let found = Place::parse(text, 514);
            assert_eq!(
                found.as_ref().map(ToString::to_string).and_then(|text| Place::parse(&text, 1)),
                found
            );
            assert_eq!(found, Some(expected), "{text}");
        }
        for wrong in [
            "", ":514", "a:", "a:b", "a:0", "a:65536", "[x]:1", "[::1", "[::1]x", "a:b:1", "a b", "a/b",
            "u@h:1",
        ] {
            assert_eq!(Place::parse(wrong, 514), None, "{wrong}");
        }
    }
}
