//! The request of a run: command line and configuration together.

use crate::cli::{self, Checksum};
use crate::config::{self, Config, nearest};
use crate::exit::Exit;
use crate::subscriptions;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weir_api::SubscriptionSpec;
use weir_capture::Input;
use weir_engine::ChecksumMode;
use weir_output::Rolling;
use weir_proto::Inflation;

/// A run, as it was asked for: the command line wins over the configuration.
pub struct Request {
    /// Capture files; empty for a live run.
    pub inputs: Vec<Input>,
    /// Interfaces; empty for files.
    pub interfaces: Vec<String>,
    /// The expression of the whole run, empty for every packet.
    pub expression: String,
    /// Subscriptions besides those of the summary.
    pub subscriptions: Vec<SubscriptionSpec>,
    /// The folder of logs, and the kinds.
    pub logs: Option<(PathBuf, Vec<String>)>,
    /// Nanoseconds after which new files of the logs begin.
    pub rotate: Option<u64>,
    /// Further rotation of logs.
    pub rolling: Rolling,
    /// Whether pages are served: what they draw is asked too.
    pub pages: bool,
    /// The server of the pages in the configuration.
    pub server: config::Server,
    /// The store in the configuration.
    pub store: config::Store,
    /// The configuration's file.
    pub config: Option<PathBuf>,
    /// Anonymisation in the configuration.
    pub anon: config::Anon,
    /// The length of a report in nanoseconds.
    pub interval: u64,
    /// All memory that grows with traffic, in bytes.
    pub memory: usize,
    /// How much compressed content may grow.
    pub inflation: Inflation,
    /// Worker threads.
    pub workers: usize,
    /// Stop after this many matching packets.
    pub limit: Option<u64>,
    /// Verification of checksums.
    pub checksum: ChecksumMode,
    /// Seed of hashes: one for the run, so that results of one plan merge with those of the next.
    pub seed: u64,
}

/// The seed of runs over files, so that they repeat byte by byte. A file can be crafted for it: its author can
/// choose flows and keys that displace each other, and so hide some; he cannot make the pass slower with that,
/// because a lookup has a fixed number of places.
const SEED_OF_FILES: u64 = 0x7765_6972;

/// The command whose name `word` almost is, as a typing error leaves it.
fn command_meant(word: &str) -> Option<String> {
    let command = <cli::Cli as clap::CommandFactory>::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, names).map(str::to_owned)
}

impl Request {
    /// Puts the command line and the configuration together; the error is for the user.
    pub fn new(options: &cli::Run) -> Result<Request, (Exit, String)> {
        let usage = |error| (Exit::Usage, error);
        let (limit, config_path) = count_or_config(options).map_err(usage)?;
        let config = match &config_path {
            Some(path) => load(path).map_err(usage)?,
            None => Config::default(),
        };
        let (files, mut expression) = words(&options.words, &options.after_dashes);
        if let Some(path) = &options.expression_file {
            if !expression.is_empty() {
                let text = format!(
                    "the expression is given twice: in `-F {}` and as `{expression}`",
                    path.display()
                );
                return Err(usage(text));
            }
            expression = read_expression(path).map_err(usage)?;
        }
        if expression.is_empty() {
            expression.clone_from(&config.expression.value);
        }
        let inputs = inputs(options.read.iter().chain(&files));
        if let (true, true, [first, ..]) =
            (inputs.is_empty(), options.interface.is_empty(), options.words.as_slice())
        {
            let hint =
                command_meant(first).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            let text = format!("{first}: no such file, and no interface (-i) to listen to{hint}");
            return Err((Exit::Unreadable, text));
        }
        let mut interfaces = options.interface.clone();
        if !inputs.is_empty() && !interfaces.is_empty() {
            return Err(usage("files and interfaces cannot be read in one run".to_owned()));
        }
        if inputs.is_empty() && interfaces.is_empty() {
            interfaces.clone_from(&config.interfaces.value);
        }
        let interval = options.interval.unwrap_or(config.interval.value.as_nanos() as u64);
        let memory = options.memory.unwrap_or(config.memory.value as usize);
        let seed = if inputs.is_empty() { super::seed() } else { SEED_OF_FILES };
        let workers = if options.workers == 0 { config.workers.value.unwrap_or(0) } else { options.workers };
        Ok(Request {
            inputs,
            interfaces,
            expression,
            subscriptions: config.plan(),
            logs: logs(options, &config),
            rotate: options.log_rotate.or(config.output.rotate.value),
            rolling: Rolling {
                bytes: options.log_rotate_size.or(config.output.rotate_size.value),
                zstd: options.log_zstd || config.output.zstd.value,
            },
            pages: false,
            server: config.server,
            store: config.store,
            config: config_path,
            anon: config.anon,
            interval,
            memory,
            inflation: Inflation {
                free: options.inflate.unwrap_or(config.inflate.value),
                ratio: options.inflate_ratio.unwrap_or(config.inflate_ratio.value),
            },
            workers: worker_count(workers),
            limit,
            checksum: match options.checksum {
                Checksum::Auto => ChecksumMode::Auto,
                Checksum::On => ChecksumMode::On,
                Checksum::Off => ChecksumMode::Off,
            },
            seed,
        })
    }

