//! Generates traffic for measurements: floods of small packets, flows of small packets by Zipf's law, a realistic mix
//! from a profile of a provider's link, a diverse one from captures, and hostile captures; and expressions for it.
//!
//! The output depends only on the arguments, so that two machines measure equal packets. The facts of the capture
//! (packets, bytes, flows) are printed as one JSON object: they are known by construction, and a program's counts can
//! be compared with them.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod captures;
mod flood;
mod hostile;
mod mix;
mod pcap;
mod profile;
mod streams;
mod zipf;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_bench::random::Random;
use weir_bench::traffic::Pool;

/// Generates captures for measurements.
#[derive(Parser)]
#[command(name = "generate")]
struct Arguments {
    #[command(subcommand)]
    traffic: Traffic,
}

#[derive(Subcommand)]
enum Traffic {
    /// Small packets, alternating UDP and TCP SYN
    Flood {
        /// The capture to write
        out: PathBuf,
        /// Number of packets
        #[arg(long, default_value_t = 5_000_000)]
        packets: u64,
        /// Addresses of the packets
        #[arg(long, value_enum, default_value_t = flood::Addresses::Random)]
        mode: flood::Addresses,
        /// Bytes of a frame, without the frame check sequence.
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(60..=9000))]
        len: u16,
        /// Packets per second of capture time.
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
        /// Seed of the random addresses
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Small packets of 65,536 flows by Zipf's law, most of them TCP connections.
    Zipf {
        /// The capture to write
        out: PathBuf,
        /// Number of packets
        #[arg(long, default_value_t = 10_000_000)]
        packets: u64,
        /// Bytes of a frame, without the frame check sequence; more where the headers are longer (IPv6 with TCP).
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(60..=9000))]
        len: u16,
        /// Packets per second of capture time.
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
        /// Share of TCP segments that are replaced by a retransmitted SYN or SYN-ACK
        #[arg(long, default_value_t = 0.0)]
        resent: f64,
        /// Seed of flows and their order
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Pcap-filter expressions about the flows of `zipf` with an equal seed, one per line on standard output
    Expressions {
        /// Number of expressions
        n: usize,
        /// Seed of the expressions
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Sessions of a TRex profile, each with its own addresses and port
    Mix {
        /// The capture to write.
        out: PathBuf,
        /// Seconds of capture time.
        #[arg(long, default_value_t = 8.0)]
        seconds: f64,
        /// Factor of the profile's sessions per second
        #[arg(long, default_value_t = 1.0)]
        multiplier: f64,
        /// The share of TCP segments that overtake the one before them.
        #[arg(long, default_value_t = 0.0)]
        reordered: f64,
        /// Seed of the times of sessions
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The profile; its templates are found relative to its folder.
        #[arg(long, default_value = "../shared/data/trex/sfr_profile.yaml")]
        profile: PathBuf,
    },
    /// TCP streams of which many are open at once, each with a request whose body comes in parts, in turn
    Streams {
        /// The capture to write.
        out: PathBuf,
        /// Number of streams
        #[arg(long, default_value_t = 1_000_000)]
        streams: u32,
        /// Number of streams open at once; when they have ended, the next ones begin
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
        open: u32,
        /// Packets per second of capture time.
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
    },
    /// Every Ethernet capture of some folders, laid over each other many times.
    Captures {
        /// The capture to write.
        out: PathBuf,
        /// Seconds of capture time.
        #[arg(long, default_value_t = 120.0)]
        seconds: f64,
        /// Number of copies of each capture, each with other addresses
        #[arg(long, default_value_t = 20)]
        copies: u32,
        /// Seed of the times
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folders.
        #[arg(long = "from", default_value = "../shared/data")]
        folders: Vec<PathBuf>,
    },
    /// Captures of a megabyte each that cost as much as they can. Prints a line for each: name, bytes of frames, what
    /// is in it.
    Hostile {
        /// The folder to write into; it is made.
        out: PathBuf,
        /// Conversations that are made longer: a folder of folders, as `testdata/`.
        #[arg(long, default_value = "testdata")]
        talks: PathBuf,
    },
}

/// Facts about the written capture.
#[derive(Default)]
struct Facts {
    packets: u64,
    /// Bytes of frames.
    bytes: u64,
    /// Sessions of the mix, or flows of a link; the flows in a flood depend on the flow table.
    sessions: Option<u64>,
}

fn main() -> ExitCode {
    let facts = match Arguments::parse().traffic {
        Traffic::Flood { out, packets, mode, len, rate, seed } => {
            flood::write(&out, &flood::Flood { packets, addresses: mode, len, rate, seed })
        }
        Traffic::Zipf { out, packets, len, rate, resent, seed } => {
            zipf::write(&out, &zipf::Zipf { packets, len, rate, resent, seed })
        }
        Traffic::Expressions { n, seed } => {
            let mut random = Random(seed);
            for expression in Pool::new(&mut random).expressions(n, &mut random) {
                println!("{expression}");
            }
            return ExitCode::SUCCESS;
        }
        Traffic::Mix { out, seconds, multiplier, reordered, seed, profile } => {
            mix::write(&out, &mix::Mix { seconds, multiplier, reordered, seed, profile })
        }
        Traffic::Streams { out, streams, open, rate } => {
            streams::write(&out, &streams::Open { streams, open, rate })
        }
        Traffic::Hostile { out, talks } => hostile::write(&out, &talks),
        Traffic::Captures { out, seconds, copies, seed, folders } => {
            captures::write(&out, &captures::Captures { folders, seconds, copies, seed })
        }
    };
    match facts {
        Ok(facts) => {
            let Facts { packets, bytes, sessions } = facts;
            let sessions = sessions.map(|n| format!(", \"sessions\": {n}")).unwrap_or_default();
            println!("{{\"packets\": {packets}, \"bytes\": {bytes}{sessions}}}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;
