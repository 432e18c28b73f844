//! Kept text: names in lines of HTTP, SIP, FTP and mail are replaced by pseudonyms.
//!
//! Packets are rewritten one by one, and a line may span several. The state of an unfinished line is kept for each
//! direction of a stream ([`Lines`]). Of such a line only the first word is kept, if it is a known one, and the rest
//! is blanked unless it is within one segment. A segment without its predecessor begins within a line. Lengths are
//! kept: a mapped address with more digits than there is room for is replaced by zeros.

use super::{Anonymiser, Privacy};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Header fields, and the class of their values.
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

/// Commands, and the class of their arguments.
const COMMANDS: &[(&str, Privacy)] = &[
    ("acct", Privacy::User),
    ("apop", Privacy::Secret),
    ("auth", Privacy::Secret),
    ("ehlo", Privacy::Name),
    ("helo", Privacy::Name),
    ("pass", Privacy::Secret),
    ("user", Privacy::User),
];

/// Words before the target of a request.
const METHODS: &[&str] = &[
    "ack",
    "bye",
    "cancel",
    "connect",
    "delete",
    "get",
    "head",
    "info",
    "invite",
    "message",
    "notify",
    "options",
    "patch",
    "post",
    "prack",
    "propfind",
    "publish",
    "put",
    "refer",
    "register",
    "subscribe",
    "trace",
    "update",
];

/// The position of the next bytes in their line.
#[derive(Clone, Debug, Default, PartialEq)]
enum At {
    #[default]
    Start,
    /// After these bytes, which may become a known line and contain nothing private yet.
    Word(Vec<u8>),
    /// In a line that is blanked to its end.
    Blanked,
    /// Unknown: blanked if it looks like text.
    Unknown,
}

/// The state of the lines of one direction of a stream.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    at: At,
    /// The kind of a continuation line.
    folded: Option<Privacy>,
    /// Whether a login is in progress, whose answers are lines of one word.
    answers: bool,
}

impl Lines {
    /// State within a line whose beginning is unknown.
    pub fn unknown() -> Self {
        Self { at: At::Unknown, ..Self::default() }
    }

    /// Rewrites the next bytes. `ends`: the last line is complete without a line end.
    pub(super) fn rewrite(&mut self, anonymiser: &mut Anonymiser, scrubbed: &mut [u8], ends: bool) {
        for line in scrubbed.split_inclusive_mut(|byte| *byte == b'\n') {
            let is_whole = ends || line.ends_with(b"\n");
            let is_request_of =
                |line: &[u8]| is_request(line) && (!is_whole || version(line.trim_ascii_end()) > 0);
            match std::mem::take(&mut self.at) {
                // Everything after these words is replaced, even if the line does not begin here.
                At::Unknown if is_whole && (known(line).is_some() || is_request_of(line)) => {
                    self.whole(anonymiser, line);
                }
                At::Unknown if known(line).is_some() || is_request_of(line) => self.part(line, 0),
                At::Start if is_whole => self.whole(anonymiser, line),
                At::Start => self.part(line, 0),
                At::Word(mut joined) => {
                    let before = joined.len();
                    joined.extend_from_slice(line);
                    if is_whole {
                        self.whole(anonymiser, &mut joined);
                    } else {
                        self.part(&mut joined, before);
                    }
                    line.copy_from_slice(joined.get(before..).unwrap_or_default());
                }
                at @ (At::Blanked | At::Unknown) => {
                    if at == At::Blanked || is_text(line) {
                        let end = line.trim_ascii_end().len();
                        let end = end - version(line.get(..end).unwrap_or_default());
                        line.get_mut(..end).unwrap_or_default().fill(b'x');
                    }
                    if !is_whole {
                        self.at = at;
                    }
                }
            }
        }
    }

