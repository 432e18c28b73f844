//! The kind of a file in words, as rules have them: well-known beginnings of what libmagic says.

use super::kind;
use std::borrow::Cow;

/// The words for content of no known kind.
pub(super) const UNKNOWN: &str = "data";

/// Kinds and their words. A kind that is not listed stands for itself.
static WORDS: &[(&str, &str)] = &[
    ("application/zip", "Zip archive data"),
    ("application/java-archive", "Java archive data (JAR)"),
    ("application/x-gzip", "gzip compressed data"),
    ("application/x-bzip2", "bzip2 compressed data"),
    ("application/x-xz", "XZ compressed data"),
    ("application/x-lzma", "LZMA compressed data"),
    ("application/x-7z-compressed", "7-zip archive data"),
    ("application/x-rar", "RAR archive data"),
    ("application/x-tar", "POSIX tar archive"),
    ("application/vnd.ms-cab-compressed", "Microsoft Cabinet archive data"),
    ("application/x-debian-package", "Debian binary package"),
    ("application/x-rpm", "RPM"),
    ("application/x-mach-o-executable", "Mach-O"),
    ("application/x-java-applet", "compiled Java class data"),
    ("application/x-shockwave-flash", "Macromedia Flash data"),
    ("application/wasm", "WebAssembly (wasm) binary module"),
    ("application/postscript", "PostScript document text"),
    ("application/msword", "Composite Document File V2 Document"),
    ("application/x-ms-shortcut", "MS Windows shortcut"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "Microsoft Word 2007+"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "Microsoft Excel 2007+"),
    (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "Microsoft PowerPoint 2007+",
    ),
    ("application/vnd.openxmlformats-officedocument", "Microsoft OOXML"),
    ("application/vnd.oasis.opendocument.text", "OpenDocument Text"),
    ("application/vnd.oasis.opendocument.spreadsheet", "OpenDocument Spreadsheet"),
    ("application/vnd.oasis.opendocument.presentation", "OpenDocument Presentation"),
    ("application/vnd.tcpdump.pcap", "pcap capture file"),
    ("application/x-pem", "PEM certificate"),
    ("image/png", "PNG image data"),
    ("image/jpeg", "JPEG image data"),
    ("image/gif", "GIF image data"),
    ("image/tiff", "TIFF image data"),
    ("image/webp", "RIFF (little-endian) data, Web/P image"),
    ("image/x-icon", "MS Windows icon resource"),
    ("image/bmp", "PC bitmap"),
    ("audio/mpeg", "Audio file with ID3"),
    ("video/mp4", "ISO Media, MP4"),
    ("video/quicktime", "ISO Media, Apple QuickTime movie"),
    ("video/x-flv", "Macromedia Flash Video"),
    ("application/font-woff", "Web Open Font Format"),
    ("application/font-woff2", "Web Open Font Format (Version 2)"),
    ("application/x-font-ttf", "TrueType Font data"),
    ("text/rtf", "Rich Text Format data"),
    ("text/html", "HTML document"),
    ("text/json", "JSON data"),
    ("application/xml", "XML document"),
    ("text/x-shellscript", "POSIX shell script"),
    ("text/x-php", "PHP script"),
    ("text/x-python", "Python script"),
    ("text/x-perl", "Perl script"),
    ("text/x-ruby", "Ruby script"),
];

/// The kind of a file that begins like this, in words.
pub(super) fn words(head: &[u8]) -> Cow<'static, str> {
    let kind = match kind::of(head) {
        // A text may be short or begin with other letters than those of English.
        None if is_text(head) && is_utf8(head) => "text/plain",
        Some("text/plain") if !is_text(head) => return UNKNOWN.into(),
        None => return UNKNOWN.into(),
        Some(kind) => kind,
    };
    let known = WORDS.iter().find(|(known, _)| *known == kind).map_or(kind, |(_, words)| words);
    match kind {
        "application/x-dosexec" => program(head),
        "application/x-executable"
        | "application/x-sharedlib"
        | "application/x-object"
        | "application/x-coredump" => elf(head, kind),
        "application/pdf" => document(head),
        "text/plain" => text(head).into(),
        "text/html" | "application/xml" | "text/x-shellscript" | "text/x-php" | "text/x-python"
        | "text/x-perl" | "text/x-ruby" => format!("{known}, {}", text(head)).into(),
        _ => known.into(),
    }
}

/// Whether no byte is a control character other than those of texts.
fn is_text(head: &[u8]) -> bool {
    head.iter().all(|byte| !byte.is_ascii_control() || matches!(byte, 0x07..=0x0d | 0x1b))
}

/// Whether the bytes are UTF-8, of which the last character may be cut.
fn is_utf8(head: &[u8]) -> bool {
    std::str::from_utf8(head).err().is_none_or(|error| error.error_len().is_none())
}

