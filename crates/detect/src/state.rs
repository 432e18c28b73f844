//! What rules remember: bits and numbers of flows and hosts, thresholds, tags.

use crate::condition::AddressOf;
use crate::fault::Fault;
use crate::value::{Value, one_of};
use std::collections::HashSet;
use std::sync::Arc;

/// What `flow` asks for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Flow {
    /// The side that sends.
    pub side: Option<Side>,
    /// Whether the handshake must, or must not, have been seen.
    pub is_established: Option<bool>,
    /// Whether the state of the flow does not matter (`stateless`).
    pub is_stateless: bool,
    /// Whether the rule looks at streams alone, or at packets alone.
    pub streams: Option<bool>,
    /// Whether the packet must, or must not, have been put together from fragments.
    pub is_reassembled: Option<bool>,
}

/// The side that sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// The initiator sends.
    ToServer,
    /// The responder sends.
    ToClient,
}

impl Flow {
    /// Reads the value of `flow`.
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let mut flow = Self::default();
        for word in value.parts(b',') {
            let word_is = |a: bool, reason: &str| if a { Ok(()) } else { Err(word.wrong(reason)) };
            match word.bytes.to_ascii_lowercase().as_slice() {
                b"to_server" | b"from_client" => {
                    word_is(
                        flow.side != Some(Side::ToClient),
                        "a flow has one direction; a second one is given",
                    )?;
                    flow.side = Some(Side::ToServer);
                }
                b"to_client" | b"from_server" => {
                    word_is(
                        flow.side != Some(Side::ToServer),
                        "a flow has one direction; a second one is given",
                    )?;
                    flow.side = Some(Side::ToClient);
                }
                b"established" => {
                    word_is(
                        flow.is_established != Some(false) && !flow.is_stateless,
                        "a flow has one state",
                    )?;
                    flow.is_established = Some(true);
                }
                b"not_established" => {
                    word_is(flow.is_established != Some(true) && !flow.is_stateless, "a flow has one state")?;
                    flow.is_established = Some(false);
                }
                b"stateless" => {
                    word_is(flow.is_established.is_none(), "a flow has one state")?;
                    flow.is_stateless = true;
                }
                b"only_stream" => {
                    word_is(flow.streams != Some(false), "`no_stream` is given, too")?;
                    flow.streams = Some(true);
                }
                b"no_stream" => {
                    word_is(flow.streams != Some(true), "`only_stream` is given, too")?;
                    flow.streams = Some(false);
                }
                b"only_frag" => {
                    word_is(flow.is_reassembled != Some(false), "`no_frag` is given, too")?;
                    flow.is_reassembled = Some(true);
                }
                b"no_frag" => {
                    word_is(flow.is_reassembled != Some(true), "`only_frag` is given, too")?;
                    flow.is_reassembled = Some(false);
                }
                _ => {
                    return Err(word.wrong(format!(
                        "`{}` is not an option of flow; to_server, to_client, from_server, from_client, established, \
                         not_established, stateless, only_stream, no_stream, only_frag and no_frag are",
                        word.shown()
                    )));
                }
            }
        }
        Ok(flow)
    }
}

/// What is done with a bit, or asked of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BitAction {
    /// Set it when the rule matches.
    Set,
    /// Clear it when the rule matches.
    Unset,
    /// Change it when the rule matches.
    Toggle,
    /// It must be set.
    IsSet,
    /// It must not be set.
    IsNotSet,
}

impl BitAction {
    const NAMES: [(&'static str, Self); 5] = [
        ("set", Self::Set),
        ("unset", Self::Unset),
        ("toggle", Self::Toggle),
        ("isset", Self::IsSet),
        ("isnotset", Self::IsNotSet),
    ];

    /// Whether the rule asks, and changes nothing.
    pub fn is_test(self) -> bool {
        matches!(self, Self::IsSet | Self::IsNotSet)
    }
}

/// A bit of a flow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FlowBits {
    /// What is done or asked.
    pub action: BitAction,
    /// Its name; of several, any decides.
    pub names: Vec<Box<str>>,
}

/// What a value of `flowbits` is.
pub(crate) enum FlowBitsValue {
    /// The rule makes no alert.
    NoAlert,
    /// A bit.
    Bits(FlowBits),
}

