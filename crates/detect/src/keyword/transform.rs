//! Changes of a buffer before it is searched.

use super::row::{Group, Keyword, reads};
use crate::builder::{Builder, no_value};
use crate::fault::Fault;
use crate::transform::{Base64, Base64Mode, Transform};
use crate::value::{Value, hexadecimal, one_of};

pub(super) fn keywords() -> Vec<Keyword> {
    let transform = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Transform, arguments, help, accepted, refused, read)
    };
    vec![
        transform(
            "dotprefix",
            "",
            "A `.` is put before the buffer.",
            &[r#"dns.query; dotprefix; content:".a";"#],
            &["dotprefix;", r#"dns.query; content:"a"; dotprefix;"#],
            |builder, value| plain(builder, value, Transform::DotPrefix),
        ),
        transform(
            "domain",
            "",
            "The registered domain of a name.",
            &[r#"dns.query; domain; content:"a";"#],
            &["domain;"],
            |builder, value| plain(builder, value, Transform::Domain),
        ),
        transform(
            "tld",
            "",
            "The public suffix of a name.",
            &[r#"dns.query; tld; content:"a";"#],
            &["tld;"],
            |builder, value| plain(builder, value, Transform::TopLevel),
        ),
        transform(
            "to_lowercase",
            "",
            "Letters become lower case.",
            &[r#"http.uri; to_lowercase; content:"a";"#],
            &["to_lowercase;"],
            |builder, value| plain(builder, value, Transform::Lower),
        ),
        transform(
            "to_uppercase",
            "",
            "Letters become upper case.",
            &[r#"http.uri; to_uppercase; content:"A";"#],
            &["to_uppercase;"],
            |builder, value| plain(builder, value, Transform::Upper),
        ),
        transform(
            "strip_whitespace",
            "",
            "Blanks are left out.",
            &[r#"http.uri; strip_whitespace; content:"a";"#],
            &["strip_whitespace;"],
            |builder, value| plain(builder, value, Transform::StripBlanks),
        ),
        transform(
            "compress_whitespace",
            "",
            "Several blanks become one.",
            &[r#"http.uri; compress_whitespace; content:"a";"#],
            &["compress_whitespace;"],
            |builder, value| plain(builder, value, Transform::CompressBlanks),
        ),
        transform(
            "url_decode",
            "",
            "Escapes of URLs are decoded.",
            &[r#"http.uri.raw; url_decode; content:"a";"#],
            &["url_decode;"],
            |builder, value| plain(builder, value, Transform::UrlDecode),
        ),
        transform(
            "to_md5",
            "",
            "The MD5 of the buffer, 16 bytes.",
            &[r#"http.uri; to_md5; content:"|41|";"#],
            &["to_md5;"],
            |builder, value| plain(builder, value, Transform::Md5),
        ),
        transform(
            "to_sha1",
            "",
            "The SHA-1 of the buffer, 20 bytes.",
            &[r#"http.uri; to_sha1; content:"|41|";"#],
            &["to_sha1;"],
            |builder, value| plain(builder, value, Transform::Sha1),
        ),
        transform(
            "to_sha256",
            "",
            "The SHA-256 of the buffer, 32 bytes.",
            &[r#"http.uri; to_sha256; content:"|41|";"#],
            &["to_sha256;"],
            |builder, value| plain(builder, value, Transform::Sha256),
        ),
        transform(
            "header_lowercase",
            "",
            "Names of headers become lower case.",
            &[r#"http.header; header_lowercase; content:"a";"#],
            &["header_lowercase;"],
            |builder, value| plain(builder, value, Transform::HeaderLower),
        ),
        transform(
            "strip_pseudo_headers",
            "",
            "Headers that begin with `:` are left out.",
            &[r#"http.header; strip_pseudo_headers; content:"a";"#],
            &["strip_pseudo_headers;"],
            |builder, value| plain(builder, value, Transform::StripPseudoHeaders),
        ),
        transform(
            "xor",
            "\"KEY\"",
            "The bytes are combined with a hexadecimal key by exclusive or.",
            &[r#"http.request_body; xor:"0d0a"; content:"a";"#],
            &[r#"http.request_body; xor:"0"; content:"a";"#, r#"http.request_body; xor; content:"a";"#],
            xor,
        ),
        transform(
            "pcrexform",
            "\"EXPRESSION\"",
            "What the first group of an expression captures.",
            &[r#"http.uri; pcrexform:"a(b+)"; content:"b";"#],
            &[r#"http.uri; pcrexform:"ab"; content:"b";"#, r#"http.uri; pcrexform:"("; content:"b";"#],
            capture,
        ),
        transform(
            "from_base64",
            "[bytes N][,offset N][,mode rfc4648|rfc2045|strict]",
            "Base64 is decoded.",
            &[
                r#"http.uri; from_base64; content:"a";"#,
                r#"http.uri; from_base64:offset 1,mode strict; content:"a";"#,
            ],
            &[r#"http.uri; from_base64:mode x; content:"a";"#],
            from_base64,
        ),
        transform(
            "gunzip",
            "[max-size N]",
            "Gzip is inflated.",
            &[
                r#"http.response_body; gunzip; content:"a";"#,
                r#"http.response_body; gunzip:max-size 2048; content:"a";"#,
            ],
            &[r#"http.response_body; gunzip:x; content:"a";"#],
            gunzip,
        ),
        transform(
            "zlib_deflate",
            "[max-size N]",
            "Zlib is inflated.",
            &[r#"http.response_body; zlib_deflate; content:"a";"#],
            &[r#"http.response_body; zlib_deflate:max-size x; content:"a";"#],
            inflate,
        ),
    ]
}

fn plain(builder: &mut Builder<'_>, value: Value<'_>, transform: Transform) -> Result<(), Fault> {
    no_value(value)?;
    builder.add_transform(transform)
}

fn xor(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let digits = value.unquoted();
    let key = hexadecimal(digits.bytes).filter(|key| (1..=255).contains(&key.len()));
    let key = key.ok_or_else(|| {
        digits.wrong("the key of xor is two hexadecimal digits for each of its bytes, at most 255")
    })?;
    builder.add_transform(Transform::Xor(key))
}

fn capture(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let expression = value.quoted()?;
    let transform = crate::pattern::Capture::parse(expression)?;
    builder.add_transform(Transform::Capture(transform))
}

fn from_base64(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let mut how = Base64 { bytes: None, offset: 0, mode: Base64Mode::Rfc4648 };
    for part in value.unquoted().parts(b',').filter(|part| !part.is_empty()) {
        if let Some(number) = part.after("bytes ") {
            how.bytes = Some(number.trimmed().number("a number of bytes", 1, 65_535)? as u32);
        } else if let Some(number) = part.after("offset ") {
            how.offset = number.trimmed().number("an offset", 0, 65_535)? as u32;
        } else if let Some(mode) = part.after("mode ") {
            let modes = [
                ("rfc4648", Base64Mode::Rfc4648),
                ("rfc2045", Base64Mode::Rfc2045),
                ("strict", Base64Mode::Strict),
            ];
            how.mode = one_of(mode.trimmed(), "a mode of base64", &modes)?;
        } else {
            return Err(
                part.wrong(format!("`{}` is not an option; bytes, offset and mode are", part.shown()))
            );
        }
    }
    builder.add_transform(Transform::FromBase64(how))
}

/// The most bytes that are inflated, from 1 byte to 1 MiB.
fn max_size(value: Value<'_>) -> Result<u32, Fault> {
    const DEFAULT: u32 = 1024;
    if value.is_empty() {
        return Ok(DEFAULT);
    }
    match value.unquoted().after("max-size ") {
        Some(number) => Ok(number.trimmed().number("a number of bytes", 1, 1 << 20)? as u32),
        None => Err(value.wrong("the option is `max-size` with a number of bytes")),
    }
}

fn gunzip(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    builder.add_transform(Transform::Gunzip(max_size(value)?))
}

fn inflate(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    builder.add_transform(Transform::Inflate(max_size(value)?))
}
