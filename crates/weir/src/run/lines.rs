//! A live run without a terminal for the full screen: one line a second.

use super::{Exit, Run, complain};
use crate::printer::Printer;
use weir_api::Snapshot;
use weir_capture::{LinkChange, LinkEvent};
use weir_output::zone::Zone;

/// Prints a line for each tick.
pub struct Lines {
    printer: Printer,
    /// Whether standard output is reserved for packets, a log or the summary in JSON.
    silent: bool,
    zone: Zone,
    names: bool,
    waits: bool,
}

impl Lines {
    /// Starts printing. `waits` is whether the run waits for removed interfaces.
    pub fn new(run: &Run, waits: bool) -> Lines {
        let to_stdout = run.request.has_standard_output();
        Lines {
            printer: Printer::start(run.options.line_buffered, Some(run.stop())),
            silent: to_stdout || run.options.quiet || run.options.json || run.beside.is_some(),
            zone: run.zone.clone(),
            names: !run.options.numeric,
            waits,
        }
    }

    /// Prints the line of a tick.
    pub fn tick(&mut self, tick: &Snapshot) {
        if !self.silent {
            self.printer.offer(weir_output::summary::line(tick, &self.zone, self.names) + "\n");
        }
    }

    /// Reports a change of a link on standard error.
    pub fn link(&mut self, event: &LinkEvent) {
        eprintln!("weir: {}", notice(event, &self.zone, self.waits));
    }

    /// Waits until all lines are printed.
    pub fn finish(self) -> Exit {
        Self::end(self.printer)
    }

    /// Waits until all texts of a printer are printed, and reports the number of shed ones.
    pub fn end(printer: Printer) -> Exit {
        match printer.finish() {
            Ok(0) => Exit::Good,
            Ok(shed) => complain(Exit::Output, format!("standard output is too slow: {shed} lines shed")),
            Err(error) => complain(Exit::Output, format!("standard output: {error}")),
        }
    }
}

/// Text for a change of a link.
pub fn notice(event: &LinkEvent, zone: &Zone, waits: bool) -> String {
    let what = match event.change {
        LinkChange::Down => "is down: no packets until it is up again",
        LinkChange::Up => "is up again",
        LinkChange::Removed if waits => "was removed: waiting until it returns",
        LinkChange::Removed => "was removed",
        LinkChange::Back => "has returned",
    };
    format!("{} {}: {what}", zone.date_time(event.at.0), event.name)
}
