//! Which of two segments wins where they say different things.

use std::str::FromStr;

/// Who wins where two segments that both wait overlap. What has been handed on stays as it was.
///
/// Hosts differ, and who knows which a host is can show a monitor another stream than the host (Ptacek and Newsham 1998;
/// Shankar and Paxson 2003). Segments are compared by where they began and ended when they came.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Overlap {
    /// What came first.
    First,
    /// What came last.
    Last,
    /// What begins further to the left, and of two that begin together the longer one: what Linux's queue of segments
    /// out of order comes to (`tcp_data_queue_ofo`).
    #[default]
    Linux,
    /// What came first, unless the new one begins before and ends after it.
    Windows,
    /// What came first, unless the new one begins before it.
    Bsd,
}

impl Overlap {
    /// Every policy with its name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("first", Self::First),
        ("last", Self::Last),
        ("linux", Self::Linux),
        ("windows", Self::Windows),
        ("bsd", Self::Bsd),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Whether the new segment wins over the old one where they overlap; both as their first and last + 1 bytes.
    pub(crate) fn prefers_new(self, new: (u64, u64), old: (u64, u64)) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::Linux => new.0 < old.0 || new.0 == old.0 && new.1 > old.1,
            Self::Windows => new.0 < old.0 && new.1 > old.1,
            Self::Bsd => new.0 < old.0,
        }
    }

    /// Whether a segment is one with that which it continues, as Linux puts both into one buffer
    /// (`tcp_ooo_try_coalesce`): it then has its beginning from the other.
    pub(crate) fn joins(self) -> bool {
        self == Self::Linux
    }

    /// The same of fragments of IP packets (Novak 2005), whose hosts do not do as with segments.
    pub(crate) fn prefers_new_fragment(self, new: (u64, u64), old: (u64, u64)) -> bool {
        match self {
            Self::First | Self::Linux => false,
            Self::Last => true,
            Self::Windows => new.0 < old.0 && new.1 > old.1,
            Self::Bsd => new.0 < old.0,
        }
    }
}

impl FromStr for Overlap {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("no overlap policy {name:?}; there are {names}")
        })
    }
}
