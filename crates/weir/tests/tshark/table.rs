//! Agreement by field.

use crate::Found;
use crate::fields::Fields;
use crate::support::aside::is_aside;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const REQUIRED: &str = include_str!("required.txt");

/// Occurrences of values of a field.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Those of both.
    agreed: usize,
    /// Those of tshark.
    theirs: usize,
    /// Those of Weir.
    ours: usize,
    /// Those of a flow that has others in each program.
    different: usize,
}

impl Sum {
    fn join(&mut self, other: Self) {
        self.agreed += other.agreed;
        self.theirs += other.theirs;
        self.ours += other.ours;
        self.different += other.different;
    }
}

/// Sums by pair of fields: of captures that are looked at, and of those that are set aside.
#[derive(Debug, Default)]
pub struct Sums(BTreeMap<usize, [Sum; 2]>);

impl Sums {
    /// Adds the values of a capture.
    pub fn add(&mut self, capture: &Path, fields: &Fields, theirs: &Found, ours: &Found) {
        let aside = is_aside(&capture.to_string_lossy());
        let is_shown = !aside && std::env::var_os("WEIR_TRUTH").is_some();
        let none = BTreeMap::new();
        for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
            let [of_them, of_us] = [theirs, ours].map(|found| found.get(key).unwrap_or(&none));
            let agreed: usize = of_them
                .iter()
                .map(|(value, count)| (*count).min(of_us.get(value).copied().unwrap_or(0)))
                .sum();
            let [their_sum, our_sum] = [of_them, of_us].map(|values| values.values().sum::<usize>());
            let different = (their_sum - agreed).min(our_sum - agreed);
            let sum = Sum { agreed, theirs: their_sum, ours: our_sum, different };
            self.0.entry(key.0).or_default()[usize::from(aside)].join(sum);
            if is_shown && (agreed < their_sum || agreed < our_sum) {
                let pair = &fields.pairs[key.0];
                for (who, mine, others) in [("tshark", of_them, of_us), ("weir", of_us, of_them)] {
                    for (value, count) in mine {
                        let more = count.saturating_sub(others.get(value).copied().unwrap_or(0));
                        if more > 0 {
                            let [(a, p), (b, q)] = key.1;
                            println!(
                                "{who}\t{}\t{}\t{}\t{a}:{p}-{b}:{q}\t{more}\t{value}",
                                pair.protocol,
                                pair.name,
                                capture.display()
                            );
                        }
                    }
                }
            }
        }
    }

    /// Both together.
    pub fn join(mut self, other: Self) -> Self {
        for (at, sums) in other.0 {
            let mine = self.0.entry(at).or_default();
            mine.iter_mut().zip(sums).for_each(|(mine, sum)| mine.join(sum));
        }
        self
    }

    /// A table in Markdown: a row for each field and each protocol.
    pub fn table(&self, fields: &Fields) -> String {
        let mut text = String::from(
            "| Weir | tshark | agreed | different | missing in Weir | missing in tshark | agreed, set aside |\n\
             |---|---|---|---|---|---|---|\n",
        );
        let (mut all, mut of_protocol) = ([Sum::default(); 2], BTreeMap::<&str, [Sum; 2]>::new());
        for (at, pair) in fields.pairs.iter().enumerate() {
            let sums = self.0.get(&at).copied().unwrap_or_default();
            row(&mut text, pair.name, pair.theirs, sums);
            let of = of_protocol.entry(pair.protocol).or_default();
            for side in [0, 1] {
                of[side].join(sums[side]);
                all[side].join(sums[side]);
            }
        }
        text.push_str(
            "\n| protocol | agreed | different | missing in Weir | missing in tshark | agreed, set aside |\n\
             |---|---|---|---|---|---|\n",
        );
        of_protocol.iter().for_each(|(protocol, sums)| row(&mut text, protocol, "", *sums));
        row(&mut text, "all", "", all);
        text
    }

    /// The fields of which fewer agree than `required.txt` says for the run of this name.
    pub fn short(&self, fields: &Fields, run: &str) -> Vec<String> {
        let mut short = Vec::new();
        for line in REQUIRED.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [of, name, theirs, seen, aside] = words.as_slice() else { continue };
            let at = fields.pairs.iter().position(|pair| pair.name == *name && pair.theirs == *theirs);
            let at = at.unwrap_or_else(|| panic!("required.txt: no field {name}"));
            let sums = self.0.get(&at).copied().unwrap_or_default();
            let required = [seen, aside].map(|count| count.parse::<usize>().expect("a number"));
            let has = [0, 1].map(|side: usize| sums[side].agreed);
            if of == &run && (has[0] < required[0] || has[1] < required[1]) {
                short.push(format!(
                    "{name}: {} and {}, required {} and {}",
                    has[0], has[1], required[0], required[1]
                ));
            }
        }
        short
    }
}

fn row(text: &mut String, name: &str, theirs: &str, [seen, aside]: [Sum; 2]) {
    let theirs = if theirs.is_empty() { String::new() } else { format!(" {} |", theirs.replace('|', ", ")) };
    writeln!(
        text,
        "| {name} |{theirs} {} of {} | {} | {} | {} | {} of {} |",
        seen.agreed,
        seen.theirs,
        seen.different,
        seen.theirs - seen.agreed - seen.different,
        seen.ours - seen.agreed - seen.different,
        aside.agreed,
        aside.theirs,
    )
    .unwrap();
}
