//! What parsers find.

use super::row::{Group, Keyword, reads};
use crate::buffer::{TLS_STATE, TLS_VERSION};
use crate::builder::{Builder, no_value};
use crate::condition::{Condition, ProtocolOf, TlsState, TlsVersion};
use crate::fault::Fault;
use crate::protocol::{self, Selects};
use crate::rule::Test;
use crate::value::{Value, one_of};

pub(super) fn keywords() -> Vec<Keyword> {
    let of_protocol = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Protocol, arguments, help, accepted, refused, read)
    };
    vec![
        of_protocol(
            "app-layer-protocol",
            "[!]NAME[,WHOSE]",
            "The application protocol of the flow.",
            &["app-layer-protocol:!tls;", "app-layer-protocol:failed;", "app-layer-protocol:http,toserver;"],
            &["app-layer-protocol:x;", "app-layer-protocol:http,x;"],
            app_protocol,
        ),
        of_protocol(
            "app-layer-event",
            "PROTOCOL.EVENT",
            "Something odd that a parser found.",
            &["app-layer-event:http.missing_host_header;"],
            &["app-layer-event;", "app-layer-event:a b;"],
            |builder, value| event(builder, value, Condition::AppEvent),
        ),
        Keyword {
            old_names: &["engine-event"],
            ..of_protocol(
                "decode-event",
                "NAME",
                "Something odd in a packet.",
                &["decode-event:ipv4.trunc_pkt;"],
                &["decode-event;"],
                |builder, value| event(builder, value, Condition::DecodeEvent),
            )
        },
        of_protocol(
            "stream-event",
            "NAME",
            "Something odd in a stream.",
            &["stream-event:est_syn_resend;"],
            &["stream-event:a,b;"],
            |builder, value| event(builder, value, Condition::StreamEvent),
        ),
        of_protocol(
            "tls.version",
            "[!]1.0|1.1|1.2|1.3",
            "Version of TLS that was agreed on.",
            &["tls.version:1.2;", r#"tls.version:"1.0";"#],
            &["tls.version:4;"],
            tls_version,
        ),
        of_protocol(
            "ssl_version",
            "[!]NAME[,...]",
            "Version of TLS in a hello: any of these.",
            &["ssl_version:sslv3,tls1.0;", "ssl_version:!tls1.2;"],
            &["ssl_version:x;"],
            ssl_version,
        ),
        of_protocol(
            "ssl_state",
            "[!]NAME[|...]",
            "State of a TLS handshake: any of these.",
            &["ssl_state:client_hello|server_hello;"],
            &["ssl_state:x;"],
            ssl_state,
        ),
        of_protocol(
            "ftpbounce",
            "",
            "A PORT command with another address than the client's.",
            &["ftpbounce;"],
            &["ftpbounce:1;"],
            ftp_bounce,
        ),
    ]
}

fn app_protocol(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (is_negated, value) = value.unquoted().negated();
    let mut parts = value.parts(b',');
    let name = parts.next().unwrap_or(value);
    let name_is = match name.bytes {
        b"failed" | b"unknown" => None,
        _ => match protocol::named(name.text()?, name.at)?.selects {
            Selects::Application(in_weir) => Some(in_weir.into()),
            _ => return Err(name.wrong(format!("`{}` is not an application protocol", name.shown()))),
        },
    };
    let sides = [
        ("either", ProtocolOf::Either),
        ("direction", ProtocolOf::Sender),
        ("toserver", ProtocolOf::Client),
        ("to_server", ProtocolOf::Client),
        ("toclient", ProtocolOf::Server),
        ("to_client", ProtocolOf::Server),
        ("final", ProtocolOf::Last),
        ("original", ProtocolOf::Original),
    ];
    let of =
        parts.next().map_or(Ok(ProtocolOf::Sender), |part| one_of(part, "whose protocol it is", &sides))?;
    builder.add_condition(Condition::AppProtocol { name: name_is, is_negated, of })
}

fn event(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    condition: fn(Box<str>) -> Condition,
) -> Result<(), Fault> {
    let name = value.unquoted();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if name.is_empty() || !name.bytes.iter().all(is_name) {
        return Err(value.wrong(format!(
            "`{}` is not the name of an event: letters, digits, `.`, `_` and `-`",
            name.shown()
        )));
    }
    builder.add_condition(condition(name.text()?.into()))
}

fn tls_version(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (is_negated, value) = value.negated();
    let version = one_of(value.unquoted(), "a version of TLS", &TlsVersion::NUMBERS)?;
    builder.add_apart(&TLS_VERSION, Test::TlsVersion(vec![(version, is_negated)]))
}

fn ssl_version(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let version = |part: Value<'_>| {
        let (is_negated, part) = part.negated();
        one_of(part, "a version of TLS", &TlsVersion::NAMES).map(|version| (version, is_negated))
    };
    let versions = value.unquoted().parts(b',').map(version).collect::<Result<_, _>>()?;
    builder.add_apart(&TLS_VERSION, Test::TlsVersion(versions))
}

fn ssl_state(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let state = |part: Value<'_>| {
        let (is_negated, part) = part.negated();
        one_of(part, "a state of a handshake", &TlsState::NAMES).map(|state| (state, is_negated))
    };
    let parts = value.unquoted().parts(b',').flat_map(|part| part.parts(b'|')).map(state);
    builder.add_apart(&TLS_STATE, Test::TlsState(parts.collect::<Result<_, _>>()?))
}

fn ftp_bounce(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.add_condition(Condition::FtpBounce)
}
