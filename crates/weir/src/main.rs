//! The weir program: command line, configuration, threads, clock. The libraries below it analyse packets.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod anon;
mod applies;
mod asked;
mod carve;
mod cli;
mod clients;
mod clock;
mod collector;
mod config;
mod configuration;
mod cost_profile;
mod count;
mod database;
mod decisions;
mod delivered;
mod desk;
mod drive;
mod dump;
mod events;
mod exit;
mod explain;
mod failures;
mod fields;
mod generate;
mod hub;
mod inputs;
mod interfaces;
mod leaps;
mod leaving;
mod live;
mod manual;
mod memory;
mod names;
#[cfg(test)]
mod new_function;
mod offline;
mod online;
mod outputs;
mod place;
mod printer;
mod private;
mod privileges;
mod query;
mod recent;
mod remote;
mod report;
mod requested;
mod resolved;
mod routes;
mod rules;
mod run;
mod senders;
mod serve;
mod signals;
mod store;
mod streams;
mod subscriptions;
mod syslog;
mod talk;
mod times;
mod triggers;
mod turns;
mod typed;
mod web_service;
mod webhook;
mod windows;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use exit::Exit;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// One thread allocates records of protocols and another frees them. With glibc's allocator that takes a quarter of
/// the cost of a capture's logs.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Good }.into();
        }
    };
    weir_files::set_mode(cli.file_mode());
    let runs = matches!(cli.command, None | Some(Command::Open(_) | Command::Serve(_)));
    if !runs {
        signals::end_with_reader();
    }
    let exit = match cli.command {
        None => run::run(cli.run),
        Some(Command::Count(count)) => count::count(&count),
        Some(Command::Anon(options)) => anon::anon(&options),
        Some(Command::Explain(options)) => explain::explain(&options),
        Some(Command::Streams(options)) => streams::streams(&options),
        Some(Command::Talk(options)) => talk::talk(&options),
        Some(Command::Report(options)) => report::report(&options),
        Some(Command::Generate(options)) => generate::generate(&options),
        Some(Command::Query(options)) => query::query(&options),
        Some(Command::Store(command)) => store::store(&command),
        Some(Command::Open(options)) => serve::open(*options),
        Some(Command::Serve(options)) => serve::serve(*options),
        Some(Command::Rules(command)) => rules::rules(&command),
        Some(Command::Config(command)) => configuration(&command),
        Some(Command::Completion { shell }) => {
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut std::io::stdout());
            Exit::Good
        }
        Some(Command::Man { page }) => manual::print(page),
        Some(Command::RingHelper(options)) => privileges::helper::run(&options),
        Some(Command::EventSender(options)) => senders::run(options.uid.zip(options.gid)),
    };
    exit.into()
}

fn configuration(command: &cli::Config) -> Exit {
    let outcome = match command {
        cli::Config::Check { file } => config::check(file),
        cli::Config::Explain { file } => config::explain(file),
        cli::Config::Apply(options) => remote::apply(options),
        cli::Config::FromOurmon { file } => config::from_ourmon(file),
    };
    print!("{}", outcome.stdout);
    eprint!("{}", outcome.stderr);
    if outcome.exit == 0 { Exit::Good } else { Exit::Usage }
}
