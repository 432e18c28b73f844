//! Applying a configuration to a live run: one from the pages, or the file again after SIGHUP.

use super::packet_files::PacketWriters;
use super::{Request, Run, row_sources, targets};
use crate::collector::{Collector, OpenOutput};
use crate::config::Config;
use crate::configuration::{Configuration, Refusal, Submitted, applied_text};
use crate::desk::Change;
use crate::outputs;
use crate::privileges::may_create_in;
use crate::rules::{Following, Watched};
use crossbeam_channel::Receiver;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use weir_api::Owner;
use weir_engine::FileState;
use weir_output::Log;

/// What is accepted in place of a folder that cannot be written to.
const FOLDERS: &str = "a directory that the run could write to at its start; another needs a restart";

/// Least time between two looks at the files of lists.
const LOOKS: Duration = Duration::from_secs(1);

/// A text for standard error with notes after it, each in a line.
fn with_notes(text: String, notes: &[String]) -> String {
    notes.iter().fold(text, |text, note| format!("{text}\nweir: {note}"))
}

/// What follows from a configuration that can be applied.
struct Next {
    config: Config,
    /// Settings that need a restart.
    restart: Vec<&'static str>,
    request: Request,
    logs: Vec<Log>,
    changes: Vec<Change>,
    /// The logs to open.
    unopened: Vec<Log>,
}

/// The refusal of a plan that does not compile.
fn uncompiled(error: impl Into<String>) -> Refusal {
    Refusal::new(error, "other expressions or functions")
}

/// Applies configurations on the thread of the collector, which owns the outputs: each between two messages of workers.
pub struct Reload<'r> {
    /// The run.
    pub run: &'r Run,
    submitted: Receiver<Submitted>,
    /// The request in effect.
    request: Request,
    /// Whether the kernel selects packets by the expression, which then needs a restart.
    is_selected: bool,
    /// When the files of lists were looked at last, and those that were not as they had been read.
    looked: Instant,
    unread: Vec<(String, FileState)>,
    /// Follows the files of rules, if there are any.
    rules: Option<Following>,
}

impl<'r> Reload<'r> {
    /// Accepts the configurations of a run from now on, and follows its rules.
    pub fn new(run: &'r Run, rules: Option<Watched>) -> Self {
        let hub = || run.beside.as_ref().map(|beside| Arc::clone(&beside.hub));
        let follow = |watched: Watched| {
            let known =
                std::mem::take(&mut *run.request.known_rules.lock().unwrap_or_else(PoisonError::into_inner));
            watched.follow(Arc::clone(&run.desk), run.request.rules.clone(), known, hub())
        };
        let configuration = run.configuration.as_ref();
        Self {
            run,
            submitted: configuration.map_or_else(crossbeam_channel::never, |one| one.control()),
            request: Request::clone(&run.request),
            is_selected: run.kernel_selects(),
            looked: Instant::now(),
            unread: Vec::new(),
            rules: rules.map(follow),
        }
    }

    /// Ends the thread that follows rules.
    pub fn finish(self) {
        self.rules.into_iter().for_each(Following::finish);
    }

    /// Applies what was asked for since the last call. Returns a text about the files that were read again.
    pub fn attend(&mut self, collector: &mut Collector, writers: &mut PacketWriters<'_>) -> Option<String> {
        if let Some(text) = self.rules.as_ref().and_then(Following::text) {
            return Some(text);
        }
        let Some(configuration) = self.run.configuration.as_ref().map(Arc::clone) else {
            if self.run.signals.reload.swap(false, Ordering::Relaxed) {
                self.rules.iter().for_each(Following::again);
            }
            return None;
        };
        while let Ok(submitted) = self.submitted.try_recv() {
            let Submitted { text, config, is_check, .. } = &submitted;
            let result = match is_check {
                true => self
                    .verdict(&configuration, config.clone(), true, (collector, writers))
                    .map(|next| next.restart),
                false => self
                    .apply(&configuration, text, config.clone(), true, (collector, writers))
                    .map(|(_, restart)| restart),
            };
            submitted.answer(result);
        }
        if !self.run.signals.reload.swap(false, Ordering::Relaxed) {
            return self.follow_lists((collector, writers));
        }
        self.rules.iter().for_each(Following::again);
        let applied = configuration.read_again().and_then(|(text, config)| {
            let applied = self.apply(&configuration, &text, config, false, (collector, writers));
            applied.map_err(|Refusal { message, help }| format!("{message} ({help})"))
        });
        let path = configuration.shown_path();
        Some(match applied {
            Ok((changed, restart)) => {
                let text = with_notes(applied_text(changed, &restart), &self.run.notes());
                if let Some(beside) = &self.run.beside {
                    beside.hub.note("configuration", text.clone());
                }
                format!("{path}: {text}")
            }
            Err(error) => format!("{path} is not applied, nothing is changed: {error}"),
        })
    }

