//! Names of numbers, from IANA's registries.

use std::borrow::Cow;

/// Types of records in the order of their numbers; gaps are empty.
const TYPES: [&str; 66] = [
    "",
    "A",
    "NS",
    "MD",
    "MF",
    "CNAME",
    "SOA",
    "MB",
    "MG",
    "MR",
    "NULL",
    "WKS",
    "PTR",
    "HINFO",
    "MINFO",
    "MX",
    "TXT",
    "RP",
    "AFSDB",
    "X25",
    "ISDN",
    "RT",
    "NSAP",
    "NSAP-PTR",
    "SIG",
    "KEY",
    "PX",
    "GPOS",
    "AAAA",
    "LOC",
    "NXT",
    "EID",
    "NIMLOC",
    "SRV",
    "ATMA",
    "NAPTR",
    "KX",
    "CERT",
    "A6",
    "DNAME",
    "SINK",
    "OPT",
    "APL",
    "DS",
    "SSHFP",
    "IPSECKEY",
    "RRSIG",
    "NSEC",
    "DNSKEY",
    "DHCID",
    "NSEC3",
    "NSEC3PARAM",
    "TLSA",
    "SMIMEA",
    "",
    "HIP",
    "NINFO",
    "RKEY",
    "TALINK",
    "CDS",
    "CDNSKEY",
    "OPENPGPKEY",
    "CSYNC",
    "ZONEMD",
    "SVCB",
    "HTTPS",
];

/// The name of a type, if it has one.
fn known_type(number: u16) -> Option<&'static str> {
    let high = match number {
        99 => "SPF",
        100 => "UINFO",
        101 => "UID",
        102 => "GID",
        103 => "UNSPEC",
        104 => "NID",
        105 => "L32",
        106 => "L64",
        107 => "LP",
        108 => "EUI48",
        109 => "EUI64",
        249 => "TKEY",
        250 => "TSIG",
        251 => "IXFR",
        252 => "AXFR",
        253 => "MAILB",
        254 => "MAILA",
        255 => "*",
        256 => "URI",
        257 => "CAA",
        32768 => "TA",
        32769 => "DLV",
        65281 => "WINS",
        65282 => "WINS-R",
        65422 => "XPF",
        65521 => "INTEGRITY",
        _ => TYPES.get(usize::from(number)).copied().unwrap_or_default(),
    };
    (!high.is_empty()).then_some(high)
}

/// Whether IANA has assigned the type.
pub(super) fn is_known_type(number: u16) -> bool {
    known_type(number).is_some()
}

/// The name of a type as Zeek writes it.
pub(super) fn zeek_type(number: u16) -> Cow<'static, str> {
    known_type(number).map_or_else(|| format!("query-{number}").into(), Cow::Borrowed)
}

/// The name of a type as Suricata writes it.
pub(super) fn eve_type(number: u16) -> Cow<'static, str> {
    match (number, known_type(number)) {
        (255, _) => "ANY".into(),
        (23, _) => "NSAPPTR".into(),
        (_, Some(name)) => name.into(),
        (_, None) => number.to_string().into(),
    }
}

/// The name of a class as Zeek writes it.
pub(super) fn class(number: u16) -> Cow<'static, str> {
    match number {
        1 => "C_INTERNET",
        2 => "C_CSNET",
        3 => "C_CHAOS",
        4 => "C_HESIOD",
        254 => "C_NONE",
        255 => "C_ANY",
        _ => return format!("qclass-{number}").into(),
    }
    .into()
}

/// The name of a response code as Zeek writes it; four bits.
pub(super) fn zeek_rcode(number: u8) -> Cow<'static, str> {
    match number {
        8 => "NXRRSet".into(),
        11..=15 => format!("unassigned-{number}").into(),
        _ => eve_rcode(number),
    }
}

/// The name of a response code as Suricata writes it; four bits.
pub(super) fn eve_rcode(number: u8) -> Cow<'static, str> {
    match number {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        7 => "YXRRSET",
        8 => "NXRRSET",
        9 => "NOTAUTH",
        10 => "NOTZONE",
        _ => return number.to_string().into(),
    }
    .into()
}

/// The name of an operation as Zeek writes it.
pub(super) fn opcode(number: u8, is_netbios: bool) -> Cow<'static, str> {
    match (number, is_netbios) {
        (0, false) => "query",
        (1, false) => "iquery",
        (2, false) => "server-status",
        (4, false) => "notify",
        (5, false) => "dynamic-update",
        (6, false) => "dso",
        (0, true) => "netbios-query",
        (5, true) => "netbios-registration",
        (6, true) => "netbios-release",
        (7, true) => "netbios-wack",
        (8, true) => "netbios-refresh",
        (_, false) => return format!("opcode-{number}").into(),
        (_, true) => return format!("netbios-opcode-{number}").into(),
    }
    .into()
}

/// Keys of parameters of SVCB and HTTPS records (RFC 9460).
pub(super) fn parameter(number: u16) -> Cow<'static, str> {
    match number {
        0 => "mandatory",
        1 => "alpn",
        2 => "no-default-alpn",
        3 => "port",
        4 => "ipv4hint",
        5 => "ech",
        6 => "ipv6hint",
        7 => "dohpath",
        8 => "ohttp",
        _ => return format!("key{number}").into(),
    }
    .into()
}
