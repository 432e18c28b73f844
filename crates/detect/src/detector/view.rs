//! What is searched for in a buffer: the literals of the parts of rules that are found in it.

use super::handle::handle;
use super::part::{Part, ProgramRule, is_firm};
use crate::finder::{Finder, Place};
use crate::search::Literal;
use crate::transform::Transform;

/// A buffer with what is done to it first, and the parts that are found in it.
#[derive(Debug)]
pub(super) struct View {
    pub transforms: Box<[Transform]>,
    finder: Finder,
    /// The part of each literal.
    parts: Box<[u32]>,
    /// Parts without a literal, which are verified for each value.
    always: Box<[u32]>,
}

/// A view while it is collected.
#[derive(Default)]
struct Collected<'r> {
    transforms: &'r [Transform],
    /// Each literal, its place, and the part that it finds.
    literals: Vec<((Literal<'r>, Place), u32)>,
    always: Vec<u32>,
}

impl View {
    /// The views of parts, one for each way in which their buffers are changed first. Without `searches` no literal is searched for.
    pub fn of(rules: &[ProgramRule], parts: &[Part], found_here: &[u32], searches: bool) -> Vec<Self> {
        let mut views: Vec<Collected<'_>> = Vec::new();
        for at in found_here {
            let Some(part) = parts.get(*at as usize) else { continue };
            let Some(known) = rules.get(part.rule as usize) else { continue };
            let rule = known.rule();
            let found_by = handle(rule, &part.tests);
            // Any buffer that must be there makes a part without a literal a candidate.
            let of = found_by.map(|handle| handle.of).or_else(|| {
                part.tests.iter().filter_map(|at| rule.buffers.get(usize::from(*at))).find(|of| is_firm(of))
            });
            let transforms = of.map_or(&[][..], |of| &of.transforms);
            let place = views.iter().position(|view| view.transforms == transforms).unwrap_or(views.len());
            if place == views.len() {
                views.push(Collected { transforms, ..Collected::default() });
            }
            let Some(view) = views.get_mut(place) else { continue };
            match found_by.filter(|_| searches) {
                Some(handle) => view.literals.push(((handle.literal, handle.place), *at)),
                None => view.always.push(*at),
            }
        }
        let made = views.into_iter().map(|Collected { transforms, literals, always }| {
            let (literals, parts): (Vec<_>, Vec<_>) = literals.into_iter().unzip();
            Self {
                transforms: transforms.into(),
                finder: Finder::new(&literals),
                parts: parts.into(),
                always: always.into(),
            }
        });
        made.collect()
    }

    /// Calls `found` with each part that the bytes may fulfil, some repeatedly. A text from the beginning is a whole value, or the
    /// first bytes of a stream.
    pub fn find(&self, bytes: &[u8], is_from_beginning: bool, mut found: impl FnMut(u32)) {
        self.always.iter().for_each(|part| found(*part));
        self.finder.find(bytes, is_from_beginning, |literal| {
            self.parts.get(literal as usize).into_iter().for_each(|part| found(*part));
        });
    }
}
