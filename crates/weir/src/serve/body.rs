//! Bodies of answers that are produced while they are sent.

use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// A body of pieces from a channel, which ends when the channel closes.
pub struct Pieces<H> {
    from: Receiver<Bytes>,
    _held: H,
}

impl<H> Pieces<H> {
    /// Creates a body; `held` is dropped with it.
    pub fn new(from: Receiver<Bytes>, held: H) -> Self {
        Self { from, _held: held }
    }
}

impl<H: Unpin> hyper::body::Body for Pieces<H> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.from.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A body that a thread writes. It fails if the thread ends before the whole of it was written, which breaks the connection: a
/// client never takes a part for the whole.
pub struct Written<H> {
    from: Receiver<Frame<Bytes>>,
    is_whole: Arc<AtomicBool>,
    _held: H,
}

impl<H> Written<H> {
    /// Creates a body; `is_whole` is set before the channel closes after the last piece, and `held` is dropped with the body.
    pub fn new(from: Receiver<Frame<Bytes>>, is_whole: Arc<AtomicBool>, held: H) -> Self {
        Self { from, is_whole, _held: held }
    }
}

impl<H: Unpin> HttpBody for Written<H> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.from.poll_recv(context).map(|frame| match frame {
            Some(frame) => Some(Ok(frame)),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(io::Error::other("the answer was not written to its end"))),
        })
    }
}

/// A body that counts its bytes and reports at its end whether all of it was taken.
pub struct Counted {
    body: Body,
    bytes: u64,
    is_whole: bool,
    end: Option<Box<dyn FnOnce(u64, bool) + Send>>,
}

impl Counted {
    /// Calls `end` when the body is dropped, with the number of bytes and whether that is the whole body.
    pub fn new(body: Body, end: impl FnOnce(u64, bool) + Send + 'static) -> Self {
        Self { body, bytes: 0, is_whole: false, end: Some(Box::new(end)) }
    }
}

/// A response that keeps a value, such as its place, until its body has ended or its client has disconnected.
pub fn holding(response: Response, held: impl Send + 'static) -> Response {
    response.map(|body| Body::new(Counted::new(body, move |_, _| drop(held))))
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64)
            }
            Poll::Ready(None) => self.is_whole = true,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let is_whole = self.is_whole || self.body.is_end_stream();
        if let Some(end) = self.end.take() {
            end(self.bytes, is_whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use tokio::sync::mpsc::channel;

    /// A part of a body is never taken for the whole.
    #[test]
    fn a_body_that_is_not_written_to_its_end_fails() {
        for is_whole in [true, false] {
            let (to, from) = channel(2);
            to.try_send(Frame::data(Bytes::from_static(b"rows"))).unwrap();
            drop(to);
            let body = Body::new(Written::new(from, Arc::new(AtomicBool::new(is_whole)), ()));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(to_bytes(body, 100));
            assert_eq!(read.ok().as_deref(), is_whole.then_some(&b"rows"[..]));
        }
    }
}
