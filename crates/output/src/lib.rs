//! Summary, logs and series of what the engine found.
//!
//! An [`Output`] takes the snapshots and flow rows of a run; [`OUTPUTS`] is their registry: the command line, the
//! configuration and the manual read it. The [`summary`] is text for people and the same facts as NDJSON.
//! [`figures`], [`zone`] and [`ports`] are how numbers, times and ports are written everywhere.
//!
//! What comes from packets, and from the names of files, is escaped in each format's own way before it is
//! written. What is not here: threads and the clock. Files are opened here, because a format decides what of
//! a file can be repaired.

#![forbid(unsafe_code)]

mod csv;
mod eve;
pub mod figures;
mod file;
mod mon;
mod ndjson;
pub mod ports;
mod row;
#[cfg(test)]
mod sample;
pub mod summary;
mod zeek;
pub mod zone;

pub use file::Existing;

use std::io;
use std::path::PathBuf;
use weir_api::Snapshot;
use weir_engine::FlowRecord;
use zone::Zone;

/// Writes what a run finds.
///
/// A full disk is not the end: rows wait in bounded memory, what has no room is counted, and writing goes on when
/// space returns. So errors come from [`Output::interval`], [`Output::flush`] and [`Output::finish`], once each
/// time that writing begins to fail, and rows should go on being offered after them.
pub trait Output: Send {
    /// The readings of a finished interval.
    ///
    /// # Errors
    /// When something could not be written: which file and why.
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()>;

    /// A finished flow; rows come ordered by time and key within an interval.
    ///
    /// # Errors
    /// None of the outputs here gives one.
    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()>;

    /// Writes what is held back: called every second and at the end of an interval.
    ///
    /// # Errors
    /// As [`Output::interval`].
    fn flush(&mut self) -> io::Result<()>;

    /// Ends the files: footers, names.
    ///
    /// # Errors
    /// As [`Output::interval`], and when rows were lost: how many.
    fn finish(&mut self) -> io::Result<()>;
}

/// What the program knows about an output.
pub struct OutputSpec {
    /// Its name on the command line and in the configuration.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// The files that it writes into the directory.
    pub files: &'static [&'static str],
    /// Whether it writes flow rows: when none does, none need be made.
    pub flows: bool,
    /// Opens them.
    pub open: fn(&OutputContext) -> io::Result<Box<dyn Output>>,
}

/// What an output must know of the run.
#[derive(Clone, Debug, Default)]
pub struct OutputContext {
    /// Where its files go. It must be there.
    pub directory: PathBuf,
    /// What becomes of files that are there already.
    pub existing: Existing,
    /// For times that are written for people.
    pub zone: Zone,
    /// The command that began the run.
    pub command: String,
    /// When the run began, in nanoseconds since the epoch.
    pub start: u64,
}

/// Every output, in the order of the manual.
pub static OUTPUTS: &[&OutputSpec] =
    &[&zeek::ZEEK, &zeek::ZEEK_JSON, &eve::EVE, &csv::CSV, &ndjson::NDJSON, &mon::MON, &mon::MON_PAPER];

impl OutputSpec {
    /// The output of that name; the error names all there are.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find(name: &str) -> Result<&'static OutputSpec, String> {
        OUTPUTS.iter().find(|spec| spec.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = OUTPUTS.iter().map(|spec| spec.name).collect();
            format!("no log {name:?}; there are {}", names.join(", "))
        })
    }
}
