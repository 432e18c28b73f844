//! A run from request to summary.

pub mod by_record;
mod chosen;
mod files;
mod follow;
mod lines;
mod live;
mod packet_files;
pub mod plan;
mod progress;
mod reload;
mod request;
mod rings;
mod screen;
mod second_pass;
mod servers;
mod short;
mod summary;
mod target_files;
mod targets;
mod verbose;
mod written;

pub use request::{Request, worker_count};

use crate::asked::Questions;
use crate::cli;
use crate::clock;
use crate::collector::{Collector, OpenOutput, RowSources};
use crate::configuration::Configuration;
use crate::database;
use crate::delivered::{Delivered, DestinationKind, Destinations};
use crate::desk::Desk;
use crate::events::{Mutes, NewSignatures};
use crate::exit::{Exit, complain};
use crate::failures::Failures;
use crate::fields;
use crate::inputs::{filter_options, may_wait, netmask};
use crate::interfaces;
use crate::memory::{self, Division, Work, list_rows};
use crate::online::LiveClock;
use crate::outputs;
use crate::privileges::{Account, Paths, explained};
use crate::report::written::Folders;
use crate::rules;
use crate::signals::{Signals, end_with_reader};
use crate::subscriptions;
use crate::times;
use crate::triggers::{TriggerSpec, least};
use crate::turns::Turns;
use crate::web_service::{Changes, WebService};
use servers::Servers;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_anon::Anonymiser;
use weir_api::{AnswerId, Snapshot, Subscription, SubscriptionSpec};
use weir_engine::{
    Announcements, FlowConfig, PacketOrder, Place, Plan, RuleState, Seeds, SessionConfig, Settings, Target,
    Worker,
};
use weir_filter::Options;
use weir_output::figures::printable;
use weir_output::zone::Zone;
use weir_output::{Existing, Home, Log, OutputContext, Worms};
use weir_store::Keep;
use weir_wire::Time;

/// Runs the command.
pub fn run(options: cli::RunOptions) -> Exit {
    if options.list_interfaces {
        end_with_reader();
        return interfaces::list();
    }
    let mut request = match Request::new(&options) {
        Ok(request) => request,
        Err((exit, error)) => return complain(exit, error),
    };
    if request.inputs.is_empty() && request.interfaces.is_empty() {
        end_with_reader();
        return interfaces::welcome();
    }
    let checked = request.check_measurements(&options);
    if let Err((exit, error)) = checked.and_then(|()| by_record::resolve(&options, &mut request)) {
        return complain(exit, error);
    }
    request.shorten(&options);
    let run = match Run::new(options, request, None) {
        Ok(run) => run,
        Err((exit, error)) => return complain(exit, error),
    };
    run.execute()
}

/// The settings of all plans of a run.
fn settings(options: &cli::RunOptions, request: &Request) -> Settings {
    let live = request.inputs.is_empty();
    Settings {
        filter: Options {
            live,
            netmask: Some(netmask(&request.interfaces)),
            fields: Some(fields::of_run()),
            ..filter_options(options.strict_bpf, options.inner, options.snaplen)
        },
        checksum: request.checksum,
        seeds: request.seeds,
        chosen: request.chosen.as_ref().map(|chosen| Arc::clone(&chosen.flows)),
        own_apps: Arc::clone(&request.own_apps),
        rules: request.rules.clone(),
    }
}

/// One execution over files or links, from its start to its summary.
pub struct Run {
    options: Arc<cli::RunOptions>,
    request: Arc<Request>,
    /// The subscriptions and the plan in effect.
    desk: Arc<Desk>,
    /// Shares of the memory, and the parts of the run that need it.
    division: Division,
    work: Work,
    zone: Zone,
    /// The logs to write.
    logs: Vec<Log>,
    /// Whether a store is written that further runs may continue.
    has_store_of_runs: bool,
    /// The anonymiser of all output, if requested.
    anonymiser: Option<Anonymiser>,
    /// Flags that signals set.
    signals: Signals,
    /// The configuration, which may be applied again.
    configuration: Option<Arc<Configuration>>,
    /// The pages of the run.
    beside: Option<WebService>,
    /// The user to change to after the rings are open.
    user: Option<Account>,
    /// The servers that events are sent to.
    servers: Servers,
    /// Failures of the files of packets and of extracted files.
    failures: Failures,
    /// What is counted of each log and packet file.
    destinations: Destinations,
    /// The order of the workers' packets in a run over files.
    turns: Arc<Turns>,
}