    /// Everything that a run with these subscriptions subscribes to: what the summary is made of, then them.
    pub fn plan(&self, subscriptions: &[SubscriptionSpec]) -> Vec<SubscriptionSpec> {
        let mut specs = subscriptions::summary(self.memory);
        let wants_mon = self.logs.iter().flat_map(|(_, kinds)| kinds).any(|kind| kind.starts_with("mon"));
        if wants_mon && subscriptions.is_empty() {
            specs.extend(subscriptions::ourmon(self.memory));
        } else if self.inputs.is_empty() || self.pages {
            specs.extend(subscriptions::screen());
        }
        if self.pages {
            specs.extend(subscriptions::pages());
        }
        specs.extend(subscriptions.iter().cloned());
        specs
    }
}

/// `-c` is tcpdump's where it is a number, else it names a configuration.
fn count_or_config(options: &cli::Run) -> Result<(Option<u64>, Option<PathBuf>), String> {
    let Some(text) = &options.count_or_config else { return Ok((None, options.config.clone())) };
    match text.parse::<u64>() {
        Ok(0) => Err("-c 0: at least one packet is wanted".to_owned()),
        Ok(count) => Ok((Some(count), options.config.clone())),
        Err(_) if options.config.is_some() => Err(format!("two configurations: `-c {text}` and --config")),
        Err(_) if Path::new(text).exists() => Ok((None, Some(PathBuf::from(text)))),
        Err(_) => Err(format!("-c {text}: neither a number of packets nor a configuration file that exists")),
    }
}

fn load(path: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    config::load(path, &text).map_err(|errors| errors.to_string())
}

/// Leading words that exist as files are inputs; the rest is the expression, with what stands after `--`.
pub fn words(words: &[String], after_dashes: &[String]) -> (Vec<PathBuf>, String) {
    let is_file = |word: &&String| word.as_str() == "-" || Path::new(word).exists();
    let files: Vec<PathBuf> = words.iter().take_while(is_file).map(PathBuf::from).collect();
    let rest = words.iter().skip(files.len()).chain(after_dashes);
    (files, rest.map(String::as_str).collect::<Vec<_>>().join(" "))
}

/// The expression of a file: its lines, without those that begin with `#`.
fn read_expression(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    Ok(lines.join(" ").trim().to_owned())
}

/// Paths as inputs, `-` for standard input.
pub fn inputs<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<Input> {
    let input =
        |path: &PathBuf| if path.as_os_str() == "-" { Input::Stdin } else { Input::Path(path.clone()) };
    paths.into_iter().map(input).collect()
}

/// 0 stands for as many as there are cores.
pub fn worker_count(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
    .min(256)
}

fn logs(options: &cli::Run, config: &Config) -> Option<(PathBuf, Vec<String>)> {
    let dir = options.output.clone().or_else(|| config.output.dir.value.clone())?;
    let mut kinds =
        if options.log.is_empty() { config.output.log.value.clone() } else { options.log.clone() };
    let mut seen = BTreeSet::new();
    kinds.retain(|kind| seen.insert(kind.clone()));
    if kinds.is_empty() {
        kinds = vec!["zeek".to_owned(), "eve".to_owned()];
        // Neither of them has a place for measurements.
        if options.measure || options.sample.is_some() {
            kinds.push("csv".to_owned());
        }
    }
    Some((dir, kinds))
}
