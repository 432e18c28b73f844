//! A rule, read and checked.

use crate::buffer::RuleBuffer;
use crate::condition::{Condition, TlsState, TlsVersion};
use crate::content::Content;
use crate::entropy::Entropy;
use crate::header::Header;
use crate::numbers::NumberTest;
use crate::numeric::{ByteExtract, ByteJump, ByteMath, ByteTest, IsDataAt};
use crate::pattern::Pattern;
use crate::ranges::Ranges;
use crate::state::{Dataset, DetectionFilter, Flow, FlowBits, FlowInt, HostBits, Tag, Threshold};
use crate::transform::{Base64, Transform};

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its header.
    pub header: Header,
    /// Its number, unique in its group.
    pub sid: u32,
    /// The group of its number, 1 unless stated.
    pub gid: u32,
    /// Its revision, 0 unless stated.
    pub rev: u32,
    /// What an alert says, with its escapes replaced.
    pub message: Box<str>,
    /// Its class, if stated.
    pub class: Option<Box<str>>,
    /// Its priority from 1, the highest, to 255, if stated. Else its class has one.
    pub priority: Option<u8>,
    /// Documents about it: the system and the number or address in it.
    pub references: Vec<(Box<str>, Box<str>)>,
    /// Keys and values about it.
    pub metadata: Vec<(Box<str>, Box<str>)>,
    /// Which side is the target of the attack, if stated.
    pub target: Option<Target>,
    /// Whether its matches make no alert.
    pub is_silent: bool,
    /// The direction and state of the flow.
    pub flow: Flow,
    /// What must be in buffers: all of these.
    pub buffers: Vec<BufferTests>,
    /// What else must hold: all of these.
    pub conditions: Vec<Condition>,
    /// Bits of the flow that it asks and sets.
    pub flow_bits: Vec<FlowBits>,
    /// Numbers of the flow that it asks and changes.
    pub flow_ints: Vec<FlowInt>,
    /// Bits of hosts that it asks and sets.
    pub host_bits: Vec<HostBits>,
    /// Names of the variables that its tests read from packets, in the order in which they are read.
    pub variables: Vec<Box<str>>,
    /// Which of its matches become alerts.
    pub threshold: Option<Threshold>,
    /// From which event on it matches.
    pub detection_filter: Option<DetectionFilter>,
    /// What is kept after an alert.
    pub tags: Vec<Tag>,
}

/// Which side is the target of an attack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// The sender.
    Source,
    /// The receiver.
    Destination,
}

/// What must be in a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferTests {
    /// The buffer.
    pub buffer: &'static RuleBuffer,
    /// What is done with it first, in order.
    pub transforms: Vec<Transform>,
    /// The tests, in order. Relative ones count from the end of the match before them.
    pub tests: Vec<Test>,
}

/// A test of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// A literal.
    Content(Content),
    /// A regular expression.
    Pattern(Pattern),
    /// Whether there is a byte at a place.
    IsDataAt(IsDataAt),
    /// A number is compared.
    ByteTest(ByteTest),
    /// A number says where relative tests count from.
    ByteJump(ByteJump),
    /// A number becomes a variable.
    ByteExtract(ByteExtract),
    /// A number is computed into a variable.
    ByteMath(ByteMath),
    /// The length of the buffer.
    Size(NumberTest),
    /// The number that the buffer has.
    Number(NumberTest),
    /// The number that the buffer has is one of these.
    AnyOf(Ranges<u16>),
    /// The entropy of the buffer.
    Entropy(Entropy),
    /// The version of TLS that the buffer has: any of these, each negated or not.
    TlsVersion(Vec<(TlsVersion, bool)>),
    /// The state of a TLS handshake that the buffer's message begins: any of these, each negated or not.
    TlsState(Vec<(TlsState, bool)>),
    /// Base64 is decoded into `base64_data`.
    Base64 {
        /// How.
        how: Base64,
        /// Whether its offset counts from the end of the last match.
        is_relative: bool,
    },
    /// Malformed ASN.1.
    Asn1(Asn1),
    /// The buffer is in a set.
    Dataset(Dataset),
    /// The reputation of the buffer in a set.
    Datarep {
        /// The set.
        set: Dataset,
        /// The reputation.
        test: NumberTest,
    },
    /// The buffer is absent. With `or_else` the tests after it are an alternative.
    Absent {
        /// Whether a buffer that is there and passes the other tests matches too.
        or_else: bool,
    },
}

/// What of ASN.1 is looked for: any of these.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Asn1 {
    /// A bit string whose unused bits exceed 7.
    pub bitstring_overflow: bool,
    /// A real number whose text is longer than its value allows.
    pub double_overflow: bool,
    /// A length above this.
    pub oversize_length: Option<u32>,
    /// Where it begins.
    pub offset: i64,
    /// Whether the offset counts from the end of the last match.
    pub is_relative: bool,
}

impl Test {
    /// Whether it counts from the end of the match before it.
    pub fn is_relative(&self) -> bool {
        match self {
            Self::Content(content) => content.is_relative(),
            Self::Pattern(pattern) => pattern.is_relative,
            Self::IsDataAt(test) => test.is_relative,
            Self::ByteTest(test) => test.read.is_relative,
            Self::ByteJump(jump) => jump.read.is_relative,
            Self::ByteExtract(extract) => extract.read.is_relative,
            Self::ByteMath(math) => math.read.is_relative,
            Self::Base64 { is_relative, .. } => *is_relative,
            Self::Asn1(asn1) => asn1.is_relative,
            Self::Size(_)
            | Self::Number(_)
            | Self::AnyOf(_)
            | Self::Entropy(_)
            | Self::TlsVersion(_)
            | Self::TlsState(_)
            | Self::Dataset(_)
            | Self::Datarep { .. }
            | Self::Absent { .. } => false,
        }
    }
}

impl Rule {
    /// Its literals, each with its buffer.
    pub fn contents(&self) -> impl Iterator<Item = (&BufferTests, &Content)> {
        self.buffers.iter().flat_map(|of| {
            of.tests.iter().filter_map(move |test| match test {
                Test::Content(content) => Some((of, content)),
                _ => None,
            })
        })
    }
}
