//! Text that is kept: lines of HTTP, SIP, FTP and mail in which somebody is named get pseudonyms in their place.
//!
//! It looks at each packet alone, so a line that goes over from one segment into the next is only found where it begins.
//! Lengths stay: a mapped address that has more digits than there is room for is replaced by zeros.

use super::{Anonymiser, Privacy};
use std::net::Ipv4Addr;

/// Header lines, and what they tell.
const HEADERS: &[(&str, Privacy)] = &[
    ("authorization", Privacy::Secret),
    ("call-id", Privacy::Secret),
    ("cc", Privacy::Mail),
    ("contact", Privacy::Mail),
    ("cookie", Privacy::Secret),
    ("from", Privacy::Mail),
    ("host", Privacy::Name),
    ("location", Privacy::Url),
    ("mail from", Privacy::Mail),
    ("message-id", Privacy::Mail),
    ("origin", Privacy::Url),
    ("proxy-authorization", Privacy::Secret),
    ("rcpt to", Privacy::Mail),
    ("referer", Privacy::Url),
    ("reply-to", Privacy::Mail),
    ("set-cookie", Privacy::Secret),
    ("subject", Privacy::Content),
    ("to", Privacy::Mail),
    ("www-authenticate", Privacy::Secret),
    ("x-forwarded-for", Privacy::Name),
];

/// Commands with what they are given.
const COMMANDS: &[(&str, Privacy)] = &[
    ("acct", Privacy::User),
    ("apop", Privacy::Secret),
    ("auth", Privacy::Secret),
    ("ehlo", Privacy::Name),
    ("helo", Privacy::Name),
    ("pass", Privacy::Secret),
    ("user", Privacy::User),
];

/// Rewrites a payload where it is text.
pub(super) fn rewrite(anonymiser: &mut Anonymiser, payload: &mut [u8]) {
    let is_text = |octet: &u8| octet.is_ascii_graphic() || matches!(octet, b' ' | b'\t' | b'\r' | b'\n');
    if payload.len() < 4 || !payload.iter().take(16).all(is_text) {
        return;
    }
    for line in payload.split_inclusive_mut(|octet| *octet == b'\n') {
        let end = line.trim_ascii_end().len();
        if let Some(line) = line.get_mut(..end) {
            self::line(anonymiser, line);
        }
    }
}

fn line(anonymiser: &mut Anonymiser, line: &mut [u8]) {
    let found = |table: &[(&str, Privacy)], word: &[u8]| {
        let of =
            |(name, class): &(&str, Privacy)| name.as_bytes().eq_ignore_ascii_case(word).then_some(*class);
        table.iter().find_map(of)
    };
    let place = |mark: u8| line.iter().position(|octet| *octet == mark);
    let header = place(b':').and_then(|at| Some((at + 1, found(HEADERS, line.get(..at)?)?)));
    let command = place(b' ').and_then(|at| Some((at + 1, found(COMMANDS, line.get(..at)?)?)));
    if let Some((at, class)) = header.or(command) {
        let value = line.get_mut(at..).unwrap_or_default();
        let blanks = value.len() - value.trim_ascii_start().len();
        return fit(anonymiser, class, value.get_mut(blanks..).unwrap_or_default());
    }
    // A request: method, target, version.
    if line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0") {
        let end = line.len() - " HTTP/1.1".len();
        if let Some(start) = place(b' ').filter(|start| *start < end) {
            return fit(anonymiser, Privacy::Url, line.get_mut(start + 1..end).unwrap_or_default());
        }
    }
    numbers(anonymiser, line, b'.');
    numbers(anonymiser, line, b',');
}

/// Puts a pseudonym of the same length there.
fn fit(anonymiser: &mut Anonymiser, class: Privacy, place: &mut [u8]) {
    if matches!(class, Privacy::Secret | Privacy::Content) {
        return place.fill(b'x');
    }
    let image = anonymiser.text(class, place);
    // An address in it has become longer: its digits are a word as any other.
    let image = if image.len() > place.len() { anonymiser.text(Privacy::User, place) } else { image };
    place.fill(b' ');
    for (to, from) in place.iter_mut().zip(image) {
        *to = from;
    }
}

