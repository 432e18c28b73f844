//! A realistic mix: sessions of a profile, begun at random times at the profile's rates, each with its own addresses
//! and client port, merged in time order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use weir_capture::{Files, Input, ReadOptions};
use weir_wire::build::packet;
use weir_wire::{LinkType, Network, PacketBuf, checksum, decode};

use crate::flood::replace;
use crate::pcap::Writer;
use crate::profile::Profile;
use crate::{Facts, Result};
use weir_bench::random::Random;

/// Parameters of the mix.
pub struct Mix {
    pub seconds: f64,
    pub multiplier: f64,
    /// Share of TCP segments that overtake the previous one of their sender.
    pub reordered: f64,
    pub seed: u64,
    pub profile: PathBuf,
}

/// The next event, by time in microseconds; the number keeps the order of events at equal times.
type Event = Reverse<(u64, u64, Next)>;

#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Next {
    /// A session of that template begins.
    Session(usize),
    /// A packet of a session is due.
    Packet(usize),
}

/// Writes a mix. Sessions that are open at the end are cut there, as in a capture that stops.
pub fn write(path: &Path, mix: &Mix) -> Result<Facts> {
    let text =
        std::fs::read_to_string(&mix.profile).map_err(|e| format!("{}: {e}", mix.profile.display()))?;
    let profile: Profile = text.parse().map_err(|e| format!("{}: {e}", mix.profile.display()))?;
    let folder = mix.profile.parent().unwrap_or(Path::new("."));
    let templates = profile.templates.iter().map(|template| load(&folder.join(&template.name)));
    let templates: Vec<Vec<Frame>> = templates.collect::<Result<_>>()?;
    let mut random = Random(mix.seed);
    let mut gap = |template: usize| {
        let rate = profile.templates[template].rate * mix.multiplier;
        (random.gap(rate) * 1e6) as u64
    };
    let end = (mix.seconds * 1e6) as u64;
    let mut out = Writer::create(path)?;
    let mut sessions: Vec<Session> = Vec::new();
    let mut events: BinaryHeap<Event> = BinaryHeap::new();
    let mut number = 0;
    let mut at = |events: &mut BinaryHeap<Event>, time: u64, next: Next| {
        number += 1;
        if time < end {
            events.push(Reverse((time, number, next)));
        }
    };
    for template in 0..templates.len() {
        at(&mut events, gap(template), Next::Session(template));
    }
    let mut frame = Vec::new();
    // The set of sessions does not depend on the reordering within them.
    let mut dice = Random(!mix.seed);
    while let Some(Reverse((now, _, next))) = events.pop() {
        match next {
            Next::Session(template) => {
                at(&mut events, now + gap(template), next);
                at(&mut events, now, Next::Packet(sessions.len()));
                sessions.push(Session::new(sessions.len() as u32, template, now, &profile));
            }
            Next::Packet(index) => {
                let session = &mut sessions[index];
                let template = &templates[session.template];
                let overtakes = |at: usize| {
                    template[at].is_tcp
                        && template
                            .get(at + 1)
                            .is_some_and(|next| next.from_client == template[at].from_client)
                };
                let shown = if std::mem::take(&mut session.overtaken) {
                    session.sent - 1
                } else if mix.reordered > 0.0 && overtakes(session.sent) && dice.chance(mix.reordered) {
                    session.overtaken = true;
                    session.sent + 1
                } else {
                    session.sent
                };
                template[shown].address(session, &mut frame);
                out.write(now, &frame)?;
                session.sent += 1;
                if let Some(following) = template.get(session.sent) {
                    at(&mut events, session.start + following.after, Next::Packet(index));
                }
            }
        }
    }
    let facts = out.finish()?;
    Ok(Facts { sessions: Some(sessions.len() as u64), ..facts })
}

/// An open session.
struct Session {
    template: usize,
    /// Packets written.
    sent: usize,
    /// Whether the packet before the last one has yet to be sent.
    overtaken: bool,
    /// Start in microseconds.
    start: u64,
    client: [u8; 4],
    server: [u8; 4],
    port: u16,
}

impl Session {
    /// Clients in turn, servers in turn, and another port each time that all clients were used.
    fn new(number: u32, template: usize, start: u64, profile: &Profile) -> Self {
        let count = |range: &std::ops::RangeInclusive<u32>| range.end() - range.start() + 1;
        let client = profile.clients.start() + number % count(&profile.clients);
        let server = profile.servers.start() + number % count(&profile.servers);
        let port = 1024 + number / count(&profile.clients) * 8 % 60_000;
        Self {
            template,
            sent: 0,
            overtaken: false,
            start,
            client: client.to_be_bytes(),
            server: server.to_be_bytes(),
            port: port as u16,
        }
    }
}

