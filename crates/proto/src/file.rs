//! Files in streams: type, size, checksums, and whether they are complete.
//!
//! A parser opens a [`File`] at the beginning of a body, an attachment or a transfer, passes the bytes as they arrive
//! (in order by [`File::bytes`], or at offsets by [`File::bytes_at`]), and closes it. The file then emits one record
//! of the table [`FILES`]. Only the first bytes of a file are kept, to determine its type, and early bytes until they
//! are next in order.

mod kind;
mod magic;
mod shown;

pub(crate) use shown::{DATA, MAGIC, MD5, MIN_SIZE, NAME, SHA1, SHA256, SIZE, Sight};

use crate::hex::hex;
use crate::inflation::Allowance;
use crate::work::looked_at;
use crate::{Hashes, Kind, Out, Privacy, Setup, Span, Table, Value, Wants, field, record};
use md5::Digest;
use shown::{Ended, Facts, Shown};
use std::collections::BTreeMap;
use weir_wire::{Direction, Time};

/// Files of all protocols.
pub static FILES: Table = Table {
    name: "files",
    help: "A file in a stream, emitted when it is complete or when no more bytes will arrive.",
    zeek: "files",
    eve: "fileinfo",
    fields: &[
        field("file", Kind::Text, "Identifier of the file in records (Zeek's fuid).").zeek("fuid"),
        field("source", Kind::Word, "Carrier of the file, in Zeek's words.").zeek("source"),
        field("protocol", Kind::Word, "Protocol that carried the file.").eve("app_proto"),
        field("transaction", Kind::Uint, "Number of the flow's transaction that carried the file, from 0.")
            .eve("fileinfo.tx_id"),
        field("depth", Kind::Uint, "Nesting depth of the file within its carrier.").zeek("depth"),
        field(
            "analyzers",
            Kind::Set(&Kind::Word),
            "Analysers that processed the file: hashes and extraction.",
        )
        .zeek("analyzers"),
        field("mime_type", Kind::Word, "Media type, determined from the content.").zeek("mime_type"),
        field("declared_type", Kind::Text, "Media type that the sender declared."),
        field("filename", Kind::Text, "File name that the sender declared.")
            .zeek("filename")
            .privacy(Privacy::Content),
        field(
            "name_or_path",
            Kind::Text,
            "File name that the sender declared, or else the path of the request.",
        )
        .eve("fileinfo.filename")
        .privacy(Privacy::Content),
        field("duration", Kind::Duration, "Time from the first byte seen to the last, in seconds.")
            .zeek("duration"),
        field("is_orig", Kind::Bool, "Whether the initiator sent the file.").zeek("is_orig"),
        field("seen_bytes", Kind::Uint, "Bytes of the file that were received.").zeek("seen_bytes"),
        field("size", Kind::Uint, "Size up to the last byte seen, in bytes, missing bytes included.")
            .eve("fileinfo.size"),
        field("total_bytes", Kind::Uint, "Size that the sender declared, in bytes.").zeek("total_bytes"),
        field(
            "missing_bytes",
            Kind::Uint,
            "Bytes of the file that are missing, because they were lost on the way to the sensor.",
        )
        .zeek("missing_bytes"),
        field("overflow_bytes", Kind::Uint, "Bytes that arrived too late to be put in order.")
            .zeek("overflow_bytes"),
        field("gaps", Kind::Bool, "Whether bytes are missing within the file.").eve("fileinfo.gaps"),
        field("state", Kind::Word, "CLOSED if the end of the file was seen, else TRUNCATED.")
            .eve("fileinfo.state"),
        field("stored", Kind::Bool, "Whether the content was extracted.").eve("fileinfo.stored"),
        field("start", Kind::Uint, "Offset of the first byte, if only a part of the file was sent.")
            .eve("fileinfo.start"),
        field("end", Kind::Uint, "Offset of the last byte, if only a part of the file was sent.")
            .eve("fileinfo.end"),
        field(
            "md5",
            Kind::Text,
            "MD5 of the content, if no byte is missing and the file is within the limits.",
        )
        .zeek("md5")
        .eve("fileinfo.md5")
        .privacy(Privacy::Fingerprint),
        field(
            "sha1",
            Kind::Text,
            "SHA-1 of the content, if no byte is missing and the file is within the limits.",
        )
        .zeek("sha1")
        .eve("fileinfo.sha1")
        .privacy(Privacy::Fingerprint),
        field(
            "sha256",
            Kind::Text,
            "SHA-256 of the content, if no byte is missing and the file is within the limits.",
        )
        .zeek("sha256")
        .eve("fileinfo.sha256")
        .privacy(Privacy::Fingerprint),
        field("extracted", Kind::Text, "Name of the extracted file on disk.")
            .zeek("extracted")
            .privacy(Privacy::Fingerprint),
        field("extracted_cutoff", Kind::Bool, "Whether the extracted file was truncated.")
            .zeek("extracted_cutoff"),
        field("extracted_size", Kind::Uint, "Bytes that were extracted, if the file was truncated.")
            .zeek("extracted_size"),
        // Facts about the carrier, which Suricata repeats in each event of a file.
        field("http_host", Kind::Text, "HTTP: host of the request.")
            .eve("http.hostname")
            .privacy(Privacy::Name),
        field("http_url", Kind::Text, "HTTP: URI of the request.").eve("http.url").privacy(Privacy::Url),
        field("http_agent", Kind::Text, "HTTP: User-Agent of the request.")
            .eve("http.http_user_agent")
            .privacy(Privacy::Content),
        field("http_content_type", Kind::Text, "HTTP: Content-Type of the response, without parameters.")
            .eve("http.http_content_type"),
        field("http_referrer", Kind::Text, "HTTP: Referer of the request.")
            .eve("http.http_refer")
            .privacy(Privacy::Url),
        field("http_method", Kind::Text, "HTTP: method of the request.").eve("http.http_method"),
        field("http_protocol", Kind::Text, "HTTP: version of the request.").eve("http.protocol"),
        field("http_status", Kind::Uint, "HTTP: status code of the response.").eve("http.status"),
        field("http_redirect", Kind::Text, "HTTP: Location of the response.")
            .eve("http.redirect")
            .privacy(Privacy::Url),
        field("http_length", Kind::Uint, "HTTP: bytes of the body so far.").eve("http.length"),
        field("http_range", Kind::Text, "HTTP: Content-Range header of the response.")
            .eve("http.content_range.raw"),
        field("http_range_start", Kind::Uint, "HTTP: offset of the first byte in the response's range.")
            .eve("http.content_range.start"),
        field("http_range_end", Kind::Uint, "HTTP: offset of the last byte in the response's range.")
            .eve("http.content_range.end"),
        field("http_range_size", Kind::Uint, "HTTP: size of the whole resource, from Content-Range.")
            .eve("http.content_range.size"),
        field("smb_id", Kind::Uint, "SMB: number of the transfer among the exchanges of the connection.")
            .eve("smb.id"),
        field("smb_dialect", Kind::Text, "SMB: negotiated dialect.").eve("smb.dialect"),
        field("smb_command", Kind::Word, "SMB: name of the command.").eve("smb.command"),
        field("smb_status", Kind::Word, "SMB: NT status of the transfer, by name.").eve("smb.status"),
        field("smb_status_code", Kind::Word, "SMB: NT status of the transfer, in hexadecimal digits.")
            .eve("smb.status_code"),
        field("smb_session", Kind::Uint, "SMB: session identifier.").eve("smb.session_id"),
        field("smb_tree", Kind::Uint, "SMB: tree identifier.").eve("smb.tree_id"),
        field("smb_filename", Kind::Text, "SMB: name of the file.")
            .eve("smb.filename")
            .privacy(Privacy::Content),
        field("smb_share", Kind::Text, "SMB: path of the share.").eve("smb.share").privacy(Privacy::Content),
        field("smb_fuid", Kind::Text, "SMB: identifier of the open file.").eve("smb.fuid"),
        field("helo", Kind::Text, "SMTP: name in the client's HELO or EHLO.")
            .eve("smtp.helo")
            .privacy(Privacy::Name),
        field("mail_from", Kind::Text, "SMTP: sender in MAIL FROM.")
            .eve("smtp.mail_from")
            .privacy(Privacy::Mail),
        field("rcpt_to", Kind::List(&Kind::Text), "SMTP: recipients in RCPT TO.")
            .eve("smtp.rcpt_to")
            .privacy(Privacy::Mail),
        field("email_status", Kind::Word, "Mail: result of parsing the message.").eve("email.status"),
        field("email_from", Kind::Text, "Mail: From of the header.").eve("email.from").privacy(Privacy::Mail),
        field("email_to", Kind::List(&Kind::Text), "Mail: addresses of the To field.")
            .eve("email.to")
            .privacy(Privacy::Mail),
        field("email_attachments", Kind::List(&Kind::Text), "Mail: names of the attachments.")
            .eve("email.attachment")
            .privacy(Privacy::Content),
    ],
};

