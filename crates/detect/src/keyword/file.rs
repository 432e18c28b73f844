//! Files, and sets from files.

use super::row::{Group, Keyword, reads};
use crate::buffer::{FILE_MD5, FILE_MIN_SIZE, FILE_SHA1, FILE_SHA256, FILE_SIZE, RuleBuffer, buffer};
use crate::builder::Builder;
use crate::content::{Content, literal};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::rule::Test;
use crate::state::{Dataset, DatasetKind};
use crate::value::{Value, hexadecimal, one_of};
use std::collections::HashSet;

pub(super) fn keywords() -> Vec<Keyword> {
    let file = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::File, arguments, help, accepted, refused, read)
    };
    vec![
        file(
            "filename",
            "[!]\"TEXT\"",
            "A part of a file's name, in either case.",
            &[r#"filename:"a.exe";"#, "filename:!a;"],
            &["filename;"],
            |builder, value| part_of(builder, value, "file.name", false),
        ),
        file(
            "fileext",
            "[!]\"TEXT\"",
            "The end of a file's name after its last dot, in either case.",
            &[r#"fileext:"exe";"#, "fileext:pdf;"],
            &["fileext;"],
            |builder, value| part_of(builder, value, "file.name", true),
        ),
        file(
            "filemagic",
            "[!]\"TEXT\"",
            "A part of the kind of a file, by its content.",
            &[r#"filemagic:"PDF document";"#],
            &["filemagic;"],
            |builder, value| part_of(builder, value, "file.magic", false),
        ),
        file(
            "filesize",
            "[<|>|!]NUMBER|FROM<>TO",
            "The length of a file.",
            &["filesize:>1kb;", "filesize:1<>9;"],
            &["filesize:x;"],
            file_size,
        ),
        file(
            "filemd5",
            "[!]FILE",
            "The MD5 of a file is in a list.",
            &["filemd5:md5.txt;"],
            &["filemd5:missing.txt;", "filemd5:sha1.txt;"],
            |builder, value| file_hash(builder, value, &FILE_MD5, 16),
        ),
        file(
            "filesha1",
            "[!]FILE",
            "The SHA-1 of a file is in a list.",
            &["filesha1:!sha1.txt;"],
            &["filesha1:missing.txt;"],
            |builder, value| file_hash(builder, value, &FILE_SHA1, 20),
        ),
        file(
            "filesha256",
            "[!]FILE",
            "The SHA-256 of a file is in a list.",
            &["filesha256:sha256.txt;"],
            &["filesha256:md5.txt;"],
            |builder, value| file_hash(builder, value, &FILE_SHA256, 32),
        ),
        file(
            "filestore",
            "[DIRECTION,SCOPE]",
            "There is a file. `--files` stores all files, with and without it.",
            &["filestore;", "filestore:both,flow;"],
            &["filestore:x;"],
            file_store,
        ),
        file(
            "dataset",
            "isset|isnotset,NAME,type KIND,load FILE",
            "The buffer is in a set from a file.",
            &[
                "dns.query; dataset:isset,names,type string,load names.txt;",
                "ip.src; dataset:isset,nets,type ip,load ip.txt;",
            ],
            &[
                "dataset:isset,names,type string,load names.txt;",
                "dns.query; dataset:set,names,type string,load names.txt;",
                "dns.query; dataset:isset,names,type string,load missing.txt;",
                "dns.query; dataset:isset,names;",
            ],
            dataset,
        ),
        file(
            "datarep",
            "NAME,OPERATOR,NUMBER,load FILE,type KIND",
            "The reputation of the buffer in a set from a file.",
            &["dns.query; datarep:names,>,10,load reputation.txt,type string;"],
            &["dns.query; datarep:names,>;", "dns.query; datarep:names,>,10,load names.txt,type string;"],
            datarep,
        ),
    ]
}

/// A literal in a buffer of files, as the older keywords have it.
fn part_of(builder: &mut Builder<'_>, value: Value<'_>, name: &str, is_end: bool) -> Result<(), Fault> {
    let (is_negated, value) = value.negated();
    let value = value.unquoted();
    let mut bytes = literal(value)?;
    if is_end {
        bytes.insert(0, b'.');
    }
    let content = Content { is_negated, ignores_case: true, is_at_end: is_end, ..Content::of(bytes) };
    builder.add_apart(of_file(builder, name)?, Test::Content(content))
}

/// A buffer of files.
fn of_file(builder: &Builder<'_>, name: &str) -> Result<&'static RuleBuffer, Fault> {
    buffer(name).ok_or_else(|| builder.wrong(format!("no buffer is {name}")))
}

fn file_size(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = NumberTest::parse(value.unquoted(), u64::MAX, &[])?;
    // What was received of a file may exceed a number before its end is seen.
    let of = match test {
        NumberTest::Above(_) | NumberTest::AtLeast(_) => &FILE_MIN_SIZE,
        _ => &FILE_SIZE,
    };
    builder.add_apart(of, Test::Number(test))
}

/// A list of checksums of this number of bytes, in hexadecimal digits.
fn file_hash(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    of: &'static RuleBuffer,
    length: usize,
) -> Result<(), Fault> {
    let (is_negated, value) = value.unquoted().negated();
    let bytes = read(builder, value)?;
    let mut values = HashSet::new();
    for (number, line) in lines(&bytes) {
        let digits =
            line.split(|byte| byte.is_ascii_whitespace() || *byte == b',').next().unwrap_or_default();
        if hexadecimal(digits).is_none_or(|hash| hash.len() != length) {
            return Err(
                value.wrong(format!("line {number} of {} has no hash of {length} bytes", value.shown()))
            );
        }
        values.insert(digits.to_ascii_lowercase().into());
    }
    let name = value.text()?.into();
    let set = Dataset { name, kind: DatasetKind::Text, values: values.into(), is_negated };
    builder.add_apart(of, Test::Dataset(set))
}

fn file_store(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    const WORDS: [&[u8]; 12] = [
        b"request",
        b"to_server",
        b"response",
        b"to_client",
        b"both",
        b"file",
        b"tx",
        b"ssn",
        b"flow",
        b"toserver",
        b"toclient",
        b"",
    ];
    if let Some(word) = value.parts(b',').find(|word| !WORDS.contains(&word.bytes)) {
        return Err(word.wrong(format!("`{}` is neither a direction nor a scope of filestore", word.shown())));
    }
    // A file must be there. Any test of its kind holds then.
    builder.add_apart(of_file(builder, "file.magic")?, Test::Size(NumberTest::AtLeast(0)))
}

/// The content of a file that a rule names.
fn read(builder: &Builder<'_>, name: Value<'_>) -> Result<Vec<u8>, Fault> {
    let path = name.text()?;
    builder.sources.read(builder.file, path).map_err(|reason| name.wrong(format!("{path}: {reason}")))
}

/// The lines of a list with their numbers, without comments and empty ones.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .map(|(number, line)| (number + 1, line.trim_ascii()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
}

/// What `dataset` and `datarep` say about their set.
#[derive(Default)]
struct SetWords<'a> {
    kind: Option<DatasetKind>,
    load: Option<Value<'a>>,
}

impl<'a> SetWords<'a> {
    fn parse(words: impl Iterator<Item = Value<'a>>) -> Result<Self, Fault> {
        let mut is = Self::default();
        for word in words {
            let (name, argument) = word.name_and_argument();
            match name.bytes {
                b"type" => is.kind = Some(one_of(argument, "a kind of set", &DatasetKind::NAMES)?),
                b"load" => is.load = Some(argument),
                b"memcap" | b"hashsize" => {
                    argument
                        .number("a size", 0, i64::MAX)
                        .or_else(|_| NumberTest::parse(argument, u64::MAX, &[]).map(|_| 0))?;
                }
                b"state" | b"save" => {
                    return Err(
                        word.not_supported(format!("sets are read only; `{}` would write one", name.shown()))
                    );
                }
                b"format" | b"value_key" | b"array_key" | b"context_key" | b"remove_key"
                | b"enrichment_key" => {
                    return Err(word.not_supported("sets of JSON are not supported"));
                }
                _ => {
                    let reason =
                        format!("`{}` is not an option; type, load, memcap and hashsize are", word.shown());
                    return Err(word.wrong(reason));
                }
            }
        }
        Ok(is)
    }

    fn required(self, value: Value<'_>) -> Result<(DatasetKind, Value<'a>), Fault> {
        let kind = self.kind.ok_or_else(|| value.wrong("`type` is missing"))?;
        match self.load {
            Some(load) => Ok((kind, load)),
            None => {
                Err(value.not_supported("a set without `load` is filled by rules; sets are read only here"))
            }
        }
    }
}

fn dataset(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let mut words = value.parts(b',');
    let action = words.next().unwrap_or(value);
    let is_negated = match action.bytes {
        b"isset" => false,
        b"isnotset" => true,
        b"set" | b"unset" => {
            return Err(action.not_supported("sets are read only; the rule would change one"));
        }
        _ => {
            return Err(
                action.wrong(format!("`{}` is not an action; isset and isnotset are", action.shown()))
            );
        }
    };
    let name = words.next().ok_or_else(|| value.wrong("the name of the set is missing"))?.text()?.into();
    let (kind, load) = SetWords::parse(words)?.required(value)?;
    if !builder.has_buffer() {
        return Err(builder.wrong("dataset stands after a buffer"));
    }
    let bytes = read(builder, load)?;
    let mut values = HashSet::new();
    for (number, line) in lines(&bytes) {
        let wrong = |reason: String| load.wrong(format!("line {number} of {}: {reason}", load.shown()));
        values.insert(set_value(kind, line).map_err(wrong)?);
    }
    builder.add_test(Test::Dataset(Dataset { name, kind, values: values.into(), is_negated }))
}

/// Base64 with or without its padding.
fn decode_base64(text: &[u8]) -> Option<Box<[u8]>> {
    use base64::Engine;
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(text.get(..end)?).ok().map(Into::into)
}

/// The bytes of a line of a set.
fn set_value(kind: DatasetKind, line: &[u8]) -> Result<Box<[u8]>, String> {
    let text = || std::str::from_utf8(line).map_err(|_| "the line is not text".to_owned());
    match kind {
        DatasetKind::Text => decode_base64(line).ok_or_else(|| "the value is not base64".to_owned()),
        DatasetKind::Md5 => {
            hexadecimal(line).filter(|hash| hash.len() == 16).ok_or_else(|| "no MD5".to_owned())
        }
        DatasetKind::Sha256 => {
            hexadecimal(line).filter(|hash| hash.len() == 32).ok_or_else(|| "no SHA-256".to_owned())
        }
        DatasetKind::V4 => {
            let address: std::net::Ipv4Addr = text()?.parse().map_err(|_| "no IPv4 address".to_owned())?;
            Ok(address.octets().into())
        }
        DatasetKind::Ip => match text()?.parse().map_err(|_| "no IP address".to_owned())? {
            std::net::IpAddr::V4(address) => Ok(address.octets().into()),
            std::net::IpAddr::V6(address) => Ok(address.octets().into()),
        },
    }
}

fn datarep(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let mut words = value.parts(b',');
    let mut next = |what: &str| words.next().ok_or_else(|| value.wrong(format!("{what} is missing")));
    let name: Box<str> = next("the name of the set")?.text()?.into();
    let (operator, number) = (next("the operator")?, next("the number")?);
    let text = [operator.bytes, number.bytes].concat();
    let test = NumberTest::parse(Value::new(&text, operator.at), 65_535, &[])?;
    let (kind, load) = SetWords::parse(words)?.required(value)?;
    if !builder.has_buffer() {
        return Err(builder.wrong("datarep stands after a buffer"));
    }
    let bytes = read(builder, load)?;
    let mut values = HashSet::new();
    for (number, line) in lines(&bytes) {
        let wrong = |reason: String| load.wrong(format!("line {number} of {}: {reason}", load.shown()));
        let mut parts = line.rsplitn(2, |byte| *byte == b',');
        let reputation = parts.next().unwrap_or_default();
        let of = parts.next().ok_or_else(|| wrong("a value, `,` and its reputation are given".to_owned()))?;
        let reputation = Value::new(reputation.trim_ascii(), load.at).number("a reputation", 0, 65_535)?;
        // Only what passes matters.
        if test.passes(reputation as u64) {
            values.insert(set_value(kind, of.trim_ascii()).map_err(wrong)?);
        }
    }
    let set = Dataset { name, kind, values: values.into(), is_negated: false };
    builder.add_test(Test::Datarep { set, test })
}
