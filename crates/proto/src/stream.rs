//! Tables of measurements of flows, independent of their protocol. The engine fills them.

use crate::{Field, Kind, Table, field};

/// Fields of both directions.
macro_rules! sides {
    ($($forward:literal, $reverse:literal, $kind:expr, $help:literal;)*) => {
        &[$(
            field($forward, $kind, concat!("From the initiator: ", $help)),
            field($reverse, $kind, concat!("From the responder: ", $help)),
        )*]
    };
}

/// A row for each flow that has ended.
pub static STREAM: Table = Table {
    name: "stream",
    help: "Measurements of a flow that has ended: round trips, loss, windows, throughput.",
    zeek: "",
    eve: "",
    fields: &STREAM_FIELDS,
};

const STREAM_HEAD: [Field; 6] = [
    field("protocol", Kind::Uint, "IP protocol number."),
    field("duration", Kind::Duration, "Time from the first packet to the last, in seconds."),
    field(
        "handshake",
        Kind::Duration,
        "Time from the SYN to the acknowledgement of the SYN-ACK, in seconds: the round trip of the whole path.",
    ),
    field(
        "handshake_responder",
        Kind::Duration,
        "Time from the SYN to the SYN-ACK, in seconds: the round trip from the sensor to the responder and back.",
    ),
    field(
        "handshake_initiator",
        Kind::Duration,
        "Time from the SYN-ACK to its acknowledgement, in seconds: the round trip from the sensor to the initiator and back.",
    ),
    field(
        "first_byte",
        Kind::Duration,
        "Time from the initiator's first byte to the responder's first, in seconds; if the responder sends first, from the end of the handshake. No value unless both were seen.",
    ),
];

const STREAM_TAIL: [Field; 1] = [field(
    "requests",
    Kind::Uint,
    "Number of requests: how often the initiator began to send payload, at first or after payload of the responder.",
)];

const STREAM_SIDES: &[Field] = sides! {
    "packets_forward", "packets_reverse", Kind::Uint, "number of packets.";
    "bytes_forward", "bytes_reverse", Kind::Uint, "payload bytes, retransmitted ones included.";
    "throughput_forward", "throughput_reverse", Kind::Real, "payload bytes per second from the first packet with payload to the last; retransmitted bytes count once.";
    "rtts_forward", "rtts_reverse", Kind::Uint, "number of round trips that were measured, from data to its acknowledgement.";
    "rtt_forward", "rtt_reverse", Kind::Duration, "mean round trip in seconds.";
    "rtt_least_forward", "rtt_least_reverse", Kind::Duration, "minimum round trip in seconds.";
    "rtt_most_forward", "rtt_most_reverse", Kind::Duration, "maximum round trip in seconds.";
    "jitter_forward", "jitter_reverse", Kind::Duration, "smoothed difference of successive round trips in seconds; without round trips, of inter-arrival times.";
    "segments_forward", "segments_reverse", Kind::Uint, "TCP segments with payload, SYN or FIN.";
    "retransmitted_forward", "retransmitted_reverse", Kind::Uint, "retransmitted segments.";
    "spurious_forward", "spurious_reverse", Kind::Uint, "retransmitted segments that had been acknowledged before.";
    "lost_forward", "lost_reverse", Kind::Uint, "segments that were lost, as far as retransmissions reveal them.";
    "loss_forward", "loss_reverse", Kind::Real, "share of the segments that were lost, from 0 to 1.";
    "out_of_order_forward", "out_of_order_reverse", Kind::Uint, "segments that a later segment had overtaken.";
    "hops_forward", "hops_reverse", Kind::Uint, "number of routers that the last packet passed, if its initial TTL was the lowest of 64, 128 and 255 that is not below its TTL.";
    "window_forward", "window_reverse", Kind::Uint, "last announced window in bytes, after scaling (RFC 7323).";
    "window_least_forward", "window_least_reverse", Kind::Uint, "minimum announced window in bytes.";
    "window_most_forward", "window_most_reverse", Kind::Uint, "maximum announced window in bytes.";
    "zero_windows_forward", "zero_windows_reverse", Kind::Uint, "number of times that the announced window became 0.";
    "mss_forward", "mss_reverse", Kind::Uint, "maximum segment size in bytes, from the option of the SYN.";
};

const STREAM_FIELDS: [Field; STREAM_HEAD.len() + STREAM_SIDES.len() + STREAM_TAIL.len()] =
    join(&STREAM_HEAD, STREAM_SIDES, &STREAM_TAIL);

/// A row for each period of a flow that had packets in it.
pub static STREAM_SAMPLE: Table = Table {
    name: "stream_sample",
    help: "Measurements of a flow in one period.",
    zeek: "",
    eve: "",
    fields: &SAMPLE_FIELDS,
};

const SAMPLE_HEAD: [Field; 1] =
    [field("length", Kind::Duration, "Length of the period in seconds; it begins at the row's time.")];

const SAMPLE_SIDES: &[Field] = sides! {
    "packets_forward", "packets_reverse", Kind::Uint, "number of packets.";
    "bytes_forward", "bytes_reverse", Kind::Uint, "payload bytes.";
    "throughput_forward", "throughput_reverse", Kind::Real, "payload bytes per second.";
    "rtts_forward", "rtts_reverse", Kind::Uint, "number of round trips that were measured, from data to its acknowledgement.";
    "rtt_forward", "rtt_reverse", Kind::Duration, "mean round trip in seconds.";
    "jitter_forward", "jitter_reverse", Kind::Duration, "jitter in seconds at the end of the period, smoothed since the beginning of the flow.";
    "retransmitted_forward", "retransmitted_reverse", Kind::Uint, "retransmitted segments.";
    "lost_forward", "lost_reverse", Kind::Uint, "segments that were lost.";
    "out_of_order_forward", "out_of_order_reverse", Kind::Uint, "segments that a later segment had overtaken.";
    "window_forward", "window_reverse", Kind::Uint, "last announced window in bytes.";
};

const SAMPLE_FIELDS: [Field; SAMPLE_HEAD.len() + SAMPLE_SIDES.len()] = join(&SAMPLE_HEAD, SAMPLE_SIDES, &[]);

/// Concatenates arrays of fields.
#[expect(
    clippy::indexing_slicing,
    reason = "it is evaluated by the compiler, which refuses an index out of range"
)]
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
