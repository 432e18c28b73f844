//! Contents of a certificate (RFC 5280), in the words of Zeek and of Suricata.

use crate::hex::hex;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::Time;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{ASN1Time, AttributeTypeAndValue, FromDer, X509Certificate, X509Name};
use x509_parser::public_key::PublicKey;

/// A parsed certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificate {
    /// SHA-256 of the whole certificate.
    pub sha256: String,
    /// SHA-1 of the whole certificate, as pairs of hexadecimal digits.
    pub sha1: String,
    /// The contents, if it is a certificate.
    pub content: Option<Content>,
}

/// The contents of a certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub version: u32,
    /// Serial number without leading zeros.
    pub serial: String,
    /// All bytes of the serial number, as pairs of hexadecimal digits.
    pub serial_pairs: String,
    /// Subject, most specific part first (RFC 2253).
    pub subject: String,
    pub issuer: String,
    /// Subject, most general part first.
    pub subject_line: String,
    pub issuer_line: String,
    pub common_name: Option<Vec<u8>>,
    pub not_before: i64,
    pub not_after: i64,
    pub key_algorithm: String,
    pub signature_algorithm: String,
    pub key_type: &'static str,
    pub key_length: usize,
    pub exponent: Option<String>,
    pub curve: Option<String>,
    pub dns: Vec<Vec<u8>>,
    pub uris: Vec<Vec<u8>>,
    pub mails: Vec<Vec<u8>>,
    pub addresses: Vec<IpAddr>,
    /// All alternative names as text, in order.
    pub names: Vec<Vec<u8>>,
    pub is_ca: Option<bool>,
    pub path_length: Option<u32>,
}

impl Certificate {
    /// Parses a certificate.
    pub fn parse(bytes: &[u8]) -> Self {
        let content = X509Certificate::from_der(bytes).ok().map(|(_, certificate)| Content::of(&certificate));
        Self { sha256: hex(&Sha256::digest(bytes)), sha1: pairs(&Sha1::digest(bytes), false), content }
    }

    /// Whether the certificate is valid for a host of that name.
    pub fn is_for(&self, host: &[u8]) -> Option<bool> {
        let content = self.content.as_ref()?;
        let host = host.to_ascii_lowercase();
        let names: &[Vec<u8>] = match content.dns.as_slice() {
            [] => content.common_name.as_slice(),
            names => names,
        };
        let address = std::str::from_utf8(&host).ok().and_then(|host| host.parse::<IpAddr>().ok());
        Some(match address {
            Some(address) => content.addresses.contains(&address),
            None => names.iter().any(|name| covers(&name.to_ascii_lowercase(), &host)),
        })
    }
}

/// Whether a name, with or without a wildcard as its first label, matches a host (RFC 6125).
fn covers(name: &[u8], host: &[u8]) -> bool {
    let Some(domain) = name.strip_prefix(b"*.") else { return name == host };
    let mut labels = host.splitn(2, |byte| *byte == b'.');
    labels.next().is_some_and(|label| !label.is_empty()) && labels.next() == Some(domain)
}

