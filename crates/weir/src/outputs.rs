//! Every output of the program: those of weir-output, and the store.

use std::io;
use weir_output::{Log, OUTPUTS, Output, OutputContext, OutputSpec};
use weir_store::sqlite::{Keep, STORE, Writer};

/// Every output, for `--log`, the configuration and their errors.
pub fn all() -> Vec<&'static OutputSpec> {
    OUTPUTS.iter().copied().chain([&STORE]).collect()
}

/// Whether a log is the store.
pub fn is_store(log: &Log) -> bool {
    log.spec().name == STORE.name
}

/// The log of the store, with all rows.
///
/// # Errors
///
/// As [`Log::find`].
pub fn store() -> Result<Log, String> {
    Log::find(&all(), STORE.name)
}

/// Opens the files of a log; a store gets these limits.
///
/// # Errors
///
/// A file cannot be opened.
pub fn open(log: &Log, context: &OutputContext, keep: Keep) -> io::Result<Box<dyn Output>> {
    if is_store(log) {
        let store = Writer::open(context, keep).map_err(io::Error::other)?;
        return Ok(log.select(Box::new(store)));
    }
    log.open(context)
}
