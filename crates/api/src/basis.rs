//! What the numbers of an answer are of: the time, the source and how much they may be off.

use serde::Serialize;
use utoipa::ToSchema;

/// Where the numbers of an answer come from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Sums that the pass counted in intervals, and cells of several intervals.
    #[default]
    Cells,
    /// Stored flows. Of a flow that crosses an end of the time its share by time counts.
    Flows,
    /// Stored records, by their own time.
    Records,
    /// Packets of capture files.
    Packets,
}

impl Source {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Source::Cells => "cells",
            Source::Flows => "flows",
            Source::Records => "records",
            Source::Packets => "packets",
        }
    }
}

/// What the numbers of an answer are of. Answers over equal ranges from equal sources agree; numbers of different sources may
/// differ by their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Basis {
    /// Start and end of the time that was asked for, in seconds since the epoch.
    #[schema(min_items = 2, max_items = 2)]
    pub asked: [f64; 2],
    /// Start and end of the time that is answered: the asked time, moved outwards to the cells that are stored there, as far as
    /// anything is stored.
    #[schema(min_items = 2, max_items = 2)]
    pub range: [f64; 2],
    /// Seconds of the answered time that were watched. A mean is a sum divided by them.
    pub watched: f64,
    /// Where the numbers come from.
    pub source: Source,
    /// The most by which a sum of the answer may be off, in the unit by which its rows are ranked, or in bytes; 0 if all of its
    /// numbers are exact. `null` where each row states its own bound.
    #[schema(required = true)]
    pub bound: Option<u64>,
}

/// Nanoseconds after the last packet of a TCP flow in which packets can still belong to it: its close delay of 5 s, and the tick
/// that ends it. They are not in its duration.
pub const CLOSING: u64 = 6_000_000_000;
