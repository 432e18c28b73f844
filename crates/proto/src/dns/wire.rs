//! The wire format of RFC 1035: a header, names that may point backwards, questions and records.
//!
//! A message is parsed into reused vectors that hold only offsets: parsing allocates nothing once the vectors have
//! grown.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::Reader;

/// Bytes of the header.
pub(super) const HEADER: usize = 12;
/// Maximum length of a name, in bytes of its text. RFC 1035 allows 255; longer ones are truncated as in Suricata.
const MAX_NAME: usize = 1025;
/// Maximum number of pointers in one name.
const MAX_HOPS: usize = 128;
/// Maximum length of the text of all names of one message. A message of 64 KiB can refer to a name of maximum length
/// 5,000 times.
const MAX_TEXT: usize = 1 << 18;
/// Maximum number of questions before a message is odd (Zeek's `dns_max_queries`).
const MAX_QUESTIONS: u16 = 25;
/// Maximum number of records and questions of one message.
pub(super) const MAX_RECORDS: usize = 4096;

/// The header of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub id: u16,
    pub flags: u16,
    /// The declared number of questions, answers, authorities and additional records.
    pub counts: [u16; 4],
}

impl Header {
    pub const AA: u16 = 0x0400;
    pub const TC: u16 = 0x0200;
    pub const RD: u16 = 0x0100;
    pub const RA: u16 = 0x0080;
    pub const Z: u16 = 0x0040;

    pub fn read(data: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let (id, flags) = (reader.u16()?, reader.u16()?);
        let counts = [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        Some(Self { id, flags, counts })
    }

    pub fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    pub fn opcode(&self) -> u8 {
        (self.flags >> 11) as u8 & 0xf
    }

    pub fn rcode(&self) -> u8 {
        self.flags as u8 & 0xf
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// The opcode of RFC 2136, whose sections have other meanings.
pub(super) const UPDATE: u8 = 5;

/// A name, as the position of its text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Name {
    start: u32,
    end: u32,
    /// Whether the name was longer than the limit and was truncated.
    pub is_cut: bool,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub name: Name,
    pub kind: u16,
    pub class: u16,
}

/// The section of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Section {
    Answer,
    Authority,
    Additional,
}

/// A resource record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rr {
    pub section: Section,
    pub name: Name,
    pub kind: u16,
    pub class: u16,
    pub ttl: u32,
    pub data: Data,
    /// Position of the record's data in the message.
    from: usize,
    to: usize,
    /// Position of the data after its names.
    rest: usize,
}

/// The parts of a record's data that are not plain bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    Address(IpAddr),
    Name(Name),
    Names(Name, Name),
    Bytes,
}

/// A message.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub header: Header,
    pub questions: Vec<Question>,
    pub records: Vec<Rr>,
    text: Vec<u8>,
    /// The first error of the message, in Zeek's words.
    pub fault: Option<&'static str>,
    /// Number of bytes parsed.
    pub len: usize,
}

impl Message {
    /// Parses a message as far as possible; `false` if it has no complete header.
    pub fn read(&mut self, data: &[u8]) -> bool {
        self.questions.clear();
        self.records.clear();
        self.text.clear();
        (self.fault, self.len) = (None, HEADER);
        let Some(header) = Header::read(data) else { return false };
        self.header = header;
        let [questions, counts @ ..] = header.counts;
        if questions > MAX_QUESTIONS {
            self.note("DNS_Conn_count_too_large");
        }
        for _ in 0..questions {
            if self.questions.len() == MAX_RECORDS || self.question(data).is_none() {
                self.note("DNS_truncated_quest_too_short");
                return true;
            }
        }
        let sections = [Section::Answer, Section::Authority, Section::Additional];
        for (section, count) in sections.into_iter().zip(counts) {
            for _ in 0..count {
                if self.records.len() == MAX_RECORDS {
                    self.note("DNS_Conn_count_too_large");
                    return true;
                }
                if self.record(data, section).is_none() {
                    // A message with the truncation flag is not malformed.
                    if !header.has(Header::TC) {
                        self.note("DNS_truncated_ans_too_short");
                    }
                    return true;
                }
            }
        }
        true
    }

    /// The text of a name: its labels unchanged, separated by dots.
    pub fn text(&self, name: Name) -> &[u8] {
        self.text.get(name.start as usize..name.end as usize).unwrap_or_default()
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.text.capacity()
            + self.questions.capacity() * size_of::<Question>()
            + self.records.capacity() * size_of::<Rr>()
    }

