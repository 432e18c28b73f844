//! State that keys change: pane, order, pause, and the expression in the editor.

use super::editor::{Edited, Editor};
use super::{PANES, Palette};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use weir_api::Key;
use weir_store::label;

/// The last row that can be selected.
const MAX_ROW: usize = 999;

/// An action of the run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// End the run after everything received is reported.
    Quit,
    /// Start or stop writing packets.
    Write,
    /// Apply this expression, which compiles; "" matches every packet.
    Filter(String),
    /// Draw now: the state of the screen has changed.
    Redraw,
}

/// Order of lists.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// By bytes in the last second.
    #[default]
    BytesNow,
    /// By packets in the last second.
    PacketsNow,
    /// By bytes since the start.
    Bytes,
    /// By packets since the start.
    Packets,
}

impl Order {
    fn next(self) -> Self {
        match self {
            Order::BytesNow => Order::PacketsNow,
            Order::PacketsNow => Order::Bytes,
            Order::Bytes => Order::Packets,
            Order::Packets => Order::BytesNow,
        }
    }

    /// Label of the order.
    pub fn name(self) -> &'static str {
        match self {
            Order::BytesNow => "by bits/s now",
            Order::PacketsNow => "by packets/s now",
            Order::Bytes => "by total bytes",
            Order::Packets => "by total packets",
        }
    }
}

/// State of the screen.
#[derive(Clone, Debug)]
pub struct ScreenState {
    /// The open pane, 1 to 9.
    pub pane: u8,
    /// Order of lists.
    pub order: Order,
    /// Whether the panes are paused.
    pub paused: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// The selected row of a list, from 0; `None` until a key selects one.
    pub selected: Option<usize>,
    /// Whether the selected row is to be opened when the screen is drawn next: only then its key is known.
    pub opens: bool,
    /// The key whose details are shown.
    pub detail: Option<Key>,
    /// The editor of the expression, while it is open.
    pub editor: Option<Editor>,
    /// Colours.
    pub palette: Palette,
}

impl ScreenState {
    /// The initial state: the overview, not paused.
    pub fn new(color: bool) -> Self {
        Self {
            pane: 1,
            order: Order::default(),
            paused: false,
            help: false,
            selected: None,
            opens: false,
            detail: None,
            editor: None,
            palette: Palette { color },
        }
    }

    /// Handles a key. `expression` is the initial text of an editor that opens.
    pub fn key(&mut self, key: KeyEvent, expression: &str) -> Option<Action> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Some(Action::Quit);
        }
        if let Some(editor) = &mut self.editor {
            return match editor.key(key) {
                Edited::Nothing => None,
                Edited::Changed => Some(Action::Redraw),
                Edited::Given(expression) => {
                    self.editor = None;
                    Some(Action::Filter(expression))
                }
                Edited::Left => {
                    self.editor = None;
                    Some(Action::Redraw)
                }
            };
        }
        if control || key.modifiers.contains(KeyModifiers::ALT) {
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Char('w') => return Some(Action::Write),
            KeyCode::Char('?') => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Enter if self.detail.is_some() => self.detail = None,
            KeyCode::Enter => self.opens = true,
            KeyCode::Down => self.selected = Some(self.selected.map_or(0, |row| row + 1).min(MAX_ROW)),
            KeyCode::Up => self.selected = Some(self.selected.unwrap_or(0).saturating_sub(1)),
            KeyCode::Home => self.selected = Some(0),
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('o') => self.order = self.order.next(),
            // Of a row with details, its packets.
            KeyCode::Char('/') => {
                let own = self.detail.as_ref().map(label::expression);
                self.editor = Some(Editor::new(own.as_deref().unwrap_or(expression)));
            }
            KeyCode::Char(digit @ '1'..='9') => self.open(digit as u8 - b'0'),
            KeyCode::Right | KeyCode::Tab => self.open(self.pane % PANES.len() as u8 + 1),
            KeyCode::Left | KeyCode::BackTab => self.open((self.pane + 7) % PANES.len() as u8 + 1),
            _ => return None,
        }
        Some(Action::Redraw)
    }

    fn open(&mut self, pane: u8) {
        self.pane = pane;
        self.help = false;
        (self.selected, self.detail) = (None, None);
    }
}
