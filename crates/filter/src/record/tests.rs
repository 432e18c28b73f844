use super::*;
use crate::fields::Number;
use crate::fields::tests::{Known, row};

struct Of<'r>(&'static str, &'r crate::fields::tests::Row);

impl RecordRow for Of<'_> {
    fn endpoints(&self) -> &FlowEndpoints {
        &self.1.endpoints
    }

    fn table(&self) -> &'static str {
        self.0
    }

    fn values(&self, field: &FieldInfo, each: &mut dyn FnMut(FieldValue<'_>)) {
        assert_eq!(field.table, self.0, "a field of another table is never asked for");
        self.1.of(field).for_each(|value| each(*value));
    }
}

fn compile(text: &str) -> Result<RecordTest, FilterError> {
    RecordTest::compile(text, &Options { fields: Some(&Known), ..Options::default() })
}

#[test]
fn a_record_is_tested_by_itself() {
    let row = row();
    for (text, dns, http, smtp) in [
        ("", true, true, true),
        ("host 10.0.0.7", true, true, true),
        ("host 10.0.0.8", false, false, false),
        ("dns.rcode_name = NXDOMAIN", true, false, false),
        ("not dns.rcode_name = NXDOMAIN", false, true, true),
        ("not dns.rcode_name = NOERROR", true, true, true),
        ("dns.rcode_name = NXDOMAIN and flow.client = 10.0.0.0/8", true, false, false),
        ("dns.rcode_name = NXDOMAIN and flow.client != 10.0.0.0/8", false, false, false),
        ("flow.server_port = 53 and flow.server != 10.0.0.0/8", true, true, true),
        ("dns.rcode_name = NXDOMAIN and flow.server = 10.0.0.0/8", false, false, false),
        ("dns.query under example.org or http.status_code = 404", true, true, false),
        ("http.status_code = 404 and not dns.query = a", false, true, false),
        ("udp and (dns.query or http.status_code > 500)", true, false, false),
        ("dns.rtt > 1s or udp port 53", true, true, true),
        ("dns.answers in (a.example, b.example)", true, false, false),
        ("not (dns.query or http.status_code)", false, false, true),
        ("dns", true, false, false),
        ("not dns", false, true, true),
        ("dns or http.status_code = 404", true, true, false),
        ("udp and (http or dns)", true, true, false),
        ("dns and dns.rcode_name = NOERROR", false, false, false),
        ("port domain or 80", true, true, true),
    ] {
        let test = compile(text).unwrap_or_else(|error| panic!("{error}"));
        for (table, holds) in [("dns", dns), ("http", http), ("smtp", smtp)] {
            assert_eq!(test.holds(&Of(table, &row)), holds, "{text} over {table}");
            assert!(!holds || test.tables().have(table), "{text}: {:?}", test.tables());
        }
    }
}

#[test]
fn the_tables_of_a_test_are_known() {
    for (text, tables) in [
        ("", None),
        ("net 10.0.0.0/8", None),
        ("not dns.query = a", None),
        ("dns.query = a or udp", None),
        ("dns.query = a", Some(vec!["dns"])),
        ("dns", Some(vec!["dns"])),
        ("dns or x509.is_ca", Some(vec!["dns", "x509"])),
        ("dns.query = a and not http.host = b", Some(vec!["dns"])),
        ("http.host = a or dns.query = a and tcp", Some(vec!["dns", "http"])),
        ("http.host = a and not http.host", Some(vec!["http"])),
    ] {
        let expected = tables.map_or(Tables::All, Tables::Only);
        assert_eq!(compile(text).unwrap().tables(), expected, "{text}");
    }
}

