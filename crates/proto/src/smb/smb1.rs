//! Messages of version 1 (MS-CIFS, MS-SMB).

use super::names::{self, guid, u16_at, u32_at, u64_at, wide};
use super::waiting::Key;
use super::{
    At, Begun, Fid, MAX_OPEN, Open, Request, Rest, SMB_MAPPING, Smb, Tree, VERSION, What, bounded,
    hand_on_path, is_of_pipes, shown,
};
use crate::early::begin_transaction;
use crate::{Out, Span, Value, record};
use weir_wire::Time;
use weir_wire::stream::Chunk;

const HEADER: usize = 32;
/// Maximum number of commands that one message may chain.
const MAX_CHAIN: usize = 8;
const RESPONSE: u8 = 0x80;
const UNICODE: u16 = 0x8000;
const NT_STATUS: u16 = 0x4000;

const CLOSE: u8 = 0x04;
const DELETE: u8 = 0x06;
const RENAME: u8 = 0x07;
const READ: u8 = 0x2e;
const WRITE: u8 = 0x2f;
const TRANSACTION: u8 = 0x25;
const TREE_DISCONNECT: u8 = 0x71;
const NEGOTIATE: u8 = 0x72;
const SESSION_SETUP: u8 = 0x73;
const LOGOFF: u8 = 0x74;
const TREE_CONNECT: u8 = 0x75;
const NT_CREATE: u8 = 0xa2;

/// Key of a request to negotiate among those that wait, without the number of its exchange.
pub(super) const NEGOTIATE_KEY: u16 = NEGOTIATE as u16 | OLD;
/// Marks the commands of this version among those that wait.
const OLD: u16 = 0x100;

/// Whether a key is that of a command of this version.
pub(super) fn is_old(key: Key) -> bool {
    matches!(key, Key::Message(_, command) if command & OLD != 0)
}

/// The mailslot of the browser protocol (MS-BRWS, 2.1).
const BROWSER: &[u8] = b"\\MAILSLOT\\BROWSE";
/// The function of a transaction that writes a call to a pipe and reads its response (MS-CIFS, 2.2.5.6).
const PIPE_TRANSCEIVE: u16 = 0x26;
/// STATUS_BUFFER_OVERFLOW: the response has only a part of the data, which is valid.
const OVERFLOW: u32 = 0x8000_0005;

/// Commands after which another may follow in one message.
const CHAINING: [u8; 8] = [0x24, 0x2d, READ, WRITE, SESSION_SETUP, LOGOFF, TREE_CONNECT, NT_CREATE];

/// The modes of a write whose data begins with the length of the message (MS-CIFS, 2.2.4.43.1): raw, and the first piece.
const BEGINS_RAW: u16 = 0xc;

/// The present bytes of a part of a message.
fn begun(message: &[u8], offset: u16, bytes: u16) -> &[u8] {
    let rest = message.get(usize::from(offset)..).unwrap_or_default();
    rest.get(..usize::from(bytes)).unwrap_or(rest)
}

/// The present bytes of read or written data; `None` if a gap precedes them.
fn begun_data<'a>(message: &'a [u8], offset: u16, bytes: usize, rest: &Rest) -> Option<&'a [u8]> {
    let data = message.get(usize::from(offset)..);
    let data = if rest.is_cut { data? } else { data.unwrap_or_default() };
    Some(data.get(..bytes).unwrap_or(data))
}

/// A command in a message.
struct Block<'a> {
    command: u8,
    words: &'a [u8],
    data: &'a [u8],
    /// Position of the data in the message.
    begin: usize,
}

impl<'a> Block<'a> {
    /// Reads the block at a position of a message, whose data may have its beginning only.
    fn read(message: &'a [u8], at: usize, command: u8) -> Option<Self> {
        let bytes_of_words = 2 * usize::from(*message.get(at)?);
        let words = message.get(at + 1..)?.get(..bytes_of_words)?;
        let bytes = usize::from(u16_at(message, at + 1 + bytes_of_words)?);
        let begin = at + 3 + bytes_of_words;
        let data = message.get(begin..)?;
        Some(Self { command, words, data: data.get(..bytes).unwrap_or(data), begin })
    }
}

