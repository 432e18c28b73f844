//! Calls of DCE/RPC.

use super::row::{Group, Keyword, reads};
use crate::buffer::{DCE_IFACE, DCE_OPNUM};
use crate::builder::Builder;
use crate::content::{Amount, Content};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::numeric::{ByteTest, Form, Operator, Read};
use crate::ranges::Ranges;
use crate::rule::Test;
use crate::value::{Value, hexadecimal};

pub(super) fn keywords() -> Vec<Keyword> {
    let iface = reads(
        "dcerpc.iface",
        Group::Protocol,
        "UUID[,[<|>|<=|>=|!]VERSION][,any_frag]",
        "The interface of a call, with its higher version number.",
        &[
            "dcerpc.iface:367abb81-9844-35f1-ad32-98f038001003;",
            "dce_iface:367abb81-9844-35f1-ad32-98f038001003,>1,any_frag;",
            "dcerpc.iface:367ABB81-9844-35F1-AD32-98F038001003, = 2;",
        ],
        &[
            "dcerpc.iface;",
            "dcerpc.iface:367abb81-9844-35f1-ad32-98f03800100;",
            "dcerpc.iface:367abb81984435f1ad3298f038001003;",
            "dcerpc.iface:367abb81-9844-35f1-ad32-98f038001003,>65536;",
            "dcerpc.iface:367abb81-9844-35f1-ad32-98f038001003,>1,<3;",
        ],
        interface,
    );
    let opnum = reads(
        "dcerpc.opnum",
        Group::Protocol,
        "NUMBER|FROM-TO[,...]|[<|>|<=|>=|!]NUMBER",
        "The operation of a call: any of these. Ranges have both of their ends.",
        &["dcerpc.opnum:15;", "dce_opnum:0-2,15,20-22;", "dcerpc.opnum:>3;"],
        &[
            "dcerpc.opnum;",
            "dcerpc.opnum:x;",
            "dcerpc.opnum:5-3;",
            "dcerpc.opnum:65536;",
            "dcerpc.opnum:1,,2;",
        ],
        operation,
    );
    vec![Keyword { old_names: &["dce_iface"], ..iface }, Keyword { old_names: &["dce_opnum"], ..opnum }]
}

fn interface(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let mut parts = value.unquoted().parts(b',');
    let uuid = uuid(parts.next().unwrap_or(value))?;
    let mut tests = vec![Test::Content(Content { is_at_start: true, ..Content::of(uuid) })];
    for part in parts {
        match part.bytes {
            // The packets of a call are put together: each call is one value.
            b"any_frag" => {}
            _ if tests.len() > 1 => return Err(part.wrong("an interface has one test of its version")),
            _ => tests.push(Test::ByteTest(version(part)?)),
        }
    }
    builder.add_all_apart(&DCE_IFACE, tests)
}

/// The bytes of a UUID, in the order of its text.
fn uuid(value: Value<'_>) -> Result<Vec<u8>, Fault> {
    let lengths = value.parts(b'-').map(|part| part.bytes.len());
    let digits: Vec<u8> = value.bytes.iter().copied().filter(|byte| *byte != b'-').collect();
    match hexadecimal(&digits) {
        Some(bytes) if lengths.eq([8, 4, 4, 4, 12]) => Ok(bytes.into()),
        _ => Err(value
            .wrong(format!("`{}` is not a UUID, as 367abb81-9844-35f1-ad32-98f038001003", value.shown()))),
    }
}

/// The test of the version, which follows the UUID in the buffer.
fn version(value: Value<'_>) -> Result<ByteTest, Fault> {
    let forms = [
        ("<=", Operator::AtMost, false),
        (">=", Operator::AtLeast, false),
        ("!=", Operator::Is, true),
        ("<", Operator::Below, false),
        (">", Operator::Above, false),
        ("=", Operator::Is, false),
        ("!", Operator::Is, true),
        ("", Operator::Is, false),
    ];
    let form = forms.iter().find_map(|(sign, operator, is_negated)| {
        value.after(sign).map(|rest| (rest.trimmed(), *operator, *is_negated))
    });
    let (number, operator, is_negated) = form.unwrap_or((value, Operator::Is, false));
    let with = Amount::Is(number.number("a version of an interface", 0, 0xffff)?);
    let read = Read {
        bytes: Amount::Is(2),
        offset: Amount::Is(16),
        is_relative: false,
        form: Form::Big,
        mask: None,
    };
    Ok(ByteTest { read, operator, is_negated, with })
}

fn operation(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let value = value.unquoted();
    let test = match value.bytes.first() {
        Some(byte) if b"<>=!&".contains(byte) => Test::Number(NumberTest::parse(value, 0xffff, &[])?),
        _ => Test::AnyOf(Ranges::of(value.parts(b',').map(range).collect::<Result<_, _>>()?)),
    };
    builder.add_apart(&DCE_OPNUM, test)
}

/// A number, or two with `-` between them.
fn range(value: Value<'_>) -> Result<(u16, u16), Fault> {
    let number = |value: Value<'_>| Ok(value.number("a number of an operation", 0, 0xffff)? as u16);
    let mut ends = value.parts(b'-');
    let from = number(ends.next().unwrap_or(value))?;
    let to = ends.next().map_or(Ok(from), number)?;
    match ends.next() {
        None if from <= to => Ok((from, to)),
        _ => Err(value.wrong(format!("`{}` is not a range of operations", value.shown()))),
    }
}
