//! Server Message Block 1, 2 and 3 (MS-CIFS, MS-SMB, MS-SMB2) over TCP, directly or in NetBIOS sessions: logins,
//! shares, files and actions on files, each command with its response. Version 1 in datagrams of NetBIOS: each message.
//!
//! Encrypted and compressed messages are skipped. After a gap the next message is found by its mark; what is known of trees, open
//! files and commands without a response stays.

mod datagram;
mod lost;
mod names;
mod pipe;
mod piped;
mod smb1;
mod smb2;
mod waiting;

use crate::early::begin_transaction;
use crate::file::{About, File, Files};
use crate::frames::{Frames, Size};
use crate::work::looked_at;
use crate::{
    Buffer, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Setup, Span, Step, Table, Transport,
    UDP, Value, field, gssapi, kerberos, record,
};
use names::{Ntlm, guid};
use std::collections::{BTreeMap, VecDeque};
use waiting::{Key, Waiting};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "smb",
    help: "Server Message Block 1 to 3 (MS-CIFS, MS-SMB2).",
    transport: Transport::Both,
    ports: &[445, 138, 139],
    probe,
    parser: |setup| match setup.ip_proto {
        UDP => Box::new(datagram::Datagrams::default()),
        _ => Box::new(Smb::new(setup)),
    },
    tables: &[&SMB, &SMB_FILES, &SMB_MAPPING],
    buffers: &[&NAMED_PIPE, &SHARE, &USER, &DOMAIN, &VERSION],
};

static VERSION: Buffer =
    Buffer::number("smb.version", "Version of a command, and of its response: 1, or 2 for 2 and 3.");
static NAMED_PIPE: Buffer =
    Buffer::whole("smb.named_pipe", "Path of the share of pipes (IPC$) that a client connects to, in UTF-8.");
static SHARE: Buffer = Buffer::whole(
    "smb.share",
    "Path of a share other than that of pipes that a client connects to, in UTF-8.",
);

static USER: Buffer =
    Buffer::whole("smb.ntlmssp_user", "Name of the user that a client logs in by NTLM, in UTF-8.");
static DOMAIN: Buffer =
    Buffer::whole("smb.ntlmssp_domain", "Domain of the user that a client logs in by NTLM, in UTF-8.");

macro_rules! columns {
    ($($at:ident $name:literal $kind:expr, $help:literal, $eve:literal, $privacy:ident;)*) => {
        /// Positions of the columns.
        #[derive(Clone, Copy)]
        enum At { $($at,)* }
        static SMB: Table = Table {
            name: "smb",
            help: "A command with its response.",
            zeek: "",
            eve: "smb",
            fields: &[$(field($name, $kind, $help).eve($eve).privacy(Privacy::$privacy),)*],
        };
    };
}

