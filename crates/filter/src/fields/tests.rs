use super::*;
use crate::ErrorKind;
use crate::{FlowEndpoints, FlowRow, FlowTest, Options};
use std::collections::BTreeMap;

/// A registry of a few tables.
pub(crate) struct Known;

static KNOWN: &[FieldInfo] = &[
    FieldInfo { table: "dns", name: "query", kind: FieldKind::Text, place: 0 },
    FieldInfo { table: "dns", name: "rcode_name", kind: FieldKind::Text, place: 1 },
    FieldInfo { table: "dns", name: "answers", kind: FieldKind::Text, place: 2 },
    FieldInfo { table: "dns", name: "rtt", kind: FieldKind::Duration, place: 3 },
    FieldInfo { table: "http", name: "status_code", kind: FieldKind::Number, place: 0 },
    FieldInfo { table: "http", name: "host", kind: FieldKind::Text, place: 1 },
    FieldInfo { table: "x509", name: "not_after", kind: FieldKind::Time, place: 0 },
    FieldInfo { table: "x509", name: "addresses", kind: FieldKind::Address, place: 1 },
    FieldInfo { table: "x509", name: "is_ca", kind: FieldKind::Bool, place: 2 },
    FieldInfo { table: "flow", name: "bytes", kind: FieldKind::Number, place: 0 },
    FieldInfo { table: "flow", name: "client", kind: FieldKind::Address, place: 1 },
    FieldInfo { table: "flow", name: "server", kind: FieldKind::Address, place: 2 },
    FieldInfo { table: "flow", name: "server_port", kind: FieldKind::Number, place: 3 },
];

impl Fields for Known {
    fn tables(&self) -> Vec<&'static str> {
        vec!["dns", "http", "x509", "flow"]
    }

    fn names(&self, table: &str) -> Vec<&'static str> {
        KNOWN.iter().filter(|field| field.table == table).map(|field| field.name).collect()
    }

    fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String> {
        if (table, name) == ("http", "password") {
            return Err("http.password is secret".to_owned());
        }
        Ok(KNOWN.iter().find(|field| (field.table, field.name) == (table, name)).copied())
    }

    fn time(&self, text: &str) -> Result<f64, String> {
        (text == "now").then_some(1_750_000_000.0).ok_or("a time such as `now`".to_owned())
    }

    fn list(&self, path: &str) -> Result<Vec<u8>, String> {
        match path {
            "names" => Ok(b"# bad names\n\nA.example\r\nb.example\n".to_vec()),
            "words" => Ok(b"x".to_vec()),
            "bad" => {
                let mut bytes = b"# numbers\n404\n".to_vec();
                (0..1_000_000).for_each(|_| bytes.extend_from_slice(b"x \xff\n"));
                bytes.extend_from_slice(b"  500\r\n");
                Ok(bytes)
            }
            "million" => {
                let names: Vec<String> = (0..1_000_000).map(|at| format!("n{at}.Example.org")).collect();
                Ok(names.join("\n").into_bytes())
            }
            "long" => {
                let names = (0..400).map(|at| format!("n{at}"));
                Ok(names
                    .chain(["a.b".to_owned(), "EXAMPLE".to_owned()])
                    .collect::<Vec<_>>()
                    .join("\n")
                    .into_bytes())
            }
            "addresses" => Ok(b"192.0.2.9\n10.0.0.0/8\n2001:db8::1\nnobody\n".to_vec()),
            _ => Err("no such file".to_owned()),
        }
    }
}

fn parse(text: &str) -> Result<FlowTest, FilterError> {
    FlowTest::parse(text, &Options { fields: Some(&Known), ..Options::default() })
}

/// A row with values of fields.
pub(crate) struct Row {
    pub endpoints: FlowEndpoints,
    pub values: BTreeMap<&'static str, Vec<FieldValue<'static>>>,
}

impl Row {
    /// The values of a field.
    pub fn of(&self, field: &FieldInfo) -> impl Iterator<Item = &FieldValue<'static>> {
        let name = format!("{}.{}", field.table, field.name);
        self.values.get(name.as_str()).into_iter().flatten()
    }
}

impl FlowRow for Row {
    fn endpoints(&self) -> &FlowEndpoints {
        &self.endpoints
    }

    fn field(&self, test: &FieldTest) -> bool {
        test.holds(self.of(&test.field).copied())
    }

    fn has_row(&self, _table: &str, test: &FlowTest) -> bool {
        test.holds(self)
    }
}

