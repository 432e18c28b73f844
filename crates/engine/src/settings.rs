//! What a plan is compiled with, and why it may fail.

use crate::{ChosenFlows, OwnApps, Rules};
use std::sync::Arc;
use weir_filter::{FilterError, Options};
use weir_flow::VerifiedChecksums;

/// The settings of a plan, apart from its subscriptions.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How expressions are compiled.
    pub filter: Options<'static>,
    /// How checksums are treated.
    pub checksum: ChecksumMode,
    /// Keys of the hashes.
    pub seeds: Seeds,
    /// The flows whose packets are analysed, in the place of the run's expression; `None` for all packets that match that.
    pub chosen: Option<Arc<ChosenFlows>>,
    /// The applications that users describe.
    pub own_apps: Arc<OwnApps>,
    /// The rules that look at flows; `None` without any.
    pub rules: Option<Rules>,
}

/// Keys of the hashes of functions. Senders of packets do not know them, and so cannot choose packets that collide or that
/// bias an estimate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seeds {
    /// Keys all hashes but those of distinct counts.
    pub run: u64,
    /// Keys the hashes of distinct counts. Only counts of equal keys can be merged, so it outlives a run where counts are stored.
    pub distinct: u128,
}

/// Both keys from one number, for runs whose distinct counts are merged with those of no other run.
impl From<u64> for Seeds {
    fn from(run: u64) -> Self {
        Self { run, distinct: u128::from(run) }
    }
}

/// How checksums are treated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ChecksumMode {
    /// A sample of the packets is verified, and wrong or offloaded checksums are reported. No packet is excluded.
    #[default]
    Auto,
    /// All checksums are verified, and a packet with a wrong one is part of no flow.
    On,
    /// As on, but only a wrong checksum of TCP excludes a packet, as in Suricata.
    Tcp,
    /// No checksum is verified.
    Off,
}

impl ChecksumMode {
    /// The checksums that a flow table verifies.
    pub fn verified(self) -> VerifiedChecksums {
        match self {
            Self::Auto | Self::Off => VerifiedChecksums::None,
            Self::On => VerifiedChecksums::All,
            Self::Tcp => VerifiedChecksums::Tcp,
        }
    }
}

/// The reason why a plan cannot be built.
#[derive(Debug)]
pub enum PlanError {
    /// The expression of the whole run.
    Expression(FilterError),
    /// The expression of a subscription.
    Subscription {
        /// Its name.
        name: String,
        /// The error in the subscription.
        error: FilterError,
    },
    /// A function or its arguments.
    Function {
        /// The name of the subscription.
        name: String,
        /// The error, and the accepted values.
        error: String,
    },
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanError::Expression(error) => write!(f, "{error}"),
            PlanError::Subscription { name, error } => write!(f, "subscription `{name}`: {error}"),
            PlanError::Function { name, error } => write!(f, "subscription `{name}`: {error}"),
        }
    }
}

impl std::error::Error for PlanError {}
