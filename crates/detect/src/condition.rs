//! Conditions of a rule that are no search: on headers of packets, on the flow, on the protocol.

use crate::buffer::{RuleBuffer, Sides};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::reputation::Scores;
use crate::sources::Places;
use crate::value::{Value, one_of};
use std::net::IpAddr;
use std::sync::Arc;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Time to live of IPv4, hop limit of IPv6.
    Ttl(NumberTest),
    /// Type of service.
    Tos(NumberTest),
    /// Identification of IPv4.
    IpId(NumberTest),
    /// Protocol number of IP: all of these.
    IpProtocol(NumberTest),
    /// An option of IPv4.
    IpOption(IpOption),
    /// The bits about fragments.
    FragmentBits(BitTest),
    /// The offset of a fragment, in units of 8 bytes.
    FragmentOffset(NumberTest),
    /// Source and destination address are equal.
    SameIp,
    /// TCP flags.
    TcpFlags(BitTest),
    /// TCP sequence number, as sent.
    Sequence(u32),
    /// TCP acknowledgement number, as sent.
    Acknowledgement(u32),
    /// TCP window, as sent.
    Window {
        /// The number.
        is: u16,
        /// Whether it must be another one.
        is_negated: bool,
    },
    /// The identifier of a tag of a VLAN.
    VlanId(NumberTest, VlanLayer),
    /// The number of tags of VLANs.
    VlanLayers(NumberTest),
    /// TCP maximum segment size.
    Mss(NumberTest),
    /// Shift of the window scale option of TCP (RFC 7323).
    WindowScale(NumberTest),
    /// ICMP type.
    IcmpType(NumberTest),
    /// ICMP code.
    IcmpCode(NumberTest),
    /// ICMP identifier.
    IcmpId(u16),
    /// ICMP sequence number.
    IcmpSequence(u16),
    /// MTU in ICMPv6 "packet too big".
    IcmpMtu(NumberTest),
    /// A checksum is right, or wrong.
    Checksum {
        /// Which one.
        of: ChecksumOf,
        /// Whether it must be right.
        is_right: bool,
    },
    /// Bytes of a packet's payload.
    PayloadSize(NumberTest),
    /// Distance of the sequence numbers of the stream so far: a SYN, and the bytes after it.
    StreamSize(OfSide, NumberTest),
    /// Age of the flow in seconds.
    FlowAge(NumberTest),
    /// Packets of the flow.
    FlowPackets(OfSide, NumberTest),
    /// Bytes of the flow.
    FlowBytes(OfSide, NumberTest),
    /// The flow's application protocol.
    AppProtocol {
        /// Its name in Weir. `None`: none was found.
        name: Option<Box<str>>,
        /// Whether it must be another one.
        is_negated: bool,
        /// Whose protocol it is.
        of: ProtocolOf,
    },
    /// Something that a parser found odd: `http.missing_host_header`.
    AppEvent(Box<str>),
    /// Something odd in a packet: `ipv4.trunc_pkt`.
    DecodeEvent(Box<str>),
    /// Something odd in a stream: `3whs_ack_in_wrong_dir`.
    StreamEvent(Box<str>),
    /// A PORT command of FTP with another address than the client's.
    FtpBounce,
    /// The country of an address.
    Place(PlaceTest),
    /// The reputation of an address.
    Reputation(ReputationTest),
}

/// Which tag of a VLAN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VlanLayer {
    /// Any passes.
    Any,
    /// All pass, and there is one.
    All,
    /// The one at this place: 0 is the outermost one, -1 the innermost one.
    At(i8),
}

/// Bits and how they are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BitTest {
    /// The bits that must be set.
    pub bits: u8,
    /// The bits that are not looked at.
    pub ignored: u8,
    /// How.
    pub mode: BitMode,
}

/// How bits are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BitMode {
    /// These and no others are set.
    Exactly,
    /// At least these are set.
    All,
    /// Any of these is set.
    Any,
    /// Not all of these are set.
    NotAll,
}

