//! Lists of values: `in (a, b)` and `in @FILE`, with a million values if need be. A lookup of a text, a domain or an address
//! takes one hash, whatever the length of the list.

use super::operand::{Addresses, Number, Operand, Text, domain};
use super::value::FieldValue;
use foldhash::fast::RandomState;
use hashbrown::{HashSet, HashTable};
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

/// The longest name of a list of domains (RFC 1035, section 2.3.4), without which a value of many labels would be hashed for
/// each of them.
pub(crate) const MAX_DOMAIN: usize = 255;

/// Bytes that are put into lower case at once.
const BLOCK: usize = 64;

/// One key for all lists, so that a value is hashed once.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The hash of a text in lower case, or as it is.
pub(crate) fn hash_of(text: &[u8], is_exact: bool) -> u64 {
    let mut hasher = KEY.build_hasher();
    if is_exact {
        hasher.write(text);
        return hasher.finish();
    }
    let mut block = [0; BLOCK];
    for part in text.chunks(BLOCK) {
        if let Some(lower) = block.get_mut(..part.len()) {
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            hasher.write(lower);
        }
    }
    hasher.finish()
}

/// Texts that are found by their hash, all in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// Begin and length of each.
    places: HashTable<(u32, u32)>,
    is_exact: bool,
    longest: usize,
}

impl Names {
    /// An empty list.
    pub fn new(is_exact: bool) -> Self {
        Self { is_exact, ..Self::default() }
    }

    /// Adds a text; `false` if it was there.
    pub fn insert(&mut self, text: &[u8]) -> bool {
        let hash = hash_of(text, self.is_exact);
        if self.has_hashed(hash, text) {
            return false;
        }
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(text);
        if !self.is_exact
            && let Some(added) = self.bytes.get_mut(begin..)
        {
            added.make_ascii_lowercase();
        }
        self.longest = self.longest.max(text.len());
        let Self { bytes, places, is_exact, .. } = self;
        let again = |&(begin, length): &(u32, u32)| hash_of(slice(bytes, begin, length), *is_exact);
        // A list has at most a million texts of an expression's or a file's length: 4 GB are not reached.
        places.insert_unique(hash, (begin as u32, text.len() as u32), again);
        true
    }

    /// Whether a text is among them.
    pub fn has(&self, text: &[u8]) -> bool {
        !self.places.is_empty()
            && text.len() <= self.longest
            && self.has_hashed(hash_of(text, self.is_exact), text)
    }

    /// As `has`, with the text's hash.
    pub fn has_hashed(&self, hash: u64, text: &[u8]) -> bool {
        let is_it = |&(begin, length): &(u32, u32)| {
            let known = slice(&self.bytes, begin, length);
            if self.is_exact { known == text } else { known.eq_ignore_ascii_case(text) }
        };
        self.places.find(hash, is_it).is_some()
    }

    /// Whether a name is one of these domains, or below one of them.
    pub fn have_domain_of(&self, name: &[u8]) -> bool {
        !self.places.is_empty() && suffixes(name, self.longest).any(|name| self.has(name))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|&(begin, length)| slice(&self.bytes, begin, length))
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    fn memory(&self) -> usize {
        self.bytes.capacity() + self.places.allocation_size()
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        (self.is_exact, self.len()) == (other.is_exact, other.len())
            && self.iter().all(|text| other.has(text))
    }
}

/// A name and its ends from each later label on, as far as they have at most `longest` bytes. A dot at the end does not count.
pub(crate) fn suffixes(name: &[u8], longest: usize) -> impl Iterator<Item = &[u8]> {
    let name = domain(name, false);
    let from = name.len().saturating_sub(longest);
    let behind_dot = |at: usize| Some(at + memchr::memchr(b'.', name.get(at..)?)? + 1);
    let is_begin = from == 0 || name.get(from - 1) == Some(&b'.');
    let first = if is_begin { Some(from) } else { behind_dot(from) };
    std::iter::successors(first, move |at| behind_dot(*at)).filter_map(|at| name.get(at..))
}

fn slice(bytes: &[u8], begin: u32, length: u32) -> &[u8] {
    let begin = begin as usize;
    bytes.get(begin..begin + length as usize).unwrap_or_default()
}

