//! The time range of --since and --until.

use crate::cli::{TimeOptions, ZonedTimeOptions};
use crate::exit::{Exit, complain};
use crate::inputs::{exit_of, inputs};
use std::path::PathBuf;
use weir_capture::{Files, Input, TimeRange, latest};
use weir_output::figures::counted;
use weir_output::zone::Zone;
use weir_store::TimeRange as StoredRange;
use weir_store::moment::Moments;
use weir_wire::Time;

/// The zone of --tz, UTC without it.
///
/// # Errors
///
/// The zone does not exist.
pub fn zone(name: Option<&str>) -> Result<Zone, String> {
    name.map_or_else(|| Ok(Zone::utc()), Zone::named).map_err(|error| format!("--tz: {error}"))
}

/// The time range of packets in captures; `None` without --since and --until. Relative times count back from the latest
/// packet, for which all captures are read once.
///
/// # Errors
///
/// A time is not understood, the range is empty, or relative times are given for captures that can be read only once.
pub fn of_captures(
    options: &TimeOptions,
    zone: &Zone,
    inputs: &[Input],
) -> Result<Option<TimeRange>, (Exit, String)> {
    if !options.is_given() {
        return Ok(None);
    }
    let usage = |error| (Exit::Usage, error);
    let relative = [("--since", &options.since), ("--until", &options.until)]
        .into_iter()
        .find(|(_, text)| text.as_deref().is_some_and(|text| Moments::is_relative(text, zone)));
    let now = match relative {
        None => 0,
        Some((option, _)) => {
            if !inputs.iter().all(Input::can_be_read_again) {
                let text = "counts back from the latest packet, and standard input and pipes cannot be read twice: give a \
                            date and a time";
                return Err(usage(format!("{option} {text}")));
            }
            // `now` is after the latest packet.
            let latest = latest(inputs).map_err(|error| (exit_of(&error), error.to_string()))?;
            latest.map_or(0, |time| time.0.saturating_add(1))
        }
    };
    let range = of(options, &Moments { zone: zone.clone(), now }).map_err(usage)?;
    Ok(Some(TimeRange { from: Time(range.from.unwrap_or(0)), until: Time(range.to.unwrap_or(u64::MAX)) }))
}

/// The time range of packets in the captures of a command with its own --tz.
///
/// # Errors
///
/// See [`of_captures`]; the error has been reported.
pub fn of_files(options: &ZonedTimeOptions, files: &[PathBuf]) -> Result<Option<TimeRange>, Exit> {
    let zone = zone(options.tz.as_deref()).map_err(|error| complain(Exit::Usage, error))?;
    of_captures(&options.times, &zone, &inputs(files)).map_err(|(exit, error)| complain(exit, error))
}

/// The time range of --since and --until.
///
/// # Errors
///
/// A time is not understood, or the range is empty.
pub fn of(options: &TimeOptions, moments: &Moments) -> Result<StoredRange, String> {
    let end = |option: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => match moments.parse(text) {
            Ok(moment) => Ok(Some(moment.from)),
            Err(error) => Err(format!("{option} {text:?}: {error}")),
        },
    };
    let range = StoredRange { from: end("--since", &options.since)?, to: end("--until", &options.until)? };
    if let Some((from, to)) = range.from.zip(range.to).filter(|(from, to)| from >= to) {
        let what = if from == to { "has no length" } else { "ends before it begins" };
        let zone = &moments.zone;
        let shown = |time| format!("{} {}", zone.date_time(time), zone.label(time));
        return Err(format!("the time range {what}: --since is {}, --until is {}", shown(from), shown(to)));
    }
    Ok(range)
}

/// Reports that no packet of captures is in the time range, with the times of the packets in UTC.
pub fn report_outside(files: &Files) {
    let outside = files.outside();
    if let (Some((first, last)), 0) = (outside.times, files.progress().packets) {
        let shown = |time: Time| Zone::utc().date_time(time.0);
        let all = counted(outside.packets, "packet");
        eprintln!("weir: no packet is in the time range: {all} from {} to {} UTC", shown(first), shown(last));
    }
}
