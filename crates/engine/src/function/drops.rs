//! Packets that a run lost, as numbers that `event` compares with a threshold.
//!
//! Packets that were lost reach no function. The numbers are those of the ledger of an interval.

use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{Fold, Folded, Ledger, Reading, Schema, Shown, Table, TableColumn, TableRow};

/// The word for these numbers in a configuration.
pub const DROPS: &str = "drops";

/// The number of lost packets of a million offered ones. It follows from two columns.
pub const PER_MILLION: &str = "per_million";

/// One row without a key.
static SCHEMA: Schema = Schema {
    name: Cow::Borrowed(DROPS),
    keys: Cow::Borrowed(&[]),
    columns: Cow::Borrowed(&[
        TableColumn::new(
            "packets",
            Fold::Sum,
            "packets",
            "Packets that the kernel or the interface dropped.",
        ),
        TableColumn::new("offered", Fold::Sum, "packets", "Packets that were caught or dropped."),
    ]),
    shown: Shown::Heaviest(1),
};

/// The numbers of the ledger of an interval.
pub fn drops_of(ledger: &Ledger) -> Reading {
    let dropped = ledger.capture.lost();
    let values = [dropped, ledger.caught + dropped].map(Folded::Sum).to_vec();
    let row = TableRow { key: Vec::new(), values, error: 0 };
    Reading::Table(Table::new(Arc::new(SCHEMA.clone()), 1, vec![row], 0))
}

/// [`PER_MILLION`] of a row; `None` if it is not one of these numbers.
pub(super) fn per_million(schema: &Schema, row: &TableRow) -> Option<u64> {
    let [dropped, offered] = row.values.first_chunk().filter(|_| schema.name == DROPS)?.each_ref();
    let [dropped, offered] = [dropped, offered].map(|value| u128::from(value.weight()));
    // Nothing was lost where nothing was offered.
    (dropped * 1_000_000).checked_div(offered).map_or(Some(0), |share| u64::try_from(share).ok())
}
