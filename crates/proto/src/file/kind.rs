//! The type of a file by its first bytes, in Zeek's names.

/// The media type; `None` if no known type begins like this.
pub(super) fn of(head: &[u8]) -> Option<&'static str> {
    zip(head)
        .or_else(|| BY_MAGIC.iter().find(|magic| magic.fits(head)).map(|magic| magic.kind))
        .or_else(|| elf(head))
        .or_else(|| script(head))
        .or_else(|| markup(head))
        .or_else(|| json(head))
        .or_else(|| program_text(head))
        .or_else(|| infer::get(head).map(|kind| kind.mime_type()).filter(|_| !is_text(head)))
        .or_else(|| is_text(head).then_some("text/plain"))
}

/// A signature: bytes at an offset.
struct Magic {
    at: usize,
    bytes: &'static [u8],
    kind: &'static str,
}

impl Magic {
    fn fits(&self, head: &[u8]) -> bool {
        head.get(self.at..).is_some_and(|head| head.starts_with(self.bytes))
    }
}

const fn magic(bytes: &'static [u8], kind: &'static str) -> Magic {
    Magic { at: 0, bytes, kind }
}

const fn magic_at(at: usize, bytes: &'static [u8], kind: &'static str) -> Magic {
    Magic { at, bytes, kind }
}

