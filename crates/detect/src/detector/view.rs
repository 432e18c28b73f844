//! What is searched for in a buffer: the literals of the parts of rules that are found in it.

use super::handle::handle;
use super::part::FoundHere;
use crate::finder::Finder;
use crate::transform::Transform;
use std::sync::Arc;

/// A buffer with what is done to it first, and the parts that are found in it.
#[derive(Debug)]
pub(super) struct View {
    pub transforms: Box<[Transform]>,
    searched: Arc<Searched>,
    /// The part of each literal.
    parts: Box<[u32]>,
    /// Parts without a literal, which are verified for each value.
    always: Box<[u32]>,
}

/// Literals that are searched for. Programs that follow each other share them if they have not changed.
#[derive(Debug)]
pub(super) struct Searched {
    finder: Finder,
    /// The tests of the part of each literal, by which the part is recognised in another program.
    of: Box<[Arc<[u16]>]>,
}

impl Searched {
    /// The literals of parts that have one.
    fn new(here: FoundHere<'_>, parts: &[u32]) -> Self {
        let of_part = |number: &u32| {
            let part = here.parts.get(*number as usize)?;
            let handle = handle(here.rules.get(part.rule as usize)?.rule(), part.literal?)?;
            Some(((handle.literal, handle.place), Arc::clone(&part.tests)))
        };
        let (literals, of): (Vec<_>, Vec<_>) = parts.iter().filter_map(of_part).unzip();
        Self { finder: Finder::new(&literals), of: of.into() }
    }

    /// Whether they are the literals of these parts.
    fn is_of(&self, tests: &[&Arc<[u16]>]) -> bool {
        self.of.len() == tests.len() && self.of.iter().zip(tests).all(|(own, of)| Arc::ptr_eq(own, of))
    }
}

/// A view while it is collected.
#[derive(Default)]
struct Collected<'r> {
    transforms: &'r [Transform],
    /// The parts that literals find, and what holds their tests.
    parts: Vec<u32>,
    tests: Vec<&'r Arc<[u16]>>,
    always: Vec<u32>,
}

impl View {
    /// The views of parts, one for each way in which their buffers are changed first. Without `searches` no literal is searched for.
    /// `known` are literals of another program.
    pub fn of(here: FoundHere<'_>, searches: bool, known: &[Arc<Searched>]) -> Vec<Self> {
        let mut views: Vec<Collected<'_>> = Vec::new();
        for at in here.numbers {
            let Some(part) = here.parts.get(*at as usize) else { continue };
            let Some(rule) = here.rules.get(part.rule as usize).map(|known| known.rule()) else { continue };
            let of = part.found_in.and_then(|at| rule.buffers.get(usize::from(at)));
            let transforms = of.map_or(&[][..], |of| &of.transforms);
            let place = views.iter().position(|view| view.transforms == transforms).unwrap_or(views.len());
            if place == views.len() {
                views.push(Collected { transforms, ..Collected::default() });
            }
            let Some(view) = views.get_mut(place) else { continue };
            match searches && part.literal.is_some() {
                true => {
                    view.parts.push(*at);
                    view.tests.push(&part.tests);
                }
                false => view.always.push(*at),
            }
        }
        let made = views.into_iter().map(|Collected { transforms, parts, tests, always }| {
            let shared = known.iter().find(|known| known.is_of(&tests));
            Self {
                transforms: transforms.into(),
                searched: shared.cloned().unwrap_or_else(|| Arc::new(Searched::new(here, &parts))),
                parts: parts.into(),
                always: always.into(),
            }
        });
        made.collect()
    }

    /// Its literals.
    pub fn searched(&self) -> &Arc<Searched> {
        &self.searched
    }

    /// Calls `found` with each part that the bytes may fulfil, some repeatedly. A text from the beginning is a whole value, or the
    /// first bytes of a stream.
    pub fn find(&self, bytes: &[u8], is_from_beginning: bool, mut found: impl FnMut(u32)) {
        self.always.iter().for_each(|part| found(*part));
        self.searched.finder.find(bytes, is_from_beginning, |literal| {
            self.parts.get(literal as usize).into_iter().for_each(|part| found(*part));
        });
    }
}
