//! Expressions, compiled where they stand so that a mistake is shown in its line.

use super::fault::Fault;
use super::read::{Node, Reader};
use weir_filter::{Filter, FilterError, Options};

/// Reads an expression that compiles; an empty one is every packet.
pub fn read(r: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    let text = r.string(node)?;
    if let Err(error) = compile(text) {
        let at = r.inside(node, error.span.start)..r.inside(node, error.span.end);
        r.faults.push(Fault::new(at, error.message));
        return None;
    }
    Some(text.to_owned())
}

/// Whether an expression compiles.
pub fn compile(text: &str) -> Result<(), FilterError> {
    if text.trim().is_empty() { Ok(()) } else { Filter::compile(text, &Options::default()).map(drop) }
}
