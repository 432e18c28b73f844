//! Runs the targets on mutated seeds: a short run is part of `make test`.
//!
//! Each target runs in a process of its own, which writes its current input to a file. An input that ends the process
//! in any way (a panic, a stack overflow, an input that takes too much time or memory) is found there afterwards and
//! saved.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod child;
mod mutate;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, io, thread};

use clap::Parser;
use weir_fuzz::{TARGETS, Target};

/// Runs the fuzz targets on mutated seeds.
#[derive(Parser)]
#[command(name = "smoke")]
struct Arguments {
    /// Time for all targets together in seconds, without building and reading seeds
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Stop a target after this number of inputs
    #[arg(long, default_value_t = u64::MAX)]
    executions: u64,
    /// Only these targets, by name.
    #[arg(long, value_delimiter = ',')]
    target: Vec<String>,
    /// Seed of the mutations; runs with equal seeds try equal inputs in equal order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Maximum time of an input in seconds
    #[arg(long, default_value_t = 60)]
    slow: u64,
    /// Maximum growth of the process in MiB
    #[arg(long, default_value_t = 512)]
    memory: u64,
    /// List the targets.
    #[arg(long)]
    list: bool,
    /// Write the seeds of the targets into a folder for each: corpora for cargo-fuzz.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Run the chosen target on these inputs only
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "target")]
    input: Vec<PathBuf>,
    /// Run the chosen target in this process, with the current input in this file
    #[arg(long, hide = true, value_name = "FILE")]
    child: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Option<Vec<&Target>> = if arguments.target.is_empty() {
        Some(TARGETS.iter().collect())
    } else {
        arguments.target.iter().map(|name| Target::find(name)).collect()
    };
    let Some(chosen) = chosen else {
        eprintln!("smoke: no such target; --list shows them");
        return ExitCode::from(2);
    };
    let done = match (&arguments.child, &arguments.export) {
        (Some(current), _) => chosen.iter().try_for_each(|target| child::feed(target, current, &arguments)),
        (_, Some(folder)) => chosen.iter().try_for_each(|target| export(target, folder)),
        _ if arguments.list => {
            chosen.iter().for_each(|target| println!("{:10} {}", target.name, target.about));
            Ok(())
        }
        _ if !arguments.input.is_empty() => replay(&chosen, &arguments.input),
        _ => return all(&chosen, &arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("smoke: {error}");
            ExitCode::from(2)
        }
    }
}

fn export(target: &Target, folder: &Path) -> io::Result<()> {
    let folder = folder.join(target.name);
    fs::create_dir_all(&folder)?;
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{number}")), seed)?;
    }
    Ok(())
}

fn replay(targets: &[&Target], inputs: &[PathBuf]) -> io::Result<()> {
    for (target, path) in targets.iter().flat_map(|target| inputs.iter().map(move |path| (target, path))) {
        let input = fs::read(path)?;
        println!("{} {}", target.name, path.display());
        (target.run)(&input);
    }
    Ok(())
}

/// Runs every target in a process of its own, as many at a time as there are cores.
fn all(targets: &[&Target], arguments: &Arguments) -> ExitCode {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let seconds = arguments.seconds * cores as f64 / targets.len() as f64;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = apart(target, seconds, arguments) {
                        eprintln!("{:10} FAILED {error}", target.name);
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    ExitCode::from(u8::from(failed.load(Ordering::Relaxed)))
}

/// Runs one target in a process of its own; the error names the failure and the file with the input.
fn apart(target: &Target, seconds: f64, arguments: &Arguments) -> Result<(), String> {
    let current = std::env::temp_dir().join(format!("weir-smoke-{}-{}", std::process::id(), target.name));
    let outcome = spawn(target, seconds, arguments, &current);
    let saved = match &outcome {
        Ok(output) if output.status.success() => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            Ok(())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let place = save(target, &current).map_err(|error| error.to_string());
            Err(format!("({}) on {}\n{}", output.status, place.unwrap_or_else(|e| e), said.trim_end()))
        }
        Err(error) => Err(error.to_string()),
    };
    let _ = fs::remove_file(current);
    saved
}

fn spawn(target: &Target, seconds: f64, arguments: &Arguments, current: &Path) -> io::Result<Output> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--target", target.name, "--child"]).arg(current);
    let numbers = [
        ("--seconds", seconds.to_string()),
        ("--executions", arguments.executions.to_string()),
        ("--seed", arguments.seed.to_string()),
        ("--slow", arguments.slow.to_string()),
        ("--memory", arguments.memory.to_string()),
    ];
    numbers.iter().fold(&mut command, |command, (name, value)| command.args([*name, value])).output()
}

/// Saves the input in `fuzz/artifacts`, named by its content.
fn save(target: &Target, current: &Path) -> io::Result<String> {
    let input = child::read_current(current)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts");
    fs::create_dir_all(&folder)?;
    let name = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = folder.join(format!("{}-{name:016x}", target.name));
    fs::write(&path, &input)?;
    Ok(format!("fuzz/artifacts/{}-{name:016x} ({} bytes)", target.name, input.len()))
}