columns! {
    Id "id" Kind::Uint, "Number of the exchange in the connection.", "smb.id", Plain;
    Dialect "dialect" Kind::Text, "Negotiated dialect.", "smb.dialect", Plain;
    Command "command" Kind::Word, "Name of the command.", "smb.command", Plain;
    Status "status" Kind::Word, "NT status of the response, by name.", "smb.status", Plain;
    StatusCode "status_code" Kind::Word, "NT status of the response, in hexadecimal digits.", "smb.status_code", Plain;
    Session "session_id" Kind::Uint, "Session identifier.", "smb.session_id", Plain;
    Tree "tree_id" Kind::Uint, "Tree identifier.", "smb.tree_id", Plain;
    Dialects "client_dialects" Kind::List(&Kind::Text), "Dialects that the client offers.", "smb.client_dialects", Plain;
    ClientGuid "client_guid" Kind::Text, "GUID of the client.", "smb.client_guid", Fingerprint;
    ServerGuid "server_guid" Kind::Text, "GUID of the server.", "smb.server_guid", Fingerprint;
    MaxRead "max_read_size" Kind::Uint, "Maximum size of a read, in bytes (server's limit).", "smb.max_read_size", Plain;
    MaxWrite "max_write_size" Kind::Uint, "Maximum size of a write, in bytes (server's limit).", "smb.max_write_size", Plain;
    Domain "domain" Kind::Text, "Domain of the user (NTLM).", "smb.ntlmssp.domain", Name;
    User "user" Kind::Text, "User name (NTLM).", "smb.ntlmssp.user", User;
    Host "host" Kind::Text, "Name of the client host (NTLM).", "smb.ntlmssp.host", Name;
    NtlmVersion "ntlm_version" Kind::Text, "Version of the client's operating system (NTLM).", "smb.ntlmssp.version", Plain;
    Mechanism "mechanism" Kind::Word, "Authentication mechanism: ntlmssp or kerberos.", "", Plain;
    OwnOs "client_os" Kind::Text, "Operating system of the client (SMB 1).", "smb.request.native_os", Plain;
    OwnLm "client_lm" Kind::Text, "Software of the client (SMB 1).", "smb.request.native_lm", Plain;
    Os "server_os" Kind::Text, "Operating system of the server (SMB 1).", "smb.response.native_os", Plain;
    Lm "server_lm" Kind::Text, "Software of the server (SMB 1).", "smb.response.native_lm", Plain;
    Filename "filename" Kind::Text, "Name of the file.", "smb.filename", Content;
    Directory "directory" Kind::Text, "Name of the directory.", "smb.directory", Content;
    Disposition "disposition" Kind::Word, "Create disposition of the request.", "smb.disposition", Plain;
    Access "access" Kind::Word, "Whether the file is deleted when it is closed.", "smb.access", Plain;
    Created "created" Kind::Uint, "Creation time of the file, in seconds since 1970.", "smb.created", Plain;
    Accessed "accessed" Kind::Uint, "Time of the last access, in seconds since 1970.", "smb.accessed", Plain;
    Modified "modified" Kind::Uint, "Time of the last write, in seconds since 1970.", "smb.modified", Plain;
    Changed "changed" Kind::Uint, "Time of the last change, in seconds since 1970.", "smb.changed", Plain;
    FileSize "size" Kind::Uint, "Size of the file in bytes.", "smb.size", Plain;
    Share "share" Kind::Text, "Path of the share.", "smb.share", Content;
    NamedPipe "named_pipe" Kind::Text, "Path of the share of named pipes.", "smb.named_pipe", Content;
    ShareType "share_type" Kind::Word, "Type of the share: file, pipe or print.", "smb.share_type", Plain;
    ServiceAsked "service_asked" Kind::Text, "Service that the client requests (SMB 1).", "smb.service.request", Plain;
    Service "service" Kind::Text, "Service of the share (SMB 1).", "smb.service.response", Plain;
    Class "class" Kind::Word, "Information class of SET_INFO.", "smb.set_info.class", Plain;
    Level "level" Kind::Word, "Information level of SET_INFO.", "smb.set_info.info_level", Plain;
    From "renamed_from" Kind::Text, "Name before renaming.", "smb.rename.from", Content;
    To "renamed_to" Kind::Text, "Name after renaming.", "smb.rename.to", Content;
    Fuid "fuid" Kind::Text, "Identifier of the open file.", "smb.fuid", Plain;
    RpcAsked "rpc_request" Kind::Word, "Packet type of the DCE/RPC request in a pipe.", "smb.dcerpc.request", Plain;
    RpcAnswer "rpc_response" Kind::Word, "Packet type of the DCE/RPC response.", "smb.dcerpc.response", Plain;
    RpcNumber "rpc_number" Kind::Uint, "Operation number of the DCE/RPC request.", "smb.dcerpc.opnum", Plain;
    RpcInterfaces "rpc_interfaces" Kind::Rows(&INTERFACES), "Interfaces that a DCE/RPC bind requests.", "smb.dcerpc.interfaces", Plain;
    Transaction "transaction" Kind::Text, "Name of the mailslot or pipe of a transaction (SMB 1).", "", Content;
    Source "source_name" Kind::Text, "NetBIOS name of the sender of a datagram.", "", Name;
    Destination "destination_name" Kind::Text, "NetBIOS name of the receiver of a datagram.", "", Name;
    Browser "browser_command" Kind::Word, "Command of the browser protocol in a datagram (MS-BRWS).", "", Plain;
    Duration "duration" Kind::Duration, "Time from the command to the response, in seconds.", "", Plain;
}

/// The columns that the record of a transferred file repeats.
const CARRIED: [(&str, At); 10] = [
    ("smb_id", At::Id),
    ("smb_dialect", At::Dialect),
    ("smb_command", At::Command),
    ("smb_status", At::Status),
    ("smb_status_code", At::StatusCode),
    ("smb_session", At::Session),
    ("smb_tree", At::Tree),
    ("smb_filename", At::Filename),
    ("smb_share", At::Share),
    ("smb_fuid", At::Fuid),
];

static INTERFACES: [crate::Field; 5] = [
    field("uuid", Kind::Text, "UUID of the interface.").eve("uuid"),
    field("version", Kind::Text, "Version of the interface.").eve("version"),
    field(
        "result",
        Kind::Uint,
        "Result for the interface in the acknowledgement (C706, 12.6.3.1); 0: accepted.",
    )
    .eve("ack_result"),
    field("reason", Kind::Uint, "Reason of a rejection (C706, 12.6.3.1)."),
    field(
        "result_high",
        Kind::Uint,
        "Higher byte of the result, as Suricata logs it in place of the reason.",
    )
    .eve("ack_reason"),
];

