//! Names of the numbers in handshakes.

use std::borrow::Cow;
use tls_parser::TlsCipherSuite;

/// SSLv2: its hello has no record layer.
pub(crate) const SSL2: u16 = 0x0002;
pub(crate) const TLS13: u16 = 0x0304;
/// Stands for the drafts of TLS 1.3 before the 16th.
pub(crate) const FIRST_DRAFTS: u16 = 0x7f00;

/// Whether it is a reserved value that tests tolerance of unknown ones (GREASE, RFC 8701).
pub(crate) fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// A version in the words of Zeek.
pub(crate) fn version(version: u16) -> Cow<'static, str> {
    Cow::Borrowed(match version {
        SSL2 => "SSLv2",
        0x0300 => "SSLv3",
        0x0301 => "TLSv10",
        0x0302 => "TLSv11",
        0x0303 => "TLSv12",
        TLS13 => "TLSv13",
        0xfeff => "DTLSv10",
        0xfefd => "DTLSv12",
        0xfefc => "DTLSv13",
        0x7f00..=0x7fff => return Cow::Owned(format!("TLSv13-draft{}", version & 0xff)),
        other => return Cow::Owned(format!("unknown-{other}")),
    })
}

/// A version in the words of Suricata.
pub(crate) fn long_version(version: Option<u16>) -> Cow<'static, str> {
    let Some(version) = version else { return Cow::Borrowed("UNDETERMINED") };
    Cow::Borrowed(match version {
        SSL2 => "SSLv2",
        0x0300 => "SSLv3",
        0x0301 => "TLSv1",
        0x0302 => "TLS 1.1",
        0x0303 => "TLS 1.2",
        TLS13 => "TLS 1.3",
        0xfeff => "DTLS 1.0",
        0xfefd => "DTLS 1.2",
        0xfefc => "DTLS 1.3",
        0x7f00..=0x7f0f => "TLS 1.3 draft-<16",
        0x7f10..=0x7f1c => return Cow::Owned(format!("TLS 1.3 draft-{}", version & 0xff)),
        0xfb00..=0xfbff => "TLS 1.3 draft-fb",
        other => return Cow::Owned(format!("0x{other:04x}")),
    })
}

/// Name of a cipher suite in the registry (RFC 8447); numbers of SSLv2 have three bytes.
pub(crate) fn cipher(number: u32) -> Cow<'static, str> {
    let known = u16::try_from(number).ok().and_then(TlsCipherSuite::from_id).map(|suite| suite.name);
    let name = known.or(match number {
        0x01_0080 => Some("SSLv20_CK_RC4_128_WITH_MD5"),
        0x02_0080 => Some("SSLv20_CK_RC4_128_EXPORT40_WITH_MD5"),
        0x03_0080 => Some("SSLv20_CK_RC2_128_CBC_WITH_MD5"),
        0x04_0080 => Some("SSLv20_CK_RC2_128_CBC_EXPORT40_WITH_MD5"),
        0x05_0080 => Some("SSLv20_CK_IDEA_128_CBC_WITH_MD5"),
        0x06_0040 => Some("SSLv20_CK_DES_64_CBC_WITH_MD5"),
        0x07_00c0 => Some("SSLv20_CK_DES_192_EDE3_CBC_WITH_MD5"),
        _ => None,
    });
    name.map_or_else(|| Cow::Owned(format!("unknown-{number}")), Cow::Borrowed)
}

/// Names of groups from 1 on.
const GROUPS: [&str; 41] = [
    "sect163k1",
    "sect163r1",
    "sect163r2",
    "sect193r1",
    "sect193r2",
    "sect233k1",
    "sect233r1",
    "sect239k1",
    "sect283k1",
    "sect283r1",
    "sect409k1",
    "sect409r1",
    "sect571k1",
    "sect571r1",
    "secp160k1",
    "secp160r1",
    "secp160r2",
    "secp192k1",
    "secp192r1",
    "secp224k1",
    "secp224r1",
    "secp256k1",
    "secp256r1",
    "secp384r1",
    "secp521r1",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "x25519",
    "x448",
    "brainpoolP256r1tls13",
    "brainpoolP384r1tls13",
    "brainpoolP512r1tls13",
    "GC256A",
    "GC256B",
    "GC256C",
    "GC256D",
    "GC512A",
    "GC512B",
    "GC512C",
    "curveSM2",
];

