//! The rows of lists in panes, and their titles.

use super::Palette;
use super::state::Order;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use std::collections::HashMap;
use std::net::IpAddr;
use weir_api::{Count, Interval, Key, Top};
use weir_output::summary::Naming;
use weir_output::{figures, ports};

/// The upper `height` rows of an area, and the rest.
pub fn cut(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let upper = Rect { height, ..area };
    (upper, Rect { y: area.y + height, height: area.height - height, ..area })
}

/// Draws a title with a note on the first row of an area; returns the rest.
pub fn titled(frame: &mut Frame<'_>, area: Rect, title: &str, about: &str, palette: Palette) -> Rect {
    let (upper, rest) = cut(area, 1);
    let about = figures::fit(about, usize::from(area.width).saturating_sub(title.len() + 2));
    let spans = vec![
        Span::styled(title.to_owned(), palette.title()),
        Span::styled(format!("  {about}"), palette.faint()),
    ];
    frame.render_widget(Line::from(spans), upper);
    rest
}

/// A key with its counts in the last second and in total.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Its counts in the last second.
    pub now: Count,
    /// Its counts in total.
    pub all: Count,
    /// Its flows in total.
    pub flows: u64,
    /// The maximum error of its counts, in the list's unit.
    pub error: u64,
}

impl Entry {
    /// The values by which it is ranked.
    pub fn weight(&self, order: Order) -> (u64, u64) {
        match order {
            Order::BytesNow => (self.now.bytes, self.all.bytes),
            Order::PacketsNow => (self.now.packets, self.all.packets),
            Order::Bytes => (self.all.bytes, self.now.bytes),
            Order::Packets => (self.all.packets, self.now.packets),
        }
    }
}

/// The first `n` keys of the list in that order.
pub fn ranked(last: Option<&Top>, total: &Top, order: Order, n: usize) -> Vec<Entry> {
    let recent: HashMap<Key, Count> =
        last.iter().flat_map(|top| &top.rows).map(|row| (row.key, row.count)).collect();
    let mut entries: Vec<Entry> = total
        .rows
        .iter()
        .map(|row| Entry {
            key: row.key,
            now: recent.get(&row.key).copied().unwrap_or_default(),
            all: row.count,
            flows: row.flows,
            error: row.error,
        })
        .collect();
    let before = |a: &Entry, b: &Entry| b.weight(order).cmp(&a.weight(order)).then_with(|| a.key.cmp(&b.key));
    if n == 0 {
        return Vec::new();
    }
    if entries.len() > n {
        entries.select_nth_unstable_by(n - 1, before);
        entries.truncate(n);
    }
    entries.sort_by(before);
    entries
}

/// Bits and packets a second.
pub fn rates(count: Count, interval: Interval) -> [String; 2] {
    let seconds = interval.end.saturating_sub(interval.start) as f64 / 1e9;
    let per = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    [figures::bit_rate(per(count.bytes) * 8.0), figures::count(per(count.packets).round() as u64)]
}

/// The label of a key.
pub fn key_text(key: &Key, naming: Naming<'_>) -> String {
    match *key {
        Key::Address(address) => address.to_string(),
        Key::Pair(source, destination) => format!("{source} > {destination}"),
        Key::Flow { source, source_port, destination, destination_port, protocol } => format!(
            "{} > {} {}",
            end(source, source_port),
            end(destination, destination_port),
            ports::protocol(protocol)
        ),
        Key::Port { protocol, .. } if !ports::has_ports(protocol) => ports::protocol(protocol),
        Key::Port { protocol, port } => {
            let name = naming.of_key(key).map(|name| format!(" {name}")).unwrap_or_default();
            format!("{}/{port}{name}", ports::protocol(protocol))
        }
        Key::Protocol(protocol) => ports::protocol(protocol),
        Key::Vlan(vlan) => format!("vlan {vlan}"),
        Key::Talker { server, port, client, protocol } => {
            let name = naming.of_key(key).unwrap_or_else(|| ports::protocol(protocol));
            format!("{} < {client} {name}", end(server, port))
        }
    }
}

/// An address with its port, if any.
fn end(address: IpAddr, port: u16) -> String {
    match (address, port) {
        (_, 0) => address.to_string(),
        (IpAddr::V4(_), _) => format!("{address}:{port}"),
        (IpAddr::V6(_), _) => format!("[{address}]:{port}"),
    }
}
