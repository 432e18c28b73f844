//! A ring on an interface, and the rings of all workers on it: at the start, and when a removed interface exists again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_wire::Batch;

use super::blocks::{Blocks, Shape};
use super::helper::{Held, Mapped, RingHelper};
use super::message::State;
use super::opener::snaplen;
use super::{LiveError, RingOptions};
use crate::CaptureStats;

/// One ring on one interface. It lives until the interface is removed.
#[derive(Debug)]
pub(super) struct Ring {
    pub shape: Shape,
    pub blocks: Blocks,
    pub held: Held,
    pub counted: CaptureStats,
    /// Time at which the removal of the interface was found.
    pub removed: Option<Instant>,
}

impl Ring {
    /// Returns the next packets. Call it after [`Blocks::ready`] returned `true`.
    pub fn batch(&mut self) -> Batch<'_> {
        let batch = self.blocks.batch(self.shape);
        self.counted.delivered += batch.len() as u64;
        batch
    }

    /// The state of the ring and its interface since the last call. Adds the kernel's counters.
    pub fn look(&mut self) -> Result<State, LiveError> {
        let state = self.held.look()?;
        self.counted.received += u64::from(state.counts.packets);
        self.counted.dropped += u64::from(state.counts.drops);
        self.counted.freezes += u64::from(state.counts.freezes);
        Ok(state)
    }

    /// Whether all packets that the kernel put into the ring have been read, or have not arrived within `patience`
    /// after the end.
    pub fn empty(&self, end: Instant, patience: Duration) -> bool {
        let CaptureStats { received, dropped, delivered, .. } = self.counted;
        delivered + dropped >= received || end.elapsed() > patience
    }
}

/// A captured interface, and its rings that the workers have not taken yet.
#[derive(Debug)]
pub(super) struct RingSource {
    pub name: String,
    /// Whether it stands for all interfaces ("any").
    pub any: bool,
    position: u32,
    snaplen: u32,
    /// When an interface returns, the first worker that notices opens rings for all workers, so that steering is right
    /// from the first packet on. The other workers take their rings from here.
    places: Mutex<Vec<Place>>,
    helper: Arc<RingHelper>,
}

/// A worker's next ring on an interface.
#[derive(Debug, Default)]
struct Place {
    /// A ring that is open to packets and waits for its worker.
    next: Option<Ring>,
    /// Whether the worker has stopped.
    closed: bool,
    /// Keeps the place of a stopped worker in the fanout group, so that the other workers keep theirs; never open to
    /// packets.
    _member: Option<Ring>,
}

impl RingSource {
    /// The interface at a position of the options.
    pub fn new(options: &RingOptions, position: usize, workers: usize, helper: &Arc<RingHelper>) -> Self {
        let name = options.interfaces.get(position).cloned().unwrap_or_default();
        Self {
            any: name == "any",
            name,
            position: position as u32,
            snaplen: snaplen(options),
            places: Mutex::new((0..workers).map(|_| Place::default()).collect()),
            helper: Arc::clone(helper),
        }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        // A panic elsewhere cannot leave this state inconsistent.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the ring that waits for a worker.
    pub fn take(&self, worker: usize) -> Option<Ring> {
        self.places().get_mut(worker)?.next.take()
    }

    /// Whether a ring waits for a worker.
    pub fn has_one_for(&self, worker: usize) -> bool {
        self.places().get(worker).is_some_and(|place| place.next.is_some())
    }

    /// Stops the delivery of packets to a worker.
    pub fn close(&self, worker: usize) -> Result<(), LiveError> {
        let mut places = self.places();
        let Some(place) = places.get_mut(worker) else { return Ok(()) };
        place.closed = true;
        place.next.as_ref().map_or(Ok(()), |ring| ring.held.shut())
    }

    /// A worker's ring, if the interface exists.
    pub fn reopen(&self, worker: usize) -> Result<Option<Ring>, LiveError> {
        let mut places = self.places();
        if let Some(ring) = places.get_mut(worker).and_then(|place| place.next.take()) {
            return Ok(Some(ring));
        }
        if places.iter().any(|place| place.next.is_some()) {
            return Ok(None);
        }
        let opened = self.helper.open(worker, self.position, &self.name).map_err(|error| match error {
            error @ (LiveError::Read(_) | LiveError::Reopen { .. }) => error,
            error => LiveError::Reopen { interface: self.name.clone(), reason: error.to_string() },
        });
        let Some(opened) = opened? else { return Ok(None) };
        for (worker, (place, mapped)) in places.iter_mut().zip(opened).enumerate() {
            let ring = self.ring(worker, mapped);
            if place.closed {
                place._member = Some(ring);
            } else {
                ring.held.admit()?;
                place.next = Some(ring);
            }
        }
        Ok(places.get_mut(worker).and_then(|place| place.next.take()))
    }

    /// Rings for all workers, closed to packets until [`Held::admit`].
    pub fn open(&self) -> Result<Vec<Ring>, LiveError> {
        let opened = self.helper.open(0, self.position, &self.name)?;
        let opened = opened.ok_or_else(|| LiveError::unknown(&self.name))?;
        Ok(opened.into_iter().enumerate().map(|(worker, mapped)| self.ring(worker, mapped)).collect())
    }

    fn ring(&self, worker: usize, mapped: Mapped) -> Ring {
        let Mapped { ring, link, blocks } = mapped;
        Ring {
            shape: Shape { link, snaplen: self.snaplen, interface: self.position },
            blocks,
            held: Held::new(&self.helper, worker, ring),
            counted: CaptureStats::default(),
            removed: None,
        }
    }
}
