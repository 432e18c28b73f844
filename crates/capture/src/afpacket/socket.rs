//! The system calls of a packet socket (packet(7), socket(7), netdevice(7)), each as a safe function.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_uint, c_ulong, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::SockFilter;

/// `linux/if_packet.h`; the C library's headers have no fanout.
const SOL_PACKET: c_int = libc::SOL_PACKET;

/// A packet socket. It receives nothing until [`Socket::bind`].
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
}

/// The kernel's counters since the last read (`struct tpacket_stats_v3`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct KernelCounts {
    /// Packets that passed the socket filter, including dropped ones.
    pub packets: u32,
    /// Of these, packets dropped because the ring was full.
    pub drops: u32,
    /// Times that the ring was full.
    pub freezes: u32,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    /// A socket with link-layer headers, or without (`cooked`). Needs CAP_NET_RAW.
    pub fn new(cooked: bool) -> io::Result<Self> {
        let kind = if cooked { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
        // Protocol 0: nothing arrives between here and bind().
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets a socket option to the value of a plain C type.
    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let size = mem::size_of::<T>() as libc::socklen_t;
        let at: *const T = value;
        // SAFETY: `at` points to `size` readable bytes for as long as the call lasts.
        check(unsafe { libc::setsockopt(self.raw(), level, option, at.cast::<c_void>(), size) }).map(drop)
    }

    /// Reads a socket option into a plain C type for which every bit pattern, and all zeros, is a value.
    fn get<T: Copy + Default>(&self, level: c_int, option: c_int) -> io::Result<T> {
        let mut value = T::default();
        let mut size = mem::size_of::<T>() as libc::socklen_t;
        let at: *mut T = &mut value;
        // SAFETY: `at` points to `size` writable bytes, and the kernel writes no more than `size`; callers pass
        // integers and arrays of them only.
        check(unsafe { libc::getsockopt(self.raw(), level, option, at.cast::<c_void>(), &mut size) })?;
        Ok(value)
    }

    /// Requests a TPACKET_V3 receive ring of `blocks` blocks of `block_bytes` bytes. The kernel delivers a block
    /// that is not full `timeout_ms` milliseconds after the last one.
    pub fn make_ring(&self, block_bytes: u32, blocks: u32, timeout_ms: u32) -> io::Result<()> {
        self.set(SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        // The frame size has no effect in version 3, but the kernel checks that the numbers agree.
        let frame = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes,
            tp_block_nr: blocks,
            tp_frame_size: frame,
            tp_frame_nr: block_bytes / frame * blocks,
            tp_retire_blk_tov: timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set(SOL_PACKET, libc::PACKET_RX_RING, &request)
    }

    /// Binds to all protocols of interface `index`, or of all interfaces for 0. The interface may be down: packets
    /// arrive when it is up.
    pub fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: all zeros is a good sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as c_int;
        let size = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let at: *const libc::sockaddr_ll = &address;
        // SAFETY: `at` points to `size` readable bytes for as long as the call lasts.
        check(unsafe { libc::bind(self.raw(), at.cast::<libc::sockaddr>(), size) }).map(drop)
    }

    /// Makes the interface accept every frame as long as this socket is open. Needs only the capability that opening
    /// the socket needs.
    pub fn promiscuous(&self, index: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Attaches a classic BPF program. It replaces the previous one atomically.
    pub fn filter(&self, program: &[SockFilter]) -> io::Result<()> {
        self.set_program(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
    }

    fn set_program(&self, level: c_int, option: c_int, program: &[SockFilter]) -> io::Result<()> {
        let mut native: Vec<libc::sock_filter> =
            program.iter().map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect();
        let len = u16::try_from(native.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // The kernel copies the program before it returns, so `native` lives long enough.
        self.set(level, option, &libc::sock_fprog { len, filter: native.as_mut_ptr() })
    }

    /// Makes a fanout group that is steered by `program` (its result modulo the number of members). Returns its
    /// identifier, which is unique in this network namespace. If the kernel refuses the program, its own symmetric
    /// flow hash steers the group.
    pub fn found_group(&self, program: &[SockFilter]) -> io::Result<Group> {
        for mode in [libc::PACKET_FANOUT_CBPF, libc::PACKET_FANOUT_HASH] {
            let flags = mode | libc::PACKET_FANOUT_FLAG_UNIQUEID;
            match self.set::<c_uint>(SOL_PACKET, libc::PACKET_FANOUT, &(flags << 16)) {
                Err(e) if mode == libc::PACKET_FANOUT_CBPF && e.raw_os_error() == Some(libc::EINVAL) => {
                    continue;
                }
                other => other?,
            }
            if mode == libc::PACKET_FANOUT_CBPF {
                self.set_program(SOL_PACKET, libc::PACKET_FANOUT_DATA, program)?;
            }
            let id = self.get::<c_uint>(SOL_PACKET, libc::PACKET_FANOUT)? & 0xffff;
            return Ok(Group { id: id as u16, mode });
        }
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// Joins a group as its next member.
    pub fn join(&self, group: Group) -> io::Result<()> {
        self.set::<c_uint>(SOL_PACKET, libc::PACKET_FANOUT, &(group.mode << 16 | c_uint::from(group.id)))
    }

    /// Reads the kernel's counters, which resets them.
    pub fn take_counts(&self) -> io::Result<KernelCounts> {
        let [packets, drops, freezes] = self.get::<[u32; 3]>(SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok(KernelCounts { packets, drops, freezes })
    }

    /// Takes the pending error of the socket. ENETDOWN means that the interface went
    /// down.
    pub fn take_error(&self) -> io::Result<Option<c_int>> {
        Ok(Some(self.get::<c_int>(libc::SOL_SOCKET, libc::SO_ERROR)?).filter(|e| *e != 0))
    }

    /// The ARPHRD_ value of an interface, which determines its link type.
    pub fn hardware_type(&self, name: &str) -> io::Result<Option<u16>> {
        let Some(mut request) = request_for(name) else { return Ok(None) };
        if !self.query(libc::SIOCGIFHWADDR, &mut request)? {
            return Ok(None);
        }
        // SAFETY: the call succeeded, so the kernel has written this member of the union.
        Ok(Some(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family }))
    }

    /// Whether interface `index` is up; `None` if it does not exist any more. A change of its name does not matter.
    pub fn is_up(&self, index: u32) -> io::Result<Option<bool>> {
        // SAFETY: all zeros is a good ifreq.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = index as c_int;
        if !self.query(libc::SIOCGIFNAME, &mut request)? || !self.query(libc::SIOCGIFFLAGS, &mut request)? {
            return Ok(None);
        }
        // SAFETY: the call succeeded, so the kernel has written this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        Ok(Some(c_int::from(flags) & libc::IFF_UP != 0))
    }

    /// Runs an interface query. Returns `false` if the interface does not exist.
    fn query(&self, what: c_ulong, request: &mut libc::ifreq) -> io::Result<bool> {
        let at: *mut libc::ifreq = request;
        // SAFETY: `at` points to an ifreq, which is what the queries of this module read and write.
        match check(unsafe { libc::ioctl(self.raw(), what as _, at) }) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// A fanout group of this network namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    id: u16,
    mode: c_uint,
}

/// The index of an interface; `None` if it does not exist.
pub(super) fn index_of(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` is a string that ends with a zero byte and lives as long as the call.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

/// A query about an interface by name; `None` if the name is longer than the kernel allows.
fn request_for(name: &str) -> Option<libc::ifreq> {
    // SAFETY: all zeros is a good ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    Some(request)
}

/// Blocks all signals in the calling thread.
pub(super) fn block_signals() {
    // SAFETY: all zeros is a good sigset_t; the pointers are to a live value, or null where the call allows it.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// Gives the calling thread a table of descriptors of its own (close_range(2), Linux 5.9), which contains only `kept`.
/// Returns the owner of that descriptor in the new table. The owner in the former table keeps it there.
pub(super) fn leave_table(kept: RawFd) -> io::Result<OwnedFd> {
    let kept = u32::try_from(kept).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    let close = |first: u32, last: u32, flags: u32| {
        // SAFETY: no memory is passed. The first call below makes the table and closes descriptors in it alone; the
        // second finds the table that belongs to this thread. No owner of a descriptor in another table notices, and
        // this thread owns none.
        match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    close(kept.saturating_add(1), u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if let Some(below) = kept.checked_sub(1) {
        close(0, below, 0)?;
    }
    // SAFETY: the descriptor is open in this table, and nothing owns it here.
    Ok(unsafe { OwnedFd::from_raw_fd(kept as RawFd) })
}

/// Returns when every processor has left the kernel code that it was executing at the time of the call (an RCU grace
/// period). A filter attached before is then in force everywhere.
pub(super) fn grace_period() {
    // SAFETY: no memory is passed.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if done != 0 {
        // The kernel refuses the call on systems with isolated processors (nohz_full). Packet processing runs with
        // preemption off and takes far less time than this pause.
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
