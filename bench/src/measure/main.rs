//! Measures parts of Weir and the programs that they replace: equal input, alternating, on one thread, by its CPU
//! time.
//!
//! Prints one JSON object per row; `bench/run` makes the tables and has the required values. Results are checked
//! first: if they differ from the baseline's, the exit code is 1 and nothing is measured.

#![allow(clippy::print_stdout)]

mod addresses;
mod bandwidth;
mod clock;
mod costs;
mod fields;
mod libpcap;
mod lists;
mod ours;
mod sets;
mod tables;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures parts of Weir.
#[derive(Parser)]
#[command(name = "measure")]
struct Arguments {
    /// Number of rounds; the median counts
    #[arg(long, default_value_t = 5, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seed of the traffic
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
    #[command(subcommand)]
    part: Part,
}

/// The kind of packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Packets {
    /// 65,536 flows by Zipf's law.
    Zipf,
    /// Every packet a TCP SYN of a new flow.
    Flood,
}

#[derive(Subcommand)]
enum Part {
    /// Mapping of new addresses, by each mode of anonymisation
    Addresses {
        /// Number of random IPv4 addresses
        #[arg(long, default_value_t = 1 << 20)]
        count: usize,
    },
    /// A filter set against libpcap's bpf_filter(), called for each expression and packet.
    Sets {
        /// Number of expressions; may be repeated
        #[arg(long, default_values_t = [1, 80, 1000, 10_000])]
        expressions: Vec<usize>,
        /// Kind of packets; may be repeated
        #[arg(long, value_enum, default_values_t = [Packets::Zipf, Packets::Flood])]
        traffic: Vec<Packets>,
        /// Number of packets, a multiple of 1,024
        #[arg(long, default_value_t = 1 << 20)]
        packets: usize,
    },
    /// The flow table against the standard library's HashMap.
    Tables {
        /// Number of packets
        #[arg(long, default_value_t = 10_000_000)]
        packets: usize,
    },
    /// The whole pass with the cost profile and without.
    Costs {
        /// Number of packets per round
        #[arg(long, default_value_t = 1 << 20)]
        packets: usize,
    },
    /// Recall of top lists of bounded memory under a random flood.
    Lists {
        /// Number of items
        #[arg(long, default_value_t = 12_000_000)]
        items: usize,
    },
    /// Tests of fields against parsing the records, and a long list against a short one.
    Fields {
        /// Number of records of each protocol
        #[arg(long, default_value_t = 200_000)]
        records: usize,
    },
    /// Speed at which one core reads memory in order
    Bandwidth,
}

fn main() -> ExitCode {
    let Arguments { rounds, seed, part } = Arguments::parse();
    let outcome = match part {
        Part::Sets { expressions, traffic, packets } => {
            let mut each =
                traffic.iter().map(|which| sets::measure(*which, packets, &expressions, rounds, seed));
            each.try_fold(0, |sum, wrong| wrong.map(|wrong| sum + wrong)).and_then(|wrong| match wrong {
                0 => Ok(()),
                wrong => Err(format!("{wrong} results differ from libpcap's").into()),
            })
        }
        Part::Costs { packets } => costs::measure(packets, rounds, seed),
        Part::Tables { packets } => tables::measure(packets, rounds, seed),
        Part::Lists { items } => lists::interval(seed).and_then(|()| lists::measure(items, seed)),
        Part::Fields { records } => fields::measure(records, rounds, seed),
        Part::Bandwidth => bandwidth::measure(rounds),
        Part::Addresses { count } => addresses::measure(rounds, seed, count),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;
