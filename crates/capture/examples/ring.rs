//! Captures on an interface for some seconds, and prints packets, drops and the reader's CPU time per packet.
//!
//!     ring INTERFACE [SECONDS] [WORKERS]

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use weir_capture::{LiveError, RingOptions, Rings, Source};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(interfaces) = arguments.next() else {
        eprintln!("ring INTERFACE[,INTERFACE...] [SECONDS] [WORKERS]");
        std::process::exit(1);
    };
    let seconds = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let workers = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let interfaces = interfaces.split(',').map(str::to_owned).collect();
    let options = RingOptions { interfaces, ..RingOptions::default() };
    let rings = Rings::open(&options, workers).unwrap_or_else(|e| {
        eprintln!("ring: {e}");
        std::process::exit(1);
    });
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        for (worker, ring) in rings.into_iter().enumerate() {
            scope.spawn(move || match read(ring, end) {
                Ok(line) => println!("worker {worker}: {line}"),
                Err(e) => eprintln!("worker {worker}: {e}"),
            });
        }
    });
}

fn read(mut rings: Rings, end: Instant) -> Result<String, LiveError> {
    let (mut packets, mut bytes, mut batches, mut touched) = (0u64, 0u64, 0u64, 0u64);
    let before = cpu_time();
    let mut stopped = false;
    loop {
        if !stopped && Instant::now() >= end {
            rings.stop()?;
            stopped = true;
        }
        let batch = rings.next_batch(Duration::from_millis(100))?;
        batches += u64::from(!batch.is_empty());
        for packet in batch.packets() {
            packets += 1;
            bytes += u64::from(packet.wire_len);
            touched += u64::from(packet.data.get(12).copied().unwrap_or(0));
        }
        if stopped && rings.is_drained() {
            break;
        }
        for event in rings.take_events() {
            println!("{event:?}");
        }
    }
    let spent = cpu_time() - before;
    let stats = rings.stats()?;
    let each = spent.as_nanos() as f64 / packets.max(1) as f64;
    Ok(format!(
        "{packets} packets, {bytes} bytes, {batches} batches, {each:.1} ns CPU per packet; {stats:?} ({touched})"
    ))
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code)]
    // SAFETY: `time` is a timespec that can be written.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time)
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
