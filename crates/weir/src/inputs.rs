//! The inputs of a command, and the options of the expression over their packets.

use crate::exit::{Exit, complain};
use crate::names::SystemNames;
use std::path::{Path, PathBuf};
use weir_capture::{Input, ReadError, Severity};
use weir_filter::Options;

/// Leading words that name existing files are inputs. The remaining words and those after `--` form the expression.
pub fn words(words: &[String], after_dashes: &[String]) -> (Vec<PathBuf>, String) {
    let is_file = |word: &&String| word.as_str() == "-" || Path::new(word).exists();
    let files: Vec<PathBuf> = words.iter().take_while(is_file).map(PathBuf::from).collect();
    let rest = words.iter().skip(files.len()).chain(after_dashes);
    (files, rest.map(String::as_str).collect::<Vec<_>>().join(" "))
}

/// Paths as inputs, `-` for standard input.
pub fn inputs<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<Input> {
    let input =
        |path: &PathBuf| if path.as_os_str() == "-" { Input::Stdin } else { Input::Path(path.clone()) };
    paths.into_iter().map(input).collect()
}

/// Whether an input may be standard input or a pipe, which cannot be read again.
pub fn may_wait(inputs: &[Input]) -> bool {
    inputs.iter().any(|input| match input {
        Input::Stdin => true,
        Input::Path(path) => path.metadata().is_ok_and(|kind| !kind.is_file() && !kind.is_dir()),
        Input::Kept(_) => false,
    })
}

/// The netmask of `ip broadcast`: the interface's if there is exactly one. For files and for several interfaces it is
/// unknown, and 0 as in tcpdump.
pub fn netmask(interfaces: &[String]) -> u32 {
    let [name] = interfaces else { return 0 };
    let all = weir_capture::interfaces().unwrap_or_default();
    all.iter().find(|interface| interface.name == *name).and_then(|i| i.netmask).map_or(0, u32::from)
}

/// Options for compiling expressions.
pub fn filter_options(strict_bpf: bool, inner: bool, snaplen: u32) -> Options<'static> {
    let mut options = Options {
        strict_bpf,
        inner,
        netmask: Some(netmask(&[])),
        resolver: Some(&SystemNames),
        ..Options::default()
    };
    if snaplen > 0 {
        options.snaplen = snaplen;
    }
    options
}

/// Reports errors of inputs. Returns the exit code of the most serious one.
pub fn report_read_errors(errors: &[ReadError]) -> Exit {
    errors.iter().fold(Exit::Good, |exit, error| exit.or(complain(exit_of(error), error)))
}

/// The exit code of an error of an input.
pub fn exit_of(error: &ReadError) -> Exit {
    match error.severity() {
        Severity::Partial => Exit::Partial,
        Severity::Unreadable => Exit::Unreadable,
    }
}
