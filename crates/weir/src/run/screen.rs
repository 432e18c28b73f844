//! A live run on the full screen of a terminal.

use super::lines::notice;
use super::packet_files::PacketWriters;
use super::reload::Reload;
use super::{Exit, Run, complain};
use crate::collector::{Collector, Message};
use crate::desk::Change;
use crate::dump::index::DumpIndex;
use crate::dump::{Dump, For};
use crate::live::{Action, History, LiveView, Screen};
use crate::online::LiveClock;
use crate::outlet::{MATCHING, PacketFiles};
use crossbeam_channel::Receiver;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_api::Snapshot;
use weir_capture::InterfaceInfo;

/// Maximum wait for a key between checks for messages.
const PATIENCE: Duration = Duration::from_millis(40);
/// Interval of redraws without changes.
const REDRAW: Duration = Duration::from_millis(250);

/// The screen and its data.
pub struct FullScreen<'s> {
    run: &'s Run,
    screen: Screen,
    clock: LiveClock,
    interfaces: Vec<InterfaceInfo>,
    started: u64,
    last: Snapshot,
    /// Totals since the expression was changed.
    total: Snapshot,
    history: History,
    notice: Option<String>,
    /// The file that the `w` key started.
    writing: Option<(String, Dump)>,
}

impl<'s> FullScreen<'s> {
    /// Takes over the terminal.
    pub fn new(run: &'s Run, screen: Screen, clock: LiveClock, interfaces: Vec<InterfaceInfo>) -> Self {
        Self {
            run,
            screen,
            clock,
            interfaces,
            started: clock.now().0,
            last: Snapshot::default(),
            total: Snapshot::default(),
            history: History::default(),
            notice: None,
            writing: None,
        }
    }

    /// Updates the screen until all workers are done.
    pub fn watch(
        &mut self,
        collector: &mut Collector,
        from: &Receiver<Message>,
        reload: &mut Reload<'_>,
        writers: &mut PacketWriters<'_>,
    ) -> Exit {
        collector.silence();
        let mut terminal = Ok(());
        let mut drawn: Option<Instant> = None;
        while !collector.is_done() {
            let mut changed = self.take(collector, from);
            if let Some(text) = reload.attend(collector, writers) {
                self.notice = Some(text);
                changed = true;
            }
            // Without its terminal the run cannot be controlled and therefore ends.
            if terminal.is_ok() {
                match self.screen.poll(PATIENCE) {
                    Ok(action) => changed |= action.is_some_and(|action| self.act(action)),
                    Err(error) => terminal = Err(error),
                }
            } else {
                self.run.signals.stop.store(true, Ordering::Relaxed);
                std::thread::sleep(PATIENCE);
            }
            if terminal.is_ok() && (changed || drawn.is_none_or(|at| at.elapsed() >= REDRAW)) {
                terminal = self.draw();
                drawn = Some(Instant::now());
            }
        }
        let exit = self.end_writing();
        match terminal {
            Ok(()) => exit,
            Err(error) => exit.or(complain(Exit::Output, format!("terminal: {error}"))),
        }
    }

    /// Takes the waiting messages. Returns whether the screen has changed.
    fn take(&mut self, collector: &mut Collector, from: &Receiver<Message>) -> bool {
        let mut changed = false;
        collector.attend();
        for message in from.try_iter() {
            if let Message::Link(event) = &message {
                self.notice = Some(notice(event, &self.run.zone, false));
                changed = true;
            }
            for mut tick in collector.take(message) {
                tick.fill();
                self.history.push(&tick);
                self.total.merge(&tick);
                self.last = tick;
                let failed = collector.failures().len();
                collector.flush();
                if let Some(failure) = collector.failures().get(failed..).and_then(<[String]>::last) {
                    self.notice = Some(failure.clone());
                }
                changed = true;
            }
        }
        changed
    }

    fn draw(&mut self) -> io::Result<()> {
        let expression = self.run.desk.expression();
        let view = LiveView {
            interfaces: &self.run.request.interfaces,
            expression: &expression,
            started: self.started,
            now: self.clock.now().0,
            last: &self.last,
            total: &self.total,
            history: &self.history,
            ring_fill: None,
            writing: self.writing.as_ref().map(|(name, _)| name.as_str()),
            names: !self.run.options.numeric,
            notice: self.notice.as_deref(),
        };
        self.screen.show(&view)
    }

    /// Performs the action of a key. Returns whether the screen has changed.
    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Quit => self.run.signals.stop.store(true, Ordering::Relaxed),
            Action::Write if self.writing.is_some() => {
                self.end_writing();
            }
            Action::Write => self.begin_writing(),
            Action::Filter(expression) => self.change_expression(expression),
            Action::Redraw => {}
        }
        true
    }

    fn change_expression(&mut self, expression: String) {
        match self.run.desk.prepare(vec![Change::Expression(expression)]) {
            Ok(prepared) => {
                prepared.post();
                self.total = Snapshot::default();
            }
            Err(error) => self.notice = Some(error),
        }
    }

    /// Starts writing packets to a file named after the time.
    fn begin_writing(&mut self) {
        let now = self.clock.now().0;
        let stamp: String =
            self.run.zone.date_time(now).chars().filter(char::is_ascii_digit).take(14).collect();
        let name = format!("weir-{stamp}.pcapng");
        let files = PacketFiles { write: Some(name.clone()), ..self.run.request.packets.clone() };
        let started =
            self.run.start_dump(&MATCHING, &files, &self.interfaces, For::Screen, DumpIndex::default());
        match started {
            Ok((file, dump)) => {
                self.run.desk.write_packets_to(Some((dump.intake(), file)));
                self.notice = None;
                self.writing = Some((name, dump));
            }
            Err(error) => self.notice = Some(error.to_string()),
        }
    }

    /// Ends the file that the `w` key started. It is finished in the background, because workers hold senders to it
    /// until they have read their orders.
    fn end_writing(&mut self) -> Exit {
        let Some((name, dump)) = self.writing.take() else { return Exit::Good };
        self.run.desk.write_packets_to(None);
        self.notice = Some(format!("{name} written"));
        let ending = std::thread::spawn(move || dump.finish());
        if !self.run.signals.stop.load(Ordering::Relaxed) {
            return Exit::Good;
        }
        match ending.join() {
            Ok(outcomes) if outcomes.iter().all(|outcome| outcome.trouble.is_none()) => Exit::Good,
            _ => Exit::Output,
        }
    }
}