    /// Rewrites a complete line.
    fn whole(&mut self, anonymiser: &mut Anonymiser, line: &mut [u8]) {
        let end = line.trim_ascii_end().len();
        let Some(line) = line.get_mut(..end) else { return };
        if let (Some(b' ' | b'\t'), Some(class)) = (line.first(), self.folded) {
            let blanks = line.len() - line.trim_ascii_start().len();
            return fit(anonymiser, class, line.get_mut(blanks..).unwrap_or_default());
        }
        self.folded = None;
        if self.answers && !line.is_empty() && !line.iter().any(|byte| matches!(byte, b' ' | b':')) {
            return line.fill(b'x');
        }
        self.answers = false;
        if let Some((at, class)) = known(line) {
            self.folded = line.get(at - 1).filter(|mark| **mark == b':').map(|_| class);
            self.answers = line.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"auth "));
            let value = line.get_mut(at..).unwrap_or_default();
            let blanks = value.len() - value.trim_ascii_start().len();
            return fit(anonymiser, class, value.get_mut(blanks..).unwrap_or_default());
        }
        if !is_text(line) {
            return;
        }
        // A request: method, target, version.
        let version = version(line);
        if version > 0 {
            let end = line.len() - version;
            if let Some(start) = line.iter().position(|byte| *byte == b' ').filter(|start| *start < end) {
                let class = if line.ends_with(b"/2.0") { Privacy::Mail } else { Privacy::Url };
                return fit(anonymiser, class, line.get_mut(start + 1..end).unwrap_or_default());
            }
        }
        numbers(anonymiser, line, b'.');
        numbers(anonymiser, line, b',');
    }

    /// Rewrites the beginning of a line, whose first bytes were seen before and may not change.
    fn part(&mut self, line: &mut [u8], seen: usize) {
        if line.is_empty() {
            return;
        }
        self.answers &= !line.iter().any(|byte| matches!(byte, b' ' | b':'));
        let words = HEADERS.iter().chain(COMMANDS).map(|(word, _)| *word).chain(METHODS.iter().copied());
        let begins = |word: &str| {
            word.get(..line.len()).is_some_and(|word| word.as_bytes().eq_ignore_ascii_case(line))
        };
        if !self.answers && words.clone().any(begins) {
            self.at = At::Word(line.to_vec());
            return;
        }
        let space = line.iter().position(|byte| *byte == b' ');
        let request = space.filter(|_| is_request(line)).map(|at| at + 1);
        let found = known(line);
        let value = found.map(|(at, _)| at).or(request);
        if let Some(at) = value
            && line.get(at..).is_some_and(|value| value.iter().all(u8::is_ascii_whitespace))
        {
            self.at = At::Word(line.to_vec());
            return;
        }
        if value.is_none() && !self.answers && !is_text(line) {
            self.at = At::Unknown;
            return;
        }
        // A continuation has the class of its line, or is unknown.
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            self.folded = Some(found.map_or(Privacy::Content, |(_, class)| class));
        }
        self.answers |= line.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"auth "));
        // Unknown lines are text or binary segment by segment.
        self.at = if value.is_some() || self.answers { At::Blanked } else { At::Unknown };
        let end = line.len() - usize::from(line.ends_with(b"\r"));
        let behind =
            |at: usize| at + line.iter().skip(at).take_while(|byte| byte.is_ascii_whitespace()).count();
        let from = value.map_or(0, behind).max(seen);
        if let Some(place) = line.get_mut(from..end) {
            place.fill(b'x');
        }
    }
}

/// Length in bytes of the version after the target of a request, and of the space before it; 0 without a version.
fn version(line: &[u8]) -> usize {
    let versions = [" HTTP/1.1", " HTTP/1.0", " SIP/2.0"];
    versions.iter().find(|version| line.ends_with(version.as_bytes())).map_or(0, |version| version.len())
}

/// Whether the bytes begin like a request.
fn is_request(line: &[u8]) -> bool {
    let word = line.split(|byte| *byte == b' ').next().filter(|word| word.len() < line.len());
    METHODS.iter().any(|method| word.is_some_and(|word| method.as_bytes().eq_ignore_ascii_case(word)))
}

