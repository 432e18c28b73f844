//! Bodies of answers that are made while they are sent.

use axum::body::Bytes;
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// Pieces as they come, until nobody makes them any more.
pub struct Pieces<H> {
    from: Receiver<Bytes>,
    _held: H,
}

impl<H> Pieces<H> {
    /// What is `held` goes when the body does.
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
