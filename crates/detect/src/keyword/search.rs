//! Searches in buffers.

use super::row::{Group, Keyword, reads};
use crate::buffer::{RuleBuffer, buffer};
use crate::builder::{Builder, no_value};
use crate::condition::Condition;
use crate::content::{Amount, Content, FastPattern};
use crate::entropy::Entropy;
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::numeric::{ByteExtract, ByteJump, ByteMath, ByteTest, IsDataAt, amount};
use crate::pattern::Pattern;
use crate::rule::{Asn1, Test};
use crate::transform::{Base64, Base64Mode};
use crate::value::Value;

pub(super) fn keywords() -> Vec<Keyword> {
    let search = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Search, arguments, help, accepted, refused, read)
    };
    vec![
        search(
            "content",
            "[!]\"TEXT|HEX|\"",
            "A literal.",
            &[r#"content:"a|0d 0a|";"#, r#"content:!"a";"#],
            &["content:a;", r#"content:"";"#, r#"content:"|4|";"#],
            content,
        ),
        search(
            "uricontent",
            "[!]\"TEXT|HEX|\"",
            "A literal in the normalised URI of a request of HTTP, in the old manner.",
            &[r#"uricontent:"a|20|"; nocase;"#, r#"uricontent:!"a";"#],
            &["uricontent:a;", r#"http.method; uricontent:"a";"#],
            |builder, value| content_of(builder, value, "http.uri"),
        ),
        search(
            "tls.subject",
            "[!]\"TEXT|HEX|\"",
            "A literal in the subject of a certificate, in the old manner.",
            &[r#"tls.subject:"CN=a";"#],
            &["tls.subject:a;"],
            |builder, value| content_of(builder, value, "tls.cert_subject"),
        ),
        search(
            "tls.issuerdn",
            "[!]\"TEXT|HEX|\"",
            "A literal in the issuer of a certificate, in the old manner.",
            &[r#"tls.issuerdn:"CN=a";"#],
            &["tls.issuerdn:a;"],
            |builder, value| content_of(builder, value, "tls.cert_issuer"),
        ),
        search(
            "tls.fingerprint",
            "[!]\"TEXT|HEX|\"",
            "A literal in the SHA-1 of a certificate in lower case, in the old manner: 01:a2:...",
            &[r#"tls.fingerprint:"01:a2";"#],
            &["tls.fingerprint:a;"],
            |builder, value| content_of(builder, value, "tls.cert_fingerprint"),
        ),
        search(
            "ssh.softwareversion",
            "[!]TEXT",
            "A literal in the software of a banner of SSH, in the old manner.",
            &["ssh.softwareversion:PuTTY;", r#"ssh.softwareversion:"OpenSSH_9";"#],
            &["ssh.softwareversion;"],
            ssh_software,
        ),
        search(
            "ssh.protoversion",
            "TEXT",
            "The version of SSH in a banner, in the old manner. `2_compat`: a version that speaks 2, also 1.99.",
            &["ssh.protoversion:2.0;", "ssh.protoversion:2_compat;"],
            &["ssh.protoversion;", r#"ssh.protoversion:"";"#],
            ssh_version,
        ),
        search(
            "nocase",
            "",
            "Letters of the content match in either case.",
            &[r#"content:"a"; nocase;"#],
            &["nocase;", r#"content:"a"; nocase:1;"#],
            nocase,
        ),
        search(
            "offset",
            "NUMBER|VARIABLE",
            "The content begins at this byte or later.",
            &[r#"content:"a"; offset:4;"#],
            &["offset:4;", r#"content:"a"; offset:x;"#],
            offset,
        ),
        search(
            "depth",
            "NUMBER|VARIABLE",
            "The content ends within this number of bytes from its offset.",
            &[r#"content:"abcd"; depth:4;"#],
            &[r#"content:"abcd"; depth:3;"#],
            depth,
        ),
        search(
            "distance",
            "NUMBER|VARIABLE",
            "The content begins this number of bytes after the last match, or later.",
            &[r#"content:"a"; content:"b"; distance:-1;"#],
            &[r#"content:"a"; offset:1; distance:1;"#],
            distance,
        ),
        search(
            "within",
            "NUMBER|VARIABLE",
            "The content ends within this number of bytes after the last match.",
            &[r#"content:"a"; content:"b"; within:1;"#],
            &[r#"content:"a"; content:"bb"; within:1;"#],
            within,
        ),
        search(
            "startswith",
            "",
            "The content begins with the buffer.",
            &[r#"content:"a"; startswith;"#],
            &[r#"content:"a"; depth:1; startswith;"#],
            starts_with,
        ),
        search(
            "endswith",
            "",
            "The content ends with the buffer.",
            &[r#"content:"a"; endswith;"#],
            &["endswith;"],
            ends_with,
        ),
        search(
            "rawbytes",
            "",
            "The content is searched in bytes as sent, as buffers are here.",
            &[r#"content:"a"; rawbytes;"#],
            &["rawbytes;"],
            raw_bytes,
        ),
        search(
            "fast_pattern",
            "[only|OFFSET,LENGTH]",
            "The content finds the rule.",
            &[
                r#"content:"abc"; fast_pattern;"#,
                r#"content:"abc"; fast_pattern:only;"#,
                r#"content:"abc"; fast_pattern:1,2;"#,
            ],
            &[
                r#"content:"abc"; fast_pattern:2,2;"#,
                r#"content:!"abc"; fast_pattern:only;"#,
                r#"content:"a"; fast_pattern; content:"b"; fast_pattern;"#,
            ],
            fast_pattern,
        ),
        search(
            "pcre",
            "[!]\"/EXPRESSION/LETTERS\"",
            "A regular expression.",
            &[r#"pcre:"/a(b|c)+/i";"#, r#"pcre:!"/(a)\1/R";"#, r#"pcre:"/a/U";"#],
            &[r#"pcre:"a";"#, r#"pcre:"/(/";"#, r#"pcre:"/a/k";"#],
            pcre,
        ),
        search(
            "isdataat",
            "[!]NUMBER|VARIABLE[,relative]",
            "The buffer has a byte at this place.",
            &["isdataat:4;", r#"content:"a"; isdataat:!1,relative;"#],
            &["isdataat:x;", "isdataat:1,x;"],
            is_data_at,
        ),
        search(
            "bsize",
            "[<|>|!]NUMBER|FROM<>TO",
            "The length of the buffer.",
            &[r#"dns.query; content:"a"; bsize:1;"#, "http.uri; bsize:>10;"],
            &["bsize:4;", r#"dns.query; content:"abc"; bsize:2;"#, "dns.query; bsize:x;"],
            bsize,
        ),
        search(
            "dsize",
            "[<|>|!]NUMBER|FROM<>TO",
            "The length of a packet's payload.",
            &["dsize:>10;", "dsize:1<>9;"],
            &["dsize:x;", "dsize:65536;"],
            dsize,
        ),
        search(
            "urilen",
            "[<|>|!]NUMBER|FROM<>TO[,norm|raw]",
            "The length of a URI.",
            &["urilen:<9;", "urilen:1<>9,raw;"],
            &["urilen:9,x;"],
            urilen,
        ),
        search(
            "byte_test",
            "BYTES,[!]OPERATOR,NUMBER,OFFSET[,...]",
            "A number in the buffer is compared.",
            &["byte_test:4,>,1000,0,little;", r#"content:"a"; byte_test:2,!&,0x80,0,relative,string,hex;"#],
            &["byte_test:4;", "byte_test:9,>,1,0;", "byte_test:4,~,1,0;"],
            byte_test,
        ),
        search(
            "byte_jump",
            "BYTES,OFFSET[,...]",
            "Relative tests count from where a number says.",
            &["byte_jump:4,0,align,multiplier 2,post_offset -4;", "byte_jump:2,0,from_end;"],
            &["byte_jump:4;", "byte_jump:4,0,multiplier 0;"],
            byte_jump,
        ),
        search(
            "byte_extract",
            "BYTES,OFFSET,NAME[,...]",
            "A number in the buffer becomes a variable.",
            &["byte_extract:2,0,n; isdataat:n;"],
            &["byte_extract:2,0;", "byte_extract:2,0,1;", "byte_extract:2,0,n; byte_extract:2,2,n;"],
            byte_extract,
        ),
        search(
            "byte_math",
            "bytes N,offset N,oper O,rvalue N,result NAME[,...]",
            "A number in the buffer is computed into a variable.",
            &["byte_math:bytes 2,offset 0,oper +,rvalue 2,result n; isdataat:n;"],
            &["byte_math:bytes 2;", "byte_math:bytes 2,offset 0,oper /,rvalue 0,result n;"],
            byte_math,
        ),
        search(
            "base64_decode",
            "[bytes N,offset N,relative]",
            "Base64 in the buffer is decoded into base64_data.",
            &["base64_decode:bytes 8,offset 2,relative; base64_data; content:\"a\";", "base64_decode;"],
            &["base64_decode:x 1;"],
            base64_decode,
        ),
        search(
            "entropy",
            "[bytes NUMBER,][offset NUMBER,]value [<|>|<=|>=|=|!=]NUMBER|FROM-TO",
            "The entropy of the buffer in bits for each byte, 0 to 8.",
            &[
                "file.data; entropy:value > 4;",
                "entropy:bytes 100, offset 10, value >= 7.5;",
                "file.data; entropy:value !4-5;",
            ],
            &["entropy;", "entropy:value > 9;", "entropy:bytes 10;", "entropy:x, value 1;"],
            |builder, value| {
                let test = Entropy::parse(value)?;
                builder.add_test(Test::Entropy(test))
            },
        ),
        search(
            "asn1",
            "TEST[,...]",
            "Malformed ASN.1.",
            &["asn1:double_overflow, relative_offset 1;", "asn1:oversize_length 500,absolute_offset 0;"],
            &["asn1:x;", "asn1:oversize_length;"],
            asn1,
        ),
        search(
            "absent",
            "[or_else]",
            "The buffer is absent.",
            &["http.referer; absent;", r#"http.referer; absent:or_else; content:"a";"#],
            &["absent;", "http.referer; absent:x;"],
            absent,
        ),
    ]
}

fn content(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let content = Content::parse(value)?;
    builder.add_test(Test::Content(content))
}

/// A literal of the buffer with this name.
fn content_of(builder: &mut Builder<'_>, value: Value<'_>, name: &str) -> Result<(), Fault> {
    let content = Content::parse(value)?;
    add_of(builder, name, Test::Content(content))
}

fn ssh_software(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (is_negated, text) = value.negated();
    let content = Content { is_negated, ..Content::of(word(text)?) };
    add_of(builder, "ssh.software", Test::Content(content))
}

fn ssh_version(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = match word(value)? {
        b"2_compat" => {
            let either = Value { bytes: br#""/^(?:1\.99|2)/""#, at: value.at };
            Test::Pattern(Pattern::parse(either)?.0)
        }
        version => Test::Content(Content { is_at_start: true, is_at_end: true, ..Content::of(version) }),
    };
    add_of(builder, "ssh.proto", test)
}

/// A text that may stand without quotes.
fn word(value: Value<'_>) -> Result<&[u8], Fault> {
    let text = value.unquoted();
    let is_of_word = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    match !text.is_empty() && text.bytes.iter().all(is_of_word) {
        true => Ok(text.bytes),
        false => Err(value.wrong(format!("`{}` is not a text of letters, digits and marks", text.shown()))),
    }
}

/// Adds a test of the buffer of a name.
fn add_of(builder: &mut Builder<'_>, name: &str, test: Test) -> Result<(), Fault> {
    match buffer(name) {
        Some(buffer) => builder.add_test_of(buffer, test),
        None => Ok(()),
    }
}

fn nocase(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.content()?.ignores_case = true;
    Ok(())
}

/// Limits of the place of a content.
const PLACE: i64 = 1 << 20;

/// Sets a place of the last content once.
fn set_place(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    least: i64,
    place: fn(&mut Content) -> &mut Option<Amount>,
) -> Result<(), Fault> {
    let is = amount(value.unquoted(), "a number of bytes", least, PLACE, &builder.rule.variables)?;
    let is_second = place(builder.content()?).replace(is).is_some();
    if is_second { Err(builder.wrong("the content already has this modifier")) } else { Ok(()) }
}

fn offset(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    set_place(builder, value, 0, |content| &mut content.offset)
}

fn depth(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    set_place(builder, value, 0, |content| &mut content.depth)
}

fn distance(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    set_place(builder, value, -PLACE, |content| &mut content.distance)
}

fn within(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    set_place(builder, value, 0, |content| &mut content.within)
}

fn starts_with(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.content()?.is_at_start = true;
    Ok(())
}

fn ends_with(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.content()?.is_at_end = true;
    Ok(())
}

fn raw_bytes(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.content().map(|_| ())
}

fn fast_pattern(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let value = value.unquoted();
    let is = match value.bytes {
        b"" => FastPattern::Yes,
        b"only" => FastPattern::Only,
        _ => {
            let mut numbers = value.parts(b',');
            let mut number = || match numbers.next() {
                Some(number) => number.number("a place in the content", 0, 65_535),
                None => Err(value.wrong("fast_pattern has no value, `only`, or an offset and a length")),
            };
            FastPattern::Part(number()? as usize, number()? as usize)
        }
    };
    builder.set_fast_pattern(is)
}

/// The buffers that letters after an expression name.
fn buffer_of_letter(letter: u8) -> Option<&'static RuleBuffer> {
    buffer(match letter {
        b'U' => "http.uri",
        b'I' => "http.uri.raw",
        b'P' => "http.request_body",
        b'Q' => "file.data",
        b'H' => "http.header",
        b'D' => "http.header.raw",
        b'M' => "http.method",
        b'C' => "http.cookie",
        b'S' => "http.stat_code",
        b'Y' => "http.stat_msg",
        b'V' => "http.user_agent",
        b'W' => "http.host",
        b'Z' => "http.host.raw",
        _ => return None,
    })
}

fn pcre(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (pattern, letter) = Pattern::parse(value)?;
    match letter.and_then(buffer_of_letter) {
        // The body of a response has two names.
        Some(_) if letter == Some(b'Q') && builder.buffer_name() == Some("http.response_body") => {
            builder.add_test(Test::Pattern(pattern))
        }
        Some(buffer) => builder.add_test_of(buffer, Test::Pattern(pattern)),
        None => builder.add_test(Test::Pattern(pattern)),
    }
}

fn is_data_at(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = IsDataAt::parse(value, &builder.rule.variables)?;
    builder.add_test(Test::IsDataAt(test))
}

fn bsize(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    if !builder.has_buffer() {
        return Err(builder.wrong("bsize stands after a buffer; dsize is the length of a packet's payload"));
    }
    let test = NumberTest::parse(value.unquoted(), u64::from(u32::MAX), &[])?;
    builder.add_test(Test::Size(test))
}

fn dsize(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = NumberTest::parse(value.unquoted(), 65_535, &[])?;
    builder.add_condition(Condition::PayloadSize(test))
}

fn urilen(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let value = value.unquoted();
    let mut parts = value.parts(b',');
    let test = NumberTest::parse(parts.next().unwrap_or(value), 65_535, &[])?;
    let name = match parts.next() {
        None => "http.uri",
        Some(part) if part.bytes == b"norm" => "http.uri",
        Some(part) if part.bytes == b"raw" => "http.uri.raw",
        Some(part) => return Err(part.wrong("a URI is measured as `norm` or as `raw`")),
    };
    match buffer(name) {
        // The length of a URI does not end the tests of another buffer.
        Some(buffer) => builder.add_size_of(buffer, test),
        None => Err(builder.wrong("no buffer has a URI")),
    }
}

fn byte_test(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = ByteTest::parse(value, &builder.rule.variables)?;
    builder.add_test(Test::ByteTest(test))
}

fn byte_jump(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let jump = ByteJump::parse(value, &builder.rule.variables)?;
    builder.add_test(Test::ByteJump(jump))
}

fn byte_extract(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let extract = ByteExtract::parse(value, &mut builder.rule.variables)?;
    builder.add_test(Test::ByteExtract(extract))
}

fn byte_math(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let math = ByteMath::parse(value, &mut builder.rule.variables)?;
    builder.add_test(Test::ByteMath(math))
}

fn base64_decode(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let mut how = Base64 { bytes: None, offset: 0, mode: Base64Mode::Rfc2045 };
    let mut is_relative = false;
    for part in value.parts(b',').filter(|part| !part.is_empty()) {
        if let Some(number) = part.after("bytes ") {
            how.bytes = Some(number.trimmed().number("a number of bytes", 1, 65_535)? as u32);
        } else if let Some(number) = part.after("offset ") {
            how.offset = number.trimmed().number("an offset", 0, 65_535)? as u32;
        } else if part.bytes == b"relative" {
            is_relative = true;
        } else {
            return Err(
                part.wrong(format!("`{}` is not an option; bytes, offset and relative are", part.shown()))
            );
        }
    }
    builder.add_test(Test::Base64 { how, is_relative })
}

fn asn1(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let mut is = Asn1::default();
    let words: Vec<Value<'_>> = value.parts(b',').flat_map(Value::words).collect();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut number = |what: &str, least| {
            words.next().ok_or_else(|| word.wrong(format!("{what} is missing")))?.number(what, least, 65_535)
        };
        match word.bytes {
            b"bitstring_overflow" => is.bitstring_overflow = true,
            b"double_overflow" => is.double_overflow = true,
            b"oversize_length" => is.oversize_length = Some(number("a length", 0)? as u32),
            b"absolute_offset" => is.offset = number("an offset", 0)?,
            b"relative_offset" => {
                is.offset = number("an offset", -65_535)?;
                is.is_relative = true;
            }
            _ => {
                return Err(word.wrong(format!(
                    "`{}` is not a test of ASN.1; bitstring_overflow, double_overflow, oversize_length, absolute_offset and \
                     relative_offset are",
                    word.shown()
                )));
            }
        }
    }
    builder.add_test(Test::Asn1(is))
}

fn absent(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    if !builder.has_buffer() {
        return Err(builder.wrong("absent stands after a buffer"));
    }
    let or_else = match value.bytes {
        b"" => false,
        b"or_else" => true,
        _ => return Err(value.wrong("absent has no value, or `or_else`")),
    };
    builder.add_test(Test::Absent { or_else })
}