    /// Releases the memory that a large message needed.
    pub fn shrink(&mut self) {
        if self.memory() > 1 << 16 {
            *self = Self::default();
        }
    }

    fn note(&mut self, fault: &'static str) {
        self.fault = self.fault.or(Some(fault));
    }

    fn question(&mut self, data: &[u8]) -> Option<()> {
        let (name, at) = self.name(data, self.len)?;
        let mut reader = Reader::new(data.get(at..)?);
        let (kind, class) = (reader.u16()?, reader.u16()?);
        self.questions.push(Question { name, kind, class });
        self.len = at + 4;
        Some(())
    }

    fn record(&mut self, data: &[u8], section: Section) -> Option<()> {
        let (name, at) = self.name(data, self.len)?;
        let mut reader = Reader::new(data.get(at..)?);
        let (kind, class, ttl, len) = (reader.u16()?, reader.u16()?, reader.u32()?, reader.u16()?);
        let from = at + 10;
        let to = from + usize::from(len);
        let Some(body) = data.get(..to) else {
            self.note("DNS_truncated_RR_rdlength_lt_len");
            return None;
        };
        let mut rr = Rr { section, name, kind, class, ttl, data: Data::Bytes, from, to, rest: from };
        // An update uses records without data to name the records to delete.
        if from < to && self.data(body, &mut rr).is_none() {
            self.note("DNS_RR_bad_length");
            (rr.data, rr.rest) = (Data::Bytes, rr.from);
        } else if from < to && section == Section::Answer && rr.end_of_names().is_some_and(|end| end != to) {
            self.note("DNS_RR_length_mismatch");
        }
        self.records.push(rr);
        self.len = to;
        Some(())
    }

    /// Parses the addresses and names of a record's data, which ends at the end of `body`.
    fn data(&mut self, body: &[u8], rr: &mut Rr) -> Option<()> {
        let before = match rr.kind {
            kind::A => {
                let bytes: [u8; 4] = body.get(rr.from..)?.try_into().ok()?;
                rr.data = Data::Address(Ipv4Addr::from(bytes).into());
                return Some(());
            }
            kind::AAAA => {
                let bytes: [u8; 16] = body.get(rr.from..)?.try_into().ok()?;
                rr.data = Data::Address(Ipv6Addr::from(bytes).into());
                return Some(());
            }
            2 | 3 | 4 | kind::CNAME | 7 | 8 | 9 | kind::PTR | 39 | kind::NSEC | kind::TKEY | kind::TSIG => 0,
            kind::MX | 18 | 21 | 36 | kind::SVCB | kind::HTTPS => 2,
            kind::SRV => 6,
            kind::SIG | kind::RRSIG => 18,
            kind::SOA | 14 | 17 => {
                let (first, at) = self.name(body, rr.from)?;
                let (second, at) = self.name(body, at)?;
                if rr.kind == kind::SOA && body.len() < at + 20 {
                    return None;
                }
                (rr.data, rr.rest) = (Data::Names(first, second), at);
                return Some(());
            }
            kind::NAPTR => {
                let mut at = rr.from + 4;
                for _ in 0..3 {
                    at += 1 + usize::from(*body.get(at)?);
                }
                at - rr.from
            }
            _ => return Some(()),
        };
        let (name, at) = self.name(body, rr.from + before)?;
        (rr.data, rr.rest) = (Data::Name(name), at);
        Some(())
    }

    /// Parses the name at an offset. Returns the name and the offset after it.
    fn name(&mut self, data: &[u8], from: usize) -> Option<(Name, usize)> {
        let start = self.text.len();
        if start >= MAX_TEXT {
            self.note("DNS_NAME_too_long");
            return None;
        }
        let (mut at, mut after, mut hops, mut is_cut) = (from, None, 0, false);
        loop {
            let Some(len) = data.get(at).copied().map(usize::from) else {
                self.note("DNS_label_len_gt_pkt");
                return None;
            };
            match len {
                0 => break,
                1..64 => {
                    let Some(label) = data.get(at + 1..at + 1 + len) else {
                        self.note("DNS_label_len_gt_pkt");
                        return None;
                    };
                    if !is_cut {
                        if self.text.len() > start {
                            self.text.push(b'.');
                        }
                        self.text.extend_from_slice(label);
                        is_cut = self.text.len() - start > MAX_NAME;
                        self.text.truncate(start + MAX_NAME);
                    }
                    at += 1 + len;
                }
                0xc0.. => {
                    let low = data.get(at + 1).copied().map(usize::from)?;
                    let target = (len & 0x3f) << 8 | low;
                    after.get_or_insert(at + 2);
                    hops += 1;
                    if target >= at || hops > MAX_HOPS {
                        self.note("DNS_label_forward_compress_offset");
                    }
                    if hops > MAX_HOPS {
                        return None;
                    }
                    at = target;
                }
                _ => {
                    self.note("DNS_label_too_long");
                    return None;
                }
            }
            if is_cut && after.is_some() {
                self.note("DNS_NAME_too_long");
                break;
            }
        }
        let name = Name { start: start as u32, end: self.text.len() as u32, is_cut };
        Some((name, after.unwrap_or(at + 1)))
    }
}

