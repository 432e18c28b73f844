//! Networks of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Bits of an address, as which IPv4 addresses are mapped into IPv6, and the bits before an IPv4 address.
const BITS: u8 = 128;
const BEFORE_V4: u8 = 96;

/// A network: the addresses that begin with some bits. A single address is a network of its own.
///
/// A network of IPv6 has no IPv4 addresses, however short its prefix. An IPv4 address that is mapped into IPv6 (RFC 4291
/// 2.5.5.2) is an IPv4 address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Net {
    /// An address without the bits after the prefix, IPv4 mapped into IPv6.
    address: u128,
    /// Length of the prefix of the mapped address.
    prefix: u8,
}

impl Net {
    /// The network of the first bits of an address, of which there are up to 32 or 128; more are all of them.
    pub fn new(address: IpAddr, bits: u8) -> Self {
        let before = if address.is_ipv4() { BEFORE_V4 } else { 0 };
        Self::of_mapped(mapped(address), bits.saturating_add(before))
    }

    /// The network of the first bits of an address, IPv4 mapped into IPv6; more than 128 are all of them.
    pub fn of_mapped(address: u128, prefix: u8) -> Self {
        let prefix = prefix.min(BITS);
        Self { address: address & mask(prefix), prefix }
    }

    /// Its lowest address, IPv4 mapped into IPv6.
    pub fn first(&self) -> u128 {
        self.address
    }

    /// Length of its prefix, counted in addresses of which IPv4 is mapped into IPv6.
    pub fn mapped_prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether an address is in the network.
    pub fn has(&self, address: IpAddr) -> bool {
        self.has_mapped(mapped(address))
    }

    /// Whether an address is in the network; IPv4 is mapped into IPv6.
    #[inline]
    pub fn has_mapped(&self, address: u128) -> bool {
        address & mask(self.prefix) == self.address && self.is_v4() == is_v4(address)
    }

    /// Whether it is a network of IPv4.
    pub fn is_v4(&self) -> bool {
        self.prefix >= BEFORE_V4 && is_v4(self.address)
    }
}

/// The text is not a network; the reason. It leaves out the text: who reads it may have no right to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetError {
    /// It does not begin with an address.
    Address,
    /// What follows the slash is not a number.
    Length,
    /// The prefix is longer than the address.
    TooLong,
}

impl NetError {
    /// The reason as a text.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Address => "not a network, which begins with an address, as 10.0.0.0/8 or 2001:db8::/32",
            Self::Length => "not a network: a number of bits follows the slash",
            Self::TooLong => "not a network: the prefix is longer than the address",
        }
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.reason())
    }
}

impl std::error::Error for NetError {}

/// `10.0.0.0/8`, or an address alone. Bits after the prefix do not count.
impl FromStr for Net {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetError::Address)?;
        let most = if address.is_ipv4() { BITS - BEFORE_V4 } else { BITS };
        let Some(length) = length else { return Ok(Self::new(address, most)) };
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NetError::Length);
        }
        // A number with too many digits for its type is too long as well.
        let length = length.parse::<u8>().ok().filter(|length| *length <= most).ok_or(NetError::TooLong)?;
        Ok(Self::new(address, length))
    }
}

/// The lowest address and the length of the prefix; of a single address the address alone.
impl fmt::Display for Net {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", IpAddr::from(self.address.to_be_bytes()).to_canonical())?;
        let before = if self.is_v4() { BEFORE_V4 } else { 0 };
        if self.prefix < BITS { write!(out, "/{}", self.prefix - before) } else { Ok(()) }
    }
}

/// An address as a number, IPv4 mapped into IPv6 (RFC 4291 2.5.5.2).
pub fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Whether an address is an IPv4 address that is mapped into IPv6.
#[inline]
fn is_v4(address: u128) -> bool {
    address >> 32 == 0xffff
}

/// The bits of a prefix of this length.
#[inline]
fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(u32::from(BITS - prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_with_its_bits() {
        for (net, inside, outside) in [
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("::/0", "2001:db8::1", "203.0.113.9"),
            ("10.1.2.3/8", "::ffff:10.255.0.1", "11.0.0.0"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("::ffff:0:0/96", "192.0.2.7", "::1"),
            ("::/96", "::1", "0.0.0.1"),
        ] {
            let has = |address: &str| net.parse::<Net>().unwrap().has(address.parse().unwrap());
            assert!(has(inside) && !has(outside), "{net}");
        }
    }

    #[test]
    fn networks_are_read_and_written() {
        for (read, written) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("2001:DB8::1/32", "2001:db8::/32"),
            ("::ffff:10.0.0.1/104", "10.0.0.0/8"),
            ("::1", "::1"),
        ] {
            assert_eq!(read.parse::<Net>().unwrap().to_string(), written);
        }
        for (wrong, error) in [
            ("", NetError::Address),
            ("10.0.0/8", NetError::Address),
            ("host", NetError::Address),
            ("/8", NetError::Address),
            ("10.0.0.0/", NetError::Length),
            ("10.0.0.0/-1", NetError::Length),
            ("10.0.0.0/+8", NetError::Length),
            ("10.0.0.0/8/8", NetError::Length),
            ("10.0.0.0/33", NetError::TooLong),
            ("10.0.0.0/4294967295", NetError::TooLong),
            ("::/129", NetError::TooLong),
        ] {
            assert_eq!(wrong.parse::<Net>(), Err(error), "{wrong}");
        }
    }
}
