//! What is odd about the segments of flows, told once for each flow.

use weir_flow::{OddSegment, Oddities, Rows};

/// The oddities of open flows that were told.
#[derive(Default)]
pub(crate) struct OddSegments {
    told: Rows<Oddities>,
}

impl OddSegments {
    /// What is odd about a segment and was not told of its flow.
    pub fn tell(&mut self, odd: &OddSegment) -> Oddities {
        self.told.make(odd.row).map(|told| told.add(odd.oddities)).unwrap_or_default()
    }

    /// Forgets the flow of a row.
    pub fn end(&mut self, row: u32) {
        if let Some(told) = self.told.get_mut(row) {
            *told = Oddities::default();
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.told.memory()
    }
}
