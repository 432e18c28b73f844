//! Flags of messages, by their names.

use super::row::{Group, Keyword, reads};
use crate::buffer::{RuleBuffer, Sides};
use crate::builder::Builder;
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::rule::Test;
use crate::value::{Value, one_of};

/// The flags of MQTT's fixed header (version 5, section 2.1.3).
static MQTT: RuleBuffer =
    RuleBuffer::of("mqtt.flags", &["mqtt"], Sides::Both, "Flags of a message.").multiple();
const OF_MQTT: &[(&str, u64)] = &[("dup", 8), ("retain", 1)];

/// The flags of CONNECT (MQTT 5, section 3.1.2.3).
static CONNECT: RuleBuffer =
    RuleBuffer::of("mqtt.connect.flags", &["mqtt"], Sides::ToServer, "Flags of CONNECT.").multiple();
const OF_CONNECT: &[(&str, u64)] =
    &[("username", 0x80), ("password", 0x40), ("will_retain", 0x20), ("will", 4), ("clean_session", 2)];

/// The flags of a frame of WebSocket (RFC 6455 5.2, RFC 7692 6).
static WEBSOCKET: RuleBuffer =
    RuleBuffer::of("websocket.flags", &["websocket"], Sides::Both, "Flags of a frame.").multiple();
const OF_WEBSOCKET: &[(&str, u64)] = &[("fin", 0x80), ("comp", 0x40)];

const ARGUMENTS: &str = "[!]FLAG[,...]|[<|>|&]NUMBER";

pub(super) fn keywords() -> Vec<Keyword> {
    let flags = |name, help, accepted, refused, read| {
        reads(name, Group::Protocol, ARGUMENTS, help, accepted, refused, read)
    };
    vec![
        flags(
            "mqtt.flags",
            "Flags of a message: all of these, and not those with `!`.",
            &["mqtt.flags:retain;", "mqtt.flags:!retain,!dup;", "mqtt.flags:&1=1;"],
            &["mqtt.flags;", "mqtt.flags:x;", "mqtt.flags:dup,!dup;", "mqtt.flags:256;"],
            |builder, value| add(builder, value, &MQTT, OF_MQTT),
        ),
        flags(
            "mqtt.connect.flags",
            "Flags of CONNECT: all of these, and not those with `!`.",
            &["mqtt.connect.flags:username,password,!will;", "mqtt.connect.flags:>127;"],
            &["mqtt.connect.flags:user;", "mqtt.connect.flags:will,,will_retain;"],
            |builder, value| add(builder, value, &CONNECT, OF_CONNECT),
        ),
        flags(
            "websocket.flags",
            "Flags of the last frame of a message: all of these, and not those with `!`.",
            &["websocket.flags:fin,!comp;", "websocket.flags:&0x40=0x40;"],
            &["websocket.flags:mask;", "websocket.flags:;"],
            |builder, value| add(builder, value, &WEBSOCKET, OF_WEBSOCKET),
        ),
    ]
}

fn add(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    buffer: &'static RuleBuffer,
    names: &[(&str, u64)],
) -> Result<(), Fault> {
    let value = value.unquoted();
    let is_number = value.bytes.first().is_some_and(|byte| byte.is_ascii_digit() || b"<>=&".contains(byte));
    let test = match is_number {
        true => NumberTest::parse(value, 0xff, &[])?,
        false => bits(value, names)?,
    };
    builder.add_apart(buffer, Test::Number(test))
}

/// The bits that are named, and what they are.
fn bits(value: Value<'_>, names: &[(&str, u64)]) -> Result<NumberTest, Fault> {
    let (mut mask, mut is) = (0, 0);
    for part in value.parts(b',') {
        let (is_negated, name) = part.negated();
        let bit = one_of(name, "a flag", names)?;
        if mask & bit != 0 {
            return Err(part.wrong(format!("the flag `{}` is named twice", name.shown())));
        }
        mask |= bit;
        is |= if is_negated { 0 } else { bit };
    }
    Ok(NumberTest::Bits(mask, is))
}
