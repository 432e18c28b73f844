//! The packets of triggers over capture files, which are read once more.

use super::file::{DumpFile, Wanted};
use super::{Opened, Outcome};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_capture::{Files, Input, ReadError, ReadOptions};
use weir_engine::ChosenFlows;
use weir_filter::{Filter, Options};
use weir_wire::{Layers, Packet, PacketBuf, decode};

/// Number of files that are written in one pass over the captures: each has a buffer.
const AT_A_TIME: usize = 64;

/// What is read again.
pub struct Captures<'r> {
    /// The captures.
    pub inputs: &'r [Input],
    /// How they are read.
    pub read: &'r ReadOptions,
    /// The expression of the run.
    pub expression: &'r str,
    /// How expressions are interpreted.
    pub options: Options<'r>,
    /// The flows that the run selected, if an expression over flows and records did.
    pub chosen: Option<&'r ChosenFlows>,
    /// Set to end.
    pub stop: &'r AtomicBool,
}

/// Reads the captures again and writes the packets of the files that events have opened.
///
/// # Errors
/// The captures cannot be opened again, or the expression of the run is invalid.
pub fn write_files(opened: &[Opened], captures: &Captures<'_>) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut names: HashSet<PathBuf> = HashSet::new();
    // The first packets have the room of a trigger.
    let mut rooms: HashMap<String, Arc<AtomicU64>> = HashMap::new();
    let of_run = match captures.expression {
        "" => None,
        text => Some(Filter::compile(text, &captures.options).map_err(|error| error.to_string())?),
    };
    let mut opened: Vec<&Opened> = opened.iter().collect();
    opened.sort_by_key(|one| (one.event.begin, one.trigger.name.clone(), one.event.subject.clone()));
    for part in opened.chunks(AT_A_TIME) {
        let mut dumps = Vec::new();
        for one in part {
            match Wanted::of(one, &captures.options) {
                Ok(wanted) => {
                    let limit = one.trigger.dump.limit.unwrap_or(u64::MAX);
                    let room =
                        rooms.entry(one.trigger.name.clone()).or_insert_with(|| Arc::new(limit.into()));
                    let file = DumpFile::new(one, &wanted, Arc::clone(room), |path| names.contains(path));
                    names.insert(file.path().to_owned());
                    dumps.push((wanted, file));
                }
                Err(error) => outcome.failed.push(format!("trigger {}: {error}", one.trigger.name)),
            }
        }
        read_once(&mut dumps, captures, of_run.as_ref())?;
        for (_, file) in dumps {
            let failed = file.finish(&mut outcome);
            outcome.failed.extend(failed);
        }
        if captures.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(outcome)
}

/// Reads the captures once for some files, of the packets that the expression of the run selects.
fn read_once(
    dumps: &mut [(Wanted, DumpFile)],
    captures: &Captures<'_>,
    of_run: Option<&Filter>,
) -> Result<(), String> {
    let is_of_run = |packet: &Packet<'_>, layers: &Layers| {
        of_run.is_none_or(|filter| filter.matches(packet, layers))
            && captures.chosen.is_none_or(|flows| flows.has(packet, layers))
    };
    let mut files = Files::open(captures.inputs, captures.read)
        .map_err(|error: ReadError| format!("the captures cannot be read again: {error}"))?;
    let mut chunk = PacketBuf::default();
    while !captures.stop.load(Ordering::Relaxed) {
        match files.fill(&mut chunk) {
            Ok(true) => {}
            Ok(false) => break,
            // The pass has reported it.
            Err(_) => continue,
        }
        for packet in chunk.batch().packets() {
            let takes = |(wanted, file): &(Wanted, DumpFile)| wanted.has_time(packet.time) && file.is_open();
            if !dumps.iter().any(takes) {
                continue;
            }
            let layers = decode(&packet);
            if !is_of_run(&packet, &layers) {
                continue;
            }
            for (wanted, file) in dumps.iter_mut().filter(|one| takes(one)) {
                if wanted.selects(&packet, &layers) {
                    file.write(&packet, files.interfaces());
                }
            }
        }
    }
    Ok(())
}
