//! What a rule is, and what its alerts say.

use super::row::{Group, Keyword, reads};
use crate::builder::Builder;
use crate::fault::Fault;
use crate::rule::Target;
use crate::value::{Value, one_of};

pub(super) fn keywords() -> Vec<Keyword> {
    let meta = |name, arguments, help, accepted, refused, read| {
        reads(name, Group::Meta, arguments, help, accepted, refused, read)
    };
    vec![
        meta(
            "msg",
            "\"TEXT\"",
            "What an alert says.",
            &[r#"msg:"a \"b\"\; c";"#],
            &["msg:a;", r#"msg:"a;"#],
            message,
        ),
        meta(
            "sid",
            "NUMBER",
            "The rule's number.",
            &[],
            &["sid:0;", "sid:4294967296;", "sid:x;", "sid;"],
            sid,
        ),
        meta("gid", "NUMBER", "The group of the rule's number.", &["gid:3;"], &["gid:x;", "gid:0;"], gid),
        meta("rev", "NUMBER", "The rule's revision.", &["rev:3;"], &["rev:-1;"], rev),
        meta(
            "classtype",
            "NAME",
            "The rule's class.",
            &["classtype:trojan-activity;"],
            &["classtype;"],
            class,
        ),
        meta(
            "priority",
            "1-255",
            "The rule's priority; 1 is the highest.",
            &["priority:1;"],
            &["priority:0;", "priority:256;"],
            priority,
        ),
        meta(
            "reference",
            "SYSTEM,ID",
            "A document about the rule.",
            &["reference:cve,2021-44228;"],
            &["reference:cve;", "reference:,1;"],
            reference,
        ),
        meta(
            "metadata",
            "KEY VALUE[, ...]",
            "Keys and values about the rule.",
            &["metadata:a b, c d;", "metadata:a;"],
            &["metadata;"],
            metadata,
        ),
        meta(
            "target",
            "src_ip|dest_ip",
            "The side that is attacked.",
            &["target:src_ip;", "target:dest_ip;"],
            &["target:src;"],
            target,
        ),
        meta(
            "requires",
            "REQUIREMENT[, ...]",
            "What the program must be able to do.",
            &["requires:version >= 7.0;", "requires:keyword content;"],
            &["requires:version >= 99;", "requires:feature x;", "requires:keyword x;", "requires:x;"],
            requires,
        ),
    ]
}

fn message(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    builder.rule.message = String::from_utf8_lossy(&value.quoted()?.unescaped()).into();
    Ok(())
}

fn sid(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let sid = value.unquoted().number("a sid", 1, i64::from(u32::MAX))?;
    builder.set_sid(sid as u32)
}

fn gid(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    builder.rule.gid = value.unquoted().number("a gid", 1, i64::from(u32::MAX))? as u32;
    Ok(())
}

fn rev(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    builder.rule.rev = value.unquoted().number32("a revision")?;
    Ok(())
}

fn class(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let name = value.unquoted().text()?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(value.wrong("the name of a class has no blanks and is not empty"));
    }
    if builder.rule.class.replace(name.into()).is_some() {
        return Err(builder.wrong("a rule has one class"));
    }
    Ok(())
}

fn priority(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    builder.rule.priority = Some(value.unquoted().number("a priority", 1, 255)? as u8);
    Ok(())
}

fn reference(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let (system, id) = value.text()?.split_once(',').unwrap_or_default();
    let (system, id) = (system.trim(), id.trim());
    if system.is_empty() || id.is_empty() {
        return Err(value.wrong("a reference has a system, `,` and a number or address in it"));
    }
    builder.rule.references.push((system.into(), id.into()));
    Ok(())
}

fn metadata(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    if value.is_empty() {
        return Err(value.wrong("metadata has keys and values"));
    }
    for part in value.parts(b',').filter(|part| !part.is_empty()) {
        let text = String::from_utf8_lossy(part.bytes);
        let (key, value) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        builder.rule.metadata.push((key.into(), value.trim().into()));
    }
    Ok(())
}

fn target(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    let targets = [("src_ip", Target::Source), ("dest_ip", Target::Destination)];
    builder.rule.target = Some(one_of(value, "a target", &targets)?);
    Ok(())
}

/// The version of Suricata whose rules Weir reads.
const VERSION: [u32; 3] = [8, 0, 0];

fn requires(builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
    for part in value.parts(b',') {
        let (kind, argument) = part.name_and_argument();
        let unmet = || Err(part.not_supported(format!("the rule requires {}", part.shown())));
        match kind.bytes {
            b"keyword" if !(builder.is_in_force)(argument.text()?) => return unmet(),
            b"keyword" => {}
            b"feature" => return unmet(),
            b"version" => {
                // Alternatives stand between bars; the conditions of one must all hold.
                let mut holds = false;
                for alternative in argument.parts(b'|').filter(|part| !part.is_empty()) {
                    let mut all = true;
                    for condition in
                        alternative.parts(b' ').filter(|part| !part.is_empty()).collect::<Vec<_>>().chunks(2)
                    {
                        all &= version_holds(condition, argument)?;
                    }
                    holds |= all;
                }
                if !holds {
                    return unmet();
                }
            }
            _ => {
                return Err(part.wrong(format!(
                    "`{}` is not a requirement; version, keyword and feature are",
                    part.shown()
                )));
            }
        }
    }
    Ok(())
}

/// Whether an operator and a version hold.
fn version_holds(condition: &[Value<'_>], all: Value<'_>) -> Result<bool, Fault> {
    let wrong = || all.wrong("a version is required as `>= 7.0.3`, with <, <=, > or >=");
    let [operator, version] = condition else { return Err(wrong()) };
    let mut is = [0; 3];
    for (number, text) in is.iter_mut().zip(version.text()?.split('.')) {
        *number = text.parse().map_err(|_| wrong())?;
    }
    match operator.bytes {
        b">=" => Ok(VERSION >= is),
        b">" => Ok(VERSION > is),
        b"<=" => Ok(VERSION <= is),
        b"<" => Ok(VERSION < is),
        _ => Err(wrong()),
    }
}
