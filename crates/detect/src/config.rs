//! What lies beside rules: classes, systems of references, and thresholds of the user.
//!
//! The files are those of Suricata and Snort: classification.config, reference.config and threshold.config. A line that
//! cannot be read takes no other with it.

use crate::fault::Fault;
use crate::header::Action;
use crate::sets::{AddressSet, Lists};
use crate::state::{Threshold, Track};
use crate::text::{NotRules, RuleText, rule_texts};
use crate::value::{Value, one_of};
use std::sync::Arc;

/// A line that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigFault {
    /// The line, from 1.
    pub line: usize,
    /// The column, in bytes from 1.
    pub column: usize,
    /// What is wrong.
    pub reason: String,
}

/// What a file has, and the lines of it that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config<T> {
    /// What was read, in order.
    pub rows: Vec<T>,
    /// The other lines.
    pub faults: Vec<ConfigFault>,
}

/// A class of rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// Its name in rules.
    pub name: Box<str>,
    /// What an alert says of it.
    pub description: Box<str>,
    /// The priority of its rules that have none of their own, 1 being the highest.
    pub priority: u8,
}

/// A system of documents about rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReferenceSystem {
    /// Its name in rules.
    pub name: Box<str>,
    /// What stands before the number of a document.
    pub address: Box<str>,
}

/// Which rules a line of threshold.config is about. 0 is any number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct OfRules {
    /// The group.
    pub gid: u32,
    /// The number.
    pub sid: u32,
}

impl OfRules {
    /// Whether a rule is one of these.
    pub fn has(self, gid: u32, sid: u32) -> bool {
        (self.gid == 0 || self.gid == gid) && (self.sid == 0 || self.sid == sid)
    }
}

/// A line of threshold.config.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ThresholdLine {
    /// Matches make no alert: all of them, or those with such an address.
    Suppress {
        /// Of which rules.
        of: OfRules,
        /// Whose address, and which; `None`: any.
        addresses: Option<(Track, Arc<AddressSet>)>,
    },
    /// The threshold of rules, in place of their own.
    Threshold {
        /// Of which rules.
        of: OfRules,
        /// The threshold.
        is: Threshold,
    },
    /// Rules that match often get another action for a time.
    Rate {
        /// Of which rules.
        of: OfRules,
        /// Whose matches are counted.
        track: Track,
        /// From this number on.
        count: u32,
        /// In so much time.
        seconds: u32,
        /// The action.
        action: Action,
        /// The seconds that it lasts.
        lasts: u32,
    },
}

/// Reads classification.config: `config classification: NAME,DESCRIPTION,PRIORITY`.
///
/// # Errors
/// The file is not text of single bytes.
pub fn classes(file: &[u8]) -> Result<Config<Class>, NotRules> {
    lines(file, |line| {
        let value = after(line, "classification")?;
        let mut parts = value.parts(b',');
        let mut next =
            |what: &str| parts.next().filter(|part| !part.is_empty()).ok_or_else(|| missing(value, what));
        let name = next("the name of the class")?.text()?.into();
        let description = String::from_utf8_lossy(next("the description")?.bytes).into();
        let priority = next("the priority")?.number("a priority", 1, 255)? as u8;
        Ok(Class { name, description, priority })
    })
}

/// Reads reference.config: `config reference: NAME ADDRESS`.
///
/// # Errors
/// The file is not text of single bytes.
pub fn reference_systems(file: &[u8]) -> Result<Config<ReferenceSystem>, NotRules> {
    lines(file, |line| {
        let value = after(line, "reference")?;
        let mut words = value.words();
        let name = words.next().ok_or_else(|| missing(value, "the name of the system"))?.text()?.into();
        let address = words.next().map_or(Ok(""), Value::text)?.into();
        Ok(ReferenceSystem { name, address })
    })
}

/// Reads threshold.config: lines of `suppress`, `threshold`, `event_filter` and `rate_filter`.
///
/// # Errors
/// The file is not text of single bytes.
pub fn thresholds(file: &[u8], addresses: &mut Lists) -> Result<Config<ThresholdLine>, NotRules> {
    lines(file, |line| {
        let (word, value) = line.name_and_argument();
        match word.bytes {
            b"suppress" => suppress(value, addresses),
            b"threshold" | b"event_filter" => threshold(value),
            b"rate_filter" => rate(value),
            _ => Err(word.wrong(format!(
                "`{}` begins no line; suppress, threshold, event_filter and rate_filter do",
                word.shown()
            ))),
        }
    })
}

