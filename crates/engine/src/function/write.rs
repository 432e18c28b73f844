//! Files of packets of a subscription's own: the packets that reach the function, or those of the flows that do.

use super::arguments::{is_name, size};
use super::log::Rows;
use super::{Argument, Arguments, FunctionSpec, InputKind, Memory};
use super::{Function, count};
use crate::target::{Before, NamedFile, Of, Place, Rotation, Target};
use weir_api::Level;

/// The largest number of files that are kept.
const MAX_FILES: u32 = 100_000;

/// Over packets and flows.
pub(super) static WRITE: FunctionSpec = FunctionSpec {
    name: "write",
    help: "Writes packets into a file of its own in the directory of logs: those that reach it or, at flow level, those of the flows that do. Its reading is their number and bytes.",
    levels: &[Level::Packet, Level::Flow],
    ..SPEC
};

/// Over records.
pub(super) static WRITE_OF_RECORDS: FunctionSpec = FunctionSpec {
    name: "write",
    help: "Writes the packets of the flows of the records that reach it into a file of its own in the directory of logs: those before the record, and all that follow; or only those that carry the records. Its reading is the number of records.",
    levels: &[Level::Record],
    build: |arguments| checked(arguments).map(|()| Box::new(Rows::default()) as Box<dyn Function>),
    ..SPEC
};

const SPEC: FunctionSpec = FunctionSpec {
    name: "write",
    help: "",
    arguments: &[TO, ROTATE, FILES, SNAPLEN, OF, BEFORE],
    levels: &[],
    input: InputKind::Packets,
    memory: |arguments| checked(arguments).map(|()| Memory::SMALL),
    judge: None,
    delivers: Some(target),
    identifies: false,
    build: |arguments| checked(arguments).and_then(|()| count::build(arguments)),
};

const TO: Argument = Argument {
    name: "to",
    help: "The name of the file: letters, digits, hyphens and underscores, at most 64, and .pcapng or .pcap, which is its format.",
    default: None,
};

const ROTATE: Argument = Argument {
    name: "rotate",
    help: "When the next file begins: after a time (30s, 10m, 1h, 1d), where the time at which a file begins is a part of its name, or after a size (100M, 1G), where files are numbered; or never.",
    default: Some("never"),
};

const FILES: Argument = Argument {
    name: "files",
    help: "With rotate, the number of files that are kept, or all.",
    default: Some("all"),
};

const SNAPLEN: Argument = Argument {
    name: "snaplen",
    help: "The number of bytes of a packet that are written at most, or all.",
    default: Some("all"),
};

const OF: Argument = Argument {
    name: "of",
    help: "What the packets are of: flow, or at record level record, for those so far whose payload has bytes of the record, retransmissions included; a record without bytes has the packet at which it was complete, in files. They are held meanwhile, as for before. Of those that are held no more the number is counted as missing: exactly if the record had all of them, else by their mean size.",
    default: Some("flow"),
};

const BEFORE: Argument = Argument {
    name: "before",
    help: "With of flow, the number of the latest packets of the flow before the one that decided that are written, all or none. Packets are held meanwhile, within a quarter of the memory for payload.",
    default: Some("all"),
};

/// The file of a call.
fn named(arguments: &Arguments<'_>) -> Result<NamedFile, String> {
    let name = arguments.text("to")?;
    let stem = name.strip_suffix(".pcapng").or_else(|| name.strip_suffix(".pcap"));
    if !stem.is_some_and(is_name) {
        return Err(format!(
            "`write`: to = `{name}` is not 1 to 64 letters, digits, hyphens and underscores, and .pcapng or .pcap"
        ));
    }
    let rotation = rotation(arguments.text("rotate")?)?;
    let files = number(arguments, "files", "all", 1..=MAX_FILES)?;
    if files.is_some() && rotation == Rotation::NEVER {
        return Err("`write`: files needs rotate".to_owned());
    }
    let snaplen = number(arguments, "snaplen", "all", 1..=u32::MAX)?;
    Ok(NamedFile { name: name.into(), place: Place::Logs, rotation, files, snaplen })
}

/// The packets of a flow before the one that decided.
fn before(arguments: &Arguments<'_>) -> Result<Before, String> {
    match arguments.text("before")? {
        "none" => Ok(Before::Packets(0)),
        _ => Ok(number(arguments, "before", "all", 0..=u32::MAX)?.map_or(Before::All, Before::Packets)),
    }
}

/// The packets that a call over flows or records writes.
fn of(arguments: &Arguments<'_>) -> Result<Of, String> {
    let before = before(arguments)?;
    match arguments.choice("of", &[("flow", false), ("record", true)])? {
        false => Ok(Of::Flow(before)),
        true if arguments.is_given("before") => {
            Err("`write`: before does not go with of record: a record has its own packets".to_owned())
        }
        true => Ok(Of::Record),
    }
}

fn checked(arguments: &Arguments<'_>) -> Result<(), String> {
    named(arguments)?;
    of(arguments).map(drop)
}

/// The target of a call at a level.
fn target(arguments: &Arguments<'_>, level: Level) -> Result<Target, String> {
    let (file, of) = (named(arguments)?, of(arguments)?);
    let given = ["of", "before"].into_iter().find(|name| arguments.is_given(name));
    match (level, given, of) {
        (Level::Record, ..) => Ok(Target::Packets { file, of: Some(of) }),
        (_, _, Of::Record) => {
            Err("`write`: of record needs level = \"record\": only a record has bytes of its flow".to_owned())
        }
        (Level::Packet, Some(name), _) => Err(format!(
            "`write`: {name} needs level = \"flow\" or \"record\": a packet is written when it is seen"
        )),
        (Level::Packet, None, _) => Ok(Target::Packets { file, of: None }),
        _ => Ok(Target::Packets { file, of: Some(of) }),
    }
}

