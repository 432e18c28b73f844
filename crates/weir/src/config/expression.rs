//! Expressions, compiled where they stand so that a mistake is shown in its line.

use super::fault::Fault;
use super::read::{Node, Reader};
use std::collections::HashSet;
use weir_filter::{FilterError, Options};

/// Texts that were found to compile: charts have many lines in common.
#[derive(Debug, Default)]
pub struct Known(HashSet<String>);

impl Known {
    /// Whether an expression compiles.
    pub fn check(&mut self, text: &str) -> Result<(), FilterError> {
        if !text.trim().is_empty() && !self.0.contains(text) {
            weir_filter::check(text, &Options::default())?;
            self.0.insert(text.to_owned());
        }
        Ok(())
    }
}

/// Reads an expression that compiles; an empty one is every packet.
pub fn read(r: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    let text = r.string(node)?;
    if let Err(error) = r.known.check(text) {
        let at = r.inside(node, error.span.start)..r.inside(node, error.span.end);
        r.faults.push(Fault::new(at, error.message));
        return None;
    }
    Some(text.to_owned())
}