impl BitTest {
    /// Whether bits pass.
    #[inline]
    pub fn passes(self, bits: u8) -> bool {
        let bits = bits & !self.ignored;
        match self.mode {
            BitMode::Exactly => bits == self.bits,
            BitMode::All => bits & self.bits == self.bits,
            BitMode::Any => bits & self.bits != 0,
            BitMode::NotAll => bits & self.bits != self.bits,
        }
    }

    /// Reads letters of bits with a sign among them.
    fn parse(value: Value<'_>, what: &str, letters: &[(u8, u8)]) -> Result<(u8, BitMode), Fault> {
        let (mut bits, mut mode) = (0, BitMode::Exactly);
        for (place, byte) in value.bytes.iter().enumerate() {
            match byte {
                b' ' => {}
                b'+' => mode = BitMode::All,
                b'*' => mode = BitMode::Any,
                b'!' | b'-' => mode = BitMode::NotAll,
                _ => match letters.iter().find(|(letter, _)| *letter == byte.to_ascii_uppercase()) {
                    Some((_, bit)) => bits |= bit,
                    None => {
                        let names: String = letters.iter().map(|(letter, _)| char::from(*letter)).collect();
                        let reason = format!("`{}` is not {what}; letters of {names} are", char::from(*byte));
                        return Err(value.from(place).wrong(reason));
                    }
                },
            }
        }
        Ok((bits, mode))
    }

    /// TCP flags: `S`, `SA,12`, `+A`, `!R`, `0`.
    pub(crate) fn flags(value: Value<'_>) -> Result<Self, Fault> {
        const LETTERS: [(u8, u8); 13] = [
            (b'F', 1),
            (b'S', 2),
            (b'R', 4),
            (b'P', 8),
            (b'A', 16),
            (b'U', 32),
            (b'E', 64),
            (b'2', 64),
            (b'C', 128),
            (b'1', 128),
            (b'0', 0),
            (b'N', 0),
            (b'O', 0),
        ];
        let mut parts = value.parts(b',');
        let (bits, mode) = Self::parse(parts.next().unwrap_or(value), "a TCP flag", &LETTERS)?;
        let (ignored, _) =
            parts.next().map_or(Ok((0, mode)), |mask| Self::parse(mask, "a TCP flag", &LETTERS))?;
        match parts.next() {
            Some(part) => Err(part.wrong("flags have one mask; a second one is given")),
            None if bits & ignored != 0 => Err(value.wrong("a flag is both asked for and masked")),
            None => Ok(Self { bits, ignored, mode }),
        }
    }

    /// The bits about fragments: `M`, `D`, `R` in the place that they have in the header's byte.
    pub(crate) fn fragments(value: Value<'_>) -> Result<Self, Fault> {
        let letters = [(b'M', 0x20), (b'D', 0x40), (b'R', 0x80)];
        let (bits, mode) = Self::parse(value, "a bit about fragments", &letters)?;
        match bits {
            0 => Err(value.wrong("no bit about fragments is named; M, D and R are")),
            bits => Ok(Self { bits, ignored: 0x1f, mode }),
        }
    }
}

/// Which side of a flow a number is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OfSide {
    /// The initiator's.
    Client,
    /// The responder's.
    Server,
    /// Either passes.
    Either,
    /// Both pass.
    Both,
}

impl OfSide {
    /// The names of `stream_size`, `flow.pkts` and `flow.bytes`.
    pub(crate) const NAMES: [(&'static str, Self); 6] = [
        ("server", Self::Server),
        ("client", Self::Client),
        ("both", Self::Both),
        ("either", Self::Either),
        ("toserver", Self::Client),
        ("toclient", Self::Server),
    ];

    /// A side, an operator and a number: `client,>,100`, or `toserver,>100`.
    pub(crate) fn with_number(value: Value<'_>, greatest: u64) -> Result<(Self, NumberTest), Fault> {
        let Some(end) = value.bytes.iter().position(|byte| *byte == b',') else {
            return Err(value.wrong("a side, `,` and a number are given"));
        };
        let side = one_of(value.before(end).trimmed(), "a side", &Self::NAMES)?;
        let rest = value.from(end + 1).trimmed();
        let text: Vec<u8> = rest.bytes.iter().copied().filter(|byte| *byte != b',').collect();
        NumberTest::parse(Value::new(&text, rest.at), greatest, &[]).map(|test| (side, test))
    }
}

/// Whose application protocol a condition is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProtocolOf {
    /// Either side's.
    Either,
    /// The sender's.
    Sender,
    /// The initiator's.
    Client,
    /// The responder's.
    Server,
    /// What was found last.
    Last,
    /// What the flow had before it changed.
    Original,
}