fn is_text(line: &[u8]) -> bool {
    line.iter().all(|byte| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\r' | b'\n'))
}

/// Position and class of the private value of a header line or command.
fn known(line: &[u8]) -> Option<(usize, Privacy)> {
    let found = |table: &[(&str, Privacy)], word: &[u8]| {
        let of =
            |(name, class): &(&str, Privacy)| name.as_bytes().eq_ignore_ascii_case(word).then_some(*class);
        table.iter().find_map(of)
    };
    let place = |mark: u8| line.iter().position(|byte| *byte == mark);
    let header = place(b':').and_then(|at| Some((at + 1, found(HEADERS, line.get(..at)?)?)));
    header.or_else(|| place(b' ').and_then(|at| Some((at + 1, found(COMMANDS, line.get(..at)?)?))))
}

/// Maximum number of tracked directions. Beyond it the table is cleared, and the next bytes of each direction are
/// unknown.
const DIRECTIONS: usize = 16_384;
/// Number of segments of a direction that are recognised when retransmitted.
const SEGMENTS: usize = 16;

/// A direction of a stream: addresses and ports, the sender's first.
pub(super) type Endpoints = ([u8; 16], [u8; 16], [u16; 2]);

/// The directions of all streams, with the state at a sequence number for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Directions(HashMap<Endpoints, VecDeque<(u32, Lines)>>);

impl Directions {
    /// The state at a sequence number.
    pub(super) fn at(&self, ends: &Endpoints, seq: u32) -> Lines {
        let places = self.0.get(ends).into_iter().flatten();
        places
            .into_iter()
            .find(|(place, _)| *place == seq)
            .map_or_else(Lines::unknown, |(_, lines)| lines.clone())
    }

    /// Notes the state after a segment.
    pub(super) fn note(&mut self, ends: &Endpoints, seq: u32, lines: Lines) {
        if self.0.len() >= DIRECTIONS && !self.0.contains_key(ends) {
            self.0.clear();
        }
        let places = self.0.entry(*ends).or_default();
        places.retain(|(place, _)| *place != seq);
        if places.len() >= SEGMENTS {
            places.pop_front();
        }
        places.push_back((seq, lines));
    }

    /// Notes the beginning of a stream.
    pub(super) fn begin(&mut self, ends: &Endpoints, seq: u32) {
        self.0.remove(ends);
        self.note(ends, seq, Lines::default());
    }
}

/// Writes a pseudonym of equal length.
fn fit(anonymiser: &mut Anonymiser, class: Privacy, place: &mut [u8]) {
    if matches!(class, Privacy::Secret | Privacy::Content) {
        return place.fill(b'x');
    }
    let image = anonymiser.text(class, place);
    // The mapped address is too long: its digits are treated like any word.
    let image = if image.len() > place.len() { anonymiser.text(Privacy::User, place) } else { image };
    place.fill(b' ');
    for (to, from) in place.iter_mut().zip(image) {
        *to = from;
    }
}

/// Maps the addresses made of four numbers with that separator: 10.0.0.1, or the first four of FTP's 10,0,0,1,4,1.
fn numbers(anonymiser: &mut Anonymiser, line: &mut [u8], mark: u8) {
    let mut at = 0;
    while at < line.len() {
        let run = line.get(at..).unwrap_or_default();
        let length = run.iter().take_while(|byte| byte.is_ascii_digit() || **byte == mark).count();
        let run = run.get(..length).unwrap_or_default();
        let mut ends = run.iter().enumerate().filter(|(_, byte)| **byte == mark).map(|(end, _)| end);
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
                None => place.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'0'),
            }
        }
        at += length.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Payload, Policy};

    fn anonymiser() -> Anonymiser {
        let policy = Policy { payload: Payload::Keep, ..Policy::default() };
        Anonymiser::new(policy, &Key(*b"0123456789abcdefghijklmnopqrstuv")).unwrap()
    }

    fn scrubbed(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        Lines::default().rewrite(&mut anonymiser(), &mut bytes, true);
        assert_eq!(bytes.len(), text.len());
        String::from_utf8(bytes).unwrap()
    }

    /// Conversations, and their private words.
    const TOLD: &[(&str, &[&str])] = &[
        (
            "GET /home/jane/cv.html?user=jane HTTP/1.1\r\nHost: www.smith.org\r\nAccept: */*\r\n\
             Cookie: id=quux;\r\n\tmore=corge\r\nauthorization: Basic amFuZTpwdw==\r\n\r\n",
            &["jane", "smith", "quux", "corge", "amFuZTpwdw"],
        ),
        (
            "INVITE sip:jane@smith.org SIP/2.0\r\nFrom: \"Jane\" <sip:jane@smith.org>\r\nTo: <sip:bob@grault.org>\r\n\
             Contact: <sip:jane@192.168.100.200>\r\n\r\no=- 1 1 IN IP4 192.168.100.200\r\n",
            &["jane", "Jane", "smith", "bob", "grault", "192.168.100.200"],
        ),
        (
            "USER jane\r\nPASS garply\r\nPORT 192,168,100,200,4,1\r\nRETR x\r\n",
            &["jane", "garply", "192,168,100,200"],
        ),
        (
            "EHLO waldo.smith.org\r\nAUTH LOGIN\r\namFuZQ==\r\nc2VjcmV0\r\nMAIL FROM:<jane@smith.org>\r\n\
             RCPT TO:<bob@grault.org>\r\nDATA\r\nFrom: jane@smith.org\r\nSubject: the\r\n plugh\r\n\r\nhello\r\n.\r\n",
            &["waldo", "smith", "amFuZQ", "c2VjcmV0", "jane", "bob", "grault", "plugh"],
        ),
    ];

    /// Number of bytes of a private word that are left in place.
    fn left(text: &str, image: &[u8], words: &[&str]) -> Option<String> {
        words.iter().find_map(|word| {
            text.match_indices(word).find_map(|(at, _)| {
                let same = |n: &usize| image[at + n] == text.as_bytes()[at + n];
                let runs = (0..word.len()).collect::<Vec<_>>();
                // Single letters are equal by chance, three in a row practically never.
                let mut runs = runs.windows(3.min(word.len()));
                let found = runs.any(|run| run.iter().all(same));
                found.then(|| format!("{word} at {at}: {}", String::from_utf8_lossy(image)))
            })
        })
    }

    #[test]
    fn a_line_cut_at_any_byte_contains_no_private_word() {
        let (mut cuts, mut anonymiser) = (0, anonymiser());
        for (text, words) in TOLD {
            assert_eq!(left(text, scrubbed(text).as_bytes(), words), None);
            for first in 0..=text.len() {
                for second in [first, first + 1, first + 2, first + 7, text.len()] {
                    let second = second.min(text.len());
                    let mut bytes = text.as_bytes().to_vec();
                    let mut lines = Lines::default();
                    for (from, to) in [(0, first), (first, second), (second, text.len())] {
                        lines.rewrite(&mut anonymiser, &mut bytes[from..to], false);
                    }
                    assert_eq!(left(text, &bytes, words), None, "cut at {first} and {second}");
                    // The ends of lines keep their positions.
                    for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n') {
                        assert_eq!(bytes[at], byte);
                    }
                    cuts += 1;
                }
                // The previous part was not captured.
                let mut bytes = text.as_bytes().to_vec();
                Lines::unknown().rewrite(&mut anonymiser, &mut bytes[first..], true);
                let words: Vec<&str> =
                    words.iter().copied().filter(|word| text[first..].contains(word)).collect();
                let mut shown = vec![b'#'; first];
                shown.extend_from_slice(&bytes[first..]);
                // The second line of a folded header whose first line was not seen is unknown.
                let words: Vec<&str> = words
                    .into_iter()
                    .filter(|w| !matches!(*w, "corge" | "plugh" | "amFuZQ" | "c2VjcmV0"))
                    .collect();
                assert_eq!(left(text, &shown, &words), None, "from {first}");
            }
        }
        assert!(cuts > 2500, "{cuts}");
    }

    #[test]
    fn a_line_within_one_segment_is_rewritten_as_without_cuts() {
        let text = "GET /home/jane HTTP/1.1\r\nHost: www.smith.org\r\n\r\n";
        let whole = scrubbed(text);
        // Within the method, after it, in the name of the header, after it.
        for cut in [1, 3, 4, 26, 30, 31] {
            let mut bytes = text.as_bytes().to_vec();
            let (mut lines, mut anonymiser) = (Lines::default(), anonymiser());
            lines.rewrite(&mut anonymiser, &mut bytes[..cut], false);
            lines.rewrite(&mut anonymiser, &mut bytes[cut..], false);
            assert_eq!(String::from_utf8(bytes).unwrap(), whole, "{cut}");
        }
    }

    #[test]
    fn binary_bytes_are_kept() {
        let bytes: Vec<u8> = (0..=255).cycle().skip(128).take(4000).filter(|byte| *byte != b'\n').collect();
        for cut in [1, 77, 1000] {
            let mut image = bytes.clone();
            let mut lines = Lines::default();
            lines.rewrite(&mut anonymiser(), &mut image[..cut], false);
            lines.rewrite(&mut anonymiser(), &mut image[cut..], false);
            assert!(image[cut..] == bytes[cut..], "{cut}");
        }
    }

    #[test]
    fn directions_are_tracked_by_sequence_number_up_to_a_limit() {
        let mut directions = Directions::default();
        let ends = |n: u32| ([0; 16], [0; 16], [n as u16, (n >> 16) as u16]);
        directions.begin(&ends(0), 7);
        assert_eq!(directions.at(&ends(0), 7).at, At::Start);
        assert_eq!(
            (directions.at(&ends(0), 8).at, directions.at(&ends(1), 7).at),
            (At::Unknown, At::Unknown)
        );
        (0..40_000).for_each(|n| directions.begin(&ends(n), 7));
        (0..100).for_each(|seq| directions.note(&ends(39_999), seq, Lines::default()));
        assert!(directions.0.len() <= DIRECTIONS && directions.0[&ends(39_999)].len() <= SEGMENTS);
    }

    #[test]
    fn known_lines_contain_no_private_word() {
        let request = "GET /home/jane/cv.html?user=jane HTTP/1.1\r\nHost: www.smith-family.org:8080\r\n\
                       Accept: */*\r\nCookie: id=jane\r\nauthorization: Basic amFuZTpwdw==\r\n\r\n";
        let image = scrubbed(request);
        for word in ["jane", "smith", "amFuZ"] {
            assert!(!image.contains(word), "{word}: {image}");
        }
        assert!(
            image.starts_with("GET /")
                && image.contains(".html?")
                && image.contains(".org:8080\r\nAccept: */*\r\n")
        );
        let mail =
            scrubbed("MAIL FROM:<jane@smith.org>\r\nRCPT TO:<bob@smith.org>\r\nUSER jane\r\nPASS secret\r\n");
        assert!(
            !mail.contains("jane") && !mail.contains("smith") && mail.ends_with("\r\nPASS xxxxxx\r\n"),
            "{mail}"
        );
    }

    #[test]
    fn addresses_in_text_are_mapped_or_zeroed() {
        let text = "PORT 192,168,100,200,4,1\r\n227 Entering (10,0,0,1,4,1).\r\nc=IN IP4 192.168.100.200\r\nv 1.2.3\r\n";
        let image = scrubbed(text);
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
        assert_eq!(scrubbed("\u{16}\u{3} 10.0.0.1"), "\u{16}\u{3} 10.0.0.1", "no text");
    }
}
