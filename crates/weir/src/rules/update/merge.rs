//! Rules of many files as one set, and what is done with them: by their texts alone, so that rules which Weir refuses stay in the
//! file for other programs.

use super::conf::Lines;
use super::modification::Modification;
use super::rule::MergedRule;
use super::selection::Selection;
use super::sources::SourceFile;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_detect::rule_texts;

/// The rules of many files, the first one of each number in its place.
#[derive(Default)]
pub struct Merged {
    /// The rules, one for each number.
    pub rules: Vec<MergedRule>,
    by_number: HashMap<(u32, u32), usize>,
    /// The number of rules that were read.
    pub read: usize,
    /// The number of rules that another one with their number replaces.
    pub replaced: usize,
    /// Lines that are no rules, each with place and reason.
    pub no_rules: Vec<String>,
}

impl Merged {
    /// Adds the rules of a file. Of two with one number the one with the greater revision stays, or the first.
    ///
    /// # Errors
    /// The file is no text of single bytes.
    pub fn add(&mut self, file: &SourceFile) -> Result<(), String> {
        let name: Arc<str> = file.name.as_str().into();
        for text in rule_texts(&file.bytes, true).map_err(|error| format!("{name}: {error}"))? {
            match MergedRule::new(&text.text, text.is_on, &name) {
                Ok(rule) => self.insert(rule),
                Err(reason) if text.is_on => self.no_rules.push(format!("{name}:{}: {reason}", text.line)),
                // A comment that begins like a rule.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn insert(&mut self, rule: MergedRule) {
        self.read += 1;
        match self.by_number.get(&rule.number()).and_then(|at| self.rules.get_mut(*at)) {
            None => {
                self.by_number.insert(rule.number(), self.rules.len());
                self.rules.push(rule);
            }
            Some(before) => {
                self.replaced += 1;
                if rule.revision > before.revision {
                    *before = rule;
                }
            }
        }
    }

    /// A rule by its number.
    pub fn get(&self, number: (u32, u32)) -> Option<&MergedRule> {
        self.by_number.get(&number).and_then(|at| self.rules.get(*at))
    }

    /// The places of the rules that are chosen.
    fn chosen(&self, selection: &Selection) -> Vec<usize> {
        match selection {
            // A file may have thousands of such lines.
            Selection::Numbers(numbers) => {
                let found =
                    numbers.iter().filter_map(|(gid, sid, _)| self.by_number.get(&(*gid, *sid)).copied());
                found.filter(|at| self.rules.get(*at).is_some_and(|rule| selection.has(rule))).collect()
            }
            _ => (0..self.rules.len())
                .filter(|at| self.rules.get(*at).is_some_and(|rule| selection.has(rule)))
                .collect(),
        }
    }

    /// Switches the rules that lines name on or off, and returns those that were not.
    pub fn switch(&mut self, lines: &mut Lines<Selection>, is_on: bool) -> Vec<(u32, u32)> {
        self.each(lines, |rule| {
            let changes = rule.is_on != is_on;
            rule.is_on = is_on;
            changes
        })
    }

    /// Makes `drop` of `alert` in the rules that lines name, and returns these. Rules that make no alert stay: they set bits.
    pub fn drop(&mut self, lines: &mut Lines<Selection>) -> Vec<(u32, u32)> {
        self.each(lines, |rule| {
            let Some(rest) = rule.text.strip_prefix(b"alert").filter(|_| !rule.is_silent()) else {
                return false;
            };
            rule.text = [b"drop", rest].concat();
            true
        })
    }

    /// Does something with each rule that lines name, and returns the numbers of those for which it says that they have changed.
    fn each(
        &mut self,
        lines: &mut Lines<Selection>,
        change: impl Fn(&mut MergedRule) -> bool,
    ) -> Vec<(u32, u32)> {
        let mut changed = Vec::new();
        for line in lines {
            let chosen = self.chosen(&line.says);
            line.uses += chosen.len();
            for at in chosen {
                if let Some(rule) = self.rules.get_mut(at)
                    && change(rule)
                {
                    changed.push(rule.number());
                }
            }
        }
        changed
    }

    /// Changes the texts of rules, and returns the numbers of these. A change that makes no rule of the text, or one with another
    /// number, leaves the rule as it is; `failed` gets its place and the reason.
    pub fn modify(&mut self, lines: &mut Lines<Modification>, failed: &mut Vec<String>) -> Vec<(u32, u32)> {
        let (mut modified, mut known) = (Vec::new(), HashSet::new());
        for line in lines {
            let chosen = self.chosen(&line.says.of);
            line.uses += chosen.len();
            for at in chosen {
                let Some(rule) = self.rules.get_mut(at) else { continue };
                let Some(text) = line.says.changed(rule) else { continue };
                match changed(rule, &text) {
                    Ok(next) => {
                        if known.insert(next.number()) {
                            modified.push(next.number());
                        }
                        *rule = next;
                    }
                    Err(reason) => failed.push(format!("{}: sid {}: {reason}", line.place, rule.sid)),
                }
            }
        }
        modified
    }

    /// Switches rules on that set a flowbit which a rule that is on asks for, until no bit lacks such rules; returns them. Since
    /// they are off by the wish of an author or a user, they make no alerts.
    pub fn enable_setters(&mut self) -> Vec<(u32, u32)> {
        let asked_by: Vec<_> = self.rules.iter().map(|rule| rule.bits(&["isset", "isnotset"])).collect();
        let set_by: Vec<_> = self.rules.iter().map(|rule| rule.bits(&["set", "setx", "toggle"])).collect();
        let mut enabled = Vec::new();
        loop {
            let asked: HashSet<&String> = self
                .rules
                .iter()
                .zip(&asked_by)
                .filter(|(rule, _)| rule.is_on)
                .flat_map(|(_, bits)| bits)
                .collect();
            let before = enabled.len();
            let off = self.rules.iter_mut().zip(&set_by).filter(|(rule, _)| !rule.is_on);
            for (rule, _) in off.filter(|(_, bits)| bits.iter().any(|bit| asked.contains(bit))) {
                rule.is_on = true;
                rule.silence();
                enabled.push(rule.number());
            }
            if enabled.len() == before {
                return enabled;
            }
        }
    }

    /// The text of the file.
    pub fn text(&self) -> Vec<u8> {
        let mut text = b"# Made by `weir rules update`; the next update replaces it.\n".to_vec();
        for rule in &self.rules {
            text.extend_from_slice(if rule.is_on { b"" } else { b"# " });
            text.extend_from_slice(&rule.text);
            text.push(b'\n');
        }
        text
    }
}

/// A rule with another text.
fn changed(rule: &MergedRule, text: &[u8]) -> Result<MergedRule, String> {
    if text.contains(&b'\n') || text.contains(&b'\r') {
        return Err("the changed rule has the end of a line; it stays as it is".to_owned());
    }
    let next = MergedRule::new(text, rule.is_on, &rule.file)
        .map_err(|reason| format!("the changed text is no rule, and the rule stays as it is: {reason}"))?;
    match next.number() == rule.number() {
        true => Ok(next),
        false => Err("the changed rule has another sid; it stays as it is".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::update::conf::Line;

    fn merged(text: &str) -> Merged {
        let mut merged = Merged::default();
        merged.add(&SourceFile { name: "a.rules".to_owned(), bytes: text.as_bytes().to_vec() }).unwrap();
        merged
    }

    fn lines(texts: &[&str]) -> Lines<Selection> {
        let line = |text: &&str| Line { place: String::new(), says: Selection::new(text).unwrap(), uses: 0 };
        texts.iter().map(line).collect()
    }

    #[test]
    fn the_greater_revision_stays_in_the_place_of_the_first() {
        let is = merged(
            "alert tcp any any -> any any (msg:\"one\"; sid:1; rev:2;)\n\
             alert tcp any any -> any any (msg:\"two\"; sid:2;)\n\
             alert tcp any any -> any any (msg:\"new\"; sid:1; rev:10;)\n\
             # alert tcp any any -> any any (msg:\"old\"; sid:1; rev:10;)\n\
             # alert tcp (see below)\n\
             alert tcp any any -> any any (sid:x;)\n\
             <html>\n",
        );
        assert_eq!((is.read, is.replaced, is.rules.len()), (4, 2, 2));
        assert_eq!(is.rules[0].message(), "new");
        assert_eq!(is.no_rules, ["a.rules:6: the rule has no sid", "a.rules:7: `<html>` is not an action"]);
    }

    #[test]
    fn bits_that_are_asked_for_are_set_by_rules_that_are_on() {
        let mut is = merged(
            "alert tcp any any -> any any (flowbits:isset,a|b; sid:1;)\n\
             # alert tcp any any -> any any (flowbits:set,b; flowbits:noalert; flowbits:isset,c; sid:2;)\n\
             # alert tcp any any -> any any (flowbits: toggle, c; sid:3;)\n\
             # alert tcp any any -> any any (flowbits:set,d; sid:4;)\n\
             # alert tcp any any -> any any (flowbits:unset,a; sid:5;)\n",
        );
        assert_eq!(is.enable_setters(), [(1, 2), (1, 3)]);
        let on: Vec<u32> = is.rules.iter().filter(|rule| rule.is_on).map(|rule| rule.sid).collect();
        assert_eq!(on, [1, 2, 3]);
        let text = |at: usize| String::from_utf8(is.rules[at].text.clone()).unwrap();
        assert!(
            text(1).ends_with("sid:2;)") && text(2).ends_with("sid:3; noalert;)"),
            "{} {}",
            text(1),
            text(2)
        );
    }

    #[test]
    fn alerts_become_drops_unless_they_are_silent() {
        let mut is = merged(
            "alert tcp any any -> any any (sid:1;)\n\
             alert tcp any any -> any any (flowbits:set,a; flowbits:noalert; sid:2;)\n\
             pass tcp any any -> any any (sid:3;)\n\
             # alert tcp any any -> any any (sid:4;)\n",
        );
        let mut all = lines(&["*", "9"]);
        assert_eq!(is.drop(&mut all), [(1, 1), (1, 4)]);
        assert_eq!((all[0].uses, all[1].uses), (4, 0));
        let text = String::from_utf8(is.text()).unwrap();
        assert!(text.contains("\ndrop tcp any any -> any any (sid:1;)\nalert"), "{text}");
        assert!(
            text.ends_with("pass tcp any any -> any any (sid:3;)\n# drop tcp any any -> any any (sid:4;)\n"),
            "{text}"
        );
    }

    #[test]
    fn a_change_that_leaves_no_rule_is_not_made() {
        let mut is = merged("alert tcp any any -> any any (msg:\"a\"; sid:1;)\n");
        let line =
            |text: &str| Line { place: "F:1".to_owned(), says: Modification::new(text).unwrap(), uses: 0 };
        let mut failed = Vec::new();
        let mut all =
            vec![line(r#"1 "sid:1" "sid:2""#), line(r#"1 ";\)$" """#), line(r#"1 "msg:.a" "msg:\"b""#)];
        assert_eq!(is.modify(&mut all, &mut failed), [(1, 1)]);
        assert_eq!(is.rules[0].message(), "b");
        assert!(failed[0].contains("another sid") && failed[1].contains("no rule"), "{failed:?}");
    }
}
