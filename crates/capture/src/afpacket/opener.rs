//! The opening of the rings of all workers on an interface, and of their filters. Needs CAP_NET_RAW, and runs only in
//! the helper (see `keeper`).

use weir_wire::LinkType;

use super::blocks::{BLOCK_BYTES, ring_blocks};
use super::program::{NOTHING, cooked, gate, steer};
use super::socket::{Socket, index_of};
use super::{LiveError, RingOptions, SockFilter};
use crate::interface::link_type;

/// Snaplen in bytes that 0 stands for, as in tcpdump.
const WHOLE: u32 = 262_144;

/// The snaplen of the options, in bytes.
pub(super) fn snaplen(options: &RingOptions) -> u32 {
    if options.snaplen == 0 { WHOLE } else { options.snaplen }
}

/// Opens sockets with rings on one interface.
#[derive(Debug)]
pub(super) struct Opener {
    name: String,
    promiscuous: bool,
    blocks: usize,
    block_timeout_ms: u32,
    snaplen: u32,
    filters: Vec<(LinkType, Vec<SockFilter>)>,
}

/// A socket on an interface, with a ring that is closed to packets.
#[derive(Debug)]
pub(super) struct OpenSocket {
    pub socket: Socket,
    /// The interface, 0 for all.
    pub index: u32,
    pub link: LinkType,
}

impl Opener {
    /// The interface of a name.
    pub fn new(options: &RingOptions, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            promiscuous: options.promiscuous,
            blocks: ring_blocks(options),
            block_timeout_ms: options.block_timeout_ms.max(1),
            snaplen: snaplen(options),
            filters: options.filters.clone(),
        }
    }

    /// Whether it stands for all interfaces.
    fn any(&self) -> bool {
        self.name == "any"
    }

    /// Sockets with rings for all workers, closed to packets.
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
        if self.promiscuous && !self.any() {
            socket.promiscuous(index).map_err(setup("enter promiscuous mode"))?;
        }
        Ok(OpenSocket { socket, index, link })
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
        if self.any() {
            return Ok((0, LinkType::LINUX_SLL2));
        }
        let index = index_of(&self.name).ok_or_else(|| LiveError::absent(&self.name))?;
        let probe = Socket::new(true).map_err(|e| self.refused("open a packet socket", e))?;
        let hardware = probe.hardware_type(&self.name)?.ok_or_else(|| LiveError::absent(&self.name))?;
        Ok((index, link_type(hardware)))
    }

    /// Opens a ring to packets.
    pub fn let_in(&self, socket: &Socket, link: LinkType) -> Result<(), LiveError> {
        let filter = self.filters.iter().find(|(made_for, _)| *made_for == link).map(|(_, filter)| filter);
        let filter = filter.and_then(|filter| match link {
            LinkType::LINUX_SLL2 => cooked(filter),
            _ => Some(filter.clone()),
        });
        let program = gate(filter.as_deref(), self.snaplen);
        socket.filter(&program).map_err(|e| self.refused("attach the filter", e))
    }

    /// The error of a step that the kernel refused.
    fn refused(&self, step: &'static str, source: std::io::Error) -> LiveError {
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) if !self.any() => LiveError::absent(&self.name),
            _ => LiveError::setup(step, &self.name, source),
        }
    }
}
