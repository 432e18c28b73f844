//! Limits of what parsers emit.

use crate::sessions::{SessionConfig, SessionStats};
use crate::token_bucket::{TokenBucket, weight};
use crate::{Emitted, FlowIdentity, Sink};
use weir_proto::{Inflation, Record};

/// Bytes of records that may be emitted at once, about as they stand in one log. Packets refill them.
const RECORDS: u64 = 4 << 20;

/// Limits of all flows of a worker together.
pub(crate) struct Allowances {
    /// Bytes that decompression may make.
    pub inflation: TokenBucket,
    /// Bytes of records.
    pub records: TokenBucket,
}

impl Allowances {
    /// Full allowances.
    pub fn new(config: &SessionConfig) -> Self {
        let Inflation { total, total_ratio, .. } = config.inflation;
        Self {
            inflation: TokenBucket::new(total.into(), total_ratio.into()),
            records: TokenBucket::new(RECORDS, config.record_ratio.into()),
        }
    }

    /// Takes the bytes of a packet, which refill the limits.
    pub fn receive(&mut self, bytes: usize) {
        self.inflation.receive(bytes);
        self.records.receive(bytes);
    }

    /// Emits a record that is not a parser's, as far as records may be emitted.
    pub fn emit(
        &mut self,
        flow: &FlowIdentity,
        record: Record<'_>,
        stats: &mut SessionStats,
        sink: &mut dyn Sink,
    ) {
        if self.records.is_open() {
            self.records.take(weight(&record));
            stats.records += 1;
            sink.take(Emitted::Record(flow, record, &[]));
        } else {
            stats.records_refused += 1;
        }
    }
}
