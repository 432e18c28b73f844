//! Applying a configuration to a live run: one from the pages, or the file again after SIGHUP.

use super::packet_files::{PacketWriters, named};
use super::{Request, Run};
use crate::collector::{Collector, OpenOutput};
use crate::config::Config;
use crate::configuration::{Configuration, Refusal, Submitted, applied_text};
use crate::desk::Change;
use crate::outputs;
use crossbeam_channel::Receiver;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_api::Owner;
use weir_output::Log;

/// What is accepted in place of a folder that cannot be written to.
const FOLDERS: &str = "a folder that the run could write to at its start; another needs a restart";

/// Applies configurations on the thread of the collector, which owns the outputs: each between two messages of workers.
pub struct Reload<'r> {
    /// The run.
    pub run: &'r Run,
    submitted: Receiver<Submitted>,
    /// The request in effect.
    request: Request,
    /// Whether the kernel selects packets by the expression, which then needs a restart.
    is_selected: bool,
}

impl<'r> Reload<'r> {
    /// Accepts the configurations of a run from now on.
    pub fn new(run: &'r Run) -> Self {
        let configuration = run.configuration.as_ref();
        Self {
            run,
            submitted: configuration.map_or_else(crossbeam_channel::never, |one| one.control()),
            request: Request::clone(&run.request),
            is_selected: run.kernel_selects(),
        }
    }

    /// Applies what was asked for since the last call. Returns a text about the file that was read again.
    pub fn attend(&mut self, collector: &mut Collector, writers: &mut PacketWriters<'_>) -> Option<String> {
        let configuration = Arc::clone(self.run.configuration.as_ref()?);
        while let Ok(submitted) = self.submitted.try_recv() {
            let Submitted { text, config, .. } = &submitted;
            let result = self.apply(&configuration, text, config.clone(), true, (collector, writers));
            submitted.answer(result.map(|(_, restart)| restart));
        }
        if !self.run.signals.reload.swap(false, Ordering::Relaxed) {
            return None;
        }
        let applied = configuration.read_again().and_then(|(text, config)| {
            let applied = self.apply(&configuration, &text, config, false, (collector, writers));
            applied.map_err(|Refusal { message, help }| format!("{message} ({help})"))
        });
        let path = configuration.shown_path();
        Some(match applied {
            Ok((changed, restart)) => {
                let text = applied_text(changed, &restart);
                if let Some(beside) = &self.run.beside {
                    beside.hub.note("configuration", text.clone());
                }
                format!("{path}: {text}")
            }
            Err(error) => format!("{path} is not applied, nothing is changed: {error}"),
        })
    }

    /// Applies a configuration: compiles the plan, opens the new logs and the packet file, writes the file if the text `is_new`, then posts the
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
        let (config, mut restart) = configuration.changing(config);
        let mut request = self.request.revised(&run.options, &config);
        if self.is_selected && request.expression != self.request.expression {
            restart.push("expression");
            request.expression.clone_from(&self.request.expression);
        }
        let logs = Run::logs(&request, run.beside.is_some())
            .map_err(|(_, error)| Refusal::new(error, "other logs"))?;
        named(&request.packets).map_err(|error| Refusal::new(error, "another file"))?;
        let changes = self.changes(&request, &logs);
        // Compiled twice: files are opened only for a plan that compiles, and the desk is not locked meanwhile.
        let refused = |error| Refusal::new(error, "other expressions or functions");
        drop(run.desk.prepare(changes.clone()).map_err(refused)?);
        let opened = self.open(&request, &logs, collector)?;
        let files = writers.change(&self.request, &request).map_err(|error| Refusal::new(error, FOLDERS))?;
        let mut prepared = run.desk.prepare(changes).map_err(refused)?;
        if is_new {
            configuration.write(text)?;
        }
        if let Some(files) = files {
            writers.replace(files);
            prepared = prepared.leaving_by(writers.ways());
        }
        let (from, _) = prepared.post();
        let folder = request.logs.as_ref().map(|(folder, _)| folder.as_path());
        collector.change_logs(folder, &logs, opened, from);
        collector.roll_every(request.rotate, Arc::clone(&run.signals.hangup));
        self.request = request;
        Ok((configuration.set(text.to_owned(), config, restart.clone()), restart))
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

    /// Opens the logs that are not open.
    fn open(
        &self,
        request: &Request,
        logs: &[Log],
        collector: &Collector,
    ) -> Result<Vec<OpenOutput>, Refusal> {
        let Some((folder, _)) = &request.logs else { return Ok(Vec::new()) };
        let mut new = Vec::new();
        for log in logs.iter().filter(|log| self.run.beside.is_none() || !outputs::is_store(log)) {
            match collector.has_output(folder, log) {
                Ok(true) => {}
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
        if new.is_empty() {
            return Ok(Vec::new());
        }
        self.run.open_logs(folder, &new).map_err(|(_, error)| Refusal::new(error, FOLDERS))
    }
}
