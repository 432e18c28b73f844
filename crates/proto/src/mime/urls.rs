//! URLs in the text of a mail.

use crate::work::looked_at;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a URL in bytes: browsers and servers accept about 2,000.
const MAX_URL: usize = 2048;
/// Maximum number of URLs of a mail.
const MAX_URLS: usize = 64;

const SCHEMES: [&[u8]; 3] = [b"http://", b"https://", b"ftp://"];

/// Finds URLs as text arrives.
#[derive(Debug, Default)]
pub(crate) struct Urls {
    word: Vec<u8>,
    /// The URLs found, each once, hosts in lower case.
    pub found: Vec<Vec<u8>>,
}

impl Urls {
    /// Takes the next text.
    pub fn bytes(&mut self, bytes: &[u8]) {
        looked_at(bytes.len());
        for byte in bytes {
            if byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(byte) {
                if self.word.len() < MAX_URL {
                    self.word.push(byte.to_ascii_lowercase());
                }
            } else if !self.word.is_empty() {
                self.end();
            }
        }
    }

    /// The text has ended.
    pub fn end(&mut self) {
        let begins = |at: &usize| {
            let rest = self.word.get(*at..).unwrap_or_default();
            SCHEMES.iter().any(|scheme| rest.starts_with(scheme) && rest.len() > scheme.len())
        };
        if self.word.len() > 7
            && self.found.len() < MAX_URLS
            && let Some(at) = (0..self.word.len()).find(begins)
        {
            let url = self.word.split_off(at);
            looked_at(url.len() * (1 + self.found.len()));
            if !self.found.contains(&url) {
                self.found.push(url);
            }
        }
        self.word.clear();
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.word.capacity() + self.found.iter().map(|url| url.capacity() + 24).sum::<usize>()
    }
}

/// A URL without its scheme.
pub(crate) fn without_scheme(url: &[u8]) -> &[u8] {
    SCHEMES.iter().find_map(|scheme| url.strip_prefix(*scheme)).unwrap_or(url)
}

fn host(url: &[u8]) -> &[u8] {
    let rest = without_scheme(url);
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// Whether the URL's host is an IPv4 address.
pub(crate) fn is_ipv4(url: &[u8]) -> bool {
    let name = host(url).split(|byte| *byte == b':').next().unwrap_or_default();
    std::str::from_utf8(name).is_ok_and(|name| name.parse::<Ipv4Addr>().is_ok())
}

/// Whether the URL's host is an IPv6 address.
pub(crate) fn is_ipv6(url: &[u8]) -> bool {
    let inner = host(url).strip_prefix(b"[").and_then(|rest| rest.split(|byte| *byte == b']').next());
    inner.and_then(|name| std::str::from_utf8(name).ok()).is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

/// Whether the URL names a Windows program.
pub(crate) fn is_program(url: &[u8]) -> bool {
    let path = url.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
    path.ends_with(b".exe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_wherever_text_is_cut() {
        let text = b"see (HTTP://Example.org/a?b) or <a href=\"https://192.0.2.1/x.exe?y\">\nhttp:// ftp://[2001:db8::1]/ http://example.org/a?b)";
        for size in [1, 2, 5, text.len()] {
            let mut urls = Urls::default();
            text.chunks(size).for_each(|piece| urls.bytes(piece));
            urls.end();
            let expected: [&[u8]; 3] =
                [b"http://example.org/a?b)", b"https://192.0.2.1/x.exe?y", b"ftp://[2001:db8::1]/"];
            assert_eq!(urls.found, expected);
        }
        assert!(
            is_ipv4(b"https://192.0.2.1/x") && is_ipv4(b"http://192.0.2.1:80") && !is_ipv4(b"http://a.b/")
        );
        assert!(
            is_ipv6(b"ftp://[2001:db8::1]/")
                && is_program(b"http://a/x.exe?y")
                && !is_program(b"http://a.exe.b/")
        );
    }
}
