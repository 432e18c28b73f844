//! `weir anon`, and the anonymiser of a run.

mod audit;

use crate::cli;
use crate::config::{self, MAX_SHIFT};
use crate::dump::GRACE;
use crate::exit::{Exit, complain};
use crate::inputs::{inputs, report_read_errors};
use crate::signals::Signals;
use crate::times;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use weir_anon::{Anonymiser, Key, Mode, Originals, Payload, Policy};
use weir_capture::{Files, Input, InterfaceInfo, PacketWriter, Patience, ReadOptions, Target, WriteOptions};
use weir_files::open_named;
use weir_output::figures::count;
use weir_wire::{PacketBuf, Time};

/// The anonymiser of a run, from the command line or, without such options, from the configuration.
pub fn of_run(options: &cli::AnonRun, config: &config::Anon) -> Result<Option<Anonymiser>, String> {
    match options.mode.map(mode).or(config.mode) {
        Some(mode) => anonymiser(mode, &options.how, config).map(Some),
        None => match options.how.given() {
            Some(option) => Err(format!("{option} has no effect without --anon MODE")),
            None => Ok(None),
        },
    }
}

fn mode(mode: cli::AnonMode) -> Mode {
    match mode {
        cli::AnonMode::Nullip => Mode::Nullip,
        cli::AnonMode::Table => Mode::Table,
        cli::AnonMode::Cryptopan => Mode::CryptoPan,
        cli::AnonMode::Ipcrypt => Mode::IpCrypt,
    }
}

fn anonymiser(mode: Mode, how: &cli::AnonHow, config: &config::Anon) -> Result<Anonymiser, String> {
    // A device can be a key's source on the command line. weir.toml names files.
    let given = how.key_file.as_ref().map(|path| (path, File::open(path)));
    let named = || config.key_file.as_ref().map(|path| (path, open_named(Path::new(""), path)));
    let key = match (given.or_else(named), mode.is_keyed()) {
        (Some((path, file)), true) => read_key(path, file)?,
        (None, true) => {
            return Err(format!(
                "{} needs a key: --key-file FILE of 32 bytes, as `head -c 32 /dev/urandom` makes one",
                mode.name()
            ));
        }
        (Some(_), false) => return Err(format!("{} takes no key: it is random for each run", mode.name())),
        (None, false) => random_key()?,
    };
    let shift = how.shift.or(config.shift).unwrap_or_default();
    if !shift.is_finite() || shift.abs() > MAX_SHIFT {
        return Err("--shift: at most 1000000000 seconds".to_owned());
    }
    let payload = how.payload.map(|payload| match payload {
        cli::AnonPayload::Cut => Payload::Cut,
        cli::AnonPayload::Blank => Payload::Blank,
        cli::AnonPayload::Keep => Payload::Keep,
    });
    let mut policy = Policy {
        mode,
        payload: payload.or(config.payload).unwrap_or_default(),
        shift: (shift * 1e9).round() as i64,
        vendors: how.keep_vendors || config.keep_vendors,
        top_domains: !how.hide_top_domains && !config.hide_top_domains,
        ..Policy::default()
    };
    config.classes.iter().for_each(|(class, treatment)| policy.treat(class, *treatment));
    for text in &how.anon_field {
        policy.fields.push(text.parse().map_err(|error| format!("--anon-field: {error}"))?);
    }
    policy.fields.extend(config.fields.iter().cloned());
    if let Some(text) = &how.anon_policy {
        policy.set(text).map_err(|error| format!("--anon-policy: {error}"))?;
    }
    Anonymiser::new(policy, &key)
}

/// Reads a key of 32 bytes, in binary or as hexadecimal digits.
fn read_key(path: &Path, file: io::Result<File>) -> Result<Key, String> {
    let failed = |error: String| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = file.map_err(|error| failed(error.to_string()))?;
    // Reading is limited because a device may have no end.
    file.take(200).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if let Some(key) = bytes.first_chunk::<32>().filter(|_| bytes.len() == 32) {
        return Ok(Key(*key));
    }
    let digits = bytes.trim_ascii();
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let key: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((value(high)? << 4 | value(low)?) as u8),
            _ => None,
        })
        .collect();
    match key.as_deref().and_then(|key| key.first_chunk::<32>()).filter(|_| digits.len() == 64) {
        Some(key) => Ok(Key(*key)),
        None => Err(failed(format!(
            "a key has 32 bytes or 64 hexadecimal digits, but the file has {} bytes",
            bytes.len()
        ))),
    }
}

/// A random key, which is not stored.
fn random_key() -> Result<Key, String> {
    let mut key = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut key));
    read.map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(Key(key))
}

