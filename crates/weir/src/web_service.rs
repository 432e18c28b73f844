//! The pages of a run, as the run sees them.

use crate::configuration::Configuration;
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
    /// Whether clients apply configurations.
    pub changes: Changes,
    /// The configuration of the run.
    pub configuration: Arc<Configuration>,
    /// The function that starts the server after the run has started.
    pub begin: Mutex<Option<Begin>>,
}

/// Whether clients apply configurations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Changes {
    /// None may.
    Never,
    /// The user who started the program may: what they change rarely may need a restart.
    Possible,
    /// A user or token has the right to.
    Expected,
}

/// Starts a server with the index of the packet files.
pub type Begin = Box<dyn FnOnce(Option<DumpIndex>) + Send>;

impl WebService {
    /// Starts the server after the run has started. `dump_index` finds the packets that it writes.
    pub fn begin(&self, dump_index: Option<DumpIndex>) {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin(dump_index);
        }
    }
}