impl Rr {
    /// Where the data of an answer with names ends by its names.
    fn end_of_names(&self) -> Option<usize> {
        match (self.kind, self.data) {
            (kind::NS | kind::CNAME | kind::PTR | kind::MX, Data::Name(_)) => Some(self.rest),
            // Five numbers follow the names (RFC 1035 3.3.13).
            (kind::SOA, Data::Names(..)) => Some(self.rest + 20),
            _ => None,
        }
    }

    /// Whether it is an answer of a type that Zeek does not read. Zeek skips the other sections.
    pub fn is_unknown_to_zeek(&self) -> bool {
        /// A6, and its number for keys of BIND, which have no numbers here.
        const OTHERS: [u16; 2] = [38, 65_534];
        use kind::*;
        let is_known = matches!(
            self.kind,
            A | NS | CNAME | SOA | WKS | PTR | HINFO | MX | TXT | AAAA | LOC | NB | SRV | NAPTR | OPT | DS
        ) || matches!(
            self.kind,
            SSHFP | RRSIG | NSEC | DNSKEY | NSEC3 | NSEC3PARAM | SVCB | HTTPS | SPF | TSIG | CAA
        );
        self.section == Section::Answer && !is_known && !OTHERS.contains(&self.kind)
    }

    /// The bytes of the record's data.
    pub fn bytes<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message.get(self.from..self.to).unwrap_or_default()
    }

    /// The data after its names.
    pub fn rest<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message.get(self.rest..self.to).unwrap_or_default()
    }

    /// The record's address, if it has one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.data {
            Data::Address(address) => Some(address),
            _ => None,
        }
    }

    /// The record's name, or the first of two.
    pub fn target(&self) -> Option<Name> {
        match self.data {
            Data::Name(name) | Data::Names(name, _) => Some(name),
            _ => None,
        }
    }
}

/// Consecutive strings, each with its length before it.
pub(super) fn strings(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = data.split_first()?;
        let (text, rest) = rest.split_at_checked(usize::from(*len)).unwrap_or((rest, &[]));
        data = rest;
        Some(text)
    })
}

/// Pairs of a number and bytes, as in options of EDNS and parameters of SVCB.
pub(super) fn options(data: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut reader = Reader::new(data);
    std::iter::from_fn(move || {
        let (code, len) = (reader.u16()?, reader.u16()?);
        Some((code, reader.take(usize::from(len))?))
    })
}

/// Skips the first question. Returns the length of its name (`None` if it is a pointer), its type and class, and the
/// offset after it.
pub(super) fn first_question(data: &[u8]) -> Result<(&[u8], u16, u16, usize), Walk> {
    let mut at = HEADER;
    loop {
        match data.get(at).copied().map(usize::from) {
            None => return Err(Walk::Short),
            Some(0) => break,
            Some(len @ 1..64) => at += 1 + len,
            // Nothing precedes the first question that it could point to.
            Some(_) => return Err(Walk::Wrong),
        }
        if at > HEADER + 255 {
            return Err(Walk::Wrong);
        }
    }
    let name = data.get(HEADER..at).unwrap_or_default();
    let mut reader = Reader::new(data.get(at + 1..).ok_or(Walk::Short)?);
    let mut next = || reader.u16().ok_or(Walk::Short);
    Ok((name, next()?, next()?, at + 5))
}

/// The reason why a question cannot be parsed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Walk {
    /// It is incomplete.
    Short,
    /// It is malformed.
    Wrong,
}

