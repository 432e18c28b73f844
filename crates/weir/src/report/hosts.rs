//! `weir report --store DIR --hosts hour|day|week`: the hosts of the lists of a store.

use super::{gather, ndjson, page, text};
use crate::cli::{self, HostPeriod};
use crate::exit::{Exit, complain};
use crate::query::exit_of;
use crate::{database, times};
use std::path::Path;
use weir_store::StoreError;
use weir_store::moment::Moments;
use weir_store::period::Period;

/// Prints the report.
pub fn report(options: &cli::Report) -> Exit {
    let asked = &options.hosts;
    let (Some(period), Some(folder)) = (asked.period, &asked.store) else {
        return complain(Exit::Usage, "report: --hosts needs --store DIR");
    };
    if options.anon.mode.is_some() || options.anon.how.given().is_some() {
        return complain(
            Exit::Usage,
            "report: --anon is for captures. What a run with --anon has stored is anonymised, and so is its report",
        );
    }
    let period = match period {
        HostPeriod::Hour => Period::Hour,
        HostPeriod::Day => Period::Day,
        HostPeriod::Week => Period::Week,
    };
    let report = match gathered(options, period, folder) {
        Ok(report) => report,
        Err((exit, error)) => return complain(exit, error),
    };
    let limit = if asked.limit == 0 { usize::MAX } else { asked.limit };
    if let Some(path) = &asked.html {
        return match weir_files::write(path, page::page(&report, limit).as_bytes()) {
            Ok(()) => Exit::Good,
            Err(error) => complain(Exit::Output, format!("{}: {error}", path.display())),
        };
    }
    let out = if asked.json { ndjson::ndjson(&report) } else { text::text(&report, limit) };
    print!("{out}");
    Exit::Good
}

/// Reads the store.
fn gathered(
    options: &cli::Report,
    period: Period,
    folder: &Path,
) -> Result<gather::HostsReport, (Exit, String)> {
    let usage = |error: String| (Exit::Usage, error);
    let failed = |error: StoreError| (exit_of(&error), error.to_string());
    let zone = times::zone(options.times.tz.as_deref()).map_err(usage)?;
    let store = database::read(folder, None).map_err(failed)?;
    let extent = store.extent().map_err(failed)?;
    let Some((first, last)) = extent else {
        return Err((Exit::Unreadable, format!("{}: nothing is stored yet", folder.display())));
    };
    let span = match &options.hosts.at {
        None => period.last_complete(first, last),
        Some(text) => {
            let moments = Moments { zone: zone.clone(), now: last };
            let moment = moments.parse(text).map_err(|error| usage(format!("--at {text:?}: {error}")))?;
            period.of(moment.from)
        }
    };
    let signatures = database::signatures(folder).all().map_err(failed)?;
    let (weight, home) = (options.hosts.weight, options.hosts.home());
    let wanted = gather::Wanted { period, span, zone, weight, home, signatures };
    gather::gather(&*store, wanted, (first, last)).map_err(failed)
}
