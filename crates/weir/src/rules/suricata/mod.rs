//! What a configuration of Suricata says about a run with rules.

mod document;

use crate::cli::RuleOptions;
use crate::exit::Exit;
use document::Document;
use std::path::{Path, PathBuf};
use weir_detect::{Action, ActionOrder, Judging, Midstream, Variables, Verdicts};
use weir_engine::ChecksumMode;

/// Maximum size of a configuration.
const MAX_FILE: u64 = 4 << 20;
/// Maximum number of files that include each other.
const MAX_INCLUDED: usize = 8;
/// Bytes of a body that are looked at where Suricata has no limit.
const NO_LIMIT: u64 = 16 << 20;
/// Maximum number of alerts of a packet in Suricata, by default.
const ALERTS_PER_PACKET: u16 = 15;
/// Where Suricata has the limits of HTTP.
const LIBHTP: &str = "app-layer.protocols.http.libhtp.default-config";

/// What a configuration says, and `--simulate-ips`.
#[derive(Debug, Default)]
pub struct Suricata {
    /// Variables of addresses and ports, as `NAME=VALUE`.
    pub variables: Vec<String>,
    /// The thresholds of the user.
    pub thresholds: Option<PathBuf>,
    /// How flows are judged.
    pub judging: Judging,
    /// What it says of other parts of a run.
    pub beyond: Beyond,
    /// A sentence with the keys that have no counterpart.
    pub note: Option<String>,
}

/// What a configuration says of other parts of a run than its rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beyond {
    /// Verification of checksums.
    pub checksum: Option<ChecksumMode>,
    /// Whether urgent bytes are left out of streams.
    pub urgent_apart: Option<bool>,
    /// Whether flows in different VLANs are different flows.
    pub vlan: Option<bool>,
}

impl Suricata {
    /// Reads the configuration that the options of a run name.
    ///
    /// # Errors
    /// It cannot be read, or a value is wrong: the exit code and the reason.
    pub fn of(options: &RuleOptions) -> Result<Self, (Exit, String)> {
        let is_given = options.suricata_config.is_some() || !options.suricata_set.is_empty();
        if !is_given {
            let verdicts = if options.simulate_ips { Verdicts::Inline } else { Verdicts::Watched };
            let judging = Judging { verdicts, each_segment: options.simulate_ips, ..Judging::default() };
            return Ok(Self { judging, ..Self::default() });
        }
        let mut document = match &options.suricata_config {
            Some(path) => {
                file(path, 0).map_err(|error| (Exit::Unreadable, format!("{}: {error}", path.display())))?
            }
            None => Document::default(),
        };
        for setting in &options.suricata_set {
            let (key, value) =
                setting.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                    let reason = format!("--suricata-set {setting}: a key, `=` and a value are given");
                    (Exit::Usage, reason)
                })?;
            document.set(key.trim(), value.trim());
        }
        let name = options.suricata_config.as_deref().unwrap_or(Path::new("--suricata-set"));
        Self::of_document(document, options.simulate_ips)
            .map_err(|error| (Exit::Usage, format!("{}: {error}", name.display())))
    }

    fn of_document(mut document: Document, is_inline: bool) -> Result<Self, String> {
        let document = &mut document;
        let depth = size(document, "stream.reassembly.depth")?;
        let window = |value: Option<u64>| value.map_or(Judging::WINDOW, |value| within(value, 1, 1 << 20));
        let body = |value: Option<u64>| match value {
            None => Judging::BODY,
            Some(0) => within(NO_LIMIT, 1, NO_LIMIT),
            Some(value) => within(value, 1, NO_LIMIT),
        };
        let judging = Judging {
            verdicts: if is_inline { Verdicts::Inline } else { Verdicts::Passive },
            order: order(document)?,
            midstream: midstream(document, is_inline)?,
            is_oneside: boolean(document, "stream.async-oneside")?.unwrap_or(false),
            each_segment: or_auto(document, "stream.inline")?.unwrap_or(is_inline),
            depth: match depth {
                None => Judging::DEPTH,
                Some(0) => u64::MAX,
                Some(depth) => depth,
            },
            windows: [
                window(size(document, "stream.reassembly.toserver-chunk-size")?),
                window(size(document, "stream.reassembly.toclient-chunk-size")?),
            ],
            bodies: [
                body(size(document, &format!("{LIBHTP}.request-body-limit"))?),
                body(size(document, &format!("{LIBHTP}.response-body-limit"))?),
            ],
            alerts_per_packet: Some(alerts_per_packet(document)?),
        };
        let thresholds = document.take("threshold-file").map(PathBuf::from);
        let beyond = Beyond {
            checksum: checksum(document)?,
            urgent_apart: urgent_apart(document),
            vlan: boolean(document, "vlan.use-for-tracking")?,
        };
        let variables = variables(document)?;
        Ok(Self { variables, thresholds, judging, beyond, note: note(&document.left()) })
    }
}

