//! The flow, and what rules remember of flows and hosts.

use super::row::{Group, Keyword, reads};
use crate::builder::Builder;
use crate::condition::{AddressOf, Condition, OfSide, ReputationTest};
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::state::{Flow, FlowBits, FlowBitsValue, FlowInt, HostBits};
use crate::value::{Value, one_of};

pub(super) fn keywords() -> Vec<Keyword> {
    let state = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::State, arguments, help, accepted, refused, read)
    };
    const SIZE: &str = "SIDE,[<|>|!]NUMBER";
    vec![
        state(
            "flow",
            "OPTION[,...]",
            "Direction and state of the flow.",
            &["flow:established,to_server;", "flow:stateless;", "flow:no_stream,only_frag;"],
            &["flow:x;", "flow:to_server,to_client;"],
            flow,
        ),
        state(
            "flowbits",
            "ACTION,NAME[|NAME]",
            "A bit of the flow is asked or set.",
            &["flowbits:set,a;", "flowbits:isset,a|b;", "flowbits:noalert;"],
            &["flowbits:set;", "flowbits:x,a;"],
            flow_bits,
        ),
        state(
            "flowint",
            "NAME,OPERATION[,NUMBER]",
            "A number of the flow is asked or changed.",
            &["flowint:n,+,1;", "flowint:n,>,3;", "flowint:n,notset;"],
            &["flowint:n;", "flowint:n,+;"],
            flow_int,
        ),
        state(
            "xbits",
            "ACTION,NAME,track ip_src|ip_dst|ip_pair[,expire SECONDS]",
            "A bit of a host is asked or set.",
            &["xbits:set,a,track ip_src,expire 10;"],
            &["xbits:set,a;"],
            xbits,
        ),
        state(
            "hostbits",
            "ACTION,NAME[,src|dst|both]",
            "A bit of a host is asked or set.",
            &["hostbits:isset,a,src;"],
            &["hostbits:x,a;"],
            host_bits,
        ),
        state(
            "stream_size",
            SIZE,
            "Bytes of the stream so far.",
            &["stream_size:client,>,10;", "stream_size:both,<=,10;"],
            &["stream_size:x,>,10;", "stream_size:client;"],
            |builder, value| of_side(builder, value, u64::from(u32::MAX), Condition::StreamSize),
        ),
        state(
            "flow.pkts",
            SIZE,
            "Packets of the flow.",
            &["flow.pkts:toserver,>10;"],
            &["flow.pkts:x,>10;"],
            |builder, value| of_side(builder, value, u64::from(u32::MAX), Condition::FlowPackets),
        ),
        state(
            "flow.bytes",
            SIZE,
            "Bytes of the flow.",
            &["flow.bytes:either,>10;"],
            &["flow.bytes:10;"],
            |builder, value| of_side(builder, value, u64::MAX, Condition::FlowBytes),
        ),
        state(
            "flow.pkts_toserver",
            "[<|>|!]NUMBER",
            "Packets of the initiator.",
            &["flow.pkts_toserver:>10;"],
            &["flow.pkts_toserver:x;"],
            |builder, value| of_one(builder, value, OfSide::Client, Condition::FlowPackets),
        ),
        state(
            "flow.pkts_toclient",
            "[<|>|!]NUMBER",
            "Packets of the responder.",
            &["flow.pkts_toclient:>10;"],
            &["flow.pkts_toclient:x;"],
            |builder, value| of_one(builder, value, OfSide::Server, Condition::FlowPackets),
        ),
        state(
            "flow.bytes_toserver",
            "[<|>|!]NUMBER",
            "Bytes of the initiator.",
            &["flow.bytes_toserver:>10;"],
            &["flow.bytes_toserver:x;"],
            |builder, value| of_one(builder, value, OfSide::Client, Condition::FlowBytes),
        ),
        state(
            "flow.bytes_toclient",
            "[<|>|!]NUMBER",
            "Bytes of the responder.",
            &["flow.bytes_toclient:>10;"],
            &["flow.bytes_toclient:x;"],
            |builder, value| of_one(builder, value, OfSide::Server, Condition::FlowBytes),
        ),
        state(
            "flow.age",
            "[<|>|!]SECONDS",
            "Age of the flow.",
            &["flow.age:>3600;"],
            &["flow.age:x;"],
            flow_age,
        ),
        state(
            "iprep",
            "any|src|dst|both,CATEGORY,OPERATOR,NUMBER|isset|isnotset",
            "Reputation of an address, by files of the user.",
            &["iprep:src,Bad,>,30;", "iprep:any,Bad,isset;", "iprep:both,Bad,isnotset;"],
            &["iprep:src,CnC,>,30;", "iprep:src,Bad;", "iprep:x,Bad,>,1;", "iprep:src,Bad,>,127;"],
            reputation,
        ),
    ]
}

