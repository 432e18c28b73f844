//! A worker's rings over the interfaces of a capture, as one stream.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_wire::{Batch, LinkType, Time};

use super::blocks::{BLOCK_BYTES, Blocks, Shape};
use super::program::{NOTHING, gate, steer};
use super::socket::{Socket, grace_period, index_of, wait};
use super::{LiveError, RingOptions};
use crate::interface::link_type;

/// How often interfaces are looked at: whether they are up, there, and back.
const WATCH: Duration = Duration::from_millis(100);

/// How long packets that are in the kernel's receive queues get to reach the ring when a capture stops.
const SETTLE: Duration = Duration::from_millis(20);

/// How long the kernel gets, beyond the block timeout, to hand over its last block. It needs no more than that
/// timeout; this bounds the wait on a machine that is overloaded.
const LAST_BLOCK: Duration = Duration::from_secs(2);

/// Snaplen 0 stands for this, as for tcpdump.
const WHOLE: u32 = 262_144;

/// What the kernel counted since the capture was opened, over the rings of one worker.
///
/// `received = delivered + dropped` once the capture was stopped and drained.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CaptureStats {
    /// Packets that the interfaces gave and the filter let pass.
    pub received: u64,
    /// Of these, packets that found no room in the ring.
    pub dropped: u64,
    /// Packets that came out of [`Rings::next_batch`].
    pub delivered: u64,
    /// Times that a ring was full.
    pub freezes: u64,
}

impl CaptureStats {
    fn add(&mut self, other: Self) {
        self.received += other.received;
        self.dropped += other.dropped;
        self.delivered += other.delivered;
        self.freezes += other.freezes;
    }
}

/// What happened to an interface. Between `Down` and `Up`, and between `Removed` and `Back`, nothing is seen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LinkChange {
    /// It was taken down, or was down when the capture began.
    Down,
    /// It is up again.
    Up,
    /// It is gone.
    Removed,
    /// There is one of that name again.
    Back,
}

/// A change of an interface, found within a tenth of a second.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkEvent {
    /// Index of the interface in [`RingOptions::interfaces`].
    pub interface: u32,
    /// Its name.
    pub name: String,
    /// What happened.
    pub change: LinkChange,
    /// When it was found.
    pub at: Time,
}

/// What one worker reads: its rings on all interfaces, polled together.
#[derive(Debug)]
pub struct Rings {
    ports: Vec<Port>,
    events: Vec<LinkEvent>,
    next_watch: Instant,
    stopped: Option<Instant>,
    polls: Vec<libc::pollfd>,
    patience: Duration,
}

impl Rings {
    /// Opens rings for `workers` workers (1 to 256) on each interface. All packets of an IP address pair, in both
    /// directions, fragments and tunnelled packets included, go to one worker; what is not IP goes to the first.
    ///
    /// All workers begin to see packets at the same time, when everything is set up.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, for an interface that is not there, and where the kernel refuses a step.
    pub fn open(options: &RingOptions, workers: usize) -> Result<Vec<Self>, LiveError> {
        let names = &options.interfaces;
        if names.is_empty() {
            return Err(LiveError::Options("no interface was named"));
        }
        if names.iter().enumerate().any(|(i, name)| names.iter().skip(i + 1).any(|n| n == name)) {
            return Err(LiveError::Options("an interface was named twice"));
        }
        if !(1..=256).contains(&workers) {
            return Err(LiveError::Options("the number of workers must be from 1 to 256"));
        }
        let mut all: Vec<Self> = (0..workers).map(|_| Self::empty(options)).collect();
        let mut gates = Vec::new();
        for position in 0..names.len() {
            let feed = Arc::new(Feed::new(options, position, workers));
            let rings = feed.open()?;
            for (worker, (ring, one)) in rings.into_iter().zip(&mut all).enumerate() {
                let up = ring.index == 0 || ring.socket.is_up(ring.index)?.unwrap_or(false);
                one.ports.push(Port::new(Arc::clone(&feed), worker, ring));
                if !up {
                    one.change(position, LinkChange::Down);
                }
            }
            gates.push(feed);
        }
        for one in &all {
            for (port, feed) in one.ports.iter().zip(&gates) {
                if let Some(ring) = &port.ring {
                    feed.let_in(ring)?;
                }
            }
        }
        Ok(all)
    }