/// Types whose data is parsed.
pub(super) mod kind {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const NULL: u16 = 10;
    pub const WKS: u16 = 11;
    pub const PTR: u16 = 12;
    pub const HINFO: u16 = 13;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const SIG: u16 = 24;
    pub const AAAA: u16 = 28;
    pub const LOC: u16 = 29;
    pub const NB: u16 = 32;
    pub const SRV: u16 = 33;
    pub const NAPTR: u16 = 35;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const SSHFP: u16 = 44;
    pub const RRSIG: u16 = 46;
    pub const NSEC: u16 = 47;
    pub const DNSKEY: u16 = 48;
    pub const NSEC3: u16 = 50;
    pub const NSEC3PARAM: u16 = 51;
    pub const TLSA: u16 = 52;
    pub const SVCB: u16 = 64;
    pub const HTTPS: u16 = 65;
    pub const SPF: u16 = 99;
    pub const TKEY: u16 = 249;
    pub const TSIG: u16 = 250;
    pub const CAA: u16 = 257;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(questions: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 7, 1, 0];
        bytes.extend(questions.to_be_bytes());
        bytes.extend([0; 6]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn names_are_joined_from_labels_and_pointers() {
        let mut read = Message::default();
        let data = message(2, b"\x03www\x07example\0\0\x01\0\x01\x03ftp\xc0\x10\0\x1c\0\x01");
        assert!(read.read(&data) && read.fault.is_none());
        let names: Vec<_> = read.questions.iter().map(|q| read.text(q.name).to_vec()).collect();
        assert_eq!(names, [b"www.example".to_vec(), b"ftp.example".to_vec()]);
        assert_eq!(read.len, data.len());
    }

    #[test]
    fn pointer_loops_end() {
        for body in
            [&b"\xc0\x0c\0\x01\0\x01"[..], b"\x01a\xc0\x0c\0\x01\0\x01", b"\xc0\x0e\xc0\x0c\0\x01\0\x01"]
        {
            let mut read = Message::default();
            assert!(read.read(&message(1, body)));
            assert!(read.fault.is_some());
            assert!(read.questions.iter().all(|q| read.text(q.name).len() <= MAX_NAME));
        }
    }

    #[test]
    fn long_names_are_truncated() {
        let mut body = Vec::new();
        for _ in 0..40 {
            body.push(60);
            body.extend([b'x'; 60]);
        }
        body.extend(b"\0\0\x01\0\x01");
        let (mut read, data) = (Message::default(), message(1, &body));
        assert!(read.read(&data));
        assert!(read.questions[0].name.is_cut);
        assert_eq!(read.text(read.questions[0].name).len(), MAX_NAME);
        assert_eq!(read.len, data.len());
    }

    /// A response whose section at `section` (1: answers) has one record of that type with that data.
    fn response(section: usize, kind: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 7, 0x81, 0x80, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[5 + 2 * section] = 1;
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 9]);
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn an_answer_is_as_long_as_its_names() {
        let fault = |section, kind, data: &[u8]| {
            let mut read = Message::default();
            assert!(read.read(&response(section, kind, data)));
            read.fault
        };
        let soa = [&b"\x01a\0\x01b\0"[..], &[0; 20]].concat();
        for (kind, data) in [
            (kind::NS, &b"\x01a\0"[..]),
            (kind::CNAME, b"\x01a\0"),
            (kind::PTR, b"\x01a\0"),
            (kind::MX, b"\0\x05\x01a\0"),
            (kind::SOA, &soa),
        ] {
            assert_eq!(fault(1, kind, data), None, "{kind}");
            let long = [data, b"x"].concat();
            assert_eq!(fault(1, kind, &long), Some("DNS_RR_length_mismatch"), "{kind}");
            assert_eq!(fault(2, kind, &long), None, "{kind}: Zeek skips this section");
        }
    }

    #[test]
    fn answers_of_some_types_are_unknown() {
        let is_unknown = |section, kind| {
            let mut read = Message::default();
            assert!(read.read(&response(section, kind, &[0; 4])));
            read.records.iter().any(Rr::is_unknown_to_zeek)
        };
        assert!(is_unknown(1, kind::TLSA) && is_unknown(1, 65_280));
        assert!(!is_unknown(2, kind::TLSA) && !is_unknown(1, kind::A) && !is_unknown(1, kind::NAPTR));
    }

    #[test]
    fn more_than_25_questions_are_too_many() {
        let question = b"\x01a\0\0\x01\0\x01";
        let mut read = Message::default();
        assert!(read.read(&message(25, &question.repeat(25))));
        assert_eq!((read.fault, read.questions.len()), (None, 25));
        assert!(read.read(&message(26, &question.repeat(26))));
        assert_eq!((read.fault, read.questions.len()), (Some("DNS_Conn_count_too_large"), 26));
    }
}
