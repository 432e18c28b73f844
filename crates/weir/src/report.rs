//! `weir report`: one page about a capture, and the model of its traffic; or the hosts of an hour, a day or a week in a
//! store, and the beacons and what is new in a day.

mod flows;
mod gather;
mod hosts;
mod ndjson;
mod page;
mod text;
pub mod written;

use crate::anon::of_run;
use crate::config;
use crate::drive::WholeRun;
use crate::exit::{Exit, complain};
use crate::inputs::{filter_options, inputs, report_read_errors};
use crate::offline::{self, Input, Outcome};
use crate::{cli, subscriptions, times};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_capture::{Files, ReadOptions};
use weir_engine::{ChecksumMode, FlowConfig, Plan, Settings, Worker};
use weir_output::model::{Gather, Model};
use weir_output::report::{self, Heading};
use weir_output::zone::Zone;

/// Interval at which idle flows are searched for, in nanoseconds of packet time.
const TICK: u64 = 1_000_000_000;

/// Reads captures, or a store, and writes the report.
pub fn report(options: &cli::Report) -> Exit {
    if options.hosts.period.is_some() {
        return hosts::report(options);
    }
    if options.hosts.beacons || options.hosts.new {
        return flows::report(options);
    }
    let mut anonymiser = match of_run(&options.anon, &config::Anon::default()) {
        Ok(anonymiser) => anonymiser,
        Err(error) => return complain(Exit::Usage, format!("report: {error}")),
    };
    let (mut gather, mut problems, exit) = match read(options) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let model = gather.model();
    let names = options.files.iter().map(|path| path.display().to_string());
    let mut title = names.collect::<Vec<_>>().join(", ");
    if let Some(anonymiser) = &mut anonymiser {
        gather.anonymise(anonymiser);
        // File names may identify the owner of the packets.
        title = "anonymised".to_owned();
        let many = problems.len();
        problems =
            (many > 0).then(|| format!("{many} inputs could not be read to their end")).into_iter().collect();
    }
    let page = report::html(&mut gather, &model, &Heading { title, zone: Zone::utc(), problems });
    match write(options, &page, &model) {
        Ok(()) => exit,
        Err(error) => exit.or(complain(Exit::Output, error)),
    }
}

fn write(options: &cli::Report, page: &str, model: &Model) -> Result<(), String> {
    let put = |path: &Path, text: &str| {
        weir_files::write(path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))
    };
    put(&options.output, page)?;
    if let Some(path) = &options.model {
        let text = serde_json::to_string_pretty(model).map_err(|error| error.to_string())?;
        put(path, &(text + "\n"))?;
    }
    if let Some(directory) = &options.csv {
        weir_files::make_folders(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        put(&directory.join("distributions.csv"), &report::distributions_csv(model))?;
        put(&directory.join("fits.csv"), &report::fits_csv(model))?;
    }
    Ok(())
}

/// Takes every packet through one worker, so that the result depends only on the order of the packets.
fn read(options: &cli::Report) -> Result<(Gather, Vec<String>, Exit), Exit> {
    let settings = Settings {
        filter: filter_options(false, false, 0),
        checksum: ChecksumMode::Auto,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    let plan = Plan::of(
        None,
        1,
        options.expression.as_deref().unwrap_or_default(),
        &subscriptions::of_report(),
        settings,
    )
    .map_err(|error| complain(Exit::Usage, error))?;
    let plan = Arc::new(plan);
    let worker = Worker::new(Arc::clone(&plan), &FlowConfig::default());
    let times = times::of_files(&options.times, &options.files)?;
    let files = Files::open(&inputs(&options.files), &ReadOptions { times, ..ReadOptions::default() })
        .map_err(|error| report_read_errors(std::slice::from_ref(&error)))?;
    let stop = AtomicBool::new(false);
    // Flows are split by their own gaps as well.
    let input = Input::whole(files, &plan, TICK, &stop);
    let (Outcome { files, errors, .. }, WholeRun { sink: gather, .. }) =
        offline::run_one(input, worker, Gather::default());
    times::report_outside(&files);
    let problems = errors.iter().map(ToString::to_string).collect();
    let exit = report_read_errors(&errors);
    if gather.packets == 0 && exit != Exit::Good { Err(exit) } else { Ok((gather, problems, exit)) }
}
