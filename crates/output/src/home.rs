//! The networks that an operator calls home.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: an address and the number of its leading bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Net {
    address: IpAddr,
    bits: u8,
}

impl Net {
    /// Whether an address is in the network. A mapped IPv4 address is an IPv4 address (RFC 4291 2.5.5.2).
    pub fn has(&self, address: IpAddr) -> bool {
        let same = |one: u128, other: u128, width: u32| {
            let bits = u32::from(self.bits).min(width);
            bits == 0 || (one ^ other) >> (width - bits) == 0
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                same(net.to_bits().into(), address.to_bits().into(), 32)
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => same(net.to_bits(), address.to_bits(), 128),
            _ => false,
        }
    }
}

/// `10.0.0.0/8`; an address without bits is a network of its own.
impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network such as 10.0.0.0/8 or 2001:db8::/32");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= width).ok_or_else(wrong)?,
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Net {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

/// The home networks: by default the private ones (RFC 1918, and fc00::/7 of RFC 4193).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Home {
    /// The networks.
    pub nets: Vec<Net>,
}

impl Default for Home {
    fn default() -> Self {
        let v4 = [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)];
        let v4 = v4.map(|(address, bits)| Net { address: Ipv4Addr::from(address).into(), bits });
        let v6 = Net { address: Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0).into(), bits: 7 };
        Self { nets: v4.into_iter().chain([v6]).collect() }
    }
}

impl Home {
    /// No networks: where addresses are not the true ones.
    pub fn unknown() -> Self {
        Self { nets: Vec::new() }
    }

    /// Whether an address is at home.
    pub fn has(&self, address: IpAddr) -> bool {
        self.nets.iter().any(|net| net.has(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_at_home_in_the_networks() {
        let home = Home::default();
        for (address, is_home) in [
            ("10.255.0.1", true),
            ("172.31.255.255", true),
            ("172.32.0.0", false),
            ("192.168.7.1", true),
            ("192.169.0.1", false),
            ("::ffff:10.0.0.1", true),
            ("fd00::1", true),
            ("fe80::1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(home.has(address.parse().unwrap()), is_home, "{address}");
        }
        let nets = ["0.0.0.0/0", "2001:db8::/32", "192.0.2.7"].map(|text| text.parse::<Net>().unwrap());
        let has = |net: usize, address: &str| nets[net].has(address.parse().unwrap());
        assert!(has(0, "203.0.113.9") && !has(0, "::1"));
        assert!(has(1, "2001:db8:ffff::1") && !has(1, "2001:db9::"));
        assert!(has(2, "192.0.2.7") && !has(2, "192.0.2.6"));
        assert_eq!(nets[2].to_string(), "192.0.2.7/32");
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "host"] {
            assert!(wrong.parse::<Net>().is_err(), "{wrong}");
        }
    }
}
