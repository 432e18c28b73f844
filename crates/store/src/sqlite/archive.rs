//! All stored points of a series.

use super::series::{CellGrid, SeriesReader};
use super::{SqliteStore, keep_of};
use crate::tiers::SERIES;
use crate::{Archive, StoreError};

const SECOND: u64 = 1_000_000_000;

impl SqliteStore {
    /// See [`crate::Store::archive`].
    pub(super) fn archive_of(&self, id: &str) -> Result<Archive, StoreError> {
        self.main(|from, path| {
            let reader = self.reader_of(from, path)?;
            let SeriesReader { extent: (first, last), interval, .. } = reader;
            let series =
                reader.number(id)?.ok_or_else(|| StoreError::Unknown(format!("no series {id:?}")))?;
            // RRD's steps are whole seconds of which all rows are multiples.
            let wanted = (interval / SECOND).clamp(1, 300);
            let step = (1..=wanted).rev().find(|step| 300 % step == 0).unwrap_or(1);
            let update = last / SECOND - last / SECOND % step;
            let mut tiers = Vec::new();
            let kept = keep_of(from, path)?.series;
            for (at, (tier, keep)) in SERIES.iter().zip(kept).enumerate() {
                let length = if at == 0 { step } else { tier.cell.length() / SECOND };
                // The last row of an archive ends at the last multiple of its length.
                let end = update - update % length;
                let begin = (first / SECOND).max(end.saturating_sub(keep / SECOND)) / length * length;
                let begin = begin.min(end.saturating_sub(length));
                let grid = CellGrid {
                    tier: at,
                    from: begin * SECOND,
                    to: end * SECOND,
                    step: length * SECOND,
                    base: begin * SECOND,
                    interval: reader.interval,
                    is_rounded: false,
                };
                tiers.push((length, reader.cells(id, series, grid)?));
            }
            Ok(Archive { step, update, tiers })
        })
    }
}
