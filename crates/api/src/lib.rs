//! Plain data that crosses a boundary: requests ([`SubscriptionSpec`]) and results ([`Reading`], [`Ledger`],
//! [`Snapshot`]).
//!
//! The only behaviour is merging, as [`Reading::merge`] does it: addition, commutative and associative, so that the
//! results of workers, intervals and machines can be added in any order.
//!
//! ```
//! use weir_api::{Count, FunctionCall, Reading, SubscriptionSpec};
//!
//! // A request: packets and bytes of port 53.
//! let requested = SubscriptionSpec::new("dns", "port 53", vec![FunctionCall::new("packets")]);
//! let json = serde_json::to_string(&requested).unwrap();
//! assert_eq!(serde_json::from_str::<SubscriptionSpec>(&json).unwrap(), requested);
//!
//! // The readings of two workers, added up.
//! let mut whole = Reading::Count(Count { packets: 3, bytes: 240 });
//! whole.merge(&Reading::Count(Count { packets: 1, bytes: 60 }));
//! assert_eq!(whole, Reading::Count(Count { packets: 4, bytes: 300 }));
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod answer;
pub mod basis;
mod binary;
mod bits;
pub mod builtin;
mod calls;
mod cells;
mod cost;
mod counter;
mod distinct;
pub mod event;
mod figure;
mod flooded;
mod ledger;
pub mod mute;
mod net;
mod reading;
mod rows;
mod sample;
mod scans;
mod senders;
mod sessions;
mod sketch;
mod snapshot;
mod subscription;
mod syn;
mod table;
mod top;
mod udp;
pub mod web;

pub use answer::{Answer, AnswerId, AnswerLabel, Outline};
pub use binary::{DecodeError, VERSION as BINARY_VERSION};
pub use bits::Bits;
pub use calls::{CALLS, Call};
pub use cells::{Cell, Cells, Column, ColumnKind, Fact, Label, Layout, Row, sample_text};
pub use cost::Costs;
pub use counter::{Counter, counters};
pub use distinct::{Distinct, DistinctCount, DistinctOf, DistinctValues, Hashed};
pub use event::{EVENT_KINDS, Event, EventCount, EventKind, EventState, Evidence, Origin, Severity, Subject};
pub use figure::{FAMILIES, Family, Figure, FigureValue, Metric, MetricType, SeriesName};
pub use flooded::{FloodKey, FloodSums, Flooded};
pub use ledger::{
    CONN_STATES, CaptureCount, DecodeErrors, ERROR_KINDS, FlowCount, LAYERS, Ledger, state_words,
};
pub use mute::{Facts, Mute, MuteScope, RuleId, Scope, Service};
pub use net::{Net, NetError, mapped};
pub use reading::{Class, Count, Histogram, Reading, Series};
pub use rows::{Keyed, Rows};
pub use sample::SampledValues;
pub use scans::{SCANS, Sweep, Trials};
pub use senders::ChecksumSenders;
pub use sessions::SessionCount;
pub use sketch::{Sketch, nearest_rank};
pub use snapshot::{Interval, Snapshot};
pub use subscription::{
    FunctionCall, KeyKind, Level, Owner, Subscription, SubscriptionId, SubscriptionSpec, Unit,
};
pub use syn::{SYN, SynCounts, SynHost, WORM_DIFFERENCE, WorkWeight};
pub use table::{
    Datum, Fold, Folded, KeyColumn, LINE, NAMES, NETWORK_NAMES, OWN_WORDS, Rewrite, Schema, Shown, Table,
    TableColumn, TableRow, mac_text, name_number,
};
pub use top::{Key, Top, TopRow};
pub use udp::{UDP, UdpHost};
