//! Mapping of addresses to other addresses.
//!
//! All mappings except `nullip` preserve prefixes: two addresses with exactly n equal leading bits are mapped to two
//! with exactly n equal leading bits. Such a mapping is a bit for each node of the binary tree of prefixes: whether
//! the next bit is flipped. The bit comes from a block cipher, so that it depends on the key alone and not on earlier
//! addresses: any number of workers and outputs map alike.

use aes::Aes128;
use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockEncrypt, KeyInit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::mapped;

/// The mapping of addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Every address is 0.0.0.0 or ::.
    Nullip,
    /// Prefix-preserving and random, for one run, like tcpdpriv's -A50. The key is not kept.
    Table,
    /// Prefix-preserving by a key, as in the reference implementation of Crypto-PAn (Xu, Fan, Ammar, Moon:
    /// "Prefix-preserving IP address anonymization", 2002), extended to 128 bits for IPv6.
    #[default]
    CryptoPan,
    /// Prefix-preserving by a key, as `ipcrypt-pfx` of draft-denis-ipcrypt-09 and later.
    IpCrypt,
}

impl Mode {
    /// Every mode with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("nullip", Self::Nullip),
        ("table", Self::Table),
        ("cryptopan", Self::CryptoPan),
        ("ipcrypt", Self::IpCrypt),
    ];

    /// Name of the mode.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }

    /// Whether two runs with one key map alike, so that the user may give the key.
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::CryptoPan | Self::IpCrypt)
    }
}

/// A key: 32 bytes. For Crypto-PAn the AES key and the pad before it is encrypted, for ipcrypt-pfx the two AES keys.
#[derive(Clone)]
pub struct Key(pub [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Number of leading bits with a precomputed table.
const TOP: u32 = 16;
/// Number of mapped IPv4 addresses in the cache.
const RECENT4: usize = 1 << 14;
/// Number of mapped halves of IPv6 addresses, and of whole ones, in the cache.
const RECENT6: usize = 1 << 12;

/// A mapping of addresses.
#[derive(Clone)]
pub struct Addresses {
    tree: Tree,
    /// For the first 16 bits of an IPv4 address, the bits to flip.
    top: Vec<u16>,
    recent4: Vec<(u32, u32)>,
    /// First halves of IPv6 addresses, and the bits to flip.
    halves: Vec<(u64, u64)>,
    recent6: Vec<(u128, u128)>,
}

impl Addresses {
    /// The mapping of a mode under a key.
    ///
    /// # Errors
    ///
    /// The key is not valid for the mode.
    pub fn new(mode: Mode, key: &Key) -> Result<Self, String> {
        let tree = Tree::new(mode, key)?;
        let mut addresses =
            Self { tree, top: Vec::new(), recent4: Vec::new(), halves: Vec::new(), recent6: Vec::new() };
        if !matches!(addresses.tree, Tree::Null) {
            addresses.top = addresses.tree.top();
            // Every slot holds a valid entry, so that no mark for an empty slot is needed.
            let zero = addresses.cold4(0);
            addresses.recent4 = vec![(0, zero); RECENT4];
            addresses.halves = vec![(0, (addresses.tree.turns(0, 0, 64) >> 64) as u64); RECENT6];
            let zero = addresses.cold6(0);
            addresses.recent6 = vec![(0, zero); RECENT6];
        }
        Ok(addresses)
    }

    /// Maps an IPv4 address.
    pub fn v4(&mut self, address: [u8; 4]) -> [u8; 4] {
        if matches!(self.tree, Tree::Null) {
            return [0; 4];
        }
        let address = u32::from_be_bytes(address);
        let slot = (address.wrapping_mul(0x9e37_79b1) >> 18) as usize;
        if let Some((known, image)) = self.recent4.get(slot)
            && *known == address
        {
            return image.to_be_bytes();
        }
        let image = self.cold4(address);
        if let Some(place) = self.recent4.get_mut(slot) {
            *place = (address, image);
        }
        image.to_be_bytes()
    }

    /// Maps an IPv6 address. An IPv4 address mapped into IPv6 stays one.
    pub fn v6(&mut self, address: [u8; 16]) -> [u8; 16] {
        if let Some(v4) = Ipv6Addr::from(address).to_ipv4_mapped() {
            return mapped(self.v4(v4.octets()));
        }
        self.whole6(address)
    }

    /// Maps all 128 bits, whatever their meaning.
    fn whole6(&mut self, address: [u8; 16]) -> [u8; 16] {
        if matches!(self.tree, Tree::Null) {
            return [0; 16];
        }
        let address = u128::from_be_bytes(address);
        let slot = slot6(address as u64 ^ (address >> 64) as u64);
        if let Some((known, image)) = self.recent6.get(slot)
            && *known == address
        {
            return image.to_be_bytes();
        }
        let image = self.cold6(address);
        if let Some(place) = self.recent6.get_mut(slot) {
            *place = (address, image);
        }
        image.to_be_bytes()
    }

    /// Maps an address of either version.
    pub fn ip(&mut self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => Ipv4Addr::from(self.v4(v4.octets())).into(),
            IpAddr::V6(v6) => Ipv6Addr::from(self.v6(v6.octets())).into(),
        }
    }

    /// Maps an IPv4 address without the cache, with only the table of the first bits: the cost of a new address.
    pub fn cold4(&self, address: u32) -> u32 {
        let top = self.top.get((address >> TOP) as usize).copied().unwrap_or_default();
        address ^ (u32::from(top) << TOP) ^ self.tree.turns4(address, TOP, 32)
    }

    fn cold6(&mut self, address: u128) -> u128 {
        let high = (address >> 64) as u64;
        let slot = slot6(high);
        let half = match self.halves.get(slot) {
            Some((known, turns)) if *known == high => *turns,
            _ => {
                let turns = (self.tree.turns(address, 0, 64) >> 64) as u64;
                if let Some(place) = self.halves.get_mut(slot) {
                    *place = (high, turns);
                }
                turns
            }
        };
        address ^ (u128::from(half) << 64) ^ self.tree.turns(address, 64, 128)
    }
}

fn slot6(bits: u64) -> usize {
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT6.trailing_zeros())) as usize
}

