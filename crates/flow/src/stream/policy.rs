//! Overlap policies: which of two overlapping segments wins.

use std::str::FromStr;

/// Which data wins where two waiting segments overlap. Data that has been emitted is not changed.
///
/// Hosts differ. An attacker who knows the host's policy can show a monitor another stream than the host (Ptacek and
/// Newsham 1998; Shankar and Paxson 2003). Segments are compared by their begin and end at arrival.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Overlap {
    /// The first arrival wins.
    First,
    /// The last arrival wins.
    Last,
    /// The segment that begins further left wins, and of two with equal begin the longer one: the effect of Linux's
    /// queue of out-of-order segments (`tcp_data_queue_ofo`).
    #[default]
    Linux,
    /// The first arrival wins, unless the new segment begins before and ends after it.
    Windows,
    /// The first arrival wins, unless the new segment begins before it.
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

    /// Name of the policy.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Whether the new segment wins over the old one where they overlap. Both are given as first byte and last byte +
    /// 1.
    pub(crate) fn prefers_new(self, new: (u64, u64), old: (u64, u64)) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::Linux => new.0 < old.0 || new.0 == old.0 && new.1 > old.1,
            Self::Windows => new.0 < old.0 && new.1 > old.1,
            Self::Bsd => new.0 < old.0,
        }
    }

    /// Whether a segment is merged with the one that it continues, as Linux puts both into one buffer
    /// (`tcp_ooo_try_coalesce`): its begin is then that of the other.
    pub(crate) fn joins(self) -> bool {
        self == Self::Linux
    }

    /// Whether the new fragment of an IP packet wins over the old one (Novak 2005). Hosts treat fragments and segments
    /// differently.
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
