//! Each buffer and each number of messages: it is found where it is, and missed by one byte or one bound.

use crate::watch::{Watch, set_of};
use weir_detect::{BUFFERS, BufferOrigin, NUMBERS, Program, RuleBuffer, Sides};
use weir_wire::Direction::{self, Forward, Reverse};

/// The sides whose messages have a buffer.
fn sides(of: Sides) -> &'static [Direction] {
    match of {
        Sides::ToServer => &[Forward],
        Sides::ToClient => &[Reverse],
        Sides::Both => &[Forward, Reverse],
    }
}

/// Whether nothing reads a buffer yet: rules with it are refused by name.
fn is_unread(name: &str) -> bool {
    let exists = weir_proto::buffers().chain(weir_proto::numbers()).any(|buffer| buffer.name == name);
    if !exists {
        let set = set_of(&format!("alert ip any any -> any any ({name}; content:\"a\"; sid:1;)"));
        let program = Program::new(&set, &[]);
        assert!(program.unread.len() == 1 && program.rules.is_empty(), "{name}");
    }
    !exists
}

/// How often a rule matches a value of a buffer, in pieces if the buffer is one that comes so.
fn found(
    rule: &str,
    buffer: &RuleBuffer,
    protocol: &str,
    side: Direction,
    value: &[u8],
    cut: usize,
) -> usize {
    let mut watch = Watch::new(rule).named(protocol);
    let name = match buffer.name {
        "file.data" if protocol == "http" => "http.response_body",
        name => name,
    };
    let comes_in_pieces = weir_proto::buffers().any(|known| known.name == name && known.is_stream);
    if comes_in_pieces {
        value.chunks(cut.max(1)).for_each(|piece| _ = watch.buffer(name, side, piece));
        watch.buffer(name, side, b"");
    } else {
        watch.buffer(name, side, value);
    }
    watch.complete(side).end().matches().len()
}

#[test]
fn each_buffer_of_messages_is_searched_and_missed_by_a_byte() {
    let mut seen = 0;
    let of_messages = BUFFERS.iter().filter(|buffer| buffer.origin == BufferOrigin::Transaction);
    for buffer in of_messages.filter(|buffer| !is_unread(buffer.name)) {
        let ways = std::iter::once(buffer.name).chain(buffer.old_names.iter().copied());
        let mut forms: Vec<String> = ways.map(|name| format!("{name}; content:\"needle\";")).collect();
        forms.extend(buffer.modifier.map(|name| format!("content:\"needle\"; {name};")));
        forms.push(format!("{}; content:\"a \"; content:\"needle\"; distance:0; within:6;", buffer.name));
        forms.push(format!("{}; content:\"a needle\"; bsize:8;", buffer.name));
        forms.push(format!("{}; content:\"needle\"; offset:2; depth:6;", buffer.name));
        forms.push(format!("{}; content:\"a\"; startswith; content:\"needle\"; endswith;", buffer.name));
        forms.push(format!("{}; pcre:\"/^a nee[d]le$/\";", buffer.name));
        for options in forms {
            let rule = format!("alert ip any any -> any any ({options} sid:1;)");
            for protocol in buffer.protocols {
                for side in sides(buffer.sides) {
                    // Bodies of both sides of HTTP have names of their own.
                    if buffer.name == "file.data" && *protocol == "http" && *side == Forward {
                        continue;
                    }
                    let value = b"a needle";
                    for cut in 1..=value.len() {
                        assert_eq!(
                            found(&rule, buffer, protocol, *side, value, cut),
                            1,
                            "{rule} {protocol} {side:?}"
                        );
                    }
                    for miss in [&b"a needlf"[..], b"a needl", b"b eedle", b"a\0needlE", b"needl", b"e"] {
                        assert_eq!(
                            found(&rule, buffer, protocol, *side, miss, 1),
                            0,
                            "{rule} {protocol} {side:?} {miss:?}"
                        );
                    }
                    if !options.starts_with("content") && options.contains("bsize") {
                        assert_eq!(
                            found(&rule, buffer, protocol, *side, b"a needle.", 3),
                            0,
                            "{rule} {protocol}"
                        );
                    }
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 1_000, "{seen}");
}

#[test]
fn each_number_of_messages_is_compared_and_missed_by_one() {
    let mut seen = 0;
    for row in NUMBERS.iter().filter(|row| !is_unread_number(row.buffer.name)) {
        let middle = row.greatest / 2;
        let mut tests = vec![
            (format!("{middle}"), middle, middle + 1),
            (format!(">{middle}"), middle + 1, middle),
            (format!("<{}", middle + 1), middle, middle + 1),
            (format!(">={}", middle + 1), middle + 1, middle),
            (format!("<={middle}"), middle, middle + 1),
            (format!("!{middle}"), middle + 1, middle),
            (format!("{}", row.greatest), row.greatest, row.greatest - 1),
        ];
        tests.extend(row.words.iter().map(|(word, number)| ((*word).to_owned(), *number, number + 1)));
        let names = std::iter::once(row.buffer.name).chain(row.buffer.old_names.iter().copied());
        for name in names {
            for (test, hit, miss) in &tests {
                let rule = format!("alert ip any any -> any any ({name}:{test}; sid:1;)");
                for protocol in row.buffer.protocols {
                    let found = |number: u64| {
                        let mut watch = Watch::new(&rule).named(protocol);
                        watch.counted(Forward, &[(row.buffer.name, number)], &[]).matches().len()
                    };
                    assert_eq!((found(*hit), found(*miss)), (1, 0), "{rule} {hit} {miss}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

/// Whether nothing reads a number yet: rules with it are refused by name.
fn is_unread_number(name: &str) -> bool {
    let exists = weir_proto::numbers().any(|buffer| buffer.name == name);
    if !exists {
        let program = Program::new(&set_of(&format!("alert ip any any -> any any ({name}:1; sid:1;)")), &[]);
        assert!(program.unread.len() == 1 && program.rules.is_empty(), "{name}");
    }
    !exists
}
