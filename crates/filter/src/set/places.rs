//! Addresses and ports as numbers of stretches. The expressions of a set divide the addresses into stretches; no
//! expression distinguishes two addresses of one stretch.

use super::bits::each;
use super::ranges::Addresses;
use super::simd::prefetch;

/// A prefix of either family: its first and its last address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prefix {
    V4(u32, u32),
    V6(u128, u128),
}

/// Calls a function with the prefixes that a set consists of. Any two prefixes of any sets are disjoint or nested.
pub(super) fn each_prefix(set: &Addresses, mut see: impl FnMut(Prefix)) {
    for &(low, high) in set.v4.as_slice() {
        let len = high.wrapping_sub(low).wrapping_add(1);
        if len & len.wrapping_sub(1) == 0 && low & len.wrapping_sub(1) == 0 {
            see(Prefix::V4(low, high));
        } else {
            prefixes_v4((low, high)).into_iter().for_each(|(low, high)| see(Prefix::V4(low, high)));
        }
    }
    for range in set.v6.as_slice() {
        prefixes_v6(*range).into_iter().for_each(|(low, high)| see(Prefix::V6(low, high)));
    }
}

/// The stretch of packets without an address.
pub(super) const NO_ADDRESS: u32 = 0;

/// The stretch of each address.
#[derive(Clone, Debug)]
pub(super) struct AddressStretches {
    /// The first number of each stretch of IPv4, starting at 0.
    v4: Vec<u32>,
    /// By the upper half of an address: the first stretch that begins in it or later.
    v4_at: Vec<u32>,
    v6: Vec<u128>,
    /// Empty if all of IPv6 is one stretch.
    v6_at: Vec<u32>,
}

/// The bounds of the prefixes in sets of addresses.
#[derive(Debug, Default)]
pub(super) struct AddressEndpoints {
    v4: Vec<u32>,
    v6: Vec<u128>,
}

impl AddressEndpoints {
    pub fn add(&mut self, set: &Addresses) {
        each_prefix(set, |prefix| match prefix {
            Prefix::V4(low, high) => {
                self.v4.push(low);
                self.v4.extend(high.checked_add(1));
            }
            Prefix::V6(low, high) => {
                self.v6.push(low);
                self.v6.extend(high.checked_add(1));
            }
        });
    }

    /// The stretches between the bounds.
    pub fn stretches(self) -> AddressStretches {
        let Self { mut v4, mut v6 } = self;
        v4.push(0);
        v6.push(0);
        v4.sort_unstable();
        v4.dedup();
        v6.sort_unstable();
        v6.dedup();
        let v4_at = directory(&v4, |start| (start >> 16) as u16);
        let v6_at = if v6.len() == 1 { Vec::new() } else { directory(&v6, |start| (start >> 112) as u16) };
        AddressStretches { v4, v4_at, v6, v6_at }
    }
}

impl AddressStretches {
    /// Number of stretches, including the one of packets without an address.
    pub fn len(&self) -> usize {
        1 + self.v4.len() + self.v6.len()
    }

    #[inline]
    pub fn of_v4(&self, address: u32) -> u32 {
        // Plus 1 for packets without an address, minus 1 for the stretch before the first one that begins later: 0.
        find(&self.v4, &self.v4_at, (address >> 16) as u16, address)
    }

    /// Prefetches the stretch of an IPv4 address.
    #[inline]
    pub fn expect_v4(&self, address: u32) {
        prefetch(&self.v4_at, (address >> 16) as usize);
    }

    #[inline]
    pub fn of_v6(&self, address: u128) -> u32 {
        let before = self.v4.len() as u32;
        if self.v6_at.is_empty() {
            return before + 1;
        }
        before + find(&self.v6, &self.v6_at, (address >> 112) as u16, address)
    }

    /// The stretches of a prefix, first and last.
    pub fn of_prefix(&self, prefix: Prefix) -> (u32, u32) {
        match prefix {
            Prefix::V4(low, high) => (self.of_v4(low), self.of_v4(high)),
            Prefix::V6(low, high) => (self.of_v6(low), self.of_v6(high)),
        }
    }

    /// The stretches of a set, as ranges with both ends included.
    pub fn within(&self, set: &Addresses) -> Vec<(u32, u32)> {
        let none = set.none.then_some((NO_ADDRESS, NO_ADDRESS));
        let v4 = set.v4.as_slice().iter().map(|(low, high)| (self.of_v4(*low), self.of_v4(*high)));
        let v6 = set.v6.as_slice().iter().map(|(low, high)| (self.of_v6(*low), self.of_v6(*high)));
        none.into_iter().chain(v4).chain(v6).collect()
    }
}

/// For each value of the upper 16 bits the number of stretches that begin below it, and one more entry at the end.
fn directory<T: Copy>(starts: &[T], upper: impl Fn(T) -> u16) -> Vec<u32> {
    let mut at = vec![0; (1 << 16) + 1];
    let mut next = 0;
    for (number, start) in starts.iter().enumerate() {
        let upper = usize::from(upper(*start));
        while next <= upper {
            at[next] = number as u32;
            next += 1;
        }
    }
    at[next..].fill(starts.len() as u32);
    at
}

/// The number of stretches that begin at or below a value.
#[inline]
fn find<T: Copy + Ord>(starts: &[T], at: &[u32], upper: u16, point: T) -> u32 {
    let (Some(&from), Some(&to)) = (at.get(usize::from(upper)), at.get(usize::from(upper) + 1)) else {
        return 0;
    };
    let mut from = from;
    let mut len = to.wrapping_sub(from);
    // Halves the range without a branch, which would be mispredicted every other time.
    while len > 0 {
        let half = len / 2;
        let begins_later = starts.get((from + half) as usize).is_none_or(|start| *start > point);
        from = if begins_later { from } else { from + half + 1 };
        len = if begins_later { half } else { len - half - 1 };
    }
    from
}

