//! Files and lists that rules name.

/// What rules name that is not in their text.
pub trait Sources {
    /// The content of a file that a rule of the file `rules` names.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn read(&self, rules: &str, name: &str) -> Result<Vec<u8>, String>;

    /// Whether the countries of addresses are known.
    fn has_places(&self) -> bool {
        false
    }

    /// Whether reputations of a category are known.
    fn has_reputation(&self, _category: &str) -> bool {
        false
    }
}

/// No file and no list: rules that name one are refused.
#[derive(Clone, Copy, Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn read(&self, _rules: &str, _name: &str) -> Result<Vec<u8>, String> {
        Err("no files are read here".to_owned())
    }
}
