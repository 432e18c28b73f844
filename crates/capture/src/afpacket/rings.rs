//! The rings of one worker over all interfaces of a capture, as one stream.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_wire::{Batch, LinkType, Time};

use super::helper::RingHelper;
use super::message::State;
use super::ring::{Ring, RingSource};
use super::socket::grace_period;
use super::{LiveError, RingOptions};
use crate::{CaptureStats, Source};

/// Interval between checks of whether the interfaces are up and present.
const WATCH: Duration = Duration::from_millis(100);

/// Time for packets in the kernel's receive queues to reach the ring when a capture stops.
const SETTLE: Duration = Duration::from_millis(20);

/// Time for the kernel, beyond the block timeout, to deliver its last block. The kernel needs only that timeout;
/// this bounds the wait on an overloaded machine.
const LAST_BLOCK: Duration = Duration::from_secs(2);

/// A change of an interface. Between `Down` and `Up`, and between `Removed` and `Back`, no packets are seen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LinkChange {
    /// The interface was taken down, or was down when the capture began.
    Down,
    /// The interface is up again.
    Up,
    /// The interface was removed.
    Removed,
    /// An interface of that name exists again.
    Back,
}

/// A change of an interface, found within a tenth of a second.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkEvent {
    /// Index of the interface in [`RingOptions::interfaces`].
    pub interface: u32,
    /// Its name.
    pub name: String,
    /// The change.
    pub change: LinkChange,
    /// Time at which the change was found.
    pub at: Time,
}

/// The input of one worker: its rings on all interfaces, waited for together.
#[derive(Debug)]
pub struct Rings {
    helper: Arc<RingHelper>,
    worker: usize,
    ports: Vec<Port>,
    events: Vec<LinkEvent>,
    next_watch: Instant,
    stopped: Option<Instant>,
    waits: u64,
    patience: Duration,
}

impl Rings {
    /// Opens rings for `workers` workers (1 to 256) on each interface. All packets of an IP address pair, in both
    /// directions, with fragments and tunnelled packets, go to one worker. Packets other than IP go to the first.
    ///
    /// All workers begin to receive packets at the same time, when everything is set up. The sockets are held by a thread
    /// of this process, so that it is able to send; [`Rings::open_by`] leaves them in another process.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, an interface does not exist, or the kernel refuses a step.
    pub fn open(options: &RingOptions, workers: usize) -> Result<Vec<Self>, LiveError> {
        Self::check(options, workers)?;
        let first = options.interfaces.first().map(String::as_str).unwrap_or_default();
        let helper = RingHelper::inside(options, workers);
        Self::open_by(&helper.map_err(|e| LiveError::setup("open rings", first, e))?, options, workers)
    }

    /// As [`Rings::open`], with rings that `helper` holds. It was started with the same options and workers.
    ///
    /// # Errors
    /// The helper lacks CAP_NET_RAW, an interface does not exist, or the kernel refuses a step.
    pub fn open_by(
        helper: &Arc<RingHelper>,
        options: &RingOptions,
        workers: usize,
    ) -> Result<Vec<Self>, LiveError> {
        Self::check(options, workers)?;
        let mut all: Vec<Self> = (0..workers).map(|worker| Self::empty(options, helper, worker)).collect();
        for position in 0..options.interfaces.len() {
            let feed = Arc::new(RingSource::new(options, position, workers, helper));
            for (worker, (mut ring, one)) in feed.open()?.into_iter().zip(&mut all).enumerate() {
                let up = ring.look()?.up.unwrap_or(false);
                one.ports.push(Port::new(Arc::clone(&feed), worker, ring));
                if !up {
                    one.change(position, LinkChange::Down);
                }
            }
        }
        for ring in all.iter().flat_map(|one| &one.ports).filter_map(|port| port.ring.as_ref()) {
            ring.held.admit()?;
        }
        Ok(all)
    }

    fn check(options: &RingOptions, workers: usize) -> Result<(), LiveError> {
        let names = &options.interfaces;
        if names.is_empty() {
            return Err(LiveError::Options("no interface was given"));
        }
        if names.iter().enumerate().any(|(i, name)| names.iter().skip(i + 1).any(|n| n == name)) {
            return Err(LiveError::Options("an interface was given twice"));
        }
        if !(1..=256).contains(&workers) {
            return Err(LiveError::Options("the number of workers must be from 1 to 256"));
        }
        Ok(())
    }

