//! The full-screen view of a live run.
//!
//! [`render`] draws a [`LiveView`], which the collector fills, by a [`ScreenState`], which keys change; neither
//! knows a terminal or a clock. [`Screen`] is the terminal around them, and puts it back whatever happens.

mod editor;
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
use weir_api::{Count, Ledger, Reading, Snapshot};
use weir_output::figures;

/// What there is to be seen at a moment.
#[derive(Clone, Copy, Debug)]
pub struct LiveView<'a> {
    /// What is listened to.
    pub interfaces: &'a [String],
    /// The expression of the run; empty for every packet.
    pub expression: &'a str,
    /// When the run began, in nanoseconds since the epoch.
    pub started: u64,
    /// Now, likewise.
    pub now: u64,
    /// The last whole second.
    pub last: &'a Snapshot,
    /// Everything since the run began, or since the expression was changed.
    pub total: &'a Snapshot,
    /// The seconds before, since the run began.
    pub history: &'a History,
    /// How full the fullest ring is, from 0 to 1, where that is known.
    pub ring_fill: Option<f64>,
    /// The file that packets are written to, if they are.
    pub writing: Option<&'a str>,
    /// Whether well-known ports are named.
    pub names: bool,
    /// What was to be said last: an interface that went down, a file that cannot be written.
    pub notice: Option<&'a str>,
}

/// Packets and bytes of each of the last seconds, the newest last, and what became of every packet of the run.
#[derive(Clone, Debug, Default)]
pub struct History {
    seconds: VecDeque<Count>,
    ledger: Ledger,
}

impl History {
    /// Most seconds that are kept: more than the widest terminal has columns.
    pub const SECONDS: usize = 1024;

    /// Adds a second: what matched, where the run counts that by time, else what was caught.
    pub fn push(&mut self, second: &Snapshot) {
        let matched = second.answers.iter().find_map(|answer| match &answer.reading {
            Reading::Series(series) => Some(&series.cells),
            _ => None,
        });
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

    /// How many seconds there are, at most `n`.
    fn known(&self, n: usize) -> usize {
        self.seconds.len().min(n)
    }

    /// The last `n` seconds, oldest first; zeros where there are not so many.
    fn last(&self, n: usize) -> Vec<Count> {
        let missing = n.saturating_sub(self.seconds.len());
        let skipped = self.seconds.len().saturating_sub(n);
        std::iter::repeat_n(Count::default(), missing)
            .chain(self.seconds.iter().skip(skipped).copied())
            .collect()
    }
}

/// How things are set off. Colour is never the only cue.
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
    ["overview", "talkers", "services", "sources", "destinations", "flows", "protocols", "errors", "ledger"];

/// Their names on a terminal of 80 columns.
const SHORT: [&str; 9] = ["over", "talk", "serv", "src", "dst", "flow", "proto", "err", "ledger"];

/// Draws the view. `frozen` is what a paused screen shows in its place; the loss line is never frozen.
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
    } else {
        body(frame, rows.body, shown, state);
    }
    match &state.editor {
        Some(editor) => editor.render(frame, rows.foot, palette),
        None => frame.render_widget(foot(view, state, area.width), rows.foot),
    }
    frame.render_widget(loss(view, palette, area.width), rows.loss);
}

/// What is where. The loss line has its row first, then the header, then the rest as far as there is room.
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

/// What is watched, for how long, and how much goes by.
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
        format!("{}/s", figures::counted(view.last.flows.created, "new flow")),
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

/// The panes by their keys, the open one in brackets: with as much of their names as there is room for.
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
    let keys = "/ filter  p pause  w write  o order  ? help  q quit";
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
