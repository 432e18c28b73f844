//! Header fields of messages (RFC 5322) and parts (RFC 2045).

use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;
use std::net::IpAddr;

/// Maximum length of one field in bytes: RFC 5322 allows 998 per line, and lists of addresses fold over many lines.
const MAX_FIELD: usize = 16 << 10;
/// Maximum length of all fields of a header in bytes.
const MAX_HEAD: usize = 128 << 10;
/// Maximum number of fields of a header.
const MAX_FIELDS: usize = 512;
/// Maximum number of addresses of a list.
const MAX_ADDRESSES: usize = 1024;

/// A header.
#[derive(Debug, Default)]
pub(crate) struct Head {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// Whether the last line belongs to a field that is kept.
    goes_on: bool,
    /// Whether a limit was exceeded.
    pub is_cut: bool,
}

/// The declared facts of a part.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Media type in lower case, without parameters.
    pub media: Vec<u8>,
    /// Boundary of its parts.
    pub boundary: Vec<u8>,
    /// Declared file name.
    pub name: Option<Vec<u8>>,
}

impl Head {
    /// Takes a line without its end. A line that is neither a field nor a continuation is skipped.
    pub fn line(&mut self, line: &[u8]) {
        if line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
            if let Some((_, value)) = self.fields.last_mut().filter(|_| self.goes_on) {
                if self.bytes + line.len() < MAX_HEAD && value.len() + line.len() < MAX_FIELD {
                    value.push(b'\n');
                    value.extend_from_slice(line);
                    self.bytes += line.len() + 1;
                } else {
                    self.is_cut = true;
                }
            }
            return;
        }
        self.goes_on = false;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        let (name, value) = (name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii());
        if name.is_empty() || name.iter().any(|byte| !byte.is_ascii_graphic()) {
            return;
        }
        if self.fields.len() == MAX_FIELDS || self.bytes + line.len() >= MAX_HEAD {
            self.is_cut = true;
            return;
        }
        self.is_cut |= value.len() > MAX_FIELD;
        let value = value.get(..MAX_FIELD).unwrap_or(value);
        self.bytes += name.len() + value.len();
        self.goes_on = true;
        self.fields.push((name.to_ascii_lowercase(), value.to_vec()));
    }

    /// Values of the fields of a name (in lower case), with `\n` between folded lines.
    fn folded<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let named = self.fields.iter().filter(move |(field, _)| field == name.as_bytes());
        named.map(|(_, value)| value.as_slice())
    }

    /// The last value of a field, unfolded; the spaces of the fold are kept.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.folded(name).next_back().map(unfolded)
    }

    /// The last value of the last field that has one of the names.
    pub fn last_of(&self, names: &[&str]) -> Option<Vec<u8>> {
        let named =
            self.fields.iter().rev().find(|(field, _)| names.iter().any(|name| field == name.as_bytes()));
        named.map(|(_, value)| unfolded(value))
    }

    /// All values of a field.
    pub fn all(&self, name: &str) -> Vec<Vec<u8>> {
        self.folded(name).map(unfolded).collect()
    }

    /// All values of a field, with folded lines joined without their first space.
    pub fn all_joined(&self, name: &str) -> Vec<Vec<u8>> {
        let joined = |value: &[u8]| {
            let mut lines = value.split(|byte| *byte == b'\n');
            let mut joined = lines.next().unwrap_or_default().to_vec();
            lines.for_each(|line| joined.extend_from_slice(line.get(1..).unwrap_or_default()));
            joined
        };
        self.folded(name).map(joined).collect()
    }

    /// The last value of a field with its encoded words (RFC 2047) decoded to UTF-8.
    pub fn text(&self, name: &str) -> Option<String> {
        self.folded(name).next_back().map(decoded)
    }

    /// The addresses in all fields of a name.
    pub fn addresses(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        let lists = self.all(name);
        let addresses = lists.iter().flat_map(|list| addresses(list)).take(MAX_ADDRESSES);
        (!lists.is_empty()).then(|| addresses.map(<[u8]>::to_vec).collect())
    }

    /// The names of the fields, each once, in alphabetical order.
    pub fn names(&self) -> Vec<&[u8]> {
        let mut names: Vec<&[u8]> = self.fields.iter().map(|(name, _)| name.as_slice()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The declared facts of the header's part.
    pub fn description(&self) -> Description {
        let mut description = Description::default();
        if let Some(value) = self.folded("content-type").next_back() {
            let (media, attributes) = parameters(value);
            for (name, value) in attributes {
                match name.as_str() {
                    "boundary" => description.boundary = value,
                    "name" => description.name = Some(value),
                    _ => {}
                }
            }
            description.media = media;
        }
        if let Some(value) = self.folded("content-disposition").next_back() {
            let (_, attributes) = parameters(value);
            let name = attributes.into_iter().find(|(name, _)| name == "filename");
            description.name = name.map(|(_, value)| value).or(description.name);
        }
        description.name = description.name.filter(|name| !name.is_empty());
        description
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.bytes + self.fields.capacity() * size_of::<(Vec<u8>, Vec<u8>)>()
    }
}

fn unfolded(value: &[u8]) -> Vec<u8> {
    value.iter().copied().filter(|byte| *byte != b'\n').collect()
}

/// A text with its encoded words (RFC 2047) decoded to UTF-8.
pub(crate) fn decoded(value: &[u8]) -> String {
    let mut text = value.to_vec();
    text.push(b'\n');
    match MessageStream::new(&text).parse_unstructured() {
        HeaderValue::Text(text) => text.into_owned(),
        HeaderValue::TextList(texts) => texts.concat(),
        _ => String::new(),
    }
}

/// A value and its parameters, with the encoding of RFC 2231 decoded.
fn parameters(value: &[u8]) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let mut text = value.to_vec();
    text.push(b'\n');
    let HeaderValue::ContentType(content) = MessageStream::new(&text).parse_content_type() else {
        return (value.to_ascii_lowercase(), Vec::new());
    };
    let mut media = content.c_type.as_bytes().to_vec();
    if let Some(subtype) = &content.c_subtype {
        media.push(b'/');
        media.extend_from_slice(subtype.as_bytes());
    }
    let attributes = content.attributes.into_iter().flatten();
    let attributes = attributes.map(|attribute| {
        let value = attribute.value.as_ref();
        let value = if value.contains("=?") { decoded(value.as_bytes()) } else { value.to_owned() };
        (attribute.name.to_ascii_lowercase(), value.into_bytes())
    });
    (media.to_ascii_lowercase(), attributes.collect())
}

