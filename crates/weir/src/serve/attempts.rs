//! Failed log-ins by address: each failure makes the next wait longer.
//!
//! A successful log-in does not reset the wait. Otherwise a client with one valid token could guess the passwords of
//! others without delay.

use super::rights::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Wait of an address after its first failure; each further failure doubles it.
const FIRST: Duration = Duration::from_millis(500);
/// Maximum number of doublings, which gives 64 s.
const MAX_DOUBLINGS: u32 = 7;
/// Time after the last failure at which an address is removed.
const FORGOTTEN: Duration = Duration::from_secs(900);
/// Maximum number of addresses. A further address replaces the one with the oldest last failure.
const MAX_ADDRESSES: usize = 1024;

/// Failed log-ins by address.
#[derive(Default)]
pub struct Attempts(HashMap<IpAddr, Failed>);

#[derive(Clone, Copy)]
struct Failed {
    times: u32,
    last: Instant,
}

impl Failed {
    fn wait(self) -> Duration {
        FIRST * (1 << self.times.saturating_sub(1).min(MAX_DOUBLINGS))
    }
}

impl Attempts {
    /// Time that an address has to wait until its next password or token is verified; `None` if it need not wait.
    pub fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let failed = self.0.get(&network(address))?;
        let over = now.saturating_duration_since(failed.last);
        failed.wait().checked_sub(over).filter(|left| !left.is_zero())
    }

    /// Records a failure.
    pub fn failed(&mut self, address: IpAddr, now: Instant) {
        let address = network(address);
        self.0.retain(|_, failed| now.saturating_duration_since(failed.last) < FORGOTTEN);
        if self.0.len() >= MAX_ADDRESSES && !self.0.contains_key(&address) {
            let oldest = self.0.iter().min_by_key(|(_, failed)| failed.last).map(|(address, _)| *address);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let failed = self.0.entry(address).or_insert(Failed { times: 0, last: now });
        failed.times = failed.times.saturating_add(1);
        failed.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_of_that_address() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let (one, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert_eq!(attempts.wait(one, start), None);
        let mut waits = Vec::new();
        for _ in 0..10 {
            attempts.failed(one, start);
            waits.push(attempts.wait(one, start).unwrap().as_millis());
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000, 64_000]);
        assert_eq!(attempts.wait(other, start), None);
        let later = start + Duration::from_secs(63);
        assert_eq!(attempts.wait(one, later), Some(Duration::from_secs(1)));
        assert_eq!(attempts.wait(one, start + Duration::from_secs(64)), None);
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..5000 {
            attempts.failed(address(n), start + Duration::from_millis(u64::from(n)));
            assert!(attempts.0.len() <= MAX_ADDRESSES);
        }
        assert!(attempts.0.contains_key(&address(4999)) && !attempts.0.contains_key(&address(0)));
        attempts.failed(address(1), start + Duration::from_secs(2000));
        assert_eq!(attempts.0.len(), 1, "the others are removed");
    }
}