/// The bits of the tree of prefixes.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a run has one cipher")]
enum Tree {
    Null,
    CryptoPan { cipher: Aes128, pad: u128 },
    IpCrypt { ciphers: [Aes128; 2] },
}

/// Number of blocks that are encrypted at once: the processor works on eight side by side.
const BLOCKS: usize = 16;

impl Tree {
    fn new(mode: Mode, key: &Key) -> Result<Self, String> {
        let [first, second]: [[u8; 16]; 2] =
            [0, 16].map(|at| std::array::from_fn(|n| key.0.get(at + n).copied().unwrap_or_default()));
        let cipher = |key: [u8; 16]| Aes128::new(&GenericArray::from(key));
        Ok(match mode {
            Mode::Nullip => Self::Null,
            Mode::Table | Mode::CryptoPan => {
                let cipher = cipher(first);
                let mut pad = GenericArray::from(second);
                cipher.encrypt_block(&mut pad);
                Self::CryptoPan { cipher, pad: u128::from_be_bytes(pad.into()) }
            }
            // According to the draft, equal halves would cancel each other out.
            Mode::IpCrypt if first == second => {
                return Err("the two halves of a key for ipcrypt must differ".to_owned());
            }
            Mode::IpCrypt => Self::IpCrypt { ciphers: [first, second].map(cipher) },
        })
    }

    /// The bits to flip among the bits `from..to` of an address, counted from the most significant, at their
    /// positions.
    fn turns(&self, address: u128, from: u32, to: u32) -> u128 {
        let mut turned = 0;
        let mut bit = from;
        while bit < to {
            let some = (to - bit).min(BLOCKS as u32);
            turned |= self.some(address, bit, some);
            bit += some;
        }
        turned
    }

    /// Computes at most [`BLOCKS`] bits.
    fn some(&self, address: u128, from: u32, count: u32) -> u128 {
        let count = (count as usize).min(BLOCKS);
        let block = |n: usize| self.block(address, from + n as u32);
        let bits = match self {
            Self::Null => 0,
            Self::CryptoPan { cipher, .. } => {
                // The most significant bit of each block.
                gather(&encrypt(cipher, count, block), count, 127)
            }
            Self::IpCrypt { ciphers: [one, two] } => {
                let [one, two] = [one, two].map(|cipher| gather(&encrypt(cipher, count, block), count, 0));
                one ^ two
            }
        };
        // The first bit of `bits` is at the top.
        bits >> from
    }

    /// The plaintext for the bit after the first `length` bits.
    fn block(&self, address: u128, length: u32) -> u128 {
        let prefix = |bits: u32| u128::MAX.checked_shl(128 - bits).unwrap_or_default();
        match self {
            Self::Null => 0,
            Self::CryptoPan { pad, .. } => (address & prefix(length)) | (pad & !prefix(length)),
            Self::IpCrypt { .. } => {
                (1 << length.min(127)) | address.checked_shr(128 - length).unwrap_or_default()
            }
        }
    }