    fn empty(options: &RingOptions) -> Self {
        Self {
            ports: Vec::new(),
            events: Vec::new(),
            next_watch: Instant::now(),
            stopped: None,
            polls: Vec::new(),
            patience: Duration::from_millis(options.block_timeout_ms.into()) + LAST_BLOCK,
        }
    }

    /// Waits at most `timeout` for packets; an empty batch when none came. The packets stay where the kernel put
    /// them until the next call. Over several interfaces they come in the order of their times, as far as one
    /// block timeout allows.
    ///
    /// # Errors
    /// When the kernel refuses to wait or to count, or an interface came back and may not be opened.
    pub fn next_batch(&mut self, timeout: Duration) -> Result<Batch<'_>, LiveError> {
        let mut now = Instant::now();
        let deadline = now + timeout;
        loop {
            if now >= self.next_watch {
                self.watch(now)?;
            }
            if let Some(first) = self.earliest() {
                return Ok(self.ports.get_mut(first).map(Port::batch).unwrap_or_default());
            }
            if now >= deadline || self.drained() {
                return Ok(Batch::default());
            }
            self.sleep(deadline.min(self.next_watch).saturating_duration_since(now))?;
            now = Instant::now();
        }
    }

    /// What the kernel counted so far.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn stats(&mut self) -> Result<CaptureStats, LiveError> {
        let mut sum = CaptureStats::default();
        for port in &mut self.ports {
            sum.add(port.stats()?);
        }
        Ok(sum)
    }

    /// Takes in no more packets, so that what the kernel has can be read: go on with [`Rings::next_batch`] until
    /// [`Rings::drained`]. Packets that are on their way through the kernel's queues get 20 ms to arrive.
    ///
    /// # Errors
    /// When the kernel refuses.
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

    /// Waits until no packet came for a millisecond.
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

    /// Whether the capture was stopped and all that the kernel had was read.
    pub fn drained(&self) -> bool {
        let Some(stopped) = self.stopped else { return false };
        self.ports.iter().all(|port| {
            let empty = port.ring.as_ref().is_none_or(|ring| ring.empty(stopped, self.patience));
            empty && !port.feed.has_one_for(port.worker)
        })
    }

    /// What happened to the interfaces since the last call. Only the first worker's rings tell.
    pub fn take_events(&mut self) -> Vec<LinkEvent> {
        std::mem::take(&mut self.events)
    }

    /// The link type of each interface, in the order of [`RingOptions::interfaces`].
    pub fn links(&self) -> Vec<LinkType> {
        self.ports.iter().map(|p| p.link).collect()
    }

    /// The port whose next packet is the oldest.
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

    /// Waits for a block or for an interface to go down.
    fn sleep(&mut self, timeout: Duration) -> Result<(), LiveError> {
        // Once stopped, counters do not grow: the last block is all that is waited for.
        self.polls.clear();
        let open = self.ports.iter().filter_map(|p| p.ring.as_ref()).filter(|ring| ring.removed.is_none());
        self.polls.extend(open.map(|ring| ring.poll()));
        let removed = self.ports.iter().any(|p| p.ring.as_ref().is_some_and(|ring| ring.removed.is_some()));
        let timeout = if removed { timeout.min(Duration::from_millis(5)) } else { timeout };
        if self.polls.is_empty() {
            std::thread::sleep(timeout);
            return Ok(());
        }
        if !wait(&mut self.polls, timeout)? {
            return Ok(());
        }
        let mut reason = false;
        for poll in &self.polls {
            reason |= poll.revents & libc::POLLIN != 0;
            if poll.revents & libc::POLLERR != 0
                && let Some(port) = self.ports.iter_mut().find(|p| p.is(poll.fd))
            {
                reason |= port.take_error()?;
                self.next_watch = Instant::now();
            }
        }
        if !reason {
            // Nothing that can be read or taken away woke us: whatever it is must not become a busy loop.
            std::thread::sleep(Duration::from_millis(1).min(timeout));
        }
        Ok(())
    }

    /// Looks at the interfaces, and reads counters before they can overflow.
    fn watch(&mut self, now: Instant) -> Result<(), LiveError> {
        self.next_watch = now + WATCH;
        for position in 0..self.ports.len() {
            let Some(port) = self.ports.get_mut(position) else { break };
            port.stats()?;
            for change in port.watch(now, self.stopped.is_some(), self.patience)? {
                self.change(position, change);
            }
        }
        Ok(())
    }

    /// Notes a change.
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

