//! Reputations of addresses, in files of Suricata's format.
//!
//! A file of categories gives each number a name: `1,BadHosts,Known bad hosts`. Files of reputations give addresses and nets a score
//! in a category: `192.0.2.1,1,101`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The greatest number of a category, as in Suricata.
const MAX_CATEGORY: u8 = 60;
/// The greatest score.
const MAX_SCORE: u8 = 127;

/// Reputations of addresses, by category.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reputations {
    /// The numbers and names of categories, each with its scores.
    categories: Vec<(u8, Box<str>, Arc<Scores>)>,
}

/// The scores of addresses in a category.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scores {
    /// The scores of nets by the lengths of their prefixes, the longest one first, and the bits of these.
    by_length: Vec<(u8, HashMap<u128, u8>)>,
}

impl Reputations {
    /// Reads the names of categories: `NUMBER,NAME,DESCRIPTION`. No address has a reputation yet.
    ///
    /// # Errors
    /// A line that is not read, with its number and the reason.
    pub fn new(categories: &[u8]) -> Result<Self, String> {
        let mut is = Self::default();
        for_each_line(categories, |line| {
            let mut parts = line.splitn(3, ',').map(str::trim);
            let number = number(parts.next(), MAX_CATEGORY, "the number of a category")?;
            let name =
                parts.next().filter(|name| !name.is_empty()).ok_or("the name of the category is missing")?;
            if is.categories.iter().any(|(known, other, _)| *known == number || **other == *name) {
                return Err(format!("the category {number},{name} is there already"));
            }
            is.categories.push((number, name.into(), Arc::default()));
            Ok(())
        })?;
        Ok(is)
    }

    /// Adds reputations: `ADDRESS,NUMBER,SCORE`, the address being one of a host or a net. A later score of an equal net holds.
    /// Scores in categories without a name are left out, since no rule can name these.
    ///
    /// # Errors
    /// A line that is not read, with its number and the reason.
    pub fn add(&mut self, file: &[u8]) -> Result<(), String> {
        for_each_line(file, |line| {
            let mut parts = line.split(',').map(str::trim);
            let (bits, length) = net(parts.next().unwrap_or_default())?;
            let category = number(parts.next(), MAX_CATEGORY, "the number of a category")?;
            let score = number(parts.next(), MAX_SCORE, "a score")?;
            let of = self.categories.iter_mut().find(|(known, ..)| *known == category);
            // 0 says that nothing is known.
            if let Some((_, _, scores)) = of.filter(|_| score > 0) {
                Arc::make_mut(scores).add(bits, length, score);
            }
            Ok(())
        })
    }

    /// The scores in the category with this name.
    pub fn of(&self, category: &str) -> Option<Arc<Scores>> {
        let of = self.categories.iter().find(|(_, name, _)| **name == *category);
        of.map(|(_, _, scores)| Arc::clone(scores))
    }
}

impl Scores {
    fn add(&mut self, bits: u128, length: u8, score: u8) {
        let place = self.by_length.binary_search_by(|(known, _)| length.cmp(known));
        let place = place.unwrap_or_else(|place| {
            self.by_length.insert(place, (length, HashMap::new()));
            place
        });
        if let Some((_, nets)) = self.by_length.get_mut(place) {
            nets.insert(bits, score);
        }
    }

    /// The score of an address, 1 to 127: that of the smallest net that has it. `None` if none has it.
    pub fn of(&self, address: IpAddr) -> Option<u8> {
        let all = bits_of(address);
        self.by_length.iter().find_map(|(length, nets)| nets.get(&prefix(all, *length)).copied())
    }
}

/// An address as bits, those of IPv4 in the range for them (RFC 4291 2.5.5.2).
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The first bits.
fn prefix(bits: u128, length: u8) -> u128 {
    let others = 128_u32.saturating_sub(length.into());
    bits & u128::MAX.checked_shl(others).unwrap_or(0)
}

/// The bits and the length of the prefix of an address or a net.
fn net(text: &str) -> Result<(u128, u8), String> {
    let wrong = || format!("`{text}` is neither an address nor a net");
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (whole, before) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
    let length = match length {
        Some(length) => length.parse().ok().filter(|length: &u8| *length <= whole).ok_or_else(wrong)?,
        None => whole,
    };
    Ok((prefix(bits_of(address), before + length), before + length))
}

fn number(text: Option<&str>, greatest: u8, what: &str) -> Result<u8, String> {
    let text = text.ok_or_else(|| format!("{what} is missing"))?;
    let is = text.parse().ok().filter(|is: &u8| *is <= greatest);
    is.ok_or_else(|| format!("`{text}` is not {what}: 0 to {greatest} are"))
}

/// Reads each line that is no comment and not empty.
fn for_each_line(file: &[u8], mut read: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    for (number, line) in file.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let text = std::str::from_utf8(line).map_err(|_| "it is not text".to_owned());
        text.and_then(&mut read).map_err(|reason| format!("line {}: {reason}", number + 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(categories: &str, files: &[&str]) -> Result<Reputations, String> {
        let mut all = Reputations::new(categories.as_bytes())?;
        files.iter().try_for_each(|file| all.add(file.as_bytes()))?;
        Ok(all)
    }

    #[test]
    fn the_smallest_net_has_the_score_of_an_address() {
        let lists = [
            "# a list\n192.0.2.0/24,1,10\r\n192.0.2.128/25,1,20\n192.0.2.129, 1, 30\n2001:db8::/32,1,40\n0.0.0.0/0,2,5\n",
            "198.51.100.1,1,1\n198.51.100.1,1,127\n198.51.100.2,1,0\n198.51.100.2,7,9\n",
        ];
        let all = read("1,Bad,Known bad hosts\n2,Any,\n", &lists).unwrap();
        let of = |category: &str, address: &str| all.of(category).unwrap().of(address.parse().unwrap());
        for (address, score) in [
            ("192.0.2.127", Some(10)),
            ("192.0.2.128", Some(20)),
            ("192.0.2.129", Some(30)),
            ("192.0.1.255", None),
            ("192.0.3.0", None),
            ("2001:db8:ffff::1", Some(40)),
            ("2001:db9::", None),
            ("198.51.100.1", Some(127)),
            ("198.51.100.2", None),
        ] {
            assert_eq!(of("Bad", address), score, "{address}");
        }
        assert_eq!((of("Any", "10.0.0.1"), of("Any", "2001:db8::1")), (Some(5), None));
        assert!(all.of("bad").is_none());
    }

    #[test]
    fn lines_that_cannot_be_read_are_named() {
        for (categories, file, reason) in [
            ("61,Bad,", "", "line 1: `61` is not the number of a category: 0 to 60 are"),
            ("1", "", "line 1: the name of the category is missing"),
            ("1,a,\n\n1,b,", "", "line 3: the category 1,b is there already"),
            ("1,a", "192.0.2.1,1,128", "line 1: `128` is not a score: 0 to 127 are"),
            ("1,a", "192.0.2.1,1", "line 1: a score is missing"),
            ("1,a", "#\n192.0.2.1/33,1,1", "line 2: `192.0.2.1/33` is neither an address nor a net"),
            ("1,a", "example.org,1,1", "line 1: `example.org` is neither an address nor a net"),
        ] {
            assert_eq!(read(categories, &[file]).unwrap_err(), reason);
        }
    }
}
