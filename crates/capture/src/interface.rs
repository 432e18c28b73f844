//! The network interfaces of this host, for listings and messages.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

use weir_wire::LinkType;

/// A network interface, and its counters since it was created.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index: unique in a network namespace, and never reused.
    pub index: u32,
    /// Whether the interface is up (IFF_UP).
    pub up: bool,
    /// Whether the interface has a carrier (IFF_RUNNING).
    pub running: bool,
    /// Whether the interface is loopback.
    pub loopback: bool,
    /// Link type of captured packets.
    pub link: LinkType,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Netmask of the first IPv4 address.
    pub netmask: Option<Ipv4Addr>,
    /// Received traffic.
    pub received: Counters,
    /// Sent traffic.
    pub sent: Counters,
}

/// Counters of one direction of an interface (proc_pid_net(5), `dev`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Bad packets.
    pub errors: u64,
    /// Packets that the card or the kernel dropped before any capture. The kernel also counts packets of unhandled
    /// protocols here.
    pub drops: u64,
}

/// All interfaces of the calling thread's network namespace, in the order of their indices. Needs no privilege.
///
/// # Errors
/// The kernel refuses to list them.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found = list()?;
    // The thread's own view: a process may have threads in several network namespaces.
    let counters = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    for line in counters.lines() {
        if let Some((name, received, sent)) = counters_of(line)
            && let Some(interface) = found.get_mut(name)
        {
            (interface.received, interface.sent) = (received, sent);
        }
    }
    let mut interfaces: Vec<Interface> = found.into_values().collect();
    interfaces.sort_by_key(|i| i.index);
    Ok(interfaces)
}

/// The link type of packets captured on an interface, by its ARPHRD_ value (linux/if_arp.h). LINUX_SLL2 if the
/// kernel's header is missing, useless or not supported.
pub(crate) fn link_type(hardware: u16) -> LinkType {
    /// Raw IP, as used by cellular modems.
    const ARPHRD_RAWIP: u16 = 519;
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
        libc::ARPHRD_NONE | ARPHRD_RAWIP | libc::ARPHRD_TUNNEL | libc::ARPHRD_TUNNEL6 | libc::ARPHRD_SIT => {
            LinkType::RAW
        }
        libc::ARPHRD_IEEE80211 => LinkType::IEEE802_11,
        libc::ARPHRD_IEEE80211_RADIOTAP => LinkType::IEEE802_11_RADIOTAP,
        _ => LinkType::LINUX_SLL2,
    }
}

/// Parses a line of /proc/net/dev.
fn counters_of(line: &str) -> Option<(&str, Counters, Counters)> {
    let (name, rest) = line.rsplit_once(':')?;
    let mut numbers = rest.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let received = Counters { bytes: next()?, packets: next()?, errors: next()?, drops: next()? };
    for _ in ["fifo", "frame", "compressed", "multicast"] {
        next()?;
    }
    let sent = Counters { bytes: next()?, packets: next()?, errors: next()?, drops: next()? };
    Some((name.trim(), received, sent))
}

/// Interfaces by name, without their counters (getifaddrs(3)).
fn list() -> io::Result<BTreeMap<String, Interface>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call writes one pointer.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    let mut at = first;
    // SAFETY: the list is ours and unchanged until it is freed below; its end is null.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: every entry has a name, which ends with a zero byte.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
        let interface = found.entry(name.clone().into_owned()).or_default();
        interface.name = name.into_owned();
        let flags = entry.ifa_flags;
        interface.up = flags & libc::IFF_UP as u32 != 0;
        interface.running = flags & libc::IFF_RUNNING as u32 != 0;
        interface.loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
        note(entry, interface);
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found.retain(|_, interface| interface.index != 0);
    Ok(found)
}

/// Reads the address of an entry.
fn note(entry: &libc::ifaddrs, interface: &mut Interface) {
    // SAFETY: the address is null or a socket address of the type that its family names.
    let Some(address) = (unsafe { entry.ifa_addr.as_ref() }) else { return };
    match i32::from(address.sa_family) {
        libc::AF_PACKET => {
            // SAFETY: of this family it is a sockaddr_ll.
            let link = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_ll>() };
            interface.index = link.sll_ifindex as u32;
            interface.link = link_type(link.sll_hatype);
        }
        libc::AF_INET => {
            // SAFETY: of this family it is a sockaddr_in.
            let v4 = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
            interface.addresses.push(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))));
            // SAFETY: a netmask is null or of the family of its address.
            let netmask = unsafe { entry.ifa_netmask.cast::<libc::sockaddr_in>().as_ref() };
            let netmask = netmask.map(|mask| Ipv4Addr::from(u32::from_be(mask.sin_addr.s_addr)));
            interface.netmask = interface.netmask.or(netmask);
        }
        libc::AF_INET6 => {
            // SAFETY: of this family it is a sockaddr_in6.
            let v6 = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in6>() };
            interface.addresses.push(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed() {
        let all = interfaces().expect("interfaces");
        let lo = all.iter().find(|i| i.name == "lo").expect("lo");
        assert!(lo.loopback);
        assert_eq!(lo.link, LinkType::ETHERNET);
        let has_v4 = lo.addresses.iter().any(IpAddr::is_ipv4);
        assert_eq!(lo.netmask, has_v4.then_some(Ipv4Addr::new(255, 0, 0, 0)));
        assert!(all.iter().all(|i| i.index > 0));
    }

    #[test]
    fn lines_of_proc_net_dev() {
        let line = "  eth0.5:  1234     10    1    2    3     4          5         6   4321     11    7    8    0     0       0          0";
        let (name, received, sent) = counters_of(line).expect("counters");
        assert_eq!(name, "eth0.5");
        assert_eq!(received, Counters { bytes: 1234, packets: 10, errors: 1, drops: 2 });
        assert_eq!(sent, Counters { bytes: 4321, packets: 11, errors: 7, drops: 8 });
        assert_eq!(
            counters_of("Inter-|   Receive                                                |  Transmit"),
            None
        );
    }
}
