//! Hosts over UDP: what they send, what returns, and what class of host that suggests.
//!
//! The weight and the class of a host follow from sums, so that they are computed when a table is shown, of the merged row: sums
//! of two parts add up, and their weights do not.

use crate::{Fold, Folded, KeyColumn, Schema, Shown, Table, TableColumn, TableRow};
use std::borrow::Cow;

const fn packets(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "packets", help)
}

/// The columns of hosts.
pub static UDP: Schema = Schema {
    name: Cow::Borrowed("udp"),
    keys: Cow::Borrowed(&[KeyColumn::new("host", "", "The host.")]),
    columns: Cow::Borrowed(&[
        packets("sent", "UDP packets that the host sent."),
        packets("received", "UDP packets that the host received."),
        TableColumn::new("bytes_sent", Fold::Sum, "bytes", "Bytes of the frames of the packets sent."),
        TableColumn::new(
            "bytes_received",
            Fold::Sum,
            "bytes",
            "Bytes of the frames of the packets received.",
        ),
        packets("errors", "Errors of ICMP and ICMPv6 that return to the host and quote UDP."),
        packets("unreachable", "Of these errors, those of an unreachable network, host, protocol or port."),
        packets("pings", "Errors of ICMP and ICMPv6 that return to the host and quote ICMP or ICMPv6."),
        packets("tiny", "Packets sent, of at most 100 bytes."),
        packets("small", "Packets sent, of 101 to 499 bytes."),
        packets("med", "Packets sent, of 500 to 999 bytes."),
        packets("big", "Packets sent, of 1000 bytes or more."),
        packets("served", "Packets sent from the lower of their two ports, as a server sends them."),
        packets("high", "Packets sent between two ports of 1024 or more."),
        packets("names_asked", "Packets sent to port 53 (DNS)."),
        packets("names_served", "Packets sent from port 53 (DNS)."),
    ]),
    shown: Shown::Udp(10),
};

/// What is known of a host over UDP, or a part of it; a row of [`UDP`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UdpHost {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// ICMP errors that quote UDP.
    pub errors: u64,
    /// Those of them of an unreachable destination.
    pub unreachable: u64,
    /// ICMP errors that quote ICMP.
    pub pings: u64,
    /// Packets sent, by their size: tiny, small, med, big.
    pub sizes: [u64; 4],
    /// Packets sent from the lower of two ports.
    pub served: u64,
    /// Packets sent between ports of 1024 or more.
    pub high: u64,
    /// Packets sent to the port of DNS.
    pub names_asked: u64,
    /// Packets sent from the port of DNS.
    pub names_served: u64,
}

impl UdpHost {
    /// The host of a row of [`UDP`]; `None` if it is a row of another table.
    pub fn of(row: &TableRow) -> Option<Self> {
        let sum = |value: &Folded| if let Folded::Sum(sum) = value { Some(*sum) } else { None };
        let sums: Option<Vec<u64>> = row.values.iter().map(sum).collect();
        let &[
            sent,
            received,
            bytes_sent,
            bytes_received,
            errors,
            unreachable,
            pings,
            tiny,
            small,
            med,
            big,
            served,
            high,
            names_asked,
            names_served,
        ] = sums?.as_slice()
        else {
            return None;
        };
        Some(Self {
            sent,
            received,
            bytes: [bytes_sent, bytes_received],
            errors,
            unreachable,
            pings,
            sizes: [tiny, small, med, big],
            served,
            high,
            names_asked,
            names_served,
        })
    }

    /// The values of its row, in the order of the columns.
    pub fn values(&self) -> Vec<Folded> {
        let [sent, received] = self.bytes;
        let first = [self.sent, self.received, sent, received, self.errors, self.unreachable, self.pings];
        let last = [self.served, self.high, self.names_asked, self.names_served];
        first.into_iter().chain(self.sizes).chain(last).map(Folded::Sum).collect()
    }

    /// Ourmon's weight of a host: packets that it sent without one in return, times the errors that it drew.
    pub fn weight(&self) -> u64 {
        self.sent.saturating_sub(self.received).saturating_mul(self.errors)
    }

