//! The flows that a plan has identified or parsed: those of which a subscription may see a record, by their keys.
//!
//! A flow may announce others, between other hosts (RTP of a call). Where a subscription may see records of announced flows, the
//! other flows are identified, and those that announce flows are parsed.

use crate::cover::{Cover, Covering, Possible};
use crate::planned::Reads;
use crate::{FlowIdentity, fields};
use weir_filter::Directions;

/// How a flow is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reading {
    /// As the demand of the plan says.
    Whole,
    /// It is identified, and parsed if its protocol announces flows.
    Announcements,
    /// Not at all.
    Nothing,
}

/// The flows that are identified or parsed.
pub(crate) struct Read {
    /// Whether a subscription needs all flows.
    is_all: bool,
    /// The subscriptions that need some flows.
    cover: Cover<Possible>,
    /// Whether one of these may see records of announced flows.
    is_announced: bool,
}

impl Read {
    /// Those of the subscriptions of a plan that need something besides packets; reuses what the plan before has compiled.
    pub fn after(before: Option<&Read>, mut asking: Vec<Covering<'_>>) -> Self {
        let is_all = asking.iter().any(|one| one.compiled.reads == Reads::All);
        asking.retain(|one| !is_all && matches!(one.compiled.reads, Reads::Of(_)));
        let covering = asking;
        let is_announced = covering.iter().any(|one| one.compiled.is_announced);
        Self { is_all, cover: Cover::after(before.map(|read| &read.cover), &covering), is_announced }
    }

    /// Whether all flows are read.
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// How a flow is read. `found` is reused memory.
    pub fn of(&self, flow: &FlowIdentity, found: &mut Vec<(u32, Directions)>) -> Reading {
        if self.is_all || self.cover.covers(&fields::endpoints(flow), found) {
            Reading::Whole
        } else if self.is_announced {
            Reading::Announcements
        } else {
            Reading::Nothing
        }
    }
}
