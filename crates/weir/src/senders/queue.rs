//! The queue of a destination, and the thread that passes its messages to the process that sends.

use super::{Answer, Process};
use crate::delivered::Delivered;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_api::{Event, Snapshot};
use weir_output::Output;

/// Maximum number of messages that wait.
const MAX_MESSAGES: usize = 1_000;
/// Maximum bytes of the messages that wait.
const MAX_BYTES: usize = 4 << 20;
/// Maximum time that the end of a run waits for a destination.
const END: Duration = Duration::from_secs(5);
/// Pause after the first attempt that failed; each pause is twice as long as the one before.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// How often a message is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tries {
    /// Until it has left. The messages after it wait.
    All,
    /// At most this number of times. Then it is lost.
    AtMost(u32),
}

/// An output whose events are sent by a process. It never waits, except at the end, for at most [`END`].
pub struct Sender {
    /// Its name, with which its errors begin.
    name: &'static str,
    /// The message of an event.
    message: MessageOf,
    shared: Arc<Shared>,
    process: Process,
    thread: Option<JoinHandle<()>>,
    delivered: Arc<Delivered>,
}

/// Makes the message of an event.
type MessageOf = Box<dyn Fn(&Event) -> Vec<u8> + Send>;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of those that wait.
    bytes: usize,
    /// Whether a message is being sent.
    is_busy: bool,
    /// The time at which the thread must have ended, once the run ends.
    ends: Option<Instant>,
    has_ended: bool,
    lost: u64,
    /// Those of them that are not yet in the counts of the destination.
    uncounted: u64,
    /// Whether sending fails, until it succeeds, and whether that was reported.
    is_failing: bool,
    is_reported: bool,
    /// The last reason.
    failure: Option<String>,
}

impl State {
    fn fail(&mut self, why: String) {
        self.is_failing = true;
        self.failure = Some(why);
    }

    fn lose(&mut self, messages: usize) {
        self.lost += messages as u64;
        self.uncounted += messages as u64;
    }

    /// Loses all that waits.
    fn abandon(&mut self) {
        self.lose(self.waiting.len());
        self.waiting.clear();
        self.bytes = 0;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message, as soon as there is one; `None` at the end.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if let Some(message) = state.waiting.pop_front() {
                state.bytes -= message.len();
                state.is_busy = true;
                return Some(message);
            }
            if state.ends.is_some() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits. Returns whether there is time for another attempt: at the end of a run there may be none.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.ends.is_some_and(|ends| ends <= until) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends all messages until the end.
    fn work(&self, process: &Process, tries: Tries) {
        while let Some(message) = self.next() {
            match self.deliver(process, &message, tries) {
                Outcome::Sent => {
                    let mut state = self.state();
                    (state.is_busy, state.is_failing, state.is_reported) = (false, false, false);
                }
                Outcome::Lost(why) => {
                    let mut state = self.state();
                    // Otherwise the end has counted it, with its own reason.
                    if std::mem::take(&mut state.is_busy) {
                        state.lose(1);
                        state.fail(why);
                    }
                }
                Outcome::Over(why) => {
                    let mut state = self.state();
                    if std::mem::take(&mut state.is_busy) {
                        state.lose(1);
                        state.abandon();
                        state.fail(why);
                    }
                }
            }
        }
        process.end();
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    fn deliver(&self, process: &Process, message: &[u8], tries: Tries) -> Outcome {
        let (mut pause, mut tried) = (PAUSE, 0);
        loop {
            let why = match process.send(message) {
                Ok(Answer::Sent) => return Outcome::Sent,
                Ok(Answer::Refused(why)) => return Outcome::Lost(why),
                Ok(Answer::Failed(why)) => why,
                Err(error) => return Outcome::Over(format!("the process that sends has ended: {error}")),
            };
            tried += 1;
            match tries {
                Tries::AtMost(most) if tried >= most => return Outcome::Lost(why),
                Tries::AtMost(_) => {}
                Tries::All => self.state().fail(why.clone()),
            }
            if !self.pause(pause) {
                return Outcome::Over(why);
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// What became of a message after all attempts.
enum Outcome {
    Sent,
    Lost(String),
    /// It is lost, and so are those that wait: the process has ended, or the run ends before the next attempt.
    Over(String),
}

impl Sender {
    /// Starts the thread of a destination, after the privileges are dropped. `message` is what leaves of an event, and `delivered`
    /// its counts, from which what is lost after it was offered is taken back.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: &'static str,
        process: Process,
        tries: Tries,
        message: impl Fn(&Event) -> Vec<u8> + Send + 'static,
        delivered: Arc<Delivered>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (of_thread, to) = (Arc::clone(&shared), process.again()?);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = Some(thread.spawn(move || of_thread.work(&to, tries))?);
        Ok(Self { name, message: Box::new(message), shared, process, thread, delivered })
    }

    /// The counts of the destination.
    #[cfg(test)]
    pub fn delivered(&self) -> &Arc<Delivered> {
        &self.delivered
    }

    /// Enters what was lost into the counts of the destination, in which it is written so far.
    fn count_lost(&self, state: &mut State) {
        let lost = std::mem::take(&mut state.uncounted);
        self.delivered.write(0_u64.wrapping_sub(lost), 0);
        self.delivered.lose(lost);
    }

    fn error(&self, text: &str) -> io::Error {
        io::Error::other(format!("{}: {text}", self.name))
    }

    /// Waits for the thread until a time, and counts what did not leave until then.
    fn stop(&mut self, until: Instant) {
        let Some(thread) = self.thread.take() else { return };
        let mut state = self.shared.state();
        state.ends = Some(until);
        self.shared.changed.notify_all();
        while !state.has_ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if std::mem::take(&mut state.is_busy) {
            state.lose(1);
            state.failure.get_or_insert_with(|| "no answer".to_owned());
        }
        state.abandon();
        drop(state);
        self.process.leave();
        // It waits for nothing any more.
        let _ = thread.join();
    }
}

impl Output for Sender {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.flush()
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let message = (self.message)(event);
        let mut state = self.shared.state();
        if state.waiting.len() >= MAX_MESSAGES || state.bytes + message.len() > MAX_BYTES {
            state.lose(1);
            let why = state.failure.take().filter(|_| state.is_failing);
            state.fail(why.unwrap_or_else(|| "events come faster than they can be sent".to_owned()));
            return Ok(());
        }
        state.bytes += message.len();
        state.waiting.push_back(message);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.shared.state();
        self.count_lost(&mut state);
        if !state.is_failing || std::mem::replace(&mut state.is_reported, true) {
            return Ok(());
        }
        let why = state.failure.as_deref().unwrap_or_default();
        let waiting = state.waiting.len() + usize::from(state.is_busy);
        Err(self.error(&format!("{why}; {waiting} messages wait, {} lost so far", state.lost)))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stop(Instant::now() + END);
        let mut state = self.shared.state();
        self.count_lost(&mut state);
        match (state.lost, &state.failure) {
            (0, _) => Ok(()),
            (lost, why) => {
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                Err(self.error(&format!("{lost} messages were not sent{why}")))
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stop(Instant::now());
    }
}
