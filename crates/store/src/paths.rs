//! Clients, services and servers with the traffic between them, over all flows of a time range.
//!
//! The heaviest of each are nodes; all others of a column are one node, whose links have their true width.

use super::label::{expression, list_row};
use super::share::crossing_bound;
use super::tally::{Cell, Dimension, GroupBy, Measure, Subject, Sums, Tally, TallyWanted};
use super::{Store, StoreError, TimeRange};
use std::collections::HashMap;
use weir_api::basis::{Basis, Source};
use weir_api::web::{Path, PathNode, Paths};
use weir_api::{Count, Key, TopRow, Unit};
use weir_filter::FlowTest;
use weir_output::summary::Naming;

/// Combinations of client, service and server that are added up one by one; the lighter ones are between others.
const MAX_ROWS: usize = 100_000;
/// The columns.
const SIDES: [GroupBy; 3] = [GroupBy::Client, GroupBy::Service, GroupBy::Server];

/// The heaviest `count` clients, services and servers of the flows that a test holds for, and what flows between them.
///
/// # Errors
///
/// Those of [`Store`].
pub fn of(store: &dyn Store, test: &FlowTest, span: TimeRange, count: usize) -> Result<Paths, StoreError> {
    let wanted = |by: &[GroupBy], limit: usize| TallyWanted {
        subject: Subject::Flows,
        by: by.iter().map(|by| Dimension::Key(*by)).collect(),
        measure: Measure::Bytes,
        test: test.clone(),
        span,
        limit,
        steps: 0,
        grid: None,
        values: None,
    };
    let all = store.tally(&wanted(&SIDES, MAX_ROWS))?;
    // If combinations are left out, the sums of nodes are computed separately.
    let is_whole = all.groups <= all.rows.len() as u64 && all.lost.is_none();
    let columns: Vec<Column> = SIDES
        .iter()
        .enumerate()
        .map(|(side, by)| match is_whole {
            true => Ok(Column::of(side, &all, side, count)),
            false => Ok(Column::of(side, &store.tally(&wanted(&[*by], MAX_ROWS))?, 0, count)),
        })
        .collect::<Result<_, StoreError>>()?;
    let keys: Vec<Key> = columns.iter().flat_map(|column| column.shown.keys().copied()).collect();
    let names = store.names(&keys)?;
    let mut nodes = Vec::new();
    let mut first = Vec::new();
    for column in &columns {
        first.push(nodes.len());
        nodes.extend(column.nodes(&names));
    }
    let node_of = |side: usize, cell: Option<&Cell>| {
        let (column, first) = columns.get(side).zip(first.get(side))?;
        Some(first + column.place(cell))
    };
    let mut links: HashMap<(usize, usize), Sums> = HashMap::new();
    let mut add = |cells: &[Cell], sums: &Sums| {
        for side in 0..2 {
            let ends = node_of(side, cells.get(side)).zip(node_of(side + 1, cells.get(side + 1)));
            if let Some(ends) = ends {
                links.entry(ends).or_default().add(sums);
            }
        }
    };
    for row in &all.rows {
        add(&row.cells, &row.sums);
    }
    if !is_whole {
        add(&[], &all.other);
    }
    let mut links: Vec<Path> = links
        .into_iter()
        .map(|((from, to), sums)| Path {
            from,
            to,
            bytes: sums.count.bytes,
            sent: sums.sent,
            packets: sums.count.packets,
            flows: sums.flows,
        })
        .collect();
    links.sort_by(|a, b| b.bytes.cmp(&a.bytes).then((a.from, a.to).cmp(&(b.from, b.to))));
    Ok(Paths {
        nodes,
        links,
        flows: all.total.flows,
        bytes: all.total.count.bytes,
        basis: Basis {
            source: Source::Flows,
            bound: Some(crossing_bound(all.crossing.as_ref(), Unit::Bytes)),
            ..Basis::default()
        },
        crossing: all.crossing,
        partial: all.partial.or_else(|| {
            (!is_whole).then(|| {
                format!(
                    "{} combinations of client, service and server: the lighter ones are drawn between others",
                    all.groups
                )
            })
        }),
    })
}

/// The nodes of a side.
struct Column {
    side: usize,
    /// Place and sums of each node that is shown by itself.
    shown: HashMap<Key, (usize, Sums)>,
    other: Sums,
    /// Number of the others.
    others: u64,
}

impl Column {
    /// Of the values in a place of rows.
    fn of(side: usize, tally: &Tally, place: usize, count: usize) -> Self {
        let mut sums: HashMap<Key, Sums> = HashMap::new();
        for row in &tally.rows {
            if let Some(Cell::Key(key)) = row.cells.get(place) {
                sums.entry(*key).or_default().add(&row.sums);
            }
        }
        let mut order: Vec<(Key, Sums)> = sums.into_iter().collect();
        order.sort_by(|a, b| b.1.count.bytes.cmp(&a.1.count.bytes).then(a.0.cmp(&b.0)));
        // Values without a group are one at least.
        let hidden = tally.groups.saturating_sub(tally.rows.len() as u64) + u64::from(tally.lost.is_some());
        // One node more takes no more room than a node for one other.
        let count = if hidden == 0 && order.len() == count + 1 { count + 1 } else { count };
        let mut other = tally.other;
        order.iter().skip(count).for_each(|(_, sums)| other.add(sums));
        let others = order.len().saturating_sub(count) as u64 + hidden;
        let shown = order.into_iter().take(count).enumerate().map(|(at, (key, sums))| (key, (at, sums)));
        Self { side, shown: shown.collect(), other, others }
    }

    /// The place of a value; that of the others for what has no node.
    fn place(&self, cell: Option<&Cell>) -> usize {
        match cell {
            Some(Cell::Key(key)) => self.shown.get(key).map_or(self.shown.len(), |(at, _)| *at),
            _ => self.shown.len(),
        }
    }

    fn nodes(&self, names: &HashMap<Key, String>) -> Vec<PathNode> {
        let mut order: Vec<(&Key, &(usize, Sums))> = self.shown.iter().collect();
        order.sort_by_key(|(_, (at, _))| *at);
        let node = |(key, (_, sums)): (&Key, &(usize, Sums))| {
            let shown = list_row(
                &TopRow { key: *key, count: Count::default(), flows: 0, error: 0 },
                Naming::numeric(),
            );
            PathNode {
                side: self.side,
                label: shown.label,
                name: names.get(key).cloned().or(shown.name),
                filter: expression(key),
                bytes: sums.count.bytes,
                flows: sums.flows,
                others: 0,
            }
        };
        let mut nodes: Vec<PathNode> = order.into_iter().map(node).collect();
        if self.others > 0 {
            nodes.push(PathNode {
                side: self.side,
                label: format!("{} other", self.others),
                name: None,
                filter: String::new(),
                bytes: self.other.count.bytes,
                flows: self.other.flows,
                others: self.others,
            });
        }
        nodes
    }
}
