//! Hosts by the TCP connections that they begin and end, and what follows from their sums: Ourmon's work weights and flags.
//!
//! All of it is computed when a table is shown, of the merged row: sums of two parts add up, and their weights and flags do not.

use crate::{
    Datum, DistinctValues, Fold, Folded, KeyColumn, SampledValues, Schema, Shown, TableColumn, TableRow,
};
use std::borrow::Cow;
use std::net::IpAddr;

const fn packets(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "packets", help)
}

/// The columns of hosts.
pub static SYN: Schema = Schema {
    name: Cow::Borrowed("syn"),
    keys: Cow::Borrowed(&[KeyColumn::new("host", "", "The host.")]),
    columns: Cow::Borrowed(&[
        packets("work", "SYNs and FINs that the host sent, and RSTs that it received."),
        packets("syn", "SYNs that the host sent, with and without ACK."),
        packets("synack", "SYNs with ACK that the host sent."),
        packets("fin_sent", "FINs that the host sent."),
        packets("fin_received", "FINs that the host received."),
        packets("rst_sent", "RSTs that the host sent."),
        packets("rst_received", "RSTs that the host received."),
        packets("packets_sent", "TCP packets that the host sent."),
        packets("packets_received", "TCP packets that the host received."),
        packets("syn_received", "SYNs that the host received, with and without ACK."),
        packets(
            "icmp_errors",
            "Errors of ICMP and ICMPv6 that return to the host, whatever they quote. An expression such as `tcp` leaves them out.",
        ),
        TableColumn::new(
            "targets",
            Fold::Distinct,
            "",
            "Distinct addresses that the host sent SYNs without ACK to.",
        ),
        TableColumn::new("ports", Fold::Distinct, "", "Distinct destination ports of these SYNs."),
        TableColumn::new(
            "last_target",
            Fold::Last,
            "",
            "The address that the last of these SYNs was sent to.",
        ),
        TableColumn::new(
            "port_sample",
            Fold::Sample,
            "packets",
            "Ten of their destination ports, with the number of SYNs to each.",
        ),
        TableColumn::new(
            "source_port_sample",
            Fold::Sample,
            "packets",
            "Ten of their source ports, with the number of SYNs from each.",
        ),
    ]),
    shown: Shown::Syn(10),
};

/// The packets of a host, or a part of them, in the order of the first columns of [`SYN`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SynCounts {
    /// SYNs sent, with and without ACK.
    pub syn: u64,
    /// SYNs with ACK sent.
    pub synack: u64,
    /// FINs sent and received.
    pub fin: [u64; 2],
    /// RSTs sent and received.
    pub rst: [u64; 2],
    /// TCP packets sent and received.
    pub packets: [u64; 2],
    /// SYNs received.
    pub syn_received: u64,
    /// ICMP errors drawn.
    pub icmp_errors: u64,
}

/// What is known of a host, or a part of it; a row of [`SYN`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SynHost {
    /// Its packets.
    pub counts: SynCounts,
    /// Addresses that it sent SYNs without ACK to.
    pub targets: DistinctValues,
    /// Their destination ports.
    pub ports: DistinctValues,
    /// The time of the last of them in nanoseconds since the epoch, and its address.
    pub last: Option<(u64, IpAddr)>,
    /// Samples of their destination and source ports.
    pub samples: [SampledValues; 2],
}

/// Which packets a work weight counts beside the SYNs that a host sent and the RSTs that it received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkWeight {
    /// FINs sent: the formula of Ourmon's papers and later releases, which ranks the list.
    Sent,
    /// FINs received: the formula of the probe 2.5.
    Received,
    /// No FINs: the second weight of Ourmon's report of TCP worms.
    None,
}

/// SYNs that a host sends beyond the FINs that it receives, of which one that may be a worm has more: Ourmon's default of
/// `topn_syn_wormdiff`.
pub const WORM_DIFFERENCE: u64 = 20;

impl SynCounts {
    /// Whether the host sent more SYNs than this beyond the FINs that it received: Ourmon's mark of a host that may be a worm.
    pub fn may_be_worm(&self, difference: u64) -> bool {
        let [_, received] = self.fin;
        self.syn > received.saturating_add(difference)
    }

