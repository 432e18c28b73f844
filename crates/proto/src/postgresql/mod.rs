//! PostgreSQL, version 3 of its protocol ("Frontend/Backend Protocol"): logins, queries and commands with their answers, up to
//! TLS or encryption by GSS-API. Passwords and proofs are skipped, not read.

mod command;
mod message;
mod state;
mod stream;

use crate::turns::Conversation;
use crate::{Heads, Kind, Privacy, Probe, Protocol, Table, Transport, field};
use message::{FIRST, First, HEADER, first_length, length, method, parameters};
use state::State;
use weir_wire::{Direction, Reader};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "postgresql",
    help: "PostgreSQL.",
    transport: Transport::Tcp,
    ports: &[5432],
    probe,
    parser: |_| Box::new(Conversation::<State>::default()),
    tables: &[&POSTGRESQL],
    buffers: &[],
};

pub(crate) static POSTGRESQL: Table = Table {
    name: "postgresql",
    help: "A login, a query or a command, with its answer.",
    zeek: "postgresql",
    eve: "",
    fields: &[
        field("user", Kind::Text, "User that the client logs in as.").zeek("user").privacy(Privacy::User),
        field("database", Kind::Text, "Selected database.").zeek("database").privacy(Privacy::Name),
        field("application_name", Kind::Text, "Name of the client's program.").zeek("application_name"),
        field(
            "frontend",
            Kind::Word,
            "What the client asks: ssl_request, gssenc_request, startup, simple_query, execute, function_call, cancel_request, \
             terminate; of an extended query whose steps fail without a command parse, bind, describe, close or sync.",
        )
        .zeek("frontend"),
        field(
            "frontend_arg",
            Kind::Text,
            "Text of the query, also of one that was prepared; number of the cancelled process. At most 16 KiB.",
        )
        .zeek("frontend_arg")
        .privacy(Privacy::Content),
        field("success", Kind::Bool, "Whether the server has done it.").zeek("success"),
        field(
            "backend",
            Kind::Text,
            "What the server answers: ssl_reply, gssenc_reply, auth_request, auth_ok, error.",
        )
        .zeek("backend"),
        field("backend_arg", Kind::Text, "Methods of authentication, and the fields of errors and notices.")
            .zeek("backend_arg")
            .privacy(Privacy::Content),
        field("rows", Kind::Uint, "Number of rows that the server returns.").zeek("rows"),
        field("changed", Kind::Uint, "Number of rows that were inserted, updated, deleted, merged or copied."),
        field("rtt", Kind::Duration, "Time from the request to the end of its answer, in seconds."),
        field("error_code", Kind::Text, "Code of an error, by the SQL standard."),
        field("error_message", Kind::Text, "Message of an error.").privacy(Privacy::Content),
        field("auth_method", Kind::Word, "First method of authentication that the server asks for."),
        field("server_version", Kind::Text, "Version that the server states."),
    ],
};

/// The client's first message decides; on the protocol's port also the server's first one, or a request with its answer.
fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let (client, server) = (heads.forward, heads.reverse);
    if let Some(bytes) = first_length(client) {
        return first(client, bytes, server);
    }
    let may_begin = |head: &[u8]| head.first().is_none_or(|byte| *byte == 0) && head.len() < FIRST;
    if is_home && is_login(server) {
        return Probe::Match;
    }
    let is_message = |side, head: &[u8]| length(side, head).is_some();
    if is_home && is_message(Direction::Forward, client) {
        return match server {
            _ if is_message(Direction::Reverse, server) => Probe::Match,
            server if server.len() < HEADER => Probe::Maybe,
            _ => Probe::Reject,
        };
    }
    let may_answer = server.is_empty() || matches!(server, b"S" | b"N" | b"G") || is_login(server);
    if may_begin(client) && (may_answer || is_home && server.len() < HEADER) {
        Probe::Maybe
    } else {
        Probe::Reject
    }
}

/// Judges a stream of the client that begins with a first message of this length.
fn first(client: &[u8], bytes: usize, server: &[u8]) -> Probe {
    let Some(message) = client.get(..bytes) else {
        let names_user = client.get(FIRST..).is_some_and(|body| body.starts_with(b"user\0"));
        return if names_user && is_login(server) { Probe::Match } else { Probe::Maybe };
    };
    match First::read(message) {
        Some(First::Startup(body)) => {
            let mut length = 0;
            let mut has_user = false;
            for (name, value) in parameters(body) {
                length += name.len() + value.len() + 2;
                has_user |= name == b"user" && !value.is_empty();
            }
            if has_user && length == body.len() { Probe::Match } else { Probe::Reject }
        }
        Some(_) => Probe::Match,
        None => Probe::Reject,
    }
}

/// Whether a server begins with what answers a login.
fn is_login(head: &[u8]) -> bool {
    let mut reader = Reader::new(head);
    let kind = reader.u8().filter(|kind| *kind == b'R').and_then(|_| reader.u32()).and_then(|_| reader.u32());
    length(Direction::Reverse, head).is_some() && kind.is_some_and(|kind| kind == 0 || method(kind).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::{Talk, Turn};
    use crate::{TCP, Value};

    #[test]
    fn requests_that_wait_are_bounded() {
        let client = |data: &[u8]| Turn::Data(Direction::Forward, data.to_vec());
        let startup = client(b"\0\0\0\x12\0\x03\0\0user\0ann\0\0");
        let text = [b'x'; 12 << 10];
        let query = [b"Q", &(text.len() as u32 + 5).to_be_bytes()[..], &text, b"\0"].concat();
        let run = client(b"E\0\0\0\x09\0\0\0\0\0");
        for (request, times) in [(run, 600), (client(&query), 60)] {
            let mut turns = vec![request; times];
            turns.insert(0, startup.clone());
            let talk = Talk { ip_proto: TCP, ports: [49152, 5432], turns };
            let records = talk.emitted(|data| vec![data.to_vec()]).records;
            let name = Value::from("too_many_commands");
            let limits =
                records.iter().filter(|record| *record.table != POSTGRESQL && *record.get("name") == name);
            assert!(limits.count() >= 1);
            assert_eq!(records.iter().filter(|record| *record.table == POSTGRESQL).count(), times + 1);
        }
    }
}
