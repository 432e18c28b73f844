//! What a side of a flow sends before the other side has sent anything.

use weir_flow::{Control, FlowConfig, FlowRecord, FlowSink, FlowTable, Tally};
use weir_wire::build::{self, flags};
use weir_wire::{LinkType, Packet, Time, decode};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const SECOND: u64 = 1_000_000_000;

/// What is unasked of the tallies, each with whether the client sent them, and of the control packets.
#[derive(Default)]
struct Unasked {
    tallies: Vec<(bool, bool)>,
    control: Vec<bool>,
}

impl FlowSink for Unasked {
    fn end(&mut self, _: &FlowRecord) {}

    fn tally(&mut self, tally: &Tally<'_>) {
        // The client has the lower address.
        self.tallies.push((tally.source_is_lower, tally.unasked));
    }

    fn asks_control(&self) -> bool {
        true
    }

    fn control(&mut self, control: &Control<'_>) {
        self.control.push(control.tally.unasked);
    }
}

/// Shows packets to a table, of which each is a second later than the one before. `None`: the sums are rolled up.
fn see(config: &FlowConfig, packets: &[Option<Vec<u8>>]) -> Unasked {
    let (mut table, mut unasked) = (FlowTable::new(config), Unasked::default());
    for (second, data) in (1..).zip(packets) {
        match data {
            Some(data) => {
                let packet =
                    Packet { time: Time(second * SECOND), ..build::packet(data, LinkType::ETHERNET) };
                table.packet(&packet, &decode(&packet), &mut unasked);
            }
            None => table.roll_up(&mut unasked),
        }
    }
    table.roll_up(&mut unasked);
    unasked
}

fn datagram(is_client: bool) -> Option<Vec<u8>> {
    let (from, to) = if is_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let ports = if is_client { (4000, 53) } else { (53, 4000) };
    Some(build::ethernet().ipv4(from, to).udp(ports.0, ports.1).payload(b"data"))
}

#[test]
fn tallies_are_unasked_until_the_other_side_has_sent_a_packet() {
    let config = FlowConfig::default();
    let (question, answer) = (|| datagram(true), || datagram(false));
    assert_eq!(see(&config, &[answer()]).tallies, [(false, true)]);
    assert_eq!(see(&config, &[answer(), answer()]).tallies, [(false, true)]);
    assert_eq!(see(&config, &[question(), answer()]).tallies, [(true, false), (false, false)]);
    // Of later sums too; the packets of a roll-up count as one.
    let tallies = see(&config, &[answer(), None, answer(), None, question(), None, answer()]).tallies;
    assert_eq!(tallies, [(false, true), (false, true), (true, false), (false, false)]);
}

#[test]
fn a_flow_that_was_cut_begins_again() {
    let config = FlowConfig { active: 2 * SECOND, ..FlowConfig::default() };
    let parts = [datagram(true), datagram(false), datagram(false), datagram(false), datagram(false)];
    let tallies = see(&config, &parts).tallies;
    assert_eq!(tallies[..2], [(true, false), (false, false)]);
    assert_eq!(tallies.last(), Some(&(false, true)), "{tallies:?}");
}

#[test]
fn control_packets_are_judged_when_they_arrive_and_late_ones_are_never_unasked() {
    let segment = |is_client: bool, flags, seq, ack| {
        let (from, to) = if is_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let ports = if is_client { (4000, 80) } else { (80, 4000) };
        let packet = build::ethernet().ipv4(from, to).tcp(ports.0, ports.1, flags);
        Some(packet.seq(seq).ack(ack).payload(&[]))
    };
    let both = flags::SYN | flags::ACK;
    let config = FlowConfig::default();
    // The answer comes twice before anything was asked, and once after it.
    let answers =
        [(false, both, 1, 101), (false, both, 1, 101), (true, flags::RST, 101, 0), (false, both, 1, 101)];
    let packets = answers.map(|(is_client, flags, seq, ack)| segment(is_client, flags, seq, ack));
    assert_eq!(see(&config, &packets).control[..3], [true, true, false]);
    let connection = [
        segment(true, flags::SYN, 100, 0),
        segment(false, both, 900, 101),
        segment(true, flags::FIN | flags::ACK, 101, 901),
        segment(false, flags::FIN | flags::ACK, 901, 102),
        segment(true, flags::ACK, 102, 902),
        // More than enough for the end of a closed connection.
        segment(false, flags::RST, 902, 0),
    ];
    let control = see(&config, &connection).control;
    assert_eq!(control.first(), Some(&true));
    assert!(control[1..].iter().all(|unasked| !unasked), "{control:?}");
}