/// The first field of [`FILES`] that the carrier's parser sets.
const CARRIER: &str = "http_host";

/// Number of first bytes that are kept to determine the type: all signatures are within them, except those of disk
/// images.
const HEAD: usize = 2048;
/// Maximum number of bytes of one file that wait for earlier ones.
const HELD: usize = 1 << 20;
/// Maximum number of pieces of one file that wait for earlier ones.
const PIECES: usize = 256;
/// Maximum length of a name; names in file systems have at most 255 bytes, paths 4,096.
const MAX_NAME: usize = 4096;

/// Creates the files of one flow and their names.
#[derive(Debug)]
pub(crate) struct Files {
    flow: u64,
    made: u32,
    wants: Wants,
    /// Bytes that the next compressed body may grow to, whatever its length.
    credit: u64,
}

/// The facts about a file at its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// The carrier in Zeek's words: `HTTP`, `SMTP`, `FTP_DATA`, `SMB`.
    pub source: &'static str,
    /// The carrier in Suricata's words: `http`, `smtp`, `ftp-data`, `smb`.
    pub protocol: &'static str,
    /// The sending side.
    pub direction: Direction,
    /// Number of the flow's transaction, from 0.
    pub transaction: u64,
    /// Depth within the carrier; for a part of a mail, the depth of the part.
    pub depth: u64,
    /// The declared name.
    pub filename: Option<&'a [u8]>,
    /// The requested path, if no name is declared.
    pub path: Option<&'a [u8]>,
    /// The declared type.
    pub declared: Option<&'a [u8]>,
    /// The declared size.
    pub total: Option<u64>,
}

