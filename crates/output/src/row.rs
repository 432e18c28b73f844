//! What every format of flow rows needs from a flow.

use std::net::{IpAddr, Ipv6Addr};
use weir_flow::FlowRecord;
use weir_wire::Tunnel;

/// The ends of a flow as people write them.
pub struct Ends {
    /// The initiator's address.
    pub source: IpAddr,
    /// Its port; of ICMP the type.
    pub source_port: u16,
    /// The responder's address.
    pub destination: IpAddr,
    /// Its port; of ICMP the type of the answer, or the code where there is none.
    pub destination_port: u16,
}

impl Ends {
    /// Those of a flow.
    pub fn of(flow: &FlowRecord) -> Self {
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        Self { source: ip(source), source_port, destination: ip(destination), destination_port }
    }
}

/// An address as people write it: mapped IPv4 as IPv4.
pub fn ip(address: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(address).to_canonical()
}

/// Zeek's form of a flow's id: `C` and base 62, with as many digits for each.
pub fn uid(id: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = [b'0'; 12];
    let mut rest = id;
    // 62^11 is more than 2^64.
    for place in text.iter_mut().skip(1).rev() {
        *place = DIGITS.get((rest % 62) as usize).copied().unwrap_or(b'0');
        rest /= 62;
    }
    text[0] = b'C';
    text.iter().copied().map(char::from).collect()
}

/// What carried a flow, in a word; `None` when nothing did.
pub fn tunnel(tunnel: Tunnel) -> Option<&'static str> {
    Some(match tunnel {
        Tunnel::None => return None,
        Tunnel::IpInIp => "ip-in-ip",
        Tunnel::Gre => "gre",
        Tunnel::GreEthernet => "gre-ethernet",
        Tunnel::Erspan => "erspan",
        Tunnel::Vxlan => "vxlan",
        Tunnel::Geneve => "geneve",
        Tunnel::GtpU => "gtp-u",
        Tunnel::L2tp => "l2tp",
        Tunnel::Teredo => "teredo",
        Tunnel::Ayiya => "ayiya",
        Tunnel::EtherIp => "etherip",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_told_apart() {
        assert_eq!(uid(0), "C00000000000");
        assert_eq!(uid(61), "C0000000000z");
        assert_eq!(uid(62), "C00000000010");
        let ids: BTreeSet<String> = (0..64).map(|bit| uid(1 << bit)).chain([uid(u64::MAX)]).collect();
        assert_eq!(ids.len(), 65);
    }
}