/// The time of day, as the kernel stamps packets with it.
fn clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(since.as_nanos() as u64)
}

/// A worker's place at one interface. The ring goes and comes with the interface.
#[derive(Debug)]
struct Port {
    feed: Arc<Feed>,
    worker: usize,
    ring: Option<Ring>,
    /// Link type of the last ring.
    link: LinkType,
    up: bool,
    /// Whether the socket said that the interface went down, since it was last looked at.
    fell: bool,
    /// Counters of rings that are gone.
    past: CaptureStats,
}

impl Port {
    fn new(feed: Arc<Feed>, worker: usize, ring: Ring) -> Self {
        let link = ring.shape.link;
        Self { feed, worker, ring: Some(ring), link, up: true, fell: false, past: CaptureStats::default() }
    }

    fn batch(&mut self) -> Batch<'_> {
        self.ring.as_mut().map(Ring::batch).unwrap_or_default()
    }

    fn is(&self, fd: RawFd) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.socket.raw() == fd)
    }

    fn stats(&mut self) -> Result<CaptureStats, LiveError> {
        let mut sum = self.past;
        if let Some(ring) = &mut self.ring {
            sum.add(ring.stats()?);
        }
        Ok(sum)
    }

    /// Whether there was an error to take.
    fn take_error(&mut self) -> Result<bool, LiveError> {
        let Some(ring) = &self.ring else { return Ok(false) };
        let error = ring.socket.take_error()?;
        self.fell |= error == Some(libc::ENETDOWN);
        Ok(error.is_some())
    }

    /// What changed at the interface.
    fn watch(
        &mut self,
        now: Instant,
        stopped: bool,
        patience: Duration,
    ) -> Result<Vec<LinkChange>, LiveError> {
        if self.feed.any {
            return Ok(Vec::new());
        }
        self.take_error()?;
        let Some(ring) = &mut self.ring else { return self.come_back(stopped) };
        if let Some(since) = ring.removed {
            if ring.empty(since, patience) {
                self.past.add(ring.counted);
                self.ring = None;
            }
            return Ok(Vec::new());
        }
        let fell = std::mem::take(&mut self.fell);
        Ok(match ring.socket.is_up(ring.index)? {
            None => {
                ring.removed = Some(now);
                vec![LinkChange::Removed]
            }
            // Down and up again between two looks.
            Some(true) if self.up && fell => vec![LinkChange::Down, LinkChange::Up],
            Some(true) if !self.up => vec![LinkChange::Up],
            Some(false) if self.up => vec![LinkChange::Down],
            Some(_) => Vec::new(),
        })
    }

    /// Takes in no more packets, by the ring at hand and by one that waits.
    fn close(&self) -> Result<(), LiveError> {
        if let Some(ring) = &self.ring {
            ring.socket.filter(&NOTHING)?;
        }
        self.feed.close(self.worker)
    }

    /// Takes a ring on the interface if it is there again; once stopped, only one that was open before.
    fn come_back(&mut self, stopped: bool) -> Result<Vec<LinkChange>, LiveError> {
        let ring = if stopped { self.feed.take(self.worker) } else { self.feed.reopen(self.worker)? };
        let Some(mut ring) = ring else { return Ok(Vec::new()) };
        ring.stats()?;
        let up = ring.socket.is_up(ring.index)?.unwrap_or(false);
        self.link = ring.shape.link;
        self.ring = Some(ring);
        let mut changes = vec![LinkChange::Back];
        if !up {
            changes.push(LinkChange::Down);
        }
        Ok(changes)
    }
}

