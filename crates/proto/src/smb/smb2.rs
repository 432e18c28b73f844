//! Messages of versions 2 and 3 (MS-SMB2).

use super::names::{self, dialect, guid, u16_at, u32_at, u64_at, wide};
use super::waiting::Key;
use super::{
    At, Begun, Fid, MAX_COMPOUND, MAX_OPEN, Open, RELATED, Request, Rest, SMB_MAPPING, Smb, Tree, VERSION,
    What, hand_on_path, is_of_pipes, shown, smb1,
};
use crate::early::begin_transaction;
use crate::{Out, Span, Value, record};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

const HEADER: usize = 64;
const PENDING: u32 = 0x103;
/// STATUS_BUFFER_OVERFLOW: the response has only a part of the data, which is valid.
const OVERFLOW: u32 = 0x8000_0005;
const RESPONSE: u32 = 1;
const ASYNC: u32 = 2;
const PIPE_TRANSCEIVE: u32 = 0x0011_c017;

const NEGOTIATE: u16 = 0;
const SESSION_SETUP: u16 = 1;
const TREE_CONNECT: u16 = 3;
const TREE_DISCONNECT: u16 = 4;
const CREATE: u16 = 5;
const CLOSE: u16 = 6;
const READ: u16 = 8;
const WRITE: u16 = 9;
const IOCTL: u16 = 11;
const GET_INFO: u16 = 16;
const SET_INFO: u16 = 17;

/// A header.
struct Header {
    status: u32,
    command: u16,
    flags: u32,
    id: u64,
    tree: u64,
    session: u64,
}

impl Header {
    fn read(message: &[u8]) -> Option<Self> {
        (u16_at(message, 4)? == 64).then_some(())?;
        let flags = u32_at(message, 16)?;
        Some(Self {
            status: u32_at(message, 8)?,
            command: u16_at(message, 12)?,
            flags,
            id: u64_at(message, 24)?,
            tree: if flags & ASYNC == 0 { u32_at(message, 36)?.into() } else { 0 },
            session: u64_at(message, 40)?,
        })
    }

    /// Whether it is of a response that announces another one.
    fn is_interim(&self) -> bool {
        self.flags & RESPONSE != 0 && self.status == PENDING && self.flags & ASYNC != 0
    }

    /// The exchange with which a transfer begins.
    fn begun(&self, direction: Direction, time: Time) -> Begun {
        let command = names::command(self.command);
        Begun { direction, time, command, session: self.session, tree: self.tree }
    }
}

fn part(message: &[u8], offset: usize, bytes: usize) -> Option<&[u8]> {
    message.get(offset..)?.get(..bytes)
}

/// The present bytes of a part.
fn begun(message: &[u8], offset: usize, bytes: usize) -> &[u8] {
    let rest = message.get(offset..).unwrap_or_default();
    rest.get(..bytes).unwrap_or(rest)
}

/// The present bytes of read or written data; `None` if a gap precedes them.
fn begun_data<'a>(message: &'a [u8], offset: usize, bytes: usize, rest: &Rest) -> Option<&'a [u8]> {
    (!rest.is_cut || offset <= message.len()).then(|| begun(message, offset, bytes))
}

fn fid_at(message: &[u8], at: usize) -> Option<Fid> {
    message.get(at..)?.first_chunk().copied()
}

impl Smb {
    /// Takes the messages of a compound.
    pub(super) fn compound(&mut self, frame: &[u8], rest: &mut Rest, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let mut left = frame;
        let mut created = None;
        for _ in 0..MAX_COMPOUND {
            let next = u32_at(left, 20).unwrap_or(0) as usize;
            let (message, after) = match left.split_at_checked(next) {
                Some((message, after)) if next >= HEADER => (message, after),
                _ => (left, &[][..]),
            };
            let is_last = after.is_empty();
            let mut none = Rest { bytes: 0, data: 0, to: None, is_cut: false };
            let rest = if is_last { &mut *rest } else { &mut none };
            let is_cut = rest.is_cut;
            let is_read = Header::read(message).is_some_and(|header| {
                if is_cut && header.command != if header.flags & RESPONSE == 0 { WRITE } else { READ } {
                    return true;
                }
                let is_read = if header.flags & RESPONSE == 0 {
                    self.command(&header, message, rest, chunk, out).is_some()
                } else {
                    self.response(&header, message, rest, &mut created, chunk, out).is_some()
                };
                if is_read && !header.is_interim() {
                    out.side_is_complete(chunk.direction);
                }
                is_read
            });
            if !is_read && !is_cut {
                super::PROTOCOL.emit_anomaly(
                    "malformed_data",
                    chunk.direction,
                    message.get(..64).unwrap_or(message),
                    chunk.time,
                    out,
                );
            }
            if is_last {
                return;
            }
            left = after;
        }
        super::PROTOCOL.emit_anomaly("too_many_transactions", chunk.direction, b"", chunk.time, out);
    }

