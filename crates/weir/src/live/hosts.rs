//! The pane of hosts: what each sends and receives.

use super::entry::{Entry, key_text, ranked as list, rates, titled};
use super::state::Order;
use super::table::{FigureRow, FigureTable};
use super::{LiveView, ScreenState};
use ratatui::Frame;
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use weir_api::{Count, Key, builtin};
use weir_output::figures;
use weir_output::summary::Naming;
use weir_output::summary::top_of;

/// A host with what it sent and received, in the last second and in total.
#[derive(Clone, Copy)]
pub struct Host {
    /// Its address.
    pub key: Key,
    /// What it sent.
    pub sent: Entry,
    /// What it received.
    pub received: Entry,
}

impl Host {
    fn new(key: Key) -> Self {
        let none = Entry { key, now: Count::default(), all: Count::default(), flows: 0, error: 0 };
        Self { key, sent: none, received: none }
    }

    fn weight(&self, order: Order) -> (u64, u64) {
        let (sent, received) = (self.sent.weight(order), self.received.weight(order));
        (sent.0 + received.0, sent.1 + received.1)
    }
}

/// The first `n` hosts in that order.
pub fn ranked(view: &LiveView<'_>, order: Order, n: usize) -> Vec<Host> {
    let mut hosts: BTreeMap<Key, Host> = BTreeMap::new();
    for id in [builtin::SOURCES, builtin::DESTINATIONS] {
        let Some(total) = top_of(view.total, id) else { continue };
        for entry in list(top_of(view.last, id), total, order, total.rows.len()) {
            let host = hosts.entry(entry.key).or_insert_with(|| Host::new(entry.key));
            *(if id == builtin::SOURCES { &mut host.sent } else { &mut host.received }) = entry;
        }
    }
    let mut hosts: Vec<Host> = hosts.into_values().collect();
    hosts.sort_by(|a, b| b.weight(order).cmp(&a.weight(order)).then_with(|| a.key.cmp(&b.key)));
    hosts.truncate(n);
    hosts
}

/// Draws the pane.
pub fn hosts(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, state: &ScreenState) {
    let lists = [builtin::SOURCES, builtin::DESTINATIONS].map(|id| top_of(view.total, id));
    let about = match lists {
        [None, None] => "not counted".to_owned(),
        lists => {
            let is_exact = lists.iter().flatten().all(|top| top.is_exact());
            format!("{}{}", state.order.name(), if is_exact { "" } else { ", of the heaviest" })
        }
    };
    let rest = titled(frame, area, "HOSTS", &about, state.palette);
    let shown = ranked(view, state.order, usize::from(rest.height).saturating_sub(1));
    let max = shown.first().map_or(0, |host| host.weight(state.order).0);
    let rows = shown.iter().map(|host| {
        let [sent, _] = rates(host.sent.now, view.last.interval);
        let [received, _] = rates(host.received.now, view.last.interval);
        let mut all = host.sent.all;
        all.add(&host.received.all);
        let cells = vec![
            key_text(&host.key, Naming::numeric()),
            sent,
            received,
            figures::bytes(host.sent.all.bytes),
            figures::bytes(host.received.all.bytes),
            figures::count(all.packets),
        ];
        FigureRow { cells, share: (host.weight(state.order).0, max) }
    });
    let titles = vec!["", "sends", "receives", "sent", "received", "packets"];
    FigureTable { titles, rows: rows.collect() }.render_with(frame, rest, state.palette, state.selected);
}
