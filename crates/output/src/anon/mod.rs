//! Anonymisation: what leaves the program tells nothing about whom it is.
//!
//! One [`Policy`] and one key make an [`Anonymiser`], and every way out goes through one: packets that are written,
//! rows and records of logs, and what is shown of an interval. Two that are made alike map alike, so each way out has its
//! own and shares nothing.
//!
//! Nothing here reads a clock or a file, nor draws a random number: the key comes from the caller.

mod address;
mod audit;
mod body;
mod dns;
mod field;
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

/// What becomes of what is said in packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Payload {
    /// Packets end behind the transport header, as if the snap length had cut them there.
    Cut,
    /// Bytes are 0. Messages of DNS are rewritten instead.
    #[default]
    Blank,
    /// It stays, but for what is known of it.
    Keep,
}

impl Payload {
    /// Every kind with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("cut", Self::Cut), ("blank", Self::Blank), ("keep", Self::Keep)];
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Treatment {
    /// It stays. An address is mapped all the same.
    Keep,
    /// Another one stands for it: the same for the same.
    Pseudonym,
    /// There is none.
    Drop,
    /// A text of the same length that says nothing.
    Blank,
}

impl Treatment {
    /// Every treatment with its name.
    pub const ALL: [(&'static str, Self); 4] =
        [("keep", Self::Keep), ("pseudonym", Self::Pseudonym), ("drop", Self::Drop), ("blank", Self::Blank)];
}

/// The classes of values that a policy tells apart, with their names.
pub const CLASSES: [(&str, Privacy); 8] = [
    ("name", Privacy::Name),
    ("address", Privacy::Address),
    ("url", Privacy::Url),
    ("user", Privacy::User),
    ("mail", Privacy::Mail),
    ("secret", Privacy::Secret),
    ("content", Privacy::Content),
    ("mark", Privacy::Fingerprint),
];

/// What becomes of what could tell somebody.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How addresses are mapped.
    pub mode: Mode,
    /// Of payload.
    pub payload: Payload,
    /// Nanoseconds that all times are moved by.
    pub shift: i64,
    /// Whether the first three bytes of hardware addresses stay, which tell the vendor.
    pub vendors: bool,
    /// Whether the last label of a name stays where it is a well-known one.
    pub top_domains: bool,
    /// What becomes of values, in the order of [`CLASSES`].
    pub treatments: [Treatment; CLASSES.len()],
    /// What becomes of single fields, over all else that is said of them; of two rules for one the first counts in
    /// records, and in packets the last.
    pub fields: Vec<FieldRule>,
}

impl Policy {
    /// What becomes of values of a class.
    pub fn treatment(&self, privacy: Privacy) -> Treatment {
        let at = CLASSES.iter().position(|(_, class)| *class == privacy);
        at.and_then(|at| self.treatments.get(at)).copied().unwrap_or(Treatment::Keep)
    }

    /// Sets what becomes of values of a class, by its name in [`CLASSES`].
    pub fn treat(&mut self, class: &str, treatment: Treatment) {
        let places = CLASSES.iter().zip(&mut self.treatments);
        places.filter(|((name, _), _)| *name == class).for_each(|(_, place)| *place = treatment);
    }

    /// Sets what a text such as `name=keep,url=drop` says.
    ///
    /// # Errors
    /// When it names no class or no treatment: which there are.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (class, treatment) =
                part.split_once('=').ok_or_else(|| format!("{part}: CLASS=TREATMENT is wanted"))?;
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
                // Anything may be in it.
                Privacy::Content | Privacy::Secret => Treatment::Drop,
                _ => Treatment::Pseudonym,
            }),
            fields: Vec::new(),
        }
    }
}

/// Maps everything by one policy and one key.
#[derive(Clone)]
pub struct Anonymiser {
    policy: Policy,
    addresses: Addresses,
    names: Names,
    cipher: Aes128,
    /// Lines of text that go over from one segment into the next, where payload is kept.
    directions: scrub::Directions,
    /// How often something random was wanted.
    drawn: u64,
}

impl Anonymiser {
    /// One of that policy and key.
    ///
    /// # Errors
    /// When the key is not one for the mode.
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

    /// An address, mapped.
    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        self.addresses.ip(address)
    }

    /// Bytes that one side of a stream says, which come in order, as they may be shown: `None` where nothing may be.
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

    /// A time, moved.
    pub fn time(&self, time: Time) -> Time {
        Time(time.0.saturating_add_signed(self.policy.shift))
    }

    /// A keyed number for a number: the same for the same.
    fn keyed(&self, tag: u8, bytes: &[u8]) -> u128 {
        let mut block = [0; 16];
        for (to, from) in block.iter_mut().zip([tag].iter().chain(bytes)) {
            *to = *from;
        }
        let mut block = GenericArray::from(block);
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    /// Maps a hardware address in its place. What is for all stays for all, and for a group for a group; the address of
    /// nobody stays too. Another one is marked as one that nobody's vendor gave, or keeps its vendor.
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

    /// The name of a flow, for one that says nothing of its ends and times. Never 0.
    pub fn id(&self, id: u64) -> u64 {
        (self.keyed(b'f', &id.to_be_bytes()) as u64).max(1)
    }
}
