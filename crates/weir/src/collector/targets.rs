//! The targets of functions that deliver: the logs that subscriptions name.
//!
//! A target is open as long as a function delivers to it. Functions that name equal targets share one, so that an item which
//! several of them deliver has one row there.

use crate::delivered::Delivered;
use crate::outputs;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use weir_api::event::OUTPUT_FAILED;
use weir_api::{AnswerId, EventKind};
use weir_engine::{FlowIdentity, FlowRecord, Target};
use weir_output::{Log, Output, OutputContext, named};
use weir_proto::Record;
use weir_store::Keep;
use weir_wire::Time;

/// A failure of an output, and its kind of event.
pub type Failed = (&'static EventKind, io::Error);

/// The targets of a plan.
pub struct Plan {
    /// The facts with which one is opened, the directory of logs among them.
    pub context: OutputContext,
    /// The limits of a store.
    pub keep: Keep,
    /// The functions that deliver rows, with their targets.
    pub functions: Vec<(AnswerId, Target, Arc<Delivered>)>,
}

impl Plan {
    /// Opens a target of rows.
    fn open(&self, target: &Target) -> io::Result<Box<dyn Output>> {
        match target {
            Target::Log(log) => Ok(named(&self.context, log)),
            _ => {
                let log = Log::find(&outputs::all(), target.name()).map_err(io::Error::other)?;
                outputs::open(&log, &self.context, self.keep)
            }
        }
    }
}

/// The open targets.
#[derive(Default)]
pub struct Targets {
    open: Vec<OpenTarget>,
    /// The position of the target of each function.
    places: HashMap<AnswerId, usize>,
    /// Reused for the targets of an item.
    found: Vec<usize>,
}

struct OpenTarget {
    target: Target,
    directory: PathBuf,
    /// `None` if it could not be opened: its rows are lost.
    output: Option<Box<dyn Output>>,
    /// What is counted of it.
    delivered: Arc<Delivered>,
    /// The functions that deliver to it, each until a packet time if its subscription was removed.
    functions: Vec<(AnswerId, Option<Time>)>,
}

impl OpenTarget {
    fn call(&mut self, work: impl FnOnce(&mut dyn Output) -> io::Result<()>) -> Option<Failed> {
        let output = self.output.as_mut()?;
        work(&mut **output).err().map(|error| (output.failure(), error))
    }
}

impl Targets {
    /// Follows a plan from a packet time on. Where the directory has changed, a target goes on in the new one. Returns the targets
    /// that could not be opened.
    pub fn follow(&mut self, plan: &Plan, from: Time) -> Vec<Failed> {
        let mut failed = Vec::new();
        for one in &mut self.open {
            for (id, ends) in &mut one.functions {
                let goes_on = one.directory == plan.context.directory
                    && plan.functions.iter().any(|(other, ..)| other == id);
                if !goes_on {
                    ends.get_or_insert(from);
                }
            }
        }
        for (id, target, delivered) in &plan.functions {
            let is_it = |one: &OpenTarget| one.target == *target && one.directory == plan.context.directory;
            let at = self.open.iter().position(is_it).unwrap_or_else(|| {
                let output = plan.open(target).map_err(|error| failed.push((&OUTPUT_FAILED, error)));
                self.open.push(OpenTarget {
                    target: target.clone(),
                    directory: plan.context.directory.clone(),
                    output: output.ok(),
                    delivered: Arc::clone(delivered),
                    functions: Vec::new(),
                });
                self.open.len() - 1
            });
            if self.places.insert(*id, at) == Some(at) {
                continue;
            }
            if let Some(one) = self.open.get_mut(at) {
                one.functions.push((*id, None));
            }
        }
        failed
    }

    /// Writes a flow to the targets of these functions, with the name of its responder.
    pub fn flow(&mut self, functions: &[AnswerId], flow: &FlowRecord, name: Option<&str>) -> Vec<Failed> {
        self.write(functions, |output| output.named_flow(flow, name))
    }

    /// Writes a record to the targets of these functions.
    pub fn record(
        &mut self,
        functions: &[AnswerId],
        flow: &FlowIdentity,
        record: &Record<'_>,
    ) -> Vec<Failed> {
        self.write(functions, |output| output.record(flow, record))
    }

    fn write(
        &mut self,
        functions: &[AnswerId],
        write: impl Fn(&mut dyn Output) -> io::Result<()>,
    ) -> Vec<Failed> {
        let Self { open, places, found } = self;
        found.clear();
        found.extend(functions.iter().filter_map(|id| places.get(id)));
        found.sort_unstable();
        found.dedup();
        let failed = |at: &usize| {
            let one = open.get_mut(*at)?;
            let failed = one.call(&write);
            match failed.is_some() || one.output.is_none() {
                true => one.delivered.lose(1),
                false => one.delivered.write(1, 0),
            }
            failed
        };
        found.iter().filter_map(failed).collect()
    }

    /// Calls every output. Returns the failures.
    pub fn each(&mut self, work: impl Fn(&mut dyn Output) -> io::Result<()>) -> Vec<Failed> {
        self.open.iter_mut().filter_map(|one| one.call(&work)).collect()
    }

    /// Ends the targets to which no function delivers packets of a time or later.
    pub fn end(&mut self, now: u64) -> Vec<Failed> {
        let is_over = |ends: &Option<Time>| ends.is_some_and(|ends| ends.0 <= now);
        let mut ended = Vec::new();
        for one in &mut self.open {
            one.functions.retain(|(_, ends)| !is_over(ends));
        }
        self.open.retain_mut(|one| {
            if one.functions.is_empty() {
                ended.extend(one.call(|output| output.finish()));
            }
            !one.functions.is_empty()
        });
        let places = self.open.iter().enumerate();
        self.places =
            places.flat_map(|(at, one)| one.functions.iter().map(move |(id, _)| (*id, at))).collect();
        ended
    }
}
