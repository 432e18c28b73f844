//! Remote procedure calls in pipes (DCE 1.1, C706 chapter 12), of both versions: a call is written and its answer read, or
//! one exchange has both.

use super::names::{self, u16_at};
use super::waiting::Key;
use super::{At, Fid, INTERFACES, RELATED, Request, Smb, What, is_call};
use crate::{Out, Span, Value, values};

impl Smb {
    /// Keeps a call that was written until its response is read.
    pub(super) fn wait_for_answer(
        &mut self,
        mut request: Request,
        fid: Fid,
        number: [u8; 4],
        out: &mut dyn Out,
    ) {
        request.key = Key::Call(fid, number);
        request.what = What::Other;
        self.wait(request, out);
    }

    /// Handles a response that was read from a pipe: it belongs to the call of its number. `at` has the bytes of the read.
    pub(super) fn answer_waiting(&mut self, fid: &Fid, data: &[u8], at: Span, out: &mut dyn Out) {
        let Some(number) = number(data).filter(|_| is_call(data)) else { return };
        let mut asked = |fid| self.waiting.take(Key::Call(fid, number));
        if let Some(mut request) = asked(*fid).or_else(|| asked(RELATED)) {
            request.answer(data);
            request.at.add(at);
            self.emit(request, out);
        }
    }
}

impl Request {
    /// Parses a call (DCE 1.1, 12.6) that is written to a pipe.
    pub(super) fn call(&mut self, fid: Fid, data: &[u8]) {
        const BIND: u8 = 11;
        let [5, 0, kind, _, order, ..] = data else { return };
        self.set(At::RpcAsked, packet(*kind));
        self.set(At::RpcAnswer, "UNREPLIED");
        self.what = What::Call { fid, number: number(data).unwrap_or_default() };
        // Numbers are nearly always little-endian; otherwise only names are emitted.
        if order & 0x10 == 0 {
            return;
        }
        match *kind {
            0 => self.set(At::RpcNumber, u16_at(data, 22)),
            BIND => {
                let count = usize::from(data.get(24).copied().unwrap_or(0)).min(32);
                let (mut rows, mut at) = (Vec::new(), 28);
                for _ in 0..count {
                    let Some((uuid, syntaxes)) = data.get(at + 4..at + 20).zip(data.get(at + 2)) else {
                        break;
                    };
                    let [high, low] = [at + 20, at + 22].map(|at| u16_at(data, at).unwrap_or(0));
                    rows.push(values!(
                        INTERFACES,
                        uuid = names::uuid(uuid),
                        version = format!("{high}.{low}"),
                        result = Value::None,
                        reason = Value::None,
                        result_high = Value::None
                    ));
                    at += 24 + 20 * usize::from(*syntaxes);
                }
                self.set(At::RpcInterfaces, Value::Rows(rows));
            }
            _ => {}
        }
    }

    /// Parses the response to a call.
    pub(super) fn answer(&mut self, data: &[u8]) {
        const BIND_ACK: u8 = 12;
        let [5, 0, kind, ..] = data else { return };
        self.set(At::RpcAnswer, packet(*kind));
        if *kind != BIND_ACK {
            return;
        }
        let Some(name) = u16_at(data, 24) else { return };
        // The secondary address precedes the results, which begin at a multiple of four.
        let results = (26 + usize::from(name)).next_multiple_of(4) + 4;
        if let Some(Value::Rows(rows)) = self.values.get_mut(At::RpcInterfaces as usize) {
            for (at, row) in rows.iter_mut().enumerate() {
                let begin = results + at * 24;
                const RESULT: usize = crate::record::at(&INTERFACES, "result");
                const REASON: usize = crate::record::at(&INTERFACES, "reason");
                const HIGH: usize = crate::record::at(&INTERFACES, "result_high");
                let results = [
                    (RESULT, u16_at(data, begin).into()),
                    (REASON, u16_at(data, begin + 2).into()),
                    (HIGH, data.get(begin + 1).copied().into()),
                ];
                for (at, value) in results {
                    if let Some(place) = row.get_mut(at) {
                        *place = value;
                    }
                }
            }
        }
    }
}

/// The number of a call, which its response repeats.
fn number(data: &[u8]) -> Option<[u8; 4]> {
    data.get(12..)?.first_chunk().copied()
}

fn packet(kind: u8) -> String {
    const NAMES: [&str; 20] = [
        "REQUEST",
        "PING",
        "RESPONSE",
        "FAULT",
        "WORKING",
        "NOCALL",
        "REJECT",
        "ACK",
        "CL_CANCEL",
        "FACK",
        "CANCEL_ACK",
        "BIND",
        "BINDACK",
        "BINDNACK",
        "ALTER_CONTEXT",
        "ALTER_CONTEXT_RESP",
        "AUTH3",
        "SHUTDOWN",
        "CO_CANCEL",
        "ORPHANED",
    ];
    NAMES.get(usize::from(kind)).map_or_else(|| format!("UNKNOWN-{kind}"), |name| (*name).to_owned())
}
