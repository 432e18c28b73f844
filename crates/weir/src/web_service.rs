//! The pages of a run, as the run sees them.

use crate::desk::Desk;
use crate::dump::index::DumpIndex;
use crate::hub::Hub;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The server of a run's pages.
pub struct WebService {
    /// Receives the state of the run.
    pub hub: Arc<Hub>,
    /// Directory of the store.
    pub store: PathBuf,
    /// Whether the directory is removed at the end.
    pub temporary: bool,
    /// The access log named on the command line, which is rotated.
    pub log: Option<PathBuf>,
    /// Whether a configuration may be applied.
    pub changeable: bool,
    /// The function that starts the server after the run has started.
    pub begin: Mutex<Option<Begin>>,
}

/// Starts a server that changes the run through its desk.
pub type Begin = Box<dyn FnOnce(Arc<Desk>, Option<DumpIndex>) + Send>;

impl WebService {
    /// Starts the server after the run has started. `desk` changes the run, `dump_index` finds the packets that it
    /// writes.
    pub fn begin(&self, desk: Arc<Desk>, dump_index: Option<DumpIndex>) {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin(desk, dump_index);
        }
    }
}
