//! The one pass: packets in, readings and flow records out.
//!
//! A [`Plan`] is the compiled list of subscriptions; a [`Worker`] puts packets through it and owns everything
//! that it touches. There is no clock, socket, file or thread here: time comes with the packets, and from the
//! caller's tick when there are none.

#![forbid(unsafe_code)]

mod bounded;
mod checksum;
mod feeder;
mod function;
mod interval;
mod item;
mod meter;
mod plan;
mod sessions;
mod streams;
mod tunnels;
mod unidentified;
mod worker;

pub use function::{Argument, Arguments, FUNCTIONS, Function, FunctionSpec, InputKind, Pass, Share};
pub use interval::IntervalClock;
pub use item::Item;
pub use meter::Clock;
pub use plan::{ChecksumMode, Plan, PlanError, Settings};
pub use sessions::{SessionConfig, SessionStats};
pub use streams::Measuring;
pub use unidentified::UNIDENTIFIED;
pub use weir_flow::measure::{Burst, Exchange, Measure, Measured};
pub use weir_flow::{
    CommunityId, ConnState, EndReason, FlowConfig, FlowIdentity, FlowRecord, FlowStats, History, Side, Tally,
};
pub use worker::{Sink, Worker};
