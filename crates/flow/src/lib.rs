//! The flow table, its timers and states, and IP fragments.

#![forbid(unsafe_code)]

mod record;

pub use record::{ConnState, EndReason, FlowRecord, FlowSink, History, Side, Tally};