impl FlowBits {
    pub(crate) fn parse(value: Value<'_>) -> Result<FlowBitsValue, Fault> {
        let mut words = value.parts(b',');
        let action = words.next().unwrap_or(value);
        if action.bytes.eq_ignore_ascii_case(b"noalert") {
            return match words.next() {
                Some(word) => Err(word.wrong("`noalert` has no bit")),
                None => Ok(FlowBitsValue::NoAlert),
            };
        }
        let action_is = one_of(action, "an action of flowbits", &BitAction::NAMES)?;
        let rest = words.next().ok_or_else(|| action.wrong("the name of a bit is missing"))?;
        if let Some(word) = words.next() {
            return Err(word.wrong("flowbits has an action and names; alternatives stand between `|`"));
        }
        let names = rest.parts(b'|').map(bit_name).collect::<Result<Vec<_>, _>>()?;
        if names.len() > 1 && !action_is.is_test() {
            return Err(rest.wrong("alternatives are for isset and isnotset"));
        }
        Ok(FlowBitsValue::Bits(Self { action: action_is, names }))
    }
}

fn bit_name(value: Value<'_>) -> Result<Box<str>, Fault> {
    let name = value.text()?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(value.wrong(format!(
            "`{}` is not the name of a bit: it has no blanks and is not empty",
            value.shown()
        )));
    }
    Ok(name.into())
}

/// A number of a flow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FlowInt {
    /// Its name.
    pub name: Box<str>,
    /// What is done or asked.
    pub action: IntAction,
}

/// What is done with a number of a flow, or asked of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IntAction {
    /// It becomes this when the rule matches.
    Set(IntValue),
    /// This is added when the rule matches.
    Add(IntValue),
    /// This is subtracted when the rule matches.
    Subtract(IntValue),
    /// It must have a value.
    IsSet,
    /// It must have none.
    IsNotSet,
    /// It must compare so with this.
    Compare(Comparison, IntValue),
}

impl IntAction {
    /// Whether the rule asks, and changes nothing.
    pub fn is_test(&self) -> bool {
        matches!(self, Self::IsSet | Self::IsNotSet | Self::Compare(..))
    }
}

/// A number, or another number of the flow.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IntValue {
    /// A number.
    Is(u32),
    /// That of another name.
    Of(Box<str>),
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Comparison {
    /// Lower.
    Below,
    /// Lower or equal.
    AtMost,
    /// Equal.
    Is,
    /// Not equal.
    Not,
    /// Higher or equal.
    AtLeast,
    /// Higher.
    Above,
}

impl FlowInt {
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let mut words = value.parts(b',');
        let name = bit_name(words.next().unwrap_or(value))?;
        let sign = words.next().ok_or_else(|| value.wrong("the operation of flowint is missing"))?;
        let number = words.next();
        if let Some(word) = words.next() {
            return Err(word.wrong("flowint has a name, an operation and a number"));
        }
        let number = |what: &str| match number {
            None => Err(sign.wrong(format!("the number of {what} is missing"))),
            Some(word) if word.bytes.first().is_some_and(u8::is_ascii_digit) => {
                word.number32("a number").map(IntValue::Is)
            }
            Some(word) => bit_name(word).map(IntValue::Of),
        };
        let action = match sign.bytes {
            b"=" => IntAction::Set(number("=")?),
            b"+" => IntAction::Add(number("+")?),
            b"-" => IntAction::Subtract(number("-")?),
            b"isset" => IntAction::IsSet,
            b"notset" | b"isnotset" => IntAction::IsNotSet,
            _ => {
                const COMPARISONS: [(&str, Comparison); 6] = [
                    ("<", Comparison::Below),
                    ("<=", Comparison::AtMost),
                    ("==", Comparison::Is),
                    ("!=", Comparison::Not),
                    (">=", Comparison::AtLeast),
                    (">", Comparison::Above),
                ];
                IntAction::Compare(
                    one_of(sign, "an operation of flowint", &COMPARISONS)?,
                    number("a comparison")?,
                )
            }
        };
        Ok(Self { name, action })
    }
}

/// Whose bit of `xbits` or `hostbits` it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BitOf {
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
    /// That of both addresses together.
    Pair,
}

/// A bit of a host or of a pair of hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostBits {
    /// What is done or asked.
    pub action: BitAction,
    /// Its name.
    pub name: Box<str>,
    /// Whose it is.
    pub of: BitOf,
    /// After how many seconds it is cleared.
    pub expires: u32,
}

impl HostBits {
    /// Seconds after which a bit is cleared, if the rule states none (Suricata's).
    const EXPIRES: u32 = 30;

