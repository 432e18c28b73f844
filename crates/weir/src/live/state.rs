//! What keys change: which pane, in which order, paused or not, and the expression being edited.

use super::editor::{Edited, Editor};
use super::{PANES, Palette};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the run is to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// End, after everything received has been reported.
    Quit,
    /// Begin to write the packets that are seen, or stop it.
    Write,
    /// Look at the packets that this expression matches, every packet if it is empty. It compiles.
    Filter(String),
    /// Nothing, but what is shown has changed: draw now.
    Redraw,
}

/// How lists are ordered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// By bytes in the last second.
    #[default]
    BytesNow,
    /// By packets in the last second.
    PacketsNow,
    /// By bytes since the beginning.
    Bytes,
    /// By packets since the beginning.
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

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Order::BytesNow => "by bits/s now",
            Order::PacketsNow => "by packets/s now",
            Order::Bytes => "by bytes in all",
            Order::Packets => "by packets in all",
        }
    }
}

/// What is shown and how.
#[derive(Clone, Debug)]
pub struct ScreenState {
    /// The open pane, 1 to 9.
    pub pane: u8,
    /// How lists are ordered.
    pub order: Order,
    /// Whether the panes stand still.
    pub paused: bool,
    /// Whether the keys are explained.
    pub help: bool,
    /// The expression that is being edited, if one is.
    pub editor: Option<Editor>,
    /// How things are set off.
    pub palette: Palette,
}

impl ScreenState {
    /// The overview, running.
    pub fn new(color: bool) -> Self {
        Self {
            pane: 1,
            order: Order::default(),
            paused: false,
            help: false,
            editor: None,
            palette: Palette { color },
        }
    }

    /// Takes a key. `expression` is what an editor that opens now begins with.
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
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('o') => self.order = self.order.next(),
            KeyCode::Char('/') => self.editor = Some(Editor::new(expression)),
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
    }
}