impl Content {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let (subject, issuer) = (certificate.subject(), certificate.issuer());
        let key = certificate.public_key();
        let key_oid = key.algorithm.algorithm.to_id_string();
        let mut content = Self {
            version: certificate.version().0.saturating_add(1),
            serial: serial(certificate.raw_serial()),
            serial_pairs: pairs(certificate.raw_serial(), true),
            subject: special_first(subject),
            issuer: special_first(issuer),
            subject_line: general_first(subject),
            issuer_line: general_first(issuer),
            common_name: subject.iter_common_name().next().map(text_of),
            not_before: seconds(&certificate.validity().not_before),
            not_after: seconds(&certificate.validity().not_after),
            key_type: key_type(&key_oid),
            key_algorithm: algorithm(key_oid),
            signature_algorithm: algorithm(certificate.signature_algorithm.algorithm.to_id_string()),
            ..Self::default()
        };
        content.curve = key
            .algorithm
            .parameters
            .as_ref()
            .and_then(|parameters| parameters.as_oid().ok())
            .filter(|_| content.key_type == "ecdsa")
            .map(|oid| curve(oid.to_id_string()));
        match key.parsed() {
            Ok(PublicKey::RSA(rsa)) => {
                content.key_length = bits(rsa.modulus);
                content.exponent = Some(decimal(rsa.exponent));
            }
            Ok(PublicKey::EC(point)) => {
                content.key_length = curve_bits(content.curve.as_deref()).unwrap_or_else(|| point.key_size());
            }
            Ok(PublicKey::DSA(prime)) => content.key_length = bits(prime),
            Ok(other) => content.key_length = other.key_size(),
            Err(_) => {}
        }
        if matches!(content.key_type, "ED25519") {
            content.key_length = 253;
        }
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::BasicConstraints(constraints) => {
                    content.is_ca = Some(constraints.ca);
                    content.path_length = constraints.path_len_constraint;
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    for name in &names.general_names {
                        content.name(name);
                    }
                }
                _ => {}
            }
        }
        content
    }

    fn name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(text) => self.dns.push(text.as_bytes().to_vec()),
            GeneralName::URI(text) => self.uris.push(text.as_bytes().to_vec()),
            GeneralName::RFC822Name(text) => self.mails.push(text.as_bytes().to_vec()),
            GeneralName::IPAddress(bytes) => {
                let address: Option<IpAddr> = match bytes.len() {
                    4 => bytes.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into()),
                    16 => bytes.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes).into()),
                    _ => None,
                };
                self.addresses.extend(address);
            }
            _ => {}
        }
        match name {
            GeneralName::DNSName(text) | GeneralName::URI(text) | GeneralName::RFC822Name(text) => {
                self.names.push(text.as_bytes().to_vec());
            }
            GeneralName::IPAddress(_) => {
                self.names.extend(self.addresses.last().map(|address| address.to_string().into_bytes()));
            }
            _ => {}
        }
    }
}

/// A time for a log; times out of range become the first or last representable one.
pub(crate) fn time(seconds: i64) -> Time {
    Time(u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000))
}

/// A time in the form `2017-03-23T00:00:00`.
pub(crate) fn stamp(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since the first of March of year 0, so that leap days end a year (Hinnant, chrono-compatible dates).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

fn seconds(time: &ASN1Time) -> i64 {
    time.timestamp()
}

/// Bytes as `0a:1b`.
fn pairs(bytes: &[u8], is_upper: bool) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for byte in bytes {
        if !text.is_empty() {
            text.push(':');
        }
        let _ = if is_upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
    }
    text
}

/// A number's bytes without leading zeros.
fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn serial(bytes: &[u8]) -> String {
    match significant(bytes) {
        [] => "00".to_owned(),
        bytes => hex(bytes).to_ascii_uppercase(),
    }
}

fn bits(number: &[u8]) -> usize {
    let bytes = significant(number);
    bytes.first().map_or(0, |first| bytes.len() * 8 - first.leading_zeros() as usize)
}

/// A number in decimal digits if it fits into sixteen bytes, else in hexadecimal digits.
fn decimal(number: &[u8]) -> String {
    let bytes = significant(number);
    match bytes.len() {
        0..=16 => bytes.iter().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte)).to_string(),
        _ => format!("0x{}", hex(bytes)),
    }
}

