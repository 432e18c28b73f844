//! Rules in the language of Suricata and Snort.
//!
//! [`Ruleset::read`] reads rule files. Each rule becomes a typed [`Rule`], or a [`Refusal`] with its place and reason;
//! a rule that is refused takes no other with it. [`KEYWORDS`] is the list of what rules may say: the parser, the manual and
//! the tests read it.
//!
//! The meaning is that of Suricata 8 ("Suricata User Guide", chapter "Suricata Rules"); keywords of the old manner,
//! which stand after their content, are read as well.
//!
//! This crate opens no file: what rules name comes from [`Sources`].
//!
//! ```
//! use weir_detect::{NoSources, Reading, RuleFile, Ruleset, Variables};
//!
//! let file = RuleFile {
//!     name: "local.rules",
//!     bytes: br#"alert http any any -> any any (msg:"a tool"; http.user_agent; content:"tool/"; startswith; sid:1;)
//! alert tcp any any -> any any (contents:"x"; sid:2;)"#,
//! };
//! let reading = Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: false };
//! let set = Ruleset::read([file], &reading);
//! assert_eq!(set.rules[0].rule.sid, 1);
//! assert_eq!(set.refusals[0].fault.reason, "`contents` is not a keyword; `content` is one");
//! assert_eq!((set.refusals[0].origin.line, set.refusals[0].origin.column), (2, 31));
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod alerts_of_packet;
mod asn1;
mod buffer;
mod builder;
mod condition;
mod config;
mod content;
mod detector;
mod entropy;
mod event;
mod fault;
mod finder;
mod header;
mod judging;
mod keyword;
mod known;
mod nearest;
mod numbers;
mod numeric;
mod pattern;
mod protocol;
mod ranges;
mod rarity;
mod reputation;
mod rule;
mod ruleset;
mod search;
mod sets;
mod sources;
mod state;
mod text;
mod transform;
mod value;
mod verify;
mod written;

pub use alerts_of_packet::AlertsOfPacket;
pub use buffer::{BUFFERS, Origin as BufferOrigin, RuleBuffer, Sides, buffer};
pub use builder::MAX_TESTS;
pub use condition::{
    AddressOf, BitMode, BitTest, ChecksumOf, Condition, IpOption, NUMBERS, NumberRow, OfSide, PlaceTest,
    ProtocolOf, ReputationTest, TlsState, TlsVersion, VlanLayer,
};
pub use config::{
    Class, Config, ConfigFault, OfRules, ReferenceSystem, ThresholdLine, classes, reference_systems,
    thresholds,
};
pub use content::{Amount, Content, FastPattern, MAX_CONTENT};
pub use detector::{
    Anomaly, Detector, DetectorStats, Explained, FlowState, FoundBy, HeaderPart, Match, MatchedIn, Moment,
    Onlooker, Program, ProgramOptions, ProgramRule, RuleCost, Seen, SharedState, Trial, TrialEnd, TrialFlow,
    Trials, Turn,
};
pub use entropy::{Entropy, EntropyTest};
pub use event::{EVENTS, EventOf, EventRow, event};
pub use fault::{Fault, FaultKind};
pub use header::{Action, Endpoint, Header, Way};
pub use judging::{ActionOrder, Judging, Midstream, Verdicts};
pub use keyword::{Group, KEYWORDS, Keyword, keyword};
pub use known::KnownRules;
pub use numbers::NumberTest;
pub use numeric::{
    Arithmetic, ByteExtract, ByteJump, ByteMath, ByteTest, Form, IsDataAt, JumpFrom, Operator, Read,
};
pub use pattern::{Capture, Found, MAX_EXPRESSION, Pattern};
pub use protocol::{RULE_PROTOCOLS, RuleProtocol, Selects, is_read};
pub use ranges::{Number, Ranges};
pub use rarity::{PairCounts, Rarity};
pub use reputation::{Reputations, Scores};
pub use rule::{Asn1, BufferTests, Rule, Target, Test};
pub use ruleset::{
    FileAgain, LoadedRule, MAX_EXCERPT, Note, Origin, ParsedRule, Reading, Refusal, RuleFile, Ruleset,
    option_texts, parse_rule,
};
pub use search::{Literal, Search};
pub use sets::{AddressSet, Lists, PortSet, Variables};
pub use sources::{NoSources, Places, Sources};
pub use state::{
    BitAction, BitOf, Comparison, Dataset, DatasetKind, DetectionFilter, Flow, FlowBits, FlowInt, HostBits,
    IntAction, IntValue, Side, Tag, TagOf, TagUnit, Threshold, ThresholdKind, Track,
};
pub use text::{MAX_RULE_BYTES, NotRules, RuleText, rule_texts};
pub use transform::{Base64, Base64Mode, Transform};
pub use verify::{MAX_STEPS, Memory, Verdict, verify};
pub use written::Written;
