//! Lists and distinct counts as JSON: their stored form before version 6 of the database of series.
//!
//! Cells of that form stay as they are until they are written again; both forms are read.

use serde::Deserialize;
use weir_api::{Count, Key, KeyKind, Reading, Rows, Top, TopRow, Unit};

/// A stored list.
#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct KeptTop {
    key: KeyKind,
    show: usize,
    unit: Unit,
    absent: u64,
    inserts: u64,
    shed: (u64, u64),
    /// Key, packets, bytes, flows, error.
    rows: Vec<(Key, u64, u64, u64, u64)>,
}

/// Whether a stored body, decompressed, has this form. The binary form does not begin with a brace or a bracket.
pub fn is_earlier(body: &[u8]) -> bool {
    matches!(body.first(), Some(b'{' | b'['))
}

/// Reads a list.
///
/// # Errors
/// The body is no list.
pub fn top(body: &[u8]) -> serde_json::Result<Reading> {
    let KeptTop { key, show, unit, absent, inserts, shed: (packets, bytes), rows } =
        serde_json::from_slice(body)?;
    let rows: Rows<TopRow> = rows
        .into_iter()
        .map(|(key, packets, bytes, flows, error)| TopRow {
            key,
            count: Count { packets, bytes },
            flows,
            error,
        })
        .collect();
    let (capacity, shed) = (rows.len(), Count { packets, bytes });
    Ok(Reading::Top(Top { key, show, unit, capacity, rows, absent, inserts, shed }))
}

/// Reads a distinct count.
///
/// # Errors
/// The body is no distinct count.
pub fn distinct(body: &[u8]) -> serde_json::Result<Reading> {
    serde_json::from_slice(body).map(Reading::Distinct)
}

/// A reading in this form.
#[cfg(test)]
pub fn of(reading: &Reading) -> Vec<u8> {
    let text = match reading {
        Reading::Top(top) => serde_json::to_vec(&KeptTop {
            key: top.key,
            show: top.show,
            unit: top.unit,
            absent: top.absent,
            inserts: top.inserts,
            shed: (top.shed.packets, top.shed.bytes),
            rows: top
                .rows
                .iter()
                .map(|row| (row.key, row.count.packets, row.count.bytes, row.flows, row.error))
                .collect(),
        }),
        Reading::Distinct(count) => serde_json::to_vec(count),
        other => panic!("{other:?}"),
    };
    text.unwrap()
}