    fn empty(options: &RingOptions, helper: &Arc<RingHelper>, worker: usize) -> Self {
        Self {
            helper: Arc::clone(helper),
            worker,
            ports: Vec::new(),
            events: Vec::new(),
            next_watch: Instant::now(),
            stopped: None,
            waits: 0,
            patience: Duration::from_millis(options.block_timeout_ms.into()) + LAST_BLOCK,
        }
    }

    /// Stops taking packets, so that the kernel's remaining packets can be read: continue with [`Source::next_batch`]
    /// until [`Source::is_drained`]. Packets in the kernel's queues get 20 ms to arrive.
    ///
    /// # Errors
    /// The kernel refuses a step.
    pub fn stop(&mut self) -> Result<(), LiveError> {
        if self.stopped.is_some() {
            return Ok(());
        }
        self.settle()?;
        for port in &self.ports {
            port.close()?;
        }
        grace_period();
        self.stopped = Some(Instant::now());
        self.stats().map(drop)
    }

    /// Waits until no packet has arrived for a millisecond.
    fn settle(&mut self) -> Result<(), LiveError> {
        let end = Instant::now() + SETTLE;
        let mut before = self.stats()?.received;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            let now = self.stats()?.received;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Whether all interfaces are removed.
    pub fn is_removed(&self) -> bool {
        self.ports.iter().all(|port| port.ring.as_ref().is_none_or(|ring| ring.removed.is_some()))
    }

    /// Changes of the interfaces since the last call. Only the first worker's rings report them.
    pub fn take_events(&mut self) -> Vec<LinkEvent> {
        std::mem::take(&mut self.events)
    }

    /// The link type of each interface, in the order of [`RingOptions::interfaces`].
    pub fn links(&self) -> Vec<LinkType> {
        self.ports.iter().map(|p| p.link).collect()
    }

    /// The port with the oldest next packet.
    fn earliest(&mut self) -> Option<usize> {
        if let [port] = self.ports.as_mut_slice() {
            return port.ring.as_mut()?.blocks.ready().then_some(0);
        }
        let ports = self.ports.iter_mut().enumerate();
        let times = ports.filter_map(|(i, port)| {
            let blocks = &mut port.ring.as_mut()?.blocks;
            blocks.ready().then(|| (blocks.next_time(), i))
        });
        times.min().map(|(_, i)| i)
    }

    /// Number of waits of [`Source::next_batch`]. On an idle link it waits a few times a second.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// Waits for a block or for an interface to go down.
    fn sleep(&mut self, timeout: Duration) -> Result<(), LiveError> {
        self.waits += 1;
        // A removed interface has no more blocks, but perhaps a last one that is not delivered.
        let removed = self.ports.iter().any(|p| p.ring.as_ref().is_some_and(|ring| ring.removed.is_some()));
        let timeout = if removed { timeout.min(Duration::from_millis(5)) } else { timeout };
        if self.helper.wait(self.worker, timeout)? {
            self.next_watch = Instant::now();
        }
        Ok(())
    }

    /// Checks the interfaces, and reads counters before they can overflow.
    fn watch(&mut self, now: Instant) -> Result<(), LiveError> {
        self.next_watch = now + WATCH;
        for position in 0..self.ports.len() {
            let Some(port) = self.ports.get_mut(position) else { break };
            for change in port.watch(now, self.stopped.is_some(), self.patience)? {
                self.change(position, change);
            }
        }
        Ok(())
    }

    /// Records a change.
    fn change(&mut self, position: usize, change: LinkChange) {
        let Some(port) = self.ports.get_mut(position) else { return };
        port.up = matches!(change, LinkChange::Up | LinkChange::Back);
        if port.worker == 0 {
            self.events.push(LinkEvent {
                interface: position as u32,
                name: port.feed.name.clone(),
                change,
                at: clock(),
            });
        }
    }
}

impl Source for Rings {
    type Error = LiveError;

    /// The packets stay in the kernel's memory until the next call. Packets of several interfaces are in the order of their
    /// times, within one block timeout. Fails too if an interface returned and cannot be opened.
    fn next_batch(&mut self, timeout: Duration) -> Result<Batch<'_>, LiveError> {
        let mut now = Instant::now();
        let deadline = now + timeout;
        loop {
            if now >= self.next_watch {
                self.watch(now)?;
            }
            if let Some(first) = self.earliest() {
                return Ok(self.ports.get_mut(first).map(Port::batch).unwrap_or_default());
            }
            if now >= deadline || self.is_drained() {
                return Ok(Batch::default());
            }
            self.sleep(deadline.min(self.next_watch).saturating_duration_since(now))?;
            now = Instant::now();
        }
    }