/// A checksum of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChecksumOf {
    /// That of the IPv4 header.
    Ipv4,
    /// That of TCP over IPv4.
    TcpV4,
    /// That of TCP over IPv6.
    TcpV6,
    /// That of UDP over IPv4.
    UdpV4,
    /// That of UDP over IPv6.
    UdpV6,
    /// That of ICMP.
    IcmpV4,
    /// That of ICMPv6.
    IcmpV6,
}

/// An option of IPv4.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IpOption {
    /// Any.
    Any,
    /// That with this number.
    Kind(u8),
}

impl IpOption {
    pub(crate) const NAMES: [(&'static str, Self); 10] = [
        ("any", Self::Any),
        ("rr", Self::Kind(7)),
        ("lsrr", Self::Kind(131)),
        ("eol", Self::Kind(0)),
        ("nop", Self::Kind(1)),
        ("ts", Self::Kind(68)),
        ("sec", Self::Kind(130)),
        ("esec", Self::Kind(133)),
        ("ssrr", Self::Kind(137)),
        ("satid", Self::Kind(136)),
    ];
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TlsVersion(pub u16);

impl TlsVersion {
    pub(crate) const NAMES: [(&'static str, Self); 8] = [
        ("sslv2", Self(0x0002)),
        ("sslv3", Self(0x0300)),
        ("tls1.0", Self(0x0301)),
        ("tls1.1", Self(0x0302)),
        ("tls1.2", Self(0x0303)),
        ("tls1.3", Self(0x0304)),
        ("1.0", Self(0x0301)),
        ("1.1", Self(0x0302)),
    ];

    pub(crate) const NUMBERS: [(&'static str, Self); 4] =
        [("1.0", Self(0x0301)), ("1.1", Self(0x0302)), ("1.2", Self(0x0303)), ("1.3", Self(0x0304))];
}

/// A state of a TLS handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TlsState {
    /// A client's hello was seen.
    ClientHello,
    /// A server's hello was seen.
    ServerHello,
    /// A client's key exchange was seen.
    ClientKeyExchange,
    /// A server's key exchange was seen.
    ServerKeyExchange,
    /// The state is not known.
    Unknown,
}

impl TlsState {
    /// The type of the message that begins it (RFC 5246 7.4). None is that of a state that is not known.
    pub(crate) fn message(self) -> Option<u64> {
        match self {
            Self::ClientHello => Some(1),
            Self::ServerHello => Some(2),
            Self::ServerKeyExchange => Some(12),
            Self::ClientKeyExchange => Some(16),
            Self::Unknown => None,
        }
    }

    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("client_hello", Self::ClientHello),
        ("server_hello", Self::ServerHello),
        ("client_keyx", Self::ClientKeyExchange),
        ("server_keyx", Self::ServerKeyExchange),
        ("unknown", Self::Unknown),
    ];
}

/// A number that a parser finds: its greatest value and the names of values.
#[derive(Debug)]
pub struct NumberRow {
    /// Its keyword, the protocols that have it, and where it is.
    pub buffer: RuleBuffer,
    /// Its greatest value.
    pub greatest: u64,
    /// Names of values.
    pub words: &'static [(&'static str, u64)],
}

const fn number(
    name: &'static str,
    protocols: &'static [&'static str],
    greatest: u64,
    help: &'static str,
    words: &'static [(&'static str, u64)],
) -> NumberRow {
    // A message may have several, and each test is about any of them.
    NumberRow { buffer: RuleBuffer::of(name, protocols, Sides::Both, help).multiple(), greatest, words }
}

