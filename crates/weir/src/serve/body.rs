//! Bodies of answers that are produced while they are sent.

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
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