fn flow(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let flow = Flow::parse(value.unquoted())?;
    if builder.rule.flow != Flow::default() {
        return Err(builder.wrong("a rule has one `flow`"));
    }
    builder.rule.flow = flow;
    Ok(())
}

fn flow_bits(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    match FlowBits::parse(value.unquoted())? {
        FlowBitsValue::NoAlert => builder.rule.is_silent = true,
        FlowBitsValue::Bits(bits) => builder.rule.flow_bits.push(bits),
    }
    Ok(())
}

fn flow_int(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let is = FlowInt::parse(value.unquoted())?;
    builder.rule.flow_ints.push(is);
    Ok(())
}

fn xbits(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let bits = HostBits::of_pair_or_host(value.unquoted())?;
    builder.rule.is_silent |= bits.is_none();
    builder.rule.host_bits.extend(bits);
    Ok(())
}

fn host_bits(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let bits = HostBits::of_host(value.unquoted())?;
    builder.rule.is_silent |= bits.is_none();
    builder.rule.host_bits.extend(bits);
    Ok(())
}

fn of_side(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    greatest: u64,
    condition: fn(OfSide, NumberTest) -> Condition,
) -> Result<(), Fault> {
    let (side, test) = OfSide::with_number(value.unquoted(), greatest)?;
    builder.add_condition(condition(side, test))
}

fn of_one(
    builder: &mut Builder<'_>,
    value: Value<'_>,
    side: OfSide,
    condition: fn(OfSide, NumberTest) -> Condition,
) -> Result<(), Fault> {
    let test = NumberTest::parse(value.unquoted(), u64::MAX, &[])?;
    builder.add_condition(condition(side, test))
}

fn flow_age(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let test = NumberTest::parse(value.unquoted(), u64::from(u32::MAX), &[])?;
    builder.add_condition(Condition::FlowAge(test))
}

fn reputation(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let parts: Vec<Value<'_>> = value.unquoted().parts(b',').collect();
    let [side, category, test @ ..] = parts.as_slice() else {
        return Err(value.wrong("a side, a category, an operator and a number are given"));
    };
    let sides = [
        ("any", AddressOf::Either),
        ("src", AddressOf::Source),
        ("dst", AddressOf::Destination),
        ("both", AddressOf::Both),
    ];
    let of = one_of(*side, "a side", &sides)?;
    let text: Vec<u8> = test.iter().flat_map(|part| part.bytes).copied().collect();
    let test = match text.as_slice() {
        b"isset" => Some(NumberTest::AtLeast(1)),
        b"isnotset" => None,
        _ => Some(NumberTest::parse(Value::new(&text, value.at), 127, &[])?),
    };
    let name = category.text()?;
    let Some(scores) = builder.sources.reputations(name) else {
        let reason = format!("no file of reputations has the category `{name}`; --rule-categories names one");
        return Err(category.not_supported(reason));
    };
    builder.add_condition(Condition::Reputation(ReputationTest { of, scores, test }))
}
