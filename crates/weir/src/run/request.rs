//! The request of a run, from command line and configuration.

use super::chosen::Chosen;
use crate::carve::Limits;
use crate::cli::{self, Checksum};
use crate::config::{self, Config, nearest};
use crate::exit::Exit;
use crate::inputs::{inputs, words};
use crate::outputs;
use crate::requested::WriteCalls;
use crate::rules::{KnownFiles, OfRun};
use crate::triggers::TriggerSpec;
use crate::{subscriptions, syslog, times, typed, webhook};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use weir_api::{Subscription, SubscriptionSpec};
use weir_capture::{Input, TimeRange};
use weir_engine::{ChecksumMode, FunctionSpec, OwnApps, Rules, Seeds};
use weir_output::{Home, Log, Rolling, Worms};
use weir_proto::Inflation;

/// The request of a run. The command line overrides the configuration.
#[derive(Clone)]
pub struct Request {
    /// Capture files; empty for a live run.
    pub inputs: Vec<Input>,
    /// Interfaces; empty for files.
    pub interfaces: Vec<String>,
    /// The expression of the whole run, empty for every packet.
    pub expression: String,
    /// The flows that an expression over flows and records, in the place of it, selects.
    pub chosen: Option<Chosen>,
    /// Subscriptions of the configuration.
    pub subscriptions: Vec<SubscriptionSpec>,
    /// The report of hosts that may be worms.
    pub worms: Worms,
    /// The home networks, if they are set.
    pub home: Option<Home>,
    /// The name of the probe in Ourmon's mon.lite; empty without one.
    pub sysname: String,
    /// Triggers of the configuration.
    pub triggers: Vec<TriggerSpec>,
    /// Bytes of memory for the packets that are kept for triggers; `None` for the share of [`crate::memory::prerolls`].
    pub trigger_memory: Option<usize>,
    /// Subscriptions that the command line makes.
    pub typed: Vec<SubscriptionSpec>,
    /// The folder of logs, and the selected logs.
    pub logs: Option<(PathBuf, Vec<String>)>,
    /// The syslog server that events are sent to.
    pub syslog: Option<syslog::Destination>,
    /// The certificates that a syslog server over TLS needs one of; the system's if there is no file.
    pub syslog_roots: Option<PathBuf>,
    /// The webhook that events are posted to.
    pub webhook: Option<webhook::Address>,
    /// The file with the key of its signatures.
    pub webhook_secret: Option<PathBuf>,
    /// The certificates that a webhook over HTTPS needs one of; the system's if there is no file.
    pub webhook_roots: Option<PathBuf>,
    /// Nanoseconds after which logs are rotated.
    pub rotate: Option<u64>,
    /// Further rotation of logs.
    pub rolling: Rolling,
    /// The packet files without an expression of their own.
    pub packets: WriteCalls,
    /// The folder of extracted files, and their limits.
    pub extracted: Option<(PathBuf, Limits)>,
    /// Whether pages are served, which need further subscriptions.
    pub pages: bool,
    /// The server of the pages in the configuration.
    pub server: config::Server,
    /// The store in the configuration.
    pub store: config::StoreSettings,
    /// The configuration's file.
    pub config: Option<PathBuf>,
    /// Anonymisation in the configuration.
    pub anon: config::Anon,
    /// The applications that the configuration describes.
    pub own_apps: Arc<OwnApps>,
    /// The rules that look at flows, if any are given, and sentences about what of them has no effect.
    pub rules: Option<Rules>,
    pub rule_notes: Vec<String>,
    /// What was read for the rules of a live run, until it is taken.
    pub known_rules: Arc<Mutex<KnownFiles>>,
    /// The files that they are read from, and how.
    pub rule_options: cli::RuleOptions,
    /// The length of an interval in nanoseconds.
    pub interval: u64,
    /// Limit in bytes of all memory that grows with traffic.
    pub memory: usize,
    /// Limits of decompression.
    pub inflation: Inflation,
    /// Number of worker threads.
    pub workers: usize,
    /// Stop after this many matching packets.
    pub limit: Option<u64>,
    /// The time range of the captures' packets.
    pub times: Option<TimeRange>,
    /// Verification of checksums.
    pub checksum: ChecksumMode,
    /// Whether flows in different VLANs are different flows.
    pub vlan: bool,
    /// Whether urgent bytes are left out of streams.
    pub urgent_apart: bool,
    /// Whether reports about hosts are written beside the logs.
    pub reports: bool,
    /// Keys of hashes, equal for the whole run, so that results of consecutive plans can be merged.
    pub seeds: Seeds,
}

