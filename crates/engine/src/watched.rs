//! What is kept of a flow that rules look at.

use weir_detect::{Action, FlowState};
use weir_flow::FlowVerdict;
use weir_proto::{Alert, AlertSide, AlertTunnel};
use weir_wire::stream::Chunk;

/// A flow that rules look at.
#[derive(Default)]
pub(crate) struct Watched {
    pub state: FlowState,
    /// What the initiator and the responder have sent.
    pub sides: [AlertSide; 2],
    /// The latest bytes of their streams, if alerts have payload.
    pub latest: [Latest; 2],
    /// The tunnels that carry their packets, by the first of them.
    pub tunnels: [Option<AlertTunnel>; 2],
    /// Whether its client is the responder. The state and the matches of rules know the client as the initiator; all else here
    /// goes by the flow.
    pub is_turned: bool,
    /// Whether a rule has made an alert.
    pub alerted: bool,
    /// Bytes of memory accounted to it.
    pub held: usize,
}

impl Watched {
    /// A flow of which nothing is known.
    pub fn new() -> Box<Self> {
        Box::new(Self { held: size_of::<Self>(), ..Self::default() })
    }

    /// What rules have made of it so far.
    pub fn judged(&self) -> Judged {
        let verdict = self.state.verdict().and_then(|action| match action {
            Action::Pass => Some(FlowVerdict::Pass),
            Action::Drop => Some(FlowVerdict::Drop),
            _ => None,
        });
        Judged { alerted: self.alerted, verdict }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let latest: usize = self.latest.iter().map(|latest| latest.0.capacity()).sum();
        size_of::<Self>() + self.state.memory() + latest
    }
}

/// What rules have made of a flow so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    /// See [`weir_flow::FlowRecord::alerted`].
    pub alerted: bool,
    /// See [`weir_flow::FlowRecord::verdict`].
    pub verdict: Option<FlowVerdict>,
}

/// The latest bytes of a stream, with a text in place of each gap: at most twice [`Alert::PAYLOAD`], of which alerts have the last
/// half.
#[derive(Default)]
pub(crate) struct Latest(pub Vec<u8>);

impl Latest {
    /// Adds the next bytes, and a text for those that are missing before them.
    pub fn add(&mut self, chunk: &Chunk<'_>) {
        let gap = if chunk.gap > 0 { format!("[{} bytes missing]", chunk.gap) } else { String::new() };
        for bytes in [gap.as_bytes(), last(chunk.data)] {
            if self.0.len() + bytes.len() > 2 * Alert::PAYLOAD {
                self.0.drain(..self.0.len().saturating_sub(Alert::PAYLOAD));
            }
            self.0.extend_from_slice(bytes);
        }
    }
}

/// The last [`Alert::PAYLOAD`] bytes.
pub(crate) fn last(bytes: &[u8]) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(Alert::PAYLOAD)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Direction, Time};

    #[test]
    fn the_latest_bytes_of_a_stream_have_a_text_for_each_gap() {
        let mut latest = Latest::default();
        let mut add = |gap: u64, data: &[u8]| {
            let chunk = Chunk { time: Time(0), direction: Direction::Forward, gap, data };
            latest.add(&chunk);
            latest.0.clone()
        };
        add(0, b"VERY");
        assert_eq!(add(4, b"DATA"), b"VERY[4 bytes missing]DATA");
        let all: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        for piece in all.chunks(1_448) {
            assert!(add(0, piece).len() <= 2 * Alert::PAYLOAD);
        }
        let kept = add(0, b"");
        assert_eq!(last(&kept), &all[all.len() - Alert::PAYLOAD..]);
        assert_eq!(last(&add(1, &all)), &all[all.len() - Alert::PAYLOAD..]);
    }
}