    /// `xbits:set,NAME,track ip_src,expire 60`.
    pub(crate) fn of_pair_or_host(value: Value<'_>) -> Result<Option<Self>, Fault> {
        let mut words = value.parts(b',');
        let first = words.next().unwrap_or(value);
        if first.bytes == b"noalert" {
            return Ok(None);
        }
        let action = one_of(first, "an action of xbits", &BitAction::NAMES)?;
        let name = bit_name(words.next().ok_or_else(|| value.wrong("the name of the bit is missing"))?)?;
        let (mut of, mut expires) = (None, Self::EXPIRES);
        for word in words {
            if let Some(side) = word.after("track ") {
                const OF: [(&str, BitOf); 3] =
                    [("ip_src", BitOf::Source), ("ip_dst", BitOf::Destination), ("ip_pair", BitOf::Pair)];
                if side.trimmed().bytes == b"tx" {
                    return Err(side.not_supported("bits of a transaction (`track tx`) are not supported"));
                }
                of = Some(one_of(side.trimmed(), "whose bit it is", &OF)?);
            } else if let Some(seconds) = word.after("expire ") {
                expires = seconds.trimmed().number("a number of seconds", 1, i64::from(u32::MAX))? as u32;
            } else {
                return Err(
                    word.wrong(format!("`{}` is not an option of xbits; track and expire are", word.shown()))
                );
            }
        }
        let of =
            of.ok_or_else(|| value.wrong("`track ip_src`, `track ip_dst` or `track ip_pair` is missing"))?;
        Ok(Some(Self { action, name, of, expires }))
    }

    /// `hostbits:set,NAME,src`.
    pub(crate) fn of_host(value: Value<'_>) -> Result<Option<Self>, Fault> {
        let mut words = value.parts(b',');
        let first = words.next().unwrap_or(value);
        if first.bytes == b"noalert" {
            return Ok(None);
        }
        let action = one_of(first, "an action of hostbits", &BitAction::NAMES)?;
        let name = bit_name(words.next().ok_or_else(|| value.wrong("the name of the bit is missing"))?)?;
        const OF: [(&str, BitOf); 3] =
            [("src", BitOf::Source), ("dst", BitOf::Destination), ("both", BitOf::Pair)];
        let of = words.next().map_or(Ok(BitOf::Source), |word| one_of(word, "whose bit it is", &OF))?;
        match words.next() {
            Some(word) => Err(word.wrong("hostbits has an action, a name and a side")),
            None => Ok(Some(Self { action, name, of, expires: 300 })),
        }
    }
}

/// Whose events a threshold counts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Track {
    /// Those of each source address.
    Source,
    /// Those of each destination address.
    Destination,
    /// Those of each pair of addresses.
    Both,
    /// All of the rule.
    Rule,
    /// Those of each flow.
    Flow,
}

impl Track {
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("by_src", Self::Source),
        ("by_dst", Self::Destination),
        ("by_both", Self::Both),
        ("by_rule", Self::Rule),
        ("by_flow", Self::Flow),
    ];
}

/// Which matches become alerts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ThresholdKind {
    /// The first `count` in the time.
    Limit,
    /// Each `count`th in the time.
    Threshold,
    /// One in the time, at the `count`th.
    Both,
    /// The `count`th, and then each time that ten times as many came (`backoff`, with its factor).
    Backoff(u32),
}

/// `threshold`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Threshold {
    /// Which matches become alerts.
    pub kind: ThresholdKind,
    /// Whose events are counted.
    pub track: Track,
    /// The number.
    pub count: u32,
    /// The seconds of the time. It begins with its first event.
    pub seconds: u32,
}

/// `detection_filter`: the rule matches from the event after the `count`th on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct DetectionFilter {
    /// Whose events are counted.
    pub track: Track,
    /// The number.
    pub count: u32,
    /// The seconds of the time.
    pub seconds: u32,
}

/// The words of a threshold.
#[derive(Default)]
struct ThresholdWords<'a> {
    kind: Option<Value<'a>>,
    track: Option<Track>,
    count: Option<u32>,
    seconds: Option<u32>,
    multiplier: Option<u32>,
}

