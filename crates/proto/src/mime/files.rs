//! A message and its parts as files.

use super::{Mail, Part, PartEvent, buffers};
use crate::file::{About, File, Files, Sight};
use crate::{Anomaly, Out, Protocol, Value};
use weir_wire::{Direction, Time};

/// The carrier of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrier {
    /// Zeek's name of the carrier.
    pub source: &'static str,
    /// The protocol of the carrier.
    pub protocol: &'static Protocol,
    /// The sending side.
    pub direction: Direction,
    /// Number of the flow's transaction, from 0.
    pub transaction: u64,
}

/// A message whose parts become files. A part is a file from its first byte on; an empty part is not.
#[derive(Debug)]
pub(crate) struct Message {
    /// The message itself.
    pub mail: Mail,
    pub(super) carrier: Carrier,
    /// The whole message.
    whole: Option<File>,
    part: Option<Part>,
    file: Option<File>,
    /// Attached messages that have begun, the innermost last; those without bytes so far are no files.
    attached: Vec<(Part, Option<File>)>,
    /// Complete files that wait for the facts of the whole message.
    done: Vec<(File, bool)>,
    /// Names of the files in records.
    pub names: Vec<String>,
}

/// Media type of a message (RFC 2046 5.2.1).
const MESSAGE: &[u8] = b"message/rfc822";
/// Maximum number of files of one message that wait for its end. Later ones are emitted at once, without these facts.
const MAX_DONE: usize = 64;

/// Maximum number of messages in each other that are files: each byte belongs to all of them.
const MAX_ATTACHED: usize = 4;

impl Message {
    pub fn new(carrier: Carrier) -> Self {
        Self {
            mail: Mail::default(),
            carrier,
            whole: None,
            part: None,
            file: None,
            attached: Vec::new(),
            done: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub fn bytes(&mut self, bytes: &[u8], files: &mut Files, time: Time, out: &mut dyn Out) {
        if !files.passes_mails() {
            let carrier = self.carrier;
            let whole =
                || open_message(&Part { media: MESSAGE.to_vec(), ..Part::default() }, carrier, files, time);
            self.whole.get_or_insert_with(whole).bytes(bytes, time, out);
        }
        self.with(files, time, out, |mail, sink| mail.bytes(bytes, sink));
    }

    /// Takes a gap.
    pub fn gap(&mut self, bytes: u64, files: &mut Files, time: Time, out: &mut dyn Out) {
        if let Some(whole) = &mut self.whole {
            whole.gap(bytes);
        }
        self.with(files, time, out, |mail, sink| mail.gap(bytes, sink));
    }

    /// Ends the message and emits its files; `carry` adds the carrier's facts to each.
    pub fn end(
        &mut self,
        is_whole: bool,
        files: &mut Files,
        time: Time,
        out: &mut dyn Out,
        carry: impl Fn(&mut File),
    ) {
        self.with(files, time, out, |mail, sink| mail.end(is_whole, sink));
        buffers::of_text(&self.mail, self.carrier, out);
        let whole = self.whole.take().map(|file| (file, is_whole));
        for (mut file, is_whole) in std::mem::take(&mut self.done).into_iter().chain(whole) {
            let head = &self.mail.head;
            let status = if is_whole { "PARSE_DONE" } else { "PARSE_ERROR" };
            file.emit("email_status", status.into());
            file.emit("email_from", head.get("from").into());
            let list = |texts: Vec<Vec<u8>>| match texts {
                texts if texts.is_empty() => Value::None,
                texts => texts.into_iter().collect(),
            };
            file.emit("email_to", list(head.addresses("to").unwrap_or_default()));
            file.emit("email_attachments", list(self.mail.attachments.clone()));
            carry(&mut file);
            file.close(is_whole, out);
        }
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let attached = self.attached.iter().filter_map(|(_, file)| file.as_ref());
        let files = self.file.iter().chain(&self.whole).chain(self.done.iter().map(|(file, _)| file));
        let files = files.chain(attached);
        let files = files.map(File::memory);
        self.mail.memory() + files.sum::<usize>() + self.names.len() * 40
    }

    fn with(
        &mut self,
        files: &mut Files,
        time: Time,
        out: &mut dyn Out,
        work: impl FnOnce(&mut Mail, &mut dyn FnMut(PartEvent<'_>)),
    ) {
        if files.passes_mails() {
            return;
        }
        let Self { mail, carrier, part, file, attached, done, names, .. } = self;
        work(mail, &mut |event| match event {
            PartEvent::Head(head) => buffers::of_head(head, *carrier, out),
            PartEvent::Begin(begun) => *part = Some(begun.clone()),
            PartEvent::Data(bytes) => {
                if let Some(part) = part.take() {
                    let opened = open(&part, *carrier, files, time);
                    names.push(opened.name());
                    *file = Some(opened);
                }
                if let Some(file) = file {
                    file.bytes(bytes, time, out);
                }
            }
            PartEvent::Gap(bytes) => {
                if let Some(file) = file {
                    file.gap(bytes);
                }
            }
            PartEvent::End(is_whole) => {
                *part = None;
                // The file may wait for the end of the message.
                if let Some(file) = file {
                    file.end_shown(out);
                }
                match file.take() {
                    Some(file) if done.len() < MAX_DONE => done.push((file, is_whole)),
                    Some(file) => file.close(is_whole, out),
                    None => {}
                }
            }
            PartEvent::MessageBegin(begun) => attached.push((begun.clone(), None)),
            PartEvent::MessageData(bytes) => {
                for (part, file) in attached.iter_mut().take(MAX_ATTACHED).filter(|_| !bytes.is_empty()) {
                    let opened = file.get_or_insert_with(|| {
                        let opened = open_message(part, *carrier, files, time);
                        names.push(opened.name());
                        opened
                    });
                    opened.bytes(bytes, time, out);
                }
            }
            PartEvent::MessageGap(bytes) => {
                attached.iter_mut().filter_map(|(_, file)| file.as_mut()).for_each(|file| file.gap(bytes));
            }
            PartEvent::MessageEnd(is_whole) => match attached.pop().and_then(|(_, file)| file) {
                Some(file) if done.len() < MAX_DONE => done.push((file, is_whole)),
                Some(file) => file.close(is_whole, out),
                None => {}
            },
            PartEvent::Anomaly(name, detail) => {
                let Carrier { protocol, direction, transaction, .. } = *carrier;
                let found = Anomaly { name, direction, detail, transaction: Some(transaction) };
                out.record(found.record(time, protocol));
            }
        });
    }
}

fn open(part: &Part, carrier: Carrier, files: &mut Files, time: Time) -> File {
    files.open(
        time,
        About {
            source: carrier.source,
            protocol: carrier.protocol.name,
            direction: carrier.direction,
            transaction: carrier.transaction,
            depth: part.depth,
            filename: part.name.as_deref(),
            path: None,
            declared: Some(&part.media),
            total: None,
        },
    )
}

/// A message as a file, beside its parts.
fn open_message(part: &Part, carrier: Carrier, files: &mut Files, time: Time) -> File {
    let mut message = open(part, carrier, files, time);
    message.set_kind("message/rfc822");
    message.show(Sight::Nothing);
    message
}
