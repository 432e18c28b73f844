//! Community ID, version 1: a name for a flow that other tools give it too.

use sha1::{Digest, Sha1};
use std::fmt;
use weir_wire::FlowKey;

/// A Community ID, version 1. Displayed as `1:` and the digest in base64.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CommunityId {
    /// The SHA-1 digest.
    pub digest: [u8; 20],
}

/// The Community ID of a flow (github.com/corelight/community-id-spec, version 1): seed, addresses, protocol and,
/// for TCP, UDP, ICMP, ICMPv6 and SCTP, ports or ICMP types, lower endpoint first.
pub fn community_id(key: &FlowKey, seed: u16) -> CommunityId {
    let mut sha = Sha1::new();
    sha.update(seed.to_be_bytes());
    let mut ends = [(key.addr[0], key.port[0]), (key.addr[1], key.port[1])];
    // A one-way flow has its endpoints in the order of its packets, and so has the specification.
    if !key.is_one_way() {
        ends.sort_unstable();
    }
    let is_v4 = ends.iter().all(|(address, _)| v4(address).is_some());
    for (address, _) in &ends {
        match v4(address) {
            Some(address) if is_v4 => sha.update(address),
            _ => sha.update(address),
        }
    }
    sha.update([key.proto, 0]);
    if matches!(key.proto, 1 | 6 | 17 | 58 | 132) {
        for (_, port) in &ends {
            sha.update(port.to_be_bytes());
        }
    }
    CommunityId { digest: sha.finalize().into() }
}

/// The IPv4 address that is mapped into an IPv6 one.
fn v4(address: &[u8; 16]) -> Option<&[u8; 4]> {
    let (prefix, rest) = address.split_first_chunk::<12>()?;
    (*prefix == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]).then_some(rest.first_chunk()?)
}

impl fmt::Display for CommunityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("1:")?;
        base64(&self.digest, f)
    }
}

/// RFC 4648 4, with padding.
fn base64(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in octets.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | group.get(at).map_or(0, |&o| usize::from(o)));
        for at in 0..4 {
            let letter = ALPHABET.get(bits >> (18 - 6 * at) & 63).copied().unwrap_or(b'=');
            fmt::Write::write_char(f, if at > group.len() { '=' } else { char::from(letter) })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads() {
        struct Shown(&'static [u8]);
        impl fmt::Display for Shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                base64(self.0, f)
            }
        }
        let cases: [(&[u8], &str); 4] =
            [(b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foobar", "Zm9vYmFy")];
        for (octets, text) in cases {
            assert_eq!(Shown(octets).to_string(), text);
        }
    }
}
