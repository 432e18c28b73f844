//! Searches anonymised output for original values.

use crate::exit::{Exit, complain};
use crate::inputs::filter_options;
use crate::offline;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weir_anon::{Anonymiser, Finder, Leak, Originals};
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_capture::{Files, Input, ReadOptions, Source};
use weir_engine::{ChecksumMode, Emitted, FlowConfig, Plan, Settings, Sink, Worker};
use weir_output::figures::count;

/// Maximum number of leaks to list.
const TOLD: usize = 20;

/// Searches an anonymised capture for original values; exit code 4 if one is found.
pub fn look(originals: &Originals, anonymiser: &mut Anonymiser, path: &Path, quiet: bool) -> Exit {
    let finder = match originals.finder(anonymiser) {
        Ok(finder) => finder,
        Err(error) => return complain(Exit::Output, format!("audit: {error}")),
    };
    let mut files = match Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()) {
        Ok(files) => files,
        Err(error) => return complain(Exit::Output, format!("audit: {error}")),
    };
    let (mut packets, mut leaks) = (0_u64, 0_usize);
    while !files.is_drained() {
        let batch = match files.next_batch(Duration::ZERO) {
            Ok(batch) => batch,
            Err(error) => return complain(Exit::Output, format!("audit: {error}")),
        };
        for packet in batch.packets() {
            packets += 1;
            for leak in finder.packet(&packet) {
                leaks += 1;
                if leaks <= TOLD {
                    emit(&format!("packet {packets}"), &leak);
                }
            }
        }
    }
    conclude(originals, &format!("{} packets", count(packets)), leaks, quiet)
}

/// Collects private values.
struct Noted(Originals);

impl Sink for Noted {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Matching(packets) => packets.packets().for_each(|packet| self.0.packet(&packet)),
            Emitted::Record(_, record, _) => self.0.record(&record),
            _ => {}
        }
    }
}

/// Collects all private values of a capture, from its packets and records.
fn originals(path: &Path) -> Result<Originals, String> {
    let settings = Settings {
        filter: filter_options(false, false, 0),
        checksum: ChecksumMode::Off,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    let all = SubscriptionSpec::delivering("records", Level::Record, vec![FunctionCall::new("rows")]);
    let plan = Arc::new(Plan::new("", vec![all], settings).map_err(|error| error.to_string())?);
    let worker = Worker::new(Arc::clone(&plan), &FlowConfig::default());
    let files = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default())
        .map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    let input = offline::Input::whole(files, &plan, TICK, &stop);
    let (outcome, whole) = offline::run_one(input, worker, Noted(Originals::default()));
    match outcome.errors.first() {
        Some(error) => Err(error.to_string()),
        None => Ok(whole.sink.0),
    }
}

/// Interval at which idle flows end, in nanoseconds of packet time.
const TICK: u64 = 10_000_000_000;
/// Bytes of a file that are searched at a time.
const PART: usize = 4 << 20;

/// Searches files and folders for all private values of a capture; exit code 4 if one is found.
pub fn look_through(capture: &Path, paths: &[PathBuf], anonymiser: &mut Anonymiser, quiet: bool) -> Exit {
    let originals = match originals(capture) {
        Ok(originals) => originals,
        Err(error) => return complain(Exit::Unreadable, format!("audit: {error}")),
    };
    let finder = match originals.finder(anonymiser) {
        Ok(finder) => finder,
        Err(error) => return complain(Exit::Output, format!("audit: {error}")),
    };
    let (mut files, mut bytes, mut leaks) = (0_u64, 0_u64, 0_usize);
    let mut found = |place: &str, leak: &Leak| {
        leaks += 1;
        if leaks <= TOLD {
            emit(place, leak);
        }
    };
    for path in paths {
        let done = walk(path, &mut |file| {
            files += 1;
            let place = file.display().to_string();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            finder.text(name.as_bytes()).iter().for_each(|leak| found(&format!("the name of {place}"), leak));
            bytes += through(&finder, file, &mut |leak| found(&place, leak))?;
            Ok(())
        });
        if let Err(error) = done {
            return complain(Exit::Unreadable, format!("audit: {}: {error}", path.display()));
        }
    }
    let through = format!("{} files of {} bytes", count(files), count(bytes));
    conclude(&originals, &through, leaks, quiet)
}

/// Calls `work` for every file at a path and below it, in order of names.
fn walk(path: &Path, work: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if !path.is_dir() {
        return work(path);
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    entries.sort();
    entries.iter().filter(|entry| !entry.is_symlink()).try_for_each(|entry| walk(entry, work))
}

/// Searches a file: a capture packet by packet, any other file as stored or decompressed. Returns its length in bytes.
fn through(finder: &Finder, path: &Path, found: &mut dyn FnMut(&Leak)) -> io::Result<u64> {
    let mut head = [0; 4];
    let got = File::open(path)?.take(4).read(&mut head)?;
    if let Ok(mut files) = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()) {
        let mut bytes = 0;
        while !files.is_drained() {
            let batch = files.next_batch(Duration::ZERO);
            for packet in batch.map_err(|error| io::Error::other(error.to_string()))?.packets() {
                bytes += packet.data.len() as u64;
                finder.packet(&packet).iter().for_each(&mut *found);
            }
        }
        return Ok(bytes);
    }
    let file = File::open(path)?;
    let mut source: Box<dyn Read> = match &head[..got] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(file)?),
        _ => Box::new(file),
    };
    // The first line of CSV has the names of columns.
    let is_table = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".csv"));
    // A match across two parts is found in the second, which is searched together with the end of the first.
    let lap = finder.longest() + 1;
    let (mut part, mut before, mut fresh) = (Vec::new(), 0_u64, 0_usize);
    loop {
        let wanted = (PART + lap).saturating_sub(part.len()) as u64;
        let is_last = (source.by_ref().take(wanted).read_to_end(&mut part)? as u64) < wanted;
        let end = if is_last { part.len() } else { part.len() - lap };
        for mut leak in finder.log(&part, is_table && before == 0) {
            if (fresh..end).contains(&leak.at) {
                leak.at += before as usize;
                found(&leak);
            }
        }
        if is_last {
            return Ok(before + part.len() as u64);
        }
        let keep = end - 1;
        part.drain(..keep);
        before += keep as u64;
        fresh = 1;
    }
}

fn emit(place: &str, leak: &Leak) {
    let form = if leak.is_text { "text" } else { "bytes" };
    eprintln!("weir: audit: {place}, byte {}: {} as {form}", leak.at, leak.what.escape_debug());
}

fn conclude(originals: &Originals, through: &str, leaks: usize, quiet: bool) -> Exit {
    let (addresses, names) = originals.len();
    let wanted = format!("{} addresses and {} names", count(addresses as u64), count(names as u64));
    if leaks > 0 {
        let text = format!("audit: of {wanted}, {} LEAKS in {through}", count(leaks as u64));
        return complain(Exit::Output, text);
    }
    if !quiet {
        println!("audit: of {wanted}, none in {through}");
    }
    Exit::Good
}
