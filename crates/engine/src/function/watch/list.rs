//! A list of watched addresses, nets and names, made of the text of files. A lookup costs as much in a list of a million
//! entries as in one of ten.

use crate::keyed::KeyHash;
use hashbrown::HashTable;
use weir_api::{Net, NetError};
use weir_filter::fields::Fields;

/// Maximum number of entries of a list.
pub(super) const MAX_ENTRIES: usize = 1_000_000;
/// Maximum number of files of a list.
pub(super) const MAX_FILES: usize = 16;
/// Maximum bytes of a name without the dot at its end, and of a label (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Wrong lines of a file that are named. The others are counted.
const NAMED: u32 = 10;
/// Length of the prefix of an entry that is a name.
const NO_PREFIX: u8 = u8::MAX;

/// An entry. A list may have a million of them, so that it refers to its text or address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its name begins among all names, or the place of its address.
    at: u32,
    /// Its line in its file, from 1 on.
    line: u32,
    file: u8,
    /// Length of its prefix in bits; [`NO_PREFIX`] for a name.
    prefix: u8,
    /// Bytes of its name.
    length: u8,
}

/// An entry as it is shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Shown<'l> {
    /// The address, the net or the name in lower case.
    pub entry: Box<str>,
    /// The name of its file.
    pub file: &'l str,
    /// Its line, from 1 on.
    pub line: u32,
}

/// A file of a list.
#[derive(Debug)]
struct File {
    /// Its path, as the call has it. What is shown to others has only the name of the file.
    path: Box<str>,
    /// See [`Fields::stamp`]; that of the content or of an earlier one.
    stamp: Option<u64>,
}

/// Whether a file of a list is as it was when it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileState {
    /// It is.
    Current,
    /// It has changed since then. The number differs for each content.
    Changed(u64),
    /// It cannot be read now.
    Gone,
}

/// Addresses, nets and names with their lines. Names are in lower case, without a dot at the end.
#[derive(Debug)]
pub(crate) struct List {
    files: Vec<File>,
    entries: Vec<Entry>,
    addresses: Vec<u128>,
    names: Vec<u8>,
    /// The entries by address and prefix. Addresses have the longest prefix.
    by_address: HashTable<u32>,
    by_name: HashTable<u32>,
    /// The lengths of prefixes that occur, longest first: those of IPv4, and those of IPv6.
    prefixes: [Vec<u8>; 2],
    /// Most labels of a name. A name in a packet is compared in no more of its ends.
    labels: usize,
    hash: KeyHash,
    notes: Vec<String>,
}

impl List {
    /// A list without entries; `seed` keys its hashes.
    pub fn new(seed: u64) -> Self {
        Self {
            files: Vec::new(),
            entries: Vec::new(),
            addresses: Vec::new(),
            names: Vec::new(),
            by_address: HashTable::new(),
            by_name: HashTable::new(),
            prefixes: [Vec::new(), Vec::new()],
            labels: 0,
            hash: KeyHash::new(seed),
            notes: Vec::new(),
        }
    }

    /// Adds the lines of a file, which had this stamp before it was read. Each has one entry; `#` begins a comment. Wrong lines are
    /// left out with a note. Of equal entries the first one counts.
    ///
    /// # Errors
    /// The list has too many files or entries.
    pub fn add(&mut self, file: &str, stamp: Option<u64>, content: &[u8]) -> Result<(), String> {
        if self.files.len() == MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
        let number = self.files.len() as u8;
        self.files.push(File { path: file.into(), stamp });
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let mut wrong = 0;
        for (line, text) in (1_u32..).zip(content.split(|byte| *byte == b'\n')) {
            let text = text.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
            if text.is_empty() {
                continue;
            }
            match Watched::parse(text) {
                Ok(watched) => self.insert(watched, line, number),
                Err(reason) => {
                    wrong += 1;
                    if wrong <= NAMED {
                        self.notes.push(format!("{file}:{line}: left out: {reason}"));
                    }
                }
            }
            if self.entries.len() > MAX_ENTRIES {
                return Err(format!("{file}: more than {MAX_ENTRIES} entries, the maximum of a list"));
            }
        }
        match wrong.saturating_sub(NAMED) {
            0 => {}
            1 => self.notes.push(format!("{file}: 1 more line is left out")),
            more => self.notes.push(format!("{file}: {more} more lines are left out")),
        }
        Ok(())
    }