pub(crate) fn row() -> Row {
    let text = |text: &'static str| FieldValue::Text(text.as_bytes());
    let number = |number: f64| FieldValue::Number(Number::Real(number));
    let address = |text: &str| FieldValue::Address(Addresses::parse(text).unwrap().low);
    Row {
        endpoints: FlowEndpoints {
            address: [weir_wire::mapped([10, 0, 0, 7]), weir_wire::mapped([192, 0, 2, 9])],
            port: [40_000, 53],
            protocol: 17,
            vlan: 0,
        },
        values: BTreeMap::from([
            ("dns.query", vec![text("www.Example.org")]),
            ("dns.rcode_name", vec![text("NXDOMAIN")]),
            ("dns.answers", vec![text("192.0.2.1"), text("a.example")]),
            ("dns.rtt", vec![number(0.2)]),
            ("http.status_code", vec![FieldValue::Number(Number::Whole(404))]),
            ("x509.not_after", vec![number(1_600_000_000.5)]),
            ("x509.addresses", vec![address("10.0.0.7"), address("2001:db8::1")]),
            ("x509.is_ca", vec![FieldValue::Bool(false)]),
            ("flow.bytes", vec![FieldValue::Number(Number::Whole(i128::from(u64::MAX)))]),
        ]),
    }
}

#[test]
fn operators() {
    let row = row();
    for (text, holds) in [
        ("dns.rcode_name = nxdomain", true),
        ("dns.rcode_name == \"NXDOMAIN\"", true),
        ("dns.rcode_name = 'nxdomain'", false),
        ("dns.rcode_name != NOERROR", true),
        ("dns.query under example.org", true),
        ("dns.query under .example.org.", true),
        ("dns.query under ample.org", false),
        ("dns.query under www.example.org", true),
        ("dns.query under \"\"", true),
        ("dns.query contains EXAMPLE", true),
        ("dns.query contains 'EXAMPLE'", false),
        ("dns.query begins www. and dns.query ends .ORG", true),
        ("dns.query ends www.www.www.www.example.org", false),
        ("dns.query ~ \"^www\\.[a-z]+\\.org$\"", true),
        ("dns.query ~ '^www\\.[a-z]+\\.org$'", false),
        ("dns.query in (a, \"www.example.ORG\")", true),
        ("dns.query in @names", false),
        ("dns.query under @names", false),
        ("dns.answers under @names", true),
        ("dns.query under (example.net, .Example.org.)", true),
        ("dns.query under (ample.org, w.example.org)", false),
        ("dns.query under ('example.org', www.example.orga)", false),
        ("dns.query under ('Example.org')", true),
        ("dns.query under (org)", true),
        ("dns.answers in @names", true),
        ("dns.answers = 192.0.2.1", true),
        // None of the list is equal.
        ("dns.answers != 192.0.2.1", false),
        ("dns.answers != other", true),
        ("dns.query > w and dns.query < x", true),
        ("dns.rtt >= 200ms and dns.rtt <= 0.2 and dns.rtt < 1s", true),
        ("http.status_code >= 400 and http.status_code < 500", true),
        ("http.status_code in (200, 404)", true),
        ("http.status_code in (200,500)", false),
        ("http.status_code=404", true),
        ("http.status_code = 4.04", false),
        ("http.status_code begins 4", true),
        ("flow.bytes > 18446744073709551614", true),
        ("flow.bytes > 18446744073709551615", false),
        ("flow.bytes > 1G and flow.bytes > 1Gi", true),
        ("x509.not_after < now", true),
        ("x509.not_after > 1600000000", true),
        ("x509.addresses = 10.0.0.0/8", true),
        ("x509.addresses in (2001:db8::/32, 192.0.2.0/24)", true),
        ("x509.addresses in (2001:db9::/32, 11.0.0.0/8)", false),
        ("x509.addresses < 10.0.0.0", false),
        ("x509.is_ca = false and not x509.is_ca = yes", true),
        // A field alone has a value; without one no operator holds.
        ("dns.query", true),
        ("http.host", false),
        ("http.host != a", false),
        ("not http.host = a", true),
        ("host 10.0.0.7 and udp port 53 and dns.query", true),
        ("(host 10.0.0.8 or dns.query contains x) and udp", true),
        ("host 10.0.0.8 or 10.0.0.7 and dns.rtt > 1s", false),
    ] {
        let test = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(test.holds(&row), holds, "{text}: {test:?}");
        assert_eq!(test.over("dns").holds(&row), holds, "{text}");
    }
}

