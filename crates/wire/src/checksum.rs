//! Checksums: verified, computed, and brought up to date after a change.

use crate::{Fragment, Hints, Layers, Network, Packet, final_destination};

/// The result of verifying a checksum.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Checksum {
    /// The checksum matches the bytes that it covers.
    Good,
    /// The checksum does not match the bytes that it covers.
    Bad,
    /// No checksum to verify: the protocol has none, the sender omitted it, or the sender left it to its network card
    /// ([`Hints::CHECKSUM_PENDING`]).
    #[default]
    Absent,
    /// The checksum cannot be verified: the capture truncated the packet, the packet is a fragment, or its header is
    /// malformed.
    Unknown,
}

/// The checksums of one level of a packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Checksums {
    /// Checksum of the IPv4 header.
    pub network: Checksum,
    /// Checksum of TCP, UDP, UDP-Lite, ICMP, ICMPv6, IGMP, SCTP or DCCP.
    pub transport: Checksum,
}

/// Verifies the checksums of one level.
///
/// For the outermost level, which the card has seen, the hints of a live source are trusted: a checksum that the card
/// verified is not computed again, and a wrong one that was left to the card is [`Checksum::Absent`].
pub fn verify(packet: &Packet<'_>, layers: &Layers) -> Checksums {
    Checksums { network: network(packet, layers), transport: transport(packet, layers) }
}

/// Whether the transport checksum field of TCP or UDP holds the sum of the pseudo header alone: what Linux leaves there
/// for the card to finish (CHECKSUM_PARTIAL, linux/skbuff.h), and what a capture on the sender shows.
pub fn is_pseudo_header_sum(packet: &Packet<'_>, layers: &Layers) -> bool {
    let place = match Place::of(layers.ip_proto) {
        Some(place @ (Place::Tcp | Place::Udp)) => place,
        _ => return false,
    };
    let (start, end) = (layers.transport as usize, (layers.network + layers.network_len) as usize);
    let sums = packet.data.get(start..end).and_then(|segment| {
        let pseudo = place.pseudo(packet.data, layers, segment, place.covered(segment)?)?;
        Some((word(segment, place.offset())?, fold(pseudo)))
    });
    sums.is_some_and(|(stored, pseudo)| stored == pseudo)
}

fn network(packet: &Packet<'_>, layers: &Layers) -> Checksum {
    if layers.network_kind != Network::Ipv4 {
        return Checksum::Absent;
    }
    match ipv4_header(packet.data, layers) {
        Some(header) => verdict(sum(header)),
        None => Checksum::Unknown,
    }
}

fn ipv4_header<'a>(data: &'a [u8], layers: &Layers) -> Option<&'a [u8]> {
    let start = layers.network as usize;
    let size = usize::from(data.get(start)? & 0xf) * 4;
    data.get(start..start + size)
}

fn verdict(sum: u16) -> Checksum {
    if sum == 0xffff { Checksum::Good } else { Checksum::Bad }
}

fn transport(packet: &Packet<'_>, layers: &Layers) -> Checksum {
    let Some(place) = Place::of(layers.ip_proto) else { return Checksum::Absent };
    if layers.fragment != Fragment::Whole || !layers.has_transport() {
        return Checksum::Unknown;
    }
    let outermost = layers.link == 0;
    if outermost && packet.hints.has(Hints::CHECKSUM_VALID) {
        return Checksum::Good;
    }
    let (start, end) = (layers.transport as usize, (layers.network + layers.network_len) as usize);
    let Some(segment) = packet.data.get(start..end) else { return Checksum::Unknown };
    if claims_more(packet.data, layers) {
        return Checksum::Unknown;
    }
    match place.check(packet, layers, segment) {
        Some(Checksum::Bad) if outermost && packet.hints.has(Hints::CHECKSUM_PENDING) => Checksum::Absent,
        Some(checksum) => checksum,
        None => Checksum::Unknown,
    }
}

/// Whether the IP packet is longer than its frame because the capture cut the frame.
fn claims_more(data: &[u8], layers: &Layers) -> bool {
    let start = layers.network as usize;
    let claimed = match layers.network_kind {
        Network::Ipv4 => word(data, start + 2).map_or(0, u32::from),
        Network::Ipv6 => word(data, start + 4).map_or(0, |payload| 40 + u32::from(payload)),
        Network::None | Network::Arp => 0,
    };
    claimed > layers.network_len
}

/// The coverage and pseudo-header of a transport protocol's checksum.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Tcp,
    Udp,
    UdpLite,
    /// ICMP and IGMP: no pseudo header.
    Plain,
    Icmpv6,
    Sctp,
    Dccp,
}