impl Run {
    /// Compiles the plan and registers the signal handlers.
    ///
    /// # Errors
    /// A part of the request is invalid or cannot be fulfilled.
    pub fn new(
        options: cli::RunOptions,
        mut request: Request,
        beside: Option<WebService>,
    ) -> Result<Run, (Exit, String)> {
        let cli::LogOptions { log_rotate, log_rotate_size, log_zstd, .. } = &options.logs;
        let rolls = log_rotate.is_some() || log_rotate_size.is_some() || *log_zstd;
        if rolls && request.logs.is_none() {
            let text = "--log-rotate, --log-rotate-size and --log-zstd are for logs: give their directory with -o DIR";
            return Err((Exit::Usage, text.to_owned()));
        }
        let zone = times::zone(options.tz.as_deref()).map_err(|error| (Exit::Usage, error))?;
        let logs = Self::logs(&request, beside.is_some())?;
        let all = Self::all_logs(&options, &logs);
        request.check_standard_output(&options, &all).map_err(|error| (Exit::Usage, error))?;
        let logged = request.logs.as_ref().filter(|_| logs.iter().any(outputs::is_store));
        let logged = logged.map(|(folder, _)| folder);
        if request.reports && (request.logs.is_none() || request.streams_log()) {
            let text = "`reports` of [output] needs a directory for them: give it with -o DIR";
            return Err((Exit::Usage, text.to_owned()));
        }
        if request.reports && logged.is_none() && beside.as_ref().is_none_or(|beside| beside.temporary) {
            let text = "`reports` of [output] reads a store: write one with --log store, or see the pages of `weir serve`";
            return Err((Exit::Usage, text.to_owned()));
        }
        if !request.store.findings.value.is_empty() && logged.is_none() && beside.is_none() {
            let text = "`findings` of [store] are asked of a store: write one with --log store, or see the pages of `weir serve`";
            return Err((Exit::Usage, text.to_owned()));
        }
        // A store that is removed at the end is of one run. Of a run over files all results are reproducible then.
        let is_live = request.inputs.is_empty();
        let shown = beside.as_ref().filter(|beside| is_live || !beside.temporary).map(|beside| &beside.store);
        let store_of_runs = shown.or(logged);
        let has_store_of_runs = store_of_runs.is_some();
        if let Some(folder) = store_of_runs {
            // Equal values count once over all runs of a store, and the senders of packets do not know its key, whichever run
            // began it.
            let kept = database::distinct_seed(folder);
            request.seeds.distinct = kept.unwrap_or_else(|| seeds().distinct);
        }
        let mut desk = Self::desk(&options, &request, &logs)?;
        let anonymiser =
            crate::anon::of_run(&options.anon, &request.anon).map_err(|error| (Exit::Usage, error))?;
        // The configuration may request it too, which the parser of the command line does not see.
        if anonymiser.is_some() && request.extracted.is_some() {
            let text = "--files writes the original content and cannot be combined with anonymisation";
            return Err((Exit::Usage, text.to_owned()));
        }
        check_triggers(&request, anonymiser.is_some()).map_err(|error| (Exit::Usage, error))?;
        targets::check(&desk.plan(), &request, anonymiser.is_some()).map_err(|error| (Exit::Usage, error))?;
        // A run over files keeps its user, unless `--user` is given.
        let becomes = request.inputs.is_empty() || options.user.is_some();
        let user = if becomes { Account::of_run(options.user.as_deref()) } else { Ok(None) };
        let user = user.map_err(|error| (Exit::Usage, error))?;
        let servers = Servers::open(&request, user.as_ref(), anonymiser.is_some())
            .map_err(|error| (Exit::Output, error))?;
        let signals = Signals::default();
        let configuration = match &beside {
            Some(beside) => Some(Arc::clone(&beside.configuration)),
            None => Self::configuration(&request).map_err(|error| (Exit::Usage, error))?,
        };
        signals
            .take(
                request.logs.is_some() && !request.streams_log(),
                is_live && (request.config.is_some() || request.rules.is_some()),
            )
            .map_err(|error| (Exit::Usage, error))?;
        let store = beside.is_some() || logs.iter().any(outputs::is_store);
        let plan = desk.plan();
        // A key of the live screen, or a configuration that is applied, starts a packet file too.
        let may_write =
            beside.as_ref().is_none_or(|beside| beside.changes != Changes::Never || request.config.is_some());
        let work = Work {
            is_live,
            // A configuration may add logs later.
            is_read: plan.demand().reads_on() || is_live && configuration.is_some(),
            is_named: plan.demand().reads(),
            has_store: store,
            has_pages: beside.is_some(),
            dumps: target_files::writers(
                &plan,
                [may_write, configuration.is_some()].map(|may| is_live && may),
            ),
            has_triggers: (is_live || may_wait(&request.inputs)) && !request.triggers.is_empty(),
            trigger_memory: request.trigger_memory,
            lists: plan.memory(request.workers),
        };
        let division = Division::new(request.memory, &work).map_err(|error| (Exit::Usage, error))?;
        check_rings(&work, request.workers).map_err(|error| (Exit::Usage, error))?;
        memory::available(request.memory, request.workers).map_err(|error| (Exit::Usage, error))?;
        let destinations = Destinations::default();
        if let Some(beside) = &beside {
            beside.hub.set_tables(division.shares(&work));
            beside.hub.set_answers(division.answers);
            beside.hub.set_destinations(destinations.clone());
        }
        desk.set_limit(division.lists);
        let desk = Arc::new(desk);
        noted(&plan).iter().chain(&request.rule_notes).for_each(|note| eprintln!("weir: {note}"));
        if let Some(beside) = &beside {
            beside.hub.follow(&desk);
        }
        let turns = Arc::new(Turns::new(if request.limit.is_some() { 1 } else { request.workers }));
        let (options, request) = (Arc::new(options), Arc::new(request));
        Ok(Run {
            options,
            request,
            desk,
            division,
            work,
            zone,
            logs,
            has_store_of_runs,
            anonymiser,
            signals,
            configuration,
            beside,
            user,
            servers,
            failures: Failures::default(),
            destinations,
            turns,
        })
    }

