//! A live run on the full screen of a terminal.

use super::lines::notice;
use super::packet_files::PacketWriters;
use super::reload::Reload;
use super::{Exit, Request, Run, complain, targets};
use crate::collector::{Collector, Message};
use crate::desk::Change;
use crate::live::{Action, History, LiveView, Screen};
use crate::online::LiveClock;
use crossbeam_channel::Receiver;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_api::{Level, Owner, Snapshot, SubscriptionId, SubscriptionSpec};

/// Maximum wait for a key between checks for messages.
const PATIENCE: Duration = Duration::from_millis(40);
/// Interval of redraws without changes.
const REDRAW: Duration = Duration::from_millis(250);

/// The screen and its data.
pub struct FullScreen<'s> {
    run: &'s Run,
    screen: Screen,
    clock: LiveClock,
    started: u64,
    last: Snapshot,
    /// Totals since the expression was changed.
    total: Snapshot,
    history: History,
    notice: Option<String>,
    /// The file that the `w` key started, and its subscription.
    writing: Option<(String, SubscriptionId)>,
}

impl<'s> FullScreen<'s> {
    /// Takes over the terminal.
    pub fn new(run: &'s Run, screen: Screen, clock: LiveClock) -> Self {
        Self {
            run,
            screen,
            clock,
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
                    Ok(action) => {
                        changed |= action.is_some_and(|action| self.act(action, reload.request(), writers));
                    }
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
        match terminal {
            Ok(()) => Exit::Good,
            Err(error) => complain(Exit::Output, format!("terminal: {error}")),
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
    fn act(&mut self, action: Action, request: &Request, writers: &mut PacketWriters<'_>) -> bool {
        match action {
            Action::Quit => self.run.signals.stop.store(true, Ordering::Relaxed),
            Action::Write => match self.writing.take() {
                Some((name, id)) => {
                    let ended = self.change(vec![Change::Remove(Owner::Screen, vec![id])], request, writers);
                    self.notice = Some(ended.err().unwrap_or_else(|| format!("{name} written")));
                }
                None => self.begin_writing(request, writers),
            },
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
    fn begin_writing(&mut self, request: &Request, writers: &mut PacketWriters<'_>) {
        let now = self.clock.now().0;
        let stamp: String =
            self.run.zone.date_time(now).chars().filter(char::is_ascii_digit).take(14).collect();
        let name = format!("weir-{stamp}.pcapng");
        let call = request.packets.sequence.call("writematching", &name);
        let spec = SubscriptionSpec::delivering(&format!("-w {name}"), Level::Packet, vec![call]);
        match self.change(vec![Change::Add(Owner::Screen, vec![spec])], request, writers) {
            Ok(added) => {
                self.notice = None;
                self.writing = added.first().map(|id| (name, *id));
            }
            Err(error) => self.notice = Some(error),
        }
    }

    /// Puts changes into effect, and follows them with the packet files.
    fn change(
        &self,
        changes: Vec<Change>,
        request: &Request,
        writers: &mut PacketWriters<'_>,
    ) -> Result<Vec<SubscriptionId>, String> {
        let prepared = self.run.desk.prepare(changes)?;
        targets::check(prepared.plan(), request, self.run.is_anonymised())?;
        writers.may_follow(prepared.plan())?;
        writers.follow(prepared.plan(), request)?;
        Ok(prepared.leaving_by(writers.routes()).post().1)
    }
}