/// Signatures for types that the crate `infer` names otherwise or does not have. Of signatures with a common
/// beginning, longer ones come first.
static BY_MAGIC: &[Magic] = &[
    // Archives and compressed data.
    magic(b"!<arch>\ndebian", "application/x-debian-package"),
    magic(b"!<arch>", "application/x-archive"),
    magic(b"PK\x07\x08PK\x03\x04", "application/zip"),
    magic(b"Rar!", "application/x-rar"),
    magic(b"\x1f\x8b", "application/x-gzip"),
    magic(b"\x1f\x9d", "application/x-compress"),
    magic(b"BZh", "application/x-bzip2"),
    magic(b"\xfd7zXZ\0", "application/x-xz"),
    magic(b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    magic(b"\x5d\0\0", "application/x-lzma"),
    magic(b"\x04\x22\x4d\x18", "application/x-lz4"),
    magic(b"LZIP", "application/x-lzip"),
    magic(b"LRZI", "application/x-lrzip"),
    magic(b"MSCF\0\0\0\0", "application/vnd.ms-cab-compressed"),
    magic(b"xar!", "application/x-xar"),
    magic(b"\xed\xab\xee\xdb", "application/x-rpm"),
    magic(b"SIT!", "application/x-stuffit"),
    magic(b"StuffIt", "application/x-stuffit"),
    magic(b"WARC/", "application/warc"),
    magic(b"\x60\xea", "application/x-arj"),
    magic_at(7, b"**ACE**", "application/x-ace"),
    magic_at(257, b"ustar", "application/x-tar"),
    magic_at(2, b"-lh", "application/x-lzh"),
    magic(b"\xc7\x71", "application/x-cpio"),
    magic(b"\x71\xc7", "application/x-cpio"),
    // Programs.
    magic_at(30, b"Copyright 1989-1990 PKWARE Inc", "application/zip"),
    magic(b"MZ", "application/x-dosexec"),
    magic(b"\xce\xfa\xed\xfe", "application/x-mach-o-executable"),
    magic(b"\xcf\xfa\xed\xfe", "application/x-mach-o-executable"),
    magic(b"FWS", "application/x-shockwave-flash"),
    magic(b"CWS", "application/x-shockwave-flash"),
    magic(b"ZWS", "application/x-shockwave-flash"),
    // Documents.
    magic(b"%PDF-", "application/pdf"),
    magic(b"%!PS", "application/postscript"),
    magic(b"{\\rtf", "text/rtf"),
    magic(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/msword"),
    magic_at(4, b"Standard Jet DB\0", "application/x-msaccess"),
    magic_at(4, b"Standard ACE DB\0", "application/x-msaccess"),
    magic(b"\x78\x9f\x3e\x22", "application/vnd.ms-tnef"),
    magic(b"L\0\0\0\x01\x14\x02\0\0\0\0\0\xc0\0\0\0\0\0\0F", "application/x-ms-shortcut"),
    magic(b"-----BEGIN CERTIFICATE-----", "application/x-pem"),
    magic(b"\xd4\xc3\xb2\xa1", "application/vnd.tcpdump.pcap"),
    magic(b"\xa1\xb2\xc3\xd4", "application/vnd.tcpdump.pcap"),
    magic(b"\n\r\r\n", "application/vnd.tcpdump.pcap"),
    // Images.
    magic(b"GIF8", "image/gif"),
    magic(b"\x89PNG", "image/png"),
    magic(b"\xff\xd8", "image/jpeg"),
    magic(b"MM\0*", "image/tiff"),
    magic(b"II*\0", "image/tiff"),
    magic(b"\0\0\x01\0", "image/x-icon"),
    magic(b"\0\0\x02\0", "image/x-cursor"),
    magic(b"8BPS", "image/vnd.adobe.photoshop"),
    magic(b"gimp xcf", "image/x-xcf"),
    magic_at(8, b"WEBP", "image/webp"),
    magic_at(4, b"jP", "image/jp2"),
    // Audio and video.
    magic(b"FLV", "video/x-flv"),
    magic(b"\x8aMNG", "video/x-mng"),
    magic(b"\0\0\x01\xb3", "video/mpv"),
    magic(b"\0\0\x01\xba", "video/mpeg"),
    magic_at(4, b"mdat", "video/quicktime"),
    magic_at(4, b"moov", "video/quicktime"),
    magic_at(4, b"ftypisom", "video/mp4"),
    magic_at(4, b"ftypmp4", "video/mp4"),
    magic_at(4, b"ftyp3g", "video/3gpp"),
    magic_at(4, b"ftypavc1", "video/3gpp"),
    magic_at(4, b"ftypmmp4", "video/3gpp"),
    magic_at(4, b"ftypm4a", "audio/m4a"),
    magic(b"ID3", "audio/mpeg"),
    magic(b"\xff\xfb", "audio/mpeg"),
    magic(b"\xff\xf3", "audio/mpeg"),
    // Fonts.
    magic(b"wOF2", "application/font-woff2"),
    magic(b"wOFF", "application/font-woff"),
    magic(b"\0\x01\0\0\0", "application/x-font-ttf"),
    magic(b"OTTO", "application/vnd.ms-opentype"),
    // Requests and responses of OCSP have these object identifiers near their beginning.
    magic_at(11, b"\x06\x05\x2b\x0e\x03\x02\x1a", "application/ocsp-request"),
    magic_at(13, b"\x06\x05\x2b\x0e\x03\x02\x1a", "application/ocsp-request"),
    magic_at(15, b"\x06\x05\x2b\x0e\x03\x02\x1a", "application/ocsp-request"),
    magic_at(11, b"\x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01", "application/ocsp-response"),
    magic_at(13, b"\x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01", "application/ocsp-response"),
    magic_at(15, b"\x06\x09\x2b\x06\x01\x05\x05\x07\x30\x01\x01", "application/ocsp-response"),
];

/// Documents that are archives, identified by the names of their first members.
fn zip(head: &[u8]) -> Option<&'static str> {
    if !head.starts_with(b"PK\x03\x04") {
        return None;
    }
    let first = head.get(30..).unwrap_or_default();
    if let Some(kind) = first.strip_prefix(b"mimetypeapplication/vnd.oasis.opendocument.") {
        let kinds: [(&[u8], &str); 7] = [
            (b"text", "application/vnd.oasis.opendocument.text"),
            (b"spreadsheet", "application/vnd.oasis.opendocument.spreadsheet"),
            (b"presentation", "application/vnd.oasis.opendocument.presentation"),
            (b"graphics", "application/vnd.oasis.opendocument.graphics"),
            (b"chart", "application/vnd.oasis.opendocument.chart"),
            (b"formula", "application/vnd.oasis.opendocument.formula"),
            (b"image", "application/vnd.oasis.opendocument.image"),
        ];
        let found = kinds.iter().find(|(name, _)| kind.starts_with(name));
        return Some(found.map_or("application/vnd.oasis.opendocument", |(_, kind)| kind));
    }
    let kinds: [(&[u8], &str); 4] = [
        (b"META-INF/", "application/java-archive"),
        (b"word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (b"xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        (b"ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ];
    // The header of each member within the kept part.
    let mut rest = head;
    while let Some(at) = rest.windows(4).position(|window| window == b"PK\x03\x04") {
        let name = rest.get(at + 30..).unwrap_or_default();
        if let Some((_, kind)) = kinds.iter().find(|(prefix, _)| name.starts_with(prefix)) {
            return Some(kind);
        }
        rest = rest.get(at + 4..).unwrap_or_default();
    }
    let is_office = head.starts_with(b"PK\x03\x04\x14\0\x06\0") || first.starts_with(b"[Content_Types].xml");
    Some(if is_office { "application/vnd.openxmlformats-officedocument" } else { "application/zip" })
}

fn elf(head: &[u8]) -> Option<&'static str> {
    if let Some(rest) = head.strip_prefix(b"\xca\xfe\xba\xbe") {
        // Java classes begin as Apple's binaries for several processors do; those have few processors.
        let version = rest.get(3)?;
        return Some(if (1..=20).contains(version) {
            "application/x-mach-o-executable"
        } else {
            "application/x-java-applet"
        });
    }
    let rest = head.strip_prefix(b"\x7fELF")?;
    let kind = match (rest.get(1)?, rest.get(12)?, rest.get(13)?) {
        (1, low, 0) => low,
        (2, 0, low) => low,
        _ => return None,
    };
    match kind {
        1 => Some("application/x-object"),
        2 => Some("application/x-executable"),
        3 => Some("application/x-sharedlib"),
        4 => Some("application/x-coredump"),
        _ => None,
    }
}

/// Scripts that name their interpreter in the first line.
fn script(head: &[u8]) -> Option<&'static str> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let has = |word: &[u8]| line.windows(word.len()).any(|window| window == word);
    let kinds: [(&[u8], &str); 8] = [
        (b"perl", "text/x-perl"),
        (b"ruby", "text/x-ruby"),
        (b"python", "text/x-python"),
        (b"awk", "text/x-awk"),
        (b"lua", "text/x-lua"),
        (b"node", "application/javascript"),
        (b"php", "text/x-php"),
        (b"sh", "text/x-shellscript"),
    ];
    kinds.iter().find(|(word, _)| has(b"bin/") && has(word)).map(|(_, kind)| *kind)
}

fn without_mark(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head)
}

fn begins(head: &[u8], word: &[u8]) -> bool {
    head.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// HTML and other markup, by its first element; spaces and comments before it are skipped.
fn markup(head: &[u8]) -> Option<&'static str> {
    let mut rest = without_mark(head);
    let mut is_xml = false;
    loop {
        rest = rest.trim_ascii_start();
        let end: &[u8] = if rest.starts_with(b"<!--") {
            b"-->"
        } else if rest.starts_with(b"<?xml ") {
            is_xml = true;
            b"?>"
        } else {
            break;
        };
        let Some(at) = rest.windows(end.len()).position(|window| window == end) else { break };
        rest = rest.get(at + end.len()..).unwrap_or_default();
    }
    if !rest.starts_with(b"<") {
        return is_xml.then_some("application/xml");
    }
    let doctype = begins(rest, b"<!doctype").then(|| rest.get(9..).unwrap_or_default().trim_ascii_start());
    if let Some(name) = doctype {
        return match () {
            () if begins(name, b"html") => Some("text/html"),
            () if begins(name, b"cross-domain-policy") => Some("text/x-cross-domain-policy"),
            () => is_xml.then_some("application/xml"),
        };
    }
    let kinds: [(&[u8], &str); 13] = [
        (b"<html", "text/html"),
        (b"<head", "text/html"),
        (b"<title", "text/html"),
        (b"<body", "text/html"),
        (b"<meta http-equiv", "text/html"),
        (b"<rss", "text/rss"),
        (b"<feed", "text/atom"),
        (b"<soap:envelope", "application/soap+xml"),
        (b"<soap-env:envelope", "application/soap+xml"),
        (b"<cross-domain-policy", "text/x-cross-domain-policy"),
        (b"<methodresponse>", "application/xml-rpc"),
        (b"<jnlp ", "application/x-java-jnlp-file"),
        (b"<script", "application/javascript"),
    ];
    let found = kinds.iter().find(|(word, _)| begins(rest, word)).map(|(_, kind)| *kind);
    match found {
        // Scripts only if a tag names one, or if the file begins with one.
        Some("application/javascript") => {
            let tag = rest.split(|byte| *byte == b'>').next().unwrap_or_default();
            let contains = tag.windows(10).any(|window| window.eq_ignore_ascii_case(b"javascript"));
            let body = rest.get(8..).unwrap_or_default().trim_ascii_start();
            (contains || begins(rest, b"<script>") && (begins(body, b"var ") || begins(body, b"function ")))
                .then_some("application/javascript")
        }
        Some(kind) => Some(kind),
        None => is_xml.then_some("application/xml"),
    }
}

/// An object with a first key and the beginning of its value, or a list with a first value.
fn json(head: &[u8]) -> Option<&'static str> {
    let head = without_mark(head).trim_ascii_start();
    let (open, rest) = head.split_first()?;
    let rest = rest.trim_ascii_start();
    let begins_value = |rest: &[u8]| {
        rest.first().is_some_and(|byte| matches!(byte, b'"' | b'[' | b'{' | b'0'..=b'9'))
            || rest.starts_with(b"true")
            || rest.starts_with(b"false")
    };
    let is = match open {
        b'{' if rest.first() == Some(&b'}') => rest.trim_ascii_end().len() == 1,
        b'{' => {
            let after = match rest.split_first()? {
                (b'"', rest) => {
                    let end = rest.iter().position(|byte| *byte == b'"').filter(|end| *end > 0)?;
                    rest.get(end + 1..)?
                }
                (first, _) if first.is_ascii_alphabetic() => {
                    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'\\');
                    rest.get(rest.iter().position(|byte| !is_word(byte))?..)?
                }
                _ => return None,
            };
            let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            begins_value(value)
        }
        b'[' if rest.first() == Some(&b']') => rest.trim_ascii_end().len() == 1,
        b'[' => match rest.split_first()? {
            (b'{' | b'[', _) => true,
            (b'"', rest) => {
                let end = rest.iter().position(|byte| *byte == b'"').filter(|end| *end > 0)?;
                rest.get(end + 1..)?.trim_ascii_start().starts_with(b",")
            }
            _ => {
                let end = rest.iter().position(|byte| matches!(byte, b',' | b']'))?;
                let value = rest.get(..end)?.trim_ascii_end();
                let is_number = !value.is_empty() && value.iter().all(|o| o.is_ascii_digit() || *o == b'.');
                rest.get(end) == Some(&b',') && (is_number || matches!(value, b"true" | b"false"))
            }
        },
        _ => false,
    };
    is.then_some("text/json")
}

