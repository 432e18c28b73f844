//! The body of a message: decoded, split into parts, and passed to the trackers of files.

use super::coding::Decoder;
use super::message::{Headers, content_range, parameter};
use super::multipart::{Found, Multipart};
use super::{Transaction, buffers};
use crate::file::{About, File, Files, Sight};
use crate::inflation::Allowance;
use crate::{Out, Value};
use weir_wire::{Direction, Time};

/// Maximum number of files of a message in its record: Zeek's limit.
const LISTED: usize = 15;
/// Maximum number of parts of a message that are files, as in mails: later parts are skipped.
const MAX_PARTS: usize = 1024;
/// Maximum number of files of a flow that are received in ranges and are incomplete.
const RANGES: usize = 8;

/// Files of a message, as named in its record.
#[derive(Default)]
pub(super) struct Listed {
    pub names: Vec<String>,
    pub filenames: Vec<Vec<u8>>,
    pub kinds: Vec<&'static str>,
}

impl Listed {
    pub fn memory(&self) -> usize {
        let filenames = self.filenames.iter().map(|name| size_of::<Vec<u8>>() + name.capacity());
        size_of::<Self>()
            + self.names.len() * 48
            + filenames.sum::<usize>()
            + size_of_val(self.kinds.as_slice())
    }

    fn add(&mut self, file: &File) {
        let name = file.name();
        if self.names.len() >= LISTED || self.names.contains(&name) {
            return;
        }
        self.names.push(name);
        self.filenames.extend(file.filename().map(<[u8]>::to_vec));
        self.kinds.extend(file.kind());
    }
}

/// Files of one flow that were requested in parts.
#[derive(Default)]
pub(super) struct Ranges {
    kept: Option<Box<Kept>>,
}

/// Incomplete files by source and size.
#[derive(Default)]
struct Kept {
    waiting: Vec<((Vec<u8>, u64), File)>,
}

impl Ranges {
    fn take(&mut self, key: &(Vec<u8>, u64)) -> Option<File> {
        let waiting = &mut self.kept.as_mut()?.waiting;
        let at = waiting.iter().position(|(found, _)| found == key)?;
        Some(waiting.remove(at).1)
    }

    fn keep(&mut self, key: (Vec<u8>, u64), file: File, out: &mut dyn Out) {
        if file.next() >= key.1 {
            return file.close(true, out);
        }
        let waiting = &mut self.kept.get_or_insert_default().waiting;
        if waiting.len() >= RANGES {
            waiting.remove(0).1.close(false, out);
        }
        waiting.push((key, file));
    }

    /// Closes all files.
    pub fn end(&mut self, out: &mut dyn Out) {
        for (_, file) in self.kept.take().map(|kept| kept.waiting).unwrap_or_default() {
            file.close(false, out);
        }
    }

    pub fn memory(&self) -> usize {
        let waiting = self.kept.as_ref().map_or(&[][..], |kept| &kept.waiting);
        waiting.iter().map(|((key, _), file)| key.capacity() + size_of::<File>() + file.memory()).sum()
    }
}

/// The facts about the files of a message.
pub(super) struct Described {
    pub direction: Direction,
    pub transaction: u64,
    /// Host and URI: the key of a file that is received in ranges.
    pub source: Vec<u8>,
    pub path: Vec<u8>,
    pub carrier: Vec<(&'static str, Value<'static>)>,
}

/// The body of a message.
pub(super) struct Body {
    /// The content, if it is parsed: see [`crate::Wants::passes_bodies`].
    inside: Option<Box<Inside>>,
    /// Bytes on the wire, without the framing of chunks.
    pub wire: u64,
}

struct Inside {
    decoder: Option<Decoder>,
    content: Content,
}

struct Content {
    described: Described,
    filename: Option<Vec<u8>>,
    declared: Option<Vec<u8>>,
    total: Option<u64>,
    /// Begin and end of the part of the file, and the size of the whole file.
    range: Option<(u64, u64, u64)>,
    multipart: Option<Multipart>,
    /// Number of files among its parts.
    parts: usize,
    /// Whether a part without a name has begun, and has no bytes so far.
    is_field: bool,
    file: Option<File>,
    listed: Listed,
    length: u64,
    /// Offset of the next byte of the file.
    at: u64,
}

/// The name of a file.
#[derive(Clone, Copy)]
enum Name<'a> {
    /// The sender declares it.
    Declared(&'a [u8]),
    /// The path of the request stands for it.
    Path,
    /// It has none.
    None,
}