/// Reads a file, and those that it includes: their names are relative to its directory.
fn file(path: &Path, depth: usize) -> Result<Document, String> {
    if depth > MAX_INCLUDED {
        return Err(format!("more than {MAX_INCLUDED} files include each other"));
    }
    let bytes = weir_files::read_named(Path::new(""), path, MAX_FILE).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let directory = path.parent().unwrap_or(Path::new(""));
    Document::read(text, &|name| file(&directory.join(name), depth + 1))
}

/// A sentence with the keys that have no counterpart.
fn note(left: &[&str]) -> Option<String> {
    (!left.is_empty())
        .then(|| format!("of Suricata's configuration these keys have no effect: {}", left.join(", ")))
}

/// A number of bytes within bounds.
fn within(value: u64, least: u64, most: u64) -> usize {
    usize::try_from(value.clamp(least, most)).unwrap_or(usize::MAX)
}

fn wrong(key: &str, value: &str, wanted: &str) -> String {
    format!("{key}: `{value}` is not {wanted}")
}

/// A truth value, by the words that Suricata has.
fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

fn boolean(document: &mut Document, key: &str) -> Result<Option<bool>, String> {
    let Some(value) = document.take(key) else { return Ok(None) };
    truth(&value).map(Some).ok_or_else(|| wrong(key, &value, "yes or no"))
}

/// A truth value; `None` also for `auto`.
fn or_auto(document: &mut Document, key: &str) -> Result<Option<bool>, String> {
    let Some(value) = document.take(key).filter(|value| value != "auto") else { return Ok(None) };
    truth(&value).map(Some).ok_or_else(|| wrong(key, &value, "yes, no or auto"))
}