/// Bytes of the file of an expression: 100,000 terms, in two megabytes, took ten seconds and half a gigabyte.
const MAX_EXPRESSION: u64 = 256 << 10;

/// The seed of runs over files, so that results are reproducible byte by byte. An attacker can craft a file for this
/// seed, with flows and keys that displace each other and hide some. The pass does not become slower, because a lookup
/// examines a fixed number of places.
const SEED_OF_FILES: u64 = 0x7765_6972;

/// The command that a mistyped `word` probably means.
fn command_meant(word: &str) -> Option<String> {
    let command = <cli::Cli as clap::CommandFactory>::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, names).map(str::to_owned)
}

impl Request {
    /// The servers that events are sent to, by their names among the outputs.
    pub fn servers(&self) -> Vec<&'static str> {
        let syslog = self.syslog.as_ref().map(|_| syslog::NAME);
        syslog.into_iter().chain(self.webhook.as_ref().map(|_| webhook::NAME)).collect()
    }

    /// Combines the command line and the configuration. The error is a message for the user.
    pub fn new(options: &cli::RunOptions) -> Result<Request, (Exit, String)> {
        let usage = |error| (Exit::Usage, error);
        if let Some(text) = options.of_tcpdump.refused() {
            return Err(usage(text.to_owned()));
        }
        let (limit, config_path) = count_or_config(options).map_err(usage)?;
        let config = match &config_path {
            Some(path) => load(path).map_err(usage)?,
            None => Config::default(),
        };
        let own_apps = OwnApps::new(config.apps.clone()).map_err(usage)?;
        let OfRun { rules, options: rule_options, beyond, notes: rule_notes, known } =
            crate::rules::of_run(&config.rules.or_given(&options.rules))?;
        let logs = logs(options, &config);
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
        // Opened while the process may still open them.
        let inputs = Input::keep(inputs(options.read.iter().chain(&files)));
        if let (true, true, [first, ..]) =
            (inputs.is_empty(), options.interface.is_empty(), options.words.as_slice())
        {
            let hint =
                command_meant(first).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            // What a folder without rights holds is unknown.
            let text = match Path::new(first).symlink_metadata() {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    format!("{first}: {error}")
                }
                _ => format!("{first}: no such file, and no interface (-i) to capture on{hint}"),
            };
            return Err((Exit::Unreadable, text));
        }
        let mut interfaces = options.interface.clone();
        if !inputs.is_empty() && !interfaces.is_empty() {
            return Err(usage("files and interfaces cannot be read in one run".to_owned()));
        }
        if inputs.is_empty() && interfaces.is_empty() {
            interfaces.clone_from(&config.interfaces.value);
        }
        if inputs.is_empty() && options.times.is_given() {
            let text = "--since and --until select packets of captures and data of stores: a live run begins now; -c N ends it \
                        after N packets, and `timeout 60 weir -i ...` after a minute";
            return Err(usage(text.to_owned()));
        }
        let zone = times::zone(options.tz.as_deref()).map_err(usage)?;
        let times = times::of_captures(&options.times, &zone, &inputs)?;
        let interval = options.interval.unwrap_or(config.interval.value.as_nanos() as u64);
        let memory = options.memory.unwrap_or(config.memory.value as usize);
        let seeds = if inputs.is_empty() { super::seeds() } else { SEED_OF_FILES.into() };
        let asked = if options.workers == 0 { config.workers.value.unwrap_or(0) } else { options.workers };
        let workers = worker_count(asked, &inputs);
        // Files are read once.
        let known_rules = if inputs.is_empty() { known } else { KnownFiles::default() };
        Ok(Request {
            inputs,
            interfaces,
            expression,
            chosen: None,
            subscriptions: config.plan(),
            worms: config.worms(),
            home: config.home.line.map(|_| config.home.value.clone()),
            sysname: config.mon.sysname.value.clone(),
            triggers: config.triggers.clone(),
            trigger_memory: config.trigger_memory.value.map(|bytes| bytes as usize),
            typed: typed::subscriptions(options, rules.is_some()).map_err(usage)?,
            logs,
            syslog: options.logs.syslog.clone().or_else(|| config.output.syslog.value.clone()),
            syslog_roots: config.output.syslog_ca.value.clone(),
            webhook: config.output.webhook.value.clone(),
            webhook_secret: config.output.webhook_secret_file.value.clone(),
            webhook_roots: config.output.webhook_ca.value.clone(),
            rotate: options.logs.log_rotate.or(config.output.rotate.value),
            rolling: Rolling {
                bytes: options.logs.log_rotate_size.or(config.output.rotate_size.value),
                zstd: options.logs.log_zstd || config.output.zstd.value,
            },
            packets: WriteCalls::new(&options.packets, &config),
            extracted: extracted(options, &config),
            pages: false,
            server: config.server,
            store: config.store,
            config: config_path,
            anon: config.anon,
            own_apps: Arc::new(own_apps),
            rules,
            rule_notes,
            known_rules: Arc::new(Mutex::new(known_rules)),
            rule_options,
            interval,
            memory,
            inflation: Inflation {
                free: options.inflate.unwrap_or(config.inflate.value),
                ratio: options.inflate_ratio.unwrap_or(config.inflate_ratio.value),
                total: options.inflate_total.unwrap_or(config.inflate_total.value),
                total_ratio: options.inflate_total_ratio.unwrap_or(config.inflate_total_ratio.value),
            },
            workers,
            limit,
            times,
            checksum: match (options.ignore_checksums, options.checksum) {
                (true, _) => ChecksumMode::Off,
                (false, Checksum::Auto) => beyond.checksum.unwrap_or(ChecksumMode::Auto),
                (false, mode) => mode.into(),
            },
            vlan: options.vlan || beyond.vlan.unwrap_or(false),
            urgent_apart: beyond.urgent_apart.unwrap_or(false),
            reports: config.output.reports.value,
            seeds,
        })
    }

    /// This request with what a configuration may change during a live run.
    pub fn revised(&self, options: &cli::RunOptions, config: &Config) -> Request {
        let is_typed = options.expression_file.is_some()
            || !options.words.is_empty()
            || !options.after_dashes.is_empty();
        let expression = if is_typed { &self.expression } else { &config.expression.value };
        Request {
            expression: expression.clone(),
            subscriptions: config.plan(),
            triggers: config.triggers.clone(),
            logs: logs(options, config),
            rotate: options.logs.log_rotate.or(config.output.rotate.value),
            packets: WriteCalls::new(&options.packets, config),
            extracted: extracted(options, config),
            ..self.clone()
        }
    }

    /// Checks that measurements have a place: logs, or the store of the pages.
    ///
    /// # Errors
    ///
    /// Neither is there.
    pub fn check_measurements(&self, options: &cli::RunOptions) -> Result<(), (Exit, String)> {
        if !(options.logs.measure || options.logs.sample.is_some()) || self.logs.is_some() || self.pages {
            return Ok(());
        }
        let text = "--measure and --sample are for logs and pages: give a directory of logs with --output DIR, or as `dir` in [output] of weir.toml, or see the pages of `weir open`";
        Err((Exit::Usage, text.to_owned()))
    }

    /// The expression of the run as a reader sees it.
    pub fn shown_expression(&self) -> String {
        self.chosen.as_ref().map_or_else(|| self.expression.clone(), Chosen::text)
    }

    /// Whether standard output carries lines of a log.
    pub fn streams_log(&self) -> bool {
        self.logs.as_ref().is_some_and(|(folder, _)| is_standard_output(folder))
    }

    /// Whether standard output carries packets or lines of a log, so that nothing else may be printed there.
    pub fn has_standard_output(&self) -> bool {
        self.packets.has_standard_output() || self.streams_log()
    }

    /// Checks that a log on standard output is one that can be there, and has it for itself.
    ///
    /// # Errors
    ///
    /// It shares standard output, has more than one file, or is to be rotated.
    pub fn check_standard_output(&self, options: &cli::RunOptions, logs: &[Log]) -> Result<(), String> {
        if !self.streams_log() {
            return Ok(());
        }
        let able = || {
            let names: Vec<&str> =
                outputs::all().iter().filter(|one| one.is_stream).map(|one| one.name).collect();
            names.join(" or ")
        };
        let refused = match logs {
            _ if self.pages => "pages print their address there: give a directory".to_owned(),
            [log] if !log.spec().is_stream => {
                format!("the log {} does not consist of lines of JSON: use {}", log.text(), able())
            }
            [_] if self.packets.has_standard_output() => "-w - writes packets there".to_owned(),
            [_] if options.json => "--json prints the summary there".to_owned(),
            [_] if self.rotate.is_some() || self.rolling.bytes.is_some() || self.rolling.zstd => {
                "it cannot be rotated or compressed".to_owned()
            }
            // Nothing but what subscriptions name.
            [_] | [] => return Ok(()),
            several => {
                let names: Vec<&str> = several.iter().map(Log::text).collect();
                format!(
                    "it has room for one log, {}: these are {} ({})",
                    able(),
                    several.len(),
                    names.join(", ")
                )
            }
        };
        Err(format!("-o - is standard output, and {refused}"))
    }

    /// Whether the run writes a store, for the pages or as a log. Both have equal contents.
    pub fn writes_store(&self) -> bool {
        self.pages || self.logs.iter().flat_map(|(_, kinds)| kinds).any(|kind| kind == "store")
    }

    /// Sets the interval to one second if the run writes a store of short captures and no interval was given. Returns
    /// whether it did.
    pub fn shorten(&mut self, options: &cli::RunOptions) -> bool {
        let has_default = options.interval.is_none() && self.config.is_none() && !self.inputs.is_empty();
        let is_short = has_default && self.writes_store() && super::short::are_short(&self.inputs);
        if is_short {
            self.interval = super::short::INTERVAL;
        }
        is_short
    }

    /// The built-in subscriptions of the run: those of the summary, the logs, the screen and the pages.
    pub fn built_in(&self) -> Vec<Subscription> {
        let mut built_in = subscriptions::summary(self.memory);
        let wants_mon = self.logs.iter().flat_map(|(_, kinds)| kinds).any(|kind| kind.starts_with("mon"));
        if wants_mon && !self.config_measures() {
            built_in.extend(subscriptions::ourmon(self.memory));
        } else if self.inputs.is_empty() || self.writes_store() {
            built_in.extend(subscriptions::screen());
        }
        if self.writes_store() {
            built_in.extend(subscriptions::pages());
        }
        built_in
    }

    /// Whether a subscription of the configuration counts something. Those that write or log what they select do not.
    fn config_measures(&self) -> bool {
        let measures = |spec: &SubscriptionSpec| {
            let mut functions =
                spec.functions.iter().filter_map(|call| FunctionSpec::find_at(&call.name, spec.level).ok());
            functions.any(|function| function.delivers.is_none())
        };
        self.subscriptions.iter().any(measures)
    }
}

