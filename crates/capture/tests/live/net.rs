//! A network namespace with veth pairs, and a sender.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A network namespace that the calling thread stays in until the value is dropped.
pub struct Net {
    name: String,
    home: std::fs::File,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// A namespace with the veth pairs a0-b0, a1-b1 and so on, all up; `None`, with the reason printed, if that is not
    /// possible.
    pub fn new(pairs: usize) -> Option<Self> {
        // SAFETY: no memory is passed.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: not root");
            return None;
        }
        let name = format!("weir-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        match made {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                println!("skipped: ip netns add: {}", String::from_utf8_lossy(&output.stderr));
                return None;
            }
            Err(e) => {
                println!("skipped: ip: {e}");
                return None;
            }
        }
        let home = std::fs::File::open("/proc/thread-self/ns/net").expect("own namespace");
        let net = Self { name, home };
        enter(&std::fs::File::open(format!("/run/netns/{}", net.name)).expect("namespace"));
        // No neighbour discovery, because the tests count the packets that they send.
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        for pair in 0..pairs {
            net.add_pair(pair);
        }
        Some(net)
    }

    pub fn add_pair(&self, pair: usize) {
        let (a, b) = (format!("a{pair}"), format!("b{pair}"));
        self.ip(&["link", "add", "name", &a, "type", "veth", "peer", "name", &b]);
        self.ip(&["link", "set", &a, "up"]);
        self.ip(&["link", "set", &b, "up"]);
    }

    /// Runs `ip` in the namespace.
    pub fn ip(&self, arguments: &[&str]) {
        assert!(self.try_ip(arguments), "ip {arguments:?}");
    }

    /// Runs `ip` in the namespace. Returns whether it succeeded.
    pub fn try_ip(&self, arguments: &[&str]) -> bool {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name]).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        ip.status().expect("ip").success()
    }

    /// Moves another thread into the namespace.
    pub fn enter(&self) {
        enter(&std::fs::File::open(format!("/run/netns/{}", self.name)).expect("namespace"));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        enter(&self.home);
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn enter(namespace: &std::fs::File) {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "setns: {}", io::Error::last_os_error());
}

/// Sends unmodified frames without the queueing discipline.
pub struct Sender {
    fd: OwnedFd,
}

impl Sender {
    pub fn new(interface: &str) -> Self {
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: the string lives as long as the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert_ne!(index, 0, "{interface}");
        // SAFETY: no memory is passed; the descriptor is new.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0);
            OwnedFd::from_raw_fd(fd)
        };
        let one: c_int = 1;
        // SAFETY: the pointers are to live values of the sizes given; all zeros is a good sockaddr_ll.
        unsafe {
            let at: *const c_int = &one;
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_QDISC_BYPASS,
                at.cast::<c_void>(),
                4,
            );
            let mut address: libc::sockaddr_ll = zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = index as c_int;
            let at: *const libc::sockaddr_ll = &address;
            let size = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd.as_raw_fd(), at.cast::<libc::sockaddr>(), size), 0);
        }
        Self { fd }
    }

    /// Sends each frame. Returns how many were sent.
    pub fn send(&self, frames: &[Vec<u8>]) -> usize {
        let mut sent = 0;
        for chunk in frames.chunks(64) {
            let mut pieces: Vec<libc::iovec> = chunk
                .iter()
                .map(|f| libc::iovec { iov_base: f.as_ptr().cast_mut().cast(), iov_len: f.len() })
                .collect();
            let mut messages: Vec<libc::mmsghdr> = pieces
                .iter_mut()
                .map(|piece| {
                    // SAFETY: all zeros is a good mmsghdr.
                    let mut message: libc::mmsghdr = unsafe { zeroed() };
                    message.msg_hdr.msg_iov = piece;
                    message.msg_hdr.msg_iovlen = 1;
                    message
                })
                .collect();
            let mut done = 0;
            while done < messages.len() {
                let rest = &mut messages[done..];
                // SAFETY: each message has one buffer, which lives as long as the call; the kernel only reads it.
                let n =
                    unsafe { libc::sendmmsg(self.fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
                if n <= 0 {
                    let error = io::Error::last_os_error();
                    if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)) {
                        continue;
                    }
                    panic!("sendmmsg: {error}");
                }
                done += n as usize;
            }
            sent += done;
        }
        sent
    }

    /// Sends the frames repeatedly at `rate` packets per second, for `time`. Returns how many were sent.
    pub fn send_at(&self, frames: &[Vec<u8>], rate: f64, time: Duration) -> u64 {
        let begin = Instant::now();
        let mut sent = 0u64;
        let mut chunks = frames.chunks(64).cycle();
        while begin.elapsed() < time {
            let due = (begin.elapsed().as_secs_f64() * rate) as u64;
            if sent < due {
                sent += self.send(chunks.next().unwrap()) as u64;
            } else {
                std::hint::spin_loop();
            }
        }
        sent
    }
}