    /// The class of host that the sums suggest, the first that holds; `None` if none does.
    pub fn class(&self) -> Option<&'static str> {
        let Self { sent, received, errors, .. } = *self;
        let is_part = |part: u64, of: u64, in_all: u64| {
            u128::from(part) * u128::from(in_all) >= u128::from(sent) * u128::from(of)
        };
        let names = self.names_asked.saturating_add(self.names_served);
        let rules = [
            ("scan", errors >= 8 && sent / 2 >= received),
            ("flood", sent >= 1000 && sent / 20 >= received),
            ("resolver", self.names_asked > 0 && self.names_served > 0 && is_part(names, 1, 2)),
            ("server", sent >= 8 && received > 0 && is_part(self.served, 9, 10)),
            (
                "p2p",
                sent >= 64
                    && errors > 0
                    && sent / 4 <= received
                    && received / 4 <= sent
                    && is_part(self.high, 3, 4),
            ),
        ];
        rules.iter().find(|(_, holds)| *holds).map(|(name, _)| *name)
    }
}

/// The first rows of a table of hosts by their weight, those of equal weight by what they sent.
pub(crate) fn ranked(table: &Table, count: usize) -> Vec<&TableRow> {
    table.rows.heaviest(count, |row| (UdpHost::of(row).map_or(0, |host| host.weight()), row.weight()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Datum, Reading};

    fn host(sent: u64, received: u64, errors: u64) -> UdpHost {
        UdpHost { sent, received, errors, ..UdpHost::default() }
    }

    fn row(last: u8, host: UdpHost) -> TableRow {
        TableRow { key: vec![Datum::Address([10, 0, 0, last].into())], values: host.values(), error: 0 }
    }

    #[test]
    fn a_row_has_what_a_host_has() {
        let host = UdpHost {
            sent: 1,
            received: 2,
            bytes: [3, 4],
            errors: 5,
            unreachable: 6,
            pings: 7,
            sizes: [8, 9, 10, 11],
            served: 12,
            high: 13,
            names_asked: 14,
            names_served: 15,
        };
        let row = row(1, host);
        assert_eq!(UdpHost::of(&row), Some(host));
        assert_eq!(row.values, (1..=15).map(Folded::Sum).collect::<Vec<_>>());
        assert_eq!(row.values.len(), UDP.columns.len());
        assert_eq!(UdpHost::of(&TableRow { values: Vec::new(), ..row }), None);
    }

    /// The weight of a sum is not the sum of weights: a host may send in one part and receive in another.
    #[test]
    fn rows_are_shown_by_the_weight_of_merged_sums() {
        let of = |rows: Vec<TableRow>| Table::new(&UDP, 16, rows, 0);
        let mut table = of(vec![row(1, host(100, 0, 2)), row(2, host(50, 10, 5)), row(3, host(7, 9, 9))]);
        table.merge(&of(vec![row(1, host(0, 90, 8)), row(2, host(10, 0, 1)), row(4, host(8, 0, 0))]));
        let reading = Reading::Table(table);
        let cells = reading.cells();
        let names: Vec<&str> = cells.columns.iter().take(4).map(|column| &*column.name).collect();
        assert_eq!(names, ["host", "weight", "class", "sent"]);
        let shown: Vec<(Cell<'_>, Cell<'_>)> =
            cells.rows.iter().map(|row| (row.values[0].clone(), row.values[1].clone())).collect();
        let expected = [(2, 300), (1, 100), (4, 0), (3, 0)]
            .map(|(last, weight)| (Cell::Address([10, 0, 0, last].into()), Cell::Whole(weight)));
        assert_eq!(shown, expected);
        assert!(cells.rows.iter().all(|row| row.values.len() == cells.columns.len()));
    }

    #[test]
    fn classes_follow_from_sums() {
        for (expected, host) in [
            (None, UdpHost::default()),
            (None, host(20, 20, 0)),
            (Some("scan"), host(300, 12, 40)),
            (None, host(300, 290, 40)),
            (Some("flood"), host(5000, 3, 0)),
            (None, host(900, 0, 0)),
            (Some("resolver"), UdpHost { names_asked: 30, names_served: 40, ..host(80, 75, 1) }),
            (None, UdpHost { names_asked: 70, ..host(80, 75, 1) }),
            (Some("server"), UdpHost { served: 99, ..host(100, 20, 0) }),
            (Some("p2p"), UdpHost { high: 90, served: 40, ..host(100, 70, 3) }),
            (None, UdpHost { high: 90, served: 40, ..host(100, 70, 0) }),
            (Some("scan"), host(u64::MAX, u64::MAX / 2, u64::MAX)),
        ] {
            assert_eq!(host.class(), expected, "{host:?}");
        }
        assert_eq!((host(9, 9, 4).weight(), host(9, 10, 4).weight(), host(9, 4, 4).weight()), (0, 0, 20));
        assert_eq!(host(u64::MAX, 0, 2).weight(), u64::MAX);
    }
}
