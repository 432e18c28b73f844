//! Tables of measurements of flows, independent of their protocol. The pass over packets fills them.

use crate::{Field, Kind, Table, field};

/// Fields of one direction.
macro_rules! sides {
    ($($forward:literal, $reverse:literal, $kind:expr, $help:literal;)*) => {
        &[$(
            field($forward, $kind, concat!($help, " Of what the initiator sent.")),
            field($reverse, $kind, concat!($help, " Of what the responder sent.")),
        )*]
    };
}

/// A row for each flow that has ended.
pub static STREAM: Table = Table {
    name: "stream",
    help: "A flow that has ended and was measured: round trips, loss, windows, throughput.",
    zeek: "",
    eve: "",
    fields: &STREAM_FIELDS,
};

const STREAM_HEAD: [Field; 6] = [
    field("protocol", Kind::Uint, "IP protocol number."),
    field("duration", Kind::Duration, "From the first packet to the last."),
    field(
        "handshake",
        Kind::Duration,
        "From the SYN to the acknowledgement of the SYN-ACK: the round trip of the whole path.",
    ),
    field(
        "handshake_responder",
        Kind::Duration,
        "From the SYN to the SYN-ACK: the round trip from the sensor to the responder and back.",
    ),
    field(
        "handshake_initiator",
        Kind::Duration,
        "From the SYN-ACK to its acknowledgement: the round trip from the sensor to the initiator and back.",
    ),
    field(
        "first_byte",
        Kind::Duration,
        "From the initiator's first byte to the responder's first; where the responder speaks first, from the end of the handshake.",
    ),
];

const STREAM_TAIL: [Field; 1] = [field(
    "requests",
    Kind::Uint,
    "How often the initiator began to speak: first, or after the responder spoke.",
)];

const STREAM_SIDES: &[Field] = sides! {
    "packets_forward", "packets_reverse", Kind::Uint, "Packets.";
    "bytes_forward", "bytes_reverse", Kind::Uint, "Bytes of payload, as often as they were sent.";
    "throughput_forward", "throughput_reverse", Kind::Real, "Bytes of payload in a second, each counted once, from the first packet with payload to the last.";
    "rtts_forward", "rtts_reverse", Kind::Uint, "Round trips that were timed, from data to its acknowledgement.";
    "rtt_forward", "rtt_reverse", Kind::Duration, "Mean of the round trips.";
    "rtt_least_forward", "rtt_least_reverse", Kind::Duration, "The shortest round trip.";
    "rtt_most_forward", "rtt_most_reverse", Kind::Duration, "The longest round trip.";
    "jitter_forward", "jitter_reverse", Kind::Duration, "Smoothed difference of successive round trips; where there are none, of inter-arrival times.";
    "segments_forward", "segments_reverse", Kind::Uint, "TCP segments with payload, SYN or FIN.";
    "retransmitted_forward", "retransmitted_reverse", Kind::Uint, "Segments that were sent again.";
    "spurious_forward", "spurious_reverse", Kind::Uint, "Of these, segments that had been acknowledged before.";
    "lost_forward", "lost_reverse", Kind::Uint, "Segments that were lost, as far as retransmissions tell.";
    "loss_forward", "loss_reverse", Kind::Real, "The part of the segments that was lost.";
    "out_of_order_forward", "out_of_order_reverse", Kind::Uint, "Segments that had been overtaken.";
    "hops_forward", "hops_reverse", Kind::Uint, "Routers that the last packet had passed, from the nearest of 64, 128 and 255.";
    "window_forward", "window_reverse", Kind::Uint, "The last window announced in bytes, scaled.";
    "window_least_forward", "window_least_reverse", Kind::Uint, "The smallest window.";
    "window_most_forward", "window_most_reverse", Kind::Uint, "The largest window.";
    "zero_windows_forward", "zero_windows_reverse", Kind::Uint, "How often the window was closed.";
    "mss_forward", "mss_reverse", Kind::Uint, "Largest segment, by the option of the SYN.";
};

const STREAM_FIELDS: [Field; STREAM_HEAD.len() + STREAM_SIDES.len() + STREAM_TAIL.len()] =
    join(&STREAM_HEAD, STREAM_SIDES, &STREAM_TAIL);

/// A row for each period of a flow that had packets in it.
pub static STREAM_SAMPLE: Table = Table {
    name: "stream_sample",
    help: "What a flow had in one period.",
    zeek: "",
    eve: "",
    fields: &SAMPLE_FIELDS,
};

const SAMPLE_HEAD: [Field; 1] =
    [field("length", Kind::Duration, "Length of the period, which begins at the row's time.")];

const SAMPLE_SIDES: &[Field] = sides! {
    "packets_forward", "packets_reverse", Kind::Uint, "Packets.";
    "bytes_forward", "bytes_reverse", Kind::Uint, "Bytes of payload.";
    "throughput_forward", "throughput_reverse", Kind::Real, "Bytes of payload in a second.";
    "rtts_forward", "rtts_reverse", Kind::Uint, "Round trips that were timed.";
    "rtt_forward", "rtt_reverse", Kind::Duration, "Mean of the round trips.";
    "jitter_forward", "jitter_reverse", Kind::Duration, "Jitter at the period's end, over all that came before.";
    "retransmitted_forward", "retransmitted_reverse", Kind::Uint, "Segments that were sent again.";
    "lost_forward", "lost_reverse", Kind::Uint, "Segments that were lost.";
    "out_of_order_forward", "out_of_order_reverse", Kind::Uint, "Segments that had been overtaken.";
    "window_forward", "window_reverse", Kind::Uint, "The last window announced in bytes.";
};

const SAMPLE_FIELDS: [Field; SAMPLE_HEAD.len() + SAMPLE_SIDES.len()] = join(&SAMPLE_HEAD, SAMPLE_SIDES, &[]);

/// Fields one after the other.
#[expect(clippy::indexing_slicing, reason = "it runs while it is compiled, and would not compile")]
const fn join<const N: usize>(head: &[Field], sides: &[Field], tail: &[Field]) -> [Field; N] {
    let mut all = [const { field("", Kind::Uint, "") }; N];
    let (mut at, mut from) = (0, 0);
    let parts = [head, sides, tail];
    let mut part = 0;
    while at < N {
        if from == parts[part].len() {
            part += 1;
            from = 0;
            continue;
        }
        let Field { name, kind, help, zeek, eve, privacy, of_body } = &parts[part][from];
        all[at] = Field { name, kind: *kind, help, zeek, eve, privacy: *privacy, of_body: *of_body };
        at += 1;
        from += 1;
    }
    all
}