/// One ring on one interface, for as long as the interface lives.
#[derive(Debug)]
struct Ring {
    /// The interface, 0 for all.
    index: u32,
    shape: Shape,
    blocks: Blocks,
    socket: Socket,
    counted: CaptureStats,
    /// When it was found that the interface is gone.
    removed: Option<Instant>,
}

impl Ring {
    fn batch(&mut self) -> Batch<'_> {
        let batch = self.blocks.batch(self.shape);
        self.counted.delivered += batch.len() as u64;
        batch
    }

    fn poll(&self) -> libc::pollfd {
        libc::pollfd { fd: self.socket.raw(), events: libc::POLLIN, revents: 0 }
    }

    /// Adds the kernel's counters, which reading resets.
    fn stats(&mut self) -> Result<CaptureStats, LiveError> {
        let kernel = self.socket.take_counts()?;
        self.counted.received += u64::from(kernel.packets);
        self.counted.dropped += u64::from(kernel.drops);
        self.counted.freezes += u64::from(kernel.freezes);
        Ok(self.counted)
    }

    /// Whether all that the kernel put into the ring has come out, or did not within `patience` after the end.
    fn empty(&self, end: Instant, patience: Duration) -> bool {
        let CaptureStats { received, dropped, delivered, .. } = self.counted;
        delivered + dropped >= received || end.elapsed() > patience
    }
}

/// An interface that is captured, and the rings on it that their workers have not taken yet.
#[derive(Debug)]
struct Feed {
    name: String,
    any: bool,
    position: u32,
    promiscuous: bool,
    blocks: usize,
    block_timeout_ms: u32,
    snaplen: u32,
    filter: Option<Vec<super::SockFilter>>,
    /// When an interface is back, the first worker that finds it opens rings for all, so that steering is right
    /// from the first packet on; the others find theirs here.
    places: Mutex<Vec<Place>>,
}

/// Where a worker finds its next ring on an interface.
#[derive(Debug, Default)]
struct Place {
    /// A ring that has been open to packets, to be taken.
    next: Option<Ring>,
    /// The worker has stopped.
    closed: bool,
    /// Holds the place of a stopped worker in the fanout group, so that the others keep theirs; never open.
    _member: Option<Ring>,
}

