//! The calls of one association, over TCP or in one pipe, each with its answer.

use super::buffers::{Joined, MAX_DATA, Shown};
use super::pdu::{Asked, Context, HEADER, MAX_CONTEXTS, Pdu, Verifier, kind, name};
use super::{DCE_RPC, INTERFACES, PROTOCOL, names};
use crate::early::begin_transaction;
use crate::work::looked_at;
use crate::{Out, Record, Span, Value, gssapi, kerberos, record, values};
use std::borrow::Cow;
use std::collections::VecDeque;
use weir_wire::{Direction, Time};

/// Maximum number of calls without an answer.
const MAX_WAITING: usize = 64;

/// What carries the calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Carrier {
    Tcp,
    /// A pipe of SMB.
    Pipe,
}

/// The calls of one association.
pub(crate) struct Calls {
    carrier: Carrier,
    /// Interfaces that calls name by their numbers: of a number, the last one.
    bound: VecDeque<Bound>,
    /// The pipe or the port that the server names.
    address: Option<Vec<u8>>,
    waiting: VecDeque<Call>,
    /// Number of transactions that have begun.
    begun: u64,
    login: kerberos::Login,
}

/// An interface that was asked for, with the result.
#[derive(Clone, Copy)]
struct Bound {
    context: Context,
    outcome: Option<[u16; 2]>,
}

/// A call, or another packet with an answer.
struct Call {
    /// Type of the packet; `None` if it was lost.
    kind: Option<u8>,
    number: u32,
    /// Number of its transaction.
    transaction: u64,
    minor: u8,
    /// Time of its last packet.
    time: Time,
    /// Its bytes, and those of the answer.
    at: Span,
    asked: Option<Asked>,
    sent: Parts,
    /// The data of its packets before the last one, for rules.
    data: Joined,
    /// Interfaces that a bind asks for.
    bound: Vec<Bound>,
    /// Mechanism and level of the verifier.
    security: Option<[u8; 2]>,
    answer: Option<Answer>,
}

/// The packets of one direction of a call.
#[derive(Clone, Copy, Default)]
struct Parts {
    packets: u64,
    /// Length of their data.
    bytes: u64,
    /// Length after the header, and of a request after its numbers.
    size: u64,
    /// Whether the last one is among them.
    is_whole: bool,
}

impl Parts {
    fn add(&mut self, pdu: &Pdu<'_>) {
        self.packets += 1;
        self.bytes += pdu.data() as u64;
        let numbers = if pdu.header.is_asking() { 8 } else { 0 };
        self.size += pdu.header.length.saturating_sub(HEADER + numbers) as u64;
        self.is_whole |= pdu.header.is_last();
    }
}

struct Answer {
    kind: u8,
    time: Time,
    got: Parts,
    /// The data of its packets before the last one, for rules.
    data: Joined,
    context: Option<u16>,
    /// The status of a fault, or the reason of a refusal.
    fault: Option<u32>,
}

/// Where and when a packet was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub side: Direction,
    pub time: Time,
    /// Its bytes.
    pub at: Span,
}

