//! The time that the items of a row span.

use weir_api::Folded;

/// Begin of the first and end of the last of some items, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times(Option<(u64, u64)>);

impl Times {
    /// Adds an item.
    pub fn add(&mut self, begin: u64, end: u64) {
        let (first, last) = self.0.unwrap_or((begin, end));
        self.0 = Some((first.min(begin), last.max(end)));
    }

    /// Begin of the first; `None` without items.
    pub fn first(self) -> Option<u64> {
        self.0.map(|(first, _)| first)
    }

    /// End of the last; `None` without items.
    pub fn last(self) -> Option<u64> {
        self.0.map(|(_, last)| last)
    }

    /// Both, as values of columns.
    pub fn folded(self) -> [Folded; 2] {
        [Folded::Min(self.first()), Folded::Max(self.last())]
    }
}
