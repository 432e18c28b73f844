//! The keys of Initial packets, which derive from the first packet (RFC 9001, 5.2; RFC 9369, 3.3).

use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::{BlockEncrypt, KeyInit};
use aes_gcm::{AeadInPlace, Aes128Gcm, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

/// Salt of version 1, and of drafts from the 33rd on.
const SALT_1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];
/// Salt of version 2.
const SALT_2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9,
    0xbd, 0x2e, 0xd9,
];
/// Salt of drafts 29 to 32.
const SALT_29: [u8; 20] = [
    0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43,
    0x90, 0xa8, 0x99,
];
/// Salt of drafts 23 to 28.
const SALT_23: [u8; 20] = [
    0xc3, 0xee, 0xf7, 0x12, 0xc7, 0x2e, 0xbb, 0x5a, 0x11, 0xa7, 0xd2, 0x43, 0x2b, 0xb4, 0x63, 0x65, 0xbe,
    0xf9, 0xf5, 0x02,
];

/// Version 2 (RFC 9369).
pub(crate) const VERSION_2: u32 = 0x6b33_43cf;

/// Salts that a version may use, the most likely one first.
fn salts(version: u32) -> &'static [[u8; 20]] {
    match version {
        1 | 0xff00_0021..=0xff00_0022 => &[SALT_1],
        VERSION_2 => &[SALT_2],
        0xff00_001d..=0xff00_0020 => &[SALT_29],
        0xff00_0017..=0xff00_001c => &[SALT_23],
        // Experimental versions of one vendor, based on different drafts.
        0xface_b000..=0xface_b0ff => &[SALT_23, SALT_29, SALT_1],
        _ => &[],
    }
}

/// The keys of one side.
struct Side {
    packet: Aes128Gcm,
    iv: [u8; 12],
    header: Aes128,
    /// The number of the last packet.
    last: Option<u64>,
}

/// The keys of both sides.
pub(crate) struct Keys {
    client: Side,
    server: Side,
}

fn label(secret: &Hkdf<Sha256>, label: &str, out: &mut [u8]) -> Option<()> {
    let mut info = Vec::with_capacity(32);
    info.extend((out.len() as u16).to_be_bytes());
    info.push(u8::try_from(label.len() + 6).ok()?);
    info.extend(b"tls13 ");
    info.extend(label.as_bytes());
    info.push(0);
    secret.expand(&info, out).ok()
}

impl Side {
    fn new(initial: &Hkdf<Sha256>, name: &str, version: u32) -> Option<Self> {
        let mut secret = [0; 32];
        label(initial, name, &mut secret)?;
        let secret = Hkdf::<Sha256>::from_prk(&secret).ok()?;
        let names = match version {
            VERSION_2 => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
            _ => ["quic key", "quic iv", "quic hp"],
        };
        let (mut key, mut iv, mut header) = ([0; 16], [0; 12], [0; 16]);
        let [key_name, iv_name, header_name] = names;
        label(&secret, key_name, &mut key)?;
        label(&secret, iv_name, &mut iv)?;
        label(&secret, header_name, &mut header)?;
        let packet = Aes128Gcm::new_from_slice(&key).ok()?;
        Some(Self { packet, iv, header: Aes128::new_from_slice(&header).ok()?, last: None })
    }

    fn open(&mut self, packet: &[u8], number_at: usize) -> Option<Vec<u8>> {
        // The packet number is assumed to have four bytes, and the bytes after them mask it (RFC 9001, 5.4.2).
        let sample = packet.get(number_at + 4..number_at + 20)?;
        let mut mask = *aes_gcm::aes::Block::from_slice(sample);
        self.header.encrypt_block(&mut mask);
        let [first_mask, number_mask @ ..] = mask.first_chunk::<5>()?;
        let first = packet.first()? ^ (first_mask & 0x0f);
        let length = usize::from(first & 3) + 1;
        let (head, body) = packet.split_at_checked(number_at + length)?;
        let mut head = head.to_vec();
        *head.first_mut()? = first;
        let mut short = 0;
        for (byte, mask) in head.get_mut(number_at..)?.iter_mut().zip(number_mask) {
            *byte ^= mask;
            short = short << 8 | u64::from(*byte);
        }
        let number = whole(short, length, self.last);
        let mut nonce = self.iv;
        for (byte, part) in nonce.iter_mut().skip(4).zip(number.to_be_bytes()) {
            *byte ^= part;
        }
        let (body, tag) = body.split_at_checked(body.len().checked_sub(16)?)?;
        let mut body = body.to_vec();
        let (nonce, tag) = (Nonce::from_slice(&nonce), Tag::from_slice(tag));
        self.packet.decrypt_in_place_detached(nonce, &head, &mut body, tag).ok()?;
        self.last = self.last.max(Some(number));
        Some(body)
    }
}

/// A packet's number from its last bytes (RFC 9000, A.3).
fn whole(short: u64, bytes: usize, last: Option<u64>) -> u64 {
    let Some(expected) = last.map(|last| last + 1) else { return short };
    let window = 1_u64 << (8 * bytes);
    let candidate = expected & !(window - 1) | short;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

impl Keys {
    /// All possible keys of a connection whose client first used this identifier.
    pub fn of(version: u32, identifier: &[u8]) -> impl Iterator<Item = Self> {
        salts(version).iter().filter_map(move |salt| {
            let (_, initial) = Hkdf::<Sha256>::extract(Some(salt), identifier);
            let client = Side::new(&initial, "client in", version)?;
            Some(Self { client, server: Side::new(&initial, "server in", version)? })
        })
    }

    /// The decrypted content of a packet whose number is at that position; `None` if it was not encrypted with these
    /// keys.
    pub fn open(&mut self, packet: &[u8], number_at: usize, is_client: bool) -> Option<Vec<u8>> {
        let side = if is_client { &mut self.client } else { &mut self.server };
        side.open(packet, number_at)
    }
}

/// Whether packets of a version can be decrypted.
pub(crate) fn is_known(version: u32) -> bool {
    !salts(version).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::hex;

    /// RFC 9001, A.1 and RFC 9369, A.1.
    #[test]
    fn keys_equal_the_examples_of_the_rfcs() {
        let identifier = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        let first = Keys::of(1, &identifier).next().unwrap();
        assert_eq!(hex(&first.client.iv), "fa044b2f42a3fd3b46fb255c");
        assert_eq!(hex(&first.server.iv), "0ac1493ca1905853b0bba03e");
        let second = Keys::of(VERSION_2, &identifier).next().unwrap();
        assert_eq!(hex(&second.client.iv), "91f73e2351d8fa91660e909f");
        // The sample of A.2 and its mask.
        let mut mask = *aes_gcm::aes::Block::from_slice(&[
            0xd1, 0xb1, 0xc9, 0x8d, 0xd7, 0x68, 0x9f, 0xb8, 0xec, 0x11, 0xd2, 0x42, 0xb1, 0x23, 0xdc, 0x9b,
        ]);
        first.client.header.encrypt_block(&mut mask);
        assert_eq!(hex(&mask[..5]), "437b9aec36");
    }

    #[test]
    fn packet_numbers_are_restored() {
        assert_eq!(whole(0x9b32, 2, Some(0xa82f_30ea)), 0xa82f_9b32);
        assert_eq!(whole(3, 1, None), 3);
        assert_eq!(whole(0, 1, Some(255)), 256);
    }
}
