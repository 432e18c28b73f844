//! Remote procedure calls over connections (DCE 1.1, C706 chapter 12; MS-RPCE): over TCP, and in the pipes of SMB.
//!
//! A row has a call with its answer. Calls are joined from their packets by number; after a gap the next packet is found by its
//! header.

mod buffers;
mod calls;
mod names;
pub(crate) mod pdu;

pub(crate) use calls::{Calls, Carrier, Sent};

use crate::messages::{Length, Message, Reads, Rules, Sides};
use crate::sought::Begun;
use crate::{
    Field, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Step, Table, Transport, Value, field,
};
use pdu::{HEADER, Header, may_begin};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "dce_rpc",
    help: "Remote procedure calls over connections (DCE 1.1, C706; MS-RPCE).",
    transport: Transport::Tcp,
    ports: &[135],
    probe,
    parser: |_| Box::new(DceRpc::default()),
    tables: &[&DCE_RPC],
    buffers: &[&buffers::IFACE, &buffers::OPNUM, &buffers::BYTE_ORDER, &buffers::STUB_DATA],
};

pub(crate) static DCE_RPC: Table = Table {
    name: "dce_rpc",
    help: "A call or another request, with its answer.",
    zeek: "dce_rpc",
    eve: "dcerpc",
    fields: &[
        field(
            "request",
            Kind::Word,
            "Type of the request; REQUEST for a call, REQUEST_LOST if it is missing.",
        )
        .eve("dcerpc.request"),
        field(
            "response",
            Kind::Word,
            "Type of the answer; RESPONSE for that to a call, UNREPLIED without one.",
        )
        .eve("dcerpc.response"),
        field("rtt", Kind::Duration, "Time from the request to the answer, in seconds.").zeek("rtt"),
        field("named_pipe", Kind::Text, "Pipe or port that the server names as its secondary address.")
            .zeek("named_pipe")
            .privacy(Privacy::Content),
        field("endpoint", Kind::Word, "Name of the interface.").zeek("endpoint"),
        field("operation", Kind::Word, "Name of the operation.").zeek("operation"),
        field("call_id", Kind::Uint, "Number of the call.").eve("dcerpc.call_id"),
        field("rpc_version", Kind::Word, "Version of the protocol.").eve("dcerpc.rpc_version"),
        field("context", Kind::Uint, "Number by which the call names the interface (presentation context)."),
        field("opnum", Kind::Uint, "Number of the operation.").eve("dcerpc.req.opnum"),
        field("request_packets", Kind::Uint, "Number of packets of the call.").eve("dcerpc.req.frag_cnt"),
        field("request_bytes", Kind::Uint, "Length of the call's data in bytes."),
        field(
            "request_size",
            Kind::Uint,
            "Length of the packets of the call in bytes, without the first 24 bytes of each, as Suricata logs it.",
        )
        .eve("dcerpc.req.stub_data_size"),
        field("response_packets", Kind::Uint, "Number of packets of the response.")
            .eve("dcerpc.res.frag_cnt"),
        field("response_bytes", Kind::Uint, "Length of the response's data in bytes."),
        field(
            "response_size",
            Kind::Uint,
            "Length of the packets of the response in bytes, without the first 16 bytes of each, as Suricata logs it.",
        )
        .eve("dcerpc.res.stub_data_size"),
        field("fault", Kind::Word, "Status of a fault, or reason of a refused bind, in hexadecimal digits (C706, appendix E and 12.6.4.5)."),
        field("interfaces", Kind::Rows(&INTERFACES), "Interfaces that a bind requests, or the interface of the call.")
            .eve("dcerpc.interfaces"),
        field("mechanism", Kind::Word, "Authentication mechanism."),
        field("protection", Kind::Word, "Level of protection of the calls."),
        field("carrier", Kind::Word, "What carries the calls: tcp, or smb for a pipe."),
    ],
};

static INTERFACES: [Field; 4] = [
    field("uuid", Kind::Text, "UUID of the interface.").eve("uuid"),
    field("version", Kind::Text, "Version of the interface.").eve("version"),
    field(
        "result",
        Kind::Uint,
        "Result for the interface in the acknowledgement (C706, 12.6.3.1); 0: accepted.",
    )
    .eve("ack_result"),
    field("reason", Kind::Uint, "Reason of a rejection (C706, 12.6.3.1)."),
];

/// Numbers of mechanisms (MS-RPCE, 2.2.1.1.7).
const SPNEGO: u8 = 9;
const NTLM: u8 = 10;
const KERBEROS: u8 = 16;

/// The name of a mechanism of authentication (MS-RPCE, 2.2.1.1.7).
fn mechanism(number: u8) -> String {
    let word = match number {
        SPNEGO => "spnego",
        NTLM => "ntlm",
        14 => "schannel",
        KERBEROS => "kerberos",
        68 => "netlogon",
        _ => return format!("unknown-{number}"),
    };
    word.to_owned()
}