/// `-c` is a packet limit as in tcpdump if it is a number, and else the path of a configuration.
fn count_or_config(options: &cli::RunOptions) -> Result<(Option<u64>, Option<PathBuf>), String> {
    let Some(text) = &options.count_or_config else { return Ok((None, options.config.clone())) };
    match text.parse::<u64>() {
        Ok(0) => Err("-c 0: expected at least one packet".to_owned()),
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

/// The expression in a file: its lines, except those that begin with `#`.
fn read_expression(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_or(0, |data| data.len());
    if size > MAX_EXPRESSION {
        return Err(format!(
            "{}: {size} bytes; an expression may have {} KiB: put many values into a list and test them with `in @FILE`",
            path.display(),
            MAX_EXPRESSION >> 10
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    Ok(lines.join(" ").trim().to_owned())
}

/// Bytes of captures below which one worker reads them, unless a number is asked for: what a second one would save in time, it
/// takes for tables and lists of its own.
const ALONE: u64 = 64 << 20;

/// The number of workers for inputs; 0 stands for one for small captures, and else for the number of cores.
pub fn worker_count(asked: usize, inputs: &[Input]) -> usize {
    match asked {
        0 if Input::bytes(inputs).is_some_and(|bytes| bytes < ALONE) => 1,
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
    .min(256)
}

/// The extracted files; --files overrides those of the configuration and their limits.
fn extracted(options: &cli::RunOptions, config: &Config) -> Option<(PathBuf, Limits)> {
    let given = || options.extraction.limits();
    let configured = || Some((config.files.dir.value.clone()?, config.files.limits()));
    let files = options.extraction.whole().next();
    files.map(|folder| (folder.to_owned(), given())).or_else(configured)
}

/// Whether the folder of logs stands for standard output.
fn is_standard_output(folder: &Path) -> bool {
    folder.as_os_str() == "-"
}

fn logs(options: &cli::RunOptions, config: &Config) -> Option<(PathBuf, Vec<String>)> {
    let dir = options.logs.output.clone().or_else(|| config.output.dir.value.clone())?;
    let given = || options.logs.kinds().map(str::to_owned).collect();
    let mut kinds: Vec<String> =
        if options.logs.log.is_empty() { config.output.log.value.clone() } else { given() };
    let mut seen = BTreeSet::new();
    kinds.retain(|kind| seen.insert(kind.clone()));
    let is_chosen = !options.logs.log.is_empty() || config.output.log.line.is_some();
    if !is_chosen && is_standard_output(&dir) {
        return Some((dir, vec!["eve".to_owned()]));
    }
    if !is_chosen {
        kinds = vec!["zeek".to_owned(), "eve".to_owned()];
    }
    // The default logs have no place for measurements.
    if !is_chosen && (options.logs.measure || options.logs.sample.is_some()) {
        kinds.push("csv".to_owned());
    }
    Some((dir, kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_captures_have_one_worker_unless_more_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            Input::Path(path)
        };
        let cores = worker_count(0, &[]);
        assert!(cores >= 1);
        let (small, half) = (file("small.pcap", ALONE - 1), file("half.pcap", ALONE / 2));
        let large = file("large.pcap", ALONE);
        assert_eq!(worker_count(0, std::slice::from_ref(&small)), 1);
        assert_eq!(worker_count(0, &[large]), cores);
        assert_eq!(worker_count(0, &[half.clone(), half]), cores);
        assert_eq!(worker_count(3, &[small]), 3);
        // The size of what comes through a pipe, or is not there, is not known.
        assert_eq!(worker_count(0, &[Input::Stdin]), cores);
        assert_eq!(worker_count(0, &[Input::Path(folder.path().join("none.pcap"))]), cores);
    }
}