struct Header {
    status: u32,
    flags: u16,
    tree: u16,
    user: u16,
    id: u64,
    is_response: bool,
}

impl Header {
    fn read(message: &[u8]) -> Option<Self> {
        let process = u64::from(u16_at(message, 26)?);
        Some(Self {
            status: u32_at(message, 5)?,
            flags: u16_at(message, 10)?,
            tree: u16_at(message, 24)?,
            user: u16_at(message, 28)?,
            id: process << 16 | u64::from(u16_at(message, 30)?),
            is_response: message.get(9)? & RESPONSE != 0,
        })
    }
}

/// The texts in a block's data.
struct Texts<'a> {
    message: &'a [u8],
    at: usize,
    is_wide: bool,
}

impl Texts<'_> {
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_wide {
            // UTF-16 text begins at an even offset.
            self.at = self.at.next_multiple_of(2);
            let rest = self.message.get(self.at..).filter(|rest| rest.len() >= 2)?;
            let end = rest.chunks_exact(2).position(|pair| pair == [0, 0]);
            let bytes = end.map_or(rest.len(), |end| end * 2);
            self.at += bytes + 2;
            return Some(wide(rest.get(..bytes)?));
        }
        self.narrow()
    }

    fn narrow(&mut self) -> Option<Vec<u8>> {
        let rest = self.message.get(self.at..).filter(|rest| !rest.is_empty())?;
        let bytes = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        self.at += bytes + 1;
        rest.get(..bytes).map(<[u8]>::to_vec)
    }
}

/// The exchange with which a transfer begins.
fn old_begun(header: &Header, command: u8, chunk: &Chunk<'_>) -> Begun {
    Begun {
        direction: chunk.direction,
        time: chunk.time,
        command: names::old_command(command),
        session: header.user.into(),
        tree: header.tree.into(),
    }
}

/// The identifier of a file as stored, and as displayed.
fn fid(number: u16) -> Fid {
    let mut fid = [0; 16];
    if let Some(begin) = fid.first_chunk_mut() {
        *begin = number.to_le_bytes();
    }
    fid
}

impl Smb {
    /// Takes a message with the commands that it chains.
    pub(super) fn old(&mut self, message: &[u8], rest: &mut Rest, chunk: &Chunk<'_>, out: &mut dyn Out) {
        if self.old_message(message, rest, chunk, out).is_none() && !rest.is_cut {
            let detail = message.get(..64).unwrap_or(message);
            super::PROTOCOL.emit_anomaly("malformed_data", chunk.direction, detail, chunk.time, out);
        }
    }

