//! Requests with their responses: which response belongs to which request, and when both are complete.

use super::PROTOCOL;
use super::body::{Described, Listed, Ranges};
use super::message::{Headers, RequestLine, StatusLine};
use super::odd::Versions;
use super::uri;
use super::waiting::{Waiting, Waits};
use crate::file::Files;
use crate::{Out, Span};
use weir_wire::{Direction, Time};

/// Maximum number of requests without a response; Suricata's limit.
const MAX_WAITING: usize = 512;
/// Memory limit of these requests in bytes; ordinary requests take a hundredth of it.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// State shared by both sides.
pub(super) struct Shared {
    pub(super) files: Files,
    pub(super) ranges: Ranges,
    /// Their identifiers are consecutive.
    pub(super) waiting: Waiting<Transaction>,
    pub(super) begun: u32,
    /// Whether a request was sent before the response to an earlier one.
    pub(super) pipelined: bool,
    /// Whether a response without a request was reported.
    pub(super) unmatched: bool,
    pub(super) versions: Versions,
}

/// A request with its response, as far as they were read.
pub(super) struct Transaction {
    pub(super) time: Time,
    /// The bytes of both messages.
    pub(super) at: Span,
    pub(super) request: Option<RequestLine>,
    pub(super) request_headers: Headers,
    pub(super) request_length: u64,
    pub(super) sent: Option<Box<Listed>>,
    /// The response so far.
    pub(super) answer: Option<Box<Answer>>,
    pub(super) id: u32,
    pub(super) is_asked: bool,
    pub(super) is_begun: bool,
    pub(super) is_answered: bool,
}

/// The response of a transaction.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) line: Option<StatusLine>,
    pub(super) headers: Headers,
    /// The last interim response (1xx).
    pub(super) info: Option<StatusLine>,
    /// Time of its end; `None` if it has not ended.
    pub(super) ended: Option<Time>,
    pub(super) length: u64,
    pub(super) wire: u64,
    pub(super) received: Option<Box<Listed>>,
}

impl Shared {
    pub(super) fn transaction(&mut self, id: u32) -> Option<&mut Transaction> {
        self.waiting.open(id)
    }

    pub(super) fn held(&self, id: u32) -> Option<&Transaction> {
        self.waiting.get(id)
    }

    /// Creates a transaction.
    pub(super) fn begin(&mut self, time: Time, out: &mut dyn Out) -> u32 {
        if self.waiting.len() >= MAX_WAITING || self.waiting.held() >= MAX_WAITING_BYTES {
            PROTOCOL.emit_anomaly("too_many_requests", Direction::Forward, b"", time, out);
            if let Some(transaction) = self.waiting.pop() {
                transaction.emit(out);
            }
        }
        let id = self.begun;
        self.begun += 1;
        self.waiting.push(Transaction {
            time,
            at: Span::default(),
            request: None,
            request_headers: Headers::default(),
            request_length: 0,
            sent: None,
            answer: None,
            id,
            is_asked: false,
            is_begun: false,
            is_answered: false,
        });
        id
    }

    /// The transaction of a response that begins: the first request without a response, or a new transaction if no
    /// request was seen.
    pub(super) fn answering(&mut self, time: Time, out: &mut dyn Out) -> u32 {
        if let Some(transaction) = self.waiting.iter().find(|transaction| !transaction.is_begun) {
            return transaction.id;
        }
        if !std::mem::replace(&mut self.unmatched, true) {
            PROTOCOL.emit_anomaly("unmatched_HTTP_reply", Direction::Reverse, b"", time, out);
        }
        let id = self.begin(time, out);
        if let Some(transaction) = self.transaction(id) {
            transaction.is_asked = true;
        }
        id
    }

    /// Handles lost requests: earlier requests get no more responses, except one whose response has begun.
    pub(super) fn forget_asked(&mut self, out: &mut dyn Out) {
        self.waiting.mark(|transaction| {
            transaction.is_asked = true;
            transaction.is_answered |= !transaction.is_begun;
        });
        self.settle(out);
    }

    /// Handles lost responses: the next response answers the last request.
    pub(super) fn forget_unanswered(&mut self, out: &mut dyn Out) {
        let last = self.waiting.back().map(|transaction| transaction.id);
        self.waiting.mark(|transaction| {
            let is_over = Some(transaction.id) != last;
            transaction.is_asked |= is_over;
            transaction.is_answered |= is_over;
        });
        self.settle(out);
    }

    /// Emits complete transactions.
    pub(super) fn settle(&mut self, out: &mut dyn Out) {
        while self.waiting.front().is_some_and(|front| front.is_asked && front.is_answered) {
            if let Some(transaction) = self.waiting.pop() {
                transaction.emit(out);
            }
        }
    }
}

impl Waits for Transaction {
    fn id(&self) -> u32 {
        self.id
    }

    fn memory(&self) -> usize {
        Self::memory(self)
    }
}

impl Transaction {
    pub(super) fn method(&self) -> &[u8] {
        self.request.as_ref().map_or(&[], RequestLine::method)
    }

    /// Whether it is of HTTP/0.9: a request without a version that got no status line, or a response without one.
    pub(super) fn is_simple(&self) -> bool {
        let has_line = self.answer.as_ref().is_some_and(|a| a.line.is_some() || a.info.is_some());
        !has_line && (self.is_begun || self.asks_simply())
    }

    /// Whether its request has no version.
    pub(super) fn asks_simply(&self) -> bool {
        self.request.as_ref().is_some_and(|line| line.protocol().is_none())
    }

    pub(super) fn answer(&mut self) -> &mut Answer {
        self.answer.get_or_insert_default()
    }

    pub(super) fn described(&self, direction: Direction) -> Described {
        let uri = self.request.as_ref().map_or(&[][..], RequestLine::uri);
        let (hostname, _) = self.hostname();
        let source = [hostname.as_deref().unwrap_or_default(), b" ", uri].concat();
        Described {
            direction,
            transaction: self.id.into(),
            source,
            path: uri::path(uri),
            carrier: self.carrier(direction),
        }
    }

    pub(super) fn memory(&self) -> usize {
        let listed = |listed: &Option<Box<Listed>>| listed.as_ref().map_or(0, |listed| listed.memory());
        let line = |line: &Option<StatusLine>| line.as_ref().map_or(0, StatusLine::memory);
        let answer = self.answer.as_ref().map_or(0, |answer| {
            let lines = line(&answer.line) + line(&answer.info);
            size_of::<Answer>() + lines + answer.headers.memory() + listed(&answer.received)
        });
        let request = self.request.as_ref().map_or(0, RequestLine::memory);
        size_of::<Self>() + request + self.request_headers.memory() + listed(&self.sent) + answer
    }
}
