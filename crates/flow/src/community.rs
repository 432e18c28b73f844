//! Community ID, version 1: an identifier of a flow that other tools compute too.

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
    // The specification, too, keeps the endpoints of a one-way flow in the order of its packets.
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

impl CommunityId {
    /// The written form: `1:` and the digest in base64 (RFC 4648 4, with padding).
    pub fn text(&self) -> [u8; 30] {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = *b"1:                           =";
        for (bytes, letters) in self.digest.chunks(3).zip(text[2..].chunks_mut(4)) {
            let bits = (0..3).fold(0, |bits, at| bits << 8 | bytes.get(at).map_or(0, |&o| usize::from(o)));
            for (at, letter) in letters.iter_mut().enumerate().take(bytes.len() + 1) {
                *letter = ALPHABET[bits >> (18 - 6 * at) & 63];
            }
        }
        text
    }
}

impl fmt::Display for CommunityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_padded_to_whole_groups() {
        let digest = std::array::from_fn(|at| b"any carnal pleasure."[at]);
        assert_eq!(CommunityId { digest }.to_string(), "1:YW55IGNhcm5hbCBwbGVhc3VyZS4=");
        assert_eq!(CommunityId { digest: [0xff; 20] }.to_string(), "1://////////////////////////8=");
    }
}
