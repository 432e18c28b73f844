//! The names of a flow.

use crate::{PROTOCOLS, Protocol};

/// The protocols of a flow, the first that was identified first: their positions in [`PROTOCOLS`], plus 1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Names([u8; 4]);

impl Names {
    /// Adds a protocol, if it is new and there is room.
    pub fn add(&mut self, protocol: &'static Protocol) {
        let at = PROTOCOLS.iter().position(|known| std::ptr::eq(*known, protocol));
        self.add_place(at.map_or(0, |at| at as u8 + 1));
    }

    /// Adds a protocol by its place.
    pub fn add_place(&mut self, place: u8) {
        let is_new = !self.0.contains(&place);
        if let Some(free) = self.0.iter_mut().find(|free| **free == 0).filter(|_| is_new) {
            *free = place;
        }
    }

    /// The places, in the order in which they were added.
    pub fn places(self) -> impl Iterator<Item = u8> + use<> {
        self.0.into_iter().filter(|place| *place != 0)
    }
}
