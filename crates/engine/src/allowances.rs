//! Limits of what parsers emit.

use crate::session_config::SessionConfig;
use crate::session_stats::SessionStats;
use crate::token_bucket::{TokenBucket, weight};
use crate::{Emitted, FlowIdentity, Sink};
use std::collections::HashMap;
use weir_proto::{Inflation, MAX_FILES, Record};

/// Bytes of records that may be emitted at once, about as they stand in one log. Packets refill them.
const RECORDS: u64 = 4 << 20;

/// Limits of all flows of a worker together.
pub(crate) struct Allowances {
    /// Bytes that decompression may make.
    pub inflation: TokenBucket,
    /// Bytes of records.
    pub records: TokenBucket,
    /// Files of each flow.
    pub files: FileAllowances,
}

/// The files that each flow has had: see [`MAX_FILES`].
#[derive(Default)]
pub(crate) struct FileAllowances {
    /// Number of files kept of a flow that has had one, by the flow's identifier.
    kept: HashMap<u64, u64>,
}

impl FileAllowances {
    /// Bytes for each flow that has had a file, free places of the map included.
    const EACH: usize = 48;

    /// Takes a file of a flow of which `read` bytes were read. Returns whether its content may be kept.
    pub fn may_keep(&mut self, flow: u64, read: u64) -> bool {
        let (first, bytes_each) = MAX_FILES;
        let kept = self.kept.entry(flow).or_default();
        let may = *kept < first + read / bytes_each;
        *kept += u64::from(may);
        may
    }

    /// Forgets a flow that has ended.
    pub fn end(&mut self, flow: &FlowIdentity) {
        if !self.kept.is_empty() {
            self.kept.remove(&flow.id());
        }
    }

    /// Approximate memory in bytes.
    pub fn memory(&self) -> usize {
        self.kept.len() * Self::EACH
    }
}

impl Allowances {
    /// Full allowances.
    pub fn new(config: &SessionConfig) -> Self {
        let Inflation { total, total_ratio, .. } = config.inflation;
        Self {
            inflation: TokenBucket::new(total.into(), total_ratio.into()),
            records: TokenBucket::new(RECORDS, config.record_ratio.into()),
            files: FileAllowances::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_earns_files_by_its_bytes() {
        let (first, bytes_each) = MAX_FILES;
        let mut files = FileAllowances::default();
        let kept = (0..2 * first).filter(|_| files.may_keep(1, 0)).count() as u64;
        assert_eq!(kept, first);
        assert!(!files.may_keep(1, bytes_each - 1));
        assert!(files.may_keep(1, bytes_each));
        assert!(!files.may_keep(1, bytes_each), "refused files do not count");
        assert!(files.may_keep(2, 0), "another flow");
        assert_eq!(files.memory(), 2 * FileAllowances::EACH);
    }
}
