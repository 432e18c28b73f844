//! The local user that a connection over loopback belongs to.
//!
//! If no users and tokens are configured, only loopback is served, and every user of this machine can connect to it.
//! Packets are then only for the user who started the program, as a capture file would be. The kernel's tables have
//! the owner of the socket at the other end of a connection: proc(5), /proc/net/tcp.

use std::fs::File;
use std::io::{Read, Seek};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// Maximum number of bytes read of a kernel table: about 100,000 connections.
const MAX_TABLE: u64 = 16 << 20;
/// State ESTABLISHED in the kernel's table. A socket that its process has closed has no owner in the table.
const ESTABLISHED: &str = "01";

/// The users who may read packets, and the kernel's tables of connections.
pub struct Owners {
    /// Root, the user who started the program, and the caller of sudo.
    trusted: Vec<u32>,
    /// Tables of IPv4 and IPv6. They are opened at the start, because the confined process cannot open them later.
    tables: [Option<Mutex<File>>; 2],
}

impl Owners {
    /// The owners of this process. Call it before the process drops its privileges.
    pub fn of_this_process() -> Owners {
        let open = |path: &str| File::open(path).ok().map(Mutex::new);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let user = real_user(&status);
        let mut trusted: Vec<u32> = [0].into_iter().chain(user).collect();
        // sudo sets the variable if the user is root; any other user could have set it.
        if user == Some(0) {
            trusted.extend(std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok()));
        }
        Owners { trusted, tables: [open("/proc/net/tcp"), open("/proc/net/tcp6")] }
    }

    /// Whether the user may read packets.
    pub fn trusts(&self, user: u32) -> bool {
        self.trusted.contains(&user)
    }

    /// The user whose socket connects from `peer` to `own`, if both addresses are local. Reads the kernel's tables,
    /// which may take milliseconds on a machine with many connections.
    pub fn of(&self, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        let [four, six] = &self.tables;
        match (peer, own) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let (a, b) = (from.ip().octets(), to.ip().octets());
                let plain = format!("{} {}", place(&a, from.port()), place(&b, to.port()));
                // An IPv6 socket can connect to an IPv4 address.
                let mapped = |ip: &std::net::Ipv4Addr| ip.to_ipv6_mapped().octets();
                let (a, b) = (mapped(from.ip()), mapped(to.ip()));
                let mapped = format!("{} {}", place(&a, from.port()), place(&b, to.port()));
                find(four.as_ref()?, &plain).or_else(|| find(six.as_ref()?, &mapped))
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                let bytes = |ip: &Ipv6Addr| ip.octets();
                let (a, b) = (bytes(from.ip()), bytes(to.ip()));
                find(six.as_ref()?, &format!("{} {}", place(&a, from.port()), place(&b, to.port())))
            }
            _ => None,
        }
    }
}

/// The real user in a process's /proc/PID/status.
fn real_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// An address and a port in the form of the kernel's table: words of 32 bits in the machine's byte order.
fn place(address: &[u8], port: u16) -> String {
    let mut text = String::new();
    for word in address.chunks_exact(4) {
        let word = word.try_into().map_or(0, u32::from_ne_bytes);
        text.push_str(&format!("{word:08X}"));
    }
    format!("{text}:{port:04X}")
}

fn find(table: &Mutex<File>, places: &str) -> Option<u32> {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.rewind().ok()?;
    let mut text = String::new();
    table.by_ref().take(MAX_TABLE).read_to_string(&mut text).ok()?;
    owner(&text, places)
}

/// The owner of the socket between two endpoints: the columns `local_address rem_address st ... uid timeout inode`.
fn owner(table: &str, places: &str) -> Option<u32> {
    let line = table.lines().find(|line| line.contains(places))?;
    let columns: Vec<&str> = line.split_whitespace().collect();
    let has_process = columns.get(9).is_some_and(|inode| *inode != "0");
    let is_open = columns.get(3) == Some(&ESTABLISHED) && has_process;
    columns.get(7).filter(|_| is_open)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn owners_are_parsed_from_the_kernel_table() {
        let line = |state: &str, uid: u32, inode: u32| {
            format!(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                 5: 0100007F:D431 0100007F:2116 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0000\n"
            )
        };
        let places = "0100007F:D431 0100007F:2116";
        assert_eq!(owner(&line("01", 1000, 77), places), Some(1000));
        // The kernel reports user 0 for a closed socket.
        assert_eq!(owner(&line("06", 0, 0), places), None);
        assert_eq!(owner(&line("01", 0, 0), places), None);
        assert_eq!(owner(&line("01", 1000, 77), "0100007F:2116 0100007F:D431"), None);
        assert_eq!(owner("", places), None);
        assert_eq!(real_user("Name:\tweir\nUid:\t1000\t0\t0\t0\n"), Some(1000));
        assert_eq!(real_user("Name:\tweir\n"), None);
    }

    #[test]
    fn connections_of_this_process_have_its_owner() {
        let owners = Owners::of_this_process();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = server.local_addr().unwrap();
            let user = owners.of(peer, own);
            assert!(user.is_some_and(|user| owners.trusts(user)), "{address}: {user:?}");
            drop(client);
            assert_eq!(owners.of(peer, own), None, "a closed socket has no owner");
        }
    }
}
