//! The full-screen view of a live run.
//!
//! [`render`] draws a [`LiveView`], which the collector fills, according to a [`ScreenState`], which keys change.
//! Neither depends on a terminal or a clock. [`Screen`] owns the terminal and restores it in every case.

mod detail;
mod editor;
mod entry;
mod hosts;
mod panes;
mod screen;
mod state;
mod table;

pub use screen::Screen;
pub use state::{Action, ScreenState};

use crate::live::panes::{body, loss};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::VecDeque;
use std::time::Duration;
use weir_api::{Count, Ledger, Snapshot};
use weir_output::figures;

/// Data of one screen.
#[derive(Clone, Copy, Debug)]
pub struct LiveView<'a> {
    /// Interfaces of the capture.
    pub interfaces: &'a [String],
    /// The expression of the run; empty for every packet.
    pub expression: &'a str,
    /// Start of the run, in nanoseconds since the epoch.
    pub started: u64,
    /// Current time, in nanoseconds since the epoch.
    pub now: u64,
    /// The last whole second.
    pub last: &'a Snapshot,
    /// Totals since the start, or since the expression was changed.
    pub total: &'a Snapshot,
    /// The last seconds of the run.
    pub history: &'a History,
    /// Fill level of the fullest ring, from 0 to 1, if known.
    pub ring_fill: Option<f64>,
    /// File that packets are written to, if any.
    pub writing: Option<&'a str>,
    /// Whether ports have service names.
    pub names: bool,
    /// The last notice, such as an interface that went down or a file that cannot be written.
    pub notice: Option<&'a str>,
}

/// Packets and bytes of the last seconds, newest last, and the ledger of the run.
#[derive(Clone, Debug, Default)]
pub struct History {
    seconds: VecDeque<Count>,
    ledger: Ledger,
}

impl History {
    /// Maximum seconds kept: more than the columns of the widest terminal.
    pub const SECONDS: usize = 1024;

    /// Adds a second: the number of packets that matched, if the run counts it, else of those caught.
    pub fn push(&mut self, second: &Snapshot) {
        let matched = weir_output::summary::series(second).map(|series| &series.cells);
        let count = match matched {
            None => Count { packets: second.ledger.caught, bytes: second.ledger.bytes },
            Some(cells) => cells.iter().fold(Count::default(), |mut sum, cell| {
                sum.add(cell);
                sum
            }),
        };
        self.ledger.add(&second.ledger);
        if self.seconds.len() == Self::SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(count);
    }

    /// Number of seconds kept, at most `n`.
    fn known(&self, n: usize) -> usize {
        self.seconds.len().min(n)
    }

    /// The last `n` seconds, oldest first, padded with zeros at the front.
    fn last(&self, n: usize) -> Vec<Count> {
        let missing = n.saturating_sub(self.seconds.len());
        let skipped = self.seconds.len().saturating_sub(n);
        std::iter::repeat_n(Count::default(), missing)
            .chain(self.seconds.iter().skip(skipped).copied())
            .collect()
    }
}

/// Styles of the screen. Colour is never the only cue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Palette {
    /// Whether colours may be used.
    pub color: bool,
}

