//! `weir talk`: writes flows of a capture as conversations, in the format of the test data.

use crate::cli;
use crate::drive::WholeRun;
use crate::exit::{Exit, complain};
use crate::inputs::{filter_options, inputs, report_read_errors};
use crate::signals::Signals;
use crate::streams::{SEED, Scope, name, read};
use crate::times;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_capture::{Files, ReadOptions};
use weir_engine::{
    ChecksumMode, Emitted, EndReason, FlowConfig, FlowIdentity, Plan, SessionConfig, Settings, Sink, Worker,
};
use weir_output::figures;
use weir_proto::talk::Writer;
use weir_wire::stream::Chunk;

/// Writes the matching flows as conversations.
pub fn talk(options: &cli::Talk) -> Exit {
    let (files, expression) = crate::inputs::words(&options.words, &options.after_dashes);
    if files.is_empty() {
        return complain(Exit::Usage, "talk: no capture file");
    }
    let times = match times::of_files(&options.times, &files) {
        Ok(times) => times,
        Err(exit) => return exit,
    };
    let inputs = inputs(&files);
    let scope = match Scope::of(expression, &inputs, times, options.memory, options.times.tz.as_deref()) {
        Ok(scope) => scope,
        Err((exit, error)) => return complain(exit, error),
    };
    let settings = Settings {
        filter: filter_options(false, false, 0),
        checksum: ChecksumMode::Off,
        seeds: SEED.into(),
        chosen: scope.chosen,
        own_apps: Default::default(),
        rules: None,
    };
    let whole = SubscriptionSpec::delivering("streams", Level::Stream, vec![FunctionCall::new("stream")]);
    let plan = match Plan::new(&scope.expression, vec![whole], settings) {
        Ok(plan) => Arc::new(plan),
        Err(error) => return complain(Exit::Usage, error),
    };
    let files = match Files::open(&inputs, &ReadOptions { times, ..ReadOptions::default() }) {
        Ok(files) => files,
        Err(error) => return report_read_errors(std::slice::from_ref(&error)),
    };
    if let Some(folder) = &options.output
        && let Err(error) = weir_files::make_folders(folder)
    {
        return complain(Exit::Output, format!("{}: {error}", folder.display()));
    }
    let flows = FlowConfig { memory: options.memory / 2, ..FlowConfig::default() };
    let sessions = SessionConfig { memory: options.memory / 2, ..SessionConfig::default() };
    let worker = Worker::with(Arc::clone(&plan), &flows, &sessions);
    let talks = Talks::new(options.output.as_deref());
    let (exit, WholeRun { sink: talks, .. }) = read(files, &plan, worker, talks, &Signals::default());
    if let Some(error) = talks.failure {
        return exit.or(complain(Exit::Output, error));
    }
    if talks.flows == 0 {
        eprintln!("weir: no TCP or UDP payload matches");
    } else if options.output.is_none() && talks.flows > 1 {
        let others = figures::count(talks.flows - 1);
        eprintln!("weir: {others} more flows match and are omitted; -o DIR writes each into a file");
    }
    exit
}

/// A flow that has not ended.
struct Open {
    /// Path of its file; `None` for standard output.
    path: Option<PathBuf>,
    /// Whether it is written: into a folder every flow, to standard output the first.
    is_written: bool,
    writer: Writer,
}

/// The conversations, written while they are read: an open flow keeps the name of its file and no payload.
struct Talks<'o> {
    folder: Option<&'o Path>,
    /// Open flows by their identifier.
    open: HashMap<u64, Open>,
    /// Number of flows with equal endpoints so far, by the name of their file.
    names: HashMap<String, u32>,
    /// Flows with payload.
    flows: u64,
    /// The first error.
    failure: Option<String>,
}

impl<'o> Talks<'o> {
    fn new(folder: Option<&'o Path>) -> Self {
        Self { folder, open: HashMap::new(), names: HashMap::new(), flows: 0, failure: None }
    }

    fn write(&mut self, flow: &FlowIdentity, chunk: &Chunk<'_>) -> Result<(), String> {
        let mut text = String::new();
        let Self { folder, open, names, flows, .. } = self;
        let open = open.entry(flow.id()).or_insert_with(|| {
            *flows += 1;
            let path = folder.map(|folder| folder.join(file_name(names, name(flow, false))));
            let writer = Writer::new(flow.key.proto);
            let is_written = path.is_some() || *flows == 1;
            if is_written {
                text += &writer.head([flow.initiator().1, flow.responder().1]);
            }
            Open { path, is_written, writer }
        });
        if !open.is_written {
            return Ok(());
        }
        let is_new = !text.is_empty();
        if chunk.gap > 0 {
            text += &open.writer.gap(chunk.direction, chunk.gap);
        }
        // A gap at the end of a stream has no data; a datagram may be empty.
        if !chunk.data.is_empty() || chunk.gap == 0 {
            text += &open.writer.data(chunk.direction, chunk.data);
        }
        let Some(path) = &open.path else {
            return io::stdout()
                .write_all(text.as_bytes())
                .map_err(|error| format!("standard output: {error}"));
        };
        let open = if is_new { weir_files::create } else { weir_files::append };
        open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The name of a flow's file. Later flows between the same endpoints get a number.
fn file_name(names: &mut HashMap<String, u32>, name: String) -> String {
    let before = names.entry(name.clone()).or_default();
    *before += 1;
    if *before > 1 { format!("{name}c{}.talk", *before - 1) } else { format!("{name}.talk") }
}

impl Sink for Talks<'_> {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(flow, _) if flow.end != EndReason::Active => {
                self.open.remove(&flow.id);
            }
            Emitted::Chunk(flow, chunk, _) if self.failure.is_none() => {
                self.failure = self.write(flow, chunk).err();
            }
            _ => {}
        }
    }
}