impl Files {
    pub fn new(setup: &Setup) -> Self {
        Self { flow: setup.flow, made: 0, wants: setup.wants, credit: setup.wants.inflation.free.into() }
    }

    /// See [`Wants::passes_mails`].
    pub fn passes_mails(&self) -> bool {
        self.wants.passes_mails
    }

    /// The limit for the next body when its coding is undone; `None` if bodies are skipped, see
    /// [`Wants::passes_bodies`].
    pub fn allowance(&self) -> Option<Allowance> {
        let ratio = self.wants.inflation.ratio.into();
        (!self.wants.passes_bodies).then_some(Allowance { credit: self.credit, ratio })
    }

    /// Accounts for a coded body that has ended: bytes before and after decoding.
    pub fn settle(&mut self, work: (u64, u64)) {
        let before = Allowance { credit: self.credit, ratio: self.wants.inflation.ratio.into() };
        self.credit = before.after(work).credit;
    }

    /// Creates a file, before its first bytes.
    pub fn open(&mut self, time: Time, about: About<'_>) -> File {
        self.made += 1;
        let cut = |bytes: Option<&[u8]>| bytes.map(|o| o.get(..MAX_NAME).unwrap_or(o).to_vec());
        let carried = FILES.fields.iter().rev().take_while(|f| f.name != CARRIER).count() + 1;
        File {
            id: mixed(self.flow ^ mixed(self.made.into())),
            source: about.source,
            protocol: about.protocol,
            direction: about.direction,
            transaction: about.transaction,
            depth: about.depth,
            filename: cut(about.filename),
            path: cut(about.path),
            declared: cut(about.declared),
            total: about.total,
            range: None,
            at: Span::default(),
            carrier: Value::absent(carried),
            wants: self.wants,
            begun: time,
            last: time,
            next: 0,
            seen: 0,
            missing: 0,
            late: 0,
            head: Vec::new(),
            kind: None,
            sums: self.wants.hashes.any().then(|| Box::new(Sums::of(self.wants.hashes))),
            held: BTreeMap::new(),
            held_bytes: 0,
            shown: Shown::default(),
        }
    }
}

