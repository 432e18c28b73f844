//! The binary form of sets of numbers and of the senders of checksums.

use super::{Binary, Bytes, DecodeError, check};
use crate::senders::Sender;
use crate::{Bits, ChecksumSenders};
use std::net::IpAddr;

/// The number of values; then the values, or one bit for each number if they are more than [`Bits::FEW`].
impl Binary for Bits {
    fn write(&self, to: &mut Vec<u8>) {
        self.len().write(to);
        match self.words() {
            Some(words) => words.iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes())),
            None => self.iter().for_each(|number| number.write(to)),
        }
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let length = usize::read(from)?;
        let bits = if length > Bits::FEW {
            let mut words = Box::new([0; Bits::WORDS]);
            for word in words.iter_mut() {
                *word = u64::from_le_bytes(from.array()?);
            }
            Bits::of_words(words)
        } else {
            (0..length).map(|_| u16::read(from)).collect::<Result<_, _>>()?
        };
        check(bits.len() == length, "set of numbers")?;
        Ok(bits)
    }
}

impl Binary for ChecksumSenders {
    fn write(&self, to: &mut Vec<u8>) {
        let (wrong, right, received) = self.parts();
        wrong.len().write(to);
        for (sender, packets) in wrong {
            (sender.address, sender.protocol).write(to);
            packets.write(to);
        }
        right.write(to);
        received.iter().for_each(|set| set.write(to));
    }

    fn read(from: &mut Bytes<'_>) -> Result<Self, DecodeError> {
        let length = from.length()?;
        check(length <= Self::MAX, "number of senders")?;
        let mut wrong = std::collections::BTreeMap::new();
        for _ in 0..length {
            let (address, protocol) = <(IpAddr, u8)>::read(from)?;
            let packets = from.count()?;
            check(wrong.insert(Sender::new(address, protocol), packets).is_none(), "senders")?;
        }
        Ok(Self::from_parts(wrong, Binary::read(from)?, [Binary::read(from)?, Binary::read(from)?]))
    }
}