    /// The configuration of a live run without pages.
    fn configuration(request: &Request) -> Result<Option<Arc<Configuration>>, String> {
        let path = request.config.as_ref().filter(|_| request.inputs.is_empty());
        path.map(|path| Configuration::read(Some(path), Vec::new()).map(Arc::new)).transpose()
    }

    /// The logs of a run; pages have a store.
    fn logs(request: &Request, pages: bool) -> Result<Vec<Log>, (Exit, String)> {
        let kinds = request.logs.as_ref().map_or(&[][..], |(_, kinds)| kinds);
        let mut logs = Log::find_all(&outputs::all(), kinds.iter().map(String::as_str))
            .map_err(|error| (Exit::Usage, format!("--log: {error}")))?;
        if pages {
            if logs.iter().any(outputs::is_store) {
                let text = "--log store: the pages have a store already; --store DIR sets its directory";
                return Err((Exit::Usage, text.to_owned()));
            }
            logs.push(outputs::store().map_err(|error| (Exit::Usage, error))?);
        }
        Ok(logs)
    }

    /// The logs of all rows, and those of the rows that an expression selects, one of each output.
    fn all_logs(options: &cli::RunOptions, logs: &[Log]) -> Vec<Log> {
        let known = outputs::all();
        let mut all = logs.to_vec();
        for log in options.logs.selected().filter_map(|(log, _)| Log::find(&known, log).ok()) {
            if all.iter().all(|other| other.spec().name != log.spec().name) {
                all.push(log);
            }
        }
        all
    }