impl Body {
    /// The body of a transaction's request or response, whose head is complete. `length`: the declared length;
    /// `allowance`: limit of the decoded content, `None` if the content is skipped.
    pub fn of(
        transaction: &Transaction,
        direction: Direction,
        is_part: bool,
        length: Option<u64>,
        allowance: Option<Allowance>,
    ) -> Box<Self> {
        let inside = allowance.map(|allowance| {
            let described = transaction.described(direction);
            Box::new(Inside::new(described, transaction.headers(direction), is_part, length, allowance))
        });
        Box::new(Self { inside, wire: 0 })
    }
}

impl Inside {
    fn new(
        described: Described,
        headers: &Headers,
        is_part: bool,
        length: Option<u64>,
        allowance: Allowance,
    ) -> Self {
        let range = headers.get(b"content-range").filter(|_| is_part).and_then(content_range);
        let range = range.and_then(|(start, end, size)| Some((start, end + 1, size?)));
        let range = range.filter(|(_, end, size)| end <= size);
        let is_whole = range.is_none_or(|(start, _, _)| start == 0);
        // Repeated fields are one list (RFC 9110, 5.3).
        let codings: Vec<&[u8]> = headers.all(b"content-encoding").filter(|_| is_whole).collect();
        let decoder = Decoder::of(&codings.join(&b", "[..]), allowance);
        let range = range.filter(|_| decoder.is_none());
        let content_type = headers.get(b"content-type");
        let named = |header: &'static [u8], name: &[u8]| headers.get(header).and_then(|v| parameter(v, name));
        let filename = named(b"content-disposition", b"filename").or_else(|| named(b"content-type", b"name"));
        let declared = content_type.map(|t| t.split(|o| *o == b';').next().unwrap_or_default());
        let total = range.map(|(_, _, size)| size).or(length.filter(|_| decoder.is_none()));
        let content = Content {
            described,
            filename: filename.filter(|name| !name.is_empty()),
            declared: declared.map(|declared| declared.trim_ascii().to_vec()),
            total,
            range,
            multipart: content_type.and_then(Multipart::of),
            parts: 0,
            is_field: false,
            file: None,
            listed: Listed::default(),
            length: 0,
            at: range.map_or(0, |(start, _, _)| start),
        };
        Self { decoder, content }
    }
}

impl Body {
    /// Takes the next bytes. Returns an error in the coding, if any.
    pub fn bytes(
        &mut self,
        bytes: &[u8],
        time: Time,
        files: &mut Files,
        ranges: &mut Ranges,
        out: &mut dyn Out,
    ) -> Option<&'static str> {
        self.wire += bytes.len() as u64;
        let Inside { decoder, content } = &mut **self.inside.as_mut()?;
        let Some(decoder) = decoder else {
            content.bytes(bytes, time, files, ranges, out);
            return None;
        };
        if decoder.is_over() || bytes.is_empty() {
            return decoder.fault();
        }
        if out.may_inflate() {
            decoder.bytes(bytes, &mut |bytes| content.bytes(bytes, time, files, ranges, out));
            out.inflated(decoder.take_made());
        } else {
            decoder.refuse();
        }
        decoder.fault()
    }

    /// Takes a gap.
    pub fn gap(&mut self, bytes: u64, time: Time, files: &mut Files) {
        self.wire = self.wire.saturating_add(bytes);
        let Some(inside) = &mut self.inside else { return };
        let Inside { decoder, content } = &mut **inside;
        content.length = content.length.saturating_add(bytes);
        let is_plain = match decoder {
            Some(decoder) => {
                decoder.lose();
                false
            }
            None => content.multipart.take().is_none() && content.range.is_none(),
        };
        if is_plain && content.file.is_none() {
            content.begin(time, files);
        }
        content.at = content.at.saturating_add(bytes);
        // The number of decoded bytes in the gap is unknown.
        if let Some(file) = content.file.as_mut().filter(|_| content.range.is_none()) {
            file.gap(bytes);
        }
    }

    /// Ends the body; `whole`: it is complete. Returns its files and its length.
    pub fn end(
        self,
        whole: bool,
        time: Time,
        files: &mut Files,
        ranges: &mut Ranges,
        out: &mut dyn Out,
    ) -> (Listed, u64) {
        let Some(mut inside) = self.inside else { return (Listed::default(), self.wire) };
        let Inside { decoder, content } = &mut *inside;
        if let Some(mut decoder) = decoder.take() {
            decoder.finish(&mut |bytes| content.bytes(bytes, time, files, ranges, out));
            files.settle(decoder.work());
        }
        if let Some(mut multipart) = content.multipart.take() {
            let ended = multipart.finish(&mut |found| content.part(found, time, files, out));
            content.close(whole && ended, ranges, out);
        } else {
            content.close(whole, ranges, out);
        }
        buffers::body(content.described.direction, b"", out);
        (std::mem::take(&mut content.listed), content.length)
    }

    pub fn memory(&self) -> usize {
        let Some(inside) = &self.inside else { return 0 };
        let Inside { decoder, content } = &**inside;
        let multipart = content.multipart.as_ref().map_or(0, Multipart::memory);
        let file = content.file.as_ref().map_or(0, File::memory);
        let listed = content.listed.names.len() * 64;
        let described = content.described.path.capacity() + content.described.source.capacity() + 256;
        let decoder = decoder.as_ref().map_or(0, Decoder::memory);
        size_of::<Inside>() + decoder + multipart + file + listed + described
    }
}

