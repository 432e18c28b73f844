//! Expressions that were checked.

use std::collections::HashSet;
use weir_filter::{FilterError, Options};

/// Texts that compile. Charts have many lines in common.
#[derive(Debug, Default)]
pub struct Known(HashSet<String>);

impl Known {
    /// Checks that an expression compiles.
    pub fn check(&mut self, text: &str) -> Result<(), FilterError> {
        if !text.trim().is_empty() && !self.0.contains(text) {
            weir_filter::check(text, &Options::default())?;
            self.0.insert(text.to_owned());
        }
        Ok(())
    }
}
