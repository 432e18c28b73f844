//! The search with its tries is compared with a plain one that tries everything.

use proptest::prelude::*;
use weir_detect::{
    Amount, BufferTests, Content, Group, KEYWORDS, Lists, Memory, NoSources, Rule, Test, Transform, Verdict,
    parse_rule, verify,
};

fn rule(options: &str) -> Rule {
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &NoSources).expect(&text).rule
}

fn verdict(rule: &Rule, bytes: &[u8]) -> Verdict {
    let mut memory = Memory::default();
    memory.begin(rule.variables.len());
    let decoded = rule.buffers.iter().find(|of| of.buffer.name == "base64_data");
    verify(&rule.buffers[0], bytes, decoded, &mut memory)
}

fn holds(options: &str, bytes: &[u8]) -> bool {
    verdict(&rule(options), bytes) == Verdict::Yes
}

/// All places of a literal that its modifiers allow, by looking at each byte.
fn places(content: &Content, bytes: &[u8], last: usize) -> Vec<usize> {
    let amount = |amount: Option<Amount>| match amount {
        Some(Amount::Is(is)) => Some(is),
        _ => None,
    };
    let equal = |part: &[u8]| match content.ignores_case {
        true => part.eq_ignore_ascii_case(&content.bytes),
        false => *part == *content.bytes,
    };
    let size = content.bytes.len();
    let is_place = |at: &usize| {
        let (first, end) = (*at as i64, (at + size) as i64);
        let relative = last as i64 + amount(content.distance).unwrap_or(0);
        equal(&bytes[*at..at + size])
            && (!content.is_at_start || *at == 0)
            && (!content.is_at_end || at + size == bytes.len())
            && (!content.is_relative() || first >= relative)
            && amount(content.within).is_none_or(|within| end <= relative + within)
            && first >= amount(content.offset).unwrap_or(0)
            && amount(content.depth).is_none_or(|depth| end <= amount(content.offset).unwrap_or(0) + depth)
    };
    (0..=bytes.len().saturating_sub(size)).filter(|at| at + size <= bytes.len()).filter(is_place).collect()
}

/// Whether the tests hold for some choice of places.
fn plainly_holds(tests: &[Test], bytes: &[u8], last: usize) -> bool {
    let [Test::Content(content), rest @ ..] = tests else { return tests.is_empty() };
    let places = places(content, bytes, last);
    if content.is_negated {
        return places.is_empty() && plainly_holds(rest, bytes, last);
    }
    places.into_iter().any(|at| plainly_holds(rest, bytes, at + content.bytes.len()))
}

fn content() -> impl Strategy<Value = String> {
    let place = prop_oneof![
        4 => Just(String::new()),
        1 => (0..6_i64).prop_map(|offset| format!(" offset:{offset};")),
        1 => (0..6_i64, 2..8_i64).prop_map(|(offset, depth)| format!(" offset:{offset}; depth:{depth};")),
        3 => (-3..5_i64).prop_map(|distance| format!(" distance:{distance};")),
        3 => (-3..5_i64, 2..7_i64).prop_map(|(distance, within)| format!(" distance:{distance}; within:{within};")),
        2 => (2..7_i64).prop_map(|within| format!(" within:{within};")),
        1 => Just(" endswith;".to_owned()),
    ];
    (
        "[ab]{1,2}",
        place,
        prop_oneof![5 => Just(""), 1 => Just("!")],
        prop_oneof![3 => Just(""), 1 => Just(" nocase;")],
    )
        .prop_map(|(literal, place, not, case)| format!("content:{not}\"{literal}\";{place}{case} "))
}

/// The changes of buffers in the examples of all keywords.
fn transforms() -> Vec<Transform> {
    let examples = KEYWORDS.iter().filter(|keyword| keyword.group == Group::Transform);
    let examples: Vec<&str> = examples.flat_map(|keyword| keyword.accepted.iter().copied()).collect();
    assert!(examples.len() >= 18, "each change has an example");
    examples.into_iter().flat_map(|example| rule(example).buffers).flat_map(|of| of.transforms).collect()
}

