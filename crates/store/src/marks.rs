//! What people say about events: mutes and acknowledgements.

use crate::StoreError;
use std::collections::HashMap;
use weir_api::Mute;
use weir_api::web::Acknowledgement;

/// Maximum number of mutes.
pub const MAX_MUTES: usize = 1000;
/// Maximum number of acknowledged events: of more, those that were acknowledged first are forgotten.
pub const MAX_ACKNOWLEDGED: usize = 100_000;

/// What people say about the events of a store. Other processes may read and write it at any time.
pub trait Marks: Send + Sync {
    /// All mutes, in the order of their numbers; those that have ended, too.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer version of the program has written it.
    fn mutes(&self) -> Result<Vec<Mute>, StoreError>;

    /// The mutes, if they may have changed since the last call of this value.
    ///
    /// # Errors
    ///
    /// As [`Marks::mutes`].
    fn changed_mutes(&self) -> Result<Option<Vec<Mute>>, StoreError>;

    /// Adds a mute, and returns its number; that of `mute` is not read. If there are [`MAX_MUTES`], the first one that has ended when
    /// `mute` was made is removed; `None` if none has.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a newer version of the program has written it.
    fn mute(&self, mute: &Mute) -> Result<Option<u64>, StoreError>;

    /// Removes a mute, and returns it; `None` if no mute has the number. What it has hidden stays hidden.
    ///
    /// # Errors
    ///
    /// As [`Marks::mute`].
    fn unmute(&self, number: u64) -> Result<Option<Mute>, StoreError>;

    /// Acknowledges events by their identifiers. A later acknowledgement replaces an earlier one.
    ///
    /// # Errors
    ///
    /// As [`Marks::mute`].
    fn acknowledge(&self, events: &[String], by: &Acknowledgement) -> Result<(), StoreError>;

    /// Those of the events that are acknowledged, by their identifiers.
    ///
    /// # Errors
    ///
    /// As [`Marks::mutes`].
    fn acknowledged(&self, events: &[String]) -> Result<HashMap<String, Acknowledgement>, StoreError>;
}
