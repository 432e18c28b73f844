//! Every output of the program: those of weir-output, and the store.

use crate::database;
use std::io;
use weir_output::{Log, OUTPUTS, Output, OutputContext, OutputSpec, Takes, assigned};
use weir_store::Keep;

/// Every output, for `--log`, the configuration and their errors.
pub fn all() -> Vec<&'static OutputSpec> {
    OUTPUTS.iter().copied().chain([database::OUTPUT]).collect()
}

/// The outputs that write readings of any subscription.
pub fn of_readings() -> impl Iterator<Item = &'static OutputSpec> {
    all().into_iter().filter(|output| output.takes != Takes::Known)
}

/// Whether a log is the store.
pub fn is_store(log: &Log) -> bool {
    log.spec().name == database::OUTPUT.name
}

/// The log of the store, with all rows.
///
/// # Errors
///
/// As [`Log::find`].
pub fn store() -> Result<Log, String> {
    Log::find(&all(), database::OUTPUT.name)
}

/// Opens the files of a log; a store gets these limits.
///
/// # Errors
///
/// A file cannot be opened.
pub fn open(log: &Log, context: &OutputContext, keep: Keep) -> io::Result<Box<dyn Output>> {
    if is_store(log) {
        let store = database::write(context, keep).map_err(io::Error::other)?;
        return Ok(assigned(log.spec(), Box::new(store)));
    }
    Ok(assigned(log.spec(), (log.spec().open)(context)?))
}
