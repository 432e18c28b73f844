//! Limits the growth of compressed content.
//!
//! A deflate stream makes at most 1,032 bytes of one byte, a brotli stream millions: the content of one packet must
//! not cost seconds. One limit holds for all bodies of a flow together: many small bodies count as one large body.
//! Another one holds for all flows of a worker together, because flows cost a sender nothing: see
//! [`crate::Out::may_inflate`].

/// Limits of decompressed content. Content beyond them is not parsed, and the anomaly `compression_bomb` (limit of a
/// flow) or `decompression_limit` (limit of all flows) is emitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inflation {
    /// Of a flow: output bytes that are allowed for any input.
    pub free: u32,
    /// Of a flow: output bytes that are allowed in addition for each input byte.
    pub ratio: u32,
    /// Of all flows of a worker: output bytes that are allowed at once. Bytes of packets refill it.
    pub total: u32,
    /// Of all flows of a worker: output bytes that are allowed in addition for each byte of packets.
    pub total_ratio: u32,
}

impl Default for Inflation {
    fn default() -> Self {
        Self { free: 1 << 20, ratio: 100, total: 16 << 20, total_ratio: 16 }
    }
}

/// Limit of the next compressed body of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Allowance {
    /// Output bytes that are allowed for any input.
    pub credit: u64,
    /// Output bytes that are allowed in addition for each input byte.
    pub ratio: u64,
}

impl Allowance {
    /// The limit of a flow's first body.
    pub fn new(limit: Inflation) -> Self {
        Self { credit: limit.free.into(), ratio: limit.ratio.into() }
    }

    /// The limit that remains after a body with `taken` input bytes and `made` output bytes.
    pub fn after(self, (taken, made): (u64, u64)) -> Self {
        let credit = self.ratio.saturating_mul(taken).saturating_add(self.credit).saturating_sub(made);
        Self { credit, ..self }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(Inflation::default())
    }
}
