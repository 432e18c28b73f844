//! The editor of the expression. It accepts only an expression that compiles.

use super::Palette;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use weir_filter::{Filter, Options};
use weir_output::figures;

/// Maximum characters of an expression.
const MAX_LENGTH: usize = 4096;

/// An expression, the cursor, and the error of the last attempt to apply it.
#[derive(Clone, Debug)]
pub struct Editor {
    text: Vec<char>,
    cursor: usize,
    error: Option<Mistake>,
}

/// An error in the expression and its character position.
#[derive(Clone, Debug)]
struct Mistake {
    at: usize,
    message: String,
}

/// Effect of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edited {
    /// None.
    Nothing,
    /// The line has changed.
    Changed,
    /// An expression that compiles, or "", is to be applied.
    Given(String),
    /// The editor is closed without a change.
    Left,
}

impl Editor {
    /// Opens the editor with an expression; the cursor is after it.
    pub fn new(expression: &str) -> Self {
        let text: Vec<char> = expression.chars().filter(|c| !c.is_control()).take(MAX_LENGTH).collect();
        Self { cursor: text.len(), text, error: None }
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Edited {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Edited::Left,
            KeyCode::Enter => return self.give(),
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('u') if control => self.cut(0),
            KeyCode::Char('w') if control => {
                let word = self.text[..self.cursor].iter().rposition(|c| *c != ' ').unwrap_or(0);
                self.cut(self.text[..word].iter().rposition(|c| *c == ' ').map_or(0, |space| space + 1));
            }
            // Terminals send either of two bytes for Backspace, and one of them is Ctrl-H.
            KeyCode::Backspace if self.cursor > 0 => self.cut(self.cursor - 1),
            KeyCode::Char('h') if control && self.cursor > 0 => self.cut(self.cursor - 1),
            KeyCode::Char(c) if !control && !c.is_control() && self.text.len() < MAX_LENGTH => {
                self.text.insert(self.cursor, c);
                self.cursor += 1;
                self.error = None;
            }
            KeyCode::Delete if self.cursor < self.text.len() => {
                self.text.remove(self.cursor);
                self.error = None;
            }
            _ => return Edited::Nothing,
        }
        Edited::Changed
    }

    /// Removes the characters between `from` and the cursor.
    fn cut(&mut self, from: usize) {
        self.text.drain(from..self.cursor);
        self.cursor = from;
        self.error = None;
    }

    fn give(&mut self) -> Edited {
        let text: String = self.text.iter().collect();
        if text.trim().is_empty() {
            return Edited::Given(String::new());
        }
        match Filter::compile(&text, &Options::default()) {
            Ok(_) => Edited::Given(text),
            Err(error) => {
                let at = text.char_indices().take_while(|(byte, _)| *byte < error.span.start).count();
                self.cursor = at;
                self.error = Some(Mistake { at, message: error.message });
                Edited::Changed
            }
        }
    }

    /// Draws the expression, and its error below it.
    pub fn render(&self, frame: &mut Frame<'_>, area: Rect, palette: Palette) {
        let room = usize::from(area.width).saturating_sub(2).max(1);
        // The line scrolls so that the cursor is visible.
        let skipped = (self.cursor + 1).saturating_sub(room);
        let shown: String = self.text.iter().skip(skipped).take(room).collect();
        let before: String = self.text.iter().skip(skipped).take(self.cursor - skipped).collect();
        let column = 1 + figures::width(&before);
        let line = Line::from(vec![Span::styled("/", palette.title()), Span::raw(shown)]);
        let [upper, lower] = [0, 1].map(|row| Rect { y: area.y + row, height: 1, ..area });
        if area.height > 0 {
            frame.render_widget(line, upper);
            let x = u16::try_from(column).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
            frame.set_cursor_position(Position { x: area.x + x, y: area.y });
        }
        if area.height > 1 {
            frame.render_widget(self.below(skipped, area.width.into(), palette), lower);
        }
    }

    fn below(&self, skipped: usize, width: usize, palette: Palette) -> Line<'static> {
        let Some(Mistake { at, message }) = &self.error else {
            let keys = "Enter: apply   Esc: cancel   empty: all packets";
            return Line::styled(figures::fit(keys, width), palette.faint());
        };
        let before: String = self.text.iter().skip(skipped).take(at.saturating_sub(skipped)).collect();
        let column = 1 + figures::width(&before);
        let text = if column + 3 + figures::width(message) <= width || column < width / 2 {
            format!("{}^ {message}", " ".repeat(column))
        } else {
            // Right of the middle the message is placed before the caret, truncated if necessary.
            let message = figures::fit(message, column.saturating_sub(1));
            format!("{}{message} ^", " ".repeat(column - 1 - figures::width(&message)))
        };
        Line::styled(figures::fit(&text, width), palette.bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, text: &str) {
        for c in text.chars() {
            editor.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
    }

    fn press(editor: &mut Editor, code: KeyCode, modifiers: KeyModifiers) -> Edited {
        editor.key(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn only_an_expression_that_compiles_is_applied() {
        let mut editor = Editor::new("tcp ");
        typed(&mut editor, "prot 80");
        assert_eq!(press(&mut editor, KeyCode::Enter, KeyModifiers::NONE), Edited::Changed);
        assert_eq!(editor.error.as_ref().map(|mistake| mistake.at), Some(4));
        press(&mut editor, KeyCode::End, KeyModifiers::NONE);
        for _ in 0..7 {
            press(&mut editor, KeyCode::Backspace, KeyModifiers::NONE);
        }
        typed(&mut editor, "port 80");
        assert_eq!(
            press(&mut editor, KeyCode::Enter, KeyModifiers::NONE),
            Edited::Given("tcp port 80".into())
        );
        press(&mut editor, KeyCode::Char('w'), KeyModifiers::CONTROL);
        assert_eq!(editor.text.iter().collect::<String>(), "tcp port ");
        press(&mut editor, KeyCode::Char('u'), KeyModifiers::CONTROL);
        assert_eq!(press(&mut editor, KeyCode::Enter, KeyModifiers::NONE), Edited::Given(String::new()));
        assert_eq!(press(&mut editor, KeyCode::Esc, KeyModifiers::NONE), Edited::Left);
    }

    /// Any keys at any cursor position, also with multi-byte characters.
    #[test]
    fn no_sequence_of_keys_causes_a_panic() {
        let keys = [
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Enter,
            KeyCode::Char('é'),
            KeyCode::Char('漢'),
            KeyCode::Char('w'),
            KeyCode::Char(' '),
            KeyCode::Char('u'),
        ];
        let mut state = 1_u64;
        let mut editor = Editor::new("tcp");
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let modifiers = if state >> 60 == 0 { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
            press(&mut editor, keys[(state >> 33) as usize % keys.len()], modifiers);
            assert!(editor.cursor <= editor.text.len());
        }
    }
}
