//! Who may be answered at once, and in how much memory.
//!
//! Every answer takes a place and reserves the memory that it needs. A client has a few places of all, so that none can take those
//! of the others, and answers of few rows have places that answers of many rows do not take.

use super::failure::Failure;
use super::rights::{Client, network};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use weir_store::Lender;

/// Places of answers of any size. With [`SHORT`] they are all answers at once, each of which takes a thread.
const LARGE: usize = 6;
/// Further places of short answers.
const SHORT: usize = 2;
/// Answers of many rows that one client may have at once.
const LARGE_OF_ONE: usize = 2;
/// Short answers that one client may have at once: its other requests wait.
const SHORT_OF_ONE: usize = 4;
/// Time limit of the wait for a place.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients whose places are remembered before those of idle clients are dropped.
const REMEMBERED: usize = 1024;
/// KiB of answers where no run divides its memory.
const MEMORY: usize = 64 << 10;

/// The places and the memory of all answers.
pub struct Answers {
    large: Arc<Semaphore>,
    short: Arc<Semaphore>,
    memory: Arc<Memory>,
    /// KiB of the memory that rows may take: half, so that queries count in the rest.
    rows: Arc<Semaphore>,
    max_rows: usize,
    /// Time limit of the wait for a place.
    patience: Duration,
    by: Mutex<HashMap<String, Own>>,
}

/// The memory of all answers, in KiB: of their rows until they are sent, and of what queries count meanwhile.
struct Memory {
    left: Arc<Semaphore>,
}

impl Lender for Memory {
    fn lend(&self, bytes: usize) -> bool {
        let Ok(wanted) = u32::try_from(bytes.div_ceil(1024)) else { return false };
        let permit = self.left.try_acquire_many(wanted);
        permit.map(SemaphorePermit::forget).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.add_permits(bytes.div_ceil(1024));
    }
}

/// The places of a client.
struct Own {
    large: Arc<Semaphore>,
    short: Arc<Semaphore>,
}

/// A place; it is free again when this is dropped.
pub struct Place {
    _held: Vec<OwnedSemaphorePermit>,
}

impl Answers {
    /// Places whose answers have this many bytes of memory together; `None` for the default.
    pub fn new(memory: Option<usize>) -> Self {
        let all = memory.map_or(MEMORY, |bytes| bytes >> 10).clamp(1, Semaphore::MAX_PERMITS >> 1);
        Self {
            large: Arc::new(Semaphore::new(LARGE)),
            short: Arc::new(Semaphore::new(SHORT)),
            memory: Arc::new(Memory { left: Arc::new(Semaphore::new(all)) }),
            rows: Arc::new(Semaphore::new(all.div_ceil(2))),
            max_rows: all.div_ceil(2),
            patience: PATIENCE,
            by: Mutex::default(),
        }
    }

    /// The memory of queries.
    pub fn lender(&self) -> Arc<dyn Lender> {
        Arc::<Memory>::clone(&self.memory)
    }

    /// A place for the computation of a short answer of a client.
    ///
    /// # Errors
    /// None is free within the time limit.
    pub async fn of_client(&self, client: &Client) -> Result<Place, Failure> {
        let own = self.own(client, |own| &own.short);
        Ok(Place { _held: vec![self.within(own.acquire_owned()).await?] })
    }

