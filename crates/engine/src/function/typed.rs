//! Functions that the program alone calls: those of the command line, whose files and directories are paths of the user who
//! started the program, as in `-w dns.pcapng='port 53'`, those of the names of hosts and of streams, and that of floods. A configuration names files in the
//! directory of logs instead, and clients can name no path.

use super::flood::FLOODED;
use super::log::Rows;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory, count};
use crate::target::{Before, NamedDirectory, NamedFile, Of, Place, Rotation, Target};
use weir_api::Level;

/// The functions over packets, flows and streams.
static FUNCTIONS: [&FunctionSpec; 4] = [&WRITE, &ROWS_OF_FLOWS, &STREAM, &FLOODED];

/// The functions over records.
static OF_RECORDS: [&FunctionSpec; 4] = [&WRITE_OF_RECORDS, &ROWS_OF_RECORDS, &EXTRACT, &HOST_NAMES];

/// The function of that name at a level that only the program calls.
pub(super) fn find(name: &str, level: Level) -> Option<&'static FunctionSpec> {
    let all: &[&'static FunctionSpec] = if level == Level::Record { &OF_RECORDS } else { &FUNCTIONS };
    all.iter().find(|spec| spec.name == name).copied()
}

const TO: Argument = Argument { name: "to", help: "The path.", default: None };

/// The path of a packet file, and when the next file of a sequence begins.
pub(super) const PACKET_FILE: &[Argument] = &[
    TO,
    Argument {
        name: "seconds",
        help: "Seconds after which the next file begins; 0 for never.",
        default: Some("0"),
    },
    Argument {
        name: "bytes",
        help: "Bytes before which the next file begins; 0 for no limit.",
        default: Some("0"),
    },
    Argument { name: "files", help: "Number of files; 0 for any.", default: Some("0") },
];

/// The path of a directory of files, and its limits.
pub(super) const DIRECTORY: &[Argument] = &[
    TO,
    Argument { name: "each", help: "Bytes of a file that are kept at most.", default: None },
    Argument { name: "files", help: "Files that are kept at most.", default: None },
    Argument { name: "total", help: "Bytes that are kept at most.", default: None },
];

static WRITE: FunctionSpec = FunctionSpec {
    name: "writeto",
    help: "Writes packets into a file: those that reach it or, at flow level, those of the flows that do.",
    arguments: PACKET_FILE,
    levels: &[Level::Packet, Level::Flow],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: Some(packets),
    identifies: false,
    build: count::build,
};

static WRITE_OF_RECORDS: FunctionSpec = FunctionSpec {
    name: "writeto",
    help: "Writes the packets of the flows of the records that reach it into a file.",
    arguments: PACKET_FILE,
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: Some(packets),
    identifies: false,
    build: rows,
};

static EXTRACT: FunctionSpec = FunctionSpec {
    name: "extractto",
    help: "Keeps the content of the files whose records reach it in a directory.",
    arguments: DIRECTORY,
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: Some(|arguments, _| directory(arguments)),
    identifies: false,
    build: rows,
};

static HOST_NAMES: FunctionSpec = FunctionSpec {
    name: "hostnames",
    help: "Gives the names that records of DNS have to the addresses of their answers.",
    arguments: &[],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: Some(|_, _| Ok(Target::Names)),
    identifies: false,
    build: rows,
};

static STREAM: FunctionSpec = FunctionSpec {
    name: "stream",
    help: "Gives the bytes of the streams that reach it to the command, which writes them. Its reading is their number.",
    arguments: &[],
    levels: &[Level::Stream],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: Some(|_, _| Ok(Target::Streams)),
    identifies: false,
    build: count::build,
};

static ROWS_OF_FLOWS: FunctionSpec = FunctionSpec { levels: &[Level::Flow], ..ROWS };

static ROWS_OF_RECORDS: FunctionSpec = FunctionSpec { levels: &[Level::Record], ..ROWS };

const ROWS: FunctionSpec = FunctionSpec {
    name: "rowsto",
    help: "Writes what reaches it into the files of a log of the run.",
    arguments: &[Argument { name: "to", help: "The name of the log.", default: None }],
    levels: &[],
    input: InputKind::Packets,
    memory: |_| Ok(Memory { state: 1024, reading: 1024 }),
    judge: None,
    delivers: Some(|arguments, _| Ok(Target::OfRun(arguments.text("to")?.into()))),
    identifies: false,
    build: rows,
};

fn rows(_: &Arguments<'_>) -> Result<Box<dyn Function>, String> {
    Ok(Box::new(Rows::default()))
}

/// The packet file at a path, of a call with the arguments [`PACKET_FILE`].
pub(super) fn packet_file(arguments: &Arguments<'_>) -> Result<NamedFile, String> {
    let number = |name| arguments.parse::<u64>(name).map(|number| (number > 0).then_some(number));
    let files = arguments.parse::<u32>("files")?;
    Ok(NamedFile {
        name: arguments.text("to")?.into(),
        place: Place::Path,
        rotation: Rotation { seconds: number("seconds")?, bytes: number("bytes")? },
        files: (files > 0).then_some(files),
        snaplen: None,
    })
}

/// All packets of a flow are written, whenever it is decided.
fn packets(arguments: &Arguments<'_>, level: Level) -> Result<Target, String> {
    let file = packet_file(arguments)?;
    Ok(Target::Packets { file, of: (level != Level::Packet).then_some(Of::Flow(Before::All)) })
}

/// The directory at a path, of a call with the arguments [`DIRECTORY`].
pub(super) fn directory(arguments: &Arguments<'_>) -> Result<Target, String> {
    let [each, files, total] = ["each", "files", "total"].map(|name| arguments.parse(name));
    let name = arguments.text("to")?.into();
    Ok(Target::Files(NamedDirectory { name, place: Place::Path, each: each?, files: files?, total: total? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Callable;
    use weir_api::FunctionCall;

    #[test]
    fn a_configuration_cannot_call_what_takes_a_path() {
        for (spec, level) in FUNCTIONS
            .iter()
            .map(|spec| (spec, Level::Flow))
            .chain(OF_RECORDS.iter().map(|spec| (spec, Level::Record)))
        {
            assert!(Callable::find(spec.name, level).is_none(), "{}", spec.name);
            assert!(FunctionSpec::find_at(spec.name, level).is_ok(), "{}", spec.name);
            if spec.arguments.is_empty() {
                assert!(spec.call(&FunctionCall::new(spec.name), 1_u64).is_ok());
                continue;
            }
            let arguments = spec.arguments.iter().filter(|argument| argument.name != "to");
            let call = arguments.fold(FunctionCall::new(spec.name).with("to", "../x"), |call, argument| {
                call.with(argument.name, 1)
            });
            let target = spec.target(&call, level).unwrap().unwrap();
            assert_eq!((target.name(), spec.call(&call, 1_u64).is_ok()), ("../x", true));
        }
    }
}
