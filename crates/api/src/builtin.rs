//! The built-in subscriptions: their numbers are fixed, so that their answers are found by number.

use crate::SubscriptionId;

macro_rules! built_in {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: SubscriptionId = SubscriptionId($number);)*

        /// Names and numbers of the built-in subscriptions.
        pub static BUILT_IN: &[(&str, SubscriptionId)] = &[$(($name, $constant)),*];
    };
}

built_in! {
    /// Servers, their ports and their clients by bytes.
    TALKERS = 1, "talkers";
    /// Server ports by bytes.
    SERVICES = 2, "services";
    /// Senders by bytes.
    SOURCES = 3, "sources";
    /// Receivers by bytes.
    DESTINATIONS = 4, "destinations";
    /// Five-tuples by bytes.
    FLOWS = 5, "flows";
    /// IP protocols by bytes.
    PROTOCOLS = 6, "protocols";
    /// Packets and bytes over time.
    RATE = 7, "rate";
    /// Hosts that probe ports or hosts.
    SCANS = 8, "scans";
    /// Unicast, multicast and broadcast.
    CAST = 9, "cast";
    /// Packets by size.
    SIZE = 10, "size";
    /// Packets by IP protocol.
    IPPROTO = 11, "ipproto";
    /// Number of distinct hosts.
    HOSTS = 12, "hosts";
    /// Number of distinct pairs of hosts.
    PAIRS = 13, "pairs";
    /// Number of distinct ports.
    PORTS = 14, "ports";
    /// Unidentified traffic by port.
    UNIDENTIFIED = 15, "unidentified";
    /// Names that DNS was asked for.
    NAMES = 22, "names";
    /// Sites that clients asked for, by requests and connections.
    SITES = 23, "sites";
    /// Versions of TLS.
    TLS_VERSIONS = 24, "tls versions";
    /// Programs of HTTP clients.
    USER_AGENTS = 25, "user agents";
    /// Status codes of HTTP responses.
    STATUS_CODES = 26, "status codes";
    /// Times to the first byte and round trips, by server.
    LATENCY = 27, "latency";
    /// Packets without IP by sender, receiver and kind.
    FRAMES = 28, "frames";
    /// Calls of SIP, with the loss and jitter of their media.
    CALLS = 29, "calls";
    /// Wi-Fi networks and their stations.
    WIFI = 30, "wifi";
    /// Hardware addresses that claim IPv4 addresses by ARP.
    ARP = 31, "arp";
    /// Registered domains by the number of distinct names that DNS was asked for, and the number of all of them.
    DOMAINS = 32, "domains";
    /// Names that clients resolved, for the addresses of their servers.
    HOST_NAMES = 33, "host names";
    /// Packets without IP by protocol.
    NON_IP = 34, "packets without IP";
    /// Packets in tunnels.
    TUNNELS = 35, "tunnels";
    /// Ended flows by connection state.
    STATES = 36, "connection states";
    /// Protocols that were identified in flows, by port, and by server and port.
    APPLICATIONS = 37, "applications";
    /// Hosts by what is sent to them, in which floods are found. Its reading goes to no output.
    FLOODED = 41, "flooded hosts";
    /// Ourmon's list of flows.
    TOPN_IP = 16, "topn_ip";
    /// Ourmon's list of TCP flows.
    TOPN_TCP = 17, "topn_tcp";
    /// Ourmon's list of UDP flows.
    TOPN_UDP = 18, "topn_udp";
    /// Ourmon's list of ICMP flows.
    TOPN_ICMP = 19, "topn_icmp";
    /// Ourmon's list of TCP ports.
    TOPN_PORT_TCP = 20, "topn_port_tcp";
    /// Ourmon's list of UDP ports.
    TOPN_PORT_UDP = 21, "topn_port_udp";
    /// Ourmon's list of hosts by SYNs, FINs and RSTs.
    TOPN_SYN = 38, "topn_syn";
    /// Ourmon's list of hosts by errors of ICMP that they drew.
    TOPN_ICMPERROR = 39, "topn_icmperror";
    /// Ourmon's list of hosts by UDP that is not answered, and errors.
    TOPN_UDPERROR = 40, "topn_udperror";
}

/// The first number of the subscriptions that options of a run make: logs, packet files, measurements.
pub const OF_OPTIONS: SubscriptionId = SubscriptionId(128);

/// The first number that is not a built-in subscription's.
pub const FIRST_FREE: SubscriptionId = SubscriptionId(256);

/// The number of the built-in subscription of that name.
pub fn number_of(name: &str) -> Option<SubscriptionId> {
    BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_reserved() {
        for (at, (name, number)) in BUILT_IN.iter().enumerate() {
            assert!(*number < OF_OPTIONS, "{name}");
            let others = || BUILT_IN.iter().take(at);
            assert!(others().all(|(other, taken)| other != name && taken != number), "{name}");
            assert_eq!(number_of(name), Some(*number));
        }
    }
}