static SMB_FILES: Table = Table {
    name: "smb_files",
    help: "An action on a file.",
    zeek: "smb_files",
    eve: "",
    fields: &[
        field("fuid", Kind::Text, "Identifier of the file in records (Zeek's fuid).").zeek("fuid"),
        field("action", Kind::Word, "Action on the file.").zeek("action"),
        field("path", Kind::Text, "Path of the share.").zeek("path").privacy(Privacy::Content),
        field("name", Kind::Text, "Name of the file.").zeek("name").privacy(Privacy::Content),
        field("size", Kind::Uint, "Size of the file in bytes.").zeek("size"),
        field("prev_name", Kind::Text, "Name of the file before renaming.")
            .zeek("prev_name")
            .privacy(Privacy::Content),
        field("modified", Kind::Time, "Time of the last write.").zeek("times.modified"),
        field("accessed", Kind::Time, "Time of the last access.").zeek("times.accessed"),
        field("created", Kind::Time, "Time of the creation.").zeek("times.created"),
        field("changed", Kind::Time, "Time of the last change.").zeek("times.changed"),
    ],
};

static SMB_MAPPING: Table = Table {
    name: "smb_mapping",
    help: "A share that a client connects to.",
    zeek: "smb_mapping",
    eve: "",
    fields: &[
        field("path", Kind::Text, "Path of the share.").zeek("path").privacy(Privacy::Content),
        field("service", Kind::Text, "Service of the share (SMB 1).").zeek("service"),
        field("native_file_system", Kind::Text, "File system of the share.").zeek("native_file_system"),
        field("share_type", Kind::Word, "Type of the share: DISK, PIPE or PRINT.").zeek("share_type"),
    ],
};

/// Maximum number of kept bytes of one message; data of reads and writes may have 8 MB, and is passed to its file as
/// it arrives.
const MAX_HELD: usize = 65_536;
/// Maximum number of open files, and of trees.
const MAX_OPEN: usize = 1024;
/// Maximum number of remembered rows of `smb_files`, so that equal rows are not repeated.
const MAX_RECENT: usize = 128;
/// Maximum number of messages of one compound.
const MAX_COMPOUND: usize = 64;
/// Maximum length of a name in bytes.
const MAX_NAME: usize = 4096;

const OLD: &[u8] = b"\xffSMB";
const NEW: &[u8] = b"\xfeSMB";
const ENCRYPTED: &[u8] = b"\xfdSMB";
const COMPRESSED: &[u8] = b"\xfcSMB";

const SESSION_MESSAGE: u8 = 0;

fn probe(heads: &Heads<'_>) -> Probe {
    if heads.ip_proto == UDP {
        return datagram::probe(heads);
    }
    let mut answer = Probe::Reject;
    for head in heads.both() {
        match is_begun(head) {
            Probe::Match => return Probe::Match,
            Probe::Maybe => answer = Probe::Maybe,
            Probe::Reject => return Probe::Reject,
        }
    }
    answer
}

/// Whether a message begins here, perhaps after messages of the NetBIOS session.
fn is_begun(head: &[u8]) -> Probe {
    let mut rest = head;
    for _ in 0..2 {
        match rest {
            [SESSION_MESSAGE, _, _, _, mark @ ..] => {
                let max = mark.len().min(4);
                let is_mark = |word: &&[u8]| mark.get(..max) == word.get(..max);
                return match (max, [OLD, NEW, ENCRYPTED, COMPRESSED].iter().any(is_mark)) {
                    (4, true) => Probe::Match,
                    (_, true) => Probe::Maybe,
                    _ => Probe::Reject,
                };
            }
            // A session is requested and granted before the first message.
            [0x81, 0, 0, 68, _, ..] => rest = rest.get(72..).unwrap_or_default(),
            [0x82, 0, 0, 0, ..] => rest = rest.get(4..).unwrap_or_default(),
            [SESSION_MESSAGE | 0x81 | 0x82, ..] | [] => return Probe::Maybe,
            _ => return Probe::Reject,
        }
    }
    Probe::Maybe
}

/// Whether bytes begin a packet of a remote procedure call.
fn is_call(data: &[u8]) -> bool {
    crate::dce_rpc::pdu::kind_of(data).is_some()
}

/// Whether a share is that of pipes, by its name.
fn is_of_pipes(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'\\').next().unwrap_or(path);
    name.eq_ignore_ascii_case(b"IPC$")
}

/// Hands on the path of a share that `side` wants to connect to.
fn hand_on_path(path: &[u8], is_pipe: bool, side: Direction, out: &mut dyn Out) {
    out.emit(if is_pipe { &NAMED_PIPE } else { &SHARE }, side, path);
}

/// Identifier of an open file. In version 1 it has two bytes.
type Fid = [u8; 16];

/// Stands for the file that the previous command of the compound uses.
const RELATED: Fid = [0xff; 16];

/// An open file.
#[derive(Default)]
struct Open {
    name: Vec<u8>,
    path: Option<Vec<u8>>,
    size: u64,
    /// Times of the last write, last access, creation and last change.
    times: [u64; 4],
    is_pipe: bool,
    goes: bool,
    transfers: [Option<Transfer>; 2],
}

/// Data read from or written to a file.
struct Transfer {
    file: File,
    /// Received bytes, some of which may wait for earlier ones.
    bytes: u64,
    begun: Begun,
    /// The bytes of its messages.
    at: Span,
}

/// The exchange with which a transfer begins.
struct Begun {
    direction: Direction,
    time: Time,
    command: String,
    session: u64,
    tree: u64,
}

