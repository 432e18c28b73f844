//! The engine of the store: the one place of the program that names it.

use std::path::Path;
use std::sync::Arc;
use weir_output::{OutputContext, OutputSpec};
use weir_store::sqlite::{STORE, SqliteMarks, SqliteReported, SqliteSignatures, SqliteStore, Writer};
use weir_store::{Health, Keep, Lender, Marks, Reported, Signatures, Store, StoreError};

/// The store as an output.
pub static OUTPUT: &OutputSpec = &STORE;

/// Opens the store of a folder for writing, within these limits.
///
/// # Errors
///
/// The store cannot be opened, or belongs to another kind of run.
pub fn write(context: &OutputContext, keep: Keep) -> Result<Writer, StoreError> {
    Writer::open(context, keep)
}

/// The key of the hashes of distinct counts of the store in a folder; `None` if there is no store, or none that has a key.
pub fn distinct_seed(folder: &Path) -> Option<u128> {
    weir_store::seed::kept(folder)
}

/// The store of a folder; `health` is the state of the writer, if it is in this process.
///
/// # Errors
///
/// There is no store, or it has a newer version.
pub fn read(folder: &Path, health: Option<Arc<Health>>) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(SqliteStore::open(folder, health)?))
}

/// The store of a folder, whose queries together take the memory of a lender.
///
/// # Errors
///
/// As [`read`].
pub fn read_within(
    folder: &Path,
    health: Option<Arc<Health>>,
    lender: Arc<dyn Lender>,
) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(SqliteStore::open(folder, health)?.within(lender)))
}

/// The store of a folder, whose queries have no time limit.
///
/// # Errors
///
/// As [`read`].
pub fn read_patiently(folder: &Path) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(SqliteStore::open(folder, None)?.patient()))
}

/// What people say about the events of the store in a directory.
pub fn marks(folder: &Path) -> Box<dyn Marks> {
    Box::new(SqliteMarks::of(folder))
}

/// The port signatures that runs with a store in a directory have found.
pub fn signatures(folder: &Path) -> Box<dyn Signatures> {
    Box::new(SqliteSignatures::of(folder))
}

/// The findings that runs with a store in a directory have reported.
pub fn reported(folder: &Path) -> Box<dyn Reported> {
    Box::new(SqliteReported::of(folder))
}

/// Makes the store of a live run that has watched silent hours. `span` is begin and end in nanoseconds since the epoch.
#[cfg(test)]
pub fn made(folder: &Path, span: (u64, u64)) {
    use weir_api::{Interval, Snapshot};
    use weir_output::Output as _;
    const HOUR: usize = 3_600_000_000_000;
    std::fs::create_dir_all(folder).unwrap();
    let context = OutputContext {
        directory: folder.to_owned(),
        is_stream: false,
        zone: weir_output::zone::Zone::utc(),
        command: String::new(),
        start: span.0,
        interval: HOUR as u64,
        clock: None,
        stop: None,
        existing: weir_output::Existing::Continue,
        rolling: Default::default(),
        memory: 1 << 20,
        distinct_seed: None,
        worms: Default::default(),
        triggers: Vec::new(),
        home: None,
        sysname: String::new(),
    };
    let mut store = write(&context, Keep::default()).unwrap();
    for start in (span.0..span.1).step_by(HOUR) {
        let mut snapshot = Snapshot::default();
        snapshot.interval = Interval { start, end: start + HOUR as u64 };
        snapshot.watched = Some(snapshot.interval);
        snapshot.ledger.caught = 1;
        store.interval(&snapshot).unwrap();
    }
    store.finish().unwrap();
}
