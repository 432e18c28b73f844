//! Limits the cost of all flows of a worker together. A sender can begin any number of flows, so that a limit for each
//! flow does not bound their sum.

use weir_proto::{Record, Value};

/// A token bucket that bytes of packets fill, not time: refusals depend only on the packets of the worker.
///
/// After n bytes of packets, at most `total + ratio * n` tokens and the last request have been taken. The excess of that
/// request is owed.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    total: i64,
    ratio: i64,
    /// Negative where more was taken than there was.
    left: i64,
}

impl TokenBucket {
    /// A full bucket of `total` tokens, which gets `ratio` more for each byte of packets.
    pub fn new(total: u64, ratio: u64) -> Self {
        let [total, ratio] = [total, ratio].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        Self { total, ratio, left: total }
    }

    /// Takes a packet of this length in bytes.
    pub fn receive(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.left = self.ratio.saturating_mul(bytes).saturating_add(self.left).min(self.total);
    }

    /// Whether anything is left.
    pub fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Takes tokens.
    pub fn take(&mut self, tokens: u64) {
        self.left = self.left.saturating_sub(i64::try_from(tokens).unwrap_or(i64::MAX));
    }
}

/// Tokens of a record besides its values: the flow that stands in front of them.
const RECORD: usize = 64;
/// Tokens of a value besides its text.
const VALUE: usize = 8;

/// Tokens of a record, about the bytes of its row in a log. A field without a value is one: a log has a place for it.
pub(crate) fn weight(record: &Record<'_>) -> u64 {
    (RECORD + record.values.iter().map(value).sum::<usize>()) as u64
}

fn value(of: &Value<'_>) -> usize {
    match of {
        Value::None => 1,
        Value::Text(text) => VALUE + text.len(),
        Value::List(values) => VALUE + values.iter().map(value).sum::<usize>(),
        Value::Rows(rows) => VALUE + rows.iter().flatten().map(value).sum::<usize>(),
        _ => VALUE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_proto::ANOMALY;
    use weir_wire::Time;

    #[test]
    fn packets_fill_it_up_to_its_limit() {
        let mut bucket = TokenBucket::new(1000, 2);
        bucket.take(400);
        assert!(bucket.is_open());
        // 4,400 more than there are.
        bucket.take(5000);
        bucket.receive(2200);
        assert!(!bucket.is_open());
        bucket.receive(1);
        assert!(bucket.is_open());
        bucket.receive(usize::MAX);
        bucket.take(999);
        assert!(bucket.is_open());
        bucket.take(1);
        assert!(!bucket.is_open());
    }

    #[test]
    fn lists_and_rows_weigh_what_is_in_them() {
        let text = || Value::from("abcd");
        let values = vec![
            Value::None,
            Value::Uint(7),
            text(),
            Value::List(vec![text(), text()]),
            Value::Rows(vec![vec![text(), Value::None], vec![Value::Bool(true)]]),
        ];
        let record = Record::new(&ANOMALY, Time(0), values);
        assert_eq!(weight(&record), 64 + 1 + 8 + 12 + (8 + 24) + (8 + 13 + 8));
    }
}
