//! Weir's filter set, as the measurements use it.

use crate::Result;
use crate::sets::Total;
use weir_filter::{Filter, Options};
use weir_wire::{Batch, decode};

/// Expressions, compiled, with a counter for each.
pub struct Ours {
    filters: Vec<Filter>,
    totals: Vec<Total>,
}

impl Ours {
    /// Compiles expressions.
    pub fn compile(expressions: &[String]) -> Result<Self> {
        let filters: std::result::Result<Vec<_>, _> =
            expressions.iter().map(|text| Filter::compile(text, &Options::default())).collect();
        let filters = filters?;
        Ok(Self { totals: vec![Total::default(); filters.len()], filters })
    }

    /// Counts packets for every expression, from their octets on.
    pub fn count(&mut self, batch: Batch<'_>) {
        for packet in batch.packets() {
            let layers = decode(&packet);
            for (filter, total) in self.filters.iter().zip(&mut self.totals) {
                if filter.matches(&packet, &layers) {
                    total.add(packet.wire_len);
                }
            }
        }
    }

    /// What was counted since the last time.
    pub fn take(&mut self) -> Vec<Total> {
        std::mem::replace(&mut self.totals, vec![Total::default(); self.filters.len()])
    }

    /// Gives of every packet its index and the expressions that it matches.
    pub fn matches(&mut self, batch: Batch<'_>, see: &mut dyn FnMut(usize, &[u32])) {
        let mut matching = Vec::new();
        for (index, packet) in batch.packets().enumerate() {
            let layers = decode(&packet);
            matching.clear();
            let filters = self.filters.iter().enumerate();
            matching.extend(filters.filter(|(_, f)| f.matches(&packet, &layers)).map(|(at, _)| at as u32));
            see(index, &matching);
        }
    }
}
