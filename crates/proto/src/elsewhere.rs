//! Packets with which a protocol of [`ELSEWHERE`] may begin.

use crate::{ELSEWHERE, Heads, Probe, TCP, UDP};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Whether the flow of a packet may be of FTP, IRC or SIP, by the payload of this packet alone: protocols that announce flows
/// between other hosts. `ports` are those of the packet, in any order. The answer depends on nothing else, so that it is known before
/// the packet is read.
pub fn may_begin_elsewhere(ip_proto: u8, ports: [u16; 2], payload: &[u8]) -> bool {
    let Some(first) = payload.first() else { return false };
    let bit = match ip_proto {
        TCP => 1,
        UDP => 2,
        _ => return false,
    };
    first_bytes().get(usize::from(*first)).is_some_and(|known| known & bit != 0)
        && payload.get(1).is_none_or(|second| {
            second_bytes(*first).get(usize::from(*second)).is_some_and(|known| known & bit != 0)
        })
        && fits(ip_proto, [ports[0].min(ports[1]), ports[0].max(ports[1])], payload)
}

/// Whether a protocol may begin with the payload, whichever side has sent it.
fn fits(ip_proto: u8, ports: [u16; 2], payload: &[u8]) -> bool {
    [(payload, &[][..]), (&[][..], payload)].into_iter().any(|(forward, reverse)| {
        let heads = Heads { forward, reverse, ports, ip_proto };
        may_be(&heads)
    })
}

/// Whether the payload of a flow may be that of such a protocol.
pub(crate) fn may_be(heads: &Heads<'_>) -> bool {
    let mut spoken = ELSEWHERE.iter().filter(|protocol| protocol.transport.covers(heads.ip_proto));
    spoken.any(|protocol| (protocol.probe)(heads) != Probe::Reject)
}

/// For each byte a bit for TCP and a bit for UDP.
type Known = [u8; 256];

/// Whether a payload of that byte alone fits. Most payload is excluded by its first two bytes.
fn first_bytes() -> &'static Known {
    static FIRST: OnceLock<Known> = OnceLock::new();
    FIRST.get_or_init(|| known(|byte| vec![byte]))
}

/// Whether a payload of `first` and that byte alone fits. The table of a first byte is made when it is first asked for.
fn second_bytes(first: u8) -> &'static Known {
    static SECOND: [OnceLock<Known>; 256] = [const { OnceLock::new() }; 256];
    SECOND
        .get(usize::from(first))
        .map_or_else(first_bytes, |table| table.get_or_init(|| known(|byte| vec![first, byte])))
}

/// Which payloads fit, by a byte that they have.
fn known(payload: impl Fn(u8) -> Vec<u8>) -> Known {
    // At the ports of each protocol too, where some are less strict.
    let ports: BTreeSet<u16> =
        ELSEWHERE.iter().flat_map(|protocol| protocol.ports).copied().chain([0]).collect();
    std::array::from_fn(|byte| {
        let payload = payload(byte as u8);
        let fits = |ip_proto| ports.iter().any(|port| fits(ip_proto, [*port, *port], &payload));
        u8::from(fits(TCP)) | u8::from(fits(UDP)) << 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_shows_what_may_begin() {
        let may = |ip_proto, payload: &[u8]| may_begin_elsewhere(ip_proto, [40_000, 50_000], payload);
        let invite = b"INVITE sip:b@example.test SIP/2.0\r\n";
        assert!(may(UDP, invite) && may(TCP, invite) && !may(17 + 1, invite));
        for begun in
            [&b"220 ready\r\n"[..], b"2", b"USER x\r\n", b"NICK x\r\n", b":irc.example.test 001 x :hi\r\n"]
        {
            assert!(may(TCP, begun), "{}", String::from_utf8_lossy(begun));
        }
        for other in
            [&b"GET / HTTP/1.1\r\n"[..], b"HTTP/1.1 200 OK\r\n", b"\x16\x03\x01", b"", b"SSH-2.0-x\r\n", b"{"]
        {
            assert!(!may(TCP, other) && !may(UDP, other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn what_the_first_bytes_exclude_the_whole_payload_excludes() {
        let lines = [
            &b"220 ready\r\n"[..],
            b"USER x\r\n",
            b":irc.example.test 001 x :hi\r\n",
            b"NICK x\r\nUSER y 0 * :z\r\n",
            b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1\r\n\r\n",
            b"INVITE sip:b@example.test SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1\r\n\r\n",
            b"\r\n\r\nREGISTER sip:example.test SIP/2.0\r\n\r\n",
            b"POST /x HTTP/1.1\r\n",
        ];
        let mut fitting = 0;
        for (first, second) in (0..=255u8).flat_map(|first| (0..=255u8).map(move |second| (first, second))) {
            for line in lines {
                let mut payload = line.to_vec();
                payload[..2].copy_from_slice(&[first, second]);
                for (ip_proto, port) in [(TCP, 0), (TCP, 21), (TCP, 6667), (UDP, 0), (UDP, 5060)] {
                    let fits = fits(ip_proto, [port, port], &payload);
                    fitting += u32::from(fits);
                    assert_eq!(may_begin_elsewhere(ip_proto, [port, port], &payload), fits, "{payload:?}");
                }
            }
        }
        assert!(fitting > 1000, "{fitting}");
    }
}
