//! What a run writes without an expression, as its options and its configuration name it.

use crate::cli;
use weir_api::FunctionCall;

/// The packet files that a run has without an expression of their own, and how those of -w follow each other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PacketFiles {
    /// Name of the file of matching packets.
    pub write: Option<String>,
    /// Seconds after which a new file begins.
    pub seconds: Option<u64>,
    /// Bytes before which a new file begins.
    pub bytes: Option<u64>,
    /// Number of files.
    pub files: Option<u32>,
    /// Name of the file of packets of unidentified flows.
    pub unidentified: Option<String>,
}

impl PacketFiles {
    /// The files of a command line.
    pub fn given(options: &cli::PacketOptions) -> Self {
        Self {
            write: options.whole().next().map(str::to_owned),
            seconds: options.rotate_seconds,
            bytes: options.rotate_size.map(|megabytes| megabytes.saturating_mul(1_000_000)),
            files: options.rotate_files,
            unidentified: options.unidentified.clone(),
        }
    }

    /// The call of a function that writes the file of a name, or those that follow each other.
    pub fn call(&self, function: &str, to: &str) -> FunctionCall {
        let number = |number: u64| Some(number).filter(|number| *number > 0);
        let given = [("seconds", self.seconds), ("bytes", self.bytes), ("files", self.files.map(u64::from))];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.and_then(number)?)));
        given.fold(FunctionCall::new(function).with("to", to), |call, (name, value)| call.with(name, value))
    }
}
