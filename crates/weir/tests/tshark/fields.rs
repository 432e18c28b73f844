//! Fields that Weir and tshark both have, read from `fields.txt`, which explains its words.

use std::collections::BTreeMap;

const TEXT: &str = include_str!("fields.txt");

/// Fields that every comparison needs, before those of `fields.txt`: protocols, addresses and ports of a packet.
pub const OF_PACKETS: [&str; 7] =
    ["frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.port", "udp.port"];

/// How values are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum As {
    /// Text without blanks and bytes that are not printable ASCII.
    Text,
    /// A host name, without regard to case and a dot at the end.
    Name,
    /// A whole number, decimal or hexadecimal.
    Number,
    /// Yes or no.
    Bool,
    /// An address; the unspecified one is none.
    Address,
    /// Seconds with a fraction, to four digits.
    Seconds,
    /// Bytes as hexadecimal digits.
    Hex,
    /// Several words, as text without blanks.
    List,
    /// An object identifier, without the value after it.
    Oid,
    /// A media type without parameters.
    MediaType,
    /// The part before a colon.
    User,
    /// The name of a header line.
    Header,
    /// The exponent of seconds that are a power of two.
    Power,
    /// A point in time, to the millisecond within its hour.
    Time,
    /// The cookie of RDP without its label.
    Cookie,
    /// The reason in a status line.
    Reason,
    /// A path without its outer backslashes, without regard to case.
    Path,
    /// The mailbox in the argument of MAIL or RCPT.
    Mailbox,
    /// Text without regard to case.
    Words,
    /// The first word.
    Verb,
    /// Text without the quotes around it.
    Quoted,
    /// Text in capitals.
    Capitals,
    /// An address of SIP without its tag.
    Untagged,
    /// Hexadecimal digits without leading zeros.
    Serial,
    /// The digits of a GUID, whatever the order of its bytes.
    Guid,
    /// A number that is not reserved by GREASE.
    Ungreased,
    /// Seconds; without a point, in units of 1/65536.
    Fixed,
    /// The protocols above transport.
    Protocols,
    /// A NetBIOS name without its suffix.
    NetBios,
}

/// A condition on a field of tshark; without values any value holds.
#[derive(Debug)]
pub struct Test {
    /// Its position among the requested fields.
    pub column: usize,
    /// The values that it may have.
    pub values: Vec<&'static str>,
    /// Whether it must have no value.
    pub absent: bool,
}

/// A field of Weir and those of tshark that mean the same.
#[derive(Debug)]
pub struct Pair {
    /// The protocol, for tables of results.
    pub protocol: &'static str,
    /// Weir's field or fields, as in the file.
    pub name: &'static str,
    /// tshark's field or fields, as in the file.
    pub theirs: &'static str,
    /// Weir's tables, each with its fields.
    pub tables: Vec<(&'static str, Vec<Vec<&'static str>>)>,
    /// tshark's fields, by their position among the requested ones.
    pub columns: Vec<usize>,
    /// `in` of the file, and so on below.
    pub within: Vec<&'static str>,
    pub not: Vec<&'static str>,
    pub when: Vec<Test>,
    pub beside: Option<Test>,
    pub records: Option<(&'static str, Vec<&'static str>)>,
    pub kind: As,
    pub words: BTreeMap<&'static str, &'static str>,
    pub port: Option<u16>,
    pub listed: bool,
    pub once: bool,
    pub first: bool,
}

/// All pairs, and the fields that are requested from tshark.
#[derive(Debug)]
pub struct Fields {
    /// In the order of the file.
    pub pairs: Vec<Pair>,
    /// In the order of their columns.
    pub columns: Vec<&'static str>,
}