impl Place {
    fn of(proto: u8) -> Option<Self> {
        Some(match proto {
            1 | 2 => Self::Plain,
            6 => Self::Tcp,
            17 => Self::Udp,
            33 => Self::Dccp,
            58 => Self::Icmpv6,
            132 => Self::Sctp,
            136 => Self::UdpLite,
            _ => return None,
        })
    }

    /// Offset of the checksum in the transport header.
    fn offset(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp | Self::UdpLite | Self::Dccp => 6,
            Self::Plain | Self::Icmpv6 => 2,
            Self::Sctp => 8,
        }
    }

    /// Verifies the checksum of `segment`, the whole IP payload after extension headers. `None` when the header does
    /// not allow a verdict.
    fn check(self, packet: &Packet<'_>, layers: &Layers, segment: &[u8]) -> Option<Checksum> {
        if self == Self::Sctp {
            return sctp(segment);
        }
        if self == Self::Udp && segment.get(6..8)? == [0, 0] {
            return Some(Checksum::Absent);
        }
        let Some(covered) = self.covered(segment) else {
            return Some(if self == Self::Udp { Checksum::Unknown } else { Checksum::Bad });
        };
        let pseudo = self.pseudo(packet.data, layers, segment, covered)?;
        Some(verdict(fold(pseudo + u64::from(sum(covered)))))
    }

    /// The bytes that the checksum covers.
    fn covered(self, segment: &[u8]) -> Option<&[u8]> {
        let length = usize::from(word(segment, 4)?);
        match self {
            // Padding inside the IP packet is not covered; a length past its end is a datagram that is not all here.
            Self::Udp if length != 0 => segment.get(..length),
            // RFC 3828 3.1: 0 is all, and less than the header is not allowed.
            Self::UdpLite if length != 0 => segment.get(..length).filter(|_| length >= 8),
            // RFC 4340 9.2: 0 covers all; otherwise the header and (value - 1) 32-bit words.
            Self::Dccp => match segment.get(5)? & 0xf {
                0 => Some(segment),
                words => {
                    let header = usize::from(*segment.get(4)?) * 4;
                    segment.get(..header + (usize::from(words) - 1) * 4)
                }
            },
            _ => Some(segment),
        }
    }

    /// The sum of the pseudo header (RFC 9293 3.1, RFC 8200 8.1), unfolded.
    fn pseudo(self, data: &[u8], layers: &Layers, segment: &[u8], covered: &[u8]) -> Option<u64> {
        if self == Self::Plain {
            return Some(0);
        }
        // The pseudo-header of UDP has UDP's own length, which may exclude padding. Other protocols use the length of
        // the IP payload.
        let length = if self == Self::Udp { covered.len() } else { segment.len() };
        let header = data.get(layers.network as usize..)?;
        let addresses = match layers.network_kind {
            Network::Ipv4 => u64::from(sum(header.get(12..20)?)),
            Network::Ipv6 if layers.source_routed => {
                let last = final_destination(data, layers)?;
                u64::from(sum(header.get(8..24)?)) + u64::from(sum(&last))
            }
            Network::Ipv6 => u64::from(sum(header.get(8..40)?)),
            Network::None | Network::Arp => return None,
        };
        Some(addresses + length as u64 + u64::from(layers.ip_proto))
    }
}

/// CRC-32C over the packet with the checksum taken as 0, stored little-endian (RFC 9260 6.8, appendix A). A
/// checksum of 0 that is not the right one was left out (RFC 9653).
fn sctp(segment: &[u8]) -> Option<Checksum> {
    let (before, rest) = segment.split_at_checked(8)?;
    let (stored, after) = rest.split_first_chunk::<4>()?;
    Some(match u32::from_le_bytes(*stored) {
        stored if stored == sctp_crc(before, after) => Checksum::Good,
        0 => Checksum::Absent,
        _ => Checksum::Bad,
    })
}