    fn old_message(
        &mut self,
        message: &[u8],
        rest: &mut Rest,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Option<()> {
        let mut command = *message.get(4)?;
        let header = Header::read(message)?;
        let is_response = header.is_response;
        let mut at = HEADER;
        for _ in 0..MAX_CHAIN {
            let block = Block::read(message, at, command)?;
            if rest.is_cut && command != if is_response { READ } else { WRITE } {
                return Some(());
            }
            if is_response {
                self.old_response(&header, &block, message, rest, chunk, out)?;
            } else {
                self.old_command(&header, &block, message, rest, chunk, out)?;
            }
            out.side_is_complete(chunk.direction);
            if !CHAINING.contains(&command) || block.words.len() < 4 {
                return Some(());
            }
            command = *block.words.first()?;
            let next = usize::from(u16_at(block.words, 2)?);
            if command == 0xff || next <= at {
                return Some(());
            }
            at = next;
        }
        Some(())
    }

    fn old_command(
        &mut self,
        header: &Header,
        block: &Block<'_>,
        message: &[u8],
        rest: &mut Rest,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Option<()> {
        let words = block.words;
        let mut request = Request::old(header, block, message, chunk.time);
        request.number = self.begin(chunk.direction, out);
        out.emit_number(&VERSION, chunk.direction, 1);
        let is_wide = header.flags & UNICODE != 0;
        let mut texts = Texts { message, at: block.begin, is_wide };
        match block.command {
            NEGOTIATE => {
                let names = block.data.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(b"\x02"));
                let names: Vec<Vec<u8>> = names.take(64).map(<[u8]>::to_vec).collect();
                request.set(At::Dialects, names.iter().cloned().collect::<Value<'static>>());
                request.what = What::Negotiate(names);
            }
            SESSION_SETUP if words.len() == 24 => {
                let bytes = usize::from(u16_at(words, 14)?);
                let token = block.data.get(..bytes).unwrap_or(block.data);
                request.login(token);
                request.hand_on_user(chunk.direction, out);
                self.token(token, chunk.time, out);
                texts.at += bytes;
                request.set(At::OwnOs, texts.next());
                request.set(At::OwnLm, texts.next());
            }
            SESSION_SETUP if words.len() == 26 => {
                texts.at += usize::from(u16_at(words, 14)?) + usize::from(u16_at(words, 16)?);
                request.set(At::User, texts.next());
                request.set(At::Domain, texts.next());
                request.set(At::OwnOs, texts.next());
                request.set(At::OwnLm, texts.next());
            }
            TREE_CONNECT => {
                texts.at += usize::from(u16_at(words, 6)?);
                let path = texts.next()?;
                let service = texts.narrow().unwrap_or_default();
                let is_pipe = service == b"IPC" || is_of_pipes(&path);
                hand_on_path(&path, is_pipe, chunk.direction, out);
                request.what = What::Tree { path, service };
            }
            TREE_DISCONNECT => {
                self.trees.remove(&header.tree.into());
            }
            NT_CREATE => {
                const DIRECTORY: u32 = 1;
                const DELETE_ON_CLOSE: u32 = 0x1000;
                let bytes = usize::from(u16_at(words, 5)?);
                let at = if is_wide { block.begin.next_multiple_of(2) } else { block.begin };
                let name = message.get(at..).unwrap_or_default();
                let name = name.get(..bytes).unwrap_or(name);
                let name =
                    if is_wide { wide(name) } else { name.strip_suffix(b"\0").unwrap_or(name).to_vec() };
                let options = u32_at(words, 39)?;
                let goes = options & DELETE_ON_CLOSE != 0;
                request.create(&name, options & DIRECTORY != 0, u32_at(words, 35)?, goes);
                request.what = What::Create { name: shown(&name), goes };
            }
            CLOSE => {
                let fid = fid(u16_at(words, 0)?);
                if let Some(open) = self.open.remove(&fid) {
                    if open.goes {
                        self.act("SMB::FILE_DELETE", &open, None, (chunk.time, Span::default()), out);
                    }
                    self.close(&fid, open, out);
                }
            }
            READ => {
                let high = if words.len() >= 24 { u32_at(words, 20)? } else { 0 };
                let offset = u64::from(high) << 32 | u64::from(u32_at(words, 6)?);
                request.what = What::Read { fid: fid(u16_at(words, 4)?), offset };
            }
            WRITE => {
                let fid = fid(u16_at(words, 4)?);
                let high = if words.len() >= 28 { u32_at(words, 24)? } else { 0 };
                let offset = u64::from(high) << 32 | u64::from(u32_at(words, 6)?);
                let bytes = usize::from(u16_at(words, 18)?) << 16 | usize::from(u16_at(words, 20)?);
                let data = begun_data(message, u16_at(words, 22)?, bytes, rest)?;
                // The first piece of a message to a pipe may begin with its length (MS-CIFS, 2.2.4.43.1).
                let mode = u16_at(words, 14)?;
                let call = if mode & BEGINS_RAW == BEGINS_RAW { data.get(2..) } else { None };
                let call = call.unwrap_or(data);
                if self.goes_through_pipe(&fid, header.tree.into(), call) {
                    request.call(fid, call);
                    self.through_pipe(
                        &fid,
                        (call, bytes - (data.len() - call.len())),
                        out.here(),
                        chunk,
                        out,
                    );
                } else {
                    let begun = old_begun(header, WRITE, chunk);
                    self.transfer(&fid, begun, Span::default());
                    self.old_content(&fid, (offset, bytes, data), rest, chunk, out);
                    request.what = What::Silent;
                }
            }
            TRANSACTION if words.len() >= 32 && u16_at(words, 28)? == PIPE_TRANSCEIVE => {
                let (fid, bytes) = (fid(u16_at(words, 30)?), u16_at(words, 22)?);
                let data = begun(message, u16_at(words, 24)?, bytes);
                request.call(fid, data);
                self.through_pipe(&fid, (data, bytes.into()), out.here(), chunk, out);
            }
            RENAME | DELETE => {
                let mut name = || {
                    texts.at += 1;
                    texts.next()
                };
                let first = name()?;
                let path = self.trees.get(&header.tree.into()).map(|tree| tree.path.clone());
                if block.command == RENAME {
                    let second = name()?;
                    request.set(At::From, first.clone());
                    request.set(At::To, second.clone());
                    let open = Open { name: second, path, ..Open::default() };
                    self.act("SMB::FILE_RENAME", &open, Some(first), (chunk.time, Span::default()), out);
                } else {
                    request.set(At::Filename, first.clone());
                    let open = Open { name: first, path, ..Open::default() };
                    self.act("SMB::FILE_DELETE", &open, None, (chunk.time, Span::default()), out);
                }
            }
            _ => {}
        }
        self.wait(request, out);
        Some(())
    }

    fn old_content(
        &mut self,
        fid: &Fid,
        (offset, bytes, data): (u64, usize, &[u8]),
        rest: &mut Rest,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) {
        self.content(fid, chunk.direction, offset, data, chunk.time, out);
        rest.data = rest.bytes.min(bytes - data.len());
        rest.to = Some((*fid, offset + data.len() as u64));
    }

    fn old_response(
        &mut self,
        header: &Header,
        block: &Block<'_>,
        message: &[u8],
        rest: &mut Rest,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Option<()> {
        let words = block.words;
        let mut texts = Texts { message, at: block.begin, is_wide: header.flags & UNICODE != 0 };
        let key = Key::Message(header.id, u16::from(block.command) | OLD);
        let Some(mut request) = self.waiting.take(key) else {
            self.begin(chunk.direction, out);
            out.emit_number(&VERSION, chunk.direction, 1);
            if block.command == TREE_CONNECT && header.status == 0 {
                let is_pipe = texts.narrow()? == b"IPC";
                self.map(header.tree.into(), Tree { path: Vec::new(), is_pipe });
            }
            return Some(());
        };
        begin_transaction(chunk.direction, request.number, out);
        out.emit_number(&VERSION, chunk.direction, 1);
        request.at.add(out.here());
        request.old_status(header, chunk.time);
        let is_good = header.status == 0;
        request.set(At::Session, header.user);
        match (block.command, std::mem::take(&mut request.what)) {
            (NEGOTIATE, What::Negotiate(names)) => {
                let at = usize::from(u16_at(words, 0)?);
                self.dialect = names.get(at).cloned().or(self.dialect.take());
                // With extended security the data begins with the server's name.
                if words.len() == 34 && u32_at(words, 19)? & 0x8000_0000 != 0 {
                    request.set(At::ServerGuid, block.data.get(..16).map(guid));
                }
            }
            (SESSION_SETUP, _) => {
                let bytes = if words.len() == 8 { usize::from(u16_at(words, 6)?) } else { 0 };
                self.token(block.data.get(..bytes).unwrap_or(block.data), chunk.time, out);
                texts.at += bytes;
                request.set(At::Os, texts.next());
                request.set(At::Lm, texts.next());
            }
            (TREE_CONNECT, What::Tree { path, service }) => {
                request.set(At::Tree, header.tree);
                let granted = texts.narrow().unwrap_or_default();
                let system = texts.next().filter(|system| !system.is_empty());
                let is_pipe = granted == b"IPC" || is_of_pipes(&path);
                request.set(if is_pipe { At::NamedPipe } else { At::Share }, path.clone());
                request.set(At::ServiceAsked, service);
                if is_good {
                    request.set(At::Service, granted.clone());
                    let kind = if is_pipe { "PIPE" } else { "DISK" };
                    out.record(
                        record!(
                            SMB_MAPPING,
                            request.time,
                            path = path.clone(),
                            service = granted,
                            native_file_system = system,
                            share_type = kind
                        )
                        .over(request.at),
                    );
                    self.map(header.tree.into(), Tree { path, is_pipe });
                }
            }
            (NT_CREATE, What::Create { name, goes }) if is_good => {
                let fid = fid(u16_at(words, 5)?);
                let times = [27, 19, 11, 35].map(|at| u64_at(words, at).unwrap_or(0));
                let tree = self.trees.get(&header.tree.into()).cloned().unwrap_or_default();
                let path = Some(tree.path).filter(|path| !path.is_empty());
                let size = u64_at(words, 55)?;
                let open = Open { name, path, size, times, is_pipe: tree.is_pipe, goes, ..Open::default() };
                request.opened(&open, &fid);
                request.set(At::Fuid, u16_at(words, 5).map(|number| format!("{number:04x}")));
                if !tree.is_pipe {
                    self.act("SMB::FILE_OPEN", &open, None, (request.time, request.at), out);
                }
                if self.open.len() < MAX_OPEN {
                    self.open.insert(fid, open);
                }
            }
            (READ, What::Read { fid, offset }) => {
                if (is_good || header.status == OVERFLOW) && words.len() >= 24 {
                    let bytes = usize::from(u16_at(words, 14)?) << 16 | usize::from(u16_at(words, 10)?);
                    let data = begun_data(message, u16_at(words, 12)?, bytes, rest)?;
                    if self.goes_through_pipe(&fid, header.tree.into(), data) {
                        self.answer_waiting(&fid, data, request.at, out);
                        self.through_pipe(&fid, (data, bytes), request.at, chunk, out);
                    } else {
                        self.transfer(&fid, old_begun(header, READ, chunk), request.at);
                        self.old_content(&fid, (offset, bytes, data), rest, chunk, out);
                    }
                }
                return Some(());
            }
            (TRANSACTION, What::Call { fid, .. }) if words.len() >= 20 => {
                let bytes = u16_at(words, 12)?;
                let data = begun(message, u16_at(words, 14)?, bytes);
                request.answer(data);
                self.through_pipe(&fid, (data, bytes.into()), request.at, chunk, out);
            }
            (WRITE, What::Call { fid, number }) if is_good => {
                self.wait_for_answer(request, fid, number, out);
                return Some(());
            }
            (_, what) => request.what = what,
        }
        self.emit(request, out);
        Some(())
    }
}

impl Request {
    /// A new row of a command.
    fn old(header: &Header, block: &Block<'_>, message: &[u8], time: Time) -> Self {
        let mut request = Smb::request(Key::Message(header.id, u16::from(block.command) | OLD), time);
        request.set(At::Command, names::old_command(block.command));
        request.set(At::Session, header.user);
        request.set(At::Tree, header.tree);
        if block.command == TRANSACTION && !header.is_response {
            let is_wide = header.flags & UNICODE != 0;
            let name = Texts { message, at: block.begin, is_wide }.next();
            let is_browser = name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(BROWSER));
            request.set(At::Transaction, name.map(bounded));
            let data = [24, 22].map(|at| u16_at(block.words, at).unwrap_or(0));
            let [offset, bytes] = data;
            if let Some(command) = begun(message, offset, bytes).first().filter(|_| is_browser) {
                request.set(At::Browser, names::browser_command(*command));
            }
        }
        request
    }

    /// The row of a message that stands alone, in a datagram.
    pub(super) fn alone(message: &[u8], time: Time) -> Option<Self> {
        let (header, command) = (Header::read(message)?, *message.get(4)?);
        let block = Block::read(message, HEADER, command)?;
        let mut request = Self::old(&header, &block, message, time);
        if header.is_response {
            request.old_status(&header, time);
            // No command was seen to which it responds.
            request.set(At::Duration, Value::None);
        }
        Some(request)
    }

    fn old_status(&mut self, header: &Header, time: Time) {
        self.status(header.status, time);
        if header.flags & NT_STATUS == 0 && header.status != 0 {
            let [class, _, low, high] = header.status.to_le_bytes();
            let code = u16::from_le_bytes([low, high]);
            self.set(At::Status, names::old_error(class, code));
            self.set(At::StatusCode, format!("0x{code:04x}"));
        }
    }
}
