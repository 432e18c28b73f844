//! State shared by all routes.

use super::access::Access;
use super::access_log::AccessLog;
use super::answers::Answers;
use super::counts::Counts;
use super::failure::Failure;
use super::packet_source::{ExpressionOptions, PacketSource};
use super::shares::Shares;
use crate::configuration::Configuration;
use crate::hub::Hub;
use axum::body::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use weir_api::Mute;
use weir_store::basis::{self, Numbers};
use weir_store::{Marks, Signatures, Store, StoreError, TimeRange};

/// Time limit of a short answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// State shared by all routes.
pub type Shared = Arc<App>;

/// State shared by all routes.
pub struct App {
    /// State of the run.
    pub hub: Arc<Hub>,
    /// The store, if any.
    pub store: Option<Arc<dyn Store>>,
    /// What people say about its events.
    pub marks: Option<Arc<dyn Marks>>,
    /// The port signatures that runs with it have found.
    pub signatures: Option<Mutex<Box<dyn Signatures>>>,
    /// Access control.
    pub access: Access,
    /// The configuration, and the means to change it.
    pub configuration: Arc<Configuration>,
    /// Capture files that can be read again.
    pub packets: Option<PacketSource>,
    /// How expressions are interpreted.
    pub expression_options: ExpressionOptions,
    /// Readers of the event stream.
    pub readers: Mutex<Vec<mpsc::Sender<Bytes>>>,
    /// Places of answers.
    pub answers: Answers,
    /// Whether connections have TLS.
    pub has_tls: bool,
    /// Log of downloads, changes and failed log-ins.
    pub log: AccessLog,
    /// Counts of refusals, failed log-ins and downloads.
    pub counts: Arc<Counts>,
    /// Event streams, by client.
    pub streams: Arc<Shares<String>>,
    /// Concurrent configuration checks of clients without the right `write`, by client.
    pub checks: Arc<Shares<String>>,
    /// Concurrent configuration checks of clients with the right `write`, by client. The separate limit keeps places
    /// for them.
    pub changes: Arc<Shares<String>>,
}

impl App {
    /// The store.
    ///
    /// # Errors
    /// The run has no store.
    pub fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        self.store.clone().ok_or_else(|| Failure::unknown("this run has no store"))
    }

    /// What reads the mutes, on a blocking thread. A run without a store has none.
    pub fn mutes(&self) -> impl Fn() -> Result<Vec<Mute>, StoreError> + Send + 'static + use<> {
        let marks = self.marks.clone();
        move || Ok(marks.as_ref().map(|marks| marks.mutes()).transpose()?.unwrap_or_default())
    }

    /// Queries the store on a blocking thread, with a limit on concurrency and time.
    ///
    /// # Errors
    /// The run has no store, the store fails, or the time limit is reached.
    pub async fn ask<T: Send + 'static, E: Into<Failure> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Store) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = self.store()?;
        self.wait(move || question(store.as_ref()).map_err(Into::into)).await
    }

    /// Asks the store for an answer over a range, which is moved to the cells that are stored there.
    ///
    /// # Errors
    /// As [`App::ask`].
    pub async fn ask_over<T: Numbers + Send + 'static>(
        &self,
        span: TimeRange,
        question: impl FnOnce(&dyn Store, TimeRange) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        self.ask(move |store| basis::over(store, span, |span| question(store, span))).await
    }

    /// Runs blocking work on a thread, with a limit on concurrency and time.
    ///
    /// # Errors
    /// The work fails, or the time limit is reached.
    pub async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let place = self.answers.short().await?;
        let answer = tokio::task::spawn_blocking(move || {
            let answer = work();
            // The client may have disconnected: the place is held until the work ends.
            drop(place);
            answer
        });
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::busy("the request failed")),
            Err(_) => Err(Failure::busy(format!(
                "no answer within {} s: choose a shorter time range or fewer rows",
                PATIENCE.as_secs()
            ))),
        }
    }
}