    /// The counts of a row of [`SYN`], or of an older table without its last columns; `None` if it is a row of another table.
    pub fn of(row: &TableRow) -> Option<Self> {
        let sum = |value: &Folded| if let Folded::Sum(sum) = value { Some(*sum) } else { None };
        let sums: Option<Vec<u64>> = row.values.iter().take(11).map(sum).collect();
        let &[
            _,
            syn,
            synack,
            fin_sent,
            fin_received,
            rst_sent,
            rst_received,
            sent,
            received,
            syn_received,
            icmp_errors,
        ] = sums?.as_slice()
        else {
            return None;
        };
        Some(Self {
            syn,
            synack,
            fin: [fin_sent, fin_received],
            rst: [rst_sent, rst_received],
            packets: [sent, received],
            syn_received,
            icmp_errors,
        })
    }

    /// The packets with which the host begins and ends connections.
    pub fn work(&self, weight: WorkWeight) -> u64 {
        let ([fin_sent, fin_received], [_, rst_received]) = (self.fin, self.rst);
        let fin = match weight {
            WorkWeight::Sent => fin_sent,
            WorkWeight::Received => fin_received,
            WorkWeight::None => 0,
        };
        self.syn.saturating_add(fin).saturating_add(rst_received)
    }

    /// A work weight in percent, rounded down: the part of the host's TCP packets that are work. It can exceed 100, since a packet
    /// with SYN and FIN counts twice.
    pub fn weight(&self, weight: WorkWeight) -> u64 {
        let [sent, received] = self.packets;
        percent(self.work(weight), u128::from(sent) + u128::from(received))
    }

    /// SYNs with ACK in percent of all SYNs that the host sent, rounded down: 100 for a server, 0 for a client.
    pub fn synack_percent(&self) -> u64 {
        percent(self.synack, self.syn.into())
    }

    /// The flags of Ourmon's report of TCP worms, of E, W, w, O, R and M those that hold, in this order. They are made of what the
    /// probe 2.5 counts, so that their FINs are those received.
    pub fn flags(&self) -> String {
        let ([_, fin], [_, rst], [sent, received]) = (self.fin, self.rst, self.packets);
        let (work, all) =
            (u128::from(self.work(WorkWeight::Received)), u128::from(sent) + u128::from(received));
        let unanswered = u128::from(self.syn.saturating_sub(fin));
        let errors = u128::from(rst) + u128::from(self.icmp_errors);
        let rules = [
            ('E', unanswered.saturating_mul(errors) > 100_000),
            ('W', 10 * work > 9 * all),
            ('w', 10 * work <= 9 * all && 2 * work > all),
            ('O', self.syn > 20 && fin < 5),
            ('R', fin == 0 && rst > 5),
            ('M', received == 0),
        ];
        rules.iter().filter(|(_, holds)| *holds).map(|(flag, _)| *flag).collect()
    }
}

/// A part in percent, rounded down; 0 of nothing.
fn percent(part: u64, all: u128) -> u64 {
    let percent = (u128::from(part) * 100).checked_div(all).unwrap_or(0);
    u64::try_from(percent).unwrap_or(u64::MAX)
}

impl SynHost {
    /// The host of a row of [`SYN`]; `None` if it is a row of another table, or of an older one without its last columns.
    pub fn of(row: &TableRow) -> Option<Self> {
        let counts = SynCounts::of(row)?;
        let [
            Folded::Distinct(targets),
            Folded::Distinct(ports),
            Folded::Last(last),
            Folded::Sample(to),
            Folded::Sample(from),
        ] = row.values.get(11..)?
        else {
            return None;
        };
        let last = match last {
            Some((time, Datum::Address(address))) => Some((*time, *address)),
            _ => None,
        };
        let samples = [to.clone(), from.clone()];
        Some(Self { counts, targets: targets.clone(), ports: ports.clone(), last, samples })
    }