#[test]
fn what_no_record_decides_is_an_error_with_its_place() {
    for (text, place, says) in [
        ("dns.query = a and len > 100", "len > 100", "level = \"packet\""),
        ("tcp[13] & 2 != 0 or dns.query", "tcp[13] & 2 != 0", "decided per packet"),
        ("dns.query and flow.bytes > 10M", "flow.bytes", "when a flow has ended"),
        ("dns.query = a and http.host = b", "http.host = b", "a record of `dns` has no fields of `http`"),
        ("udp and dns.query = a and (tcp or dns.rtt) and http.host", "http.host", "no record satisfies"),
        ("dns.qury = a", "dns.qury", "did you mean `dns.query`?"),
        ("tcp prt 80", "prt", "port"),
    ] {
        let error = compile(text).unwrap_err();
        assert_eq!(text.get(error.span.clone()), Some(place), "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.to_string().contains('^'), "{error}");
    }
}

#[test]
fn other_levels_name_the_level_that_a_field_needs() {
    let with_fields = Options { fields: Some(&Known), ..Options::default() };
    for options in [&with_fields, &Options::default()] {
        let packet = crate::Filter::compile("tcp and dns.query = a", options).unwrap_err();
        assert_eq!(packet.kind, ErrorKind::Level);
        assert!(
            packet.message.contains("`dns.query` is a field of records: use level = \"record\""),
            "{packet}"
        );
        let flow = FlowTest::of_key("tcp and dns.query = a", options).unwrap_err();
        assert_eq!((flow.kind, flow.span.clone()), (ErrorKind::Level, 8..17));
        assert_eq!(flow.message, packet.message);
        let ended = FlowTest::of_key("flow.bytes > 1", options).unwrap_err();
        assert!(ended.message.contains("when a flow has ended"), "{ended}");
    }
    assert!(FlowTest::of_key("src net 10.0.0.0/8 and tcp port 80", &with_fields).is_ok());
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A name of a few labels.
    fn name(&mut self) -> String {
        let labels = (0..1 + self.below(3)).map(|_| self.pick(&["a", "B", "ab", "example", "Org"]));
        labels.collect::<Vec<_>>().join(".")
    }

    fn leaf(&mut self) -> String {
        let names = ["dns.query", "dns.rcode_name", "dns.answers", "http.host"];
        let (field, quote) = (self.pick(&names), self.pick(&["\"", "'"]));
        let (name, other) = (self.name(), self.name());
        match self.below(14) {
            0 => "udp".to_owned(),
            1 => format!("flow.client = 10.0.0.{}/31", 2 * self.below(4)),
            2 => format!("http.status_code {} {}", self.pick(&["=", "!=", "<", ">="]), 200 + self.below(4)),
            3 => format!("dns.rtt {} 0.{}", self.pick(&["=", "!=", "<", ">="]), self.below(4)),
            4 => format!("x509.addresses in (10.0.0.0/30, 10.0.0.{})", self.below(9)),
            5 => format!("x509.is_ca = {}", self.pick(&["true", "false"])),
            6 => field.to_owned(),
            7 => format!("{field} ~ \"^{name}$\""),
            8 => format!("{field} {} ({name}, {quote}{other}{quote})", self.pick(&["in", "under"])),
            9 => format!("{field} {} @{}", self.pick(&["in", "under"]), self.pick(&["names", "long"])),
            _ => {
                let op = self.pick(&["=", "=", "!=", "<", ">=", "contains", "begins", "ends", "under"]);
                format!("{field} {op} {quote}{name}{quote}")
            }
        }
    }

    fn text(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 2 } else { 6 }) {
            0..=1 => self.leaf(),
            2 => format!("not ({})", self.text(depth - 1)),
            3 | 4 => format!("({}) and ({})", self.text(depth - 1), self.text(depth - 1)),
            _ => format!("({}) or ({})", self.text(depth - 1), self.text(depth - 1)),
        }
    }

    fn row(&mut self) -> crate::fields::tests::Row {
        let mut row = row();
        row.endpoints.address[0] = weir_wire::mapped([10, 0, 0, self.below(8) as u8]);
        row.endpoints.protocol = self.pick(&[6, 17]);
        row.values.entry("http.host").or_default();
        for (name, values) in &mut row.values {
            let count = if *name == "dns.answers" { self.below(4) } else { self.below(5).min(1) };
            let value = |random: &mut Self| match *name {
                "http.status_code" => FieldValue::Number(Number::Whole(200 + random.below(4) as i128)),
                "dns.rtt" => FieldValue::Number(Number::Real(random.below(4) as f64 / 10.0)),
                "x509.addresses" => {
                    let v4 = std::net::Ipv4Addr::new(10, 0, 0, random.below(9) as u8);
                    FieldValue::Address(v4.to_ipv6_mapped().to_bits())
                }
                "x509.is_ca" => FieldValue::Bool(random.below(2) == 0),
                _ => FieldValue::Text(random.name().leak().as_bytes()),
            };
            *values = (0..count).map(|_| value(self)).collect();
        }
        row
    }
}

#[test]
fn a_set_of_tests_is_each_test_alone() {
    let mut random = Random(16);
    let (mut matches, mut held, mut of_many) = (Matches::default(), 0, 0);
    for size in [0, 1, 2, 10, 100, 400, 400] {
        let mut tests = Vec::new();
        while tests.len() < size {
            let text = random.text(3);
            // Some join tests of two tables by `and`.
            tests.extend(compile(&text).ok().map(|test| (text, test)));
        }
        let set = RecordSet::new(tests.iter().map(|(_, test)| test));
        for _ in 0..300 {
            let (row, table) = (random.row(), random.pick(&["dns", "http", "x509", "smtp"]));
            let of = Of(table, &row);
            let together = set.matches(&of, &mut matches).to_vec();
            let alone: Vec<u32> =
                (0_u32..).zip(&tests).filter(|(_, (_, test))| test.holds(&of)).map(|(at, _)| at).collect();
            let differs = together.iter().find(|at| !alone.contains(at));
            let differs = differs.or(alone.iter().find(|at| !together.contains(at)));
            assert_eq!(together, alone, "{table}: {:?}", differs.map(|at| &tests[*at as usize].0));
            assert!(together.is_empty() || set.tables().have(table));
            held += together.len();
            of_many += usize::from(together.len() > 1 && together.len() < size);
        }
    }
    assert!(held > 50_000 && of_many > 1_000, "{held} {of_many}");
}

#[test]
fn numbers_of_records_begin_again() {
    let (row, test) = (row(), compile("dns.query and not dns.rcode_name = a").unwrap());
    let (set, mut matches) = (RecordSet::new([&test]), Matches::default());
    assert_eq!(set.matches(&Of("dns", &row), &mut matches), [0]);
    matches.record = u32::MAX - 1;
    for _ in 0..4 {
        assert_eq!(set.matches(&Of("dns", &row), &mut matches), [0]);
        assert!(set.matches(&Of("http", &row), &mut matches).is_empty());
    }
}