fn sctp_crc(before: &[u8], after: &[u8]) -> u32 {
    !crc32c_update(crc32c_update(crc32c_update(!0, before), &[0; 4]), after)
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Writes correct checksums into a packet that was built or changed, for the level that `layers` describes: the IPv4
/// header's and the transport's. A UDP checksum that was omitted stays omitted. The transport checksum of a fragment
/// or of a truncated packet is left as it is. A checksum that is right is not changed: some senders write 0xffff, the
/// other zero of ones' complement (RFC 1071 2), where the sum gives 0. Returns whether every checksum could be written.
pub fn fill(data: &mut [u8], layers: &Layers) -> bool {
    let header = fill_ipv4(data, layers);
    match Place::of(layers.ip_proto) {
        Some(place) if layers.has_transport() && layers.fragment == Fragment::Whole => {
            header && fill_transport(data, layers, place).is_some()
        }
        Some(_) => false,
        None => header,
    }
}

fn fill_ipv4(data: &mut [u8], layers: &Layers) -> bool {
    if layers.network_kind != Network::Ipv4 {
        return true;
    }
    let at = layers.network as usize + 10;
    let stored = word(data, at);
    put(data, at, 0);
    let Some(header) = ipv4_header(data, layers) else { return false };
    let checksum = !sum(header);
    put(data, at, zero_as_stored(checksum, stored))
}

fn fill_transport(data: &mut [u8], layers: &Layers, place: Place) -> Option<()> {
    let (start, end) = (layers.transport as usize, (layers.network + layers.network_len) as usize);
    let at = start + place.offset();
    let segment = data.get(start..end)?;
    if place == Place::Sctp {
        let (before, rest) = segment.split_at_checked(8)?;
        let crc = sctp_crc(before, rest.get(4..)?);
        data.get_mut(at..at + 4)?.copy_from_slice(&crc.to_le_bytes());
        return Some(());
    }
    if place == Place::Udp && word(segment, 6)? == 0 {
        return Some(());
    }
    place.covered(segment)?;
    let stored = word(data, at);
    put(data, at, 0).then_some(())?;
    let segment = data.get(start..end)?;
    let covered = place.covered(segment)?;
    let pseudo = place.pseudo(data, layers, segment, covered)?;
    let checksum = !fold(pseudo + u64::from(sum(covered)));
    // 0 means that there is no checksum (RFC 768).
    let zero_means_none = matches!(place, Place::Udp | Place::UdpLite);
    let checksum = if zero_means_none && checksum == 0 { 0xffff } else { zero_as_stored(checksum, stored) };
    put(data, at, checksum).then_some(())
}

/// A computed checksum of 0 in the form that was stored: 0xffff is equal to it.
fn zero_as_stored(computed: u16, stored: Option<u16>) -> u16 {
    if computed == 0 && stored == Some(0xffff) { 0xffff } else { computed }
}

fn put(data: &mut [u8], at: usize, value: u16) -> bool {
    match data.get_mut(at..at + 2) {
        Some(place) => {
            place.copy_from_slice(&value.to_be_bytes());
            true
        }
        None => false,
    }
}

/// The ones' complement sum of `data` as 16-bit words in network byte order, an odd last byte filled up with 0
/// (RFC 1071). Data that holds its own checksum sums to 0xffff; the checksum to store is the complement.
pub fn sum(data: &[u8]) -> u16 {
    // The sum is the same in any byte order (RFC 1071 2B): add words as they lie in memory, swap once.
    let (words, rest) = data.as_chunks::<4>();
    let mut total = words.iter().fold(0_u64, |total, word| total + u64::from(u32::from_ne_bytes(*word)));
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    total += u64::from(u32::from_ne_bytes(last));
    u16::from_be(fold(total))
}

/// Carries brought back in until the sum has 16 bits.
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The checksum after the bytes that it covers changed from `old` to `new` (RFC 1624 equation 3). Both have the same
/// length and start at an even offset in what is covered.
pub fn update(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!sum(old)) + u64::from(sum(new)))
}

/// CRC-32C (Castagnoli) of `data`, as SCTP and iSCSI use it.
pub fn crc32c(data: &[u8]) -> u32 {
    !crc32c_update(!0, data)
}

/// Processes eight bytes at a time with eight tables. The CPU's CRC instruction is not available without unsafe code.
#[expect(clippy::indexing_slicing, reason = "tables of 256 entries are indexed by a byte")]
fn crc32c_update(crc: u32, data: &[u8]) -> u32 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &CRC32C;
    let (blocks, rest) = data.as_chunks::<8>();
    let crc = blocks.iter().fold(crc, |crc, &[a, b, c, d, e, f, g, h]| {
        let [w, x, y, z] = (crc ^ u32::from_le_bytes([a, b, c, d])).to_le_bytes().map(usize::from);
        let [e, f, g, h] = [e, f, g, h].map(usize::from);
        t7[w] ^ t6[x] ^ t5[y] ^ t4[z] ^ t3[e] ^ t2[f] ^ t1[g] ^ t0[h]
    });
    rest.iter().fold(crc, |crc, &byte| (crc >> 8) ^ t0[usize::from(crc as u8 ^ byte)])
}

static CRC32C: [[u32; 256]; 8] = crc32c_tables();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of range")]
const fn crc32c_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}