fn kind(word: &str) -> As {
    match word {
        "text" => As::Text,
        "name" => As::Name,
        "number" => As::Number,
        "bool" => As::Bool,
        "address" => As::Address,
        "seconds" => As::Seconds,
        "hex" => As::Hex,
        "list" => As::List,
        "oid" => As::Oid,
        "type" => As::MediaType,
        "user" => As::User,
        "header" => As::Header,
        "power" => As::Power,
        "time" => As::Time,
        "cookie" => As::Cookie,
        "reason" => As::Reason,
        "path" => As::Path,
        "mailbox" => As::Mailbox,
        "words" => As::Words,
        "quoted" => As::Quoted,
        "capitals" => As::Capitals,
        "untagged" => As::Untagged,
        "serial" => As::Serial,
        "guid" => As::Guid,
        "ungreased" => As::Ungreased,
        "fixed" => As::Fixed,
        "protocols" => As::Protocols,
        "netbios" => As::NetBios,
        "verb" => As::Verb,
        _ => panic!("fields.txt: no kind {word}"),
    }
}

impl Fields {
    /// The pairs of `fields.txt`.
    pub fn read() -> Self {
        let mut fields = Self { pairs: Vec::new(), columns: OF_PACKETS.to_vec() };
        let lists: BTreeMap<&str, &str> = TEXT
            .lines()
            .filter_map(|line| line.strip_prefix('@'))
            .map(|line| line.split_once(' ').expect("a list has a name and words"))
            .collect();
        let mut protocol = "";
        for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '@'])) {
            if let Some(name) = line.strip_prefix('[') {
                protocol = name.trim_end_matches(']');
            } else {
                let pair = fields.pair(line, protocol, &lists);
                fields.pairs.push(pair);
            }
        }
        fields
    }

    fn column(&mut self, name: &'static str) -> usize {
        self.columns.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.columns.push(name);
            self.columns.len() - 1
        })
    }

    fn test(&mut self, text: &'static str) -> Test {
        let (name, values) = text.split_once(':').map_or((text, None), |(name, values)| (name, Some(values)));
        let absent = values == Some("");
        let values =
            values.into_iter().flat_map(|values| values.split(',')).filter(|value| !value.is_empty());
        Test { column: self.column(name), values: values.collect(), absent }
    }

    fn pair(
        &mut self,
        line: &'static str,
        protocol: &'static str,
        lists: &BTreeMap<&str, &'static str>,
    ) -> Pair {
        let mut words = line.split_whitespace();
        let (name, theirs) = (words.next().expect("a field"), words.next().expect("tshark's field"));
        let tables = name.split('&').map(|of_table| {
            let (table, fields) = of_table.split_once('.').expect("a table and a field");
            (table, fields.split('+').map(|path| path.split('.').collect()).collect())
        });
        let mut pair = Pair {
            protocol,
            name,
            theirs,
            tables: tables.collect(),
            columns: theirs.split('|').map(|name| self.column(name)).collect(),
            within: Vec::new(),
            not: Vec::new(),
            when: Vec::new(),
            beside: None,
            records: None,
            kind: As::Text,
            words: BTreeMap::new(),
            port: None,
            listed: false,
            once: false,
            first: false,
        };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "in" => pair.within = value.split(',').collect(),
                "not" => pair.not = value.split(',').collect(),
                "when" => pair.when = value.split('|').map(|test| self.test(test)).collect(),
                "beside" => pair.beside = Some(self.test(value)),
                "if" => {
                    let (field, values) = value.split_once(':').expect("a field and its values");
                    pair.records =
                        Some((field, values.split(',').filter(|value| !value.is_empty()).collect()));
                }
                "as" => pair.kind = kind(value),
                "words" => {
                    let list = value.strip_prefix('@').map_or(value, |name| lists[name]);
                    pair.words =
                        list.split(',').map(|word| word.split_once(':').expect("two words")).collect();
                }
                "port" => pair.port = Some(value.parse().expect("a port")),
                "listed" => pair.listed = true,
                "once" => pair.once = true,
                "first" => pair.first = true,
                _ => panic!("fields.txt: no word {key}"),
            }
        }
        pair
    }
}