impl NumberRow {
    const fn old(self, old_names: &'static [&'static str]) -> Self {
        let Self { buffer, greatest, words } = self;
        Self { buffer: buffer.old(old_names), greatest, words }
    }
}

/// The operations of MQTT (version 5, section 2.1.2).
const MQTT_TYPES: &[(&str, u64)] = &[
    ("connect", 1),
    ("connack", 2),
    ("publish", 3),
    ("puback", 4),
    ("pubrec", 5),
    ("pubrel", 6),
    ("pubcomp", 7),
    ("subscribe", 8),
    ("suback", 9),
    ("unsubscribe", 10),
    ("unsuback", 11),
    ("pingreq", 12),
    ("pingresp", 13),
    ("disconnect", 14),
    ("auth", 15),
];

/// Words for whether something is.
const YES_NO: &[(&str, u64)] = &[("no", 0), ("false", 0), ("off", 0), ("yes", 1), ("true", 1), ("on", 1)];

/// The operations of LDAP (RFC 4511, section 4).
const LDAP_OPERATIONS: &[(&str, u64)] = &[
    ("bind_request", 0),
    ("bind_response", 1),
    ("unbind_request", 2),
    ("search_request", 3),
    ("search_result_entry", 4),
    ("search_result_done", 5),
    ("modify_request", 6),
    ("modify_response", 7),
    ("add_request", 8),
    ("add_response", 9),
    ("del_request", 10),
    ("del_response", 11),
    ("mod_dn_request", 12),
    ("mod_dn_response", 13),
    ("compare_request", 14),
    ("compare_response", 15),
    ("abandon_request", 16),
    ("search_result_reference", 19),
    ("extended_request", 23),
    ("extended_response", 24),
    ("intermediate_response", 25),
];

/// The types of DNS records that rules name most (IANA, "Domain Name System (DNS) Parameters").
const DNS_TYPES: &[(&str, u64)] = &[
    ("a", 1),
    ("ns", 2),
    ("cname", 5),
    ("soa", 6),
    ("null", 10),
    ("ptr", 12),
    ("mx", 15),
    ("txt", 16),
    ("aaaa", 28),
    ("srv", 33),
    ("naptr", 35),
    ("ds", 43),
    ("rrsig", 46),
    ("dnskey", 48),
    ("svcb", 64),
    ("https", 65),
    ("any", 255),
];