    /// Reads the lists of watched addresses and names again that have changed, at most once in [`LOOKS`]. A list whose file is gone or
    /// wrong stays in force. Returns a text about each change once.
    fn follow_lists(
        &mut self,
        (collector, writers): (&mut Collector, &mut PacketWriters<'_>),
    ) -> Option<String> {
        if self.looked.elapsed() < LOOKS {
            return None;
        }
        self.looked = Instant::now();
        let plan = self.run.plan();
        let mut unread: Vec<(String, FileState)> = plan
            .watched_files()
            .filter(|(_, _, state)| *state != FileState::Current)
            .map(|(_, path, state)| (path.to_owned(), state))
            .collect();
        unread.dedup();
        let new: Vec<(String, FileState)> =
            unread.iter().filter(|one| !self.unread.contains(one)).cloned().collect();
        self.unread = unread;
        let gone = new.iter().filter(|(_, state)| *state == FileState::Gone);
        let mut lines: Vec<String> =
            gone.map(|(path, _)| format!("{path}: cannot be read; its list stays in force")).collect();
        let changed: Vec<&str> = new
            .iter()
            .filter(|(_, state)| matches!(state, FileState::Changed(_)))
            .map(|(path, _)| path.as_str())
            .collect();
        if !changed.is_empty() {
            let paths = changed.join(", ");
            lines.push(match self.read_lists((collector, writers)) {
                Ok(()) => with_notes(format!("{paths}: read again"), &self.run.notes()),
                Err(error) => format!("{paths}: not read again, the list stays in force: {error}"),
            });
        }
        (!lines.is_empty()).then(|| lines.join("\nweir: "))
    }

    /// Posts a plan with the lists as their files are now. An error changes nothing.
    fn read_lists(
        &mut self,
        (collector, writers): (&mut Collector, &mut PacketWriters<'_>),
    ) -> Result<(), String> {
        let run = self.run;
        let logs = Run::logs(&self.request, run.beside.is_some()).map_err(|(_, error)| error)?;
        let mut prepared = run.desk.prepare(vec![Change::Lists])?;
        if writers.follow(prepared.plan(), &self.request)? {
            prepared = prepared.leaving_by(writers.routes());
        }
        let (from, _) = prepared.post();
        collector.deliver(&run.targets(&run.plan(), &self.request), from);
        let folder = self.request.logs.as_ref().map(|(folder, _)| folder.as_path());
        collector.change_logs((folder, &logs), &row_sources(&run.plan()), Vec::new(), from);
        Ok(())
    }

    /// Whether a configuration can be applied, and what follows from it: compiles the plan, and checks that the process may write
    /// the logs, the packet files and, if the text `is_new`, the file of the configuration. Nothing is opened or changed.
    fn verdict(
        &self,
        configuration: &Configuration,
        config: Config,
        is_new: bool,
        (collector, writers): (&Collector, &PacketWriters<'_>),
    ) -> Result<Next, Refusal> {
        let run = self.run;
        let (config, mut restart) = configuration.changing(config);
        let mut request = self.request.revised(&run.options, &config);
        if self.is_selected && request.expression != self.request.expression {
            restart.push("expression");
            request.expression.clone_from(&self.request.expression);
        }
        let logs = Run::logs(&request, run.beside.is_some())
            .map_err(|(_, error)| Refusal::new(error, "other logs"))?;
        let changes = self.changes(&request, &logs);
        let prepared = run.desk.prepare(changes.clone()).map_err(uncompiled)?;
        targets::check(prepared.plan(), &request, run.is_anonymised()).map_err(uncompiled)?;
        let directory = request.logs.as_ref().filter(|_| prepared.plan().targets().next().is_some());
        if let Some((directory, _)) = directory {
            may_create_in(directory).map_err(|error| Refusal::new(error.text, FOLDERS))?;
        }
        writers.may_follow(prepared.plan()).map_err(|error| Refusal::new(error, FOLDERS))?;
        drop(prepared);
        let unopened = self.unopened(&request, &logs, collector)?;
        if is_new {
            configuration.may_write()?;
        }
        Ok(Next { config, restart, request, logs, changes, unopened })
    }

    /// Applies a configuration: opens the new logs and the packet file, writes the file if the text `is_new`, then posts the
    /// plan. Returns the numbers of lines added and removed, and the settings that need a restart. An error changes nothing.
    fn apply(
        &mut self,
        configuration: &Configuration,
        text: &str,
        config: Config,
        is_new: bool,
        (collector, writers): (&mut Collector, &mut PacketWriters<'_>),
    ) -> Result<((usize, usize), Vec<&'static str>), Refusal> {
        let run = self.run;
        // The plan is compiled twice: files are opened only for a plan that compiles, and the desk is not locked meanwhile.
        let Next { config, restart, request, logs, changes, unopened } =
            self.verdict(configuration, config, is_new, (collector, writers))?;
        let opened = self.open(&request, &unopened)?;
        let mut prepared = run.desk.prepare(changes).map_err(uncompiled)?;
        if is_new {
            configuration.write(text)?;
        }
        let followed = writers.follow(prepared.plan(), &request);
        if followed.map_err(|error| Refusal::new(error, FOLDERS))? {
            prepared = prepared.leaving_by(writers.routes());
        }
        let (from, _) = prepared.post();
        collector.deliver(&run.targets(&run.plan(), &request), from);
        let folder = request.logs.as_ref().map(|(folder, _)| folder.as_path());
        collector.change_logs((folder, &logs), &row_sources(&run.plan()), opened, from);
        collector.change_triggers(&request.triggers);
        collector.roll_every(request.rotate, Arc::clone(&run.signals.hangup));
        self.request = request;
        Ok((configuration.set(text.to_owned(), config, restart.clone()), restart))
    }

    /// The request in effect.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The changes of the desk for a request.
    fn changes(&self, request: &Request, logs: &[Log]) -> Vec<Change> {
        let run = self.run;
        let (built_in, configured) = Run::subscriptions(&run.options, request, logs);
        let mut changes = vec![Change::BuiltIn(built_in), Change::Replace(Owner::Configuration, configured)];
        // On the screen the expression may have been changed by a key.
        if request.expression != self.request.expression {
            changes.push(Change::Expression(request.expression.clone()));
        }
        changes
    }

    /// The logs that are not open, into whose folder the process may write.
    fn unopened(&self, request: &Request, logs: &[Log], collector: &Collector) -> Result<Vec<Log>, Refusal> {
        let Some((folder, _)) = &request.logs else { return Ok(Vec::new()) };
        let mut new = Vec::new();
        for log in logs.iter().filter(|log| self.run.beside.is_none() || !outputs::is_store(log)) {
            match collector.has_output(folder, log) {
                Ok(true) => {}
                Ok(false) if request.streams_log() => {
                    let text =
                        format!("log {}: standard output carries another log until a restart", log.text());
                    return Err(Refusal::new(text, "other logs"));
                }
                // The memory of a store is divided at the start.
                Ok(false) if outputs::is_store(log) && !self.run.work.has_store => {
                    return Err(Refusal::new("log store: needs a restart", "other logs"));
                }
                Ok(false) => new.push(log.clone()),
                Err(()) => {
                    let text = format!("log {}: its file is open for another log", log.text());
                    return Err(Refusal::new(text, "remove the other log first"));
                }
            }
        }
        if !new.is_empty() {
            may_create_in(folder).map_err(|error| Refusal::new(error.text, FOLDERS))?;
        }
        Ok(new)
    }

    /// Opens logs.
    fn open(&self, request: &Request, logs: &[Log]) -> Result<Vec<OpenOutput>, Refusal> {
        match &request.logs {
            Some((folder, _)) if !logs.is_empty() => {
                self.run.open_logs(folder, logs).map_err(|(_, error)| Refusal::new(error, FOLDERS))
            }
            _ => Ok(Vec::new()),
        }
    }
}
