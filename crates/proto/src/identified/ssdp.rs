//! SSDP (UPnP Device Architecture 2.0, 1.2 and 1.3): requests in the form of HTTP over UDP, and their responses.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "ssdp",
    "Simple Service Discovery Protocol (UPnP Device Architecture 2.0); it is identified but not parsed.",
    Transport::Udp,
    &[1900],
    probe,
);

const REQUESTS: [&[u8]; 2] = [b"M-SEARCH * HTTP/1.1", b"NOTIFY * HTTP/1.1"];
/// A response, which decides on the port.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK";

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let is_one = |head: &[u8]| {
        REQUESTS.iter().any(|request| head.starts_with(request)) || is_home && head.starts_with(RESPONSE)
    };
    if heads.both().any(is_one) { Probe::Match } else { Probe::Reject }
}
