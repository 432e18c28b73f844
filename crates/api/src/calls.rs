//! Calls of SIP (RFC 3261): who called whom, how the call ended, and how its media arrived.

use crate::{Datum, Fold, Folded, KeyColumn, Schema, Shown, TableColumn, TableRow};
use std::borrow::Cow;

/// The columns of calls by their identifier. The row without one has the streams that no call announced.
pub static CALLS: Schema = Schema {
    name: Cow::Borrowed("calls"),
    keys: Cow::Borrowed(&[KeyColumn::new(
        "call_id",
        "sip.call_id",
        "Identifier of the call (Call-ID); none for streams that no call announced.",
    )]),
    columns: Cow::Borrowed(&[
        TableColumn::new(
            "records",
            Fold::Sum,
            "records",
            "Transactions of INVITE, ACK, CANCEL and BYE, and streams.",
        ),
        TableColumn::new(
            "caller",
            Fold::Last,
            "",
            "URI of the caller (From), without scheme and parameters.",
        ),
        TableColumn::new("callee", Fold::Last, "", "URI of the callee (To), without scheme and parameters."),
        TableColumn::new("status", Fold::Last, "", "Final status code of the invitation."),
        TableColumn::new("begun", Fold::Min, "time", "Time of the invitation."),
        TableColumn::new("answered", Fold::Min, "time", "Time of the response that accepted the call."),
        TableColumn::new(
            "ended",
            Fold::Max,
            "time",
            "Time of the BYE, or of the response that refused the call.",
        ),
        TableColumn::new("streams", Fold::Sum, "", "RTP streams."),
        TableColumn::new("packets", Fold::Sum, "packets", "RTP packets received."),
        TableColumn::new("lost", Fold::Sum, "", "RTP packets lost, by the sequence numbers."),
        TableColumn::new(
            "jitter",
            Fold::Max,
            "nanoseconds",
            "Maximum jitter of the RTP streams at their end (RFC 3550, A.8), where the clock rate of the codec is known.",
        ),
        TableColumn::new("heard", Fold::Max, "time", "Time of the last RTP packet."),
    ]),
    shown: Shown::Heaviest(10),
};

/// What is known of a call, or a part of it; a row of [`CALLS`]. Times are in nanoseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// Transactions and streams.
    pub records: u64,
    /// The caller, with the time at which it was seen.
    pub caller: Option<(u64, Datum)>,
    /// The callee, with the time at which it was seen.
    pub callee: Option<(u64, Datum)>,
    /// The final status code of the invitation, with its time.
    pub status: Option<(u64, Datum)>,
    /// Time of the invitation.
    pub begun: Option<u64>,
    /// Time of the response that accepted the call.
    pub answered: Option<u64>,
    /// Time of the BYE, or of the response that refused the call.
    pub ended: Option<u64>,
    /// RTP streams.
    pub streams: u64,
    /// Packets received of these streams.
    pub packets: u64,
    /// Packets lost of these streams.
    pub lost: u64,
    /// Greatest jitter of these streams, in nanoseconds.
    pub jitter: Option<u64>,
    /// Time of the last packet of these streams.
    pub heard: Option<u64>,
}

impl Call {
    /// Its values, in the order of the columns of [`CALLS`].
    pub fn values(self) -> Vec<Folded> {
        vec![
            Folded::Sum(self.records),
            Folded::Last(self.caller),
            Folded::Last(self.callee),
            Folded::Last(self.status),
            Folded::Min(self.begun),
            Folded::Min(self.answered),
            Folded::Max(self.ended),
            Folded::Sum(self.streams),
            Folded::Sum(self.packets),
            Folded::Sum(self.lost),
            Folded::Max(self.jitter),
            Folded::Max(self.heard),
        ]
    }

    /// The call of a row; `None` if the row is of another table.
    pub fn of(row: &TableRow) -> Option<Self> {
        match row.values.as_slice() {
            [
                Folded::Sum(records),
                Folded::Last(caller),
                Folded::Last(callee),
                Folded::Last(status),
                Folded::Min(begun),
                Folded::Min(answered),
                Folded::Max(ended),
                Folded::Sum(streams),
                Folded::Sum(packets),
                Folded::Sum(lost),
                Folded::Max(jitter),
                Folded::Max(heard),
            ] => Some(Self {
                records: *records,
                caller: caller.clone(),
                callee: callee.clone(),
                status: status.clone(),
                begun: *begun,
                answered: *answered,
                ended: *ended,
                streams: *streams,
                packets: *packets,
                lost: *lost,
                jitter: *jitter,
                heard: *heard,
            }),
            _ => None,
        }
    }

    /// Time from the answer to the BYE; without a BYE, to the last packet of its media. `None` if it was not answered, or if
    /// its end is not known.
    pub fn length(&self) -> Option<u64> {
        let answered = self.answered?;
        let end = if self.is_over() { self.ended } else { self.heard };
        end?.checked_sub(answered)
    }

    /// Whether its end was seen. A response that asked for authentication comes before the answer, and is no end.
    pub fn is_over(&self) -> bool {
        self.ended.is_some_and(|ended| self.answered.is_none_or(|answered| ended >= answered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_row_of_the_table() {
        let call = Call {
            records: 5,
            caller: Some((7, Datum::Text("alice@example.org".into()))),
            callee: Some((7, Datum::Text("bob@example.com".into()))),
            status: Some((9, Datum::Number(200))),
            begun: Some(7),
            answered: Some(9),
            ended: Some(12),
            streams: 2,
            packets: 100,
            lost: 3,
            jitter: Some(2_000),
            heard: Some(11),
        };
        let values = call.clone().values();
        let folds: Vec<Fold> = values.iter().map(Folded::fold).collect();
        assert_eq!(folds, CALLS.columns.iter().map(|column| column.fold).collect::<Vec<_>>());
        let row = TableRow { key: vec![Datum::Nothing], values, error: 0 };
        assert_eq!(Call::of(&row), Some(call));
        assert_eq!(Call::of(&TableRow { values: Vec::new(), ..row }), None);
    }

    #[test]
    fn the_length_is_from_the_answer_to_the_end() {
        let call = |answered, ended, heard| Call { answered, ended, heard, ..Call::default() };
        assert_eq!(call(Some(5), Some(9), Some(8)).length(), Some(4));
        assert_eq!(call(Some(5), None, Some(8)).length(), Some(3), "no BYE was seen");
        assert_eq!(call(Some(5), Some(3), Some(8)).length(), Some(3), "refused at first, for a password");
        assert_eq!(call(None, Some(9), None).length(), None);
        assert!(call(None, Some(9), None).is_over() && !call(Some(5), Some(3), None).is_over());
    }
}
