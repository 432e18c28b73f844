//! What is looked at of streams of TCP: windows of a side's bytes, in order.

use super::flow_state::{FlowState, Window, at};
use super::part::Part;
use super::prepared::Source;
use super::program::Program;
use super::trial::TrialEnd;
use super::{Detector, MatchedIn, Moment, find, group_of, in_order, tests_of};
use crate::rule::{BufferTests, Test};
use std::sync::Arc;
use weir_proto::PROTOCOLS;
use weir_wire::stream::Chunk;

/// Bytes of a side of a stream whose protocol encrypts that are looked at.
const DEPTH_ENCRYPTED: u64 = 16 << 10;

impl Detector {
    /// Looks at the next bytes of a stream of TCP, in order.
    pub fn chunk(&mut self, state: &mut FlowState, moment: &Moment<'_>, chunk: &Chunk<'_>) {
        if !self.program.reads_streams() || moment.ip_proto != 6 || !self.reads(state, moment) {
            return;
        }
        self.bring(state);
        // What the other side has sent is whole when this one answers.
        let other = Moment { direction: moment.direction.opposite(), packet: None, ..*moment };
        self.flush(state, &other);
        let most = if is_encrypted(moment) { DEPTH_ENCRYPTED } else { u64::MAX };
        let depth = self.judging.depth.min(most);
        let side = at(moment.direction);
        let size = self.window(side);
        if chunk.gap > 0 {
            self.flush(state, moment);
            if let Some(place) = state.windows.get_mut(side) {
                let window = place.get_or_insert_default();
                window.offset = window.offset.saturating_add(window.bytes.len() as u64 + chunk.gap);
                window.bytes.clear();
                window.old = 0;
            }
        }
        let sizes = state.sizes_now();
        let mut rest = chunk.data;
        while !rest.is_empty() {
            let Some(place) = state.windows.get_mut(side) else { return };
            let window = place.get_or_insert_default();
            let end = window.offset + window.bytes.len() as u64;
            if end >= depth {
                // What waits is from before the protocol was known that ends it here. Then no byte is needed any more.
                self.flush(state, moment);
                if let Some(window) = state.windows.get_mut(side).and_then(Option::as_mut) {
                    **window = Window { offset: end, ..Window::default() };
                }
                return;
            }
            let left = usize::try_from(depth - end).unwrap_or(usize::MAX);
            window.sizes = sizes;
            let room = size.saturating_sub(window.bytes.len() - window.old).min(left);
            let (now, after) = rest.split_at(room.min(rest.len()));
            window.bytes.extend_from_slice(now);
            rest = after;
            if now.len() == room {
                self.flush(state, moment);
            }
        }
        // Nothing acknowledges what a side sends that is alone.
        let is_alone = self.judging.is_oneside && state.is_oneside();
        if self.judging.each_segment || is_alone {
            self.flush(state, moment);
        }
    }

    /// Looks at what waits of a side's stream if the connection is closed and the other side has acknowledged all of it, as
    /// Suricata does with the next segment of this side.
    pub(super) fn end_stream(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        if state.is_at_end(moment.direction) {
            self.flush(state, moment);
        }
    }

    /// Looks at what waits of a side's stream.
    pub(super) fn flush(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        let side = at(moment.direction);
        let waits = |window: &Window| window.bytes.len() > window.old;
        let Some(mut window) =
            state.windows.get_mut(side).and_then(|place| place.take_if(|window| waits(window)))
        else {
            return;
        };
        if !state.is_over(self.number) && !state.is_shown_syn(side, &window) {
            state.sizes_then = Some(window.sizes);
            let program = Arc::clone(&self.program);
            let mut found = std::mem::take(&mut self.found);
            let group = group_of(&program, &mut self.groups, state, moment);
            let views = group.map_or(&[][..], |group| &group.streams);
            let text = (&*window.bytes, window.offset == 0);
            find(&program, views, Source::Streams(moment.direction), moment, text, &mut found);
            in_order(&mut found);
            let is_named = moment.protocols.iter().any(|place| *place > 0);
            for part in found.drain(..) {
                let holds =
                    |detector: &mut Self, one: &Part| detector.window_holds(&program, one, &window, is_named);
                self.try_part(&program, part, state, moment, MatchedIn::Stream, holds);
            }
            self.found = found;
            state.sizes_then = None;
        }
        // What lies over the end of a window is found with the next one.
        let surplus = window.bytes.len().saturating_sub(self.window(side));
        window.bytes.drain(..surplus);
        window.offset += surplus as u64;
        window.old = window.bytes.len();
        if let Some(place) = state.windows.get_mut(side) {
            *place = Some(window);
        }
    }

    /// Whether the tests of a part hold for a window, and not for what was looked at before. `is_named`: the flow has a protocol.
    fn window_holds(&mut self, program: &Program, part: &Part, window: &Window, is_named: bool) -> bool {
        let Some(rule) = program.rules.get(part.rule as usize) else { return false };
        // Places count from the beginning of the stream.
        let has_place = |of: &BufferTests| {
            of.tests.iter().any(|test| match test {
                Test::Content(content) => {
                    content.offset.is_some() || content.depth.is_some() || content.is_at_start
                }
                _ => false,
            })
        };
        if window.offset > 0 && tests_of(rule, &part.tests).any(|(_, of)| has_place(of)) {
            self.watching.failure = Some(TrialEnd::LaterWindow);
            return false;
        }
        let mut holds = |bytes: &[u8]| {
            self.memory.begin(rule.rule().variables.len());
            tests_of(rule, &part.tests).all(|of| self.holds(of, bytes, rule.decoded()))
        };
        let is_found = holds(&window.bytes);
        let (old, new) = window.bytes.split_at_checked(window.old).unwrap_or_default();
        // Windows of a protocol end with its messages, and each may match. Others end where the other side sends: what matched in as
        // many bytes before is a match already.
        let is_old = is_found && !old.is_empty() && holds(old) && !(is_named && holds(new));
        if is_old {
            self.watching.failure = Some(TrialEnd::FoundBefore);
        }
        is_found && !is_old
    }
}

/// Whether the protocol of a flow encrypts its streams.
fn is_encrypted(moment: &Moment<'_>) -> bool {
    let encrypts = |place: &u8| {
        let protocol = usize::from(*place).checked_sub(1).and_then(|at| PROTOCOLS.get(at));
        protocol.is_some_and(|protocol| ["tls", "ssh"].contains(&protocol.name))
    };
    moment.protocols.iter().any(encrypts)
}
