//! The expression of a run over files that tests fields of records or of flows, such as `http.host = "example.com"`.
//!
//! Packets have no such fields, so it stands for the packets of the flows that match. Which these are is known when the
//! files have been read once: another process of this program stores them. The flows that match there are then the scope of
//! the run.

use super::request::Request;
use crate::cli::RunOptions;
use crate::exit::Exit;
use crate::{database, times};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use weir_capture::Input;
use weir_engine::{ChecksumMode, ChosenFlows};
use weir_files::TemporaryFolder;
use weir_filter::{ErrorKind, FlowTest, Options};
use weir_output::figures::count;
use weir_output::zone::rfc3339;
use weir_store::fields::Lists;
use weir_store::moment::Moments;
use weir_store::query::Asking;
use weir_store::{Store, StoreError, TimeRange};

/// Part of the memory that chosen flows may take.
const PART: usize = 8;
/// Bytes of memory of a chosen flow.
const FLOW: usize = 160;

/// Finds the flows of an expression that tests fields of records or flows. Any other expression stays.
///
/// # Errors
///
/// The expression is invalid, or what is read cannot be read twice.
pub fn resolve(options: &RunOptions, request: &mut Request) -> Result<(), (Exit, String)> {
    let text = &request.expression;
    let Err(over_packets) = weir_filter::check(text, &Options::default()) else { return Ok(()) };
    let zone = times::zone(options.tz.as_deref()).map_err(|error| (Exit::Usage, error))?;
    let asking = Asking {
        moments: Moments { zone, ..Moments::default() },
        lists: Lists::All(Path::new("")),
        ..Asking::default()
    };
    let test = match asking.test(text) {
        Ok(test) => test,
        Err(error) if over_packets.kind == ErrorKind::Level => return Err((Exit::Usage, error.to_string())),
        // It is reported as an expression over packets.
        Err(_) => return Ok(()),
    };
    if request.inputs.is_empty() {
        let text = format!(
            "`{text}` is about flows, and a packet of a link comes before it is known what its flow has: a subscription with \
             level = \"record\" in weir.toml counts such records, and `weir query 'flows where {text}'` finds the flows"
        );
        return Err((Exit::Usage, text));
    }
    let is_read_once = |input: &Input| input.path().is_none_or(Path::exists) && !input.can_be_read_again();
    if request.inputs.iter().any(is_read_once) {
        let text = format!(
            "`{text}` is about flows, so that the packets are read twice, and standard input and pipes can be read once: \
             write them into a file"
        );
        return Err((Exit::Usage, text));
    }
    let paths: Vec<&Path> = request.inputs.iter().filter_map(Input::path).collect();
    let folder = TemporaryFolder::create("weir-").map_err(|error| (Exit::Output, error.to_string()))?;
    let store = folder.path().join("store");
    stored(options, request, &paths, &store)?;
    let read = |error: StoreError| (Exit::Output, error.to_string());
    let store = database::read_patiently(&store).map_err(read)?;
    let most = request.memory / PART / FLOW;
    let chosen = choose(&*store, &test, TimeRange::default(), most).map_err(read)?;
    if chosen.number > most as u64 {
        let (flows, most) = (count(chosen.number), count(most as u64));
        let text = format!(
            "{flows} flows match `{text}`; the memory (--memory) is enough for {most}: choose a shorter time"
        );
        return Err((Exit::Usage, text));
    }
    request.chosen = Some(Chosen { typed: std::mem::take(&mut request.expression), ..chosen });
    Ok(())
}

/// Stores the flows and records of files, by another process: this one has yet to give up its rights.
fn stored(
    options: &RunOptions,
    request: &Request,
    paths: &[&Path],
    folder: &Path,
) -> Result<(), (Exit, String)> {
    let program = std::env::current_exe().map_err(|error| (Exit::Output, error.to_string()))?;
    let mut pass = Command::new(program);
    pass.args(["-q", "--log", "store", "-o"]).arg(folder);
    for path in paths {
        pass.arg("-r").arg(path);
    }
    if let Some(range) = request.times {
        pass.args(["--since", &rfc3339(range.from.0), "--until", &rfc3339(range.until.0)]);
    }
    let checksum = match request.checksum {
        ChecksumMode::Auto => "auto",
        ChecksumMode::On => "on",
        ChecksumMode::Off => "off",
    };
    pass.args(["--checksum", checksum, "--snaplen", &options.snaplen.to_string()]);
    pass.args(["--memory", &request.memory.to_string()]);
    let flags = [(options.vlan, "--vlan"), (options.recover, "--recover")];
    pass.args(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag));
    let ended = pass.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let ended = ended.map_err(|error| (Exit::Output, error.to_string()))?;
    // A capture that is cut has the records of its whole packets; the second pass reports it.
    let good = [Exit::Good, Exit::Unreadable, Exit::Partial].map(|exit| Some(exit as i32));
    if good.contains(&ended.status.code()) && folder.exists() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said.trim().trim_start_matches("weir: ").to_owned();
    let is_unreadable = ended.status.code() == Some(Exit::Unreadable as i32);
    Err((if is_unreadable { Exit::Unreadable } else { Exit::Output }, said))
}

/// The flows that an expression selects.
#[derive(Clone)]
pub struct Chosen {
    /// The expression.
    typed: String,
    /// The number of flows that match.
    pub number: u64,
    /// The flows themselves.
    pub flows: Arc<ChosenFlows>,
}

impl Chosen {
    /// The expression, and what it stands for.
    pub fn text(&self) -> String {
        let flows = if self.number == 1 { "flow" } else { "flows" };
        format!("{} {flows} where {}", count(self.number), self.typed)
    }
}

/// Finds the flows that match in a range, and keeps `most` of them.
pub fn choose(
    store: &dyn Store,
    test: &FlowTest,
    span: TimeRange,
    most: usize,
) -> Result<Chosen, StoreError> {
    let (mut number, mut flows) = (0, ChosenFlows::default());
    store.each_flow(test, span, &mut |flow| {
        number += 1;
        if number <= most as u64 {
            flows.add(flow.ends, flow.ip_proto, flow.times);
        }
    })?;
    Ok(Chosen { typed: String::new(), number, flows: Arc::new(flows) })
}