/// The name of a file in records and on disk, in Zeek's form: an F and digits of base 62.
pub fn file_name(file: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut name = String::from("F");
    let mut rest = file;
    loop {
        name.push(DIGITS.get((rest % 62) as usize).map_or('0', |digit| char::from(*digit)));
        rest /= 62;
        if rest == 0 {
            return name;
        }
    }
}

/// The file with that name: see [`file_name`].
pub fn file_id(name: &[u8]) -> Option<u64> {
    let (b'F', digits) = name.split_first()? else { return None };
    digits.iter().rev().try_fold(0_u64, |id, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            b'a'..=b'z' => digit - b'a' + 36,
            _ => return None,
        };
        id.checked_mul(62)?.checked_add(u64::from(value))
    })
}

/// Spreads a number over all bits (the last step of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut n = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[derive(Clone, Debug, Default)]
struct Sums {
    md5: Option<md5::Md5>,
    sha1: Option<sha1::Sha1>,
    sha256: Option<sha2::Sha256>,
}

impl Sums {
    /// The requested hashes.
    fn of(hashes: Hashes) -> Self {
        Self {
            md5: hashes.md5.then(md5::Md5::default),
            sha1: hashes.sha1.then(sha1::Sha1::default),
            sha256: hashes.sha256.then(sha2::Sha256::default),
        }
    }

    /// The checksums of all bytes so far.
    fn hex(self) -> Hex {
        Hex {
            md5: self.md5.map(|sum| hex(&sum.finalize())),
            sha1: self.sha1.map(|sum| hex(&sum.finalize())),
            sha256: self.sha256.map(|sum| hex(&sum.finalize())),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.md5 {
            sum.update(bytes);
        }
        if let Some(sum) = &mut self.sha1 {
            sum.update(bytes);
        }
        if let Some(sum) = &mut self.sha256 {
            sum.update(bytes);
        }
    }
}

/// Checksums in lower-case hexadecimal digits.
#[derive(Debug, Default)]
struct Hex {
    md5: Option<String>,
    sha1: Option<String>,
    sha256: Option<String>,
}

/// A file that is being received.
#[derive(Debug)]
pub(crate) struct File {
    id: u64,
    source: &'static str,
    protocol: &'static str,
    direction: Direction,
    transaction: u64,
    depth: u64,
    filename: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    declared: Option<Vec<u8>>,
    total: Option<u64>,
    range: Option<(u64, u64)>,
    at: Span,
    carrier: Vec<Value<'static>>,
    wants: Wants,
    begun: Time,
    last: Time,
    /// Offset of the next byte in order.
    next: u64,
    seen: u64,
    missing: u64,
    late: u64,
    head: Vec<u8>,
    /// The type by content, once it was determined.
    kind: Option<Option<&'static str>>,
    /// `None` if a part of the file is missing, or if no hash was requested.
    sums: Option<Box<Sums>>,
    /// Early bytes, by offset.
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    shown: Shown,
}

impl File {
    /// The name of the file in records.
    pub fn name(&self) -> String {
        file_name(self.id)
    }

    /// The declared file name.
    pub fn filename(&self) -> Option<&[u8]> {
        self.filename.as_deref()
    }

    /// Bytes seen so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Offset of the next byte in order.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Declares that only a part of a larger file is sent: bytes from `start` up to but not including `end`.
    pub fn set_range(&mut self, start: u64, end: u64) {
        self.range = Some((start, end));
    }

    /// Sets a fact about the carrier that Suricata repeats in each event: a field of [`FILES`] from `http_host` on.
    pub fn emit(&mut self, name: &str, value: Value<'_>) {
        let own = FILES.fields.len() - self.carrier.len();
        let at = FILES.fields.iter().skip(own).position(|field| field.name == name);
        debug_assert!(at.is_some(), "{name}");
        if let Some(place) = at.and_then(|at| self.carrier.get_mut(at)) {
            *place = value.into_owned();
        }
    }