    /// Returns memory that further files would have needed.
    pub fn finish(&mut self) {
        self.entries.shrink_to_fit();
        self.addresses.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    fn insert(&mut self, watched: Watched<'_>, line: u32, file: u8) {
        let id = self.entries.len() as u32;
        match watched {
            Watched::Net(net) => {
                if self.of_net(net).is_some() {
                    return;
                }
                let at = self.addresses.len() as u32;
                self.addresses.push(net.first());
                let prefix = net.mapped_prefix();
                self.entries.push(Entry { at, line, file, prefix, length: 0 });
                let lengths = &mut self.prefixes[usize::from(!net.is_v4())];
                if let Err(at) = lengths.binary_search_by(|known| prefix.cmp(known)) {
                    lengths.insert(at, prefix);
                }
                let Self { entries, addresses, by_address, hash, .. } = self;
                let hash_of = |id: &u32| {
                    let entry = entries.get(*id as usize);
                    let net = entry.and_then(|entry| net_of(addresses, entry));
                    net.map_or(0, |net| hash_of_net(hash, net))
                };
                by_address.insert_unique(hash_of_net(hash, net), id, hash_of);
            }
            Watched::Name(name) => {
                let mut lower = [0; MAX_NAME];
                let Some(name) = lowered(name, &mut lower) else { return };
                let hash = ends(&self.hash, name).last().map_or(0, |(hash, _)| hash);
                if self.with_name(hash, name).is_some() {
                    return;
                }
                self.labels = self.labels.max(ends(&self.hash, name).count());
                let at = self.names.len() as u32;
                self.names.extend_from_slice(name);
                self.entries.push(Entry { at, line, file, prefix: NO_PREFIX, length: name.len() as u8 });
                let Self { entries, names, by_name, hash: key, .. } = self;
                let hash_of = |id: &u32| {
                    let name = entries.get(*id as usize).map_or(&[][..], |entry| name_of(names, entry));
                    ends(key, name).last().map_or(0, |(hash, _)| hash)
                };
                by_name.insert_unique(hash, id, hash_of);
            }
        }
    }

    /// The entry of exactly this net.
    fn of_net(&self, net: Net) -> Option<u32> {
        let is_it = |id: &u32| {
            let entry = self.entries.get(*id as usize);
            entry.and_then(|entry| net_of(&self.addresses, entry)) == Some(net)
        };
        self.by_address.find(hash_of_net(&self.hash, net), is_it).copied()
    }

    /// The entry of exactly this name in lower case, which has this hash.
    fn with_name(&self, hash: u64, name: &[u8]) -> Option<u32> {
        let is_it = |id: &u32| {
            self.entries.get(*id as usize).is_some_and(|entry| name_of(&self.names, entry) == name)
        };
        self.by_name.find(hash, is_it).copied()
    }

    /// The entry with an address: the address itself, else the smallest net that has it. IPv4 addresses are mapped into IPv6.
    pub fn address(&self, address: [u8; 16]) -> Option<u32> {
        let address = u128::from_be_bytes(address);
        let is_v4 = Net::of_mapped(address, u8::MAX).is_v4();
        let lengths = &self.prefixes[usize::from(!is_v4)];
        lengths.iter().find_map(|prefix| self.of_net(Net::of_mapped(address, *prefix)))
    }

    /// The entry with a name: the name itself, else the longest name that it is under.
    pub fn name(&self, name: &[u8]) -> Option<u32> {
        if self.by_name.is_empty() {
            return None;
        }
        let mut lower = [0; MAX_NAME];
        let name = lowered(name, &mut lower)?;
        let found = ends(&self.hash, name).take(self.labels);
        found.filter_map(|(hash, end)| self.with_name(hash, end)).last()
    }

    /// An entry, as it is shown.
    pub(super) fn shown(&self, id: u32) -> Option<Shown<'_>> {
        let entry = self.entries.get(id as usize)?;
        let path = &self.files.get(usize::from(entry.file))?.path;
        let file = path.rsplit('/').next().unwrap_or(path);
        let text = match net_of(&self.addresses, entry) {
            Some(net) => net.to_string(),
            None => std::str::from_utf8(name_of(&self.names, entry)).ok()?.to_owned(),
        };
        Some(Shown { entry: text.into(), file, line: entry.line })
    }