impl Feed {
    fn new(options: &RingOptions, position: usize, workers: usize) -> Self {
        let name = options.interfaces.get(position).cloned().unwrap_or_default();
        Self {
            any: name == "any",
            name,
            position: position as u32,
            promiscuous: options.promiscuous,
            blocks: (options.ring_bytes / BLOCK_BYTES).max(2),
            block_timeout_ms: options.block_timeout_ms.max(1),
            snaplen: if options.snaplen == 0 { WHOLE } else { options.snaplen },
            filter: options.filter.clone(),
            places: Mutex::new((0..workers).map(|_| Place::default()).collect()),
        }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        // A panic elsewhere leaves nothing half done here.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ring that waits for a worker.
    fn take(&self, worker: usize) -> Option<Ring> {
        self.places().get_mut(worker)?.next.take()
    }

    /// Whether a ring waits for a worker.
    fn has_one_for(&self, worker: usize) -> bool {
        self.places().get(worker).is_some_and(|place| place.next.is_some())
    }

    /// Takes in no more packets for a worker.
    fn close(&self, worker: usize) -> Result<(), LiveError> {
        let mut places = self.places();
        let Some(place) = places.get_mut(worker) else { return Ok(()) };
        place.closed = true;
        if let Some(ring) = &place.next {
            ring.socket.filter(&NOTHING)?;
        }
        Ok(())
    }

    /// A worker's ring if the interface is there.
    fn reopen(&self, worker: usize) -> Result<Option<Ring>, LiveError> {
        let mut places = self.places();
        if let Some(ring) = places.get_mut(worker).and_then(|place| place.next.take()) {
            return Ok(Some(ring));
        }
        if places.iter().any(|place| place.next.is_some()) || index_of(&self.name).is_none() {
            return Ok(None);
        }
        let rings = match self.open_for(places.len()) {
            Ok(rings) => rings,
            // It went again.
            Err(LiveError::UnknownInterface { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        for (place, ring) in places.iter_mut().zip(rings) {
            if place.closed {
                place._member = Some(ring);
            } else {
                self.let_in(&ring)?;
                place.next = Some(ring);
            }
        }
        Ok(places.get_mut(worker).and_then(|place| place.next.take()))
    }

    /// Rings for all workers, closed to packets until [`Feed::let_in`].
    fn open(&self) -> Result<Vec<Ring>, LiveError> {
        let workers = self.places().len();
        self.open_for(workers)
    }

    fn open_for(&self, workers: usize) -> Result<Vec<Ring>, LiveError> {
        let rings = (0..workers).map(|_| self.open_one()).collect::<Result<Vec<_>, _>>()?;
        if let [first, others @ ..] = rings.as_slice()
            && !others.is_empty()
        {
            let ethernet = first.shape.link == LinkType::ETHERNET;
            let setup = |e| self.refused("form a fanout group", e);
            let group = first.socket.found_group(&steer(ethernet)).map_err(setup)?;
            for ring in others {
                ring.socket.join(group).map_err(setup)?;
            }
        }
        Ok(rings)
    }

    fn open_one(&self) -> Result<Ring, LiveError> {
        let setup = |step| move |e| self.refused(step, e);
        let (index, link) = self.look()?;
        let socket = Socket::new(link == LinkType::LINUX_SLL2).map_err(setup("open a packet socket"))?;
        socket.filter(&NOTHING).map_err(setup("attach a filter"))?;
        let memory = |source: std::io::Error| match source {
            e if e.raw_os_error() == Some(libc::ENOMEM) => LiveError::Memory {
                bytes: self.blocks * BLOCK_BYTES,
                interface: self.name.clone(),
                source: e,
            },
            e => self.refused("make a ring", e),
        };
        socket.make_ring(BLOCK_BYTES as u32, self.blocks as u32, self.block_timeout_ms).map_err(memory)?;
        let blocks = Blocks::map(&socket, self.blocks).map_err(memory)?;
        socket.bind(index).map_err(setup("listen"))?;
        // That it is down is asked for; the error would tell it once more, later.
        socket.take_error()?;
        if self.promiscuous && !self.any {
            socket.promiscuous(index).map_err(setup("enter promiscuous mode"))?;
        }
        let shape = Shape { link, snaplen: self.snaplen, interface: self.position };
        Ok(Ring { index, shape, blocks, socket, counted: CaptureStats::default(), removed: None })
    }

    /// Index and link type of the interface.
    fn look(&self) -> Result<(u32, LinkType), LiveError> {
        if self.any {
            return Ok((0, LinkType::LINUX_SLL2));
        }
        let index = index_of(&self.name).ok_or_else(|| LiveError::unknown(&self.name))?;
        let probe = Socket::new(true).map_err(|e| self.refused("open a packet socket", e))?;
        let hardware = probe.hardware_type(&self.name)?.ok_or_else(|| LiveError::unknown(&self.name))?;
        Ok((index, link_type(hardware)))
    }

    /// Opens a ring to packets.
    fn let_in(&self, ring: &Ring) -> Result<(), LiveError> {
        let program = gate(self.filter.as_deref(), self.snaplen);
        ring.socket.filter(&program).map_err(|e| self.refused("attach the filter", e))
    }

    /// The error of a step that the kernel refused.
    fn refused(&self, step: &'static str, source: std::io::Error) -> LiveError {
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) if !self.any => LiveError::unknown(&self.name),
            _ => LiveError::setup(step, &self.name, source),
        }
    }
}
