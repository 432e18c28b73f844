//! Later fragments of packets, in which an expression over flows and one over packets differ.

use super::{Counting, Matter, Question};
use crate::tally::{Dimension, GroupBy, Measure, Subject, TallyWanted};
use crate::{Store, StoreError, counter_id};
use weir_filter::fields::{FieldInfo, FieldKind};
use weir_filter::{FLOW, FlowTest};
use weir_output::figures;

/// The counter of fragments that are counted to the flow of their packet's first fragment.
const JOINED: &str = "fragments_joined";
const LATER_FRAGMENTS: FieldInfo =
    FieldInfo { table: FLOW, name: "later_fragments", kind: FieldKind::Number, place: 0 };
/// A flow has this number of them or more.
const MAX_OF_FLOW: u64 = u16::MAX as u64;

/// The note of an answer over flows that is about ports: how many packets of its flows have none, so that an expression over packets
/// does not find them. `None` if the answer is not about ports, or if there are no such packets.
pub fn note(question: &Question, store: &dyn Store) -> Result<Option<String>, StoreError> {
    let counting = match &question.matter {
        Matter::Flows => None,
        Matter::Count(counting) if counting.subject == Subject::Flows => Some(counting),
        _ => return Ok(None),
    };
    let Some(test) = question.test.as_ref() else { return Ok(None) };
    if !names_port(test) && !counting.is_some_and(has_port) {
        return Ok(None);
    }
    // The sum reads the detail of every flow: only where fragments were seen.
    let kept = store.kept_points(&[counter_id(JOINED)], question.span, crate::Steps::About(1))?;
    if !kept.series.iter().flat_map(|points| &points.avg).flatten().any(|rate| *rate > 0.0) {
        return Ok(None);
    }
    let tally = store.tally(&TallyWanted {
        subject: Subject::Flows,
        by: Vec::new(),
        measure: Measure::Sum(LATER_FRAGMENTS),
        test: test.clone(),
        span: question.span,
        limit: 1,
        steps: 0,
        grid: None,
        values: None,
    })?;
    let sum = tally.total.sum.round() as u64;
    let least = if sum >= MAX_OF_FLOW { "at least " } else { "" };
    let (are, fragments) = if sum == 1 { ("is a", "later fragment") } else { ("are", "later fragments") };
    Ok((sum > 0).then(|| {
        format!(
            "{least}{} of these flows {are} {fragments}, in which an expression over packets sees no port",
            figures::counted(sum, "packet"),
        )
    }))
}

/// Whether the rows of an answer have a port.
fn has_port(counting: &Counting) -> bool {
    counting.by.iter().any(|dimension| match dimension {
        Dimension::Key(by) => matches!(by, GroupBy::Talker | GroupBy::Service | GroupBy::Flow),
        Dimension::Field(field) => is_port(*field),
    })
}

/// Whether a field of flows is the port of an end.
fn is_port(field: FieldInfo) -> bool {
    matches!(field.name, "client_port" | "server_port")
}

/// Whether a test of the endpoints names a port.
fn names_port(test: &FlowTest) -> bool {
    match test {
        FlowTest::All(all) | FlowTest::Any(all) => all.iter().any(names_port),
        FlowTest::Not(test) | FlowTest::Row(_, test) => names_port(test),
        FlowTest::Port(..) => true,
        FlowTest::Field(test) => test.field.table == FLOW && is_port(test.field),
        FlowTest::IsV4(_) | FlowTest::Protocol(_) | FlowTest::Vlan(_) | FlowTest::Address(..) => false,
    }
}