impl Content {
    fn bytes(&mut self, bytes: &[u8], time: Time, files: &mut Files, ranges: &mut Ranges, out: &mut dyn Out) {
        if bytes.is_empty() {
            return;
        }
        buffers::body(self.described.direction, bytes, out);
        self.length += bytes.len() as u64;
        if let Some(mut multipart) = self.multipart.take() {
            multipart.bytes(bytes, &mut |found| self.part(found, time, files, out));
            self.multipart = Some(multipart);
            return;
        }
        if self.file.is_none() {
            self.file = self.key().and_then(|key| ranges.take(&key));
        }
        if self.file.is_none() {
            self.begin(time, files);
        }
        if let Some(file) = &mut self.file {
            match self.range {
                Some(_) => file.bytes_at(self.at, bytes, time, out),
                None => file.bytes(bytes, time, out),
            }
        }
        self.at += bytes.len() as u64;
    }

    /// Opens the file that the whole body forms.
    fn begin(&mut self, time: Time, files: &mut Files) {
        let filename = self.filename.take();
        let name = filename.as_deref().map_or(Name::Path, Name::Declared);
        let mut file = self.open(name, self.declared.as_deref(), self.total, time, files);
        if self.range.is_none() {
            // Bytes that were lost before.
            file.gap(self.at);
        }
        self.file = Some(file);
    }

    fn key(&self) -> Option<(Vec<u8>, u64)> {
        self.range.map(|(_, _, size)| (self.described.source.clone(), size))
    }

    fn open(
        &self,
        name: Name<'_>,
        declared: Option<&[u8]>,
        total: Option<u64>,
        time: Time,
        files: &mut Files,
    ) -> File {
        let described = &self.described;
        let mut file = files.open(
            time,
            About {
                source: "HTTP",
                protocol: "http",
                direction: described.direction,
                transaction: described.transaction,
                depth: 0,
                filename: if let Name::Declared(name) = name { Some(name) } else { None },
                path: Some(described.path.as_slice()).filter(|_| !matches!(name, Name::None)),
                declared,
                total,
            },
        );
        file.show(Sight::Head);
        for (name, value) in &described.carrier {
            file.emit(name, value.clone());
        }
        if let Some((start, end, _)) = self.range {
            file.set_range(start, end - 1);
        }
        file
    }

    /// Each part is a file, as in Zeek. In a form, those without a declared file name and type are fields: they have no name, and
    /// without bytes they are no files.
    fn part(&mut self, found: Found<'_>, time: Time, files: &mut Files, out: &mut dyn Out) {
        match found {
            Found::Begin(headers) => {
                let named = headers.get(b"content-disposition").and_then(|v| parameter(v, b"filename"));
                let filename = named.filter(|name| !name.is_empty());
                let declared = headers.get(b"content-type");
                if self.parts == MAX_PARTS {
                    return;
                }
                self.parts += 1;
                self.is_field = filename.is_none() && declared.is_none();
                if !self.is_field {
                    let name = filename.as_deref().map_or(Name::Path, Name::Declared);
                    let declared = declared.map(|t| t.split(|o| *o == b';').next().unwrap_or_default());
                    self.file = Some(self.open(name, declared, None, time, files));
                }
            }
            Found::Bytes(bytes) => {
                if std::mem::take(&mut self.is_field) {
                    self.file = Some(self.open(Name::None, None, None, time, files));
                }
                if let Some(file) = &mut self.file {
                    file.bytes(bytes, time, out);
                }
            }
            Found::End => {
                self.is_field = false;
                if let Some(file) = self.file.take() {
                    self.listed.add(&file);
                    // The delimiter after the last part shows whether it was complete.
                    if file.seen() > 0 {
                        file.close(self.multipart.is_none(), out);
                    }
                }
            }
        }
    }

    fn close(&mut self, whole: bool, ranges: &mut Ranges, out: &mut dyn Out) {
        let Some(file) = self.file.take() else { return };
        self.listed.add(&file);
        match self.key() {
            Some(key) => ranges.keep(key, file, out),
            None => file.close(whole, out),
        }
    }
}