/// An Ethernet header with tags or other headers (complete, from the first EtherType on) in front of `rest`.
pub fn frame(between: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend_from_slice(between);
    frame.extend_from_slice(rest);
    frame
}

/// An IPv4 packet with UDP and the number `n` in its payload of `len` bytes; `fragment` is the field of flags and
/// offset.
pub fn ipv4(src: [u8; 4], dst: [u8; 4], fragment: u16, n: u32, len: usize) -> Vec<u8> {
    let total = (28 + len) as u16;
    let mut p = vec![0x45, 0];
    p.extend_from_slice(&total.to_be_bytes());
    p.extend_from_slice(&[0, 1]);
    p.extend_from_slice(&fragment.to_be_bytes());
    p.extend_from_slice(&[64, 17, 0, 0]);
    p.extend_from_slice(&src);
    p.extend_from_slice(&dst);
    udp(&mut p, n, len);
    p
}

/// An IPv6 packet with UDP.
pub fn ipv6(src: [u8; 16], dst: [u8; 16], n: u32, len: usize) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0];
    p.extend_from_slice(&((8 + len) as u16).to_be_bytes());
    p.extend_from_slice(&[17, 64]);
    p.extend_from_slice(&src);
    p.extend_from_slice(&dst);
    udp(&mut p, n, len);
    p
}

fn udp(p: &mut Vec<u8>, n: u32, len: usize) {
    p.extend_from_slice(&[0x30, 0x39, 0x00, 0x35]);
    p.extend_from_slice(&((8 + len) as u16).to_be_bytes());
    p.extend_from_slice(&[0, 0]);
    let mut payload = vec![0x55; len];
    payload[..4].copy_from_slice(&n.to_be_bytes());
    p.extend_from_slice(&payload);
}

/// `n` plain frames of 60 bytes, numbered.
pub fn numbered(n: u32) -> Vec<Vec<u8>> {
    (0..n).map(|i| frame(&[8, 0], &ipv4([10, 0, 0, 1], [10, 0, 0, 2], 0, i, 18))).collect()
}

/// Drops all capabilities of the calling thread except these (bits of linux/capability.h), permanently.
pub fn keep_capabilities(keep: u64) {
    let header: [u32; 2] = [0x2008_0522, 0];
    let sets = [keep as u32, keep as u32, 0, (keep >> 32) as u32, (keep >> 32) as u32, 0];
    // SAFETY: a header of version 3 and its two triples of 32-bit sets, as capset(2) requires; the call changes the
    // calling thread only.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(result, 0, "capset: {}", io::Error::last_os_error());
}

/// A tun interface; packets written to the file arrive on it.
pub fn tun(name: &str) -> std::fs::File {
    other_end(name, libc::IFF_TUN)
}

/// A tap interface; frames written to the file arrive on it.
pub fn tap(name: &str) -> std::fs::File {
    other_end(name, libc::IFF_TAP)
}

fn other_end(name: &str, kind: c_int) -> std::fs::File {
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").expect("tun");
    // SAFETY: all zeros is a good ifreq, and the call reads and writes no more than one.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as i16;
        assert_eq!(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request), 0);
    }
    file
}