impl<'a> ThresholdWords<'a> {
    fn parse(words: impl Iterator<Item = Value<'a>>) -> Result<Self, Fault> {
        let mut is = Self::default();
        for word in words {
            let (name, argument) = word.name_and_argument();
            let positive =
                |what: &str| argument.number(what, 1, i64::from(u32::MAX)).map(|number| number as u32);
            let before = match name.bytes {
                b"type" => is.kind.replace(argument).is_some(),
                b"track" => is.track.replace(one_of(argument, "what is tracked", &Track::NAMES)?).is_some(),
                b"count" => is.count.replace(positive("a count")?).is_some(),
                b"seconds" => is.seconds.replace(positive("a number of seconds")?).is_some(),
                b"multiplier" => is.multiplier.replace(positive("a multiplier")?).is_some(),
                // `new` says that a rule may have more than one in Snort; it changes nothing here.
                b"new_action" | b"timeout" => {
                    return Err(word.wrong("rate_filter belongs into threshold.config"));
                }
                _ => {
                    let reason =
                        format!("`{}` is not an option; type, track, count and seconds are", word.shown());
                    return Err(word.wrong(reason));
                }
            };
            if before {
                return Err(word.wrong(format!("`{}` is given twice", name.shown())));
            }
        }
        Ok(is)
    }
}

impl Threshold {
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        Self::of_words(value, value.parts(b','))
    }

    /// Reads the words of a value, which may have others beside them.
    pub(crate) fn of_words<'a>(
        value: Value<'a>,
        words: impl Iterator<Item = Value<'a>>,
    ) -> Result<Self, Fault> {
        let is = ThresholdWords::parse(words)?;
        let missing = |what: &str| value.wrong(format!("`{what}` is missing"));
        let kind = is.kind.ok_or_else(|| missing("type"))?;
        const KINDS: [(&str, ThresholdKind); 4] = [
            ("limit", ThresholdKind::Limit),
            ("threshold", ThresholdKind::Threshold),
            ("both", ThresholdKind::Both),
            ("backoff", ThresholdKind::Backoff(10)),
        ];
        let kind = match (one_of(kind, "a type", &KINDS)?, is.multiplier) {
            (ThresholdKind::Backoff(_), Some(factor)) if factor > 1 => ThresholdKind::Backoff(factor),
            (_, Some(_)) => return Err(value.wrong("`multiplier` is a number above 1, for `backoff`")),
            (kind, None) => kind,
        };
        let is_backoff = matches!(kind, ThresholdKind::Backoff(_));
        let seconds = match is.seconds {
            Some(seconds) => seconds,
            // A backoff never starts again.
            None if is_backoff => u32::MAX,
            None => return Err(missing("seconds")),
        };
        let count = is.count.ok_or_else(|| missing("count"))?;
        Ok(Self { kind, track: is.track.ok_or_else(|| missing("track"))?, count, seconds })
    }
}

impl DetectionFilter {
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let is = ThresholdWords::parse(value.parts(b','))?;
        let missing = |what: &str| value.wrong(format!("`{what}` is missing"));
        if let Some(kind) = is.kind {
            return Err(kind.wrong("detection_filter has no type"));
        }
        Ok(Self {
            track: is.track.ok_or_else(|| missing("track"))?,
            count: is.count.ok_or_else(|| missing("count"))?,
            seconds: is.seconds.ok_or_else(|| missing("seconds"))?,
        })
    }
}

/// What is kept after an alert: `tag`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tag {
    /// Of whom.
    pub of: TagOf,
    /// How much.
    pub amount: u32,
    /// In which unit.
    pub unit: TagUnit,
}

/// Whose packets are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TagOf {
    /// Those of the flow.
    Session,
    /// Those of an address.
    Host(AddressOf),
}

/// The unit of a tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TagUnit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

impl Tag {
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let mut words = value.parts(b',');
        let kind = words.next().unwrap_or(value);
        let is_session = one_of(kind, "what is tagged", &[("session", true), ("host", false)])?;
        let amount = match words.next() {
            Some(word) => word.number("an amount", 1, i64::from(u32::MAX))? as u32,
            None if is_session => return Ok(Self { of: TagOf::Session, amount: 60, unit: TagUnit::Seconds }),
            None => return Err(value.wrong("the amount is missing")),
        };
        let unit =
            words.next().ok_or_else(|| value.wrong("the unit is missing: packets, bytes or seconds"))?;
        let units = [("packets", TagUnit::Packets), ("bytes", TagUnit::Bytes), ("seconds", TagUnit::Seconds)];
        let unit = one_of(unit, "a unit", &units)?;
        let of = match (is_session, words.next()) {
            (true, None) => TagOf::Session,
            (true, Some(word)) => return Err(word.wrong("a session has no side")),
            (false, side) => {
                let sides = [("src", AddressOf::Source), ("dst", AddressOf::Destination)];
                TagOf::Host(side.map_or(Ok(AddressOf::Source), |side| one_of(side, "a side", &sides))?)
            }
        };
        Ok(Self { of, amount, unit })
    }
}