/// Reads each line that is no comment.
fn lines<T>(file: &[u8], mut read: impl FnMut(Value<'_>) -> Result<T, Fault>) -> Result<Config<T>, NotRules> {
    let mut config = Config { rows: Vec::new(), faults: Vec::new() };
    for text in rule_texts(file, false)? {
        match read(Value::new(&text.text, 0).trimmed()) {
            Ok(row) => config.rows.push(row),
            Err(fault) => config.faults.push(placed(&text, fault)),
        }
    }
    Ok(config)
}

fn placed(text: &RuleText<'_>, fault: Fault) -> ConfigFault {
    let (line, column) = text.place(fault.at);
    ConfigFault { line, column, reason: fault.reason }
}

fn missing(value: Value<'_>, what: &str) -> Fault {
    value.wrong(format!("{what} is missing"))
}

/// The value of `config NAME: VALUE`.
fn after<'a>(line: Value<'a>, name: &str) -> Result<Value<'a>, Fault> {
    let wrong = || line.wrong(format!("a line is `config {name}:` with a value"));
    let rest = line.after("config").ok_or_else(wrong)?.trimmed();
    let rest = rest.after(name).ok_or_else(wrong)?.trimmed();
    Ok(rest.after(":").ok_or_else(wrong)?.trimmed())
}

/// Takes the numbers of rules out of the words of a line. The others remain.
fn of_rules(value: Value<'_>) -> Result<(OfRules, Vec<Value<'_>>), Fault> {
    let (mut gid, mut sid, mut others) = (None, None, Vec::new());
    for word in words_of(value) {
        let (name, argument) = word.name_and_argument();
        match name.bytes {
            b"gen_id" | b"gid" => gid = Some(argument.number32("a gid")?),
            b"sig_id" | b"sid" => sid = Some(argument.number32("a sid")?),
            _ => others.push(word),
        }
    }
    let gid = gid.ok_or_else(|| missing(value, "`gen_id`"))?;
    let sid = sid.ok_or_else(|| missing(value, "`sig_id`"))?;
    Ok((OfRules { gid, sid }, others))
}

/// The words between commas. Those in brackets do not separate.
fn words_of(value: Value<'_>) -> Vec<Value<'_>> {
    let (mut words, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, byte) in value.bytes.iter().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                words.push(value.before(at).from(from).trimmed());
                from = at + 1;
            }
            _ => {}
        }
    }
    words.push(value.from(from).trimmed());
    words
}

fn unknown(name: Value<'_>) -> Fault {
    name.wrong(format!("`{}` is not an option of this line", name.shown()))
}

fn suppress(value: Value<'_>, lists: &mut Lists) -> Result<ThresholdLine, Fault> {
    let (of, others) = of_rules(value)?;
    let (mut track, mut addresses) = (None, None);
    for word in others {
        let (name, argument) = word.name_and_argument();
        match name.bytes {
            b"track" => {
                let sides =
                    [("by_src", Track::Source), ("by_dst", Track::Destination), ("by_either", Track::Both)];
                track = Some(one_of(argument, "whose address it is", &sides)?);
            }
            b"ip" => addresses = Some(lists.addresses(argument.text()?, argument.at)?),
            _ => return Err(unknown(name)),
        }
    }
    match (track, addresses) {
        (Some(track), Some(addresses)) => {
            Ok(ThresholdLine::Suppress { of, addresses: Some((track, addresses)) })
        }
        (None, None) => Ok(ThresholdLine::Suppress { of, addresses: None }),
        (Some(_), None) => Err(missing(value, "`ip`")),
        (None, Some(_)) => Err(missing(value, "`track`")),
    }
}

/// The line without the numbers of rules has the options of the keyword `threshold`.
fn threshold(value: Value<'_>) -> Result<ThresholdLine, Fault> {
    let (of, others) = of_rules(value)?;
    Threshold::of_words(value, others.into_iter()).map(|is| ThresholdLine::Threshold { of, is })
}

