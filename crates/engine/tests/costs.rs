//! The cost profile costs little, measured as the number of clock readings. `bench/run --only costs` measures the time
//! of a pass with it and without it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::cell::Cell;
use std::sync::Arc;
use weir_api::{FunctionCall, SubscriptionSpec};
use weir_engine::{ChecksumMode, FlowConfig, Plan, Settings, Worker};
use weir_filter::Options;
use weir_wire::build::{self, flags};
use weir_wire::{Batch, LinkType, PacketBuf, Time};

const PACKETS: u64 = 16_384;
const INTERVALS: u64 = 2;

/// Maximum number of clock readings per 1,000 packets: eight, and as many for the tallies of as many flows.
const MAX_A_THOUSAND: u64 = 16;

thread_local!(static READINGS: Cell<u64> = const { Cell::new(0) });

/// A clock that counts its readings.
fn counting() -> u64 {
    READINGS.set(READINGS.get() + 1);
    READINGS.get() * 25
}

/// Packets of which every one, or one in 64, begins a flow.
fn packets(is_flood: bool) -> PacketBuf {
    let mut chunk = PacketBuf::default();
    for n in 0..PACKETS {
        let flow = if is_flood { n } else { n % (PACKETS / 64) };
        let from = [10, 0, (flow >> 8) as u8, flow as u8];
        let frame = build::ethernet().ipv4(from, [192, 168, 0, 1]).tcp(1024, 80, flags::SYN).payload(b"");
        let mut packet = build::packet(&frame, LinkType::ETHERNET);
        packet.time = Time(1_000_000_000 + n * 1000);
        chunk.push(&packet);
    }
    chunk
}

/// The given number of subscriptions: lines of a chart, subscriptions that see packets, or subscriptions that see
/// tallies of flows.
fn subscriptions(kind: &str, count: usize) -> Vec<SubscriptionSpec> {
    let (expression, call) = match kind {
        "lines" => (true, FunctionCall::new("packets")),
        "packets" => (true, FunctionCall::new("ipproto")),
        _ => (false, FunctionCall::new("ipproto")),
    };
    let spec = |n: usize| {
        let text = if expression {
            format!("src net 10.0.{}.0/24 and port {}", n % 256, n / 256)
        } else {
            String::new()
        };
        SubscriptionSpec::new(&format!("{kind} {n}"), &text, vec![call.clone()])
    };
    (0..count).map(spec).collect()
}

/// Number of clock readings of a run.
fn run(plan: &Arc<Plan>, chunk: &PacketBuf) -> u64 {
    let flows = FlowConfig { memory: 8 << 20, ..FlowConfig::default() };
    let mut worker = Worker::new(Arc::clone(plan), &flows);
    worker.measure(counting);
    READINGS.set(0);
    for slots in chunk.slots.chunks(chunk.slots.len() / INTERVALS as usize) {
        worker.batch(Batch { bytes: &chunk.bytes, slots }, &mut ());
        worker.tick(slots.last().unwrap().time, &mut ());
    }
    READINGS.get()
}

#[test]
fn the_clock_is_read_at_most_sixteen_times_per_thousand_packets() {
    for kind in ["lines", "packets", "tallies"] {
        for count in [1, 80, 10_000] {
            let settings = Settings {
                filter: Options::default(),
                checksum: ChecksumMode::Auto,
                seeds: 1_u64.into(),
                chosen: None,
                own_apps: Default::default(),
                rules: None,
            };
            let plan = Arc::new(Plan::new("", subscriptions(kind, count), settings).unwrap());
            // The first block and the first tallies of each interval are measured in advance.
            let on_account = match kind {
                "lines" => 16,
                _ => 16 + count as u64,
            };
            let max = INTERVALS * on_account + PACKETS * MAX_A_THOUSAND / 1000;
            for is_flood in [false, true] {
                let readings = run(&plan, &packets(is_flood));
                println!(
                    "{count} {kind}, {}: read {readings} times, at most {max}: {:.2} for 1,000 packets",
                    if is_flood { "flood" } else { "flows" },
                    readings as f64 * 1000.0 / PACKETS as f64,
                );
                assert!((1..=max).contains(&readings), "{readings} of {max}");
            }
        }
    }
}