    fn command(
        &mut self,
        header: &Header,
        message: &[u8],
        rest: &mut Rest,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Option<()> {
        let body = message.get(HEADER..)?;
        let mut request = Self::request(Key::Message(header.id, header.command), chunk.time);
        request.number = self.begin(chunk.direction, out);
        out.emit_number(&VERSION, chunk.direction, 2);
        request.set(At::Command, names::command(header.command));
        request.set(At::Session, header.session);
        request.set(At::Tree, header.tree);
        match header.command {
            NEGOTIATE => {
                let count = usize::from(u16_at(body, 2)?).min(64);
                let offered = body.get(36..).unwrap_or_default().chunks_exact(2).take(count);
                let offered = offered.filter_map(|number| u16_at(number, 0)).map(dialect);
                request.set(At::Dialects, offered.collect::<Value<'static>>());
                request.set(At::ClientGuid, guid(part(body, 12, 16)?));
            }
            SESSION_SETUP => {
                let blob = part(message, u16_at(body, 12)?.into(), u16_at(body, 14)?.into())?;
                request.login(blob);
                request.hand_on_user(chunk.direction, out);
                self.token(blob, chunk.time, out);
            }
            TREE_CONNECT => {
                let path = wide(part(message, u16_at(body, 4)?.into(), u16_at(body, 6)?.into())?);
                hand_on_path(&path, is_of_pipes(&path), chunk.direction, out);
                request.what = What::Tree { path, service: Vec::new() };
            }
            TREE_DISCONNECT => {
                self.trees.remove(&header.tree);
            }
            CREATE => {
                const DIRECTORY: u32 = 1;
                const DELETE_ON_CLOSE: u32 = 0x1000;
                let (offset, bytes) = (u16_at(body, 44)?, u16_at(body, 46)?);
                let name = wide(part(message, offset.into(), bytes.into())?);
                let options = u32_at(body, 40)?;
                let goes = options & DELETE_ON_CLOSE != 0;
                request.create(&name, options & DIRECTORY != 0, u32_at(body, 36)?, goes);
                request.what = What::Create { name: shown(&name), goes };
            }
            CLOSE => {
                let fid = fid_at(body, 8)?;
                if fid == RELATED {
                    request.what = What::Related;
                } else if let Some(open) = self.open.remove(&fid) {
                    if open.goes {
                        self.act("SMB::FILE_DELETE", &open, None, (chunk.time, Span::default()), out);
                    }
                    self.close(&fid, open, out);
                }
            }
            READ => {
                let (offset, fid) = (u64_at(body, 8)?, fid_at(body, 16)?);
                request.what = What::Read { fid, offset };
            }
            WRITE => {
                let (at, bytes) = (usize::from(u16_at(body, 2)?), u32_at(body, 4)? as usize);
                let (offset, fid) = (u64_at(body, 8)?, fid_at(body, 16)?);
                let data = begun_data(message, at, bytes, rest)?;
                if self.goes_through_pipe(&fid, header.tree, data) {
                    request.call(fid, data);
                    self.through_pipe(&fid, (data, bytes), out.here(), chunk, out);
                } else {
                    self.transfer(&fid, header.begun(chunk.direction, chunk.time), Span::default());
                    self.content(&fid, chunk.direction, offset, data, chunk.time, out);
                    rest.data = rest.bytes.min(bytes - data.len());
                    rest.to = Some((fid, offset + data.len() as u64));
                    request.what = What::Silent;
                }
            }
            IOCTL => {
                let fid = fid_at(body, 8)?;
                let (offset, bytes) = (u32_at(body, 24)? as usize, u32_at(body, 28)? as usize);
                let data = begun(message, offset, bytes);
                if u32_at(body, 4)? == PIPE_TRANSCEIVE && self.goes_through_pipe(&fid, header.tree, data) {
                    request.call(fid, data);
                    self.through_pipe(&fid, (data, bytes), out.here(), chunk, out);
                }
            }
            SET_INFO => self.set_info(&mut request, message, body, chunk, out)?,
            GET_INFO => request.what = What::Silent,
            _ => {}
        }
        self.wait(request, out);
        Some(())
    }

    fn set_info(
        &mut self,
        request: &mut Request,
        message: &[u8],
        body: &[u8],
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Option<()> {
        const FILE: u8 = 1;
        const RENAME: u8 = 10;
        const DISPOSITION: u8 = 13;
        const DISPOSITION_EX: u8 = 64;
        let (kind, class) = (*body.get(2)?, *body.get(3)?);
        let (bytes, offset) = (u32_at(body, 4)? as usize, usize::from(u16_at(body, 8)?));
        let (buffer, fid) = (begun(message, offset, bytes), fid_at(body, 16)?);
        request.what = What::Silent;
        if kind != FILE || !matches!(class, RENAME | DISPOSITION | DISPOSITION_EX) {
            return Some(());
        }
        let mut open = self.open.remove(&fid).unwrap_or_default();
        request.set(At::Class, "FILE_INFO");
        request.set(At::Fuid, guid(&fid));
        if class == RENAME {
            let name = wide(part(buffer, 20, u32_at(buffer, 16)? as usize)?);
            request.set(At::Level, "SMB2_FILE_RENAME_INFO");
            request.set(At::From, open.name.clone());
            request.set(At::To, name.clone());
            let old = std::mem::replace(&mut open.name, name);
            let old = Some(old).filter(|old| !old.is_empty());
            self.act("SMB::FILE_RENAME", &open, old, (chunk.time, Span::default()), out);
            request.what = What::Other;
        } else if buffer.first().is_some_and(|flags| flags & 1 != 0) {
            request.set(At::Level, "SMB2_FILE_DISPOSITION_INFO");
            request.set(At::Filename, open.name.clone());
            self.act("SMB::FILE_DELETE", &open, None, (chunk.time, Span::default()), out);
            request.what = What::Other;
        }
        if !open.name.is_empty() && self.open.len() < MAX_OPEN {
            self.open.insert(fid, open);
        }
        Some(())
    }

    /// Takes what a response names by itself: its command was lost.
    fn learn(&mut self, header: &Header, body: &[u8]) {
        match header.command {
            _ if header.status != 0 => {}
            NEGOTIATE => {
                let named = u16_at(body, 4).map(|number| dialect(number).into());
                self.dialect = named.or(self.dialect.take());
            }
            TREE_CONNECT => {
                let is_pipe = body.get(2) == Some(&2);
                self.map(header.tree, Tree { path: Vec::new(), is_pipe });
            }
            _ => {}
        }
    }

    fn response(
        &mut self,
        header: &Header,
        message: &[u8],
        rest: &mut Rest,
        created: &mut Option<Fid>,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Option<()> {
        if header.is_interim() {
            return Some(());
        }
        let asked = self.waiting.take(Key::Message(header.id, header.command));
        // A client that speaks version 1 too asks in its form, and may be answered in this one (MS-SMB2, 3.3.5.3).
        let is_negotiated = header.command == NEGOTIATE;
        let asked =
            asked.or_else(|| if is_negotiated { self.waiting.take_of(smb1::NEGOTIATE_KEY) } else { None });
        let is_old = asked.as_ref().is_some_and(|asked| smb1::is_old(asked.key));
        let body = message.get(HEADER..)?;
        let Some(mut request) = asked else {
            self.begin(chunk.direction, out);
            out.emit_number(&VERSION, chunk.direction, 2);
            self.learn(header, body);
            return Some(());
        };
        begin_transaction(chunk.direction, request.number, out);
        out.emit_number(&VERSION, chunk.direction, if is_old { 1 } else { 2 });
        request.at.add(out.here());
        request.status(header.status, chunk.time);
        if header.session != 0 {
            request.set(At::Session, header.session);
        }
        let is_good = header.status == 0;
        match (header.command, std::mem::take(&mut request.what)) {
            (NEGOTIATE, _) if is_good => {
                self.dialect = Some(dialect(u16_at(body, 4)?).into());
                request.set(At::ServerGuid, guid(part(body, 8, 16)?));
                request.set(At::MaxRead, u32_at(body, 32)?);
                request.set(At::MaxWrite, u32_at(body, 36)?);
            }
            (SESSION_SETUP, _) => {
                let (offset, bytes) = (u16_at(body, 4), u16_at(body, 6));
                if let Some((offset, bytes)) = offset.zip(bytes) {
                    self.token(begun(message, offset.into(), bytes.into()), chunk.time, out);
                }
            }
            (TREE_CONNECT, What::Tree { path, .. }) => {
                request.set(At::Tree, header.tree);
                let kind = body.get(2).copied().filter(|_| is_good);
                let is_pipe = kind == Some(2) || kind.is_some() && is_of_pipes(&path);
                request.set(if is_pipe { At::NamedPipe } else { At::Share }, path.clone());
                if let Some(kind) = kind {
                    let words: [&'static str; 2] = match kind {
                        1 => ["FILE", "DISK"],
                        2 => ["PIPE", "PIPE"],
                        3 => ["PRINT", "PRINT"],
                        _ => ["UNKNOWN", "UNKNOWN"],
                    };
                    request.set(At::ShareType, words[0]);
                    out.record(
                        record!(
                            SMB_MAPPING,
                            request.time,
                            path = path.clone(),
                            service = Value::None,
                            native_file_system = Value::None,
                            share_type = words[1]
                        )
                        .over(request.at),
                    );
                    self.map(header.tree, Tree { path, is_pipe });
                }
            }
            (CREATE, What::Create { name, goes }) if is_good => {
                let times = [24, 16, 8, 32].map(|at| u64_at(body, at).unwrap_or(0));
                let fid = fid_at(body, 64)?;
                let tree = self.trees.get(&header.tree).cloned().unwrap_or_default();
                let is_pipe = tree.is_pipe;
                let path = Some(tree.path).filter(|path| !path.is_empty());
                let size = u64_at(body, 48)?;
                let open = Open { name, path, size, times, is_pipe, goes, ..Open::default() };
                request.opened(&open, &fid);
                if !is_pipe {
                    self.act("SMB::FILE_OPEN", &open, None, (request.time, request.at), out);
                }
                *created = Some(fid);
                if self.open.len() < MAX_OPEN {
                    self.open.insert(fid, open);
                }
            }
            (CLOSE, What::Related) => {
                if let Some((fid, open)) = created.take().and_then(|fid| self.open.remove_entry(&fid)) {
                    self.close(&fid, open, out);
                }
            }
            (READ, What::Read { fid, offset }) => {
                let fid = if fid == RELATED { created.unwrap_or(fid) } else { fid };
                if is_good || header.status == OVERFLOW {
                    let (at, bytes) = (usize::from(*body.get(2)?), u32_at(body, 4)? as usize);
                    let data = begun_data(message, at, bytes, rest)?;
                    if self.goes_through_pipe(&fid, header.tree, data) {
                        self.answer_waiting(&fid, data, request.at, out);
                        self.through_pipe(&fid, (data, bytes), request.at, chunk, out);
                    } else {
                        self.transfer(&fid, header.begun(chunk.direction, request.time), request.at);
                        self.content(&fid, chunk.direction, offset, data, chunk.time, out);
                        rest.data = rest.bytes.min(bytes - data.len());
                        rest.to = Some((fid, offset + data.len() as u64));
                    }
                }
                return Some(());
            }
            (IOCTL, What::Call { fid, .. }) => {
                let (offset, bytes) = (u32_at(body, 32)? as usize, u32_at(body, 36)? as usize);
                let data = begun(message, offset, bytes);
                request.answer(data);
                self.through_pipe(&fid, (data, bytes), request.at, chunk, out);
            }
            (WRITE, What::Call { fid, number }) => {
                self.wait_for_answer(request, fid, number, out);
                return Some(());
            }
            (_, what) => request.what = what,
        }
        self.emit(request, out);
        Some(())
    }
}
