//! How much compressed content may grow.
//!
//! A deflate stream makes at most 1,032 bytes of one, a brotli stream millions: what a peer can send in a packet must not
//! cost seconds. The limit holds for all bodies of a flow together: many small bodies are one large body.

/// How much compressed content of a flow may grow. Content beyond that is not looked at, and the anomaly
/// `compression_bomb` says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Inflation {
    /// Bytes that may come out whatever goes in.
    pub free: u32,
    /// Bytes that may come out for each that goes in, besides.
    pub ratio: u32,
}

impl Default for Inflation {
    fn default() -> Self {
        Self { free: 1 << 20, ratio: 100 }
    }
}

/// What the next compressed body of a flow may grow to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Allowance {
    /// Bytes that may come out whatever goes in.
    pub credit: u64,
    /// Bytes that may come out for each that goes in, besides.
    pub ratio: u64,
}

impl Allowance {
    /// That of a flow's first body.
    pub fn new(limit: Inflation) -> Self {
        Self { credit: limit.free.into(), ratio: limit.ratio.into() }
    }

    /// What is left when of a body so many bytes went in and so many were made of them.
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
