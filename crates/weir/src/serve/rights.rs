//! Rights and identity of a client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Maximum length of the name of a user or a token, in bytes.
const MAX_NAME: usize = 64;

/// A right that a route may require.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Right {
    /// Read the pages: counters, lists, flows, and records without their payload. Each other right includes it.
    Look,
    /// Read payload: download packets, and see the fields of records that hold text of the connection.
    Packets,
    /// Apply a configuration.
    Write,
}

/// The rights by their words in files; `read` is the earlier name of `look`.
static WORDS: [(&str, Right); 4] =
    [("look", Right::Look), ("packets", Right::Packets), ("write", Right::Write), ("read", Right::Look)];

impl Right {
    /// The right's word in files, in the OpenAPI document and in messages.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, right)| *right == self).map_or("", |(word, _)| word)
    }

    const fn bit(self) -> u8 {
        match self {
            Right::Look => 1,
            Right::Packets => 2,
            Right::Write => 4,
        }
    }
}

/// A set of rights. It always contains [`Right::Look`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rights(u8);

impl Rights {
    /// Only [`Right::Look`].
    pub const LOOK: Rights = Rights(Right::Look.bit());

    /// Parses words separated by commas, such as `look,packets`; `None` if a word is not a right.
    pub fn parse(words: &str) -> Option<Rights> {
        words.split(',').try_fold(Rights::LOOK, |rights, word| {
            let (_, right) = WORDS.iter().find(|(known, _)| *known == word.trim())?;
            Some(rights.with(*right))
        })
    }

    /// The set with one right added.
    pub const fn with(self, right: Right) -> Rights {
        Rights(self.0 | right.bit())
    }

    /// Whether the set has a right.
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = [Right::Look, Right::Packets, Right::Write].into_iter().filter(|right| self.has(*right));
        for (n, right) in held.enumerate() {
            write!(f, "{}{}", if n > 0 { "," } else { "" }, right.word())?;
        }
        Ok(())
    }
}

/// The sender of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Client {
    /// Name of the user or token; on loopback without authentication, the numeric identifier of the local user.
    pub name: String,
    /// Rights of the client.
    pub rights: Rights,
    /// Address of the client.
    pub address: IpAddr,
    /// Whether the client has authenticated. Otherwise every client on loopback is served.
    pub is_named: bool,
}

impl Client {
    /// The identity for limits on event streams and configuration checks: the name, or the address of a client without
    /// a name.
    pub fn holder(&self) -> String {
        if self.is_named { self.name.clone() } else { network(self.address).to_string() }
    }
}

/// The address for limits on connections and failed log-ins: of IPv6 the /64 prefix, because one host may own a whole
/// /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let prefix = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        other => other,
    }
}

/// Whether a word is a valid name for files and the access log.
pub fn is_name(word: &str) -> bool {
    (1..=MAX_NAME).contains(&word.len())
        && !word.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '#' | ','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parsed_into_sets_of_rights() {
        for (text, packets, write, shown) in [
            ("look", false, false, "look"),
            ("read", false, false, "look"),
            ("packets", true, false, "look,packets"),
            ("write", false, true, "look,write"),
            ("look,packets", true, false, "look,packets"),
            ("write,packets,look", true, true, "look,packets,write"),
        ] {
            let rights = Rights::parse(text).unwrap();
            assert!(rights.has(Right::Look), "{text}");
            assert_eq!((rights.has(Right::Packets), rights.has(Right::Write)), (packets, write), "{text}");
            assert_eq!(rights.to_string(), shown);
            assert_eq!(Rights::parse(shown), Some(rights));
        }
        for wrong in ["", "admin", "look,", "look packets", "Look", "look;write"] {
            assert_eq!(Rights::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ipv6_addresses_are_counted_by_prefix() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::1"), "::1");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn names() {
        assert!(is_name("ann") && is_name("build-host_7") && is_name("Jörg"));
        let long = "a".repeat(MAX_NAME + 1);
        for wrong in ["", "a:b", "a b", "a#", "a,b", "a\u{7}", long.as_str()] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }
}