impl Calls {
    pub fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            bound: VecDeque::new(),
            address: None,
            waiting: VecDeque::new(),
            begun: 0,
            login: kerberos::Login::default(),
        }
    }

    /// Takes a packet; `bytes` are its bytes.
    pub fn take(&mut self, bytes: &[u8], sent: Sent, out: &mut dyn Out) {
        let Some(pdu) = Pdu::read(bytes) else {
            return PROTOCOL.emit_anomaly("malformed_data", sent.side, bytes, sent.time, out);
        };
        let is_negotiation = !matches!(pdu.header.kind, kind::REQUEST | kind::RESPONSE | kind::FAULT);
        if let Some(verifier) = pdu.verifier.filter(|_| is_negotiation) {
            self.token(verifier, sent.time, out);
        }
        match pdu.header.kind {
            kind::REQUEST => self.request(&pdu, bytes, sent, out),
            kind::BIND | kind::ALTER_CONTEXT => self.bind(&pdu, bytes, sent, out),
            kind::AUTH3 => {
                let mut call = self.begin(&pdu, sent);
                call.sent.is_whole = true;
                self.show(call.transaction, None, sent, out);
                self.emit(call, out);
            }
            kind::RESPONSE | kind::FAULT | kind::BIND_ACK | kind::BIND_NAK | kind::ALTER_CONTEXT_RESPONSE => {
                self.answer(&pdu, sent, out)
            }
            kind::ORPHANED => {
                let number = pdu.header.call;
                if let Some(call) = self.remove(|call| call.number == number) {
                    self.emit(call, out);
                }
            }
            // A call that is to be cancelled is answered nevertheless; a request to shut down has no answer.
            _ => {}
        }
    }

    /// Emits the calls without an answer.
    pub fn end(&mut self, out: &mut dyn Out) {
        for call in std::mem::take(&mut self.waiting) {
            self.emit(call, out);
        }
        self.login.end(out);
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        let calls = self.waiting.iter().map(|call| {
            let answer = call.answer.as_ref().map_or(0, |answer| answer.data.memory());
            call.bound.capacity() * size_of::<Bound>() + call.data.memory() + answer
        });
        self.waiting.capacity() * size_of::<Call>()
            + calls.sum::<usize>()
            + self.bound.capacity() * size_of::<Bound>()
            + self.address.as_ref().map_or(0, Vec::capacity)
            + self.login.memory()
    }

    /// Takes the token of a verifier.
    fn token(&mut self, verifier: Verifier<'_>, time: Time, out: &mut dyn Out) {
        let message = match verifier.kind {
            super::SPNEGO | super::NTLM => gssapi::carried(verifier.token, out),
            super::KERBEROS => gssapi::kerberos_carried(verifier.token, out),
            _ => None,
        };
        if let Some(message) = message {
            self.login.take(message, time, out);
        }
    }

    /// Begins a call.
    fn begin(&mut self, pdu: &Pdu<'_>, sent: Sent) -> Call {
        let transaction = self.begun;
        self.begun += 1;
        Call { transaction, ..Call::new(pdu, sent) }
    }

    /// Removes the last call of a kind.
    fn remove(&mut self, is_it: impl Fn(&Call) -> bool) -> Option<Call> {
        looked_at(self.waiting.len());
        let at = self.waiting.iter().rposition(is_it)?;
        self.waiting.remove(at)
    }

    /// Takes a packet of a request: the first one, or another one of a request that is incomplete.
    fn request(&mut self, pdu: &Pdu<'_>, bytes: &[u8], sent: Sent, out: &mut dyn Out) {
        let number = pdu.header.call;
        let is_it = |call: &Call| call.number == number && call.kind == Some(kind::REQUEST);
        let begun =
            if pdu.header.is_first() { None } else { self.remove(|call| is_it(call) && !call.sent.is_whole) };
        let mut call = begun.unwrap_or_else(|| self.begin(pdu, sent));
        call.asked = call.asked.or_else(|| pdu.asked());
        if call.asked.is_none() {
            return PROTOCOL.emit_anomaly("malformed_data", sent.side, bytes, sent.time, out);
        }
        call.sent.add(pdu);
        call.time = sent.time;
        call.at.add(sent.at);
        if out.asked().has_buffers() {
            self.show_request(pdu, &mut call, sent, out);
        }
        self.wait(call, sent, out);
    }

    /// Shows rules a call whose last packet this is, and keeps the data of another packet for them.
    fn show_request(&self, pdu: &Pdu<'_>, call: &mut Call, sent: Sent, out: &mut dyn Out) {
        let (data, room) = (pdu.after_numbers(), self.room(call.data.len(), |call| call.data.len()));
        if !pdu.header.is_last() {
            return call.data.add(pdu, data, room, out);
        }
        let data = call.data.end(pdu, data, room);
        let shown = self.shown(pdu, call, call.asked.map(|asked| asked.context), data);
        self.show(call.transaction, Some(shown), sent, out);
    }

    /// Takes a bind, or a change of contexts.
    fn bind(&mut self, pdu: &Pdu<'_>, bytes: &[u8], sent: Sent, out: &mut dyn Out) {
        let mut call = self.begin(pdu, sent);
        call.bound = pdu.contexts().map(|context| Bound { context, outcome: None }).collect();
        if call.bound.len() < pdu.announced_contexts().clamp(1, MAX_CONTEXTS) {
            PROTOCOL.emit_anomaly("malformed_data", sent.side, bytes, sent.time, out);
        }
        call.sent.is_whole = true;
        self.learn(&call.bound);
        self.show(call.transaction, None, sent, out);
        self.wait(call, sent, out);
    }

    /// Keeps interfaces that calls will name by their numbers.
    fn learn(&mut self, bound: &[Bound]) {
        looked_at(self.bound.len() * bound.len());
        for new in bound {
            self.bound.retain(|old| old.context.number != new.context.number);
            if self.bound.len() == MAX_CONTEXTS {
                self.bound.pop_front();
            }
            self.bound.push_back(*new);
        }
    }

    /// The interface of a number.
    fn bound(&self, number: u16) -> Option<&Bound> {
        looked_at(self.bound.len());
        self.bound.iter().find(|bound| bound.context.number == number)
    }

    /// Keeps a call until its answer. One of equal number and kind has got its answer, which was lost.
    fn wait(&mut self, call: Call, sent: Sent, out: &mut dyn Out) {
        if let Some(old) = self.remove(|old| old.number == call.number && old.kind == call.kind) {
            self.emit(old, out);
        }
        if self.waiting.len() == MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            PROTOCOL.emit_anomaly("too_many_requests", sent.side, &[], sent.time, out);
            self.emit(oldest, out);
        }
        self.waiting.push_back(call);
    }

    /// Takes a packet of an answer.
    fn answer(&mut self, pdu: &Pdu<'_>, sent: Sent, out: &mut dyn Out) {
        let header = pdu.header;
        let is_asked = |call: &Call| {
            let fits = match header.kind {
                kind::RESPONSE => matches!(call.kind, Some(kind::REQUEST) | None),
                kind::BIND_ACK | kind::BIND_NAK => call.kind == Some(kind::BIND),
                kind::ALTER_CONTEXT_RESPONSE => call.kind == Some(kind::ALTER_CONTEXT),
                _ => true,
            };
            call.number == header.call && fits
        };
        let asked = self.remove(is_asked);
        let mut call = asked
            .unwrap_or_else(|| Call { kind: None, ..self.begin(pdu, Sent { at: Span::default(), ..sent }) });
        call.at.add(sent.at);
        let mut answer = call.answer.take().unwrap_or(Answer {
            kind: header.kind,
            time: sent.time,
            got: Parts::default(),
            data: Joined::default(),
            context: None,
            fault: None,
        });
        answer.time = sent.time;
        match header.kind {
            kind::RESPONSE => {
                answer.context = answer.context.or_else(|| pdu.answered_context());
                answer.got.add(pdu);
            }
            kind::FAULT => {
                // It takes the place of a response that has begun.
                answer.kind = kind::FAULT;
                answer.context = pdu.answered_context();
                answer.fault = pdu.fault();
                answer.got.is_whole = true;
            }
            kind::BIND_NAK => {
                answer.fault = pdu.refusal().map(u32::from);
                answer.got.is_whole = true;
            }
            _ => {
                self.acknowledge(pdu, &mut call.bound);
                answer.got.is_whole = true;
            }
        }
        let is_whole = answer.got.is_whole;
        if out.asked().has_buffers() {
            self.show_answer(pdu, &call, &mut answer, sent, out);
        }
        call.answer = Some(answer);
        if is_whole { self.emit(call, out) } else { self.wait(call, sent, out) }
    }

    /// Shows rules an answer whose last packet this is, and keeps the data of another packet for them.
    fn show_answer(&self, pdu: &Pdu<'_>, call: &Call, answer: &mut Answer, sent: Sent, out: &mut dyn Out) {
        if pdu.header.kind != kind::RESPONSE {
            return self.show(call.transaction, None, sent, out);
        }
        let data = match self.carrier {
            Carrier::Tcp => pdu.after_header(),
            Carrier::Pipe => pdu.after_numbers(),
        };
        let held = |call: &Call| call.answer.as_ref().map_or(0, |answer| answer.data.len());
        let room = self.room(answer.data.len(), held);
        if !pdu.header.is_last() {
            return answer.data.add(pdu, data, room, out);
        }
        let context = call.asked.map(|asked| asked.context).or(answer.context);
        let data = answer.data.end(pdu, data, room);
        let shown = self.shown(pdu, call, context, data);
        self.show(call.transaction, Some(shown), sent, out);
    }

    /// What rules see of a call or response.
    fn shown<'a>(
        &self,
        pdu: &Pdu<'_>,
        call: &Call,
        context: Option<u16>,
        data: Option<Cow<'a, [u8]>>,
    ) -> Shown<'a> {
        let bound = context.and_then(|context| self.bound(context));
        Shown {
            interface: bound.filter(|bound| !bound.is_rejected()).map(|bound| bound.context),
            operation: call.asked.map(|asked| asked.operation),
            is_little: pdu.header.is_little,
            data,
        }
    }

    /// How many bytes of data calls of a side may still keep, of which this call has `own`, and each other one those of `held`.
    fn room(&self, own: usize, held: impl Fn(&Call) -> usize) -> usize {
        looked_at(self.waiting.len());
        MAX_DATA.saturating_sub(own + self.waiting.iter().map(held).sum::<usize>())
    }

    /// Shows rules what a side has sent whole. In a pipe the messages that carry it are the transactions.
    fn show(&self, transaction: u64, shown: Option<Shown<'_>>, sent: Sent, out: &mut dyn Out) {
        if !out.asked().has_buffers() {
            return;
        }
        if self.carrier == Carrier::Tcp {
            begin_transaction(sent.side, transaction, out);
        }
        if let Some(shown) = shown {
            shown.emit(sent.side, out);
        }
        if self.carrier == Carrier::Tcp {
            out.side_is_complete(sent.side);
        }
    }

    /// Takes note that bytes of a side are missing: the data of its incomplete calls are not whole.
    pub fn miss(&mut self, side: Direction) {
        looked_at(self.waiting.len());
        for call in &mut self.waiting {
            match (side, &mut call.answer) {
                (Direction::Forward, _) => call.data.forget(),
                (Direction::Reverse, Some(answer)) => answer.data.forget(),
                (Direction::Reverse, None) => {}
            }
        }
    }

    /// Takes what an acknowledgement says of the interfaces that were asked for.
    fn acknowledge(&mut self, pdu: &Pdu<'_>, bound: &mut [Bound]) {
        if let Some(address) = pdu.address().filter(|address| !address.is_empty()) {
            self.address = Some(address.to_vec());
        }
        for (bound, outcome) in bound.iter_mut().zip(pdu.outcomes()) {
            bound.outcome = Some([outcome.result, outcome.reason]);
        }
        self.learn(bound);
    }

    /// Emits the row of a call.
    fn emit(&self, call: Call, out: &mut dyn Out) {
        if out.takes(&DCE_RPC) {
            out.record(self.row(&call).over(call.at));
        }
    }

    fn row(&self, call: &Call) -> Record<'static> {
        let answer = call.answer.as_ref().filter(|answer| answer.got.is_whole);
        let is_call = call.asked.is_some() || answer.is_some_and(|answer| answer.kind == kind::RESPONSE);
        let number = call.asked.map(|asked| asked.context);
        let number = number.or_else(|| answer.and_then(|answer| answer.context)).filter(|_| is_call);
        let bound = number.and_then(|number| self.bound(number));
        let interfaces =
            if call.bound.is_empty() { bound.map(std::slice::from_ref) } else { Some(&*call.bound) };
        let first = interfaces.and_then(|interfaces| interfaces.first());
        let time = |answer: &Answer| call.kind.map(|_| answer.time.since(call.time));
        let rtt = answer.and_then(time).filter(|time| *time > 0);
        let parts = |parts: Parts| (parts.packets > 0).then_some(parts);
        let (sent, got) = (parts(call.sent), call.answer.as_ref().and_then(|answer| parts(answer.got)));
        let [mechanism, level] = call.security.map_or([None; 2], |security| security.map(Some));
        record!(
            DCE_RPC,
            call.time,
            request = call.kind.map_or_else(|| "REQUEST_LOST".to_owned(), name),
            response = match answer {
                Some(answer) => Some(name(answer.kind)),
                // It has no answer.
                None if call.kind == Some(kind::AUTH3) => None,
                None => Some("UNREPLIED".to_owned()),
            },
            rtt = rtt.map(Value::Duration),
            named_pipe = self.address.clone(),
            endpoint = first.map(|bound| names::endpoint(bound.context.uuid)),
            operation = call
                .asked
                .zip(bound)
                .map(|(asked, bound)| names::operation(bound.context.uuid, asked.operation)),
            call_id = call.number,
            rpc_version = format!("5.{}", call.minor),
            context = number,
            opnum = call.asked.map(|asked| asked.operation),
            request_packets = sent.map(|parts| parts.packets),
            request_bytes = sent.map(|parts| parts.bytes),
            request_size = sent.map(|parts| parts.size),
            response_packets = got.map(|parts| parts.packets),
            response_bytes = got.map(|parts| parts.bytes),
            response_size = got.map(|parts| parts.size),
            fault = answer.and_then(|answer| answer.fault).map(|code| format!("0x{code:08x}")),
            interfaces =
                interfaces.map(|interfaces| Value::Rows(interfaces.iter().map(Bound::row).collect())),
            mechanism = mechanism.map(super::mechanism),
            protection = level.map(super::protection),
            carrier = match self.carrier {
                Carrier::Tcp => "tcp",
                Carrier::Pipe => "smb",
            },
        )
    }
}

impl Call {
    fn new(pdu: &Pdu<'_>, sent: Sent) -> Self {
        Self {
            kind: Some(pdu.header.kind),
            number: pdu.header.call,
            transaction: 0,
            minor: pdu.header.minor,
            time: sent.time,
            at: sent.at,
            asked: None,
            sent: Parts::default(),
            data: Joined::default(),
            bound: Vec::new(),
            security: pdu.verifier.map(|verifier| [verifier.kind, verifier.level]),
            answer: None,
        }
    }
}

impl Bound {
    /// Whether the server has rejected it.
    fn is_rejected(&self) -> bool {
        self.outcome.is_some_and(|[result, _]| result != 0)
    }

    fn row(&self) -> Vec<Value<'static>> {
        let [high, low] = self.context.version;
        let [result, reason] = self.outcome.map_or([None; 2], |outcome| outcome.map(Some));
        values!(
            INTERFACES,
            uuid = self.context.uuid.to_string(),
            version = format!("{high}.{low}"),
            result = result,
            reason = reason,
        )
    }
}
