//! A live run where there is no terminal for the full screen: one line a second.

use super::{Exit, Session, complain};
use crate::printer::Printer;
use weir_api::Snapshot;
use weir_capture::{LinkChange, LinkEvent};
use weir_output::zone::Zone;

/// Prints a line for each pulse, the summary at the end.
pub struct Lines {
    printer: Printer,
    /// Standard output is for packets or for the summary's facts alone.
    silent: bool,
    zone: Zone,
    names: bool,
}

impl Lines {
    /// Begins to print.
    pub fn new(session: &Session) -> Lines {
        let to_stdout = session.options.write.as_deref() == Some("-");
        Lines {
            printer: Printer::start(session.options.line_buffered),
            silent: to_stdout || session.options.quiet || session.options.json || session.beside.is_some(),
            zone: session.zone.clone(),
            names: !session.options.numeric,
        }
    }

    /// Prints what the last second had.
    pub fn tick(&mut self, tick: &Snapshot) {
        if !self.silent {
            self.printer.offer(weir_output::summary::line(tick, &self.zone, self.names) + "\n");
        }
    }

    /// Says on standard error that a link went or came: what it carried in between was not seen. The words.
    pub fn link(&mut self, event: &LinkEvent) -> String {
        let text = notice(event, &self.zone);
        eprintln!("weir: {text}");
        text
    }

    /// Waits for the lines to be read.
    pub fn finish(self) -> Exit {
        Self::end(self.printer)
    }

    /// Waits for a printer's texts to be read, and says what was not.
    pub fn end(printer: Printer) -> Exit {
        match printer.finish() {
            Ok(0) => Exit::Good,
            Ok(shed) => {
                complain(Exit::Output, format!("standard output was not read: {shed} lines were shed"))
            }
            Err(error) => complain(Exit::Output, format!("standard output: {error}")),
        }
    }
}

/// A change of a link in words.
pub fn notice(event: &LinkEvent, zone: &Zone) -> String {
    let what = match event.change {
        LinkChange::Down => "is down: nothing is seen until it is up again",
        LinkChange::Up => "is up again",
        LinkChange::Removed => "is gone: waiting for its name to return",
        LinkChange::Back => "is back",
    };
    format!("{} {}: {what}", zone.date_time(event.at.0), event.name)
}
