//! Setup, drawing and restoration of the terminal.

use super::{Action, History, LiveView, ScreenState, panes, render};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;
use weir_api::Snapshot;

/// The full screen of a terminal. The terminal is restored on drop, and before a panic message.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    state: ScreenState,
    /// The data shown while the screen is paused.
    frozen: Option<Frozen>,
    /// Initial text of the editor.
    expression: String,
}

/// The data of a paused view.
struct Frozen {
    last: Snapshot,
    total: Snapshot,
    history: History,
    now: u64,
}

/// Whether the full screen is active.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Held while a panic message is printed, so that no screen opens meanwhile.
static PANICKING: Mutex<()> = Mutex::new(());

impl Screen {
    /// Sets the terminal up. Colours are off if NO_COLOR is set (no-color.org).
    ///
    /// # Errors
    /// Standard output is not a terminal, or it cannot be set up.
    pub fn open() -> io::Result<Self> {
        let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        give_back_on_panic();
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).inspect_err(|_| give_back())?;
        Ok(Self { terminal, state: ScreenState::new(color), frozen: None, expression: String::new() })
    }

    /// Draws the view.
    ///
    /// # Errors
    /// The terminal is closed.
    pub fn show(&mut self, view: &LiveView<'_>) -> io::Result<()> {
        if !TAKEN.load(Ordering::Relaxed) {
            // Another thread has panicked and printed its message on the normal screen.
            drop(PANICKING.lock().unwrap_or_else(PoisonError::into_inner));
            take()?;
            self.terminal.clear()?;
        }
        view.expression.clone_into(&mut self.expression);
        match (self.state.paused, &self.frozen) {
            (true, None) => {
                self.frozen = Some(Frozen {
                    last: view.last.clone(),
                    total: view.total.clone(),
                    history: view.history.clone(),
                    now: view.now,
                });
            }
            (false, Some(_)) => self.frozen = None,
            _ => {}
        }
        let frozen = self.frozen.as_ref().map(|frozen| LiveView {
            last: &frozen.last,
            total: &frozen.total,
            history: &frozen.history,
            now: frozen.now,
            ..*view
        });
        if std::mem::take(&mut self.state.opens) {
            self.state.detail = panes::selected(frozen.as_ref().unwrap_or(view), &self.state);
        }
        self.terminal.draw(|frame| render(frame, view, frozen.as_ref(), &self.state))?;
        Ok(())
    }

    /// Waits for a key, at most `patience`. [`Action::Redraw`] means that the view must be drawn again.
    ///
    /// # Errors
    /// The terminal is closed.
    pub fn poll(&mut self, patience: Duration) -> io::Result<Option<Action>> {
        if !event::poll(patience)? {
            return Ok(None);
        }
        let mut found = None;
        // All waiting keys are handled at once, up to the first with an action of the run.
        loop {
            let action = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => self.state.key(key, &self.expression),
                Event::Resize(..) => Some(Action::Redraw),
                _ => None,
            };
            found = action.or(found);
            let act = found.as_ref().is_some_and(|action| *action != Action::Redraw);
            if act || !event::poll(Duration::ZERO)? {
                return Ok(found);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::Relaxed);
    execute!(io::stdout(), EnterAlternateScreen).inspect_err(|_| give_back())
}

/// Restores the terminal. Errors are ignored.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal before a panic message, which would be lost with the alternate screen.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _panicking = PANICKING.lock().unwrap_or_else(PoisonError::into_inner);
            give_back();
            print(panic);
        }));
    });
}