    /// The values of its row, in the order of the columns.
    pub fn values(self) -> Vec<Folded> {
        let SynCounts { syn, synack, fin, rst, packets, syn_received, icmp_errors } = self.counts;
        let ([fin_sent, fin_received], [rst_sent, rst_received], [sent, received]) = (fin, rst, packets);
        let work = self.counts.work(WorkWeight::Sent);
        let first = [work, syn, synack, fin_sent, fin_received, rst_sent, rst_received];
        let sums = first.into_iter().chain([sent, received, syn_received, icmp_errors]).map(Folded::Sum);
        let [to, from] = self.samples;
        let last = [
            Folded::Distinct(self.targets),
            Folded::Distinct(self.ports),
            Folded::Last(self.last.map(|(time, address)| (time, Datum::Address(address)))),
            Folded::Sample(to),
            Folded::Sample(from),
        ];
        sums.chain(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Reading, Table};
    use proptest::prelude::*;

    fn counts(syn: u64, fin: [u64; 2], rst: [u64; 2], packets: [u64; 2]) -> SynCounts {
        SynCounts { syn, fin, rst, packets, ..SynCounts::default() }
    }

    fn row(last: u8, host: SynHost) -> TableRow {
        TableRow { key: vec![Datum::Address([10, 0, 0, last].into())], values: host.values(), error: 0 }
    }

    #[test]
    fn a_row_has_what_a_host_has() {
        let mut host = SynHost {
            counts: SynCounts {
                syn: 1,
                synack: 2,
                fin: [3, 4],
                rst: [5, 6],
                packets: [7, 8],
                syn_received: 9,
                icmp_errors: 10,
            },
            last: Some((7, [192, 0, 2, 1].into())),
            ..SynHost::default()
        };
        host.targets.add(5);
        host.ports.add(80);
        host.samples[0].add(80, 3);
        host.samples[1].add(4000, 3);
        let row = row(1, host.clone());
        assert_eq!(SynHost::of(&row), Some(host));
        let folds: Vec<Fold> = SYN.columns.iter().map(|column| column.fold).collect();
        assert_eq!(row.values.iter().map(Folded::fold).collect::<Vec<_>>(), folds);
        // 1 + 3 + 6.
        assert_eq!(row.weight(), 10);
        let older = TableRow { values: row.values[..11].to_vec(), ..row };
        assert_eq!((SynHost::of(&older), SynCounts::of(&older).map(|counts| counts.syn)), (None, Some(1)));
    }

    #[test]
    fn weights_and_flags_follow_from_sums() {
        for (weights, flags, counts) in [
            ([0, 0, 0], "M", SynCounts::default()),
            ([100, 100, 100], "WOM", counts(300, [0, 0], [0, 0], [300, 0])),
            ([100, 100, 100], "WOR", counts(300, [0, 0], [0, 6], [300, 6])),
            ([100, 100, 100], "WORM", counts(306, [0, 0], [0, 6], [312, 0])),
            ([95, 95, 95], "EWOR", counts(400, [0, 0], [0, 400], [440, 400])),
            ([90, 90, 90], "wO", counts(90, [0, 0], [0, 0], [90, 10])),
            ([50, 50, 50], "O", counts(50, [0, 0], [0, 0], [50, 50])),
            ([4, 5, 2], "", counts(20, [20, 30], [0, 0], [500, 500])),
            ([35, 5, 5], "", counts(0, [30, 0], [0, 5], [50, 50])),
            ([0, 0, 0], "E", SynCounts { icmp_errors: 5001, ..counts(20, [0, 0], [0, 0], [9000, 9000]) }),
            ([200, 100, 100], "WM", counts(1, [1, 0], [0, 0], [1, 0])),
        ] {
            let found =
                [WorkWeight::Sent, WorkWeight::Received, WorkWeight::None].map(|kind| counts.weight(kind));
            assert_eq!((found, counts.flags().as_str()), (weights, flags), "{counts:?}");
        }
        let server = SynCounts { synack: 9, ..counts(10, [0, 0], [0, 0], [100, 100]) };
        assert_eq!((server.synack_percent(), SynCounts::default().synack_percent()), (90, 0));
        let most = [u64::MAX; 2];
        let most = SynCounts { synack: u64::MAX, ..counts(u64::MAX, most, most, most) };
        assert_eq!(
            (most.weight(WorkWeight::Sent), most.synack_percent(), most.flags()),
            (50, 100, String::new())
        );
    }

    /// A host may send in one part and receive in another.
    #[test]
    fn weights_and_flags_are_those_of_merged_sums() {
        let of = |rows: Vec<TableRow>| Table::new(&SYN, 16, rows, 0);
        let host = |counts, ports: &[u128]| {
            let mut host = SynHost { counts, ..SynHost::default() };
            ports.iter().for_each(|port| {
                host.ports.add(*port);
                host.samples[0].add(*port, 1);
            });
            host
        };
        let mut table = of(vec![row(1, host(counts(30, [0, 0], [0, 0], [30, 0]), &[22, 80]))]);
        table.merge(&of(vec![
            row(1, host(counts(1, [0, 9], [0, 0], [20, 50]), &[22])),
            row(2, host(counts(90, [0, 0], [0, 0], [90, 0]), &[])),
        ]));
        let reading = Reading::Table(table);
        let cells = reading.cells();
        assert!(cells.rows.iter().all(|row| row.values.len() == cells.columns.len()));
        let column = |name: &str| {
            let at = cells.columns.iter().position(|column| column.name == name).unwrap();
            cells.rows.iter().map(|row| row.values[at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(column("work"), [Cell::Whole(90), Cell::Whole(31)]);
        assert_eq!(column("weight"), [Cell::Whole(100), Cell::Whole(31)]);
        assert_eq!(column("weight_probe"), [Cell::Whole(100), Cell::Whole(40)]);
        assert_eq!(column("weight_no_fin"), [Cell::Whole(100), Cell::Whole(31)]);
        assert_eq!(column("flags"), [Cell::Text("WOM".into()), Cell::Nothing]);
        assert_eq!(column("sampled"), [Cell::Whole(0), Cell::Whole(3)]);
        assert_eq!(column("ports"), [Cell::Whole(0), Cell::Whole(2)]);
        assert_eq!(column("port_sample"), [Cell::Sample(vec![]), Cell::Sample(vec![(22, 2), (80, 1)])]);
    }

    /// The formulas as they are written, in floating point.
    fn reference(counts: &SynCounts) -> ([u64; 3], String) {
        let [s, r, icmp] = [counts.syn, counts.rst[1], counts.icmp_errors].map(|n| n as f64);
        let [sent, received] = counts.fin.map(|n| n as f64);
        let total = (counts.packets[0] + counts.packets[1]) as f64;
        let ratio = |fin: f64| if total == 0.0 { 0.0 } else { (s + fin + r) / total };
        let control = s + received + r;
        let mut flags = String::new();
        if (s - received) * (r + icmp) > 100_000.0 {
            flags.push('E');
        }
        if control / total > 0.9 {
            flags.push('W');
        } else if control / total > 0.5 {
            flags.push('w');
        }
        if s > 20.0 && received < 5.0 {
            flags.push('O');
        }
        if received == 0.0 && r > 5.0 {
            flags.push('R');
        }
        if counts.packets[1] == 0 {
            flags.push('M');
        }
        // Quotients that are whole percents are exact in hundredths.
        ([sent, received, 0.0].map(|fin| (ratio(fin) * 100.0 + 1e-9) as u64), flags)
    }

    proptest! {
        #[test]
        fn weights_and_flags_are_those_of_the_formulas(
            (syn, errors) in (0_u64..60, 0_u64..9_000),
            fin in (0_u64..9, 0_u64..9), rst in 0_u64..12, packets in (0_u64..120, 0_u64..3),
        ) {
            let counts = SynCounts {
                icmp_errors: errors,
                ..counts(syn, fin.into(), [0, rst], packets.into())
            };
            let weights = [WorkWeight::Sent, WorkWeight::Received, WorkWeight::None];
            prop_assert_eq!((weights.map(|kind| counts.weight(kind)), counts.flags()), reference(&counts));
        }
    }
}