/// A set of values from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its name.
    pub name: Box<str>,
    /// What its values are.
    pub kind: DatasetKind,
    /// Its values.
    pub values: Arc<HashSet<Box<[u8]>>>,
    /// Whether the buffer must not be in it.
    pub is_negated: bool,
}

/// What the values of a set are.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DatasetKind {
    /// Text, in base64 in the file.
    Text,
    /// MD5 of the buffer.
    Md5,
    /// SHA-256 of the buffer.
    Sha256,
    /// IPv4 addresses.
    V4,
    /// Addresses of both versions.
    Ip,
}

impl DatasetKind {
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("string", Self::Text),
        ("md5", Self::Md5),
        ("sha256", Self::Sha256),
        ("ipv4", Self::V4),
        ("ip", Self::Ip),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        Value::new(text.as_bytes(), 0)
    }

    #[test]
    fn flows() {
        let flow = Flow::parse(value("established, to_server,no_stream")).unwrap();
        assert_eq!(
            (flow.side, flow.is_established, flow.streams),
            (Some(Side::ToServer), Some(true), Some(false))
        );
        for text in ["to_server,to_client", "established,stateless", "only_stream,no_stream", "x", ""] {
            assert!(Flow::parse(value(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn bits() {
        let Ok(FlowBitsValue::Bits(bits)) = FlowBits::parse(value("isset,a|b.c")) else { panic!() };
        assert_eq!((bits.action, bits.names.len()), (BitAction::IsSet, 2));
        assert!(matches!(FlowBits::parse(value("noalert")), Ok(FlowBitsValue::NoAlert)));
        for text in ["set", "set,a|b", "set,", "sets,a", "set,a,b", "noalert,a"] {
            assert!(FlowBits::parse(value(text)).is_err(), "{text}");
        }
        let bits = HostBits::of_pair_or_host(value("set,ET.x,track ip_pair,expire 15")).unwrap().unwrap();
        assert_eq!((bits.of, bits.expires), (BitOf::Pair, 15));
        assert!(
            HostBits::of_pair_or_host(value("set,a")).is_err()
                && HostBits::of_pair_or_host(value("set,a,track tx")).is_err()
        );
        assert_eq!(HostBits::of_host(value("isset,a,dst")).unwrap().unwrap().of, BitOf::Destination);
    }

    #[test]
    fn numbers_of_flows() {
        let is = FlowInt::parse(value("count, +, 1")).unwrap();
        assert_eq!(is.action, IntAction::Add(IntValue::Is(1)));
        let is = FlowInt::parse(value("count,>=,other")).unwrap();
        assert_eq!(is.action, IntAction::Compare(Comparison::AtLeast, IntValue::Of("other".into())));
        assert!(FlowInt::parse(value("count,notset")).unwrap().action.is_test());
        for text in ["count", "count,+", "count,~,1", "count,=,1,2"] {
            assert!(FlowInt::parse(value(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn thresholds() {
        let is = Threshold::parse(value("type limit, track by_src, seconds 60, count 1")).unwrap();
        assert_eq!((is.kind, is.track, is.count, is.seconds), (ThresholdKind::Limit, Track::Source, 1, 60));
        let is = Threshold::parse(value("type backoff,track by_flow,count 1,multiplier 5")).unwrap();
        assert_eq!(is.kind, ThresholdKind::Backoff(5));
        let is = DetectionFilter::parse(value("track by_dst,count 5,seconds 1")).unwrap();
        assert_eq!((is.track, is.count), (Track::Destination, 5));
        for text in [
            "",
            "type limit",
            "type limit,track by_src,count 0,seconds 1",
            "type limit,type both,track by_src,count 1",
        ] {
            assert!(Threshold::parse(value(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn tags() {
        let is = Tag::parse(value("session,5,packets")).unwrap();
        assert_eq!((is.of, is.amount, is.unit), (TagOf::Session, 5, TagUnit::Packets));
        assert_eq!(Tag::parse(value("host,10,seconds,dst")).unwrap().of, TagOf::Host(AddressOf::Destination));
        for text in ["session,5", "session,5,packets,src", "host", "x"] {
            assert!(Tag::parse(value(text)).is_err(), "{text}");
        }
    }
}
