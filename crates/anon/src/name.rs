//! Pseudonyms for text: equal for equal originals, by a key, with equal length and a plausible form.
//!
//! Short words are permuted within all words of their length, so that two never share a pseudonym; the pseudonym of a
//! long word is cut from HMAC-SHA256.

use super::{Addresses, Key};
use aes::Aes128;
use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockEncrypt, KeyInit};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::net::IpAddr;

type Keyed = Hmac<Sha256>;

/// Two keys of 16 bytes for a purpose.
pub(super) fn derive(key: &Key, purpose: &[u8]) -> [[u8; 16]; 2] {
    split(digest(keyed(&key.0), &[purpose]))
}

fn keyed(key: &[u8; 32]) -> Keyed {
    // A key of any length is valid: the other arm is never taken.
    <Keyed as Mac>::new_from_slice(key).unwrap_or_else(|_| <Keyed as Mac>::new(&Default::default()))
}

fn digest(mut mac: Keyed, parts: &[&[u8]]) -> [u8; 32] {
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn split(bytes: [u8; 32]) -> [[u8; 16]; 2] {
    [0, 16].map(|at| std::array::from_fn(|n| bytes.get(at + n).copied().unwrap_or_default()))
}

/// Pseudonyms by a key.
#[derive(Clone)]
pub struct Names {
    mac: Keyed,
    top_domains: bool,
}

/// The characters of words.
const ALL: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &[u8; 16] = b"0123456789abcdef";
const DIGITS: &[u8; 10] = b"0123456789";

/// Maximum length of a permuted word: the number of such words fits into 64 bits.
const PERMUTED: usize = 12;

/// Top-level domains that do not identify the owner. Two letters are a country.
const TOP: &[&str] = &[
    "aero",
    "app",
    "arpa",
    "asia",
    "biz",
    "cat",
    "cloud",
    "com",
    "coop",
    "corp",
    "dev",
    "edu",
    "example",
    "gov",
    "home",
    "info",
    "int",
    "internal",
    "invalid",
    "io",
    "jobs",
    "lan",
    "local",
    "localdomain",
    "mil",
    "mobi",
    "museum",
    "name",
    "net",
    "onion",
    "online",
    "org",
    "pro",
    "shop",
    "site",
    "tel",
    "test",
    "top",
    "travel",
    "xyz",
];

impl Names {
    /// The pseudonyms of a key.
    pub fn new(key: &Key, top_domains: bool) -> Self {
        let [first, second] = derive(key, b"names");
        let mut joined = [0; 32];
        for (to, from) in joined.iter_mut().zip(first.iter().chain(&second)) {
            *to = *from;
        }
        Self { mac: keyed(&joined), top_domains }
    }

    /// A keyed hash of bytes.
    pub(super) fn hash(&self, context: &[u8], bytes: &[u8]) -> [u8; 32] {
        digest(self.mac.clone(), &[b"hash", context, bytes])
    }

    /// The given number of bytes, derived from others.
    pub(super) fn stream(&self, seed: &[u8], count: usize) -> Vec<u8> {
        let blocks = (0..count.div_ceil(32) as u64).flat_map(|block| self.hash(seed, &block.to_be_bytes()));
        blocks.take(count).collect()
    }

    /// Replaces a word by a word of equal length. `context` is the text around it: one word has different pseudonyms
    /// in different contexts. Case is ignored.
    pub fn word(&self, context: &[u8], text: &[u8]) -> Vec<u8> {
        let text = text.to_ascii_lowercase();
        if text.is_empty() {
            return text;
        }
        let alphabet: &[u8] = if text.iter().all(u8::is_ascii_digit) {
            DIGITS
        } else if text.len() >= 16 && text.iter().all(u8::is_ascii_hexdigit) {
            HEX
        } else {
            ALL
        };
        self.permuted(context, &text, alphabet).unwrap_or_else(|| self.cut(context, &text, alphabet))
    }

    /// A pseudonym from HMAC, truncated to the length of the word.
    fn cut(&self, context: &[u8], text: &[u8], alphabet: &[u8]) -> Vec<u8> {
        let mut word = Vec::with_capacity(text.len());
        for block in 0_u64.. {
            for byte in digest(self.mac.clone(), &[b"cut", context, text, &block.to_be_bytes()]) {
                if word.len() == text.len() {
                    return word;
                }
                word.extend(alphabet.get(usize::from(byte) % alphabet.len()));
            }
        }
        word
    }

    /// A Feistel network over the number of a word, repeated until the result is the number of a word. `None` for a
    /// word that has other characters or is too long.
    fn permuted(&self, context: &[u8], text: &[u8], alphabet: &[u8]) -> Option<Vec<u8>> {
        const ROUNDS: u8 = 8;
        if text.len() > PERMUTED {
            return None;
        }
        let base = alphabet.len() as u64;
        let words = base.checked_pow(text.len() as u32)?;
        let mut number = text.iter().try_fold(0, |number, byte| {
            alphabet.iter().position(|letter| letter == byte).map(|digit| number * base + digit as u64)
        })?;
        let [key, _] =
            split(digest(self.mac.clone(), &[b"word", context, &[text.len() as u8], &[base as u8]]));
        let cipher = Aes128::new(&GenericArray::from(key));
        let half = (64 - (words - 1).leading_zeros()).div_ceil(2).max(1);
        let mask = (1_u64 << half) - 1;
        loop {
            let (mut left, mut right) = (number >> half, number & mask);
            for round in 0..ROUNDS {
                let mut block =
                    GenericArray::from((u128::from(right) << 8 | u128::from(round)).to_be_bytes());
                cipher.encrypt_block(&mut block);
                let turned = u128::from_be_bytes(block.into()) as u64 & mask;
                (left, right) = (right, left ^ turned);
            }
            number = left << half | right;
            if number < words {
                break;
            }
        }
        let mut word = vec![0; text.len()];
        for place in word.iter_mut().rev() {
            *place = alphabet.get((number % base) as usize).copied()?;
            number /= base;
        }
        Some(word)
    }

    /// Replaces a label of a domain name by a label in lower case; `suffix` is the rest of the name after it, without
    /// the dot between.
    pub(super) fn label(&self, label: &[u8], suffix: &[u8], is_only: bool) -> Vec<u8> {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        // Services, as in _http._tcp, and the wildcard of a certificate.
        let is_service = label.first() == Some(&b'_') && label.len() <= 16 && label.iter().all(is_word);
        let is_top = suffix.is_empty() && !is_only && self.top_domains && is_top(label);
        let is_reverse = suffix == b"arpa" && matches!(label, b"in-addr" | b"ip6");
        if is_service || is_top || is_reverse || label == b"*" || is_only && label == b"localhost" {
            return label.to_vec();
        }
        self.word(&[b"name ", suffix].concat(), label)
    }

    /// Replaces a host or domain name. An address, also a reversed one, is mapped.
    pub fn domain(&self, addresses: &mut Addresses, name: &[u8]) -> Vec<u8> {
        let name = name.to_ascii_lowercase();
        if let Ok(text) = std::str::from_utf8(&name) {
            if let Some(mapped) = address(addresses, text) {
                return mapped;
            }
            if let Some(mapped) = reverse(addresses, text) {
                return mapped;
            }
        }
        let (body, point) = match name.strip_suffix(b".") {
            Some(body) => (body, &b"."[..]),
            None => (&name[..], &b""[..]),
        };
        let labels: Vec<&[u8]> = body.split(|byte| *byte == b'.').collect();
        let mut out = Vec::with_capacity(name.len());
        let mut at = 0;
        for label in &labels {
            at += label.len() + 1;
            let suffix = body.get(at..).unwrap_or_default();
            if !out.is_empty() {
                out.push(b'.');
            }
            out.extend(self.label(label, suffix, labels.len() == 1));
        }
        out.extend_from_slice(point);
        out
    }
}

fn is_top(label: &[u8]) -> bool {
    label.len() == 2 && label.iter().all(u8::is_ascii_lowercase)
        || std::str::from_utf8(label).is_ok_and(|label| TOP.binary_search(&label).is_ok())
}

/// An address in text, with or without brackets.
fn address(addresses: &mut Addresses, text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let mapped = addresses.ip(inner.unwrap_or(text).parse().ok()?).to_string();
    Some(if inner.is_some() { format!("[{mapped}]") } else { mapped }.into_bytes())
}

/// A name under in-addr.arpa or ip6.arpa: its address, mapped; for a part of an address, the prefix.
pub(super) fn reverse(addresses: &mut Addresses, text: &str) -> Option<Vec<u8>> {
    let (text, point) = match text.strip_suffix('.') {
        Some(text) => (text, "."),
        None => (text, ""),
    };
    if let Some(digits) = text.strip_suffix(".in-addr.arpa") {
        let mut bytes = [0_u8; 4];
        let parts: Vec<&str> = digits.split('.').collect();
        if parts.len() > 4 {
            return None;
        }
        for (place, part) in bytes.iter_mut().zip(parts.iter().rev()) {
            *place = part.parse().ok()?;
        }
        let IpAddr::V4(mapped) = addresses.ip(bytes.into()) else { return None };
        let digits: Vec<String> =
            mapped.octets().iter().take(parts.len()).rev().map(ToString::to_string).collect();
        return Some(format!("{}.in-addr.arpa{point}", digits.join(".")).into_bytes());
    }
    let digits = text.strip_suffix(".ip6.arpa")?;
    let parts: Vec<&str> = digits.split('.').collect();
    if parts.len() > 32 || parts.iter().any(|part| part.len() != 1) {
        return None;
    }
    let mut number = 0_u128;
    for (place, part) in parts.iter().rev().enumerate() {
        number |= u128::from_str_radix(part, 16).ok()? << (124 - 4 * place);
    }
    let IpAddr::V6(mapped) = addresses.ip(number.to_be_bytes().into()) else { return None };
    let mapped = u128::from(mapped);
    let digits: Vec<String> =
        (0..parts.len()).rev().map(|place| format!("{:x}", mapped >> (124 - 4 * place) & 0xf)).collect();
    Some(format!("{}.ip6.arpa{point}", digits.join(".")).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use std::collections::BTreeSet;

    fn names() -> (Names, Addresses) {
        let key = Key([9; 32].map(|byte: u8| byte));
        (Names::new(&key, true), Addresses::new(Mode::CryptoPan, &key).unwrap())
    }

    fn domain(name: &str) -> String {
        let (names, mut addresses) = names();
        String::from_utf8(names.domain(&mut addresses, name.as_bytes())).unwrap()
    }

    #[test]
    fn short_words_never_share_a_pseudonym() {
        let (names, _) = names();
        for length in [1, 2] {
            let mut words = BTreeSet::new();
            let mut images = BTreeSet::new();
            for n in 0..36_usize.pow(length) {
                let word: Vec<u8> = (0..length).map(|place| ALL[n / 36_usize.pow(place) % 36]).collect();
                let image = names.word(b"x", &word);
                assert_eq!(image.len(), word.len());
                // Words of digits are a separate set.
                if !word.iter().all(u8::is_ascii_digit) {
                    words.insert(word);
                    images.insert(image);
                }
            }
            assert_eq!(words.len(), images.len(), "{length}");
        }
        assert_ne!(names.word(b"x", b"alice"), names.word(b"y", b"alice"));
        assert_eq!(names.word(b"x", b"ALICE"), names.word(b"x", b"alice"));
        let long = names.word(b"x", &[b'q'; 300]);
        assert_eq!(long.len(), 300);
        let hash = names.word(b"x", b"d41d8cd98f00b204e9800998ecf8427e");
        assert!(hash.len() == 32 && hash.iter().all(u8::is_ascii_hexdigit));
    }

    #[test]
    fn subdomains_of_a_domain_keep_a_common_suffix() {
        let (one, two, other) =
            (domain("www.example-site.com"), domain("Mail.Example-Site.com."), domain("www.elsewhere.org"));
        let tail = |name: &str| name.split_once('.').unwrap().1.trim_end_matches('.').to_owned();
        assert_eq!(tail(&one), tail(&two));
        assert!(one.ends_with(".com") && two.ends_with(".com.") && other.ends_with(".org"), "{one} {two}");
        assert!(!one.contains("example") && !one.contains("www"));
        assert_ne!(one.split('.').next(), other.split('.').next(), "www of another domain");
        assert_eq!(domain("_ldap._tcp.smith.org").split('.').take(2).collect::<Vec<_>>(), ["_ldap", "_tcp"]);
        assert_eq!(domain("localhost"), "localhost");
        assert_ne!(domain("printer"), "printer");
        assert!(!domain("jane.smith").contains("smith"), "no top-level domain");
    }

    #[test]
    fn addresses_in_names_are_mapped() {
        let (_, mut addresses) = names();
        let image = addresses.ip("10.1.2.3".parse().unwrap()).to_string();
        assert_eq!(domain("10.1.2.3"), image);
        let mut parts: Vec<&str> = image.split('.').collect();
        parts.reverse();
        assert_eq!(domain("3.2.1.10.in-addr.arpa"), format!("{}.in-addr.arpa", parts.join(".")));
        assert_eq!(domain("2.1.10.in-addr.arpa."), format!("{}.in-addr.arpa.", parts[1..].join(".")));
        let v6 = "2001:db8::7";
        let IpAddr::V6(image) = addresses.ip(v6.parse().unwrap()) else { panic!() };
        let nibbles = |address: u128| {
            (0..32).map(|n| format!("{:x}", address >> (4 * n) & 15)).collect::<Vec<_>>().join(".")
        };
        let name = format!("{}.ip6.arpa", nibbles(v6.parse::<std::net::Ipv6Addr>().unwrap().into()));
        assert_eq!(domain(&name), format!("{}.ip6.arpa", nibbles(image.into())));
    }

    #[test]
    fn the_list_of_top_level_domains_is_sorted() {
        assert!(TOP.is_sorted());
    }
}