fn expression() -> impl Strategy<Value = String> {
    let parts = "(a|b|ab?|[ab]A|a+b|b*){1,3}";
    (prop_oneof![5 => Just(""), 1 => Just("!")], parts, prop_oneof![3 => Just("R"), 1 => Just("")])
        .prop_map(|(not, expression, letter)| format!("pcre:{not}\"/{expression}/{letter}\"; "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn the_search_is_what_trying_everything_gives(
        contents in proptest::collection::vec(content(), 1..5),
        bytes in "[abA]{0,14}",
    ) {
        let rule = rule(&contents.concat());
        let of: &BufferTests = &rule.buffers[0];
        let is = verdict(&rule, bytes.as_bytes());
        prop_assert_ne!(is, Verdict::GaveUp);
        prop_assert_eq!(is == Verdict::Yes, plainly_holds(&of.tests, bytes.as_bytes(), 0));
    }

    #[test]
    fn what_is_known_of_expressions_changes_nothing(
        tests in proptest::collection::vec(prop_oneof![content(), expression()], 2..6),
        bytes in "[abA]{0,20}",
    ) {
        let rule = |text: &str| {
            let text = format!("alert tcp any any -> any any ({text} sid:1;)");
            parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &NoSources).map(|parsed| parsed.rule)
        };
        // The border of a word, or none, is at every place: what is before a place counts, and nothing is known of it.
        let with_borders = tests.concat().replace("pcre:\"/", "pcre:\"/(?:\\b|\\B)").replace("pcre:!\"/", "pcre:!\"/(?:\\b|\\B)");
        if let (Ok(rule), Ok(other)) = (rule(&tests.concat()), rule(&with_borders)) {
            let (one, other) = (verdict(&rule, bytes.as_bytes()), verdict(&other, bytes.as_bytes()));
            prop_assert_eq!(one, other, "{}", tests.concat());
        }
    }

    #[test]
    fn any_changes_of_any_bytes_are_bounded(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        chosen in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let transforms = transforms();
        let chosen: Vec<Transform> = chosen.iter().map(|index| index.get(&transforms).clone()).collect();
        let changed = Transform::all(&chosen, &bytes);
        // A bomb of gzip is cut at its limit, a checksum has at most 32 bytes, and a prefix adds one.
        prop_assert!(changed.len() <= (bytes.len() + chosen.len()).max(1 << 20));
    }

    #[test]
    fn nothing_panics_on_any_numbers(
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        size in 1..8_u8, offset in -50..50_i32, multiplier in 1..65_535_u32, post in -60_000..60_000_i32,
    ) {
        for options in [
            format!("content:\"a\"; byte_jump:{size},{offset},relative,multiplier {multiplier},post_offset {post}; isdataat:1,relative;"),
            format!("byte_test:{size},>,{multiplier},{offset},little;"),
            format!("byte_extract:{size},{offset},n,multiplier {multiplier}; content:\"a\"; distance:n; within:n;"),
            format!("byte_math:bytes {size},offset {offset},oper <<,rvalue 40,result n; content:\"a\"; offset:n; depth:n;"),
        ] {
            // A depth that is a variable may be shorter than its content.
            verdict(&rule(&options), &bytes);
        }
    }
}

#[test]
fn relative_tests_try_the_next_match() {
    // The first A has no B at its place; the second has.
    assert!(holds("content:\"A\"; content:\"B\"; distance:1; within:1;", b"A.. A.B"));
    assert!(!holds("content:\"A\"; content:\"B\"; distance:1; within:1;", b"A.. A..B"));
    assert!(holds("content:\"A\"; pcre:\"/^.B/R\";", b"A.. A.B"));
    assert!(holds("content:\"A\"; byte_test:1,=,5,0,relative;", b"A\x01A\x05"));
    assert!(holds("pcre:\"/A/\"; content:\"B\"; within:1;", b"AxAB"));
    assert!(holds("content:\"A\"; isdataat:!1,relative;", b"AxA"));
    assert!(holds("content:\"A\"; content:!\"B\"; within:1;", b"ABAC"));
    assert!(!holds("content:\"A\"; content:!\"B\"; within:1;", b"ABAB"));
}

#[test]
fn numbers_in_buffers() {
    assert!(holds("byte_test:2,=,0x0102,0;", b"\x01\x02"));
    assert!(holds("byte_test:2,=,0x0201,0,little;", b"\x01\x02"));
    assert!(holds("byte_test:1,&,0x80,0;", b"\x81") && !holds("byte_test:1,!&,0x80,0;", b"\x81"));
    assert!(holds("byte_test:1,=,0x8,0,bitmask 0xf0;", b"\x81"));
    assert!(
        holds("byte_test:3,>,99,0,string,dec;", b"100x") && !holds("byte_test:3,>,99,0,string,dec;", b"xyz")
    );
    assert!(holds("byte_test:0,=,450000,0,string,dec;", b"450000"));
    assert!(holds("byte_test:4,=,255,0,string,hex;", b"0xff"));
    assert!(holds("byte_jump:1,0; content:\"B\"; within:1;", b"\x02..B"));
    assert!(holds("byte_jump:1,0,from_beginning; content:\"B\"; within:1;", b"\x03..B"));
    assert!(holds("byte_jump:1,0,align; content:\"B\"; within:1;", b"\x01....B"));
    assert!(holds("byte_jump:0,0,from_end,post_offset -1; content:\"B\"; within:1;", b"xxxB"));
    assert!(!holds("byte_jump:1,0;", b"\xff..B"));
    assert!(holds("byte_extract:1,0,n; content:\"B\"; offset:n; depth:1;", b"\x03..B"));
    assert!(holds("byte_math:bytes 1,offset 0,oper *,rvalue 2,result n; isdataat:n;", b"\x01..B"));
    assert!(!holds("byte_math:bytes 1,offset 0,oper /,rvalue 2,result n; isdataat:!1;", b""));
    // What follows counts from the end of the number.
    assert!(holds(
        "content:\"A\"; byte_extract:1,0,n,relative; content:\"B\"; distance:n; within:1;",
        b"A\x02..B"
    ));
    assert!(!holds(
        "content:\"A\"; byte_extract:1,0,n,relative; content:\"B\"; distance:n; within:1;",
        b"A\x02.B."
    ));
    let math = "byte_math:bytes 1,offset 1,oper +,rvalue 1,result n; content:\"B\"; distance:n; within:1;";
    assert!(holds(math, b".\x00.B") && !holds(math, b".\x00B."));
    // Zero bytes that a variable asks for are no number.
    let jump = "byte_extract:1,0,n; byte_jump:n,0,relative; content:\"B\"; within:1;";
    assert!(holds(jump, b"\x00B") && !holds(jump, b"\x00.B"));
}

#[test]
fn ends_and_sizes() {
    assert!(holds("content:\"ab\"; endswith;", b"ab.ab") && !holds("content:\"ab\"; endswith;", b"ab."));
    assert!(
        holds("content:\"ab\"; startswith; endswith;", b"ab") && !holds("content:\"b\"; startswith;", b"ab")
    );
    assert!(holds("isdataat:1;", b"ab") && !holds("isdataat:2;", b"ab") && holds("isdataat:!2;", b"ab"));
    assert!(
        holds("http.uri; bsize:2; content:\"a\";", b"ab")
            && !holds("http.uri; bsize:>2; content:\"a\";", b"ab")
    );
}

#[test]
fn base64_is_decoded_for_its_own_tests() {
    let options = "content:\"x=\"; base64_decode:relative; base64_data; content:\"this\"; content:\"test\"; distance:3;";
    assert!(holds(options, b"a x=dGhpc2lzYXRlc3Q="));
    assert!(!holds(options, b"a x=dGhpc2lz"));
    assert!(!holds(options, b"a x=!"));
}

#[test]
fn a_search_without_end_gives_up() {
    let options: String = (0..12).map(|_| "content:\"a\"; distance:0; ").collect();
    let rule = rule(&format!("{options}content:\"b\"; within:1;"));
    assert_eq!(verdict(&rule, &[b'a'; 200]), Verdict::GaveUp);
    assert_eq!(verdict(&rule, b"aaaaaaaaaaaab"), Verdict::Yes);
}