    fn is_drained(&self) -> bool {
        let Some(stopped) = self.stopped else { return false };
        self.ports.iter().all(|port| {
            let empty = port.ring.as_ref().is_none_or(|ring| ring.empty(stopped, self.patience));
            empty && !port.feed.has_one_for(port.worker)
        })
    }

    fn stats(&mut self) -> Result<CaptureStats, LiveError> {
        let mut sum = CaptureStats::default();
        for port in &mut self.ports {
            sum.add(port.stats()?);
        }
        Ok(sum)
    }
}

/// The time of day, as the kernel stamps packets with it.
fn clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(since.as_nanos() as u64)
}

/// One worker's state of one interface. The ring is replaced when the interface is created again.
#[derive(Debug)]
struct Port {
    feed: Arc<RingSource>,
    worker: usize,
    ring: Option<Ring>,
    /// Link type of the last ring.
    link: LinkType,
    up: bool,
    /// Whether the socket has reported since the last check that the interface went down.
    fell: bool,
    /// Counters of former rings.
    past: CaptureStats,
}

impl Port {
    fn new(feed: Arc<RingSource>, worker: usize, ring: Ring) -> Self {
        let link = ring.shape.link;
        Self { feed, worker, ring: Some(ring), link, up: true, fell: false, past: CaptureStats::default() }
    }

    fn batch(&mut self) -> Batch<'_> {
        self.ring.as_mut().map(Ring::batch).unwrap_or_default()
    }

    fn stats(&mut self) -> Result<CaptureStats, LiveError> {
        self.look()?;
        let mut sum = self.past;
        if let Some(ring) = &self.ring {
            sum.add(ring.counted);
        }
        Ok(sum)
    }

    /// The state of the ring; `None` if there is no ring.
    fn look(&mut self) -> Result<Option<State>, LiveError> {
        let Some(ring) = &mut self.ring else { return Ok(None) };
        let state = ring.look()?;
        self.fell |= state.fell;
        Ok(Some(state))
    }

    /// The changes of the interface since the last check. Reads the counters.
    fn watch(
        &mut self,
        now: Instant,
        stopped: bool,
        patience: Duration,
    ) -> Result<Vec<LinkChange>, LiveError> {
        let state = self.look()?;
        if self.feed.any {
            return Ok(Vec::new());
        }
        let (Some(state), Some(ring)) = (state, &mut self.ring) else { return self.come_back(stopped) };
        if let Some(since) = ring.removed {
            if ring.empty(since, patience) {
                self.past.add(ring.counted);
                self.ring = None;
            }
            return Ok(Vec::new());
        }
        let fell = std::mem::take(&mut self.fell);
        Ok(match state.up {
            None => {
                ring.removed = Some(now);
                vec![LinkChange::Removed]
            }
            // The interface went down and up between two checks.
            Some(true) if self.up && fell => vec![LinkChange::Down, LinkChange::Up],
            Some(true) if !self.up => vec![LinkChange::Up],
            Some(false) if self.up => vec![LinkChange::Down],
            Some(_) => Vec::new(),
        })
    }

    /// Stops the delivery of packets to the present ring and to one that waits.
    fn close(&self) -> Result<(), LiveError> {
        if let Some(ring) = &self.ring {
            ring.held.shut()?;
        }
        self.feed.close(self.worker)
    }

    /// Takes a ring on the interface if it exists again; after the stop, only a ring that was open before.
    fn come_back(&mut self, stopped: bool) -> Result<Vec<LinkChange>, LiveError> {
        let ring = if stopped { self.feed.take(self.worker) } else { self.feed.reopen(self.worker)? };
        let Some(mut ring) = ring else { return Ok(Vec::new()) };
        let up = ring.look()?.up.unwrap_or(false);
        self.link = ring.shape.link;
        self.ring = Some(ring);
        let mut changes = vec![LinkChange::Back];
        if !up {
            changes.push(LinkChange::Down);
        }
        Ok(changes)
    }
}
