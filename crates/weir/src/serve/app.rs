//! What every route has at hand.

use super::access::Access;
use super::access_log::AccessLog;
use super::config::Configuration;
use super::counts::Counts;
use super::failure::Failure;
use super::hub::Hub;
use super::packets::Source;
use super::shares::Shares;
use axum::body::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use weir_filter::Options;
use weir_output::store::Store;

/// Questions to the store that are answered at once.
const QUESTIONS: usize = 8;
/// How long one waits for its answer, and before that for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// What every route has at hand.
pub type Shared = Arc<App>;

/// How expressions of questions are read. Names of hosts are not looked up: that would be a packet that the monitor
/// sends because somebody looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// As libpcap reads them.
    pub strict_bpf: bool,
    /// They look at the innermost packet of a tunnel.
    pub inner: bool,
}

impl Reading {
    /// For the compiler.
    pub fn options(self) -> Options<'static> {
        Options { strict_bpf: self.strict_bpf, inner: self.inner, ..Options::default() }
    }
}

/// What all routes share.
pub struct App {
    /// What the run tells.
    pub hub: Arc<Hub>,
    /// What is stored, where anything is.
    pub store: Option<Arc<dyn Store>>,
    /// Who may do what.
    pub access: Access,
    /// What the run was asked for, and how to ask it for something else.
    pub configuration: Configuration,
    /// Where packets can be read again.
    pub packets: Option<Source>,
    /// How expressions are read.
    pub reading: Reading,
    /// Where pulses go.
    pub readers: Mutex<Vec<mpsc::Sender<Bytes>>>,
    /// Turns at the store.
    pub turns: Arc<Semaphore>,
    /// Whether connections have TLS.
    pub has_tls: bool,
    /// Who downloaded what, and whose log-in failed.
    pub log: AccessLog,
    /// What the doors have refused and handed out.
    pub counts: Arc<Counts>,
    /// Event streams, by client.
    pub streams: Arc<Shares<String>>,
    /// Texts of configurations of clients that may look, by client.
    pub checks: Arc<Shares<String>>,
    /// Those of clients that may apply one: nobody else can take their places.
    pub changes: Arc<Shares<String>>,
}

impl App {
    /// Turns for questions that take a thread.
    pub fn turns() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(QUESTIONS))
    }

    /// The store.
    ///
    /// # Errors
    /// That there is none.
    pub fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        self.store.clone().ok_or_else(|| Failure::unknown("nothing is stored in this run"))
    }

    /// Asks the store on a thread that may wait, a few at once and each for a limited time.
    ///
    /// # Errors
    /// That there is no store, what it says, or that it takes too long.
    pub async fn ask<T: Send + 'static, E: Into<Failure> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Store) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = self.store()?;
        self.wait(move || question(store.as_ref()).map_err(Into::into)).await
    }

    /// Does something that takes its time on a thread that may.
    ///
    /// # Errors
    /// What it says, or that it takes too long.
    pub async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let turns = Arc::clone(&self.turns);
        let Ok(Ok(turn)) = timeout(PATIENCE, turns.acquire_owned()).await else {
            return Err(Failure::busy("too many questions are being answered: ask again"));
        };
        let answer = tokio::task::spawn_blocking(move || {
            let answer = work();
            // Whoever asked may have gone; the turn ends with the work.
            drop(turn);
            answer
        });
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::busy("the question could not be answered")),
            Err(_) => Err(Failure::busy(format!(
                "no answer within {} s: ask for a shorter time or less of it",
                PATIENCE.as_secs()
            ))),
        }
    }
}