    /// The paths of its files, each with its state.
    pub fn states<'l>(&'l self, fields: &'l dyn Fields) -> impl Iterator<Item = (&'l str, FileState)> + 'l {
        self.files.iter().map(|file| {
            let state = match fields.stamp(&file.path) {
                None => FileState::Gone,
                Some(stamp) if Some(stamp) == file.stamp => FileState::Current,
                Some(stamp) => FileState::Changed(stamp),
            };
            (&*file.path, state)
        })
    }

    /// What was left out, a text for each of the first wrong lines of a file and one for the number of its others.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        let tables = self.by_address.allocation_size() + self.by_name.allocation_size();
        let notes: usize = self.notes.iter().map(|note| size_of::<String>() + note.capacity()).sum();
        self.entries.capacity() * size_of::<Entry>()
            + self.addresses.capacity() * size_of::<u128>()
            + self.names.capacity()
            + tables
            + notes
    }
}

/// What a line watches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Watched<'t> {
    /// An address is the network of all its bits.
    Net(Net),
    /// A name as it is written.
    Name(&'t [u8]),
}

impl<'t> Watched<'t> {
    /// Reads an entry; the error is the reason why it is none. Reasons leave out the text: who reads them may have no right to read
    /// the file.
    fn parse(text: &'t [u8]) -> Result<Self, &'static str> {
        let Some(ascii) = std::str::from_utf8(text).ok().filter(|text| text.is_ascii()) else {
            return Err("a name with other letters than ASCII is written in its form that begins with xn--");
        };
        if ascii.contains(|c: char| c.is_ascii_whitespace()) {
            return Err("a line has one address, net or name, and a comment begins with #");
        }
        match ascii.parse() {
            Ok(net) => return Ok(Watched::Net(net)),
            Err(error) if ascii.contains('/') => return Err(NetError::reason(error)),
            Err(_) => {}
        }
        if ascii.contains(':') {
            return Err("not an IPv6 address");
        }
        if ascii.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err("not an IPv4 address");
        }
        let name = text.strip_suffix(b".").unwrap_or(text);
        if name.len() > MAX_NAME {
            return Err("a name has at most 253 bytes");
        }
        for label in name.split(|byte| *byte == b'.') {
            if label.is_empty() {
                return Err("a name has no empty label");
            }
            if label.len() > MAX_LABEL {
                return Err("a label of a name has at most 63 bytes");
            }
            if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                return Err("a name has letters, digits, hyphens, underscores and dots");
            }
        }
        Ok(Watched::Name(name))
    }
}

fn hash_of_net(hash: &KeyHash, net: Net) -> u64 {
    hash.of([(net.first() >> 64) as u64, net.first() as u64, net.mapped_prefix().into()])
}

/// The net of an entry; `None` for a name.
fn net_of(addresses: &[u128], entry: &Entry) -> Option<Net> {
    let is_net = entry.prefix != NO_PREFIX;
    Some(Net::of_mapped(*addresses.get(entry.at as usize).filter(|_| is_net)?, entry.prefix))
}

/// A name in lower case without a dot at its end; `None` if it is empty or too long for a name.
fn lowered<'b>(name: &[u8], lower: &'b mut [u8; MAX_NAME]) -> Option<&'b [u8]> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let lower = lower.get_mut(..name.len()).filter(|lower| !lower.is_empty())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    Some(lower)
}

/// The ends of a name that begin with a label, the shortest first, each with its hash. Each label is hashed once.
fn ends<'n>(key: &KeyHash, name: &'n [u8]) -> impl Iterator<Item = (u64, &'n [u8])> {
    let (mut hash, mut rest) = (0, Some(name));
    std::iter::from_fn(move || {
        let before = rest?;
        let begin = before.iter().rposition(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
        hash = key.of([hash, key.bytes(before.get(begin..)?)]);
        rest = begin.checked_sub(1).and_then(|dot| name.get(..dot));
        Some((hash, name.get(begin..)?))
    })
}

/// The name of an entry.
fn name_of<'l>(names: &'l [u8], entry: &Entry) -> &'l [u8] {
    match entry.prefix {
        NO_PREFIX => {
            let at = entry.at as usize;
            names.get(at..at + usize::from(entry.length)).unwrap_or_default()
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