    /// A place among all for the computation of a short answer.
    ///
    /// # Errors
    /// None is free within the time limit.
    pub async fn short(&self) -> Result<Place, Failure> {
        let (large, short) = (Arc::clone(&self.large), Arc::clone(&self.short));
        let permit = match Arc::clone(&large).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let (mut short, mut large) = (pin!(short.acquire_owned()), pin!(large.acquire_owned()));
                let first = poll_fn(|context| match short.as_mut().poll(context) {
                    Poll::Pending => large.as_mut().poll(context),
                    ready => ready,
                });
                self.within(first).await?
            }
        };
        Ok(Place { _held: vec![permit] })
    }

    /// A place for an answer of many rows to a client, which needs this many bytes until its last row is sent.
    ///
    /// # Errors
    /// No place or memory is free within the time limit.
    pub async fn large(&self, client: &Client, bytes: usize) -> Result<Place, Failure> {
        let own = self.own(client, |own| &own.large);
        let (all, rows, left) =
            (Arc::clone(&self.large), Arc::clone(&self.rows), Arc::clone(&self.memory.left));
        // An answer that needs more than rows may take has all of that for itself.
        let wanted = bytes.div_ceil(1024).clamp(1, self.max_rows) as u32;
        let own = self.within(own.acquire_owned()).await?;
        let rows = self.within(rows.acquire_many_owned(wanted)).await?;
        let memory = self.within(left.acquire_many_owned(wanted)).await?;
        let all = self.within(all.acquire_owned()).await?;
        Ok(Place { _held: vec![all, memory, rows, own] })
    }

    /// Waits for a permit.
    async fn within<E>(
        &self,
        permit: impl Future<Output = Result<OwnedSemaphorePermit, E>>,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        match timeout(self.patience, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Failure::busy("too many requests in progress: try again")),
        }
    }

    fn own(&self, client: &Client, of: impl Fn(&Own) -> &Arc<Semaphore>) -> Arc<Semaphore> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if by.len() >= REMEMBERED {
            // A permit holds its semaphore, and so does a request that waits for one.
            by.retain(|_, own| Arc::strong_count(&own.large) > 1 || Arc::strong_count(&own.short) > 1);
        }
        // Users of one host are told apart on loopback too, by their number.
        let holder = if client.is_named {
            client.name.clone()
        } else {
            format!("{} {}", client.name, network(client.address))
        };
        let own = by.entry(holder).or_insert_with(|| Own {
            large: Arc::new(Semaphore::new(LARGE_OF_ONE)),
            short: Arc::new(Semaphore::new(SHORT_OF_ONE)),
        });
        Arc::clone(of(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::rights::{Right, Rights};
    use std::net::{IpAddr, Ipv4Addr};

    fn client(name: &str) -> Client {
        let rights = Rights::parse(Right::Look.word()).unwrap();
        Client { name: name.to_owned(), rights, address: IpAddr::V4(Ipv4Addr::LOCALHOST), is_named: false }
    }

    fn impatient(memory: Option<usize>) -> Answers {
        Answers { patience: Duration::from_millis(20), ..Answers::new(memory) }
    }

    fn now<T>(future: impl Future<Output = Result<T, Failure>>) -> Option<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(future).ok()
    }

    #[test]
    fn a_client_takes_two_large_places_and_leaves_those_of_the_others() {
        let answers = impatient(None);
        let mut held: Vec<Place> =
            (0..LARGE_OF_ONE).map(|_| now(answers.large(&client("1"), 1024)).unwrap()).collect();
        assert!(now(answers.large(&client("1"), 1024)).is_none());
        for name in ["2", "3"] {
            held.extend((0..LARGE_OF_ONE).map(|_| now(answers.large(&client(name), 1024)).unwrap()));
        }
        assert!(now(answers.large(&client("4"), 1024)).is_none());
        // Short answers have places of their own.
        held.extend((0..SHORT).map(|_| now(answers.short()).unwrap()));
        assert!(now(answers.short()).is_none());
        held.truncate(1);
        held.push(now(answers.short()).unwrap());
        held.push(now(answers.large(&client("1"), 1024)).unwrap());
        assert!(now(answers.large(&client("1"), 1024)).is_none());
        let own: Vec<Place> =
            (0..SHORT_OF_ONE).map(|_| now(answers.of_client(&client("1"))).unwrap()).collect();
        assert!(
            now(answers.of_client(&client("1"))).is_none() && now(answers.of_client(&client("2"))).is_some()
        );
        drop(own);
    }

    #[test]
    fn answers_share_the_memory() {
        let answers = impatient(Some(8 << 20));
        let first = now(answers.large(&client("1"), 5 << 19)).unwrap();
        assert!(now(answers.large(&client("2"), 5 << 19)).is_none());
        let second = now(answers.large(&client("3"), 3 << 19)).unwrap();
        drop((first, second));
        // One that needs more than rows may take waits for all of that, and queries can still count.
        let all = now(answers.large(&client("2"), 1 << 30)).unwrap();
        assert!(now(answers.large(&client("1"), 1)).is_none());
        let lender = answers.lender();
        assert!(lender.lend(4 << 20) && !lender.lend(1024));
        lender.give_back(4 << 20);
        drop(all);
        assert!(now(answers.large(&client("1"), 1)).is_some());
    }

    #[test]
    fn idle_clients_are_forgotten() {
        let answers = impatient(None);
        let held = now(answers.large(&client("0"), 1)).unwrap();
        for name in 1..3 * REMEMBERED {
            drop(now(answers.of_client(&client(&name.to_string()))).unwrap());
        }
        assert!(answers.by.lock().unwrap().len() <= REMEMBERED);
        assert!(
            now(answers.large(&client("0"), 1)).is_some() && now(answers.large(&client("0"), 1)).is_some()
        );
        drop(held);
    }
}