#[test]
fn what_is_wrong_has_its_place() {
    for (text, place, says) in [
        ("dns.qury = a", "dns.qury", "did you mean `dns.query`?"),
        ("dns.rcode = 1", "dns.rcode", "`dns.rcode_name`"),
        ("dsn.query = a", "dsn.query", "no table `dsn`; did you mean `dns`?"),
        ("dns.host = a", "dns.host", "did you mean `http.host`?"),
        ("dns.zzzzzzzz = a", "dns.zzzzzzzz", "has no field `zzzzzzzz`"),
        ("http.password = a", "http.password", "secret"),
        ("http.status_code = abc", "abc", "expected a number"),
        ("http.status_code = ", "", "expected a value"),
        ("tcp and dns.rtt > 5x", "5x", "a length of time"),
        ("x509.not_after < yesterdy", "yesterdy", "a time"),
        ("x509.addresses = 10.0.0.0/33", "10.0.0.0/33", "an address or a network"),
        ("x509.is_ca < true", "<", "no order"),
        ("x509.is_ca = maybe", "maybe", "`true` or `false`"),
        ("dns.query ~ \"(\"", "\"(\"", "regular expression"),
        ("dns.query = \"a", "\"a", "no closing \""),
        ("dns.query in (a, b", "", "`,` or `)`"),
        ("dns.query in a", "a", "a list such as"),
        ("dns.query in @nothing", "nothing", "no such file"),
        ("http.status_code in @words", "words", "words: left out, as they are not numbers: line 1"),
        ("dns.query under (a.example, \"\")", "\"\"", "is not a domain"),
        ("dns.query = a b", "b", "expected `and`"),
        ("dns.query = a and tcp prot 80", "prot", "port"),
        ("len > 100 and dns.query = a", "len > 100", "only packets have"),
        ("ether host 1:2:3:4:5:6 or dns.query", "1:2:3:4:5:6", "only packets have"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(text.get(error.span.clone()), Some(place), "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
}

#[test]
fn packets_have_no_fields() {
    for text in ["dns.query = a", "tcp and flow.bytes > 1"] {
        let error = crate::Filter::compile(text, &Options::default()).unwrap_err();
        assert!(error.kind == ErrorKind::Level, "{error}");
        let fields = Options { fields: Some(&Known), ..Options::default() };
        assert!(
            crate::Filter::compile(text, &fields).is_err(),
            "a packet expression with a registry at hand"
        );
    }
    // A host may have the name of a field.
    let test = parse("host 10.0.0.7 or 10.0.0.8").unwrap();
    assert!(test.holds(&row()));
    assert!(parse("host dns.query").is_err(), "an unknown host");
}

#[test]
fn tests_of_one_table_are_about_one_row() {
    let table = |text: &str| format!("{:?}", parse(text).unwrap().over("flow"));
    let both = table("dns.query = a and udp and dns.rtt > 1");
    assert_eq!(both.matches("Row(").count(), 1, "{both}");
    let apart = table("dns.query = a and not dns.rtt > 1");
    assert_eq!(apart.matches("Row(").count(), 2, "{apart}");
    let either = table("(dns.query = a or dns.rtt > 1) and dns.rcode_name = b and http.host = c");
    assert_eq!(either.matches("Row(").count(), 2, "{either}");
    assert_eq!(table("flow.bytes > 1 and tcp").matches("Row(").count(), 0);
}

#[test]
fn long_and_deep_and_exploding_expressions_end() {
    let long = vec!["dns.query = abcdefgh"; 3000].join(" or ");
    assert!(long.len() > 64 << 10);
    assert!(!parse(&long).unwrap().over("flow").holds(&row()));
    let list = format!("dns.query in ({} \"www.example.org\")", "a, ".repeat(20_000));
    assert!(parse(&list).unwrap().holds(&row()));
    for deep in [
        format!("{}dns.query = a{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("{}dns.query = a", "not ".repeat(10_000)),
    ] {
        let error = parse(&deep).unwrap_err();
        assert!(error.message.contains("levels of nesting"), "{error}");
    }
    // `a or b and c` is `(a or b) and c`: each change is a level.
    let changes = |pairs: usize| vec!["dns.query = abcdefgh or udp and"; pairs].join(" ") + " tcp";
    assert!(parse(&changes(100)).is_ok());
    for many in
        [changes(2500), changes(100_000), format!("{}{}{}", "(".repeat(100), changes(120), ")".repeat(100))]
    {
        match parse(&many) {
            Ok(test) => assert!(!test.over("flow").holds(&row())),
            Err(error) => assert!(error.message.contains("changes between"), "{}", error.message),
        }
    }
    let mut nested = changes(20);
    for _ in 0..20 {
        nested = format!("({nested}) or udp and {}", changes(20));
    }
    assert!(parse(&nested).unwrap_err().message.contains("changes between"));
    for (pattern, says) in [
        ("(((a{100}){100}){100}){100}".to_owned(), "bytes when it is compiled"),
        (format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000)), "regular expression"),
        ("a".repeat(60_000), "bytes when it is compiled"),
        ("a".repeat(1_000), ""),
    ] {
        match parse(&format!("dns.query ~ \"{pattern}\"")) {
            Ok(test) => assert!(says.is_empty() && !test.holds(&row()), "{says}"),
            Err(error) => assert!(!says.is_empty() && error.message.contains(says), "{}", error.message),
        }
    }
    // Backtracking engines take exponential time for this.
    let test = parse("dns.query ~ \"^(a|a)*(a|a)*(a|a)*$\"").unwrap();
    let FlowTest::Field(test) = test else { panic!("{test:?}") };
    let text = format!("{}!", "a".repeat(100_000));
    assert!(!test.holds([FieldValue::Text(text.as_bytes())]));
}

#[test]
fn quotes_and_backslashes() {
    for (text, value) in [
        (r#"dns.query = "a\"b""#, "a\"b"),
        (r#"dns.query = "a\\""#, "a\\"),
        (r#"dns.query = "a\nb""#, "a\\nb"),
        (r#"dns.query = "a b, (c) and d""#, "A B, (C) AND D"),
        (r#"dns.query ~ "^a\\b$""#, "a\\b"),
    ] {
        let FlowTest::Field(test) = parse(text).unwrap() else { panic!("{text}") };
        assert!(test.holds([FieldValue::Text(value.as_bytes())]), "{text}");
    }
}

#[test]
fn lists_in_files_are_long_and_have_bad_lines() {
    let test = |text: &str| match parse(text).unwrap() {
        FlowTest::Field(test) => test,
        other => panic!("{other:?}"),
    };
    let bad = test("http.status_code in @bad");
    let note = bad.note().unwrap();
    assert!(note.starts_with("bad: left out, as they are not numbers: lines 3, 4, "), "{note}");
    assert!(note.ends_with(", 12 and 999990 more"), "{note}");
    assert!(note.len() < 500, "{note}");
    for (number, holds) in [(404, true), (500, true), (403, false)] {
        assert_eq!(bad.holds([FieldValue::Number(Number::Whole(number))]), holds);
    }
    let (names, below) = (test("dns.query in @million"), test("dns.query under @million"));
    assert_eq!((names.note(), below.note()), (None, None));
    for (name, is_in, is_under) in [
        ("N999999.example.ORG", true, true),
        ("n0.example.org", true, true),
        ("www.n77.example.org.", false, true),
        ("n1000000.example.org", false, false),
        ("xn7.example.org", false, false),
        ("", false, false),
    ] {
        let value = || [FieldValue::Text(name.as_bytes())];
        assert_eq!((names.holds(value()), below.holds(value())), (is_in, is_under), "{name}");
    }
    // A value of many labels is not hashed from each of them on.
    let long = "a.".repeat(1 << 20) + "n5.example.org";
    assert!(below.holds([FieldValue::Text(long.as_bytes())]));
    let addresses = test("x509.addresses in @addresses");
    assert!(addresses.note().unwrap().ends_with(": line 4"));
    for (address, holds) in
        [("192.0.2.9", true), ("10.9.8.7", true), ("192.0.2.8", false), ("2001:db8::1", true)]
    {
        let address = Addresses::parse(address).unwrap().low;
        assert_eq!(addresses.holds([FieldValue::Address(address)]), holds);
    }
}

#[test]
fn parts_are_found_as_by_comparing_everywhere() {
    let mut state = 7_u32;
    let mut letter = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"aAb"[(state >> 16) as usize % 3]
    };
    for round in 0..20_000 {
        let value: Vec<u8> = (0..round % 14).map(|_| letter()).collect();
        let part: Vec<u8> = (0..round % 5).map(|_| letter()).collect();
        let text = String::from_utf8(part.clone()).unwrap();
        for is_exact in [false, true] {
            let fold = |bytes: &[u8]| if is_exact { bytes.to_vec() } else { bytes.to_ascii_lowercase() };
            let (low, wanted) = (fold(&value), fold(&part));
            let truth = wanted.is_empty() || low.windows(wanted.len()).any(|window| window == wanted);
            assert_eq!(Search::new(Text::new(&text, is_exact)).is_in(&value), truth, "{text} in {value:?}");
        }
    }
    // Comparing everywhere would take a thousand million steps.
    let part = Search::new(Text::new(&("a".repeat(30_000) + "b"), false));
    assert!(!part.is_in("A".repeat(1 << 20).as_bytes()));
}