    /// The subscriptions of a run, compiled.
    fn desk(options: &cli::RunOptions, request: &Request, logs: &[Log]) -> Result<Desk, (Exit, String)> {
        let (built_in, configured) = Self::subscriptions(options, request, logs);
        let desk = Desk::new(
            settings(options, request),
            &request.expression,
            built_in,
            configured,
            request.workers,
            request.interval,
        );
        let mut desk = desk.map_err(|error| (Exit::Usage, error.to_string()))?;
        request.triggers.iter().filter_map(TriggerSpec::over).for_each(|window| desk.cut_for(window));
        Ok(desk)
    }

    /// The subscriptions of a run and of its configuration. Logs belong to the configuration unless the command line names
    /// them.
    fn subscriptions(
        options: &cli::RunOptions,
        request: &Request,
        logs: &[Log],
    ) -> (Vec<Subscription>, Vec<SubscriptionSpec>) {
        let of_logs = subscriptions::of_logs(logs);
        let has_rows = logs.iter().any(subscriptions::reads);
        let is_configured =
            request.config.is_some() && options.logs.log.is_empty() && options.logs.output.is_none();
        let (configured, given) = if is_configured { (of_logs, Vec::new()) } else { (Vec::new(), of_logs) };
        let files = (&request.packets, request.extracted.as_ref());
        // The packet files and extracted files of the configuration belong to it too.
        let of_files = subscriptions::of_files(options, files);
        let is_read = has_rows || !of_files.is_empty();
        let mut built_in = request.built_in();
        if !options.numeric && request.memory >= subscriptions::FULL_SUMMARY {
            built_in.extend(subscriptions::applications(request.memory));
        }
        if !options.numeric && request.memory >= subscriptions::FLOODS {
            built_in.extend(subscriptions::floods());
        }
        if !options.numeric {
            built_in.extend(subscriptions::of_names(request.memory));
        }
        let ports = list_rows(request.memory, 4096);
        built_in.extend(subscriptions::of_options(
            options,
            files,
            (given, &request.servers()),
            is_read,
            request.rules.is_some(),
            ports,
        ));
        built_in.extend(subscriptions::typed(&request.typed));
        (built_in, request.subscriptions.iter().cloned().chain(configured).chain(of_files).collect())
    }

    /// What was left out of the lists of the plan, each once.
    fn notes(&self) -> Vec<String> {
        noted(&self.plan())
    }

    /// The plan in effect.
    fn plan(&self) -> Arc<Plan> {
        self.desk.plan()
    }