/// A number of bytes, with or without a unit.
fn size(document: &mut Document, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = document.take(key) else { return Ok(None) };
    let text = value.trim().to_ascii_lowercase();
    let units = [("kb", 10), ("mb", 20), ("gb", 30)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((&text, 0));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.map(Some).ok_or_else(|| wrong(key, &value, "a size such as 65536, 64kb or 1mb"))
}

fn alerts_per_packet(document: &mut Document) -> Result<u16, String> {
    const KEY: &str = "packet-alert-max";
    let Some(value) = document.take(KEY) else { return Ok(ALERTS_PER_PACKET) };
    value.parse().ok().filter(|most| *most > 0).ok_or_else(|| wrong(KEY, &value, "a number from 1 to 65535"))
}

/// The order of actions.
fn order(document: &mut Document) -> Result<ActionOrder, String> {
    const KEY: &str = "action-order";
    let given = document.take_below(KEY);
    if given.is_empty() {
        return Ok(ActionOrder::default());
    }
    let action = |name: &str| Action::named(name.as_bytes());
    let actions: Vec<Action> = given.iter().filter_map(|(_, name)| action(name)).collect();
    let all = [Action::Pass, Action::Drop, Action::Reject, Action::Alert];
    let order: Option<[Action; 4]> = actions.try_into().ok();
    order
        .filter(|order| given.len() == all.len() && all.iter().all(|action| order.contains(action)))
        .map(ActionOrder::new)
        .ok_or_else(|| format!("{KEY}: it has each of pass, drop, reject and alert once"))
}

/// Verification of checksums: Suricata verifies those of TCP. One key of two may switch it off.
fn checksum(document: &mut Document) -> Result<Option<ChecksumMode>, String> {
    let of_streams = boolean(document, "stream.checksum-validation")?;
    let of_files = or_auto(document, "pcap-file.checksum-checks")?;
    Ok(match (of_streams, of_files) {
        (Some(false), _) | (_, Some(false)) => Some(ChecksumMode::Off),
        (Some(true), _) | (_, Some(true)) => Some(ChecksumMode::Tcp),
        (None, None) => None,
    })
}

/// Whether urgent bytes are left out of streams. Other policies than these two have no counterpart.
fn urgent_apart(document: &mut Document) -> Option<bool> {
    const KEY: &str = "stream.reassembly.urgent.policy";
    let value = document.take(KEY)?;
    match value.as_str() {
        "oob" => Some(true),
        "inline" => Some(false),
        _ => {
            document.set(KEY, &value);
            None
        }
    }
}

/// What is looked at of a flow of TCP without a SYN. A policy that would let it pass, drop it or go round it makes that nothing is.
fn midstream(document: &mut Document, is_inline: bool) -> Result<Midstream, String> {
    const KEY: &str = "stream.midstream-policy";
    const WHOLE: &str = "exception-policy";
    let is_read = boolean(document, "stream.midstream")?.unwrap_or(false);
    let read = if is_read { Midstream::Established } else { Midstream::Packets };
    let by_default = if is_inline && !is_read { Midstream::Nothing } else { read };
    let whole = document.take(WHOLE);
    let (key, policy) = match (document.take(KEY), whole) {
        (Some(policy), _) => (KEY, policy),
        (None, Some(policy)) => (WHOLE, policy),
        (None, None) => return Ok(by_default),
    };
    let of_flows = "ignore, auto, bypass, pass-flow, drop-flow or reject";
    match policy.as_str() {
        "auto" => Ok(by_default),
        "ignore" => Ok(read),
        "pass-flow" => Ok(Midstream::Nothing),
        "bypass" | "drop-flow" | "reject" if key == KEY && is_read => Err(wrong(
            key,
            &policy,
            "a policy of flows that stream.midstream reads: ignore, auto or pass-flow",
        )),
        "drop-flow" if !is_inline && key == KEY => {
            Err(wrong(key, &policy, "a policy without --simulate-ips"))
        }
        "drop-flow" | "reject" if !is_inline && key == WHOLE => Ok(read),
        "bypass" | "drop-flow" | "reject" => Ok(Midstream::Nothing),
        _ => Err(wrong(key, &policy, of_flows)),
    }
}

/// The variables of rules. A list is a variable with its members.
fn variables(document: &mut Document) -> Result<Vec<String>, String> {
    let mut variables: Vec<(String, Vec<String>)> = Vec::new();
    let mut known = Variables::default();
    for group in ["address-groups", "port-groups"] {
        for (path, value) in document.take_below(&format!("vars.{group}")) {
            let name = path.split_once('.').map_or(&*path, |(name, _)| name).to_owned();
            match variables.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(value),
                None => variables.push((name, vec![value])),
            }
        }
    }
    let text = |members: &[String]| match members {
        [one] => one.clone(),
        several => format!("[{}]", several.join(",")),
    };
    let variables = variables.iter().map(|(name, members)| {
        let list = text(members);
        known.set(name, &list).map_err(|reason| format!("vars: {name}: {reason}"))?;
        Ok(format!("{name}={list}"))
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_inline: bool) -> Result<Suricata, String> {
        let document = Document::read(text, &|_| Err("absent".to_owned()))?;
        Suricata::of_document(document, is_inline)
    }

    #[test]
    fn keys_have_their_counterparts() {
        let is = read(
            "vars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    X: [1.1.1.1, 2.2.2.2]\n  \
             port-groups:\n    WEB: 80\nstream:\n  midstream: true\n  async-oneside: yes\n  checksum-validation: no\n  \
             reassembly:\n    depth: 8kb\n    toserver-chunk-size: 100\n    urgent:\n      policy: oob\n\
             packet-alert-max: 3\naction-order: [drop, reject, alert, pass]\nthreshold-file: t.config\n\
             vlan:\n  use-for-tracking: true\nlogging:\n  outputs:\n  - file\n",
            false,
        )
        .unwrap();
        assert_eq!(is.variables, ["HOME_NET=[10.0.0.0/8]", "X=[1.1.1.1,2.2.2.2]", "WEB=80"]);
        let order = ActionOrder::new([Action::Drop, Action::Reject, Action::Alert, Action::Pass]);
        let expected = Judging {
            verdicts: Verdicts::Passive,
            order,
            midstream: Midstream::Established,
            is_oneside: true,
            depth: 8 << 10,
            windows: [100, 2_560],
            alerts_per_packet: Some(3),
            ..Judging::default()
        };
        assert_eq!(is.judging, expected);
        assert_eq!(is.thresholds, Some(PathBuf::from("t.config")));
        let Beyond { checksum, urgent_apart, vlan } = is.beyond;
        assert_eq!((checksum, urgent_apart, vlan), (Some(ChecksumMode::Off), Some(true), Some(true)));
        let note = "of Suricata's configuration these keys have no effect: logging";
        assert_eq!(is.note.as_deref(), Some(note));
    }

    #[test]
    fn a_policy_decides_about_flows_without_a_syn() {
        let of = |text: &str, is_inline| read(text, is_inline).map(|is| is.judging.midstream);
        for (text, passive, inline) in [
            ("a: 1", Midstream::Packets, Midstream::Nothing),
            ("exception-policy: auto", Midstream::Packets, Midstream::Nothing),
            ("exception-policy: ignore", Midstream::Packets, Midstream::Packets),
            ("exception-policy: bypass", Midstream::Nothing, Midstream::Nothing),
            ("exception-policy: drop-flow", Midstream::Packets, Midstream::Nothing),
            ("{stream: {midstream: yes}}", Midstream::Established, Midstream::Established),
            (
                "{stream: {midstream: yes, midstream-policy: pass-flow}}",
                Midstream::Nothing,
                Midstream::Nothing,
            ),
            (
                "{stream: {midstream-policy: ignore}, exception-policy: bypass}",
                Midstream::Packets,
                Midstream::Packets,
            ),
            ("{stream: {midstream-policy: reject}}", Midstream::Nothing, Midstream::Nothing),
        ] {
            assert_eq!((of(text, false), of(text, true)), (Ok(passive), Ok(inline)), "{text}");
        }
        let drop = "{stream: {midstream-policy: drop-flow}}";
        assert!(of(drop, false).is_err());
        assert_eq!(of(drop, true), Ok(Midstream::Nothing));
        assert!(of("{stream: {midstream-policy: drop-packet}}", true).is_err());
        assert!(of("{stream: {midstream: yes, midstream-policy: bypass}}", true).is_err());
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, expected) in [
            ("{stream: {midstream: maybe}}", "stream.midstream: `maybe` is not yes or no"),
            (
                "{stream: {reassembly: {depth: 1tb}}}",
                "stream.reassembly.depth: `1tb` is not a size such as 65536, 64kb or 1mb",
            ),
            ("action-order: [pass, drop]", "action-order: it has each of pass, drop, reject and alert once"),
            ("packet-alert-max: 0", "packet-alert-max: `0` is not a number from 1 to 65535"),
        ] {
            assert_eq!(read(text, false).unwrap_err(), expected);
        }
    }
}
