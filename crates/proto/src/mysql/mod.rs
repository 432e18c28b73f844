//! MySQL and MariaDB ("MySQL Client/Server Protocol"): logins, and commands with their answers, up to TLS or compression.

mod commands;
mod packet;
mod state;
mod stream;

use crate::turns::Conversation;
use crate::{Heads, Kind, Privacy, Probe, Protocol, Record, Table, Transport, field};
use commands::{fits, word};
use packet::{Greeting, HEADER, Login, header};
use state::State;

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "mysql",
    help: "MySQL and MariaDB.",
    transport: Transport::Tcp,
    ports: &[3306],
    probe,
    parser: |_| Box::new(Conversation::<State>::default()),
    tables: &[&MYSQL],
    buffers: &[],
};

pub(crate) static MYSQL: Table = Table {
    name: "mysql",
    help: "A login or a command, with its answer.",
    zeek: "mysql",
    eve: "",
    fields: &[
        field(
            "cmd",
            Kind::Word,
            "Command; login for a login, starttls where TLS begins, connect where the server refuses the connection.",
        )
        .zeek("cmd"),
        field("arg", Kind::Text, "Argument: the text of a query, the user of a login. At most 16 KiB.")
            .zeek("arg")
            .privacy(Privacy::Content),
        field("success", Kind::Bool, "Whether the server has done it.").zeek("success"),
        field("rows", Kind::Uint, "Number of rows that the command has changed.").zeek("rows"),
        field("response", Kind::Text, "Message of an error.").zeek("response").privacy(Privacy::Content),
        field("rtt", Kind::Duration, "Time from the command to the end of its answer, in seconds."),
        field("returned", Kind::Uint, "Number of rows of the results."),
        field("error_code", Kind::Uint, "Number of an error."),
        field("sql_state", Kind::Text, "Class of an error, by the SQL standard."),
        field("user", Kind::Text, "User that the client logs in as.").privacy(Privacy::User),
        field("database", Kind::Text, "Selected database.").privacy(Privacy::Name),
        field("server_version", Kind::Text, "Version that the server states."),
    ],
};

/// The command of rows where TLS begins, and of those where the server refuses the connection.
const STARTTLS: &str = "starttls";
const CONNECT: &str = "connect";

/// Whether Zeek has a row of this kind.
pub(crate) fn has_command(record: &Record<'_>) -> bool {
    *record.get("cmd") != STARTTLS.into() && *record.get("cmd") != CONNECT.into()
}

/// Maximum length in bytes of the first packets.
const MAX_FIRST: usize = 4096;

/// The first packet of a side if it is whole, and its number.
fn first(head: &[u8]) -> Option<(&[u8], u8)> {
    let (length, sequence) = header(head).filter(|(length, _)| *length <= MAX_FIRST)?;
    Some((head.get(HEADER..HEADER + length)?, sequence))
}

/// Whether the first packet of a side needs more bytes.
fn is_begun(head: &[u8]) -> bool {
    header(head)
        .is_none_or(|(length, number)| number <= 1 && length <= MAX_FIRST && head.len() < HEADER + length)
}

/// The server's greeting or the client's login decides; on the protocol's port also a command with its answer.
fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let (client, server) = (first(heads.forward), first(heads.reverse));
    let greeting = server.filter(|(_, number)| *number == 0).and_then(|(body, _)| Greeting::read(body));
    if greeting.is_some_and(|greeting| is_home || is_usual(greeting.version)) {
        return Probe::Match;
    }
    let is_refused = |(body, number): (&[u8], u8)| number == 0 && state::is_refusal(body);
    if is_home && server.is_some_and(is_refused) {
        return Probe::Match;
    }
    let login = client.filter(|(_, number)| *number == 1).and_then(|(body, _)| Login::read(body));
    let is_answer_to_login = server.is_none_or(|(body, number)| number == 2 && state::begins_login(body));
    if is_answer_to_login && login.is_some_and(|login| login.is_usual()) {
        return Probe::Match;
    }
    if is_home && is_command(heads.forward) {
        let is_answer = server.is_some_and(|(body, number)| number == 1 && !body.is_empty());
        return if is_answer { Probe::Match } else { Probe::Maybe };
    }
    let is_open = |head: &[u8]| head.is_empty() || is_begun(head);
    if is_open(heads.forward) && is_open(heads.reverse) { Probe::Maybe } else { Probe::Reject }
}

/// Whether a version is a number with points, as that of MySQL and MariaDB.
fn is_usual(version: &[u8]) -> bool {
    version.first().is_some_and(u8::is_ascii_digit) && version.contains(&b'.')
}

/// Whether a stream of the client begins with a command.
fn is_command(head: &[u8]) -> bool {
    let command = head.get(HEADER).copied();
    header(head).is_some_and(|(length, number)| {
        number == 0 && command.is_some_and(|command| word(command).is_some() && fits(command, length))
    })
}
