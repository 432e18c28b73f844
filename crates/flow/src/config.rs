//! Configuration of a flow table.

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds after the last packet of a closed TCP connection in which segments without SYN are still its own: the timeout
/// of closed flows in Suricata's `suricata.yaml` (flow-timeouts, tcp, closed). See [`crate::FlowRecord::follows`].
pub const LATE: u64 = 60 * SECOND;

/// Sizes and timeouts of a [`crate::FlowTable`]. All times are nanoseconds of packet time.
///
/// The defaults are Zeek's; Zeek's name of an option is given in parentheses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FlowConfig {
    /// Memory limit of the table in bytes, including the index. The table takes memory as flows begin and never
    /// exceeds the limit. Values below 128 KiB act as 128 KiB.
    pub memory: usize,
    /// Idle timeout of an established TCP flow (tcp_inactivity_timeout).
    pub idle_tcp: u64,
    /// Idle timeout of an established TCP flow whose responder's port is one of FTP, SSH, Telnet or rlogin, which can
    /// be silent for long.
    pub idle_interactive: u64,
    /// Idle timeout of a TCP flow with only a handshake (Zeek uses udp_inactivity_timeout).
    pub idle_handshake: u64,
    /// Idle timeout of a UDP flow (udp_inactivity_timeout).
    pub idle_udp: u64,
    /// Idle timeout of an ICMP flow (icmp_inactivity_timeout).
    pub idle_icmp: u64,
    /// Idle timeout of a flow of any other protocol (unknown_ip_inactivity_timeout).
    pub idle_other: u64,
    /// Time after which a SYN without an answer ends as a flow, since its first packet (tcp_attempt_delay).
    pub attempt: u64,
    /// Time after which a TCP flow ends that both sides closed or one side reset (tcp_close_delay).
    pub close: u64,
    /// Active timeout: a flow of this age is recorded at its next packet and continues with empty counters. `u64::MAX`
    /// for never, so that a record is the whole flow.
    pub active: u64,
    /// Time that the fragments of an IP packet wait for its first fragment.
    pub fragment: u64,
    /// Maximum step between two ticks. A later tick counts only when the next tick confirms it, so that a single wrong
    /// time does not end every flow.
    pub jump: u64,
    /// Key of the table's hash. It changes no result; choose it at random where the traffic may be hostile.
    pub seed: [u64; 2],
    /// Whether flows in different VLANs are different flows, by both identifiers of [`weir_wire::Layers::vlan`].
    pub vlan: bool,
    /// Whether a flow without an observed beginning is reversed if [`crate::is_likely_server`] holds for its source
    /// port.
    pub guess_initiator: bool,
    /// The checksums that are verified. Packets with a wrong one add only a `C` to the history and are not counted otherwise, as
    /// hosts drop them.
    pub checksums: VerifiedChecksums,
}

/// The checksums that a flow table verifies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum VerifiedChecksums {
    /// None.
    #[default]
    None,
    /// Those of TCP, as in Suricata.
    Tcp,
    /// Those of IPv4, TCP, UDP and ICMP, as in Zeek.
    All,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            idle_tcp: 300 * SECOND,
            idle_interactive: 3600 * SECOND,
            idle_handshake: 60 * SECOND,
            idle_udp: 60 * SECOND,
            idle_icmp: 60 * SECOND,
            idle_other: 60 * SECOND,
            attempt: 5 * SECOND,
            close: 5 * SECOND,
            active: u64::MAX,
            fragment: 30 * SECOND,
            jump: 24 * 3600 * SECOND,
            seed: [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b],
            vlan: false,
            guess_initiator: true,
            checksums: VerifiedChecksums::None,
        }
    }
}