/// OpenSSL's name of an algorithm.
fn algorithm(oid: String) -> String {
    let name = match oid.as_str() {
        "1.2.840.113549.1.1.1" => "rsaEncryption",
        "1.2.840.113549.1.1.2" => "md2WithRSAEncryption",
        "1.2.840.113549.1.1.3" => "md4WithRSAEncryption",
        "1.2.840.113549.1.1.4" => "md5WithRSAEncryption",
        "1.2.840.113549.1.1.5" => "sha1WithRSAEncryption",
        "1.3.14.3.2.29" => "sha1WithRSA",
        "1.2.840.113549.1.1.10" => "rsassaPss",
        "1.2.840.113549.1.1.11" => "sha256WithRSAEncryption",
        "1.2.840.113549.1.1.12" => "sha384WithRSAEncryption",
        "1.2.840.113549.1.1.13" => "sha512WithRSAEncryption",
        "1.2.840.113549.1.1.14" => "sha224WithRSAEncryption",
        "1.2.840.10045.2.1" => "id-ecPublicKey",
        "1.2.840.10045.4.1" => "ecdsa-with-SHA1",
        "1.2.840.10045.4.3.1" => "ecdsa-with-SHA224",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        "1.2.840.10040.4.1" => "dsaEncryption",
        "1.2.840.10040.4.3" => "dsaWithSHA1",
        "2.16.840.1.101.3.4.3.2" => "dsa_with_SHA256",
        "1.3.101.112" => "ED25519",
        "1.3.101.113" => "ED448",
        _ => return oid,
    };
    name.to_owned()
}

fn key_type(oid: &str) -> &'static str {
    match oid {
        "1.2.840.113549.1.1.1" => "rsa",
        "1.2.840.10040.4.1" => "dsa",
        "1.2.840.10045.2.1" => "ecdsa",
        _ => "unknown",
    }
}

/// OpenSSL's name of a curve.
fn curve(oid: String) -> String {
    let name = match oid.as_str() {
        "1.2.840.10045.3.1.1" => "prime192v1",
        "1.2.840.10045.3.1.7" => "prime256v1",
        "1.3.132.0.10" => "secp256k1",
        "1.3.132.0.33" => "secp224r1",
        "1.3.132.0.34" => "secp384r1",
        "1.3.132.0.35" => "secp521r1",
        "1.3.36.3.3.2.8.1.1.7" => "brainpoolP256r1",
        "1.3.36.3.3.2.8.1.1.11" => "brainpoolP384r1",
        "1.3.36.3.3.2.8.1.1.13" => "brainpoolP512r1",
        _ => return oid,
    };
    name.to_owned()
}

fn curve_bits(curve: Option<&str>) -> Option<usize> {
    Some(match curve? {
        "prime192v1" => 192,
        "secp224r1" => 224,
        "prime256v1" | "secp256k1" | "brainpoolP256r1" => 256,
        "secp384r1" | "brainpoolP384r1" => 384,
        "brainpoolP512r1" => 512,
        "secp521r1" => 521,
        _ => return None,
    })
}

/// The short names of an attribute of a distinguished name, OpenSSL's and Suricata's.
fn part(oid: &str) -> Option<(&'static str, &'static str)> {
    Some(match oid {
        "2.5.4.3" => ("CN", "CN"),
        "2.5.4.4" => ("SN", "SN"),
        "2.5.4.5" => ("serialNumber", "serialNumber"),
        "2.5.4.6" => ("C", "C"),
        "2.5.4.7" => ("L", "L"),
        "2.5.4.8" => ("ST", "ST"),
        "2.5.4.9" => ("street", "street"),
        "2.5.4.10" => ("O", "O"),
        "2.5.4.11" => ("OU", "OU"),
        "2.5.4.12" => ("title", "title"),
        "2.5.4.13" => ("description", "description"),
        "2.5.4.15" => ("businessCategory", "businessCategory"),
        "2.5.4.17" => ("postalCode", "postalCode"),
        "2.5.4.20" => ("telephoneNumber", "telephoneNumber"),
        "2.5.4.41" => ("name", "name"),
        "2.5.4.42" => ("GN", "givenName"),
        "2.5.4.43" => ("initials", "initials"),
        "2.5.4.44" => ("generationQualifier", "generationQualifier"),
        "2.5.4.46" => ("dnQualifier", "dnQualifier"),
        "2.5.4.65" => ("pseudonym", "pseudonym"),
        "2.5.4.97" => ("organizationIdentifier", "organizationIdentifier"),
        "0.9.2342.19200300.100.1.1" => ("UID", "UID"),
        "0.9.2342.19200300.100.1.25" => ("DC", "DC"),
        "1.2.840.113549.1.9.1" => ("emailAddress", "Email"),
        "1.2.840.113549.1.9.2" => ("unstructuredName", "unstructuredName"),
        "1.3.6.1.4.1.311.60.2.1.1" => ("jurisdictionL", "jurisdictionOfIncorporationLocalityName"),
        "1.3.6.1.4.1.311.60.2.1.2" => ("jurisdictionST", "jurisdictionOfIncorporationStateOrProvinceName"),
        "1.3.6.1.4.1.311.60.2.1.3" => ("jurisdictionC", "jurisdictionOfIncorporationCountryName"),
        _ => return None,
    })
}