/// A number within a range; `None` for a word.
fn number(
    arguments: &Arguments<'_>,
    name: &str,
    word: &str,
    range: std::ops::RangeInclusive<u32>,
) -> Result<Option<u32>, String> {
    let text = arguments.text(name)?;
    if text == word {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        format!("`write`: {name} = `{text}` is neither a number from {least} to {most} nor {word}")
    })
}

/// `never`, a time such as `1h`, or a size such as `100M`, whose units are powers of 1,024.
fn rotation(text: &str) -> Result<Rotation, String> {
    let wrong = || {
        format!(
            "`write`: rotate = `{text}` is no time (30s, 10m, 1h, 1d), no size (64K, 100M, 1G) and not never"
        )
    };
    if text == "never" {
        return Ok(Rotation::NEVER);
    }
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = |each: u64| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        let all = count.checked_mul(each)?;
        (1..=366 * 86_400).contains(&all).then(|| Rotation::by_time(all))
    };
    let rotation = match unit {
        's' => seconds(1),
        'm' => seconds(60),
        'h' => seconds(3_600),
        'd' => seconds(86_400),
        'K' | 'M' | 'G' => size(text).map(Rotation::by_size),
        _ => None,
    };
    rotation.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::FunctionCall;

    fn target(level: Level, arguments: &[(&str, &str)]) -> Result<Target, String> {
        let call = FunctionCall::new("write");
        let call = arguments.iter().fold(call, |call, (name, value)| call.with(name, value));
        let spec = FunctionSpec::find_at("write", level).unwrap();
        spec.target(&call, level).map(Option::unwrap)
    }

    #[test]
    fn arguments_are_read() {
        let file = |rotation, files, snaplen| NamedFile {
            name: "dns.pcapng".into(),
            place: Place::Logs,
            rotation,
            files,
            snaplen,
        };
        let at_packets = |arguments: &[_]| target(Level::Packet, arguments);
        let dns = ("to", "dns.pcapng");
        let plain = file(Rotation::NEVER, None, None);
        assert_eq!(at_packets(&[dns]), Ok(Target::Packets { file: plain, of: None }));
        let hourly = [dns, ("rotate", "1h"), ("files", "24"), ("snaplen", "128")];
        let expected = file(Rotation::by_time(3600), Some(24), Some(128));
        assert_eq!(at_packets(&hourly), Ok(Target::Packets { file: expected, of: None }));
        let sized = file(Rotation::by_size(100 << 20), None, None);
        for (before, expected) in
            [("all", Before::All), ("none", Before::Packets(0)), ("64", Before::Packets(64))]
        {
            let given = [dns, ("rotate", "100M"), ("before", before)];
            let expected = Target::Packets { file: sized.clone(), of: Some(Of::Flow(expected)) };
            assert_eq!(target(Level::Record, &given), Ok(expected.clone()));
            assert_eq!(target(Level::Flow, &given), Ok(expected));
        }
        let of_record = Target::Packets { file: sized, of: Some(Of::Record) };
        let given = [dns, ("rotate", "100M"), ("of", "record")];
        assert_eq!(target(Level::Record, &given), Ok(of_record));
        let of_flow =
            Target::Packets { file: file(Rotation::NEVER, None, None), of: Some(Of::Flow(Before::All)) };
        assert_eq!(target(Level::Flow, &[dns, ("of", "flow")]), Ok(of_flow));
    }

    #[test]
    fn wrong_arguments_are_named() {
        let dns = ("to", "dns.pcapng");
        for (given, part) in [
            (&[("to", "../dns.pcapng")][..], "to = `../dns.pcapng`"),
            (&[("to", "/dns.pcap")], "to = `/dns.pcap`"),
            (&[("to", ".pcap")], "to = `.pcap`"),
            (&[("to", "dns.pcapng.gz")], "to = `dns.pcapng.gz`"),
            (&[("to", "a%Y.pcap")], "to = `a%Y.pcap`"),
            (&[], "needs the argument `to`"),
            (&[dns, ("rotate", "1y")], "rotate = `1y`"),
            (&[dns, ("rotate", "0s")], "rotate = `0s`"),
            (&[dns, ("rotate", "400d")], "rotate = `400d`"),
            (&[dns, ("rotate", "99999999999999999G")], "rotate"),
            (&[dns, ("rotate", "é")], "rotate = `é`"),
            (&[dns, ("files", "3")], "files needs rotate"),
            (&[dns, ("rotate", "1h"), ("files", "0")], "files = `0`"),
            (&[dns, ("snaplen", "0")], "snaplen = `0`"),
            (&[dns, ("before", "-1")], "before = `-1`"),
        ] {
            let error = target(Level::Flow, given).unwrap_err();
            assert!(error.contains(part), "{given:?}: {error}");
        }
        let of_record = ("of", "record");
        for (level, given, part) in [
            (Level::Packet, &[dns, ("before", "3")][..], "before needs level"),
            (Level::Packet, &[dns, ("of", "flow")], "of needs level"),
            (Level::Packet, &[dns, of_record], "of record needs level = \"record\""),
            (Level::Flow, &[dns, of_record], "of record needs level = \"record\""),
            (Level::Record, &[dns, of_record, ("before", "all")], "before does not go with of record"),
            (Level::Record, &[dns, ("of", "packet")], "none of flow, record"),
        ] {
            let error = target(level, given).unwrap_err();
            assert!(error.contains(part), "{given:?}: {error}");
        }
    }
}
