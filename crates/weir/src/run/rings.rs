//! The rings of triggers: each worker keeps its latest packets in a run whose packets cannot be read again.

use super::Run;
use crate::collector::Collector;
use crate::inputs::filter_options;
use crate::triggers::{Arrival, Board, LiveDumps, LiveWith, Preroll, Triggers};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_capture::InterfaceInfo;

/// Starts what triggers need. Returns the part of each worker; empty without triggers.
pub fn start(
    run: &Run,
    collector: &mut Collector,
    interfaces: &[InterfaceInfo],
    workers: usize,
    arrival: Arrival,
) -> VecDeque<Preroll> {
    if run.request.triggers.is_empty() {
        return VecDeque::new();
    }
    let mut triggers = Triggers::new(&run.request.triggers);
    let board = Arc::new(Board::new(triggers.specs(), workers));
    let (dumps, prerolls) = LiveDumps::start(LiveWith {
        triggers: triggers.specs(),
        workers,
        memory: run.division.prerolls,
        desk: &run.desk,
        options: filter_options(run.options.strict_bpf, run.options.inner, run.options.snaplen),
        interval: run.request.interval,
        interfaces,
        failures: run.failures.clone(),
        board: &board,
        arrival,
    });
    if let Some(beside) = &run.beside {
        beside.hub.set_board(Arc::clone(&board));
    }
    triggers.show(board);
    triggers.write_at_once(dumps);
    collector.trigger(triggers);
    prerolls.into()
}
