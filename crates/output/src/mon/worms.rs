//! Ourmon's report of hosts that may be worms: the line `tworm`, and the port signatures in portreport.txt.
//!
//! A host is in the report if it sent more than 20 SYNs, or as many as are set, beyond the FINs that it received. portreport.txt has a line for each, in the
//! order of their addresses, in columns that spaces separate:
//!
//! | column | meaning |
//! |---|---|
//! | `192.0.2.7` | the host |
//! | `(WOR)` | its flags: [`SynCounts::flags`] |
//! | `95` | its work weight in percent |
//! | `0` | SYNs with ACK in percent of its SYNs |
//! | `L3D/L4D` | distinct addresses and distinct ports that it sent SYNs to |
//! | `L4S/src` | number of its sampled source ports, and the lowest of them |
//! | `198.51.100.9` | the last address that it sent a SYN to |
//! | `snt/rcv` | TCP packets that it sent and received |
//! | `sampled/sent` | SYNs to sampled destination ports, and all its SYNs |
//! | `[22,80][443,20]` | the sampled destination ports, and the percentage of the sampled SYNs that each has |
//!
//! A dash is in the place of what a host does not have, and of what is not known of an older table. Applications are not marked.

use super::host;
use crate::Home;
use std::cmp::Reverse;
use std::fmt::Write;
use std::net::IpAddr;
use weir_api::{
    Answer, Datum, Reading, SampledValues, SynCounts, SynHost, Table, TableRow, WORM_DIFFERENCE, WorkWeight,
};

/// Which hosts are in the report of hosts that may be worms, and which of them are counted as what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Worms {
    /// The home networks: `us` of the line `tworm`.
    pub home: Home,
    /// SYNs that a host sent beyond the FINs that it received, of which a host in the report has more: Ourmon's `topn_syn_wormdiff`.
    pub difference: u64,
    /// Least work weight in percent of a host that the line `tworm` counts: Ourmon's `tworm_weight`.
    pub weight: u64,
    /// The order of `syn_list`: Ourmon's `topn_syn_sort`.
    pub order: WormOrder,
}

impl Default for Worms {
    /// As the probe without these tags.
    fn default() -> Self {
        Self { home: Home::default(), difference: WORM_DIFFERENCE, weight: 0, order: WormOrder::default() }
    }
}

/// The order of the hosts in `syn_list`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WormOrder {
    /// As the list is ranked: by work.
    #[default]
    Ranked,
    /// By SYNs.
    Syns,
    /// Hosts whose weight is 100 percent or more first, each part by SYNs.
    Weight,
}

impl WormOrder {
    /// All orders.
    pub const ALL: [WormOrder; 3] = [WormOrder::Ranked, WormOrder::Syns, WormOrder::Weight];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranked => "work",
            Self::Syns => "syn",
            Self::Weight => "weight",
        }
    }

    /// Puts the shown rows of a list of SYNs into this order.
    pub(super) fn sort(self, rows: &mut [&TableRow]) {
        let counts = |row: &&TableRow| SynCounts::of(row).unwrap_or_default();
        match self {
            Self::Ranked => {}
            Self::Syns => rows.sort_by_key(|row| Reverse(counts(row).syn)),
            Self::Weight => rows.sort_by_key(|row| {
                let counts = counts(row);
                (counts.weight(WorkWeight::Sent) < 100, Reverse(counts.syn))
            }),
        }
    }
}

/// The table of an answer, if it is the list of SYNs.
pub(super) fn list(answer: &Answer) -> Option<&Table> {
    let is_list = (answer.label.subscription.as_str(), answer.label.function.as_str()) == ("topn_syn", "syn");
    match &answer.reading {
        Reading::Table(table) if is_list => Some(table),
        _ => None,
    }
}

/// A number of hosts that may be worms.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WormCount {
    /// All of them.
    pub total: u64,
    /// Those of the home networks.
    pub us: u64,
}

impl WormCount {
    /// Those of other networks.
    pub fn them(self) -> u64 {
        self.total.saturating_sub(self.us)
    }
}

impl Worms {
    /// The hosts of a list of SYNs that may be worms and have the weight. The list is to be merged over all parts of an interval: the
    /// counts of parts do not add up.
    pub fn count(&self, table: &Table) -> WormCount {
        let mut count = WormCount::default();
        for row in &table.rows {
            let ([Datum::Address(address)], Some(counts)) = (&row.key[..], SynCounts::of(row)) else {
                continue;
            };
            if counts.may_be_worm(self.difference) && counts.weight(WorkWeight::Sent) >= self.weight {
                count.total += 1;
                count.us += u64::from(self.home.has(*address));
            }
        }
        count
    }
}

/// The hosts of the report, in the order of their addresses.
fn hosts(table: &Table, worms: &Worms) -> Vec<(IpAddr, SynCounts, Option<SynHost>)> {
    let host = |row: &TableRow| {
        let [Datum::Address(address)] = row.key[..] else { return None };
        let counts = SynCounts::of(row)?;
        counts.may_be_worm(worms.difference).then(|| (address, counts, SynHost::of(row)))
    };
    let mut hosts: Vec<_> = table.rows.iter().filter_map(host).collect();
    hosts.sort_by_key(|(address, ..)| *address);
    hosts
}

/// The number of hosts in the report that have the weight: all, those of the home networks, and others.
pub(super) fn line(table: &Table, worms: &Worms) -> String {
    let count = worms.count(table);
    format!("tworm: {}: {}: {}:", count.total, count.us, count.them())
}

/// The ports of a sample and their counts, those with the most SYNs first.
pub(super) fn ports(sample: &SampledValues) -> Vec<(u128, u64)> {
    let mut ports = sample.values();
    ports.sort_by_key(|(_, count)| Reverse(*count));
    ports
}

/// The text of portreport.txt.
pub(super) fn report(table: &Table, worms: &Worms) -> String {
    let mut text = String::new();
    for (address, counts, known) in hosts(table, worms) {
        let [sent, received] = counts.packets;
        let _ = write!(
            text,
            "{:<16} {:<10} {:>3} {:>3}",
            host(address),
            format!("({})", counts.flags()),
            counts.weight(WorkWeight::Sent),
            counts.synack_percent()
        );
        let Some(SynHost { targets, ports, last, samples: [to, from], .. }) = known else {
            let _ = writeln!(text, " -/- -/- - {sent}/{received} -/{}", counts.syn);
            continue;
        };
        let sources = from.values();
        let source = sources.first().map_or("-".to_owned(), |(port, _)| port.to_string());
        let target = last.map_or("-".to_owned(), |(_, address)| host(address));
        let sampled = to.sampled();
        let _ = write!(
            text,
            " {}/{} {}/{source} {target} {sent}/{received} {sampled}/{} ",
            targets.estimate(),
            ports.estimate(),
            sources.len(),
            counts.syn
        );
        for (port, count) in to.values() {
            let percent = (u128::from(count) * 100).checked_div(sampled.into()).unwrap_or(0);
            let _ = write!(text, "[{port},{percent}]");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