/// The stretch of each port, or of each VLAN tag.
#[derive(Clone, Debug)]
pub(super) struct PortStretches {
    of: Vec<u16>,
    len: usize,
}

/// The bounds of ranges of ports, or of VLAN tags: a bit for each number.
#[derive(Debug)]
pub(super) struct PortEndpoints(Box<[u64; (1 << 16) / 64]>);

impl Default for PortEndpoints {
    fn default() -> Self {
        Self(Box::new([0; (1 << 16) / 64]))
    }
}

impl PortEndpoints {
    pub fn add(&mut self, (low, high): (u16, u16)) {
        for port in [Some(low), high.checked_add(1)].into_iter().flatten() {
            self.0[usize::from(port) / 64] |= 1 << (port % 64);
        }
    }

    /// The stretches between the bounds.
    pub fn stretches(&self) -> PortStretches {
        let (mut of, mut number, mut from) = (vec![0_u16; 1 << 16], 0_u16, 0);
        each(&self.0[..], |port| {
            of[from..port].fill(number);
            number += u16::from(port > 0);
            from = port;
        });
        of[from..].fill(number);
        PortStretches { of, len: usize::from(number) + 1 }
    }
}

impl PortStretches {
    /// One stretch for all numbers, for a set that tests none.
    pub fn none() -> Self {
        Self { of: Vec::new(), len: 1 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Prefetches the stretch of a port.
    #[inline]
    pub fn expect(&self, port: u16) {
        prefetch(&self.of, usize::from(port));
    }

    #[inline]
    pub fn of(&self, port: u16) -> u32 {
        self.of.get(usize::from(port)).copied().map_or(0, u32::from)
    }

    pub fn within(&self, ranges: &[(u16, u16)]) -> Vec<(u32, u32)> {
        ranges.iter().map(|(low, high)| (self.of(*low), self.of(*high))).collect()
    }
}

/// The prefixes that a range of IPv4 addresses consists of, from low to high.
fn prefixes_v4((low, high): (u32, u32)) -> Vec<(u32, u32)> {
    let wide = prefixes(u128::from(low), u128::from(high), 32);
    wide.into_iter().map(|(low, high)| (low as u32, high as u32)).collect()
}

/// The prefixes that a range of IPv6 addresses consists of, from low to high.
fn prefixes_v6((low, high): (u128, u128)) -> Vec<(u128, u128)> {
    prefixes(low, high, 128)
}

fn prefixes(low: u128, high: u128, bits: u32) -> Vec<(u128, u128)> {
    let mut out = Vec::new();
    let mut next = Some(low);
    while let Some(start) = next.filter(|start| *start <= high) {
        // The largest prefix that the start's zero bits allow and that does not exceed the end.
        let mut free = start.trailing_zeros().min(bits);
        let end_of = |free: u32| start | !u128::MAX.checked_shl(free).unwrap_or(0);
        while end_of(free) > high {
            free -= 1;
        }
        let end = end_of(free);
        out.push((start, end));
        next = end.checked_add(1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_end_where_ranges_end() {
        let mut set = Addresses::v4(0x0a00_0000, 0x0aff_ffff);
        set = set.union(&Addresses::v6(0xfe80 << 112, (0xfe80 << 112) | 0xffff));
        let other = Addresses::v4(0x0a01_0203, 0x0a01_0203);
        let all = Addresses::default().complement();
        let mut ends = AddressEndpoints::default();
        [&set, &other, &all].into_iter().for_each(|set| ends.add(set));
        let s = ends.stretches();
        let of = |a| s.of_v4(a);
        assert_eq!(s.len(), 1 + 5 + 3);
        assert_eq!([of(0), of(0x09ff_ffff), of(0x0a00_0000), of(0x0a01_0202)], [1, 1, 2, 2]);
        assert_eq!([of(0x0a01_0203), of(0x0a01_0204), of(0x0b00_0000), of(u32::MAX)], [3, 4, 5, 5]);
        assert_eq!([s.of_v6(0), s.of_v6(0xfe80 << 112), s.of_v6(u128::MAX)], [6, 7, 8]);
        assert_eq!(s.within(&set), [(2, 4), (7, 7)]);
        assert_eq!(s.within(&all), [(0, 0), (1, 5), (6, 8)]);
    }

    #[test]
    fn a_range_consists_of_prefixes() {
        assert_eq!(prefixes_v4((0, u32::MAX)), [(0, u32::MAX)]);
        assert_eq!(prefixes_v4((1, 4)), [(1, 1), (2, 3), (4, 4)]);
        assert_eq!(prefixes_v6((1, u128::MAX)).len(), 128);
        for (low, high) in prefixes_v4((0x0102_0304, 0xfedc_ba98)) {
            assert!((high - low + 1).is_power_of_two() && low % (high - low + 1) == 0);
        }
    }

    #[test]
    fn stretches_of_ports() {
        let mut ends = PortEndpoints::default();
        [(80, 80), (1024, 65535), (0, 10)].into_iter().for_each(|range| ends.add(range));
        let p = ends.stretches();
        assert_eq!(p.len(), 5);
        assert_eq!(
            [0, 10, 11, 79, 80, 81, 1023, 1024, 65535].map(|port| p.of(port)),
            [0, 0, 1, 1, 2, 3, 3, 4, 4]
        );
        assert_eq!(p.within(&[(80, 80), (1024, 65535)]), [(2, 2), (4, 4)]);
    }
}
