//! Directories of files of a subscription's own: the content of the files whose records reach the function.

use super::log::Rows;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::target::{NamedDirectory, Place, Target};
use weir_api::Level;

pub(super) static EXTRACT: FunctionSpec = FunctionSpec {
    name: "extract",
    help: "Keeps the content of the files whose records reach it, in a directory of its own in the directory of logs: a whole file is named by its SHA-256, others by their identifier. Its reading is the number of records.",
    arguments: &[
        Argument {
            name: "to",
            help: "The name of the directory: letters, digits, hyphens and underscores, at most 64.",
            default: None,
        },
        Argument {
            name: "each",
            help: "The number of bytes of a file that are kept at most (64K, 10M, 1G).",
            default: Some("64M"),
        },
        Argument {
            name: "files",
            help: "The number of files that are kept at most, in the order of their records.",
            default: Some("100000"),
        },
        Argument {
            name: "total",
            help: "The number of bytes that are kept at most, with those of the files that are not decided on yet.",
            default: Some("4G"),
        },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| named(arguments).map(|_| Memory::SMALL),
    judge: None,
    delivers: Some(|arguments, _| named(arguments).map(Target::Files)),
    identifies: false,
    build: |arguments| named(arguments).map(|_| Box::new(Rows::default()) as Box<dyn Function>),
};

/// The directory of a call.
fn named(arguments: &Arguments<'_>) -> Result<NamedDirectory, String> {
    let files = arguments.parse("files")?;
    let (each, total) = (arguments.bytes("each")?, arguments.bytes("total")?);
    if each > total {
        return Err("`extract`: each is more than total".to_owned());
    }
    Ok(NamedDirectory { name: arguments.name("to")?.into(), place: Place::Logs, each, files, total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::FunctionCall;

    #[test]
    fn arguments_are_read_and_wrong_ones_are_named() {
        let target = |arguments: &[(&str, &str)]| {
            let call = FunctionCall::new("extract");
            let call = arguments.iter().fold(call, |call, (name, value)| call.with(name, value));
            EXTRACT.target(&call, Level::Record).map(Option::unwrap)
        };
        let to = ("to", "quarantine");
        let directory = |each, total| {
            let name = "quarantine".into();
            Ok(Target::Files(NamedDirectory { name, place: Place::Logs, each, files: 100_000, total }))
        };
        assert_eq!(target(&[to]), directory(64 << 20, 4 << 30));
        assert_eq!(target(&[to, ("each", "10M"), ("total", "1G")]), directory(10 << 20, 1 << 30));
        assert_eq!(target(&[to, ("each", "500"), ("total", "2K")]), directory(500, 2048));
        for (given, part) in [
            (&[("to", "../x")][..], "to = `../x`"),
            (&[to, ("each", "0")], "each = `0`"),
            (&[to, ("each", "1T")], "each = `1T`"),
            (&[to, ("total", "99999999999G")], "total = `99999999999G`"),
            (&[to, ("files", "many")], "files = `many`"),
            (&[to, ("each", "2G"), ("total", "1G")], "each is more than total"),
        ] {
            let error = target(given).unwrap_err();
            assert!(error.contains(part), "{given:?}: {error}");
        }
    }
}
