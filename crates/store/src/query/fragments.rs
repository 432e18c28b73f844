//! Later fragments of packets, in which an expression over flows and one over packets differ.

use super::{Matter, Question};
use crate::tally::Subject;
use crate::{Store, StoreError, counter_id};
use weir_filter::FlowTest;
use weir_output::figures;

/// The counter of fragments that are counted to the flow of their packet's first fragment.
const JOINED: &str = "fragments_joined";

/// The note of an answer over flows whose expression names a port: how many packets of the range's flows have none. `None` if there
/// are none, or if only cells are stored that are longer than the range.
pub fn note(question: &Question, store: &dyn Store) -> Result<Option<String>, StoreError> {
    let is_over_flows = match &question.matter {
        Matter::Flows | Matter::Series(_) => true,
        Matter::Count(counting) | Matter::Quantiles(counting, _) => counting.subject == Subject::Flows,
        _ => false,
    };
    if !is_over_flows || !question.test.as_ref().is_some_and(names_port) {
        return Ok(None);
    }
    let kept = store.kept_points(&[counter_id(JOINED)], question.span, 1)?;
    let rates = kept.series.first().filter(|_| !kept.is_rounded);
    let rates = rates.into_iter().flat_map(|points| &points.avg).zip(&kept.widths);
    let sum = rates.map(|(rate, width)| rate.unwrap_or(0.0) * width).sum::<f64>().round() as u64;
    let (has, is) = if sum == 1 { ("has", "is") } else { ("have", "are") };
    let fragments = figures::counted(sum, "later fragment");
    Ok((sum > 0).then(|| {
        format!("{fragments} of packets, which {has} no port, {is} counted to the flows of their first fragments in this time")
    }))
}

/// Whether a test of the endpoints names a port.
fn names_port(test: &FlowTest) -> bool {
    match test {
        FlowTest::All(all) | FlowTest::Any(all) => all.iter().any(names_port),
        FlowTest::Not(test) | FlowTest::Row(_, test) => names_port(test),
        FlowTest::Port(..) => true,
        FlowTest::IsV4(_)
        | FlowTest::Protocol(_)
        | FlowTest::Vlan(_)
        | FlowTest::Address(..)
        | FlowTest::Field(_) => false,
    }
}
