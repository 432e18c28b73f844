//! Anonymisation of everything that leaves the program.
//!
//! A [`Policy`] and a key make an [`Anonymiser`]. Every output has one: written packets, rows and records of logs, and
//! snapshots. Equal policies and keys map alike, so that each output has its own anonymiser and nothing is shared.
//!
//! This crate reads no clock and no file and draws no random number: the key comes from the caller.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod address;
mod audit;
mod body;
mod dns;
mod field;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../output/src/fixtures.rs"]
mod fixtures;
mod name;
mod packet;
mod record;
mod scrub;
#[cfg(test)]
mod tests;

pub use address::{Addresses, Key, Mode};
pub use audit::{Finder, Leak, Originals};
pub use field::{FUNCTIONS, FieldRule};
pub use name::Names;
pub use scrub::Lines;

use aes::Aes128;
use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockEncrypt, KeyInit};
use std::net::IpAddr;
use weir_proto::Privacy;
use weir_wire::Time;

/// Treatment of payload.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Payload {
    /// Packets end after the transport header, as if the snap length had cut them there.
    Cut,
    /// Bytes are set to 0. Messages of DNS are rewritten instead.
    #[default]
    Blank,
    /// Payload is kept, except its known private parts.
    Keep,
}

impl Payload {
    /// Every kind with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("cut", Self::Cut), ("blank", Self::Blank), ("keep", Self::Keep)];
}

/// Treatment of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Treatment {
    /// The value is kept. Addresses are mapped in any case.
    Keep,
    /// The value is replaced by a pseudonym; equal values have equal pseudonyms.
    Pseudonym,
    /// The value is absent.
    Drop,
    /// The value is replaced by a meaningless text of equal length.
    Blank,
}

impl Treatment {
    /// Every treatment with its name.
    pub const ALL: [(&'static str, Self); 4] =
        [("keep", Self::Keep), ("pseudonym", Self::Pseudonym), ("drop", Self::Drop), ("blank", Self::Blank)];
}

/// The classes of values of a policy, with their names.
pub const CLASSES: [(&str, Privacy); 8] = [
    ("name", Privacy::Name),
    ("address", Privacy::Address),
    ("url", Privacy::Url),
    ("user", Privacy::User),
    ("mail", Privacy::Mail),
    ("secret", Privacy::Secret),
    ("content", Privacy::Content),
    ("fingerprint", Privacy::Fingerprint),
];

/// The treatment of everything that could identify a person or a host.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The mapping of addresses.
    pub mode: Mode,
    /// Treatment of payload.
    pub payload: Payload,
    /// Nanoseconds that are added to all times.
    pub shift: i64,
    /// Whether the first three bytes of hardware addresses, which identify the vendor, are kept.
    pub vendors: bool,
    /// Whether the last label of a name is kept if it is a well-known top-level domain.
    pub top_domains: bool,
    /// Treatments of values, in the order of [`CLASSES`].
    pub treatments: [Treatment; CLASSES.len()],
    /// Treatments of single fields, which override all others. Of two rules for one field the first applies to
    /// records, and the last to packets.
    pub fields: Vec<FieldRule>,
}

impl Policy {
    /// The treatment of a class.
    pub fn treatment(&self, privacy: Privacy) -> Treatment {
        let at = CLASSES.iter().position(|(_, class)| *class == privacy);
        at.and_then(|at| self.treatments.get(at)).copied().unwrap_or(Treatment::Keep)
    }

    /// Sets the treatment of a class, by its name in [`CLASSES`].
    pub fn treat(&mut self, class: &str, treatment: Treatment) {
        let places = CLASSES.iter().zip(&mut self.treatments);
        places.filter(|((name, _), _)| *name == class).for_each(|(_, place)| *place = treatment);
    }

