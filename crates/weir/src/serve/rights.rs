//! What a client may do, and who it is.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The longest name of a user or a token, in bytes.
const MAX_NAME: usize = 64;

/// A right that a route can need.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Right {
    /// Read the pages: counters, lists, flows, and records without their payload. Each other right includes it.
    Look,
    /// Read payload: download packets, and see the fields of records that hold text of the connection.
    Packets,
    /// Apply a configuration.
    Write,
}

/// The rights by their words in files; `read` is what `look` was called before.
static WORDS: [(&str, Right); 4] =
    [("look", Right::Look), ("packets", Right::Packets), ("write", Right::Write), ("read", Right::Look)];

impl Right {
    /// Its word in files, in the OpenAPI document and in messages.
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

/// A set of rights, of which [`Right::Look`] is always one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rights(u8);

impl Rights {
    /// [`Right::Look`] alone.
    pub const LOOK: Rights = Rights(Right::Look.bit());

    /// Reads words with commas between them, such as `look,packets`; nothing where a word is no right.
    pub fn parse(words: &str) -> Option<Rights> {
        words.split(',').try_fold(Rights::LOOK, |rights, word| {
            let (_, right) = WORDS.iter().find(|(known, _)| *known == word.trim())?;
            Some(rights.with(*right))
        })
    }

    /// These rights and one more.
    pub const fn with(self, right: Right) -> Rights {
        Rights(self.0 | right.bit())
    }

    /// Whether a right is among them.
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

/// Who sends a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Client {
    /// The name of the user or token; of a client of this machine that needs none, its user's number.
    pub name: String,
    /// What it may do.
    pub rights: Rights,
    /// Where it connects from.
    pub address: IpAddr,
    /// Whether a user or token was named, else whoever can reach loopback is served.
    pub is_named: bool,
}

impl Client {
    /// By what its event streams and configuration checks are counted: its name, or its address where it has none.
    pub fn holder(&self) -> String {
        if self.is_named { self.name.clone() } else { network(self.address).to_string() }
    }
}

/// The address by which connections and failed log-ins are counted: of IPv6 the /64, which one host has to itself.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let prefix = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        other => other,
    }
}

/// Whether a word can be a name in a file and in the access log.
pub fn is_name(word: &str) -> bool {
    (1..=MAX_NAME).contains(&word.len())
        && !word.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '#' | ','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_sets() {
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
    fn addresses_are_counted_by_host() {
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
