//! The result of a run as an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

/// The exit codes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// Success.
    Good = 0,
    /// More packets were lost than the user accepts.
    Loss = 5,
    /// Input truncated or corrupt: the results are partial.
    Partial = 3,
    /// An output failed.
    Output = 4,
    /// Input could not be read.
    Unreadable = 2,
    /// Usage or configuration.
    Usage = 1,
    /// Interrupted. Everything received until then has been reported.
    Interrupted = 130,
}

impl Exit {
    /// The more serious of the two.
    #[must_use]
    pub fn or(self, other: Exit) -> Exit {
        let rank = |exit: Exit| match exit {
            Exit::Good => 0,
            Exit::Interrupted => 1,
            Exit::Loss => 2,
            Exit::Partial => 3,
            Exit::Unreadable => 4,
            Exit::Output => 5,
            Exit::Usage => 6,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Writes to standard output. A reader that has closed its end needs no more, which is no failure.
pub fn print(text: &str) -> Exit {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Good,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Good,
        Err(error) => complain(Exit::Output, format!("standard output: {error}")),
    }
}

/// Prints the error, and returns the exit code.
pub fn complain(exit: Exit, what: impl std::fmt::Display) -> Exit {
    eprintln!("weir: {what}");
    exit
}