    /// The bits to flip in an IPv4 address. Crypto-PAn has the address at the front of the block; ipcrypt maps it into
    /// IPv6.
    fn turns4(&self, address: u32, from: u32, to: u32) -> u32 {
        match self {
            Self::Null => 0,
            Self::CryptoPan { cipher, pad } => crypto_pan4(cipher, *pad, address, from, to),
            Self::IpCrypt { .. } => {
                let address = u128::from_be_bytes(mapped(address.to_be_bytes()));
                self.turns(address, 96 + from, 96 + to) as u32
            }
        }
    }

    /// For every value of the first 16 bits, the bits to flip: each node of the tree is computed once.
    fn top(&self) -> Vec<u16> {
        let mut turned = vec![0_u16; 1 << TOP];
        for length in 0..TOP {
            for node in 0..1_u32 << length {
                let first = node << (TOP - length);
                let bit = self.turns4(first << (32 - TOP), length, length + 1) >> (32 - TOP);
                let last = first as usize + (1 << (TOP - length));
                for place in turned.get_mut(first as usize..last).unwrap_or_default() {
                    *place |= bit as u16;
                }
            }
        }
        turned
    }
}

/// Crypto-PAn for at most [`BLOCKS`] bits of an IPv4 address: only the first four bytes of a block differ from the
/// pad, and only the first bit of the result is used.
fn crypto_pan4(cipher: &Aes128, pad: u128, address: u32, from: u32, to: u32) -> u32 {
    let bytes = pad.to_be_bytes();
    let pad = (pad >> 96) as u32;
    let mut blocks = [GenericArray::from(bytes); BLOCKS];
    let count = (to.saturating_sub(from) as usize).min(BLOCKS);
    for (length, block) in (from..to).zip(&mut blocks) {
        let prefix = !(u32::MAX >> length);
        let first = (address & prefix) | (pad & !prefix);
        for (to, from) in block.iter_mut().zip(first.to_be_bytes()) {
            *to = from;
        }
    }
    if let Some(blocks) = blocks.get_mut(..count) {
        cipher.encrypt_blocks(blocks);
    }
    let bits = (from..to).zip(&blocks);
    bits.fold(0, |turned, (length, block)| {
        let bit = block.first().map_or(0, |byte| u32::from(byte >> 7));
        turned | bit << (31 - length)
    })
}

fn encrypt(cipher: &Aes128, count: usize, block: impl Fn(usize) -> u128) -> [u128; BLOCKS] {
    let mut blocks = [GenericArray::from([0; 16]); BLOCKS];
    let mut images = [0; BLOCKS];
    for (n, place) in blocks.iter_mut().enumerate().take(count) {
        *place = GenericArray::from(block(n).to_be_bytes());
    }
    if let Some(blocks) = blocks.get_mut(..count) {
        cipher.encrypt_blocks(blocks);
    }
    for (image, block) in images.iter_mut().zip(blocks) {
        *image = u128::from_be_bytes(block.into());
    }
    images
}

