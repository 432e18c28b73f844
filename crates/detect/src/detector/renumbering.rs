//! What flows keep of rules when other rules take the place of theirs.
//!
//! Flows know rules, their parts and bits by numbers. A rule that both programs have keeps what is known of it under its new number;
//! what is known of others is forgotten. A flow's numbers are changed when it is looked at next, so that other rules take effect at
//! once for any number of flows.

use super::part::{Part, ProgramRule};
use std::collections::HashMap;

/// What of a program has numbers.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'p> {
    pub rules: &'p [ProgramRule],
    pub parts: &'p [Part],
    /// Names of bits of flows, by their numbers.
    pub bit_names: &'p [Box<str>],
    /// Numbers of bits of flows, by their names.
    pub bits: &'p foldhash::HashMap<Box<str>, u32>,
}

/// The numbers of one program in the program that follows it.
#[derive(Debug, Default)]
pub(super) struct Renumbering {
    rules: Box<[Option<u32>]>,
    parts: Box<[Option<u32>]>,
    bits: Box<[Option<u32>]>,
}

fn at(numbers: &[Option<u32>], number: u32) -> Option<u32> {
    numbers.get(number as usize).copied().flatten()
}

impl Renumbering {
    /// The numbers of `before` in `after`.
    pub fn between(before: Numbered<'_>, after: Numbered<'_>) -> Self {
        Self::of(before, after, &vec![None; after.rules.len()])
    }

    /// The numbers of `before` in `after`. `unmoved` has for each rule of `after` its number in `before`, if it was not read anew. Others
    /// are compared.
    pub fn of(before: Numbered<'_>, after: Numbered<'_>, unmoved: &[Option<u32>]) -> Self {
        let key = |known: &ProgramRule| (known.rule().gid, known.rule().sid);
        let mut rules = vec![None; before.rules.len()];
        let mut anew: HashMap<(u32, u32), (u32, &ProgramRule)> = HashMap::new();
        for ((number, known), unmoved) in (0..).zip(after.rules).zip(unmoved) {
            match unmoved {
                Some(unmoved) => {
                    rules.get_mut(*unmoved as usize).into_iter().for_each(|of| *of = Some(number))
                }
                None => {
                    anew.insert(key(known), (number, known));
                }
            }
        }
        for (known, of) in before.rules.iter().zip(&mut rules).filter(|(_, of)| of.is_none()) {
            let now = anew.get(&key(known)).filter(|(_, now)| now.rule() == known.rule());
            *of = now.map(|(number, _)| *number);
        }
        let first = |program: Numbered<'_>| -> Vec<u32> {
            let mut first = vec![0; program.rules.len()];
            for (number, part) in program.parts.iter().enumerate().rev() {
                if let Some(place) = first.get_mut(part.rule as usize) {
                    *place = number as u32;
                }
            }
            first
        };
        let (first_before, first_after) = (first(before), first(after));
        let part = |(number, part): (u32, &Part)| {
            let from = first_before.get(part.rule as usize)?;
            let to = first_after.get(at(&rules, part.rule)? as usize)?;
            Some(to + (number - from))
        };
        let parts = (0..).zip(before.parts).map(part).collect();
        let bits = before.bit_names.iter().map(|name| after.bits.get(name).copied()).collect();
        Self { rules: rules.into(), parts, bits }
    }

    /// The number of a rule.
    pub fn rule(&self, number: u32) -> Option<u32> {
        at(&self.rules, number)
    }

    /// The number of a part.
    pub fn part(&self, number: u32) -> Option<u32> {
        at(&self.parts, number)
    }

    /// The number of a bit.
    pub fn bit(&self, number: u32) -> Option<u32> {
        at(&self.bits, number)
    }
}