/// The mapped shares of a session.
#[derive(Clone, Default)]
struct Tree {
    path: Vec<u8>,
    is_pipe: bool,
}

/// A command without a response so far.
struct Request {
    /// Its number in the connection, from 0, by the order of arrival.
    number: u64,
    time: Time,
    /// Its bytes, and those of the response.
    at: Span,
    key: Key,
    values: Vec<Value<'static>>,
    what: What,
}

/// The facts about a command that its response needs.
#[derive(Default)]
enum What {
    #[default]
    Other,
    Negotiate(Vec<Vec<u8>>),
    Tree {
        path: Vec<u8>,
        service: Vec<u8>,
    },
    Create {
        name: Vec<u8>,
        goes: bool,
    },
    Read {
        fid: Fid,
        offset: u64,
    },
    /// A DCE/RPC call in a pipe, with its number.
    Call {
        fid: Fid,
        number: u32,
    },
    /// The command applies to the file that the previous command of the compound opened.
    Related,
    /// Not emitted.
    Silent,
}

/// Destination of the rest of a long message.
#[derive(Clone, Copy)]
struct Rest {
    bytes: usize,
    data: usize,
    to: Option<(Fid, u64)>,
    /// Whether a gap has cut the message: only data of files is taken from it.
    is_cut: bool,
}

#[derive(Default)]
struct Side {
    frames: Frames,
    rest: Option<Rest>,
    /// After a gap, whether the next message is sought; the bytes that may begin it.
    is_lost: bool,
    held: Vec<u8>,
    /// Number of messages until one follows that which was found after a gap: before, it may have been content.
    doubt: u8,
}

struct Smb {
    client: Side,
    server: Side,
    files: Files,
    emitted: u64,
    /// Number of commands that have begun, and of responses without one.
    begun: u64,
    dialect: Option<Vec<u8>>,
    waiting: Waiting,
    trees: BTreeMap<u64, Tree>,
    open: BTreeMap<Fid, Open>,
    recent: VecDeque<Vec<Value<'static>>>,
    pipes: piped::Pipes,
    login: kerberos::Login,
}

impl Smb {
    fn new(setup: &Setup) -> Self {
        Self {
            client: Side::default(),
            server: Side::default(),
            files: Files::new(setup),
            emitted: 0,
            begun: 0,
            dialect: None,
            waiting: Waiting::default(),
            trees: BTreeMap::new(),
            open: BTreeMap::new(),
            recent: VecDeque::new(),
            pipes: piped::Pipes::default(),
            login: kerberos::Login::default(),
        }
    }

    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        }
    }
}

impl Parser for Smb {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let mut side = std::mem::take(self.side(chunk.direction));
        let step = self.read(&mut side, chunk, out);
        *self.side(chunk.direction) = side;
        step
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        for (fid, open) in std::mem::take(&mut self.open) {
            self.close(&fid, open, out);
        }
        for request in std::mem::take(&mut self.waiting).into_requests() {
            self.emit(request, out);
        }
        self.pipes.end(out);
        self.login.end(out);
    }

    fn memory(&self) -> usize {
        let open = self.open.values().map(|open| {
            let transfers = open.transfers.iter().flatten().map(|transfer| transfer.file.memory() + 256);
            size_of::<Open>() + open.name.capacity() + transfers.sum::<usize>()
        });
        let row = SMB.fields.len() * size_of::<Value<'_>>();
        let side = |side: &Side| side.frames.memory() + side.held.capacity();
        side(&self.client)
            + side(&self.server)
            + self.waiting.len() * (row + size_of::<Request>() + 64)
            + self.recent.len() * SMB_FILES.fields.len() * size_of::<Value<'_>>()
            + self.trees.values().map(|tree| tree.path.capacity() + 64).sum::<usize>()
            + self.pipes.memory()
            + self.login.memory()
            + open.sum::<usize>()
    }
}