/// A text by its encoding and its line ends.
fn text(head: &[u8]) -> String {
    let encoding = match (head.is_ascii(), is_utf8(head)) {
        (true, _) => "ASCII text",
        (false, true) => "Unicode text, UTF-8 text",
        (false, false) => "ISO-8859 text",
    };
    let lines = match (head.windows(2).any(|pair| pair == b"\r\n"), head.contains(&b'\n')) {
        (true, _) => ", with CRLF line terminators",
        (false, true) => "",
        (false, false) => ", with no line terminators",
    };
    format!("{encoding}{lines}")
}

/// A PDF with its version, `%PDF-1.5`.
fn document(head: &[u8]) -> Cow<'static, str> {
    let version = head.get(5..8).filter(|version| version.iter().all(u8::is_ascii_graphic));
    match version.and_then(|version| std::str::from_utf8(version).ok()) {
        Some(version) => format!("PDF document, version {version}").into(),
        None => "PDF document".into(),
    }
}

fn number(head: &[u8], at: usize) -> Option<u16> {
    head.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

/// A program of MS-DOS or Windows, by its headers (Microsoft's PE Format).
fn program(head: &[u8]) -> Cow<'static, str> {
    /// Offset of the address of the PE header.
    const ADDRESS: usize = 0x3c;
    /// The flag of a library.
    const LIBRARY: u16 = 0x2000;
    let read = || {
        let at = usize::from(number(head, ADDRESS)?);
        head.get(at..at + 4).filter(|mark| *mark == b"PE\0\0")?;
        let (machine, flags) = (number(head, at + 4)?, number(head, at + 22)?);
        let (form, subsystem) = (number(head, at + 24)?, number(head, at + 92));
        let form = if form == 0x20b { "PE32+" } else { "PE32" };
        let library = if flags & LIBRARY == 0 { "" } else { " (DLL)" };
        let subsystem = match subsystem {
            Some(1) => " (native)",
            Some(2) => " (GUI)",
            Some(3) => " (console)",
            _ => "",
        };
        let machine = match machine {
            0x014c => " Intel 80386",
            0x8664 => " x86-64",
            0xaa64 => " Aarch64",
            _ => "",
        };
        Some(format!("{form} executable{library}{subsystem}{machine}, for MS Windows"))
    };
    read().map_or("MS-DOS executable".into(), Cow::from)
}

/// A program of the Executable and Linkable Format.
fn elf(head: &[u8], kind: &str) -> Cow<'static, str> {
    let width = if head.get(4) == Some(&2) { "64-bit" } else { "32-bit" };
    let order = if head.get(5) == Some(&2) { "MSB" } else { "LSB" };
    let kind = match kind {
        "application/x-sharedlib" => "shared object",
        "application/x-object" => "relocatable",
        "application/x-coredump" => "core file",
        _ => "executable",
    };
    format!("ELF {width} {order} {kind}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a program of Windows.
    fn windows(flags: u16, form: u16, machine: u16) -> Vec<u8> {
        let mut head = vec![0; 256];
        head[..2].copy_from_slice(b"MZ");
        head[0x3c] = 0x80;
        head[0x80..0x84].copy_from_slice(b"PE\0\0");
        for (at, value) in [(0x84, machine), (0x96, flags), (0x98, form), (0xdc, 2)] {
            head[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        head
    }

    #[test]
    fn kinds_have_the_words_that_rules_use() {
        let elf = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9], &[2, 0, 62, 0]].concat();
        for (head, expected) in [
            (&windows(0x2102, 0x10b, 0x14c)[..], "PE32 executable (DLL) (GUI) Intel 80386, for MS Windows"),
            (&windows(0x0022, 0x20b, 0x8664), "PE32+ executable (GUI) x86-64, for MS Windows"),
            (b"MZ\x90\0", "MS-DOS executable"),
            (&elf, "ELF 64-bit LSB executable"),
            (b"%PDF-1.5\n%", "PDF document, version 1.5"),
            (b"\x89PNG\r\n\x1a\n", "PNG image data"),
            (b"PK\x03\x04\x14\0\0\0", "Zip archive data"),
            (b"\x1f\x8b\x08\0", "gzip compressed data"),
            (b"<!DOCTYPE html>\n<html>\n", "HTML document, ASCII text"),
            (b"one\r\ntwo\r\n", "ASCII text, with CRLF line terminators"),
            ("grün\n".as_bytes(), "Unicode text, UTF-8 text"),
            (b"hi", "ASCII text, with no line terminators"),
            (b"begins like a text\0", UNKNOWN),
            (b"\x01\x02\x03\x04", UNKNOWN),
        ] {
            assert_eq!(words(head), expected, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn any_cut_of_a_program_has_words() {
        let head = windows(0x2102, 0x10b, 0x14c);
        for length in 2..head.len() {
            let found = words(&head[..length]);
            assert!(
                found.starts_with("MS-DOS") || found.starts_with("PE32 executable (DLL)"),
                "{length}: {found}"
            );
        }
    }

    #[test]
    fn each_kind_is_listed_once() {
        for (kind, words) in WORDS {
            assert_eq!(WORDS.iter().filter(|(other, _)| other == kind).count(), 1, "{kind}");
            assert!(!words.is_empty());
        }
    }
}