    /// Sets what rules see of the file, before its first bytes.
    pub fn show(&mut self, sight: Sight) {
        self.shown.sight = sight;
    }

    /// Takes note that rules see no further bytes of the file: it has ended, and is closed later.
    pub fn end_shown(&mut self, out: &mut dyn Out) {
        let name = self.filename.as_deref().or(self.path.as_deref());
        self.shown.end(Facts { name, side: self.direction, seen: self.seen }, out);
    }

    /// Emits what rules see of the end of the file.
    fn close_shown(&mut self, is_whole: bool, sums: &Hex, out: &mut dyn Out) {
        let name = self.filename.as_deref().or(self.path.as_deref());
        let facts = Facts { name, side: self.direction, seen: self.seen };
        self.shown.close(facts, Ended { size: self.next, is_whole, sums }, out);
    }

    /// Declares the type where the protocol determines it: the content is not asked.
    pub fn set_kind(&mut self, kind: &'static str) {
        self.kind = Some(Some(kind));
    }

    /// The type by content, from the bytes seen so far if these are few.
    pub fn kind(&self) -> Option<&'static str> {
        self.kind.unwrap_or_else(|| kind::of(&self.head))
    }

    /// Takes the next bytes.
    pub fn bytes(&mut self, bytes: &[u8], time: Time, out: &mut dyn Out) {
        if bytes.is_empty() {
            return;
        }
        self.last = time;
        looked_at(bytes.len());
        let offset = self.next;
        let name = self.filename.as_deref().or(self.path.as_deref());
        self.shown.bytes(Facts { name, side: self.direction, seen: self.seen }, bytes, out);
        self.seen += bytes.len() as u64;
        self.next = self.next.saturating_add(bytes.len() as u64);
        if self.kind.is_none() {
            let room = HEAD.saturating_sub(self.head.len());
            self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            if self.head.len() >= HEAD {
                self.decide();
            }
        }
        if self.wants.content && self.seen == bytes.len() as u64 {
            out.file(self.id, out.both().reached());
        }
        let is_kept = !self.wants.content || out.content(self.id, offset, bytes);
        let is_beyond = self.next > self.wants.max;
        // A checksum beyond the limits would not be emitted.
        if !is_kept || is_beyond {
            self.sums = None;
        }
        if let Some(sums) = &mut self.sums {
            sums.update(bytes);
        }
    }

    /// Skips lost bytes; the file continues after them.
    pub fn gap(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.missing = self.missing.saturating_add(bytes);
        self.next = self.next.saturating_add(bytes);
        self.sums = None;
        self.shown.gap();
        self.decide();
    }

    /// Takes bytes at an offset. Early bytes wait as long as there is room; then the bytes that they wait for are
    /// taken as lost.
    pub fn bytes_at(&mut self, offset: u64, bytes: &[u8], time: Time, out: &mut dyn Out) {
        let (mut at, mut rest) = (offset, bytes);
        self.last = time;
        while !rest.is_empty() {
            if at < self.next {
                // Retransmitted or late bytes.
                let old = usize::try_from(self.next - at).unwrap_or(usize::MAX).min(rest.len());
                if self.missing > 0 {
                    self.late += old as u64;
                }
                (at, rest) = (at + old as u64, rest.get(old..).unwrap_or_default());
            } else if at == self.next {
                let room = self.held.first_key_value().map_or(u64::MAX, |(first, _)| first - at);
                let fit = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
                let (now, later) = rest.split_at_checked(fit).unwrap_or((rest, &[]));
                self.bytes(now, time, out);
                (at, rest) = (at + fit as u64, later);
                self.release(time, out);
            } else {
                let (done, kept) = self.hold(at, rest);
                if !kept {
                    self.skip(time, out);
                }
                (at, rest) = (at + done as u64, rest.get(done..).unwrap_or_default());
            }
        }
    }