impl Smb {
    fn read(&mut self, side: &mut Side, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            self.pipes.miss(chunk.direction);
            self.miss(side, chunk, out);
        }
        let mut joined = std::mem::take(&mut side.held);
        let mut data = chunk.data;
        if !joined.is_empty() {
            joined.extend_from_slice(data);
            looked_at(joined.len());
            data = &joined;
        }
        while !data.is_empty() || side.rest.is_some_and(|rest| rest.bytes == 0) {
            if side.is_lost {
                side.seek(&mut data, out);
                continue;
            }
            if side.rest.is_some() {
                self.rest(side, &mut data, chunk, out);
                continue;
            }
            let emitted = side.frames.next(&mut data, size, |frame, unread| {
                out.message(unread);
                self.message(frame, false, chunk, out)
            });
            match emitted {
                None => break,
                Some(Ok(rest)) => {
                    side.rest = rest;
                    side.doubt = side.doubt.saturating_sub(1);
                }
                Some(Err(_)) if side.doubt > 0 => side.is_lost = true,
                Some(Err(detail)) => {
                    PROTOCOL.emit_anomaly("malformed_data", chunk.direction, &detail, chunk.time, out);
                    return Step::GiveUp;
                }
            }
        }
        Step::Next
    }

    /// Takes a message of the NetBIOS session. Returns where its rest goes, which has not arrived; the bytes of something else
    /// as an error.
    fn message(
        &mut self,
        frame: &[u8],
        is_cut: bool,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Result<Option<Rest>, Vec<u8>> {
        let [kind, high, middle, low, message @ ..] = frame else { return Ok(None) };
        let whole = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        let mut rest = Rest { bytes: whole - message.len().min(whole), data: 0, to: None, is_cut };
        match (kind, message.get(..4)) {
            // Session request, responses, keep-alive.
            (0x81..=0x85, _) if whole < 256 => {}
            (&SESSION_MESSAGE, Some(NEW)) => self.compound(message, &mut rest, chunk, out),
            (&SESSION_MESSAGE, Some(OLD)) => self.old(message, &mut rest, chunk, out),
            (&SESSION_MESSAGE, Some(ENCRYPTED | COMPRESSED)) => {}
            (&SESSION_MESSAGE, None) if message.is_empty() || is_cut => {}
            _ => return Err(message.to_vec()),
        }
        Ok(Some(rest).filter(|rest| rest.bytes > 0))
    }

    /// Takes bytes of a long message after its beginning.
    fn rest(&mut self, side: &mut Side, data: &mut &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let Some(rest) = &mut side.rest else { return };
        let fit = rest.bytes.min(data.len());
        let (now, later) = data.split_at_checked(fit).unwrap_or((data, &[]));
        *data = later;
        let file = now.get(..rest.data).unwrap_or(now);
        looked_at(fit);
        let to = rest.to;
        rest.bytes -= fit;
        rest.pass(file.len());
        if rest.bytes == 0 {
            out.more(data.len());
            side.rest = None;
        }
        if let Some((fid, offset)) = to {
            self.content(&fid, chunk.direction, offset, file, chunk.time, out);
        }
    }

    /// Takes the token of a login, of either side.
    fn token(&mut self, token: &[u8], time: Time, out: &mut dyn Out) {
        if let Some(message) = gssapi::carried(token, out) {
            self.login.take(message, time, out);
        }
    }

    /// A new row.
    fn request(key: Key, time: Time) -> Request {
        let values = Value::absent(SMB.fields.len());
        Request { number: 0, time, at: Span::default(), key, values, what: What::Other }
    }

    /// Numbers a command that begins, or a response whose command is not known.
    fn begin(&mut self, side: Direction, out: &mut dyn Out) -> u64 {
        let number = self.begun;
        self.begun += 1;
        begin_transaction(side, number, out);
        number
    }

    /// Adds a waiting command. One of the same number has got its response, which was lost.
    fn wait(&mut self, mut request: Request, out: &mut dyn Out) {
        request.at.add(out.here());
        if let Some(oldest) = self.waiting.make_room() {
            PROTOCOL.emit_anomaly("too_many_transactions", Direction::Forward, b"", request.time, out);
            self.emit(oldest, out);
        }
        if let Some(answered) = self.waiting.add(request) {
            self.emit(answered, out);
        }
    }

    /// Takes note of a share that a client connects to.
    fn map(&mut self, number: u64, tree: Tree) {
        if self.trees.len() < MAX_OPEN {
            self.trees.insert(number, tree);
        }
    }

    fn emit(&mut self, mut request: Request, out: &mut dyn Out) {
        if matches!(request.what, What::Silent | What::Read { .. }) {
            return;
        }
        self.number(&mut request);
        out.record(Record::new(&SMB, request.time, request.values).over(request.at));
    }

    /// Sets the number of an exchange that is emitted next, and the dialect.
    fn number(&mut self, request: &mut Request) {
        self.emitted += 1;
        request.set(At::Id, self.emitted);
        request.set(At::Dialect, self.dialect.clone().unwrap_or_else(|| b"unknown".to_vec()));
    }

    /// Takes bytes of a file that are read or written.
    fn content(
        &mut self,
        fid: &Fid,
        direction: Direction,
        offset: u64,
        bytes: &[u8],
        time: Time,
        out: &mut dyn Out,
    ) {
        let Some(open) = self.open.get_mut(fid).filter(|open| !open.is_pipe) else { return };
        let transfer = open.transfers.get_mut(usize::from(direction == Direction::Reverse));
        if let Some(Some(transfer)) = transfer {
            transfer.bytes += bytes.len() as u64;
            transfer.at.add(out.here());
            transfer.file.bytes_at(offset, bytes, time, out);
        }
    }

    /// Whether bytes go through a pipe, which is no file. Where the capture began after the mapping of the tree, only
    /// they show it: they are a remote procedure call.
    fn goes_through_pipe(&mut self, fid: &Fid, tree: u64, data: &[u8]) -> bool {
        if let Some(tree) = self.trees.get(&tree) {
            return tree.is_pipe || self.open.get(fid).is_some_and(|open| open.is_pipe);
        }
        if !self.open.contains_key(fid) && is_call(data) && self.open.len() < MAX_OPEN {
            self.open.insert(*fid, Open::default());
        }
        self.open.get_mut(fid).is_some_and(|open| {
            open.is_pipe |= is_call(data) && open.transfers.iter().all(Option::is_none);
            open.is_pipe
        })
    }

    /// Begins a read or write of a file, or goes on with it. `at` has the messages before the present one.
    fn transfer(&mut self, fid: &Fid, begun: Begun, at: Span) {
        if !self.open.contains_key(fid) && self.open.len() < MAX_OPEN {
            // Opened before the capture began.
            let tree = self.trees.get(&begun.tree).cloned().unwrap_or_default();
            let path = Some(tree.path).filter(|path| !path.is_empty());
            self.open.insert(*fid, Open { path, is_pipe: tree.is_pipe, ..Open::default() });
        }
        let Some(open) = self.open.get_mut(fid).filter(|open| !open.is_pipe) else { return };
        let is_back = begun.direction == Direction::Reverse;
        let Some(place) = open.transfers.get_mut(usize::from(is_back)) else { return };
        let transfer = place.get_or_insert_with(|| {
            let about = About {
                source: "SMB",
                protocol: "smb",
                direction: begun.direction,
                transaction: self.emitted,
                depth: 0,
                filename: Some(open.name.as_slice()).filter(|name| !name.is_empty()),
                path: None,
                declared: None,
                total: (is_back && open.size > 0).then_some(open.size),
            };
            let file = self.files.open(begun.time, about);
            Transfer { file, bytes: 0, begun, at }
        });
        transfer.at.add(at);
    }

    /// Closes a file and emits the transferred content.
    fn close(&mut self, fid: &Fid, open: Open, out: &mut dyn Out) {
        self.pipes.close(fid, out);
        for (back, transfer) in open.transfers.into_iter().enumerate() {
            let Some(transfer) = transfer else { continue };
            if transfer.bytes == 0 {
                continue;
            }
            let Transfer { mut file, begun, mut at, .. } = transfer;
            at.add(out.here());
            let mut request = Self::request(Key::Message(0, 0), begun.time);
            request.set(At::Command, begun.command);
            request.set(At::Status, "STATUS_SUCCESS");
            request.set(At::StatusCode, "0x0");
            request.set(At::Session, begun.session);
            request.set(At::Tree, begun.tree);
            request.set(At::Filename, open.name.clone());
            request.set(At::Share, open.path.clone().unwrap_or_default());
            request.set(At::Fuid, guid(fid));
            self.number(&mut request);
            for (name, column) in CARRIED {
                file.emit(name, request.values.get(column as usize).cloned().unwrap_or_default());
            }
            out.record(Record::new(&SMB, request.time, request.values).over(at));
            file.place(at);
            let is_whole = back == 0 || file.seen() >= open.size;
            file.close(is_whole, out);
        }
    }

    /// Emits an action on a file, as Zeek does: repeated ones only once. `at` has the bytes that it stands for, if they are
    /// not those of the present message.
    fn act(
        &mut self,
        action: &'static str,
        open: &Open,
        old: Option<Vec<u8>>,
        (time, at): (Time, Span),
        out: &mut dyn Out,
    ) {
        let [modified, accessed, created, changed] = open.times.map(names::rough_time);
        // Pipes have no times.
        let has_times = modified.is_some();
        let only = |time: Option<Time>| Value::from(time.filter(|_| has_times));
        let record = record!(
            SMB_FILES,
            time,
            fuid = Value::None,
            action = action,
            path = open.path.clone(),
            name = open.name.clone(),
            size = open.size,
            prev_name = old,
            modified = only(modified),
            accessed = only(accessed),
            created = only(created),
            changed = only(changed),
        )
        .over(at);
        if has_times {
            let mut mark = record.clone();
            mark.set("accessed", Value::None);
            let mark = mark.values;
            looked_at(self.recent.len());
            if self.recent.contains(&mark) {
                return;
            }
            if self.recent.len() == MAX_RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(mark);
        }
        out.record(record);
    }
}

