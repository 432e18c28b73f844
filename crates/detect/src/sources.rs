//! Files and lists that rules name.

use crate::reputation::Scores;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// What rules name that is not in their text.
pub trait Sources {
    /// The content of a file that a rule of the file `rules` names.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn read(&self, rules: &str, name: &str) -> Result<Vec<u8>, String>;

    /// The countries of addresses, if they are known.
    fn places(&self) -> Option<Arc<dyn Places>> {
        None
    }

    /// The scores of addresses in a category of reputations, if there is one of this name.
    fn reputations(&self, _category: &str) -> Option<Arc<Scores>> {
        None
    }
}

/// The countries of addresses.
pub trait Places: fmt::Debug + Send + Sync {
    /// The code of an address's country (ISO 3166-1 alpha-2), in upper case; `None` if it is not known.
    fn country(&self, address: IpAddr) -> Option<[u8; 2]>;
}

/// No file and no list: rules that name one are refused.
#[derive(Clone, Copy, Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn read(&self, _rules: &str, _name: &str) -> Result<Vec<u8>, String> {
        Err("no files are read here".to_owned())
    }
}
