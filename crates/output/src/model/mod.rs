//! Traffic as distributions, for a generator or a simulation.

mod fit;
mod gather;
mod values;

pub use fit::{Fit, Fitted, fit_all};
pub use gather::{Gather, Host, Moment, StreamRow};
pub use values::{Random, Values};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_api::nearest_rank;

/// The version of the file format.
pub const VERSION: u32 = 1;

/// Traffic, by protocol and by groups of hosts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Version of the file format, see [`VERSION`].
    pub v: u32,
    /// Groups of flows, most flows first.
    pub groups: Vec<Group>,
}

/// Flows of one protocol between two kinds of hosts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The protocol.
    pub protocol: String,
    /// Group of the initiators: `inside`, `outside` or `multicast`.
    pub from: String,
    /// Group of the responders.
    pub to: String,
    /// IP protocol number.
    pub ip_proto: u8,
    /// The responders' port that was seen first; 0 for none.
    pub port: u16,
    /// Flows.
    pub flows: u64,
    /// Measurements, by the name of the quantity.
    pub quantities: BTreeMap<String, Described>,
}

/// A quantity's distribution.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// Number of values.
    pub count: u64,
    /// Mean of the values.
    pub mean: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Quantiles of 0 %, 1 %, ... 100 % by nearest rank, of a random sample if there were many values.
    pub quantiles: Vec<f64>,
    /// The fits, the best first.
    pub fits: Vec<Fitted>,
}

impl Described {
    /// Describes values.
    pub fn of(values: &Values) -> Self {
        let sorted = values.sorted();
        let at = |percent: u32| {
            sorted.get(nearest_rank(f64::from(percent) / 100.0, sorted.len() as u64) as usize).copied()
        };
        Self {
            count: values.count(),
            mean: values.mean(),
            min: values.min(),
            max: values.max(),
            quantiles: (0..=100).filter_map(at).collect(),
            fits: fit_all(&sorted),
        }
    }

    /// Draws a value: from the best fit; without one, from the quantiles.
    pub fn draw(&self, random: &mut Random) -> f64 {
        match self.fits.iter().find(|fitted| fitted.fit.is_sound()) {
            // Far beyond the measured range the tail of a fit is unreliable.
            Some(fitted) => fitted.fit.draw(random.pair()).min(self.max * 10.0),
            None => {
                let at = (random.even() * self.quantiles.len() as f64) as usize;
                self.quantiles.get(at).copied().unwrap_or(self.mean)
            }
        }
    }
}

/// Quantities, in the order of display: name, unit, description.
pub const QUANTITIES: [(&str, &str, &str); 12] = [
    ("packet_size", "bytes", "Size of IP packets"),
    ("packet_gap", "s", "Time between packets of a flow"),
    ("flow_size", "bytes", "Payload bytes of a flow"),
    ("flow_duration", "s", "Duration of a flow"),
    ("flow_gap", "s", "Time between starts of flows"),
    ("round_trip", "s", "Round trip of the handshake"),
    ("requests", "", "Requests of a flow"),
    ("request_size", "bytes", "Size of a request"),
    ("response_size", "bytes", "Size of a response"),
    ("wait", "s", "Time until a response begins"),
    ("think", "s", "Time until the next request"),
    ("burst", "packets", "Packets of a burst"),
];