impl Request {
    fn set(&mut self, at: At, value: impl Into<Value<'static>>) {
        if let Some(place) = self.values.get_mut(at as usize) {
            *place = value.into();
        }
    }

    fn status(&mut self, status: u32, time: Time) {
        self.set(At::Status, names::status(status));
        self.set(At::StatusCode, format!("0x{status:x}"));
        self.set(At::Duration, Value::Duration(time.since(self.time)));
    }

    /// The user in a security blob.
    fn login(&mut self, blob: &[u8]) {
        if let Some(ntlm) = Ntlm::find(blob) {
            self.set(At::Domain, ntlm.domain);
            self.set(At::User, ntlm.user);
            self.set(At::Host, ntlm.host);
            self.set(At::NtlmVersion, ntlm.version);
            self.set(At::Mechanism, "ntlmssp");
        } else if names::is_kerberos(blob) {
            self.set(At::Mechanism, "kerberos");
        }
    }

    /// Emits the user in a security blob that was read. Empty names are left out, as in Suricata.
    fn hand_on_user(&self, side: Direction, out: &mut dyn Out) {
        for (buffer, at) in [(&USER, At::User), (&DOMAIN, At::Domain)] {
            if let Some(Value::Text(name)) = self.values.get(at as usize).filter(|_| out.asked().has(buffer))
                && !name.is_empty()
            {
                out.buffer(buffer, side, name);
            }
        }
    }

