//! Details of a row: everything that the lists know about its key.

use super::entry::{key_text, rates, titled};
use super::table::{FigureRow, FigureTable};
use super::{LiveView, Palette};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use weir_api::{Key, SubscriptionId, Top, TopRow, builtin};
use weir_output::Applications;
use weir_output::summary::top_of;
use weir_output::summary::{Naming, error_share};
use weir_output::{figures, ports};
use weir_store::label;

/// The lists that can have rows about a key, with the role of its address.
const LISTS: [(SubscriptionId, &str); 6] = [
    (builtin::TALKERS, "conversation"),
    (builtin::SERVICES, "service"),
    (builtin::SOURCES, "sent"),
    (builtin::DESTINATIONS, "received"),
    (builtin::FLOWS, "flow"),
    (builtin::PROTOCOLS, "protocol"),
];
/// Rows of lists about an address.
const ROWS: usize = 8;

/// Draws the details of a key.
pub fn detail(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, key: &Key, palette: Palette) {
    let applications = Applications::of(view.total);
    let naming = Naming::of(&applications, view.names);
    let rest = titled(frame, area, "DETAILS", "Esc goes back, / filters these packets", palette);
    let mut lines = vec![key_text(key, naming), format!("packets: {}", label::expression(key))];
    if let Key::Talker { server, port, protocol, .. } = *key {
        lines.push(service(naming, protocol, port, Some(server)));
    } else if let Key::Port { protocol, port } = *key {
        lines.push(service(naming, protocol, port, None));
    }
    let mut rows = Vec::new();
    for (list, role) in LISTS {
        let Some(top) = top_of(view.total, list) else { continue };
        if let Some(row) = row_of(top, key) {
            rows.push(figures_of(role.to_owned(), row, top, view, list));
        }
    }
    // What an address does, and what a service serves.
    if let Some(top) = top_of(view.total, builtin::TALKERS) {
        let mut ranked = top.ranked();
        ranked.retain(|row| concerns(&row.key, key));
        for row in ranked.iter().take(ROWS) {
            rows.push(figures_of(key_text(&row.key, naming), row, top, view, builtin::TALKERS));
        }
    }
    let mut y = rest.y;
    for text in lines {
        if y < rest.bottom() {
            let line = Line::raw(figures::fit(&text, rest.width.into()));
            frame.render_widget(line, Rect { y, height: 1, ..rest });
        }
        y = y.saturating_add(1);
    }
    y = y.saturating_add(1).min(rest.bottom());
    let below = Rect { y, height: rest.bottom() - y, ..rest };
    let titles = vec!["", "bits/s", "bytes", "packets", "flows"];
    FigureTable { titles, rows }.render(frame, below, palette);
}

fn row_of<'t>(top: &'t Top, key: &Key) -> Option<&'t TopRow> {
    top.rows.find(key)
}

/// Whether a conversation is one of an address or of a service.
fn concerns(talker: &Key, key: &Key) -> bool {
    let Key::Talker { server, port, client, protocol } = talker else { return false };
    match key {
        Key::Address(address) => address == server || address == client,
        Key::Port { protocol: of, port: number } => (of, number) == (protocol, port),
        Key::Protocol(of) => of == protocol,
        _ => false,
    }
}

fn service(naming: Naming<'_>, protocol: u8, port: u16, server: Option<std::net::IpAddr>) -> String {
    let registered = ports::service(protocol, port);
    match (naming.identified(protocol, port, server), registered) {
        (Some(found), Some(port)) => format!("identified: {found}; the port is registered for {port}"),
        (Some(found), None) => format!("identified: {found}"),
        (None, Some(port)) => format!("no protocol identified; the port is registered for {port}"),
        (None, None) => "no protocol identified".to_owned(),
    }
}

fn figures_of(name: String, row: &TopRow, top: &Top, view: &LiveView<'_>, list: SubscriptionId) -> FigureRow {
    let now = top_of(view.last, list).and_then(|last| row_of(last, &row.key));
    let [bits, _] = rates(now.map(|row| row.count).unwrap_or_default(), view.last.interval);
    let error = error_share(row.error, row.count.in_unit(top.unit));
    let error = error.map(|error| format!(" {error}")).unwrap_or_default();
    let cells = vec![
        name,
        bits,
        format!("{}{error}", figures::bytes(row.count.bytes)),
        figures::count(row.count.packets),
        figures::count(row.flows),
    ];
    FigureRow { cells, share: (0, 0) }
}