/// One bit of each block, the first at the top.
fn gather(blocks: &[u128; BLOCKS], count: usize, bit: u32) -> u128 {
    let bits = blocks.iter().take(count).enumerate();
    bits.fold(0, |bits, (n, block)| bits | (block >> bit & 1) << (127 - n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    /// The key of the sample trace of the reference implementation.
    const SAMPLE: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121,
        101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    fn data(name: &str) -> Option<String> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/cryptopan");
        let other = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/cryptopan");
        [path, other].iter().find_map(|folder| std::fs::read_to_string(folder.join(name)).ok())
    }

    fn addresses(mode: Mode, key: [u8; 32]) -> Addresses {
        Addresses::new(mode, &Key(key)).unwrap()
    }

    fn agree(a: u128, b: u128) -> u32 {
        (a ^ b).leading_zeros()
    }

    #[test]
    fn equals_the_sample_trace_of_the_reference_implementation() {
        let (Some(raw), Some(sanitized)) = (data("sample_trace_raw.dat"), data("sample_trace_sanitized.dat"))
        else {
            println!("skipped 2 files: no ../shared/data");
            return;
        };
        let mut addresses = addresses(Mode::CryptoPan, SAMPLE);
        let last = |line: &str| line.split_whitespace().last().unwrap_or_default().to_owned();
        let pairs: Vec<(String, String)> = raw.lines().map(last).zip(sanitized.lines().map(last)).collect();
        let passed = pairs
            .iter()
            .filter(|(raw, sanitized)| {
                addresses.ip(raw.parse().unwrap()) == sanitized.parse::<IpAddr>().unwrap()
            })
            .count();
        println!("passed {passed} of {}, required 100", pairs.len());
        assert_eq!((passed, pairs.len()), (100, 100));
    }

    #[test]
    fn equals_an_independent_implementation() {
        let Some(text) = data("generated_vectors.tsv") else {
            println!("skipped 1 file: no ../shared/data");
            return;
        };
        let (mut passed, mut all) = (0, 0);
        let mut mappings: std::collections::HashMap<String, Addresses> = Default::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let [key, from, to] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let mapping = mappings.entry(key.to_owned()).or_insert_with(|| {
                addresses(
                    Mode::CryptoPan,
                    std::array::from_fn(|n| u8::from_str_radix(&key[2 * n..2 * n + 2], 16).unwrap()),
                )
            });
            let image = match from.parse().unwrap() {
                IpAddr::V6(v6) => Ipv6Addr::from(mapping.whole6(v6.octets())).into(),
                v4 => mapping.ip(v4),
            };
            all += 1;
            passed += usize::from(image == to.parse::<IpAddr>().unwrap());
        }
        println!("passed {passed} of {all}, required {all}");
        assert_eq!(passed, all);
        assert!(all > 1400);
    }

    /// The vectors of draft-denis-ipcrypt for ipcrypt-pfx.
    #[test]
    fn equals_the_draft_of_ipcrypt() {
        let hex = |text: &str| -> [u8; 32] {
            std::array::from_fn(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
        };
        let first = "0123456789abcdeffedcba98765432101032547698badcfeefcdab8967452301";
        let mut mapping = addresses(Mode::IpCrypt, hex(first));
        for (from, to) in [
            ("0.0.0.0", "151.82.155.134"),
            ("255.255.255.255", "94.185.169.89"),
            ("192.0.2.1", "100.115.72.131"),
            ("2001:db8::1", "c180:5dd4:2587:3524:30ab:fa65:6ab6:f88"),
        ] {
            assert_eq!(mapping.ip(from.parse().unwrap()), to.parse::<IpAddr>().unwrap(), "{from}");
        }
        assert!(Addresses::new(Mode::IpCrypt, &Key([7; 32])).is_err());
    }

    #[test]
    fn nullip_maps_every_address_to_zero() {
        let mut mapping = addresses(Mode::Nullip, SAMPLE);
        assert_eq!(mapping.v4([10, 1, 2, 3]), [0; 4]);
        assert_eq!(mapping.v6([7; 16]), [0; 16]);
        assert_eq!(mapping.v6(mapped([1, 2, 3, 4])), mapped([0; 4]));
    }

    #[test]
    fn every_mode_has_its_name() {
        for (name, mode) in Mode::ALL {
            assert_eq!(mode.name(), name);
        }
        assert!(!format!("{:?}", Key(SAMPLE)).contains("21"));
    }

    proptest! {
        /// Addresses keep the exact length of their common prefix, whatever was mapped before.
        #[test]
        fn prefixes_are_preserved_and_the_key_decides(
            key in any::<[u8; 32]>(),
            base in any::<u128>(),
            others in proptest::collection::vec((any::<u128>(), 0_u32..128), 1..20),
            mode in prop_oneof![Just(Mode::Table), Just(Mode::CryptoPan), Just(Mode::IpCrypt)],
        ) {
            prop_assume!(key[..16] != key[16..]);
            let (mut one, mut two) = (addresses(mode, key), addresses(mode, key));
            let images6 = |mapping: &mut Addresses, a: u128| u128::from_be_bytes(mapping.whole6(a.to_be_bytes()));
            let images4 = |mapping: &mut Addresses, a: u32| u32::from_be_bytes(mapping.v4(a.to_be_bytes()));
            let near: Vec<u128> = others
                .iter()
                .map(|(other, same)| {
                    let keep = u128::MAX.checked_shl(128 - same).unwrap_or_default();
                    (base & keep) | (other & !keep)
                })
                .collect();
            let whole = images6(&mut one, base);
            let first = images4(&mut one, (base >> 96) as u32);
            for other in &near {
                prop_assert_eq!(agree(base, *other), agree(whole, images6(&mut one, *other)));
                let (a, b) = ((base >> 96) as u32, (other >> 96) as u32);
                prop_assert_eq!((a ^ b).leading_zeros(), (first ^ images4(&mut one, b)).leading_zeros());
            }
            for other in near.iter().rev() {
                prop_assert_eq!(images6(&mut one, *other), images6(&mut two, *other));
                let v4 = (other >> 96) as u32;
                prop_assert_eq!(images4(&mut one, v4), images4(&mut two, v4));
            }
        }
    }
}
