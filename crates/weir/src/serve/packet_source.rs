//! Packets of the capture file or of a live run's dump, read again through an expression.

use super::failure::Failure;
use crate::dump::index::DumpIndex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_capture::{Files, Input, Order, ReadError, ReadOptions, Severity};
use weir_engine::ChosenFlows;
use weir_filter::{Filter, Options};
use weir_store::TimeRange;
use weir_wire::{Layers, Packet, PacketBuf, decode};

/// Number of times that the files of a dump are listed anew if one is gone when it is opened.
const LISTED: usize = 8;
/// Maximum bytes of a download.
pub const MAX_BYTES: u64 = 4 << 30;

/// How expressions of requests are interpreted. Host names are not resolved: a passive monitor sends no packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpressionOptions {
    /// Whether they are evaluated exactly as libpcap does.
    pub strict_bpf: bool,
    /// Whether they apply to the innermost packet of a tunnel.
    pub inner: bool,
}

impl ExpressionOptions {
    /// Options of the compiler.
    pub fn to_options(self) -> Options<'static> {
        Options { strict_bpf: self.strict_bpf, inner: self.inner, ..Options::default() }
    }
}

/// Capture files that can be read again.
#[derive(Clone)]
pub struct PacketSource {
    /// The files.
    pub captures: Captures,
    /// How they are read: the times, the bytes and the repairs of the run.
    pub reading: ReadOptions,
    /// Expression of the run, if the files have not been filtered by it.
    pub expression: String,
    /// The flows that the run selected, if an expression over flows and records did.
    pub chosen: Option<Arc<ChosenFlows>>,
    /// How expressions are interpreted.
    pub expression_options: ExpressionOptions,
}

/// Capture files.
#[derive(Clone)]
pub enum Captures {
    /// Files that the run has read.
    Read(Vec<Input>),
    /// Files that the run writes.
    Written(DumpIndex),
}

/// A selection of packets.
pub struct Wanted {
    /// The packets of the run.
    pub of_run: Selected,
    /// Those of them that the client asks for.
    pub asked: Selected,
    /// Their times.
    pub span: TimeRange,
    /// Maximum number of packets.
    pub limit: Option<u64>,
}

/// What packets must match.
#[derive(Default)]
pub struct Selected {
    /// They match this expression.
    pub filter: Option<Filter>,
    /// The packets are of one of these flows.
    pub flows: Option<Arc<ChosenFlows>>,
}

impl Selected {
    fn has(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(packet, layers))
            && self.flows.as_ref().is_none_or(|flows| flows.has(packet, layers))
    }
}

impl PacketSource {
    /// Whether the files still exist.
    pub fn is_there(&self) -> bool {
        match &self.captures {
            Captures::Read(files) => !files.is_empty() && files.iter().all(Input::can_be_read_again),
            Captures::Written(dump_index) => !dump_index.of(TimeRange::default()).paths.is_empty(),
        }
    }

    /// Opens the files that may have packets of a time range. The text reports files that no longer exist.
    fn open(&self, span: TimeRange) -> Result<(Files, Option<String>), ReadError> {
        let (inputs, order, gone) = match &self.captures {
            Captures::Read(files) => (files.clone(), Order::Time, 0),
            // The files are in sequence, and the last one grows.
            Captures::Written(dump_index) => {
                let listed = || {
                    let files = dump_index.of(span);
                    (Input::keep(files.paths.into_iter().map(Input::Path).collect()), files.gone)
                };
                // A file may get its final name, or be replaced, between the list and its opening.
                let are_there = |(inputs, _): &(Vec<Input>, u64)| inputs.iter().all(Input::can_be_read_again);
                let found = (0..LISTED).map(|_| listed()).find(are_there);
                let (inputs, gone) = found.unwrap_or_else(listed);
                (inputs, Order::Listed, gone)
            }
        };
        let files = Files::open(&inputs, &ReadOptions { order, ..self.reading.clone() })?;
        let notice = format!("{gone} files of the dump no longer exist; their packets are left out");
        Ok((files, (gone > 0).then_some(notice)))
    }

    fn is_written(&self) -> bool {
        matches!(self.captures, Captures::Written(_))
    }

    /// Passes matching packets to `show`, in order, until it returns false. Returns what was left out.
    ///
    /// # Errors
    /// The files cannot be opened.
    pub fn read(
        &self,
        wanted: &Wanted,
        longest: Duration,
        show: &mut dyn FnMut(&Packet<'_>) -> bool,
    ) -> Result<Option<String>, Failure> {
        let mut left = wanted.limit;
        if left == Some(0) {
            return Ok(None);
        }
        let (mut files, mut partial) = match self.open(wanted.span) {
            Ok(opened) => opened,
            // No file of the dump has packets of that time.
            Err(ReadError::NoCapture { .. }) if self.is_written() => return Ok(None),
            Err(error) => return Err(Failure::unknown(error.to_string())),
        };
        let (mut chunk, started) = (PacketBuf::default(), Instant::now());
        let (mut link, mut others) = (None, 0_u64);
        'read: loop {
            match files.fill(&mut chunk) {
                Ok(true) => {}
                Ok(false) => break,
                // The record that is being written is incomplete.
                Err(error) if self.is_written() && error.severity() == Severity::Partial => {}
                // The summary has reported this error.
                Err(error) => partial = Some(error.to_string()),
            }
            for packet in chunk.batch().packets() {
                let TimeRange { from, to } = wanted.span;
                let time = packet.time.0;
                if from.is_some_and(|from| time < from) || to.is_some_and(|to| time >= to) {
                    continue;
                }
                let layers = decode(&packet);
                if !wanted.of_run.has(&packet, &layers) || !wanted.asked.has(&packet, &layers) {
                    continue;
                }
                // A pcap file has one link type.
                if *link.get_or_insert(packet.link) != packet.link {
                    others += 1;
                    continue;
                }
                if !show(&packet) {
                    partial = Some(format!("downloads are limited to {} GiB", MAX_BYTES >> 30));
                    break 'read;
                }
                left = left.map(|left| left - 1);
                if left == Some(0) {
                    break 'read;
                }
            }
            // Packets that arrived after the request are left out: a growing file might never end.
            let progress = files.progress();
            if self.is_written() && progress.total.is_some_and(|total| progress.bytes > total) {
                break;
            }
            if started.elapsed() > longest {
                partial = Some(format!(
                    "reading stopped after {} s, before the end of the capture",
                    longest.as_secs()
                ));
                break;
            }
        }
        if others > 0 && partial.is_none() {
            partial = Some(format!("{others} packets of other link types are left out"));
        }
        Ok(partial)
    }
}