    /// The flag that ends the run.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.signals.stop)
    }

    /// Set once a signal has requested the end. A limit of packets alone does not.
    pub fn interrupted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.signals.interrupted)
    }

    /// Whether the output is anonymised.
    pub fn is_anonymised(&self) -> bool {
        self.anonymiser.is_some()
    }

    /// Runs over the files or on the links.
    pub fn execute(self) -> Exit {
        if self.request.inputs.is_empty() { live::execute(self) } else { files::execute(self) }
    }

    /// The files and folders that the run opens after it has dropped its privileges.
    fn paths(&self) -> Paths {
        let mut paths = Paths::default();
        let logs = self.request.logs.as_ref().map(|(directory, _)| directory);
        let logs = logs.filter(|_| !self.request.streams_log());
        logs.into_iter().for_each(|folder| paths.folder(folder));
        let plan = self.desk.plan();
        for (_, target) in plan.targets().filter(|(_, target)| target.place() == Some(Place::Path)) {
            match target {
                Target::Files(directory) => paths.folder(Path::new(&*directory.name)),
                _ if target.name() == "-" => {}
                _ => paths.file(Path::new(target.name())),
            }
        }
        self.request.triggers.iter().for_each(|trigger| paths.folder(&trigger.dump.to));
        if let Some(beside) = &self.beside {
            if beside.temporary {
                paths.temporary(&beside.store);
            } else {
                paths.folder(&beside.store);
            }
            if beside.changes != Changes::Never
                && let Some(file) = &self.request.config
            {
                paths.beside(file);
            }
            beside.log.iter().for_each(|log| paths.beside(log));
        }
        if let Some(file) = self.request.config.as_ref().filter(|_| self.request.inputs.is_empty()) {
            paths.read_again(file);
        }
        // Rules are read again when a file is written.
        if self.request.inputs.is_empty() {
            rules::directories(&self.request.rule_options).iter().for_each(|directory| paths.read(directory));
        }
        // Lists are read again when a configuration is checked or applied.
        let lists = self.configuration.as_ref().map(|one| one.lists()).unwrap_or_default();
        lists.iter().for_each(|list| paths.read_again(Path::new(list)));
        paths
    }

    /// Opens the logs.
    fn outputs(&self) -> Result<Vec<OpenOutput>, (Exit, String)> {
        let mut opened = match &self.request.logs {
            Some((directory, _)) => self.open_logs(directory, &self.logs)?,
            None => Vec::new(),
        };
        if let Some(beside) = &self.beside {
            self.prepare(&beside.store)?;
            let store = database::write(&self.context(&beside.store), self.keep())
                .map_err(|error| (Exit::Output, error.to_string()))?;
            beside.hub.set_health(store.health());
            let counts = self.counts_of_run(database::OUTPUT.name);
            opened.push(OpenOutput::of_pages(Box::new(store), counts));
        }
        let of_servers = self.servers.outputs(&self.destinations);
        opened.extend(of_servers.map_err(|error| (Exit::Output, format!("servers of events: {error}")))?);
        Ok(opened)
    }

    /// Opens logs in a folder. The store of the pages is in another one.
    fn open_logs(&self, directory: &Path, logs: &[Log]) -> Result<Vec<OpenOutput>, (Exit, String)> {
        if !self.request.streams_log() {
            self.prepare(directory)?;
        }
        let context = OutputContext { is_stream: self.request.streams_log(), ..self.context(directory) };
        let of_folder = logs.iter().filter(|log| self.beside.is_none() || !outputs::is_store(log));
        let open = |log: &Log| {
            let failed = |error: io::Error| (Exit::Output, explained(directory, &error));
            let output = outputs::open(log, &context, self.keep()).map_err(failed)?;
            Ok(OpenOutput::of_log(directory, log, output, self.counts_of_run(log.spec().name)))
        };
        of_folder.map(open).collect()
    }

    /// Where the reports of the run come from and go to, if it writes any.
    fn reports(&self) -> Option<Folders> {
        let (folder, _) = self.request.logs.as_ref().filter(|_| self.request.reports)?;
        let store = self.beside.as_ref().map_or(folder, |beside| &beside.store);
        Some(Folders { store: store.clone(), reports: folder.join("reports"), home: self.worms().home })
    }

    /// What is asked of the store of the run, if anything is.
    fn questions(&self) -> Option<Questions> {
        let asked = &self.request.store;
        let folder = self.store_folder().filter(|_| !asked.findings.value.is_empty())?;
        let home = self.worms().home;
        let questions = Questions::new(folder, &asked.findings.value, &asked.beacon_allow.value, home);
        Some(match self.anonymiser {
            // Expressions may state addresses.
            Some(_) => questions,
            None => questions.with_expressions(&self.request.subscriptions),
        })
    }

    /// The report of hosts that may be worms. Anonymised addresses are in no network.
    fn worms(&self) -> Worms {
        match self.anonymiser {
            Some(_) => Worms { home: Home::unknown(), ..self.request.worms.clone() },
            None => self.request.worms.clone(),
        }
    }

    /// What is counted of a log of the whole run.
    fn counts_of_run(&self, name: &str) -> Arc<Delivered> {
        self.destinations.of(DestinationKind::OfRun, name)
    }

    /// Creates the folder of the logs.
    fn prepare(&self, directory: &Path) -> Result<(), (Exit, String)> {
        let failed = |error: io::Error| (Exit::Output, format!("{}: {error}", directory.display()));
        if directory.exists() && !directory.is_dir() {
            return Err((Exit::Output, format!("{}: logs need a directory", directory.display())));
        }
        weir_files::make_folders(directory).map(drop).map_err(failed)
    }

    fn context(&self, directory: &Path) -> OutputContext {
        OutputContext {
            directory: directory.to_owned(),
            is_stream: false,
            zone: self.zone.clone(),
            // File names and the expression may identify the owner of the packets.
            command: match self.anonymiser {
                Some(_) => "weir".to_owned(),
                None => std::env::args().collect::<Vec<_>>().join(" "),
            },
            start: LiveClock::start().now().0,
            interval: self.request.interval,
            clock: Some(clock::nanoseconds),
            stop: Some(Arc::clone(&self.signals.stop)),
            // A live run appends to existing logs; a run over files replaces them.
            existing: if self.request.inputs.is_empty() { Existing::Continue } else { Existing::Replace },
            rolling: self.request.rolling.clone(),
            memory: self.division.store,
            distinct_seed: self.has_store_of_runs.then_some(self.request.seeds.distinct),
            worms: self.worms(),
            triggers: self.request.triggers.iter().filter_map(TriggerSpec::threshold).collect(),
            home: match self.anonymiser {
                Some(_) => self.request.home.as_ref().map(|_| Home::unknown()),
                None => self.request.home.clone(),
            },
            // It may identify the owner of the packets.
            sysname: match self.anonymiser {
                Some(_) => String::new(),
                None => self.request.sysname.clone(),
            },
        }
    }

    /// The limits of the store.
    fn keep(&self) -> Keep {
        self.options.logs.keep.unwrap_or_default().over(self.request.store.keep())
    }

    /// Number of workers. Packets are counted up to a limit in their order.
    fn worker_count(&self) -> usize {
        if self.request.limit.is_some() { 1 } else { self.request.workers }
    }

    /// Workers, whose packets have an order over files.
    fn workers(&self, count: usize, turns: &Arc<Turns>) -> Vec<Worker> {
        let flows = FlowConfig {
            memory: self.division.flows / count,
            seed: [self.request.seeds.run, !self.request.seeds.run],
            checksums: self.request.checksum.verified(),
            vlan: self.request.vlan,
            ..FlowConfig::default()
        };
        let sessions = SessionConfig {
            memory: self.division.sessions / count,
            record_ratio: self.options.record_ratio,
            // The limit of a live run may change.
            max_file: match &self.request.extracted {
                Some((_, limits)) if !self.work.is_live => limits.each,
                _ => u64::MAX,
            },
            inflation: self.request.inflation,
            urgent_apart: self.request.urgent_apart,
            ..SessionConfig::default()
        };
        let plan = self.plan();
        let (announcements, rule_state) = (Announcements::default(), RuleState::default());
        let worker = |at| {
            let mut worker = Worker::with(Arc::clone(&plan), &flows, &sessions);
            let in_order = count > 1 && !self.work.is_live;
            match in_order {
                true => {
                    let order = || Arc::clone(turns) as Arc<dyn PacketOrder>;
                    worker.share(&announcements.in_order(at, order()), &rule_state.in_order(at, order()));
                }
                false => worker.share(&announcements, &rule_state),
            }
            worker.measure(clock::nanoseconds);
            worker
        };
        (0..count).map(worker).collect()
    }

    /// The length of the intervals at whose ends open flows go to the store, if there is one.
    fn open_every(&self) -> Option<u64> {
        self.work.has_store.then_some(self.request.interval.max(1))
    }

    /// The directory of the store: that of the pages, or that of the log.
    fn store_folder(&self) -> Option<&Path> {
        let of_log = || {
            let (folder, _) = self.request.logs.as_ref()?;
            self.logs.iter().any(outputs::is_store).then_some(folder.as_path())
        };
        self.beside.as_ref().map(|beside| beside.store.as_path()).or_else(of_log)
    }

    fn collector(&self, outputs: Vec<OpenOutput>, workers: usize) -> Collector {
        let mut collector = Collector::new(outputs, workers, self.request.interval, self.division.rows);
        collector.anonymise(self.anonymiser.clone());
        // Without names of services, hosts have none either, whatever records pass for a log.
        collector.remember_names(self.division.names, !self.options.numeric);
        collector.hold_events(self.division.events, self.failures.clone());
        if let Some(store) = self.store_folder() {
            collector.mute(Mutes::of(database::marks(store), self.work.is_live));
            let worms = self.request.worms.clone();
            collector.know_signatures(NewSignatures::of(database::signatures(store), worms));
        }
        let plan = self.plan();
        collector.deliver(&self.targets(&plan, &self.request), Time(0));
        let folder = self.request.logs.as_ref().map(|(folder, _)| folder.as_path());
        collector.change_logs((folder, &self.logs), &row_sources(&plan), Vec::new(), Time(0));
        collector.emit(self.beside.as_ref().map(|beside| Arc::clone(&beside.hub)));
        collector.roll_every(self.request.rotate, Arc::clone(&self.signals.hangup));
        collector
    }

    /// The exit code of the results; `exit` is the code so far.
    fn conclude(&self, exit: Exit, total: &Snapshot, failures: usize) -> Exit {
        let mut exit = exit;
        if failures > 0 {
            exit = exit.or(Exit::Output);
        }
        if self.options.max_loss.is_some_and(|max| total.ledger.loss_percent() > max) {
            let text = format!("{:.3}% of packets lost", total.ledger.loss_percent());
            exit = exit.or(complain(Exit::Loss, text));
        }
        if self.signals.has_interrupted() {
            exit = exit.or(Exit::Interrupted);
        }
        if let Some(imbalance) = total.ledger.imbalance() {
            eprintln!("weir: the ledger does not add up: {imbalance}; please report this");
        }
        if let Some(imbalance) = total.sessions.imbalance() {
            eprintln!("weir: the payload counts do not add up: {imbalance}; please report this");
        }
        exit
    }
}