/// Source code without an interpreter line.
fn program_text(head: &[u8]) -> Option<&'static str> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    if line.windows(5).any(|window| window == b"<?php") {
        return Some("text/x-php");
    }
    let text = head.trim_ascii_start();
    let scripts: [&[u8]; 4] = [b"for (;;);", b"document.write(", b"document.writeln(", b"(function() {"];
    let begins_script = scripts.iter().any(|script| text.starts_with(script));
    begins_script.then_some("application/javascript")
}

/// At least ten bytes of text, with or without a byte order mark.
fn is_text(head: &[u8]) -> bool {
    let marks: [&[u8]; 5] = [b"\xef\xbb\xbf", b"\0\0\xfe\xff", b"\xff\xfe\0\0", b"\xfe\xff", b"\xff\xfe"];
    let text = marks.iter().find_map(|mark| head.strip_prefix(*mark)).unwrap_or(head);
    let of_text = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' '..=b'~');
    text.len() >= 10 && text.iter().take(10).all(of_text)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn types_are_found_by_content() {
        let cases: [(&[u8], Option<&str>); 28] = [
            (b"plain text of more than ten", Some("text/plain")),
            (b"short", None),
            (b"\xef\xbb\xbfwith a mark", Some("text/plain")),
            (b"<!DOCTYPE html>", Some("text/html")),
            (b"\r\n <!-- x --> <HTML><body>", Some("text/html")),
            (b"<?xml version=\"1.0\"?><!DOCTYPE html PUBLIC", Some("text/html")),
            (b"<?xml version=\"1.0\"?><a/>", Some("application/xml")),
            (b"<?xml version=\"1.0\"?>\n<soap:Envelope ", Some("application/soap+xml")),
            (b"{\"a\": 1}", Some("text/json")),
            (b"{ }", Some("text/json")),
            (b"[1, 2]", Some("text/json")),
            (b"[ not a list ]", Some("text/plain")),
            (b"{ body of a function; }", Some("text/plain")),
            (b"GIF89a\x01\0", Some("image/gif")),
            (b"\x89PNG\r\n\x1a\n", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"MZ\x90\0\x03", Some("application/x-dosexec")),
            (b"%PDF-1.4", Some("application/pdf")),
            (b"PK\x03\x04\x14\0\0\0\x08\0", Some("application/zip")),
            (b"PK\x03\x04\x14\0\x06\0\x08\0", Some("application/vnd.openxmlformats-officedocument")),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0", Some("application/x-sharedlib")),
            (b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0", Some("application/x-executable")),
            (b"#!/usr/bin/env python3\n", Some("text/x-python")),
            (b"#!/bin/sh\n", Some("text/x-shellscript")),
            (b"\x1f\x8b\x08\0", Some("application/x-gzip")),
            (b"\0\0\0\x20ftypmp42", Some("video/mp4")),
            (b"\0asm\x01\0\0\0", Some("application/wasm")),
            (b"\x01\x02\x03\x04\x05\x06\x07", None),
        ];
        for (head, kind) in cases {
            assert_eq!(of(head), kind, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn members_of_archives_identify_documents() {
        let mut head = b"PK\x03\x04\x14\0\x06\0\x08\0".to_vec();
        head.resize(30, 0);
        head.extend(b"[Content_Types].xml and so on");
        let at = head.len();
        head.extend(b"PK\x03\x04\x14\0\x06\0\x08\0");
        head.resize(at + 30, 0);
        head.extend(b"xl/workbook.xml");
        assert_eq!(of(&head), Some("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"));
    }
}
