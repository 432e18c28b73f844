//! Remote procedure calls in pipes (DCE 1.1, C706 chapter 12), of both versions: a call is written and its answer read, or
//! one exchange has both.

use super::waiting::Key;
use super::{At, Fid, INTERFACES, RELATED, Request, Smb, What};
use crate::dce_rpc::pdu::{self, Pdu, kind};
use crate::{Out, Span, Value, values};

impl Smb {
    /// Keeps a call that was written until its response is read.
    pub(super) fn wait_for_answer(&mut self, mut request: Request, fid: Fid, number: u32, out: &mut dyn Out) {
        request.key = Key::Call(fid, number);
        request.what = What::Other;
        self.wait(request, out);
    }

    /// Handles a response that was read from a pipe: it belongs to the call of its number. `at` has the bytes of the read.
    pub(super) fn answer_waiting(&mut self, fid: &Fid, data: &[u8], at: Span, out: &mut dyn Out) {
        let Some(pdu) = Pdu::read(data) else { return };
        let mut asked = |fid| self.waiting.take(Key::Call(fid, pdu.header.call));
        if let Some(mut request) = asked(*fid).or_else(|| asked(RELATED)) {
            request.answer(data);
            request.at.add(at);
            self.emit(request, out);
        }
    }
}

impl Request {
    /// Parses a call (DCE 1.1, 12.6) that is written to a pipe. Of a malformed one only the type is known.
    pub(super) fn call(&mut self, fid: Fid, data: &[u8]) {
        let Some(kind) = pdu::kind_of(data) else { return };
        let pdu = Pdu::read(data);
        self.set(At::RpcAsked, pdu::name(kind));
        self.set(At::RpcAnswer, "UNREPLIED");
        // The last packet of a call is the one that is answered.
        if pdu.as_ref().is_none_or(|pdu| pdu.header.is_last()) {
            let number = pdu.as_ref().map(|pdu| pdu.header.call).unwrap_or_default();
            self.what = What::Call { fid, number };
        }
        match kind {
            kind::REQUEST => {
                let asked = pdu.and_then(|pdu| pdu.asked());
                self.set(At::RpcNumber, asked.map(|asked| asked.operation));
            }
            kind::BIND => {
                let contexts = pdu.iter().flat_map(Pdu::contexts);
                let rows = contexts.map(|context| {
                    let [high, low] = context.version;
                    values!(
                        INTERFACES,
                        uuid = context.uuid.to_string(),
                        version = format!("{high}.{low}"),
                        result = Value::None,
                        reason = Value::None,
                        result_high = Value::None
                    )
                });
                self.set(At::RpcInterfaces, Value::Rows(rows.collect()));
            }
            _ => {}
        }
    }

    /// Parses the response to a call.
    pub(super) fn answer(&mut self, data: &[u8]) {
        let Some(pdu) = Pdu::read(data) else { return };
        self.set(At::RpcAnswer, pdu::name(pdu.header.kind));
        if pdu.header.kind != kind::BIND_ACK {
            return;
        }
        let Some(Value::Rows(rows)) = self.values.get_mut(At::RpcInterfaces as usize) else { return };
        for (row, outcome) in rows.iter_mut().zip(pdu.outcomes()) {
            const RESULT: usize = crate::record::at(&INTERFACES, "result");
            const REASON: usize = crate::record::at(&INTERFACES, "reason");
            const HIGH: usize = crate::record::at(&INTERFACES, "result_high");
            let results = [(RESULT, outcome.result), (REASON, outcome.reason), (HIGH, outcome.result >> 8)];
            for (at, value) in results {
                if let Some(place) = row.get_mut(at) {
                    *place = value.into();
                }
            }
        }
    }
}