/// Checks that the packets of triggers can be written.
fn check_triggers(request: &Request, is_anonymised: bool) -> Result<(), String> {
    match is_anonymised && !request.triggers.is_empty() {
        true => {
            Err("[[trigger]] writes original packets and cannot be combined with anonymisation".to_owned())
        }
        false => Ok(()),
    }
}

/// Checks that what is set for triggers gives each worker room for packets.
fn check_rings(work: &Work, workers: usize) -> Result<(), String> {
    let least = least(workers);
    match work.trigger_memory.filter(|set| work.has_triggers && *set < least) {
        None => Ok(()),
        Some(set) => {
            let [set, least] = [set, least].map(memory::bytes);
            Err(format!("trigger_memory = {set} is too little for {workers} workers: at least {least}"))
        }
    }
}

/// What was left out of the lists of a plan, each once.
fn noted(plan: &Plan) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in plan.notes().map(printable) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The functions of a plan that deliver all rows of logs.
fn row_sources(plan: &Plan) -> RowSources {
    let rows = |(id, target): (AnswerId, &Target)| match target {
        Target::Rows(rows) => Some((id, rows.clone())),
        _ => None,
    };
    plan.targets().filter_map(rows).collect()
}

/// Unpredictable keys of hashes while packets come from a link.
pub fn seeds() -> Seeds {
    let random = RandomState::new();
    let [run, low, high] = [0_u8, 1, 2].map(|word| random.hash_one(word));
    Seeds { run, distinct: u128::from(high) << 64 | u128::from(low) }
}