/// Tag of a string with two bytes for each character.
const BMP_STRING: u32 = 30;
/// Tags of strings in UTF-8 or in a subset of it.
const UTF8_STRINGS: [u32; 6] = [12, 18, 19, 22, 26, 27];

/// The text of a part, as UTF-8.
fn text_of(attribute: &AttributeTypeAndValue<'_>) -> Vec<u8> {
    let (tag, bytes) = (attribute.attr_value().tag().0, attribute.as_slice());
    if tag == BMP_STRING {
        let units = bytes.chunks_exact(2).filter_map(|pair| pair.first_chunk().copied());
        let text = char::decode_utf16(units.map(u16::from_be_bytes));
        return text.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>().into_bytes();
    }
    if UTF8_STRINGS.contains(&tag) || bytes.is_ascii() {
        return bytes.to_vec();
    }
    bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes()
}

/// A distinguished name with its most specific part first and special characters escaped (RFC 2253), in Zeek's form.
fn special_first(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for (at, rdn) in parts.into_iter().rev().enumerate() {
        if at > 0 {
            text.push(',');
        }
        for (at, attribute) in rdn.iter().enumerate() {
            if at > 0 {
                text.push('+');
            }
            let oid = attribute.attr_type().to_id_string();
            match part(&oid) {
                Some((name, _)) => {
                    text.push_str(name);
                    text.push('=');
                    escape(&text_of(attribute), &mut text);
                }
                None => {
                    let value = attribute.attr_value();
                    let (tag, bytes) = (value.tag().0, value.as_bytes());
                    let _ = write!(text, "{oid}=#{tag:02X}{:02X}", bytes.len());
                    text.push_str(&hex(bytes).to_ascii_uppercase());
                }
            }
        }
    }
    text
}

fn escape(value: &[u8], text: &mut String) {
    for (at, byte) in value.iter().enumerate() {
        let is_edge = at == 0 || at + 1 == value.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b'#' if at == 0 => text.push_str("\\#"),
            b' ' if is_edge => text.push_str("\\ "),
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "\\{byte:02X}");
            }
        }
    }
}

/// A distinguished name with its most general part first, in Suricata's form.
fn general_first(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for rdn in name.iter_rdn() {
        if !text.is_empty() {
            text.push_str(", ");
        }
        for (at, attribute) in rdn.iter().enumerate() {
            if at > 0 {
                text.push_str(" + ");
            }
            let oid = attribute.attr_type().to_id_string();
            text.push_str(part(&oid).map_or(oid.as_str(), |(_, name)| name));
            text.push('=');
            text.push_str(&String::from_utf8_lossy(&text_of(attribute)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_490_227_200, "2017-03-23T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
            (-1, "1969-12-31T23:59:59"),
        ] {
            assert_eq!(stamp(seconds), expected);
        }
    }

    #[test]
    fn a_wildcard_matches_one_label() {
        for (name, host, expected) in [
            ("a.example", "a.example", true),
            ("*.example", "a.example", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("*.example", ".example", false),
        ] {
            assert_eq!(covers(name.as_bytes(), host.as_bytes()), expected, "{name} {host}");
        }
    }

    #[test]
    fn an_invalid_certificate_has_fingerprints() {
        let certificate = Certificate::parse(b"no certificate");
        assert!(certificate.content.is_none());
        assert_eq!(certificate.sha1.len(), 59);
    }
}
