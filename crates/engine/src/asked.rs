//! What is read of payload.

use crate::demand::Demand;
use crate::session_config::SessionConfig;
use std::sync::Arc;
use weir_proto::Wants;

/// What is read of payload, from the demand of a plan.
pub(crate) struct Asked {
    pub demand: Arc<Demand>,
    /// Whether the payload of packets is read.
    pub reads_payload: bool,
    /// Whether protocols are parsed, not only identified.
    pub parses: bool,
    pub wants: Wants,
    /// What the parsers are asked for of flows that may announce others, and of which nothing else has to be known.
    pub announcing: Wants,
    /// What functions see before records.
    pub early: weir_proto::Asked,
    /// Whether anomalies are asked for, by rules or as records.
    pub anomalies: bool,
}

impl Asked {
    /// What a plan's demand asks for.
    pub fn new(demand: &Arc<Demand>, config: &SessionConfig) -> Self {
        let wants = demand.wants(config.max_file, config.inflation);
        let parses = demand.parses();
        let reads_payload = parses || demand.streams || wants.identifies;
        let announcing =
            Wants { identifies: true, max: wants.max, inflation: wants.inflation, ..Wants::default() };
        let (early, anomalies) = (demand.early(), demand.reads_anomalies());
        Self { demand: Arc::clone(demand), reads_payload, parses, wants, announcing, early, anomalies }
    }

    /// What parsers of a flow are asked for. `is_whole`: all that is demanded, and not only the flows that it announces.
    pub fn wants_of(&self, is_whole: bool) -> Wants {
        if is_whole { self.wants } else { self.announcing }
    }

    /// Whether no protocol is identified.
    pub fn is_unread(&self) -> bool {
        !(self.parses || self.wants.identifies)
    }
}
