//! Which matches become alerts, and what is kept after them.

use super::row::{Group, Keyword, Meaning, reads};
use crate::builder::{Builder, no_value};
use crate::fault::Fault;
use crate::state::{DetectionFilter, Tag, Threshold};
use crate::value::Value;

pub(super) fn keywords() -> Vec<Keyword> {
    let alert = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Alert, arguments, help, accepted, refused, read)
    };
    vec![
        alert("noalert", "", "Matches make no alert.", &["noalert;"], &["noalert:1;"], no_alert),
        alert(
            "alert",
            "",
            "Matches make an alert, whatever the action.",
            &["alert;"],
            &["alert:1;"],
            with_alert,
        ),
        alert(
            "threshold",
            "type KIND,track WHOSE,count N,seconds N",
            "Which matches become alerts.",
            &[
                "threshold:type limit,track by_src,count 1,seconds 60;",
                "threshold:type backoff,track by_flow,count 1,multiplier 10;",
            ],
            &["threshold:type limit;", "threshold:type x,track by_src,count 1,seconds 1;"],
            threshold,
        ),
        alert(
            "detection_filter",
            "track WHOSE,count N,seconds N",
            "From which match on the rule matches.",
            &["detection_filter:track by_dst,count 5,seconds 10;"],
            &["detection_filter:track by_dst;"],
            detection_filter,
        ),
        alert(
            "tag",
            "session|host,AMOUNT,packets|bytes|seconds[,src|dst]",
            "Packets after an alert are kept.",
            &["tag:session,5,packets;", "tag:host,10,seconds,dst;"],
            &["tag:x;", "tag:session,5;"],
            tag,
        ),
        Keyword {
            name: "prefilter",
            old_names: &[],
            group: Group::Alert,
            help: "Ignored: how a rule is found is decided here.",
            arguments: "",
            accepted: &["dsize:1; prefilter;"],
            refused: &[],
            meaning: Meaning::Ignored("how a rule is found is decided here"),
        },
        Keyword {
            name: "tls_store",
            old_names: &["tls.store"],
            group: Group::Alert,
            help: "Ignored: certificates are rows of the table x509, and are not stored as files.",
            arguments: "",
            accepted: &["tls_store;"],
            refused: &[],
            meaning: Meaning::Ignored("certificates are rows of the table x509"),
        },
    ]
}

fn no_alert(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.rule.is_silent = true;
    Ok(())
}

fn with_alert(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    no_value(value)?;
    builder.rule.is_silent = false;
    Ok(())
}

fn threshold(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let threshold = Threshold::parse(value.unquoted())?;
    if builder.rule.detection_filter.is_some() {
        return Err(builder.wrong("a rule has a threshold or a detection_filter, not both"));
    }
    match builder.rule.threshold.replace(threshold) {
        Some(_) => Err(builder.wrong("a rule has one threshold")),
        None => Ok(()),
    }
}

fn detection_filter(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let filter = DetectionFilter::parse(value.unquoted())?;
    if builder.rule.threshold.is_some() {
        return Err(builder.wrong("a rule has a threshold or a detection_filter, not both"));
    }
    match builder.rule.detection_filter.replace(filter) {
        Some(_) => Err(builder.wrong("a rule has one detection_filter")),
        None => Ok(()),
    }
}

fn tag(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let tag = Tag::parse(value.unquoted())?;
    builder.rule.tags.push(tag);
    Ok(())
}
