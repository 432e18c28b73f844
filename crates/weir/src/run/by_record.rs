//! The expression of a run over files that tests fields of records or of flows, such as `http.host = "example.com"`.
//!
//! Packets have no such fields, so it stands for the packets of the flows that match. Which these are is known when the
//! files have been read once: another process of this program stores them. The flows that match there are then the scope of
//! the run.

use super::chosen::Chosen;
use super::request::Request;
use crate::cli::RunOptions;
use crate::config::DEFAULT_MEMORY;
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

/// Finds the flows of the expression of a run that tests fields of records or flows. Any other expression stays.
///
/// # Errors
///
/// The expression is invalid, or what is read cannot be read twice.
pub fn resolve(options: &RunOptions, request: &mut Request) -> Result<(), (Exit, String)> {
    let text = &request.expression;
    let Some(test) = over_flows(text, options.tz.as_deref())? else { return Ok(()) };
    if request.inputs.is_empty() {
        let text = format!(
            "`{text}` is about flows, and on a link a packet is decided before its flow has ended: a subscription with \
             level = \"record\" in weir.toml counts such records, and `weir query 'flows where {text}'` finds the flows"
        );
        return Err((Exit::Usage, text));
    }
    let captures = Captures {
        inputs: &request.inputs,
        times: request.times,
        checksum: request.checksum,
        snaplen: options.snaplen,
        memory: request.memory,
        vlan: options.vlan,
        recover: options.recover,
    };
    let chosen = captures.read_first(text)?.choose(text, &test)?;
    request.expression.clear();
    request.chosen = Some(chosen);
    Ok(())
}

/// Finds the flows of an expression over captures that tests fields of records or flows; `None` for any other expression.
///
/// # Errors
///
/// As [`resolve`].
pub fn chosen(
    captures: &Captures<'_>,
    text: &str,
    tz: Option<&str>,
) -> Result<Option<Chosen>, (Exit, String)> {
    match over_flows(text, tz)? {
        Some(test) => captures.read_first(text)?.choose(text, &test).map(Some),
        None => Ok(None),
    }
}

/// The test of an expression over fields of records or flows; `None` for one over packets, and for one that is invalid as both,
/// which is reported as an expression over packets.
///
/// # Errors
///
/// The expression is over flows and invalid.
pub fn over_flows(text: &str, tz: Option<&str>) -> Result<Option<FlowTest>, (Exit, String)> {
    let Err(over_packets) = weir_filter::check(text, &Options::default()) else { return Ok(None) };
    let zone = times::zone(tz).map_err(|error| (Exit::Usage, error))?;
    let asking = Asking {
        moments: Moments { zone, ..Moments::default() },
        lists: Lists::All(Path::new("")),
        ..Asking::default()
    };
    match asking.test(text) {
        Ok(test) => Ok(Some(test)),
        Err(error) if over_packets.kind == ErrorKind::Level => Err((Exit::Usage, error.to_string())),
        Err(_) => Ok(None),
    }
}

/// Captures, and how they are read.
pub struct Captures<'a> {
    /// The files.
    pub inputs: &'a [Input],
    /// The time range of their packets.
    pub times: Option<weir_capture::TimeRange>,
    /// Verification of checksums.
    pub checksum: ChecksumMode,
    /// Bytes of a packet that are read; 0 for all.
    pub snaplen: u32,
    /// Limit in bytes of all memory that grows with traffic.
    pub memory: usize,
    /// Whether flows in different VLANs are different flows.
    pub vlan: bool,
    /// Whether damaged parts of files are skipped.
    pub recover: bool,
}

impl<'a> Captures<'a> {
    /// Whole captures, in the memory of a run.
    pub fn of(inputs: &'a [Input], checksum: ChecksumMode) -> Self {
        Captures {
            inputs,
            times: None,
            checksum,
            snaplen: 0,
            memory: DEFAULT_MEMORY as usize,
            vlan: false,
            recover: false,
        }
    }

    /// Stores the flows and records of the captures, for an expression that errors name.
    ///
    /// # Errors
    ///
    /// They cannot be read, or not twice.
    pub fn read_first(&self, text: &str) -> Result<FirstPass, (Exit, String)> {
        let is_read_once =
            |input: &Input| input.path().is_none_or(Path::exists) && !input.can_be_read_again();
        if self.inputs.iter().any(is_read_once) {
            let text = format!(
                "`{text}` is about flows, so that the packets are read twice, and standard input and pipes can be read once: \
                 write them into a file"
            );
            return Err((Exit::Usage, text));
        }
        let folder = TemporaryFolder::create("weir-").map_err(|error| (Exit::Output, error.to_string()))?;
        let store = folder.path().join("store");
        self.stored(&store)?;
        let store = database::read_patiently(&store).map_err(|error| (Exit::Output, error.to_string()))?;
        Ok(FirstPass { store, most: self.memory / PART / FLOW, _folder: folder })
    }

    /// Stores flows and records, by another process: this one has yet to give up its rights.
    fn stored(&self, folder: &Path) -> Result<(), (Exit, String)> {
        let program = std::env::current_exe().map_err(|error| (Exit::Output, error.to_string()))?;
        let mut pass = Command::new(program);
        pass.args(["-q", "--log", "store", "-o"]).arg(folder);
        for path in self.inputs.iter().filter_map(Input::path) {
            pass.arg("-r").arg(path);
        }
        if let Some(range) = self.times {
            pass.args(["--since", &rfc3339(range.from.0), "--until", &rfc3339(range.until.0)]);
        }
        let checksum = match self.checksum {
            ChecksumMode::Auto => "auto",
            ChecksumMode::On => "on",
            ChecksumMode::Tcp => "tcp",
            ChecksumMode::Off => "off",
        };
        pass.args(["--checksum", checksum, "--snaplen", &self.snaplen.to_string()]);
        pass.args(["--memory", &self.memory.to_string()]);
        let flags = [(self.vlan, "--vlan"), (self.recover, "--recover")];
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
}

/// The stored flows and records of captures; they are removed when it is dropped.
pub struct FirstPass {
    store: Box<dyn Store>,
    /// Number of flows for which the memory is enough.
    most: usize,
    _folder: TemporaryFolder,
}

impl FirstPass {
    /// The flows that an expression selects.
    ///
    /// # Errors
    ///
    /// They are more than the memory holds, or the store cannot be read.
    pub fn choose(&self, text: &str, test: &FlowTest) -> Result<Chosen, (Exit, String)> {
        let chosen = choose(&*self.store, test, TimeRange::default(), self.most)
            .map_err(|error| (Exit::Output, error.to_string()))?;
        if chosen.number > self.most as u64 {
            let (flows, most) = (count(chosen.number), count(self.most as u64));
            let text = format!(
                "{flows} flows match `{text}`; the memory (--memory) is enough for {most}: choose a shorter time"
            );
            return Err((Exit::Usage, text));
        }
        Ok(Chosen { typed: text.to_owned(), ..chosen })
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
