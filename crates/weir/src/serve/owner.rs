//! Which user of this machine a connection over loopback belongs to.
//!
//! Where no users and tokens are configured, loopback alone is served, and every user of the machine can connect to it.
//! Packets are for the one who started the program, as a file of them would be. The kernel knows whose socket is at
//! the other end of a connection: proc(5), /proc/net/tcp.

use std::fs::File;
use std::io::{Read, Seek};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// The most bytes of the kernel's table that are read: about 100,000 connections.
const MAX_TABLE: u64 = 16 << 20;
/// The number of the state ESTABLISHED in the table. Of a socket that its process has closed the table has no owner.
const ESTABLISHED: &str = "01";

/// The users for whom packets are, and the tables in which connections stand.
pub struct Owners {
    /// Root, the user who started the program, and the one who did so with sudo.
    trusted: Vec<u32>,
    /// Of IPv4 and of IPv6. They are open from the start on: a process that has given up its rights opens no file.
    tables: [Option<Mutex<File>>; 2],
}

impl Owners {
    /// Those of this process. To be called before it gives up its rights.
    pub fn of_this_process() -> Owners {
        let open = |path: &str| File::open(path).ok().map(Mutex::new);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let user = real_user(&status);
        let mut trusted: Vec<u32> = [0].into_iter().chain(user).collect();
        // The name is sudo's where the user is root; another user could have set it to anything.
        if user == Some(0) {
            trusted.extend(std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok()));
        }
        Owners { trusted, tables: [open("/proc/net/tcp"), open("/proc/net/tcp6")] }
    }

    /// Whether packets are for that user.
    pub fn trusts(&self, user: u32) -> bool {
        self.trusted.contains(&user)
    }

    /// The user whose socket connects from `peer` to `own`, where both are of this machine. Reads the kernel's tables,
    /// which can take milliseconds on a machine with many connections.
    pub fn of(&self, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
        let [four, six] = &self.tables;
        match (peer, own) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let (a, b) = (from.ip().octets(), to.ip().octets());
                let plain = format!("{} {}", place(&a, from.port()), place(&b, to.port()));
                // A socket of IPv6 can connect to an address of IPv4.
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

/// The real user of a process by its /proc/PID/status.
fn real_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// An address and a port as the kernel's table writes them: words of 32 bits in the machine's byte order.
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

/// The owner of the socket between two places: the columns `local_address rem_address st ... uid timeout inode`.
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
    fn lines_of_the_table() {
        let line = |state: &str, uid: u32, inode: u32| {
            format!(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                 5: 0100007F:D431 0100007F:2116 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0000\n"
            )
        };
        let places = "0100007F:D431 0100007F:2116";
        assert_eq!(owner(&line("01", 1000, 77), places), Some(1000));
        // Of a closed socket the kernel writes user 0.
        assert_eq!(owner(&line("06", 0, 0), places), None);
        assert_eq!(owner(&line("01", 0, 0), places), None);
        assert_eq!(owner(&line("01", 1000, 77), "0100007F:2116 0100007F:D431"), None);
        assert_eq!(owner("", places), None);
        assert_eq!(real_user("Name:\tweir\nUid:\t1000\t0\t0\t0\n"), Some(1000));
        assert_eq!(real_user("Name:\tweir\n"), None);
    }

    #[test]
    fn connections_of_this_process() {
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
