//! Flows by the state in which they ended.

use super::{Function, FunctionSpec, InputKind, Memory};
use crate::{FlowRecord, Item};
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    CONN_STATES, Datum, Fold, Folded, KeyColumn, Level, OWN_WORDS, Reading, Schema, Shown, Table,
    TableColumn, TableRow,
};

pub(super) static STATES: FunctionSpec = FunctionSpec {
    name: "states",
    help: "Ended flows by connection state, as Zeek names it (SF, S0, REJ), without those of late segments.",
    arguments: &[],
    levels: &[Level::Flow],
    input: InputKind::Packets,
    memory: |_| {
        let row = size_of::<TableRow>() + size_of::<Datum>() + size_of::<Folded>() + MAX_NAME;
        Ok(Memory { state: 512, reading: 512 + CONN_STATES.len() * row })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |_| Ok(Box::new(States { schema: Arc::new(SCHEMA), flows: [0; CONN_STATES.len()] })),
};

/// Maximum bytes of the name of a state.
const MAX_NAME: usize = 8;

static KEYS: [KeyColumn; 1] = [KeyColumn::new("state", OWN_WORDS, "State of the connection.")];
static COLUMNS: [TableColumn; 1] = [TableColumn::new("flows", Fold::Sum, "flows", "Ended flows.")];

const SCHEMA: Schema = Schema {
    name: Cow::Borrowed("states"),
    keys: Cow::Borrowed(&KEYS),
    columns: Cow::Borrowed(&COLUMNS),
    shown: Shown::Heaviest(CONN_STATES.len() as u32),
};

/// The flows of each state.
struct States {
    schema: Arc<Schema>,
    flows: [u64; CONN_STATES.len()],
}

impl Function for States {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::FlowEnd(FlowRecord { state, follows: 0, .. }, _) = item
            && let Some(flows) = self.flows.get_mut(*state as usize)
        {
            *flows += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.flows.iter().all(|flows| *flows == 0)
    }

    fn take(&mut self) -> Reading {
        let flows = std::mem::take(&mut self.flows);
        let named = CONN_STATES.into_iter().zip(flows).filter(|(_, flows)| *flows > 0);
        let row = |(state, flows): (&str, u64)| TableRow {
            key: vec![Datum::Text(state.into())],
            values: vec![Folded::Sum(flows)],
            error: 0,
        };
        Reading::Table(Table::new(Arc::clone(&self.schema), CONN_STATES.len(), named.map(row).collect(), 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::scans::tests::flood;
    use weir_api::FunctionCall;
    use weir_filter::Directions;

    #[test]
    fn flows_count_by_state_without_those_of_late_segments() {
        let mut states = STATES.call(&FunctionCall::new("states"), 1_u64).unwrap();
        let flow = flood(1);
        let state = CONN_STATES[flow.state as usize];
        for follows in [0, 0, 7] {
            states.item(&Item::FlowEnd(&FlowRecord { follows, ..flow }, Directions::BOTH));
        }
        assert!(!states.is_empty());
        let Reading::Table(table) = states.take() else { panic!("no table") };
        let rows: Vec<_> = table.rows.iter().map(|row| (&*row.key, row.weight())).collect();
        assert_eq!(rows, [(&[Datum::Text(state.into())][..], 2)]);
        assert!(states.is_empty());
        assert!(CONN_STATES.iter().all(|state| state.len() <= MAX_NAME));
    }
}