/// Numbers that parsers find.
pub static NUMBERS: &[NumberRow] = &[
    number("dns.opcode", &["dns"], 15, "Operation of a message.", &[]),
    number(
        "dns.rcode",
        &["dns"],
        0xffff,
        "Code of a response.",
        &[("noerror", 0), ("formerr", 1), ("servfail", 2), ("nxdomain", 3), ("notimp", 4), ("refused", 5)],
    ),
    number("dns.rrtype", &["dns"], 0xffff, "Type of a question or answer.", DNS_TYPES),
    number("tls.cert_chain_len", &["tls"], 0xffff_ffff, "Number of certificates of a chain.", &[]),
    number("snmp.version", &["snmp"], 3, "Version.", &[]),
    number(
        "snmp.pdu_type",
        &["snmp"],
        8,
        "Type of a message.",
        &[
            ("get_request", 0),
            ("get_next_request", 1),
            ("response", 2),
            ("set_request", 3),
            ("trap_v1", 4),
            ("get_bulk_request", 5),
            ("inform_request", 6),
            ("trap_v2", 7),
            ("report", 8),
        ],
    ),
    number(
        "snmp.trap_type",
        &["snmp"],
        0xffff_ffff,
        "Generic trap of a trap of SNMPv1.",
        &[
            ("coldstart", 0),
            ("warmstart", 1),
            ("linkdown", 2),
            ("linkup", 3),
            ("authenticationfailure", 4),
            ("egpneighborloss", 5),
            ("enterprisespecific", 6),
        ],
    ),
    number("krb5.err_code", &["kerberos"], 0xffff_ffff, "Code of an error.", &[]).old(&["krb5_err_code"]),
    number("krb5.msg_type", &["kerberos"], 255, "Type of a message.", &[]).old(&["krb5_msg_type"]),
    number("dnp3.func", &["dnp3"], 255, "Function of a message.", weir_proto::DNP3_FUNCTIONS)
        .old(&["dnp3_func"]),
    number("ntp.version", &["ntp"], 7, "Version.", &[]),
    number(
        "ntp.mode",
        &["ntp"],
        7,
        "Mode.",
        &[
            ("symmetric_active", 1),
            ("symmetric_passive", 2),
            ("client", 3),
            ("server", 4),
            ("broadcast", 5),
            ("control", 6),
            ("private", 7),
        ],
    ),
    number("ntp.stratum", &["ntp"], 255, "Distance from the reference clock.", &[]),
    number(
        "mqtt.connack.session_present",
        &["mqtt"],
        1,
        "Whether CONNACK says that the session is known.",
        YES_NO,
    ),
    number("mqtt.type", &["mqtt"], 15, "Type of a message.", MQTT_TYPES),
    number("mqtt.protocol_version", &["mqtt"], 255, "Version.", &[]),
    number("mqtt.qos", &["mqtt"], 2, "Quality of service of a message.", &[]),
    number("mqtt.reason_code", &["mqtt"], 255, "Reason in a response.", &[])
        .old(&["mqtt.connack.return_code"]),
    number("rfb.sectype", &["rfb"], 0xffff_ffff, "Type of security.", &[]),
    number(
        "rfb.secresult",
        &["rfb"],
        0xffff_ffff,
        "Result of the security handshake.",
        &[("ok", 0), ("fail", 1), ("toomany", 2), ("unknown", 3)],
    ),
    number(
        "websocket.opcode",
        &["websocket"],
        15,
        "Kind of a frame.",
        &[
            ("continuation", 0),
            ("text", 1),
            ("binary", 2),
            ("connection_close", 8),
            ("ping", 9),
            ("pong", 10),
        ],
    ),
    number("websocket.mask", &["websocket"], 0xffff_ffff, "Masking key of a frame.", &[]),
    number("smb.version", &["smb"], 255, "Version of a command: 1, or 2 for 2 and 3.", &[]),
    number("ldap.request.operation", &["ldap"], 25, "Operation of a request.", LDAP_OPERATIONS),
    number("ldap.responses.operation", &["ldap"], 25, "Operation of a response.", LDAP_OPERATIONS),
    number("ldap.responses.count", &["ldap"], 0xffff_ffff, "Number of responses.", &[]),
    number("ldap.responses.result_code", &["ldap"], 0xffff_ffff, "Result of a response.", &[]),
    number(
        "ftp.mode",
        &["ftp"],
        1,
        "Who opens a data connection: the server if active.",
        &[("passive", 0), ("active", 1)],
    ),
    number("ftp.reply_received", &["ftp"], 1, "Whether a command got its last reply.", YES_NO),
    number("ftp.dynamic_port", &["ftp"], 0xffff, "Port of a data connection.", &[]),
    number(
        "ftp_data.command",
        &["ftp_data"],
        1,
        "The command of FTP that opened a data connection.",
        &[("retr", 0), ("stor", 1)],
    )
    .old(&["ftpdata_command"]),
    number("dhcp.leasetime", &["dhcp"], 0xffff_ffff_ffff, "Seconds of a lease.", &[]),
    number("dhcp.rebinding_time", &["dhcp"], 0xffff_ffff_ffff, "Seconds before a lease is bound again.", &[]),
    number("dhcp.renewal_time", &["dhcp"], 0xffff_ffff_ffff, "Seconds before a lease is renewed.", &[]),
];

/// A condition on the country of an address.
#[derive(Clone, Debug)]
pub struct PlaceTest {
    /// Which address.
    pub of: AddressOf,
    /// Codes of two letters: any of these.
    pub codes: Vec<[u8; 2]>,
    /// Whether it must be another place.
    pub is_negated: bool,
    /// The countries of addresses.
    pub places: Arc<dyn Places>,
}