/// A packet of a template.
struct Frame {
    bytes: Vec<u8>,
    /// Time in microseconds after the template's first packet.
    after: u64,
    from_client: bool,
    is_tcp: bool,
    /// Offset of the network header.
    network: usize,
    /// Offset of the client's port, and its index among the client ports of the template.
    client_port: Option<(usize, u16)>,
    /// Offset of the transport checksum, if there is one.
    checksum: Option<usize>,
}

impl Frame {
    /// The packet with the session's addresses and port.
    fn address(&self, session: &Session, frame: &mut Vec<u8>) {
        frame.clear();
        frame.extend_from_slice(&self.bytes);
        let (source, destination) = if self.from_client {
            (session.client, session.server)
        } else {
            (session.server, session.client)
        };
        let mut addresses = [0; 8];
        addresses[..4].copy_from_slice(&source);
        addresses[4..].copy_from_slice(&destination);
        let both = [self.network + 10, self.checksum.unwrap_or_default()];
        let covering = if self.checksum.is_some() { &both[..] } else { &both[..1] };
        replace(frame, self.network + 12, &addresses, covering);
        if let Some((place, nth)) = self.client_port {
            replace(frame, place, &(session.port + nth).to_be_bytes(), &covering[1..]);
        }
    }
}

/// The IPv4 packets of a template, with valid checksums. The sender of the first packet is the client.
fn load(path: &Path) -> Result<Vec<Frame>> {
    let mut files = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default())?;
    let mut frames = Vec::new();
    let mut first = None;
    let mut client_ports: Vec<u16> = Vec::new();
    let mut chunk = PacketBuf::default();
    while files.fill(&mut chunk)? {
        for seen in chunk.batch().packets() {
            let mut bytes = seen.data.to_vec();
            let layers = decode(&packet(&bytes, LinkType::ETHERNET));
            if seen.link != LinkType::ETHERNET
                || layers.network_kind != Network::Ipv4
                || layers.error.is_some()
            {
                continue;
            }
            checksum::fill(&mut bytes, &layers);
            let network = layers.network as usize;
            let source = bytes[network + 12..network + 16].to_vec();
            let (start, client) = first.get_or_insert_with(|| (seen.time, source.clone()));
            let from_client = source == *client;
            let transport = layers.transport as usize;
            let place = match layers.ip_proto {
                6 => Some(transport + 16),
                17 => Some(transport + 6),
                _ => None,
            }
            .filter(|_| layers.has_transport());
            let client_port = place.map(|_| {
                let port = layers.ports[usize::from(!from_client)];
                let known = client_ports.iter().position(|known| *known == port);
                let nth = known.unwrap_or_else(|| {
                    client_ports.push(port);
                    client_ports.len() - 1
                });
                (transport + usize::from(!from_client) * 2, nth as u16)
            });
            frames.push(Frame {
                after: seen.time.since(*start) / 1000,
                from_client,
                is_tcp: layers.ip_proto == 6,
                network,
                client_port,
                checksum: place.filter(|at| bytes[*at..at + 2] != [0, 0]),
                bytes,
            });
        }
    }
    if frames.is_empty() || client_ports.len() > 8 {
        return Err(format!("{}: no IPv4 packets, or more than 8 ports of the client", path.display()).into());
    }
    frames.sort_by_key(|frame| frame.after);
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_wire::{Checksum, FlowKey, verify};

    /// A mix of the real profile has packets in time order, valid checksums, and at least one flow for each session.
    #[test]
    fn a_mix_is_in_order_and_valid() {
        let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/trex/sfr_profile.yaml");
        if !profile.exists() {
            println!("skipped: ../shared/data is absent");
            return;
        }
        let path = std::env::temp_dir().join(format!("weir-mix-{}.pcap", std::process::id()));
        let facts =
            write(&path, &Mix { seconds: 0.2, multiplier: 1.0, reordered: 0.01, seed: 3, profile }).unwrap();
        let mut files = Files::open(&[Input::Path(path.clone())], &ReadOptions::default()).unwrap();
        let (mut chunk, mut packets, mut flows, mut last) = (PacketBuf::default(), 0, BTreeSet::new(), 0);
        while files.fill(&mut chunk).unwrap() {
            for packet in chunk.batch().packets() {
                let layers = decode(&packet);
                let sums = verify(&packet, &layers);
                assert!(sums.network != Checksum::Bad && sums.transport != Checksum::Bad, "packet {packets}");
                assert!(packet.time.0 >= last, "packet {packets}");
                last = packet.time.0;
                packets += 1;
                let (key, _) = FlowKey::of(&packet, &layers).unwrap();
                flows.insert(format!("{key:?}"));
            }
        }
        std::fs::remove_file(path).unwrap();
        assert_eq!(packets, facts.packets);
        assert!(flows.len() as u64 >= facts.sessions.unwrap(), "{} flows", flows.len());
        println!("{packets} packets, {} flows, {:?} sessions", flows.len(), facts.sessions);
    }
}
