//! The networks that an operator calls home.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_api::Net;

/// The home networks: by default the private ones (RFC 1918, and fc00::/7 of RFC 4193).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Home {
    /// The networks.
    pub nets: Vec<Net>,
}

impl Default for Home {
    fn default() -> Self {
        let v4 = [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)];
        let v4 = v4.map(|(address, bits)| Net::new(Ipv4Addr::from(address).into(), bits));
        let v6 = Net::new(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0).into(), 7);
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
    }
}