/// The members of a list of addresses; commas in quotes are no separators.
pub(crate) fn addresses(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let members = list.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// The first mail address in a text, without surrounding text.
pub(crate) fn address(text: &[u8]) -> Option<&[u8]> {
    let at = text.iter().position(|byte| *byte == b'@')?;
    let (before, after) = text.split_at(at);
    let is_end = |byte: &u8| matches!(byte, b'<' | b'>' | b',' | b':' | b';' | b' ' | b'\t');
    let begin = before.iter().rposition(is_end).map_or(0, |at| at + 1);
    let end = after.iter().position(is_end).unwrap_or(after.len());
    (begin < at && end > 1).then(|| text.get(begin..at + end)).flatten()
}

/// The addresses of hosts in a text, such as a trace field (RFC 5321, 4.4).
pub(crate) fn hosts(text: &[u8]) -> impl Iterator<Item = IpAddr> {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b':'));
    let words = words.filter(|word| word.len() >= 2 && word.len() <= 64);
    words.filter_map(|word| {
        let word = match word.split_at_checked(5) {
            Some((tag, address)) if tag.eq_ignore_ascii_case(b"ipv6:") => address,
            _ => word,
        };
        std::str::from_utf8(word).ok().and_then(host)
    })
}

/// An address; leading zeros do not mark octal digits, as in mail programs.
fn host(word: &str) -> Option<IpAddr> {
    word.parse().ok().or_else(|| {
        let mut parts = word.split('.').map(|part| part.parse::<u8>().ok());
        let mut next = || parts.next().flatten();
        let bytes = [next()?, next()?, next()?, next()?];
        parts.next().is_none().then(|| bytes.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_unfolded_and_decoded() {
        let mut head = Head::default();
        for line in [
            "Subject: =?utf-8?B?w6k=?=",
            "\t=?iso-8859-1?Q?_=E8?= plain",
            "no field",
            " of no field",
            "To: \"a, b\" <a@x.org>, c@y.org,",
            "Received: from a",
            "  by b",
            "Content-Type: Multipart/Mixed; boundary=\"a b\"",
            "Content-Disposition: attachment; filename*0*=utf-8''%c3%a9; filename*1=x.txt",
        ] {
            head.line(line.as_bytes());
        }
        assert_eq!(head.get("subject").unwrap(), b"=?utf-8?B?w6k=?=\t=?iso-8859-1?Q?_=E8?= plain");
        assert_eq!(head.text("subject").unwrap(), "é è plain");
        assert_eq!(head.addresses("to").unwrap(), [b"\"a, b\" <a@x.org>".to_vec(), b"c@y.org".to_vec()]);
        assert_eq!(head.all("received"), [b"from a  by b".to_vec()]);
        assert_eq!(head.all_joined("received"), [b"from a by b".to_vec()]);
        let description = head.description();
        assert_eq!(description.media, b"multipart/mixed");
        assert_eq!(description.boundary, b"a b");
        assert_eq!(description.name.unwrap(), "éx.txt".as_bytes());
    }

    #[test]
    fn addresses_are_found_in_texts() {
        assert_eq!(address(b" <a@b.org> SIZE=3"), Some(&b"a@b.org"[..]));
        assert_eq!(address(b"a@b.org"), Some(&b"a@b.org"[..]));
        assert_eq!(address(b"<>"), None);
        assert_eq!(address(b"<@x>"), None);
        let text = b"from x1.2.3.example (y [IPv6:2001:db8::1]) by 192.0.02.007 at 10:11:12";
        let expected: Vec<IpAddr> = vec!["2001:db8::1".parse().unwrap(), "192.0.2.7".parse().unwrap()];
        assert_eq!(hosts(text).collect::<Vec<_>>(), expected);
    }
}