/// Removes names and descriptions of interfaces, which may identify their owner.
pub fn nameless(interfaces: &[InterfaceInfo]) -> Vec<InterfaceInfo> {
    let known = interfaces.iter().cloned();
    known.map(|interface| InterfaceInfo { name: None, description: None, ..interface }).collect()
}

/// Whether a file that is to be written is one of the inputs.
fn is_read(output: &Path, inputs: &[Input]) -> bool {
    let Ok(output) = output.canonicalize() else { return false };
    Input::files(inputs).iter().any(|path| path.canonicalize().is_ok_and(|path| path == output))
}

/// Writes an anonymised copy of a capture.
pub fn anon(options: &cli::Anon) -> Exit {
    let mut anonymiser = match anonymiser(mode(options.mode), &options.how, &config::Anon::default()) {
        Ok(anonymiser) => anonymiser,
        Err(error) => return complain(Exit::Usage, format!("anon: {error}")),
    };
    let mut originals = (options.audit || !options.audit_path.is_empty()).then(Originals::default);
    let is_stream = |path: &Path| path.as_os_str() == "-";
    let reads_again = !options.audit_path.is_empty() && is_stream(&options.input);
    if reads_again || options.audit && options.output.as_deref().is_some_and(is_stream) {
        return complain(
            Exit::Usage,
            "anon: --audit and --audit-path read captures a second time: none can be `-`",
        );
    }
    let Some(output) = &options.output else {
        return audit::look_through(&options.input, &options.audit_path, &mut anonymiser, options.quiet);
    };
    if is_read(output, &inputs([&options.input])) {
        let text = format!("anon: {} is read: give another name for the copy", output.display());
        return complain(Exit::Usage, text);
    }
    // After a signal, the packets read so far are written and the file gets its final name.
    let signals = Signals::default();
    if let Err(error) = signals.take(false, false) {
        return complain(Exit::Usage, error);
    }
    let times = match times::of_files(&options.times, std::slice::from_ref(&options.input)) {
        Ok(times) => times,
        Err(exit) => return exit,
    };
    let reading = ReadOptions { stop: Some(Arc::clone(&signals.stop)), times, ..ReadOptions::default() };
    let mut files = match Files::open(&inputs([&options.input]), &reading) {
        Ok(files) => files,
        Err(error) => return report_read_errors(std::slice::from_ref(&error)),
    };
    let target = match output.to_str() {
        Some("-") => Target::Stdout,
        _ => Target::Path(output.clone()),
    };
    let write = WriteOptions {
        application: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
        patience: Some(Patience { ends: Arc::clone(&signals.stop), grace: GRACE }),
        ..WriteOptions::default()
    };
    let mut writer = match PacketWriter::create(target, write, &nameless(files.interfaces()), Time(0)) {
        Ok(writer) => writer,
        Err(error) => return complain(Exit::Output, error),
    };
    let (mut chunk, mut out) = (PacketBuf::default(), Vec::new());
    let (mut read, mut described) = (Vec::new(), files.interfaces().len());
    let mut failed = None;
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                read.push(error);
                continue;
            }
        }
        if files.interfaces().len() > described {
            let interfaces = nameless(files.interfaces());
            for (number, interface) in interfaces.iter().enumerate().skip(described) {
                writer.describe(number as u32, interface.clone());
            }
            described = interfaces.len();
        }
        if signals.ends() {
            break;
        }
        for packet in chunk.batch().packets() {
            if let Some(originals) = &mut originals {
                originals.packet(&packet);
            }
            if let Err(error) = writer.write(&anonymiser.packet(&packet, &mut out)) {
                failed.get_or_insert(error);
            }
        }
    }
    let mut exit = report_read_errors(&read);
    if signals.has_interrupted() {
        exit = exit.or(complain(Exit::Interrupted, "interrupted: the rest of the capture was not read"));
    }
    let (written, closed) = writer.close();
    if let Err(error) = closed {
        failed.get_or_insert(error);
    }
    if let Some(error) = failed {
        exit = exit.or(complain(Exit::Output, error));
    }
    // The report must not mix with packets on standard output.
    if !options.quiet && output.as_os_str() != "-" {
        let lost = if written.lost > 0 { format!(", {} LOST", count(written.lost)) } else { String::new() };
        println!("{} packets written to {}{lost}", count(written.packets), output.display());
    }
    if signals.has_interrupted() {
        return exit;
    }
    if let Some(originals) = originals.filter(|_| options.audit) {
        exit = exit.or(audit::look(&originals, &mut anonymiser, output, options.quiet));
    }
    if !options.audit_path.is_empty() {
        exit =
            exit.or(audit::look_through(&options.input, &options.audit_path, &mut anonymiser, options.quiet));
    }
    exit
}