    /// Handles a request that opens a file.
    fn create(&mut self, name: &[u8], is_directory: bool, disposition: u32, goes: bool) {
        const WORDS: [&str; 6] = [
            "FILE_SUPERSEDE",
            "FILE_OPEN",
            "FILE_CREATE",
            "FILE_OPEN_IF",
            "FILE_OVERWRITE",
            "FILE_OVERWRITE_IF",
        ];
        let at = if is_directory && !name.is_empty() { At::Directory } else { At::Filename };
        self.set(at, shown(name));
        let word = WORDS.get(disposition as usize).copied().unwrap_or("UNKNOWN");
        self.set(At::Disposition, word);
        self.set(At::Access, if goes { "delete on close" } else { "normal" });
    }

    /// The facts about an open file.
    fn opened(&mut self, open: &Open, fid: &Fid) {
        let seconds = |ticks: u64| names::time(ticks).map_or(0, |time| time.0 / 1_000_000_000);
        let [modified, accessed, created, changed] = open.times.map(seconds);
        self.set(At::Created, created);
        self.set(At::Accessed, accessed);
        self.set(At::Modified, modified);
        self.set(At::Changed, changed);
        self.set(At::FileSize, open.size);
        self.set(At::Fuid, guid(fid));
    }
}

/// The length of a message of the NetBIOS session (RFC 1002, 4.3.1), or of SMB over TCP alone, as far as it is kept.
fn size(head: &[u8]) -> Size {
    match head {
        [_, high, middle, low, ..] => {
            let bytes = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            Size::Bytes((4 + bytes).min(MAX_HELD))
        }
        _ => Size::Within(4),
    }
}

/// The name of a file for display; the root of a share has none.
fn shown(name: &[u8]) -> Vec<u8> {
    if name.is_empty() { b"<share_root>".to_vec() } else { bounded(name.to_vec()) }
}

