//! Port signatures: the destination ports that hosts try which may be worms. Two hosts with one signature likely have one cause.
//!
//! A signature is of the merged list of SYNs of an interval. A host that tries more ports than the list samples has none, since its set
//! of ports is not known.

use crate::Worms;
use std::collections::BTreeMap;
use std::fmt;
use weir_api::{SampledValues, SynCounts, SynHost, Table, WorkWeight};

/// Least work weight in percent of a host with a port signature: that of Ourmon's report of unique port signatures.
pub const SIGNATURE_WEIGHT: u64 = 90;

/// The destination ports of the SYNs without ACK of a host, ascending: at least one, and at most [`SampledValues::MAX`].
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PortSignature(Vec<u16>);

impl PortSignature {
    /// The ports of a host; `None` if it has tried none, or more than are sampled.
    pub fn of(host: &SynHost) -> Option<Self> {
        let [to, _] = &host.samples;
        let mut ports: Vec<u16> =
            to.values().iter().filter_map(|(port, _)| u16::try_from(*port).ok()).collect();
        ports.sort_unstable();
        let is_whole = to.sampled() == to.added() && ports.len() <= SampledValues::MAX;
        (is_whole && !ports.is_empty()).then_some(Self(ports))
    }
}

/// The ports, with commas between them: `22,445`.
impl fmt::Display for PortSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, port) in self.0.iter().enumerate() {
            write!(out, "{}{port}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Worms {
    /// The port signature of a host that may be a worm, also if each address and port counts as one attempt at most; `None` of others.
    /// The number of attempts is not known: it is at most that of the SYNs, and that of the addresses times that of the ports.
    pub fn signature(&self, host: &SynHost) -> Option<PortSignature> {
        let counts: &SynCounts = &host.counts;
        // What is sent again to an address and port, as a relay does with mail for servers that are gone, is no further attempt.
        let most = host.targets.estimate().saturating_mul(host.ports.estimate());
        let first = SynCounts { syn: counts.syn.min(most), ..*counts };
        let is_worm = first.may_be_worm(self.difference)
            && counts.weight(WorkWeight::Sent) >= self.weight.max(SIGNATURE_WEIGHT);
        is_worm.then(|| PortSignature::of(host)).flatten()
    }

    /// The port signatures in a merged list of SYNs, with the number of hosts of each.
    pub fn signatures(&self, table: &Table) -> BTreeMap<PortSignature, u64> {
        let mut found = BTreeMap::new();
        for signature in table.rows.iter().filter_map(|row| self.signature(&SynHost::of(row)?)) {
            *found.entry(signature).or_default() += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{Datum, SYN, TableRow};

    fn row(last: u8, ports: impl Iterator<Item = u16>, counts: SynCounts) -> TableRow {
        to(last, counts.syn, ports, counts)
    }

    /// A host that sent SYNs to this number of addresses.
    fn to(last: u8, targets: u64, ports: impl Iterator<Item = u16>, counts: SynCounts) -> TableRow {
        let mut host = SynHost { counts, ..SynHost::default() };
        (0..targets).for_each(|target| _ = host.targets.add(1 << 64 | u128::from(target)));
        ports.for_each(|port| {
            host.samples[0].add(port.into(), 1);
            host.ports.add(port.into());
        });
        TableRow { key: vec![Datum::Address([10, 0, 0, last].into())], values: host.values(), error: 0 }
    }

    fn counts(syn: u64, received: u64) -> SynCounts {
        SynCounts { syn, packets: [syn, received], ..SynCounts::default() }
    }

    #[test]
    fn hosts_with_one_set_of_ports_have_one_signature() {
        let rows = vec![
            row(1, [445, 22, 22].into_iter(), counts(30, 0)),
            row(2, [22, 445].into_iter(), counts(90, 10)),
            row(3, [22].into_iter(), counts(30, 0)),
            // A client, one with few SYNs, one without SYNs of its own, and one whose set of ports is not known.
            row(4, [22].into_iter(), counts(30, 10)),
            row(5, [80].into_iter(), counts(20, 0)),
            row(6, [].into_iter(), counts(30, 0)),
            row(7, 1..=11, counts(30, 0)),
            row(8, 1..=10, counts(30, 0)),
        ];
        let table = Table::new(&SYN, 16, rows, 0);
        let shown = |worms: Worms| {
            let found = worms.signatures(&table).into_iter();
            found.map(|(signature, hosts)| format!("{signature} {hosts}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(Worms::default()), ["1,2,3,4,5,6,7,8,9,10 1", "22 1", "22,445 2"]);
        assert_eq!(shown(Worms { difference: 50, ..Worms::default() }), ["22,445 1"]);
        assert_eq!(shown(Worms { weight: 95, difference: 50, ..Worms::default() }), Vec::<String>::new());
    }

    /// A mail relay tries servers that are gone again and again: its SYNs are many, and the servers are few.
    #[test]
    fn what_is_sent_again_is_no_further_attempt() {
        let finished = SynCounts { fin: [0, 30], ..counts(90, 0) };
        let rows = vec![
            to(1, 20, [25].into_iter(), counts(90, 0)),
            to(2, 21, [445].into_iter(), counts(90, 0)),
            // Each of the addresses may have been tried at each of the ports.
            to(3, 10, [22, 2222].into_iter(), counts(90, 0)),
            to(4, 7, [23, 80, 8080].into_iter(), counts(90, 0)),
            to(5, 50, [443].into_iter(), finished),
            to(6, 51, [8443].into_iter(), finished),
        ];
        let found = Worms::default().signatures(&Table::new(&SYN, 16, rows, 0));
        let shown: Vec<String> = found.keys().map(ToString::to_string).collect();
        assert_eq!(shown, ["23,80,8080", "445", "8443"]);
    }

    #[test]
    fn the_signature_of_a_merged_row_is_that_of_both_parts() {
        let mut table = Table::new(&SYN, 16, vec![row(1, [445].into_iter(), counts(15, 0))], 0);
        table.merge(&Table::new(&SYN, 16, vec![row(1, [22].into_iter(), counts(15, 0))], 0));
        let found: Vec<String> =
            Worms::default().signatures(&table).keys().map(|one| one.to_string()).collect();
        assert_eq!(found, ["22,445"]);
    }
}