    /// Sets treatments from a text such as `name=keep,url=drop`.
    ///
    /// # Errors
    ///
    /// The text names an unknown class or treatment; the error lists the known ones.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (class, treatment) =
                part.split_once('=').ok_or_else(|| format!("{part}: expected CLASS=TREATMENT"))?;
            let names = |names: &[&str]| names.join(", ");
            let at = CLASSES.iter().position(|(name, _)| *name == class).ok_or_else(|| {
                format!("no class {class:?}; there are {}", names(&CLASSES.map(|(name, _)| name)))
            })?;
            let found = Treatment::ALL.iter().find(|(name, _)| *name == treatment).ok_or_else(|| {
                format!(
                    "no treatment {treatment:?}; there are {}",
                    names(&Treatment::ALL.map(|(name, _)| name))
                )
            })?;
            if let Some(place) = self.treatments.get_mut(at) {
                *place = found.1;
            }
        }
        Ok(())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            payload: Payload::default(),
            shift: 0,
            vendors: false,
            top_domains: true,
            treatments: CLASSES.map(|(_, class)| match class {
                // These fields may contain anything.
                Privacy::Content | Privacy::Secret => Treatment::Drop,
                _ => Treatment::Pseudonym,
            }),
            fields: Vec::new(),
        }
    }
}

/// Maps everything with one policy and one key.
#[derive(Clone)]
pub struct Anonymiser {
    policy: Policy,
    addresses: Addresses,
    names: Names,
    cipher: Aes128,
    /// Lines of text that continue in the next segment, if payload is kept.
    directions: scrub::Directions,
    /// Number of random values drawn.
    drawn: u64,
}

impl Anonymiser {
    /// Creates an anonymiser from policy and key.
    ///
    /// # Errors
    ///
    /// The key is not valid for the mode.
    pub fn new(policy: Policy, key: &Key) -> Result<Self, String> {
        let addresses = Addresses::new(policy.mode, key)?;
        let [first, second] = name::derive(key, b"macs and identifiers");
        let _ = second;
        let cipher = Aes128::new(&GenericArray::from(first));
        let names = Names::new(key, policy.top_domains);
        Ok(Self { policy, addresses, names, cipher, directions: scrub::Directions::default(), drawn: 0 })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Maps an address.
    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        self.addresses.ip(address)
    }

    /// Rewrites bytes of one direction of a stream, which must come in order. `None` if nothing may be shown.
    pub fn scrub(&mut self, lines: &mut Lines, scrub: &[u8]) -> Option<Vec<u8>> {
        match self.policy.payload {
            Payload::Cut => None,
            Payload::Blank => Some(vec![0; scrub.len()]),
            Payload::Keep => {
                let mut scrub = scrub.to_vec();
                lines.rewrite(self, &mut scrub, false);
                Some(scrub)
            }
        }
    }

    /// Shifts a time.
    pub fn time(&self, time: Time) -> Time {
        Time(time.0.saturating_add_signed(self.policy.shift))
    }

    /// A keyed hash; equal bytes give equal numbers.
    fn keyed(&self, tag: u8, bytes: &[u8]) -> u128 {
        let mut block = [0; 16];
        for (to, from) in block.iter_mut().zip([tag].iter().chain(bytes)) {
            *to = *from;
        }
        let mut block = GenericArray::from(block);
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    /// Maps a hardware address in place. Broadcast stays broadcast, a group address stays a group address, and zero
    /// stays zero. Other addresses become locally administered ones, or keep their vendor.
    pub fn mac(&self, place: &mut [u8]) {
        const GROUP: u8 = 1;
        const LOCAL: u8 = 2;
        if place.iter().all(|byte| *byte == 0xff) || place.iter().all(|byte| *byte == 0) {
            return;
        }
        let Some(mac) = place.first_chunk_mut::<6>() else { return };
        let group = mac.first().map_or(0, |first| first & GROUP);
        let before = *mac;
        let image = self.keyed(b'm', &before).to_be_bytes();
        for (to, from) in mac.iter_mut().zip(image) {
            *to = from;
        }
        if self.policy.vendors && group == 0 {
            for (to, from) in mac.iter_mut().zip(before).take(3) {
                *to = from;
            }
        } else if let Some(first) = mac.first_mut() {
            *first = *first & !GROUP | LOCAL | group;
        }
    }

    /// Maps the identifier of a flow, independent of its endpoints and times. Never 0.
    pub fn id(&self, id: u64) -> u64 {
        (self.keyed(b'f', &id.to_be_bytes()) as u64).max(1)
    }
}
