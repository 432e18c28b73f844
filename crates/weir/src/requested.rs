//! The packet files of a run, as its options and its configuration name them.

use crate::cli;
use crate::config::Config;
use std::path::PathBuf;
use weir_api::FunctionCall;

/// How the files of a function that writes packets follow each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sequence {
    /// Seconds after which a new file begins.
    seconds: Option<u64>,
    /// Bytes before which a new file begins.
    bytes: Option<u64>,
    /// Number of files.
    files: Option<u32>,
}

impl Sequence {
    /// That of a command line.
    pub fn given(options: &cli::PacketOptions) -> Self {
        Self {
            seconds: options.rotate_seconds,
            bytes: options.rotate_size.map(|megabytes| megabytes.saturating_mul(1_000_000)),
            files: options.rotate_files,
        }
    }

    /// That of a configuration.
    fn configured(config: &Config) -> Self {
        Self {
            seconds: config.packets.rotate.value.map(|nanoseconds| nanoseconds / 1_000_000_000),
            bytes: config.packets.rotate_size.value,
            files: config.packets.files.value,
        }
    }

    /// The call of a function that writes the file of a name, or those that follow each other.
    pub fn call(self, function: &str, to: &str) -> FunctionCall {
        let given = [("seconds", self.seconds), ("bytes", self.bytes), ("files", self.files.map(u64::from))];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.filter(|n| *n > 0)?)));
        given.fold(FunctionCall::new(function).with("to", to), |call, (name, value)| call.with(name, value))
    }
}

/// The calls that write the packet files without an expression of their own. Those of the command line take the place of those of
/// the configuration, the one of -w with its rotation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WriteCalls {
    /// All packets that match.
    pub matching: Option<FunctionCall>,
    /// The packets of unidentified flows.
    pub unidentified: Option<FunctionCall>,
    /// How the files of -w follow each other.
    pub sequence: Sequence,
}

impl WriteCalls {
    /// Those of a command line and a configuration.
    pub fn new(options: &cli::PacketOptions, config: &Config) -> Self {
        let configured =
            |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let given = options.whole().next().map(str::to_owned);
        let sequence = if given.is_some() { Sequence::given(options) } else { Sequence::configured(config) };
        let matching = given.or_else(|| configured(&config.packets.write.value));
        let unidentified = options.unidentified.clone();
        let unidentified = unidentified.or_else(|| configured(&config.packets.unidentified.value));
        Self {
            matching: matching.map(|to| sequence.call("writematching", &to)),
            // The options of rotation are for -w.
            unidentified: unidentified.map(|to| Sequence::default().call("writeunidentified", &to)),
            sequence,
        }
    }

    /// Whether the packets that match are written to standard output.
    pub fn has_standard_output(&self) -> bool {
        let to = |(name, value): &(String, String)| name == "to" && value == "-";
        self.matching.as_ref().is_some_and(|call| call.arguments.iter().any(to))
    }
}
