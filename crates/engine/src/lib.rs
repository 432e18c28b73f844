//! The pass: packets in, readings and flow records out.
//!
//! A [`Plan`] is the compiled list of subscriptions. A [`Worker`] takes packets through it and owns all state. This
//! crate reads no clock, socket or file and starts no thread: time comes with the packets, and from the caller's tick
//! if there are none.
//!
//! ```
//! use std::sync::Arc;
//! use weir_api::{Count, FunctionCall, Reading, SubscriptionSpec};
//! use weir_engine::{ChecksumMode, FlowConfig, Plan, Settings, Worker};
//! use weir_wire::{Batch, LinkType, PacketBuf, build};
//!
//! let requested = SubscriptionSpec::new("dns", "port 53", vec![FunctionCall::new("packets")]);
//! let settings = Settings { filter: Default::default(), checksum: ChecksumMode::Off, seeds: 1_u64.into(), chosen: None, own_apps: Default::default(), rules: None };
//! let plan = Plan::new("", vec![requested], settings).unwrap();
//! let mut packets = PacketBuf::default();
//! for port in [53, 80, 53] {
//!     let frame = build::ethernet().ipv4([192, 0, 2, 1], [192, 0, 2, 2]).udp(40000, port).payload(b"");
//!     packets.push(&build::packet(&frame, LinkType::ETHERNET));
//! }
//! let mut worker = Worker::new(Arc::new(plan), &FlowConfig::default());
//! worker.batch(packets.batch(), &mut ());
//! let snapshot = worker.finish(&mut ());
//! assert_eq!(snapshot.answers[0].reading, Reading::Count(Count { packets: 2, bytes: 2 * 42 }));
//! assert_eq!(snapshot.ledger.analysed, 3);
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod allowances;
mod announced;
mod announcers;
mod anomalies;
mod asked;
mod bounded;
mod chains;
mod checksum;
mod chosen;
mod cover;
mod decided;
mod demand;
mod detection;
mod edits;
mod expressions;
mod feeder;
pub mod fields;
pub mod flow_fields;
mod function;
mod held;
mod history;
mod interval;
mod item;
mod keyed;
mod meter;
mod non_ip;
mod odd_packets;
mod odd_segments;
mod outer_flows;
mod own_apps;
mod plan;
mod planned;
mod question;
mod read;
mod record_emitter;
mod rule_state;
mod session_config;
mod session_stats;
mod sessions;
mod settings;
mod sink;
mod stream_demand;
mod streams;
mod tap;
mod target;
mod token_bucket;
mod trees;
mod tunnels;
mod uncommon;
mod unidentified;
mod watched;
mod worker;

pub use announced::{Announcements, PacketOrder};
pub use chosen::ChosenFlows;
pub use decided::{DecidedFlow, DecidedFlows};
pub use demand::{Demand, Tables};
pub use detection::Rules;
pub use function::{
    Argument, Arguments, Block, BuildJudge, BuildTarget, CallError, Callable, DELIVERIES, DROPS, Delivery,
    FUNCTIONS, FileState, Function, FunctionSpec, InputKind, Judge, Memory, OwnedTally, PER_MILLION,
    RECORD_FUNCTIONS, SELECTORS, SUPPLEMENTS, Selector, Share, Supplement, drops_of, judge_of, judging_drops,
    window_of,
};
pub use interval::{IntervalClock, Stretch};
pub use item::Item;
pub use meter::Clock;
pub use own_apps::{OwnApp, OwnApps};
pub use plan::Plan;
pub use planned::check_chain;
pub use question::{Asker, Question, QuestionKind};
pub use rule_state::RuleState;
pub use session_config::{RECORD_RATIO, SessionConfig};
pub use session_stats::SessionStats;
pub use settings::{ChecksumMode, PlanError, Seeds, Settings};
pub use sink::{Emitted, Sink};
pub use streams::Measuring;
pub use target::{
    AllRows, Before, LogFormat, NamedDirectory, NamedFile, NamedLog, Of, Place, Rotation, Target,
};
pub use uncommon::Uncommon;
pub use weir_flow::measure::{Burst, Exchange, Measure, Measured};
pub use weir_flow::{
    CommunityId, ConnState, Control, EndReason, FlowConfig, FlowIdentity, FlowRecord, FlowStats, FlowVerdict,
    History, LATE, Side, Tally,
};
pub use worker::Worker;