/// A list of values. A lookup takes the same time for any number of texts and addresses.
#[derive(Clone, Debug)]
pub struct List {
    pub(crate) any_case: Names,
    pub(crate) exact: Names,
    numbers: Vec<Number>,
    bools: Vec<bool>,
    hosts: HashSet<u128, RandomState>,
    /// Networks in order, none within another.
    networks: Vec<Addresses>,
    /// What was left out of its file.
    pub(super) note: Option<Box<str>>,
}

impl Default for List {
    fn default() -> Self {
        Self {
            any_case: Names::new(false),
            exact: Names::new(true),
            numbers: Vec::new(),
            bools: Vec::new(),
            hosts: HashSet::with_hasher(KEY.clone()),
            networks: Vec::new(),
            note: None,
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        let parts = |list: &Self| (list.numbers.len(), list.hosts.len());
        self.any_case == other.any_case
            && self.exact == other.exact
            && parts(self) == parts(other)
            && self.numbers == other.numbers
            && self.bools == other.bools
            && self.hosts == other.hosts
            && self.networks == other.networks
    }
}

impl List {
    /// Adds a value. [`List::sort`] follows the last one.
    pub(super) fn push(&mut self, operand: Operand) {
        match operand {
            Operand::Text(text) => drop(self.names(text.is_exact).insert(&text.bytes)),
            Operand::Number(number) => self.numbers.push(number),
            Operand::Bool(yes) => self.bools.push(yes),
            Operand::Addresses(addresses) if addresses.low == addresses.high => {
                self.hosts.insert(addresses.low);
            }
            Operand::Addresses(addresses) => self.networks.push(addresses),
        }
    }

    /// Adds a domain.
    pub(super) fn push_domain(&mut self, name: &Text) {
        self.names(name.is_exact).insert(domain(&name.bytes, true));
    }

    fn names(&mut self, is_exact: bool) -> &mut Names {
        if is_exact { &mut self.exact } else { &mut self.any_case }
    }

    /// Puts in order what is found by halving.
    pub(super) fn sort(&mut self) {
        self.numbers.sort_by(|a, b| a.order(*b));
        self.networks.sort_unstable();
        let mut merged: Vec<Addresses> = Vec::with_capacity(self.networks.len());
        for next in self.networks.drain(..) {
            match merged.last_mut().filter(|last| next.low <= last.high) {
                Some(last) => last.high = last.high.max(next.high),
                None => merged.push(next),
            }
        }
        self.networks = merged;
    }

    /// How many values it has; networks that overlap are one.
    pub(super) fn len(&self) -> usize {
        self.any_case.len()
            + self.exact.len()
            + self.numbers.len()
            + self.bools.len()
            + self.hosts.len()
            + self.networks.len()
    }

    /// Whether a value is in it. The values of a list are of one kind, that of the field.
    pub(super) fn has(&self, value: &FieldValue<'_>) -> bool {
        if !self.hosts.is_empty() || !self.networks.is_empty() {
            return value.address().is_some_and(|address| self.has_address(address));
        }
        if !self.numbers.is_empty() {
            let is_known =
                |number: Number| self.numbers.binary_search_by(|known| known.order(number)).is_ok();
            return value.number().is_some_and(is_known);
        }
        if !self.bools.is_empty() {
            return value.bool().is_some_and(|yes| self.bools.contains(&yes));
        }
        value.with_text(|text| self.exact.has(text) || self.any_case.has(text))
    }

    fn has_address(&self, address: u128) -> bool {
        let after = self.networks.partition_point(|range| range.low <= address);
        let last = after.checked_sub(1).and_then(|at| self.networks.get(at));
        self.hosts.contains(&address) || last.is_some_and(|range| range.contain(address))
    }

    /// Whether a name is one of the domains in it, or below one.
    pub(crate) fn has_domain_of(&self, name: &[u8]) -> bool {
        self.any_case.have_domain_of(name) || self.exact.have_domain_of(name)
    }

    /// Bytes of heap memory.
    pub(crate) fn memory(&self) -> usize {
        self.any_case.memory()
            + self.exact.memory()
            + size_of_val(self.numbers.as_slice())
            + self.hosts.allocation_size()
            + size_of_val(self.networks.as_slice())
    }
}
