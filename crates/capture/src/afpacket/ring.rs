//! A ring on an interface, and the opening of the rings of all workers on it: at the start, and when a removed
//! interface exists again.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weir_wire::{Batch, LinkType};

use super::blocks::{BLOCK_BYTES, Blocks, Shape};
use super::helper::RingHelper;
use super::program::{NOTHING, cooked, gate, steer};
use super::socket::{Socket, index_of};
use super::{LiveError, RingOptions, SockFilter};
use crate::CaptureStats;
use crate::interface::link_type;

/// Snaplen in bytes that 0 stands for, as in tcpdump.
const WHOLE: u32 = 262_144;

/// One ring on one interface. It lives until the interface is removed.
#[derive(Debug)]
pub(super) struct Ring {
    /// The interface, 0 for all.
    pub index: u32,
    pub shape: Shape,
    pub blocks: Blocks,
    pub socket: Socket,
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

    /// The descriptor for poll(2).
    pub fn poll(&self) -> libc::pollfd {
        libc::pollfd { fd: self.socket.raw(), events: libc::POLLIN, revents: 0 }
    }

    /// Adds the kernel's counters. Reading resets them in the kernel.
    pub fn stats(&mut self) -> Result<CaptureStats, LiveError> {
        let kernel = self.socket.take_counts()?;
        self.counted.received += u64::from(kernel.packets);
        self.counted.dropped += u64::from(kernel.drops);
        self.counted.freezes += u64::from(kernel.freezes);
        Ok(self.counted)
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
    promiscuous: bool,
    blocks: usize,
    block_timeout_ms: u32,
    snaplen: u32,
    filters: Vec<(LinkType, Vec<SockFilter>)>,
    /// When an interface returns, the first worker that notices opens rings for all workers, so that steering is right
    /// from the first packet on. The other workers take their rings from here.
    places: Mutex<Vec<Place>>,
    /// Opens rings after this process has given up the right to do so.
    helper: OnceLock<Arc<RingHelper>>,
}

/// A socket on an interface, with a ring that is closed to packets.
#[derive(Debug)]
pub(super) struct OpenSocket {
    pub socket: Socket,
    /// The interface, 0 for all.
    pub index: u32,
    pub link: LinkType,
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
    pub fn new(options: &RingOptions, position: usize, workers: usize) -> Self {
        let name = options.interfaces.get(position).cloned().unwrap_or_default();
        Self {
            any: name == "any",
            name,
            position: position as u32,
            promiscuous: options.promiscuous,
            blocks: (options.ring_bytes / BLOCK_BYTES).max(2),
            block_timeout_ms: options.block_timeout_ms.max(1),
            snaplen: if options.snaplen == 0 { WHOLE } else { options.snaplen },
            filters: options.filters.clone(),
            places: Mutex::new((0..workers).map(|_| Place::default()).collect()),
            helper: OnceLock::new(),
        }
    }

    /// Its position in [`RingOptions::interfaces`].
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Makes the helper open rings from now on. Only the first call has an effect.
    pub fn set_helper(&self, helper: &Arc<RingHelper>) {
        let _ = self.helper.set(Arc::clone(helper));
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
        if let Some(ring) = &place.next {
            ring.socket.filter(&NOTHING)?;
        }
        Ok(())
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
        let Some(sockets) = self.sockets_again(places.len())? else { return Ok(None) };
        for (place, socket) in places.iter_mut().zip(sockets) {
            let ring = self.map(socket)?;
            if place.closed {
                place._member = Some(ring);
            } else {
                self.let_in(&ring)?;
                place.next = Some(ring);
            }
        }
        Ok(places.get_mut(worker).and_then(|place| place.next.take()))
    }

    /// Rings for all workers, closed to packets until [`RingSource::let_in`].
    pub fn open(&self) -> Result<Vec<Ring>, LiveError> {
        let workers = self.places().len();
        self.sockets(workers)?.into_iter().map(|socket| self.map(socket)).collect()
    }

    /// Sockets for all workers on an interface that had been removed; `None` while it does not exist.
    fn sockets_again(&self, workers: usize) -> Result<Option<Vec<OpenSocket>>, LiveError> {
        if let Some(helper) = self.helper.get() {
            return helper.open(self, workers);
        }
        if index_of(&self.name).is_none() {
            return Ok(None);
        }
        match self.sockets(workers) {
            Ok(sockets) => Ok(Some(sockets)),
            // The interface was removed in the meantime.
            Err(LiveError::UnknownInterface { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Sockets with rings for all workers, closed to packets. Needs CAP_NET_RAW.
    pub fn sockets(&self, workers: usize) -> Result<Vec<OpenSocket>, LiveError> {
        let sockets = (0..workers).map(|_| self.open_one()).collect::<Result<Vec<_>, _>>()?;
        if let [first, others @ ..] = sockets.as_slice()
            && !others.is_empty()
        {
            let ethernet = first.link == LinkType::ETHERNET;
            let setup = |e| self.refused("form a fanout group", e);
            let group = first.socket.found_group(&steer(ethernet)).map_err(setup)?;
            for other in others {
                other.socket.join(group).map_err(setup)?;
            }
        }
        Ok(sockets)
    }

    fn open_one(&self) -> Result<OpenSocket, LiveError> {
        let setup = |step| move |e| self.refused(step, e);
        let (index, link) = self.look()?;
        let socket = Socket::new(link == LinkType::LINUX_SLL2).map_err(setup("open a packet socket"))?;
        socket.filter(&NOTHING).map_err(setup("attach a filter"))?;
        socket
            .make_ring(BLOCK_BYTES as u32, self.blocks as u32, self.block_timeout_ms)
            .map_err(|e| self.memory(e))?;
        socket.bind(index).map_err(setup("listen"))?;
        // The state is read below; the pending error would report it a second time.
        socket.take_error()?;
        if self.promiscuous && !self.any {
            socket.promiscuous(index).map_err(setup("enter promiscuous mode"))?;
        }
        Ok(OpenSocket { socket, index, link })
    }

    /// Maps the ring of a socket.
    fn map(&self, OpenSocket { socket, index, link }: OpenSocket) -> Result<Ring, LiveError> {
        let blocks = Blocks::map(&socket, self.blocks).map_err(|e| self.memory(e))?;
        let shape = Shape { link, snaplen: self.snaplen, interface: self.position };
        Ok(Ring { index, shape, blocks, socket, counted: CaptureStats::default(), removed: None })
    }

    fn memory(&self, source: std::io::Error) -> LiveError {
        match source.raw_os_error() {
            Some(libc::ENOMEM) => {
                LiveError::Memory { bytes: self.blocks * BLOCK_BYTES, interface: self.name.clone(), source }
            }
            _ => self.refused("make a ring", source),
        }
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
    pub fn let_in(&self, ring: &Ring) -> Result<(), LiveError> {
        let link = ring.shape.link;
        let filter = self.filters.iter().find(|(made_for, _)| *made_for == link).map(|(_, filter)| filter);
        let filter = filter.and_then(|filter| match link {
            LinkType::LINUX_SLL2 => cooked(filter),
            _ => Some(filter.clone()),
        });
        let program = gate(filter.as_deref(), self.snaplen);
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
