//! Flags of messages, by their names.

use super::row::{Group, Keyword, reads};
use crate::buffer::{RuleBuffer, Sides};
use crate::builder::Builder;
use crate::fault::Fault;
use crate::numbers::{NumberTest, number_of};
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

/// The internal indications of DNP3 (IEEE 1815, clause 4), the first byte in the higher bits.
static DNP3: RuleBuffer =
    RuleBuffer::of("dnp3.ind", &["dnp3"], Sides::Both, "Internal indications of a response.").multiple();
const OF_DNP3: &[(&str, u64)] = &[
    ("all_stations", 0x0100),
    ("class_1_events", 0x0200),
    ("class_2_events", 0x0400),
    ("class_3_events", 0x0800),
    ("need_time", 0x1000),
    ("local_control", 0x2000),
    ("device_trouble", 0x4000),
    ("device_restart", 0x8000),
    ("no_func_code_support", 0x0001),
    ("object_unknown", 0x0002),
    ("parameter_error", 0x0004),
    ("event_buffer_overflow", 0x0008),
    ("already_executing", 0x0010),
    ("config_corrupt", 0x0020),
    ("reserved_2", 0x0040),
    ("reserved_1", 0x0080),
];

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
        reads(
            "dnp3_ind",
            Group::Protocol,
            "INDICATION[,...]",
            "Internal indications of a response: any of these.",
            &["dnp3_ind:need_time;", "dnp3_ind:class_1_events,class_2_events;", "dnp3_ind:0x1000;"],
            &["dnp3_ind;", "dnp3_ind:time;", "dnp3_ind:0;", "dnp3_ind:65536;"],
            |builder, value| {
                let test = any(value.unquoted(), OF_DNP3)?;
                builder.add_apart(&DNP3, Test::Number(test))
            },
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

/// At least one of the bits that are named.
fn any(value: Value<'_>, names: &[(&str, u64)]) -> Result<NumberTest, Fault> {
    let mut mask = 0;
    for part in value.parts(b',') {
        mask |= number_of(part.trimmed(), 0xffff, names)?;
    }
    match mask {
        0 => Err(value.wrong("no flag is named")),
        _ => Ok(NumberTest::NotBits(mask, 0)),
    }
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