/// Maps the addresses of four numbers with that mark between: 10.0.0.1, or the first four of FTP's 10,0,0,1,4,1.
fn numbers(anonymiser: &mut Anonymiser, line: &mut [u8], mark: u8) {
    let mut at = 0;
    while at < line.len() {
        let run = line.get(at..).unwrap_or_default();
        let length = run.iter().take_while(|octet| octet.is_ascii_digit() || **octet == mark).count();
        let run = run.get(..length).unwrap_or_default();
        let mut ends = run.iter().enumerate().filter(|(_, octet)| **octet == mark).map(|(end, _)| end);
        let end = if mark == b',' { ends.nth(3) } else { None }.unwrap_or(length);
        let text = String::from_utf8_lossy(run.get(..end).unwrap_or_default()).replace(',', ".");
        if let Ok(address) = text.trim_end_matches('.').parse::<Ipv4Addr>() {
            let separator = char::from(mark).to_string();
            let image = Ipv4Addr::from(anonymiser.addresses.v4(address.octets()))
                .to_string()
                .replace('.', &separator);
            let end = end.min(text.trim_end_matches('.').len());
            let place = line.get_mut(at..at + end).unwrap_or_default();
            match end.checked_sub(image.len()) {
                Some(zeros) => {
                    place.fill(b'0');
                    for (to, from) in place.iter_mut().skip(zeros).zip(image.bytes()) {
                        *to = from;
                    }
                }
                None => {
                    place.iter_mut().filter(|octet| octet.is_ascii_digit()).for_each(|octet| *octet = b'0')
                }
            }
        }
        at += length.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anon::{Key, Payload, Policy};

    fn said(text: &str) -> String {
        let policy = Policy { payload: Payload::Keep, ..Policy::default() };
        let mut anonymiser = Anonymiser::new(policy, &Key(*b"0123456789abcdefghijklmnopqrstuv")).unwrap();
        let mut octets = text.as_bytes().to_vec();
        rewrite(&mut anonymiser, &mut octets);
        assert_eq!(octets.len(), text.len());
        String::from_utf8(octets).unwrap()
    }

    #[test]
    fn nobody_is_named_in_lines_that_are_known() {
        let request = "GET /home/jane/cv.html?user=jane HTTP/1.1\r\nHost: www.smith-family.org:8080\r\n\
                       Accept: */*\r\nCookie: id=jane\r\nauthorization: Basic amFuZTpwdw==\r\n\r\n";
        let image = said(request);
        for word in ["jane", "smith", "amFuZ"] {
            assert!(!image.contains(word), "{word}: {image}");
        }
        assert!(
            image.starts_with("GET /")
                && image.contains(".html?")
                && image.contains(".org:8080\r\nAccept: */*\r\n")
        );
        let mail =
            said("MAIL FROM:<jane@smith.org>\r\nRCPT TO:<bob@smith.org>\r\nUSER jane\r\nPASS secret\r\n");
        assert!(
            !mail.contains("jane") && !mail.contains("smith") && mail.ends_with("\r\nPASS xxxxxx\r\n"),
            "{mail}"
        );
    }

    #[test]
    fn addresses_in_text_are_mapped_or_zeros() {
        let text = "PORT 192,168,100,200,4,1\r\n227 Entering (10,0,0,1,4,1).\r\nc=IN IP4 192.168.100.200\r\nv 1.2.3\r\n";
        let image = said(text);
        assert!(
            !image.contains("192,168") && !image.contains("192.168") && !image.contains("(10,0,0,1"),
            "{image}"
        );
        assert!(image.contains(",4,1\r\n") && image.contains("v 1.2.3\r\n"), "{image}");
        let numbers = |text: &str, mark: char| -> Vec<u8> {
            let digits = text.trim_matches(|c: char| !c.is_ascii_digit());
            digits.split(mark).take(4).map(|number| number.parse().unwrap()).collect()
        };
        let lines: Vec<&str> = image.lines().collect();
        assert_eq!(numbers(&lines[0][5..], ','), numbers(&lines[2][9..], '.'), "one address is one");
        assert_eq!(said("\u{16}\u{3} 10.0.0.1"), "\u{16}\u{3} 10.0.0.1", "no text");
    }
}