/// The name of a level of protection (MS-RPCE, 2.2.1.1.8).
fn protection(number: u8) -> String {
    let word = match number {
        1 => "none",
        2 => "connect",
        3 => "call",
        4 => "packet",
        5 => "integrity",
        6 => "privacy",
        _ => return format!("unknown-{number}"),
    };
    word.to_owned()
}

/// Operations that Zeek leaves out of its log by default (`DCE_RPC::ignored_operations`), because they are frequent: interface and
/// names.
const LEFT_OUT: [(&str, &[&str]); 3] = [
    (
        "winreg",
        &[
            "BaseRegCloseKey",
            "BaseRegDeleteKeyEx",
            "BaseRegEnumKey",
            "BaseRegGetVersion",
            "BaseRegOpenKey",
            "BaseRegQueryValue",
            "OpenClassesRoot",
            "OpenLocalMachine",
        ],
    ),
    ("spoolss", &["RpcClosePrinter", "RpcSplOpenPrinter"]),
    ("wkssvc", &["NetrWkstaGetInfo"]),
];

/// Whether Zeek's log has a row: of a call of a known context with its response.
pub(crate) fn is_in_zeeks_log(record: &Record<'_>) -> bool {
    let is =
        |name: &str, word: &str| matches!(record.get(name), Value::Text(text) if **text == *word.as_bytes());
    let is_left_out = LEFT_OUT.iter().any(|(endpoint, operations)| {
        is("endpoint", endpoint) && operations.iter().any(|operation| is("operation", operation))
    });
    is("request", "REQUEST")
        && is("response", "RESPONSE")
        && !record.get("operation").is_none()
        && !is_left_out
}

/// Whether a record is of a call in a pipe, which Suricata has in the event of the file's command.
pub(crate) fn is_in_pipe(record: &Record<'_>) -> bool {
    *record.table == DCE_RPC && *record.get("carrier") == "smb".into()
}

/// Whether a packet begins here: its header decides, 50 bits of which are fixed.
fn begun(bytes: &[u8]) -> Begun {
    match Header::read(bytes) {
        Some(_) => Begun::Yes(HEADER),
        None if bytes.len() < HEADER && may_begin(bytes) => Begun::Unknown,
        None => Begun::No,
    }
}

/// A header decides, unless what follows its packet is none, or both sides send requests or both answers.
fn probe(heads: &Heads<'_>) -> Probe {
    let mut askers = Vec::with_capacity(2);
    for head in heads.both() {
        match Header::read(head) {
            Some(header) => {
                let next = head.get(header.length..).unwrap_or_default();
                if matches!(begun(next), Begun::No) {
                    return Probe::Reject;
                }
                askers.push(header.is_asking());
            }
            None if matches!(begun(head), Begun::Unknown) => {}
            None => return Probe::Reject,
        }
    }
    match askers.as_slice() {
        [] => Probe::Maybe,
        [one, other] if one == other => Probe::Reject,
        _ => Probe::Match,
    }
}

/// How packets begin.
#[derive(Clone, Copy)]
struct Begins;

impl Rules for Begins {
    fn length(self, _: Direction, head: &[u8]) -> Length {
        /// Number of the first bytes of which each may show that they begin no packet.
        const SHOWN: usize = 8;
        if let Some(header) = Header::read(head) {
            return Length::Is(header.length);
        }
        match (1..=SHOWN.min(head.len())).find(|bytes| !head.get(..*bytes).is_some_and(may_begin)) {
            Some(bytes) => Length::Bad(bytes),
            None if head.len() < SHOWN => Length::Within(head.len() + 1),
            None if head.len() < HEADER => Length::Within(HEADER),
            None => Length::Bad(HEADER),
        }
    }

    fn begun(self, _: Direction, _: usize, bytes: &[u8]) -> Begun {
        begun(bytes)
    }
}

#[derive(Default)]
struct DceRpc {
    sides: Sides,
    state: State,
}

struct State(Calls);

impl Default for State {
    fn default() -> Self {
        Self(Calls::new(Carrier::Tcp))
    }
}

impl Reads for State {
    type Rules = Begins;
    /// The length of a packet has 16 bits.
    const MAX_HELD: usize = 65_536;

    fn rules(&self) -> Begins {
        Begins
    }

    fn message(&mut self, message: Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let sent = Sent { side: chunk.direction, time: chunk.time, at: out.here() };
        self.0.take(message.bytes, sent, out);
        Step::Next
    }

    fn malformed(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        PROTOCOL.emit_anomaly("malformed_data", chunk.direction, bytes, chunk.time, out);
    }
}

impl Parser for DceRpc {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            self.state.0.miss(chunk.direction);
        }
        self.sides.read(chunk, out, &mut self.state)
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.state.0.end(out);
    }

    fn memory(&self) -> usize {
        self.sides.memory() + self.state.0.memory()
    }
}
