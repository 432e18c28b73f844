//! The lines `elog`: texts about triggers that go on and off, as Ourmon's event log has them.
//!
//! `elog: NAME trigger on, SUBJECT, current count: N, threshold: M`, and `trigger off` with the `highest count`, or the `lowest` where the
//! number passes below the threshold. A reading without keys has no subject.

use super::{host, plain};
use weir_api::{Event, EventState, Subject};

/// Maximum number of texts in a file. Of more, the first are written, and the number of the others.
const MOST: usize = 1024;

/// A trigger that compares a number with a threshold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TriggerThreshold {
    /// Its name.
    pub name: String,
    /// The name of the subscription that finds its events.
    pub subscription: String,
    /// The threshold, as it is written.
    pub threshold: String,
    /// Whether numbers pass that are below it.
    pub is_below: bool,
}

impl TriggerThreshold {
    /// The text about an event that begins or ends; `None` if it goes on.
    fn text(&self, event: &Event) -> Option<String> {
        let (number, extreme) = if self.is_below { ("least", "lowest") } else { ("most", "highest") };
        let (state, which) = match event.state {
            EventState::Begin => ("on", "current"),
            EventState::Update => return None,
            EventState::End => ("off", extreme),
        };
        let subject = match &event.subject {
            Subject::Key(text) if **text == *"all" => String::new(),
            Subject::Host(address) => format!(" {},", host(*address)),
            subject => format!(" {},", plain(&subject.to_string())),
        };
        let (name, number) = (plain(&self.name), event.number(number)?);
        let threshold = plain(&self.threshold);
        Some(format!("{name} trigger {state},{subject} {which} count: {number}, threshold: {threshold}"))
    }
}

/// The texts of a file.
#[derive(Default)]
pub(super) struct Texts {
    first: Vec<String>,
    /// Number of further ones.
    further: u64,
}

impl Texts {
    /// Adds the text about an event, if it is of one of these triggers.
    pub fn add(&mut self, event: &Event, triggers: &[TriggerThreshold]) {
        let Some(origin) = &event.origin else { return };
        let trigger = triggers.iter().find(|trigger| *trigger.subscription == *origin.subscription);
        let Some(text) = trigger.and_then(|trigger| trigger.text(event)) else { return };
        match self.first.len() < MOST {
            true => self.first.push(text),
            false => self.further += 1,
        }
    }

    /// The lines.
    pub fn lines(&self) -> String {
        let mut lines: String = self.first.iter().map(|text| format!("elog: {text}\n")).collect();
        if self.further > 0 {
            lines += &format!("elog: {} more texts about triggers\n", self.further);
        }
        lines
    }

    /// Removes all texts.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