impl PartialEq for PlaceTest {
    fn eq(&self, other: &Self) -> bool {
        let what = |test: &Self| (test.of, test.codes.clone(), test.is_negated);
        what(self) == what(other) && Arc::ptr_eq(&self.places, &other.places)
    }
}

impl PlaceTest {
    /// Whether the countries of both addresses pass. An address without one does not.
    pub(crate) fn passes(&self, source: IpAddr, destination: IpAddr) -> bool {
        let is_there = |code: [u8; 2]| self.codes.contains(&code) != self.is_negated;
        self.of.any_or_both(source, destination, |address| self.places.country(address).is_some_and(is_there))
    }
}

/// Which address of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AddressOf {
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
    /// Either passes.
    Either,
    /// Both pass.
    Both,
}

impl AddressOf {
    /// Whether the addresses that are meant pass.
    fn any_or_both(self, source: IpAddr, destination: IpAddr, passes: impl Fn(IpAddr) -> bool) -> bool {
        match self {
            Self::Source => passes(source),
            Self::Destination => passes(destination),
            Self::Either => passes(source) || passes(destination),
            Self::Both => passes(source) && passes(destination),
        }
    }
}

/// A condition on the reputation of an address.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationTest {
    /// Which address.
    pub of: AddressOf,
    /// The scores of the category.
    pub scores: Arc<Scores>,
    /// What the score must be, 1 to 127. `None`: the address must have none.
    pub test: Option<NumberTest>,
}

impl ReputationTest {
    /// Whether the scores of both addresses pass.
    pub(crate) fn passes(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.of.any_or_both(source, destination, |address| match (self.test, self.scores.of(address)) {
            (None, score) => score.is_none(),
            (Some(test), Some(score)) => test.passes(score.into()),
            (Some(_), None) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_a_mode_and_a_mask() {
        let test = |text: &str| BitTest::flags(Value::new(text.as_bytes(), 0)).map_err(|fault| fault.reason);
        assert_eq!(test("S").unwrap(), BitTest { bits: 2, ignored: 0, mode: BitMode::Exactly });
        assert_eq!(test("SA,12").unwrap(), BitTest { bits: 18, ignored: 192, mode: BitMode::Exactly });
        assert!(test("S,12").unwrap().passes(0xc2));
        assert!(test("+A").unwrap().passes(18) && !test("A").unwrap().passes(18));
        assert!(test("*SF").unwrap().passes(1) && test("!R").unwrap().passes(2));
        assert!(test("0").unwrap().passes(0) && !test("0").unwrap().passes(2));
        assert!(test("X").unwrap_err().contains("not a TCP flag"));
        assert!(test("S,S").unwrap_err().contains("masked"));
        let bits = BitTest::fragments(Value::new(b"!D", 0)).unwrap();
        assert!(bits.passes(0x20) && !bits.passes(0x40) && bits.passes(0x1f));
    }

    #[test]
    fn numbers_are_unique_and_read() {
        for (position, row) in NUMBERS.iter().enumerate() {
            let (name, protocols) = (row.buffer.name, row.buffer.protocols);
            assert!(protocols.iter().all(|name| crate::protocol::is_read(name)), "{name}");
            assert!(NUMBERS.iter().skip(position + 1).all(|other| other.buffer.name != name));
            assert!(row.words.iter().all(|(_, number)| *number <= row.greatest));
        }
    }

    #[test]
    fn sides_with_numbers() {
        let test = |text: &str| OfSide::with_number(Value::new(text.as_bytes(), 0), u64::MAX);
        assert_eq!(test("client,>,100").unwrap(), (OfSide::Client, NumberTest::Above(100)));
        assert_eq!(test("toclient, <= 5").unwrap(), (OfSide::Server, NumberTest::AtMost(5)));
        assert!(test("clients,>,1").is_err() && test("client").is_err());
    }
}
