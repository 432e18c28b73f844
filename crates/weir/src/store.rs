//! `weir store`: shows the state and the series of a store, and exports series.

use crate::cli::{StoreCommand, ZonedTimeOptions};
use crate::database;
use crate::exit::{Exit, complain};
use crate::query::exit_of;
use crate::times;
use std::path::Path;
use weir_api::web::{SeriesInfo, StoreState};
use weir_output::figures::{bytes, printable};
use weir_store::moment::Moments;
use weir_store::{Store, StoreError, TimeRange, export};

/// Points of a series to export to Prometheus: two weeks at intervals of five minutes.
const POINTS: usize = 4032;

/// Runs the command.
pub fn store(command: &StoreCommand) -> Exit {
    let done = match command {
        StoreCommand::State { dir, json } => open(dir).and_then(|store| {
            let state = store.state()?;
            match json {
                true => println!("{}", serde_json::to_string(&state).unwrap_or_default()),
                false => print!("{}", shown(&state)),
            }
            Ok(())
        }),
        StoreCommand::Series { dir } => open(dir).and_then(|store| {
            for SeriesInfo { id, unit, help } in store.series()? {
                println!("{}  {}  {}", printable(&id), printable(&unit), printable(&help));
            }
            Ok(())
        }),
        StoreCommand::Export { dir, rrd, series, times, .. } => open(dir).and_then(|store| {
            if rrd.is_some() && times.times.is_given() {
                let text = "--rrd writes whole series: --since and --until are for --prometheus";
                return Err(StoreError::Unknown(text.to_owned()));
            }
            let range = range(&*store, times)?;
            let chosen = choose(&*store, series)?;
            match rrd {
                Some(folder) => write_rrd(&*store, &chosen, folder),
                None => {
                    print!("{}", export::open_metrics(&*store, &chosen, range, POINTS)?);
                    Ok(())
                }
            }
        }),
    };
    match done {
        Ok(()) => Exit::Good,
        Err(error @ StoreError::File { .. }) => complain(Exit::Output, error),
        Err(error) => complain(exit_of(&error), error),
    }
}

/// The time range of --since and --until. Relative times count back from the end of the stored data.
fn range(store: &dyn Store, options: &ZonedTimeOptions) -> Result<TimeRange, StoreError> {
    let zone = times::zone(options.tz.as_deref()).map_err(StoreError::Unknown)?;
    let now = store.extent()?.map_or(0, |(_, last)| last);
    times::of(&options.times, &Moments { zone, now }).map_err(StoreError::Unknown)
}

fn open(folder: &Path) -> Result<Box<dyn Store>, StoreError> {
    database::read(folder, None)
}

fn choose(store: &dyn Store, names: &[String]) -> Result<Vec<SeriesInfo>, StoreError> {
    let all = store.series()?;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|info| info.id == **name)) {
        return Err(StoreError::Unknown(format!("no series {unknown:?}; `weir store series` lists them")));
    }
    Ok(all.into_iter().filter(|info| names.is_empty() || names.contains(&info.id)).collect())
}

fn write_rrd(store: &dyn Store, series: &[SeriesInfo], folder: &Path) -> Result<(), StoreError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| StoreError::File { path, error }
    };
    weir_files::make_folders(folder).map_err(failed(folder))?;
    for info in series {
        let path = folder.join(file_name(&info.id));
        weir_files::write(&path, export::rrd(&store.archive(&info.id)?).as_bytes()).map_err(failed(&path))?;
    }
    println!("{} files for `rrdtool restore` in {}", series.len(), folder.display());
    Ok(())
}

/// A name that every file system accepts: characters other than letters, digits, dots and dashes are replaced by their
/// bytes.
fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        match byte {
            b'/' => name.push('_'),
            b if b.is_ascii_alphanumeric() || b == b'-' || b == b'.' => name.push(b as char),
            b => name.push_str(&format!("%{b:02x}")),
        }
    }
    name + ".xml"
}

fn shown(state: &StoreState) -> String {
    let mut text = format!(
        "{}: {} of {} at most; {} free on the disk; series and lists need {} when all tiers are full\n",
        state.path,
        bytes(state.bytes),
        bytes(state.limit),
        bytes(state.free),
        bytes(state.bound)
    );
    for tier in &state.tiers {
        let days = tier.keep / 86_400.0;
        let size = if tier.bytes > 0 { format!(", {}", bytes(tier.bytes)) } else { String::new() };
        text.push_str(&format!("  {:<20} kept for {days:.0} days{size}\n", tier.name));
    }
    text
}
