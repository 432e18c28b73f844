//! Copies the packets of capture files into another file, whose name determines its format, and prints the CPU time
//! per packet: `copy OUT IN...`.

#![allow(clippy::print_stdout)]

use weir_capture::{Files, Input, PacketWriter, ReadOptions, Target, WriteOptions};
use weir_wire::{PacketBuf, Time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names = std::env::args().skip(1);
    let out = names.next().ok_or("expected OUT IN...")?;
    let inputs: Vec<Input> = names.map(|name| Input::Path(name.into())).collect();
    let started = cpu_nanoseconds();
    let mut files = Files::open(&inputs, &ReadOptions::default())?;
    let mut writer = PacketWriter::create(Target::Path(out.into()), WriteOptions::default(), &[], Time(0))?;
    let mut chunk = PacketBuf::default();
    while files.fill(&mut chunk)? {
        for packet in chunk.batch().packets() {
            writer.write(&packet)?;
        }
    }
    let (written, result) = writer.close();
    result?;
    let spent = cpu_nanoseconds() - started;
    println!("{} packets {:.1} ns/packet", written.packets, spent as f64 / written.packets.max(1) as f64);
    Ok(())
}

/// User and system time of this process.
#[allow(unsafe_code)]
fn cpu_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec, which `time` is.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
