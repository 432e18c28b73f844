//! FTP's data channels: one file each, described by the control connection.

use super::tables::DATA;
use crate::file::{About, File, Files};
use crate::{Buffer, Out, Parser, Probe, Protocol, Setup, Step, Transport, record};
use std::sync::{Arc, Mutex, PoisonError};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "ftp_data",
    help: "Data channels of the File Transfer Protocol (RFC 959), as their control connections announce them.",
    transport: Transport::Tcp,
    ports: &[],
    // The content can be anything: only the control connection identifies the channel.
    probe: |_| Probe::Reject,
    parser: |setup| Box::new(Data::new(setup, Channel::default())),
    // Its table belongs to FTP.
    tables: &[],
    buffers: &[&COMMAND],
};

static COMMAND: Buffer = Buffer::number(
    "ftp_data.command",
    "Command of the control connection that a data channel serves: 0 RETR, 1 STOR, STOU or APPE; at its first bytes.",
);

/// State shared by control connection and data channel. Each is read by one worker at a time and rarely, so that the
/// lock is never contended.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel(Arc<Mutex<Known>>);

#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The command that uses the channel, and the file that it names.
    pub command: Option<(Vec<u8>, Vec<u8>)>,
    /// The file that was transferred: its name in records and its type.
    pub file: Option<(String, Option<&'static str>)>,
}

impl Channel {
    pub fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Data {
    files: Files,
    channel: Channel,
    file: Option<File>,
    begun: Option<Time>,
    has_gap: bool,
    /// Whether the type of the file is determined.
    is_known: bool,
}

impl Data {
    pub fn new(setup: &Setup, channel: Channel) -> Self {
        Self { files: Files::new(setup), channel, file: None, begun: None, has_gap: false, is_known: false }
    }
}

impl Parser for Data {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let begun = *self.begun.get_or_insert(chunk.time);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let known = self.channel.with(|known| known.command.clone());
                if let Some(number) = known.as_ref().and_then(|(command, _)| number_of(command)) {
                    for side in [Direction::Forward, Direction::Reverse] {
                        out.emit_number(&COMMAND, side, number);
                    }
                }
                let path = known.as_ref().filter(|(command, _)| names_file(command)).map(|(_, path)| path);
                let about = About {
                    source: "FTP_DATA",
                    protocol: "ftp-data",
                    direction: chunk.direction,
                    transaction: 0,
                    depth: 0,
                    filename: None,
                    path: path.map(Vec::as_slice),
                    declared: None,
                    total: None,
                };
                self.file.insert(self.files.open(begun, about))
            }
        };
        if chunk.gap > 0 {
            file.gap(chunk.gap);
            self.has_gap = true;
        }
        file.bytes(chunk.data, chunk.time, out);
        // The row of the transfer may be emitted before the channel is closed, so the type comes from the first bytes.
        if !self.is_known {
            self.is_known = file.seen() >= 2048;
            let known = (file.name(), file.kind());
            self.channel.with(|channel| channel.file = Some(known));
        }
        Step::Next
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        out.rest(Direction::Forward);
        out.rest(Direction::Reverse);
        let (command, filename) = match self.channel.with(|known| known.command.clone()) {
            Some((command, path)) => {
                let path = names_file(&command).then_some(path);
                (Some(command), path)
            }
            None => (None, None),
        };
        let is_announced = command.is_some();
        let file = self.file.take();
        let known = file.as_ref().map(|file| (file.name(), file.kind()));
        let record = record!(
            DATA,
            self.begun.unwrap_or(time),
            command = command,
            filename = filename,
            bytes = file.as_ref().map_or(0, File::seen),
            file = known.as_ref().map(|(name, _)| name.clone()),
            mime_type = known.as_ref().and_then(|(_, kind)| *kind),
        );
        if file.is_some() || is_announced {
            out.record(record);
        }
        if let Some(known) = known {
            self.channel.with(|channel| channel.file = Some(known));
        }
        if let Some(file) = file {
            // The end of the data channel is the end of the file.
            file.close(!self.has_gap, out);
        }
    }

    fn memory(&self) -> usize {
        self.file.as_ref().map_or(0, File::memory) + size_of::<Known>()
    }
}

/// The number of a command in [`COMMAND`].
fn number_of(command: &[u8]) -> Option<u64> {
    match command {
        b"RETR" => Some(0),
        b"STOR" | b"APPE" | b"STOU" => Some(1),
        _ => None,
    }
}

/// Whether a command's argument is the file that the channel carries.
fn names_file(command: &[u8]) -> bool {
    number_of(command).is_some()
}
