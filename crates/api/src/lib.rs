//! Plain data that crosses a boundary: what is asked ([`SubscriptionSpec`]) and what is answered
//! ([`Reading`], [`Ledger`], [`Snapshot`]).
//!
//! There is no behaviour here but [`Reading::merge`] and its like: addition, commutative and associative, so
//! that workers, intervals and machines can be added up in any order with the same result.
//!
//! ```
//! use weir_api::{Count, FunctionCall, Reading, SubscriptionSpec};
//!
//! // The question: packets and bytes of port 53.
//! let asked = SubscriptionSpec::new("dns", "port 53", vec![FunctionCall::new("packets")]);
//! let json = serde_json::to_string(&asked).unwrap();
//! assert_eq!(serde_json::from_str::<SubscriptionSpec>(&json).unwrap(), asked);
//!
//! // The answers of two workers, added up.
//! let mut whole = Reading::Count(Count { packets: 3, bytes: 240 });
//! whole.merge(&Reading::Count(Count { packets: 1, bytes: 60 }));
//! assert_eq!(whole, Reading::Count(Count { packets: 4, bytes: 300 }));
//! ```

#![forbid(unsafe_code)]

mod cost;
mod counter;
mod distinct;
mod ledger;
mod reading;
mod scans;
mod sessions;
mod snapshot;
mod subscription;
mod top;
pub mod web;

pub use cost::Costs;
pub use counter::{Counter, counters};
pub use distinct::{DistinctCount, DistinctOf, Sketch};
pub use ledger::{CONN_STATES, CaptureCount, DecodeErrors, ERROR_KINDS, FlowCount, LAYERS, Ledger, States};
pub use reading::{Class, Count, Histogram, Reading, Series};
pub use scans::{Distinct, Scans, Sweep, Trials};
pub use sessions::SessionCount;
pub use snapshot::{Answer, Interval, Snapshot};
pub use subscription::{FunctionCall, KeyKind, Level, SubscriptionSpec, Unit};
pub use top::{Key, Top, TopRow};
