//! What an update did, for people and for programs.

use super::merge::Merged;
use super::rule::MergedRule;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use weir_output::figures::{count, counted, printable};

/// Maximum number of lines of one kind that the text has. The JSON object has all.
const MAX_SHOWN: usize = 10;

/// Numbers of rules: gid and sid.
type Numbers = Vec<(u32, u32)>;

/// What an update did.
#[derive(Default)]
pub struct Changes {
    /// The number of rule files that were read.
    pub files: usize,
    /// Rules that disable.conf has switched off.
    pub switched_off: Numbers,
    /// Rules that enable.conf has switched on.
    pub enabled: Numbers,
    /// Rules whose `alert` has become `drop`.
    pub dropped: Numbers,
    /// Rules that modify.conf has changed.
    pub modified: Numbers,
    /// Rules that were switched on because they set a flowbit that another one asks for.
    pub for_flowbits: Numbers,
    /// Lines of modify.conf that would have left no rule, each with its place.
    pub failed: Vec<String>,
    /// Lines of confs that name no rule.
    pub unused: Vec<String>,
    /// Rules of the file that was not there before.
    pub added: Numbers,
    /// Rules of the file before that are gone.
    pub removed: Numbers,
    /// Rules with another revision, another text or another switch than before: number, and revisions before and now.
    pub changed: Vec<((u32, u32), [u32; 2])>,
    /// The number of rules that are in force.
    pub in_force: usize,
    /// The rules that are on and that Weir refuses: sid, if it can be read, and reason.
    pub refused: Vec<(Option<u32>, String)>,
    /// The merged file.
    pub output: PathBuf,
    /// Files that were written beside it, or would be.
    pub beside: Vec<PathBuf>,
    /// Files beside it that stay, although sources have others.
    pub kept: Vec<PathBuf>,
    /// Whether the merged file has other bytes than before.
    pub differs: bool,
    /// Whether nothing is written.
    pub is_dry: bool,
}

impl Changes {
    /// Compares the merged rules with those that the file had.
    pub fn compare(&mut self, before: &Merged, now: &Merged) {
        for rule in &now.rules {
            match before.get(rule.number()) {
                None => self.added.push(rule.number()),
                Some(old) if !old.is_like(rule) => {
                    self.changed.push((rule.number(), [old.revision, rule.revision]));
                }
                Some(_) => {}
            }
        }
        let gone = before.rules.iter().map(MergedRule::number).filter(|number| now.get(*number).is_none());
        self.removed = gone.collect();
    }

    /// The lines of the text.
    pub fn text(&self, now: &Merged) -> String {
        let counts = |counts: &[(usize, &str)]| {
            counts
                .iter()
                .map(|(n, what)| format!("{} {what}", count(*n as u64)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut text = some(&now.no_rules, "");
        text.push_str(&some(&self.failed, ""));
        text.push_str(&some(&self.unused, ": the line names no rule"));
        text.push_str(&format!(
            "{} of {} read",
            counted(now.read as u64, "rule"),
            counted(self.files as u64, "file")
        ));
        for (n, what) in
            [(now.replaced, "replaced by a rule with their sid"), (now.no_rules.len(), "no rule")]
        {
            if n > 0 {
                text.push_str(&format!("; {} {what}", count(n as u64)));
            }
        }
        text.push_str(&format!(
            "\n{}\n{}\n",
            counts(&[
                (self.switched_off.len(), "switched off"),
                (self.enabled.len(), "enabled"),
                (self.dropped.len(), "dropped"),
                (self.modified.len(), "modified"),
                (self.for_flowbits.len(), "enabled for flowbits"),
            ]),
            counts(&[
                (self.added.len(), "added"),
                (self.removed.len(), "removed"),
                (self.changed.len(), "changed"),
            ])
        ));
        let on = now.rules.iter().filter(|rule| rule.is_on).count();
        text.push_str(&format!(
            "{}: {}, {} on: {} in force, {} refused\n",
            shown(&self.output),
            counted(now.rules.len() as u64, "rule"),
            count(on as u64),
            count(self.in_force as u64),
            count(self.refused.len() as u64),
        ));
        text.extend(self.kept.iter().map(|path| format!("{} stays as it is\n", shown(path))));
        text.push_str(match (self.is_dry, self.differs || !self.beside.is_empty()) {
            (true, _) => "nothing is written: --dry-run\n",
            (false, true) => "",
            (false, false) => "nothing has changed\n",
        });
        text
    }

    /// The object for programs. Rules that are gone have no message.
    pub fn json(&self, before: &Merged, now: &Merged) -> Value {
        let rule = |number: &(u32, u32)| {
            let rule = now.get(*number).or_else(|| before.get(*number));
            let (revision, message) = rule.map_or((0, String::new()), |rule| (rule.revision, rule.message()));
            json!({"gid": number.0, "sid": number.1, "rev": revision, "msg": message})
        };
        let rules = |numbers: &Numbers| numbers.iter().map(rule).collect::<Vec<_>>();
        let changed = |(number, [old, new]): &((u32, u32), [u32; 2])| {
            let [was_on, is_on] = [before, now].map(|set| set.get(*number).is_some_and(|rule| rule.is_on));
            json!({"gid": number.0, "sid": number.1, "rev_before": old, "rev": new, "on_before": was_on, "on": is_on})
        };
        let refused = |(sid, reason): &(Option<u32>, String)| json!({"sid": sid, "reason": reason});
        let paths =
            |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        json!({
            "output": self.output.display().to_string(),
            "written": self.differs && !self.is_dry,
            "files": self.files,
            "read": now.read,
            "replaced": now.replaced,
            "rules": now.rules.len(),
            "on": now.rules.iter().filter(|rule| rule.is_on).count(),
            "in_force": self.in_force,
            "added": rules(&self.added),
            "removed": rules(&self.removed),
            "changed": self.changed.iter().map(changed).collect::<Vec<_>>(),
            "switched_off": rules(&self.switched_off),
            "enabled": rules(&self.enabled),
            "dropped": rules(&self.dropped),
            "modified": rules(&self.modified),
            "enabled_for_flowbits": rules(&self.for_flowbits),
            "refused": self.refused.iter().map(refused).collect::<Vec<_>>(),
            "no_rules": now.no_rules,
            "not_modified": self.failed,
            "unused_lines": self.unused,
            "beside": paths(&self.beside),
            "kept": paths(&self.kept),
        })
    }
}

/// The first ones of lines, and how many follow.
fn some(lines: &[String], after: &str) -> String {
    let mut text: String = lines.iter().take(MAX_SHOWN).map(|line| printable(line) + after + "\n").collect();
    if lines.len() > MAX_SHOWN {
        text.push_str(&format!(
            "{} more such lines: --json has them\n",
            count((lines.len() - MAX_SHOWN) as u64)
        ));
    }
    text
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}