impl Palette {
    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn title(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn bar(self) -> Style {
        self.colored(Color::Blue)
    }

    fn faint(self) -> Style {
        self.colored(Color::DarkGray)
    }

    fn bad(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// The panes, in the order of their keys.
pub const PANES: [&str; 9] =
    ["overview", "talkers", "services", "hosts", "findings", "flows", "protocols", "errors", "ledger"];

/// Short names for a terminal of 80 columns.
const SHORT: [&str; 9] = ["over", "talk", "serv", "host", "find", "flow", "proto", "err", "ledger"];

/// Draws the view. `frozen` replaces it in the panes while the screen is paused; the loss line is always current.
pub fn render(
    frame: &mut Frame<'_>,
    view: &LiveView<'_>,
    frozen: Option<&LiveView<'_>>,
    state: &ScreenState,
) {
    let area = frame.area();
    let rows = Rows::of(area, state.editor.is_some());
    let palette = state.palette;
    let shown = frozen.unwrap_or(view);
    frame.render_widget(header(shown, state, area.width), rows.header);
    frame.render_widget(tabs(state, area.width), rows.tabs);
    if state.help {
        panes::help(frame, rows.body, palette);
    } else if let Some(key) = &state.detail {
        detail::detail(frame, rows.body, shown, key, palette);
    } else {
        body(frame, rows.body, shown, state);
    }
    match &state.editor {
        Some(editor) => editor.render(frame, rows.foot, palette),
        None => frame.render_widget(foot(view, state, area.width), rows.foot),
    }
    frame.render_widget(loss(view, palette, area.width), rows.loss);
}

/// Rows of the screen. The loss line has priority, then the header, then the rest.
struct Rows {
    header: Rect,
    tabs: Rect,
    body: Rect,
    foot: Rect,
    loss: Rect,
}

impl Rows {
    fn of(area: Rect, editing: bool) -> Self {
        let mut left = area.height;
        let mut take = |wanted: u16| {
            let got = wanted.min(left);
            left -= got;
            got
        };
        let loss = take(1);
        let foot = take(if editing { 2 } else { 0 });
        let header = take(1);
        let foot = foot + if editing || area.height < 6 { 0 } else { take(1) };
        let tabs = if area.height < 6 { 0 } else { take(1) };
        let body = left;
        let row = |y: u16, height: u16| Rect { x: area.x, y: area.y + y, width: area.width, height };
        Self {
            header: row(0, header),
            tabs: row(header, tabs),
            body: row(header + tabs, body),
            foot: row(header + tabs + body, foot),
            loss: row(area.height - loss, loss),
        }
    }
}

/// Rates, interfaces, running time and expression.
fn header(view: &LiveView<'_>, state: &ScreenState, width: u16) -> Line<'static> {
    let rate = view.history.last(1).first().copied().unwrap_or_default();
    let running = Duration::from_nanos(view.now.saturating_sub(view.started));
    let mut parts = vec![
        format!(
            "{}  {}",
            figures::bit_rate(rate.bytes as f64 * 8.0),
            figures::packet_rate(rate.packets as f64)
        ),
        view.interfaces.join(","),
        clock(running),
        format!("{}/s", figures::counted(view.last.flows.begun(), "new flow")),
    ];
    if !view.expression.trim().is_empty() {
        parts.push(view.expression.to_owned());
    }
    let mut marks = String::new();
    if state.paused {
        marks.push_str("PAUSED  ");
    }
    if let Some(file) = view.writing {
        marks.push_str(&format!("WRITING {}  ", figures::printable(file)));
    }
    let text = figures::fit(&parts.join("   "), usize::from(width).saturating_sub(figures::width(&marks)));
    Line::from(vec![Span::styled(marks, state.palette.bad()), Span::styled(text, state.palette.strong())])
}

/// The panes with their keys, the open one in brackets; names are shortened to fit.
fn tabs(state: &ScreenState, width: u16) -> Line<'static> {
    let named = |names: &[&'static str; 9], brackets: usize| {
        let wide: usize = names.iter().map(|name| name.len() + brackets).sum();
        (wide <= usize::from(width)).then_some(*names)
    };
    let names = named(&PANES, 4).or_else(|| named(&SHORT, 4));
    let spans = PANES.iter().enumerate().map(|(at, name)| {
        let open = at + 1 == usize::from(state.pane);
        match (open, names) {
            (true, names) => Span::styled(
                format!("[{} {}]", at + 1, names.map_or(*name, |names| names[at])),
                state.palette.title(),
            ),
            (false, Some(names)) => Span::raw(format!(" {} {} ", at + 1, names[at])),
            (false, None) => Span::styled(format!(" {}", at + 1), state.palette.faint()),
        }
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// The last notice, else the keys.
fn foot(view: &LiveView<'_>, state: &ScreenState, width: u16) -> Line<'static> {
    let keys = "/ filter  Enter details  p pause  w write  o order  ? help  q quit";
    match view.notice {
        Some(notice) => Line::styled(figures::fit(notice, width.into()), state.palette.strong()),
        None => Line::styled(figures::fit(keys, width.into()), state.palette.faint()),
    }
}

/// Hours, minutes and seconds.
fn clock(running: Duration) -> String {
    let seconds = running.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