fn rate(value: Value<'_>) -> Result<ThresholdLine, Fault> {
    let (of, others) = of_rules(value)?;
    let (mut track, mut count, mut seconds, mut action, mut lasts) = (None, None, None, None, None);
    for word in others {
        let (name, argument) = word.name_and_argument();
        let number = |what: &str| argument.number(what, 1, i64::from(u32::MAX)).map(|number| number as u32);
        match name.bytes {
            b"track" => track = Some(one_of(argument, "what is tracked", &Track::NAMES)?),
            b"count" => count = Some(number("a count")?),
            b"seconds" => seconds = Some(number("a number of seconds")?),
            b"timeout" => lasts = Some(argument.number32("a number of seconds")?),
            b"new_action" => {
                let known = Action::named(argument.bytes);
                action = Some(
                    known
                        .ok_or_else(|| argument.wrong(format!("`{}` is not an action", argument.shown())))?,
                );
            }
            _ => return Err(unknown(name)),
        }
    }
    Ok(ThresholdLine::Rate {
        of,
        track: track.ok_or_else(|| missing(value, "`track`"))?,
        count: count.ok_or_else(|| missing(value, "`count`"))?,
        seconds: seconds.ok_or_else(|| missing(value, "`seconds`"))?,
        action: action.ok_or_else(|| missing(value, "`new_action`"))?,
        lasts: lasts.ok_or_else(|| missing(value, "`timeout`"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ThresholdKind;

    #[test]
    fn classes_and_references() {
        let is =
            classes(b"# a comment\nconfig classification: trojan-activity,A Trojan,1\nconfig x\n").unwrap();
        assert_eq!((&*is.rows[0].name, is.rows[0].priority), ("trojan-activity", 1));
        assert_eq!((is.faults[0].line, is.faults.len()), (3, 1));
        let is = reference_systems(b"config reference: cve       https://cve.example/\r\n").unwrap();
        assert_eq!((&*is.rows[0].name, &*is.rows[0].address), ("cve", "https://cve.example/"));
    }

    #[test]
    fn thresholds_of_the_user() {
        let text = "suppress gen_id 1, sig_id 2002087\n\
                    suppress gen_id 0, sig_id 0, track by_src, ip [10.0.0.0/8,!10.1.0.0/16]\n\
                    threshold gen_id 1, sig_id 2404000, type threshold, track by_dst, count 10, seconds 60\n\
                    event_filter gen_id 1, sig_id 1, type both, track by_rule, \\\n  count 1, seconds 5\n\
                    rate_filter gen_id 1, sig_id 1000, track by_rule, count 1, seconds 30, new_action drop, timeout 30\n";
        let is = thresholds(text.as_bytes(), &mut Lists::default()).unwrap();
        assert!(is.faults.is_empty(), "{:?}", is.faults);
        let [
            ThresholdLine::Suppress { of, addresses: None },
            ThresholdLine::Suppress { addresses: Some((track, set)), of: all },
            ThresholdLine::Threshold { is: second, .. },
            _,
            ThresholdLine::Rate { action, lasts, .. },
        ] = is.rows.as_slice()
        else {
            panic!("{:?}", is.rows)
        };
        assert!(of.has(1, 2002087) && !of.has(1, 1) && all.has(3, 7));
        assert!(
            *track == Track::Source
                && set.has("10.2.0.1".parse().unwrap())
                && !set.has("10.1.0.1".parse().unwrap())
        );
        assert_eq!((second.kind, second.count), (ThresholdKind::Threshold, 10));
        assert_eq!((*action, *lasts), (Action::Drop, 30));
    }

    #[test]
    fn wrong_lines_say_where_and_why() {
        for (line, column, part) in [
            ("suppressed gen_id 1, sig_id 1", 1, "begins no line"),
            ("suppress gen_id 1", 10, "`sig_id` is missing"),
            ("suppress gen_id 1, sig_id 1, track by_src", 10, "`ip` is missing"),
            ("suppress gen_id 1, sig_id 1, track by_src, ip x", 47, "not an IP address"),
            ("threshold gen_id 1, sig_id 1, type limit", 11, "missing"),
            (
                "rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 1, new_action x, timeout 1",
                78,
                "not an action",
            ),
        ] {
            let text = format!("# comment\n{line}\n");
            let is = thresholds(text.as_bytes(), &mut Lists::default()).unwrap();
            let fault = &is.faults[0];
            assert_eq!((fault.line, fault.column), (2, column), "{line}: {fault:?}");
            assert!(fault.reason.contains(part), "{line}: {fault:?}");
        }
    }
}