    /// Keeps early bytes that are new and fit. Returns how many were handled, and whether there is room for more.
    fn hold(&mut self, at: u64, bytes: &[u8]) -> (usize, bool) {
        let before = self.held.range_mut(..=at).next_back();
        let covered = before.as_ref().map_or(0, |(start, piece)| **start + piece.len() as u64);
        if covered > at {
            let old = usize::try_from(covered - at).unwrap_or(usize::MAX);
            return (old.min(bytes.len()), true);
        }
        let room = HELD.saturating_sub(self.held_bytes);
        let is_next = covered == at && before.is_some();
        if room == 0 || (!is_next && self.held.len() >= PIECES) {
            return (0, false);
        }
        let until = self.held.range(at..).next().map_or(u64::MAX, |(start, _)| *start - at);
        let fit = room.min(usize::try_from(until).unwrap_or(usize::MAX)).min(bytes.len());
        let taken = bytes.get(..fit).unwrap_or_default();
        looked_at(fit);
        match self.held.range_mut(..=at).next_back().filter(|_| is_next) {
            Some((_, piece)) => piece.extend_from_slice(taken),
            None => {
                self.held.insert(at, taken.to_vec());
            }
        }
        self.held_bytes += fit;
        (fit, true)
    }

    /// Takes the waiting bytes that are next in order.
    fn release(&mut self, time: Time, out: &mut dyn Out) {
        while let Some(piece) = self.held.remove(&self.next) {
            self.held_bytes -= piece.len();
            self.bytes(&piece, time, out);
        }
    }

    /// Stops waiting for the bytes before the held pieces.
    fn skip(&mut self, time: Time, out: &mut dyn Out) {
        if let Some((first, _)) = self.held.first_key_value() {
            self.gap(first - self.next);
            self.release(time, out);
        }
    }

    fn decide(&mut self) {
        if self.kind.is_none() {
            self.kind = Some(kind::of(&self.head));
            self.head = Vec::new();
        }
    }

    /// Closes the file. `whole`: the carrier reached its end.
    pub fn close(mut self, whole: bool, out: &mut dyn Out) {
        while !self.held.is_empty() {
            self.skip(self.last, out);
        }
        self.decide();
        self.end_shown(out);
        let is_whole = whole && self.missing == 0;
        let sums = self.sums.take().map(|sums| sums.hex()).unwrap_or_default();
        self.close_shown(is_whole, &sums, out);
        if !out.takes(&FILES) {
            return;
        }
        let Hex { md5, sha1, sha256 } = sums;
        let Wants { hashes, content, .. } = self.wants;
        let done =
            [("MD5", hashes.md5), ("SHA1", hashes.sha1), ("SHA256", hashes.sha256), ("EXTRACT", content)];
        let analyzers: Value<'_> = done.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
        let shown = self.filename.as_ref().or(self.path.as_ref());
        let carrier = std::mem::take(&mut self.carrier);
        out.record(
            record!(
                FILES,
                self.begun,
                file = self.name(),
                source = self.source,
                protocol = self.protocol,
                transaction = self.transaction,
                depth = self.depth,
                analyzers = analyzers,
                mime_type = self.kind.flatten(),
                declared_type = self.declared.as_ref(),
                filename = self.filename.as_ref(),
                name_or_path = shown,
                duration = Value::Duration(self.last.since(self.begun)),
                is_orig = self.direction == Direction::Forward,
                seen_bytes = self.seen,
                size = self.next,
                total_bytes = self.total,
                missing_bytes = self.missing,
                overflow_bytes = self.late,
                gaps = self.missing > 0,
                state = if is_whole { "CLOSED" } else { "TRUNCATED" },
                stored = self.wants.content,
                start = self.range.map(|(start, _)| start),
                end = self.range.map(|(_, end)| end),
                md5 = md5,
                sha1 = sha1,
                sha256 = sha256,
                // The writer of the content sets this field.
                extracted = Value::None,
                extracted_cutoff = Value::None,
                extracted_size = Value::None,
                ..carrier
            )
            .over(self.at),
        );
    }

    /// Sets the bytes that its record stands for. Without, they are those of the message in which it is closed.
    pub fn place(&mut self, at: Span) {
        self.at = at;
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::capacity);
        let held: usize = self.held.values().map(|piece| piece.capacity() + 48).sum();
        let sums = if self.sums.is_some() { size_of::<Sums>() } else { 0 };
        let carrier = self.carrier.capacity() * size_of::<Value<'_>>();
        self.head.capacity()
            + held
            + sums
            + carrier
            + of(&self.filename)
            + of(&self.path)
            + of(&self.declared)
            + self.shown.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Asked;
    use crate::laws::Collected;
    use std::net::{IpAddr, Ipv4Addr};

