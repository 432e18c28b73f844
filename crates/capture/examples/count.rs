//! Reads capture files and prints packets, bytes and the CPU time per packet.

#![allow(clippy::print_stdout)]

use weir_capture::{Files, Input, ReadOptions};
use weir_wire::PacketBuf;

fn main() {
    let inputs: Vec<Input> = std::env::args()
        .skip(1)
        .map(|name| if name == "-" { Input::Stdin } else { Input::Path(name.into()) })
        .collect();
    let started = cpu_nanoseconds();
    let mut files = match Files::open(&inputs, &ReadOptions::default()) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let mut chunk = PacketBuf::default();
    let (mut packets, mut bytes) = (0_u64, 0_u64);
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => {
                packets += chunk.slots.len() as u64;
                bytes += chunk.slots.iter().map(|slot| u64::from(slot.len)).sum::<u64>();
            }
            Ok(false) => break,
            Err(error) => eprintln!("{error}"),
        }
    }
    let spent = cpu_nanoseconds() - started;
    let each = spent as f64 / packets.max(1) as f64;
    println!("{packets} packets {bytes} bytes {:.3} s CPU {each:.1} ns/packet", spent as f64 / 1e9);
}

/// User and system time of this process.
#[allow(unsafe_code)]
fn cpu_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec, which `time` is.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