/// A curve or group.
pub(crate) fn group(number: u16) -> Cow<'static, str> {
    let listed = usize::from(number).checked_sub(1).and_then(|at| GROUPS.get(at).copied());
    let name = listed.or(match number {
        256 => Some("ffdhe2048"),
        257 => Some("ffdhe3072"),
        258 => Some("ffdhe4096"),
        259 => Some("ffdhe6144"),
        260 => Some("ffdhe8192"),
        512 => Some("MLKEM512"),
        513 => Some("MLKEM768"),
        514 => Some("MLKEM1024"),
        4587 => Some("SecP256r1MLKEM768"),
        4588 => Some("X25519MLKEM768"),
        4589 => Some("SecP384r1MLKEM1024"),
        4590 => Some("curveSM2MLKEM768"),
        16696 => Some("CECPQ2"),
        25497 => Some("X25519Kyber768Draft00"),
        25498 => Some("SecP256r1Kyber768Draft00"),
        0xff01 => Some("arbitrary_explicit_prime_curves"),
        0xff02 => Some("arbitrary_explicit_char2_curves"),
        _ => None,
    });
    match name {
        Some(name) => Cow::Borrowed(name),
        None if is_grease(number) => Cow::Owned(format!("grease_0x{number:04X}")),
        None => Cow::Owned(format!("unknown-{number}")),
    }
}

/// Name of an alert.
pub(crate) fn alert(description: u8) -> Cow<'static, str> {
    Cow::Borrowed(match description {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        30 => "decompression_failure",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        110 => "unsupported_extension",
        111 => "certificate_unobtainable",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        114 => "bad_certificate_hash_value",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        117 => "general_error",
        120 => "no_application_protocol",
        121 => "ech_required",
        other => return Cow::Owned(format!("unknown-{other}")),
    })
}

/// An extension in the words of Suricata's events of QUIC.
pub(crate) fn extension(number: u16) -> Option<&'static str> {
    Some(match number {
        0 => "server_name",
        1 => "max_fragment_length",
        2 => "client_certificate_url",
        3 => "trusted_ca_keys",
        4 => "truncated_hmac",
        5 => "status_request",
        6 => "user_mapping",
        7 => "client_authz",
        8 => "server_authz",
        9 => "cert_type",
        10 => "supported_groups",
        11 => "ec_point_formats",
        12 => "srp",
        13 => "signature_algorithms",
        14 => "use_srtp",
        15 => "heartbeat",
        16 => "alpn",
        17 => "status_request_v2",
        18 => "signed_certificate_timestamp",
        19 => "client_certificate_type",
        20 => "server_certificate_type",
        21 => "padding",
        22 => "encrypt_then_mac",
        23 => "extended_master_secret",
        24 => "token_binding",
        25 => "cached_info",
        26 => "tls_lts",
        27 => "compress_certificate",
        28 => "record_size_limit",
        29 => "pwd_protect",
        30 => "pwd_clear",
        31 => "password_salt",
        32 => "ticket_pinning",
        33 => "tls_cert_with_extern_psk",
        34 => "delegated_credentials",
        35 => "session_ticket",
        41 => "pre_shared_key",
        42 => "early_data",
        43 => "supported_versions",
        44 => "cookie",
        45 => "psk_key_exchange_modes",
        47 => "certificate_authorities",
        48 => "oid_filters",
        49 => "post_handshake_auth",
        50 => "signature_algorithms_cert",
        51 => "key_share",
        52 => "transparency_info",
        54 => "connection_id",
        55 => "external_id_hash",
        56 => "external_session_id",
        57 => "quic_transport_parameters",
        58 => "ticket_request",
        59 => "dnssec_chain",
        0xff01 => "renegotiation_info",
        _ => return None,
    })
}