    fn files() -> Files {
        let host = (IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
        let wants = Wants { hashes: Hashes::ALL, content: true, ..Wants::default() };
        Files::new(&Setup { flow: 7, initiator: host, responder: host, ip_proto: 6, wants })
    }

    fn open() -> File {
        let about = About {
            source: "HTTP",
            protocol: "http",
            direction: Direction::Reverse,
            transaction: 0,
            depth: 1,
            filename: Some(b"a.txt"),
            path: None,
            declared: None,
            total: None,
        };
        files().open(Time(5), about)
    }

    #[test]
    fn a_file_in_order_has_the_published_checksums() {
        let (mut file, mut out) = (open(), Collected::default());
        for piece in [&b"abc"[..], b"", b"dbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"] {
            file.bytes(piece, Time(9), &mut out);
        }
        assert_eq!(file.kind(), Some("text/plain"));
        file.close(true, &mut out);
        let [record] = out.records.as_slice() else { panic!() };
        // FIPS 180's example of 448 bits; MD5 by md5sum.
        let sha256 = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(*record.get("sha256"), sha256.into());
        assert_eq!(*record.get("sha1"), "84983e441c3bd26ebaae4aa1f95129e5e54670f1".into());
        assert_eq!(*record.get("md5"), "8215ef0796a20bcaaae116d3876c664a".into());
        assert_eq!(*record.get("state"), "CLOSED".into());
        assert_eq!(*record.get("seen_bytes"), 56u64.into());
        assert_eq!(*record.get("duration"), Value::Duration(4));
    }

    /// Parts in any order, also overlapping ones, form one file.
    #[test]
    fn parts_in_any_order_form_one_file() {
        let text: Vec<u8> = (0..5000u32).flat_map(|n| n.to_le_bytes()).collect();
        let emitted = |order: &[std::ops::Range<usize>]| {
            let (mut file, mut out) = (open(), Collected::default());
            for part in order {
                file.bytes_at(part.start as u64, &text[part.clone()], Time(9), &mut out);
            }
            file.close(true, &mut out);
            (out.records, out.content)
        };
        let whole = emitted(std::slice::from_ref(&(0..20000)));
        assert_eq!(*whole.0[0].get("state"), "CLOSED".into());
        assert_eq!(whole.1[0].1, text);
        assert_eq!(whole, emitted(&[10000..20000, 0..10000]));
        assert_eq!(whole, emitted(&[15000..20000, 5000..12000, 10000..16000, 0..7000]));
        assert_eq!(whole, emitted(&[5000..6000, 4000..9000, 100..200, 50..4001, 0..50, 8000..20000]));
        let single: Vec<_> = (0..20000).rev().step_by(100).map(|at| at - 99..at + 1).collect();
        assert_eq!(whole, emitted(&single));
    }

    /// Waiting bytes are limited. What they wait for is then lost, independent of how the parts were cut.
    #[test]
    fn waiting_bytes_are_bounded() {
        let text = vec![b'x'; 3 * HELD];
        let mut all = Vec::new();
        for size in [text.len(), 4096, 1000] {
            let (mut file, mut out) = (open(), Collected::default());
            for (n, piece) in text.chunks(size).enumerate() {
                file.bytes_at((10 + n * size) as u64, piece, Time(9), &mut out);
                assert!(file.memory() < 3 * HELD);
            }
            file.bytes_at(0, b"too late", Time(9), &mut out);
            file.close(true, &mut out);
            assert_eq!(*out.records[0].get("missing_bytes"), 10u64.into());
            assert_eq!(*out.records[0].get("overflow_bytes"), 8u64.into());
            assert_eq!(*out.records[0].get("state"), "TRUNCATED".into());
            assert!(out.records[0].get("md5").is_none());
            all.push((out.records, out.content));
        }
        assert!(all.iter().all(|emitted| *emitted == all[0]));
    }

    /// The values of a buffer that a file emits whose pieces come in this manner.
    fn shown(name: &str, work: impl FnOnce(&mut File, &mut Collected)) -> Vec<Vec<u8>> {
        let mut out = Collected::default();
        out.asked = Asked::of([], [&NAME, &MAGIC, &DATA]);
        let mut file = open();
        work(&mut file, &mut out);
        file.close(true, &mut out);
        let values = out.buffers.into_iter().filter(|(buffer, ..)| buffer.name == name);
        values.map(|(_, _, bytes)| bytes).collect()
    }

    #[test]
    fn rules_see_the_first_bytes_of_a_file_once() {
        let long = vec![b'x'; 150 << 10];
        for size in [1 << 10, 5000, long.len()] {
            let seen = shown("file.data", |file, out| {
                long.chunks(size).for_each(|piece| file.bytes(piece, Time(6), out));
            });
            assert_eq!(seen, [long[..100 << 10].to_vec()], "in pieces of {size}");
        }
        let cut = |name: &str| {
            shown(name, |file, out| {
                file.bytes(b"before", Time(6), out);
                file.gap(10);
                file.bytes(b"after", Time(7), out);
            })
        };
        assert_eq!(cut("file.data"), [b"before"]);
        let headless = |name: &str| {
            shown(name, |file, out| {
                file.gap(10);
                file.bytes(b"%PDF-1.5", Time(6), out);
            })
        };
        assert_eq!(
            (headless("file.magic"), headless("file.data")),
            (vec![b"data".to_vec()], vec![b"%PDF-1.5".to_vec()])
        );
        let hidden = shown("file.data", |file, out| {
            file.show(Sight::Head);
            file.bytes(b"body", Time(6), out);
        });
        assert!(hidden.is_empty());
        assert!(shown("file.magic", |_, _| {}).is_empty(), "a file without bytes");
    }

    #[test]
    fn rules_see_size_and_checksums_at_the_end_of_a_file() {
        let emitted = |whole: bool, gap: u64| {
            let mut out = Collected::default();
            out.asked = Asked::all();
            let mut file = open();
            file.bytes(b"abc", Time(6), &mut out);
            file.gap(gap);
            file.close(whole, &mut out);
            [out.buffers, out.again].concat()
        };
        let of = |buffers: &[(&'static crate::Buffer, Direction, Vec<u8>)]| -> Vec<(&'static str, String)> {
            let text = |buffer: &crate::Buffer, bytes: &[u8]| match buffer.is_number {
                true => u64::from_be_bytes(bytes.try_into().unwrap()).to_string(),
                false => String::from_utf8(bytes.to_vec()).unwrap(),
            };
            buffers.iter().map(|(buffer, _, bytes)| (buffer.name, text(buffer, bytes))).collect()
        };
        let beginning = || {
            let values = [("file.name", "a.txt"), ("file.magic", "ASCII text, with no line terminators")];
            values.into_iter().chain([("file.data", "abc")])
        };
        // RFC 1321 A.5, RFC 3174 7.3 and FIPS 180-2 B.1.
        let end = [
            ("file.least_size", "3"),
            ("file.size", "3"),
            ("file.md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("file.sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("file.sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ];
        let whole: Vec<_> =
            beginning().chain(end).chain(beginning()).map(|(name, text)| (name, text.to_owned())).collect();
        let seen = of(&emitted(true, 0));
        assert_eq!(seen, whole);
        let cut = |size: &'static str| -> Vec<_> {
            let least = std::iter::once(("file.least_size", size));
            beginning().chain(least).chain(beginning()).map(|(name, text)| (name, text.to_owned())).collect()
        };
        assert_eq!((of(&emitted(false, 0)), of(&emitted(true, 4))), (cut("3"), cut("7")));
    }

    #[test]
    fn names_have_zeeks_form_and_are_unique() {
        let mut files = files();
        let about = About {
            source: "SMB",
            protocol: "smb",
            direction: Direction::Forward,
            transaction: 0,
            depth: 0,
            filename: None,
            path: None,
            declared: None,
            total: None,
        };
        let names: Vec<_> = (0..100).map(|_| files.open(Time(0), about).name()).collect();
        assert!(names.iter().all(|n| n.starts_with('F') && n.chars().all(|c| c.is_ascii_alphanumeric())));
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 100);
    }
}