/// The name up to its maximum length.
fn bounded(mut name: Vec<u8>) -> Vec<u8> {
    name.truncate(MAX_NAME);
    name
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use crate::laws::{Collected, talks};

    fn emitted(case: &str) -> Collected {
        let (_, talk) = talks("smb", 445).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    fn text(value: &Value<'_>) -> String {
        match value {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Value::Uint(number) => number.to_string(),
            _ => "-".to_owned(),
        }
    }

    /// Some fields of each row of a table.
    fn rows(emitted: &Collected, table: &str, fields: &[&str]) -> Vec<String> {
        let rows = emitted.records.iter().filter(|record| record.table.name == table);
        rows.map(|row| fields.iter().map(|name| text(row.get(name))).collect::<Vec<_>>().join(" ")).collect()
    }

    /// A client of both versions is answered in version 2; what goes through a pipe is no file.
    #[test]
    fn the_dialect_is_that_of_the_last_negotiation() {
        let emitted = emitted("multi-protocol.talk");
        let rows = emitted.records.iter().filter(|record| record.table.name == "smb");
        let dialects: Vec<_> = rows.map(|row| (text(row.get("command")), text(row.get("dialect")))).collect();
        let [first, second, ..] = dialects.as_slice() else { panic!("{dialects:?}") };
        assert_eq!((first.1.as_str(), second.1.as_str()), ("2.??", "2.10"), "{dialects:?}");
        assert!(emitted.records.iter().all(|record| record.table.name != "files"));
    }

    #[test]
    fn of_pipes_none_is_a_file() {
        for case in ["pipe.talk", "pipe-in-the-midst.talk", "old-pipe.talk"] {
            let emitted = emitted(case);
            assert!(emitted.records.iter().all(|record| record.table.name != "files"), "{case}");
            assert!(emitted.content.is_empty(), "{case}");
        }
    }

    /// What a client connects to is a share or that of pipes, in both versions.
    #[test]
    fn shares_and_that_of_pipes_are_buffers() {
        let of = |case: &str, name: &str| -> Vec<String> {
            let (_, talk) = talks("smb", 445).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
            let emitted = talk.asked(|data| data.chunks(7).map(<[u8]>::to_vec).collect());
            let found = emitted.buffers.into_iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| String::from_utf8(bytes).unwrap()).collect()
        };
        assert_eq!(of("files.talk", "smb.share"), ["\\\\srv\\docs", "\\\\srv\\none"]);
        assert!(of("files.talk", "smb.named_pipe").is_empty());
        assert_eq!(of("pipe.talk", "smb.named_pipe"), ["\\\\srv\\IPC$"]);
        assert_eq!(of("old.talk", "smb.share"), ["\\\\SRV\\C"]);
        assert_eq!(of("old-pipe.talk", "smb.named_pipe"), ["\\\\SRV\\IPC$"]);
    }

    #[test]
    fn files_are_tracked() {
        let emitted = emitted("files.talk");
        let expected = [
            "SMB::FILE_OPEN <share_root> -",
            "SMB::FILE_OPEN a.txt -",
            "SMB::FILE_OPEN b\\big.bin -",
            "SMB::FILE_RENAME c.bin b\\big.bin",
            "SMB::FILE_DELETE c.bin -",
            "SMB::FILE_OPEN tmp -",
            "SMB::FILE_DELETE tmp -",
        ];
        assert_eq!(rows(&emitted, "smb_files", &["action", "name", "prev_name"]), expected);
        assert_eq!(rows(&emitted, "smb_mapping", &["path", "share_type"]), ["\\\\srv\\docs DISK"]);
        let whole: Vec<u8> = (0..70_000_u32).map(|i| (i * 31 % 253) as u8).collect();
        let contents: Vec<&[u8]> = emitted.content.iter().map(|(_, content)| content.as_slice()).collect();
        assert_eq!(contents, [b"hello world", whole.as_slice()]);
        let logins = rows(&emitted, "smb", &["domain", "user", "host", "ntlm_version"]);
        assert!(logins.contains(&"EXAMPLE alice DESK 10.0 build 19041 rev 15".to_owned()), "{logins:?}");
        assert!(rows(&emitted, "anomaly", &["name"]).is_empty());
    }

    #[test]
    fn rpc_calls_in_pipes_are_named() {
        let emitted = emitted("pipe.talk");
        let calls = rows(&emitted, "smb", &["command", "rpc_request", "rpc_response", "rpc_number"]);
        let expected = [
            "SMB2_COMMAND_TREE_CONNECT - - -",
            "SMB2_COMMAND_CREATE - - -",
            "SMB2_COMMAND_WRITE BIND BINDACK -",
            "SMB2_COMMAND_IOCTL REQUEST RESPONSE 5",
        ];
        assert_eq!(calls, expected);
    }

    /// Calls of version 1 have equal records. Different there are a transaction, a first piece that begins with its length, a read of a
    /// part of the answer.
    #[test]
    fn rpc_calls_in_pipes_of_version_1_are_named() {
        let emitted = emitted("old-pipe.talk");
        let calls =
            rows(&emitted, "smb", &["command", "status_code", "rpc_request", "rpc_response", "rpc_number"]);
        let expected = [
            "SMB1_COMMAND_TREE_CONNECT_ANDX 0x0 - - -",
            "SMB1_COMMAND_NT_CREATE_ANDX 0x0 - - -",
            "SMB1_COMMAND_WRITE_ANDX 0x0 BIND BINDACK -",
            "SMB1_COMMAND_WRITE_ANDX 0x0 REQUEST RESPONSE 7",
            "SMB1_COMMAND_TRANS 0x0 REQUEST RESPONSE 9",
            "SMB1_COMMAND_WRITE_ANDX 0x0 - - -",
            "SMB1_COMMAND_WRITE_ANDX 0xc0000022 REQUEST UNREPLIED 11",
            "SMB1_COMMAND_CLOSE 0x0 - - -",
            "SMB1_COMMAND_WRITE_ANDX 0x0 REQUEST UNREPLIED 12",
        ];
        assert_eq!(calls, expected);
        assert!(rows(&emitted, "anomaly", &["name"]).is_empty());
    }

    #[test]
    fn gaps_are_counted_and_later_messages_are_found() {
        let emitted = emitted("gaps.talk");
        let files = rows(&emitted, "files", &["seen_bytes", "missing_bytes", "state"]);
        assert_eq!(files, ["69000 1000 TRUNCATED"]);
        assert_eq!(rows(&emitted, "smb_files", &["name"]), ["big", "after"]);
    }

    #[test]
    fn version_1_is_parsed() {
        let emitted = emitted("old.talk");
        let expected = ["SMB::FILE_OPEN \\x.txt", "SMB::FILE_RENAME \\y.txt", "SMB::FILE_DELETE y"];
        assert_eq!(rows(&emitted, "smb_files", &["action", "name"]), expected);
        let mapped = rows(&emitted, "smb_mapping", &["path", "service", "native_file_system"]);
        assert_eq!(mapped, ["\\\\SRV\\C A: NTFS"]);
        let logins = rows(&emitted, "smb", &["user", "client_os", "server_lm"]);
        assert!(logins.contains(&"bob Unix Windows 6".to_owned()), "{logins:?}");
        let contents: Vec<&[u8]> = emitted.content.iter().map(|(_, content)| content.as_slice()).collect();
        assert_eq!(contents, [&b"hello"[..], b"bye"]);
        assert!(rows(&emitted, "anomaly", &["name"]).is_empty());
    }

    #[test]
    fn malformed_messages_are_reported() {
        assert_eq!(rows(&emitted("malformed.talk"), "anomaly", &["name"]), ["malformed_data"; 3]);
    }
}
