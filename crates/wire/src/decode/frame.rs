//! The bytes of one level, and where they end on the wire.

use super::MAX_HEADERS;
use crate::{DecodeError, ErrorKind, Layer};

/// Offsets stay far below the range of `u32`, so that adding header lengths to them cannot overflow.
const MAX_FRAME: u32 = 1 << 30;

/// The bytes that may be read while a level is decoded. Every header that states a length narrows them.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Captured bytes, never past `end`.
    data: &'a [u8],
    /// Offset at which the level ends on the wire, captured or not.
    end: u32,
    /// Number of headers passed before the network header.
    depth: u8,
}

impl<'a> Frame<'a> {
    /// A whole packet. A wire length below the captured length is ignored: the captured bytes exist.
    #[inline]
    pub fn new(data: &'a [u8], wire_len: u32) -> Self {
        let data = data.get(..MAX_FRAME as usize).unwrap_or(data);
        let end = wire_len.min(MAX_FRAME).max(data.len() as u32);
        Self { data, end, depth: 0 }
    }

    /// Returns the frame with an earlier end. A later end changes nothing.
    #[inline]
    pub fn limit(self, end: u32) -> Self {
        let data = self.data.get(..end as usize).unwrap_or(self.data);
        Self { data, end: self.end.min(end), ..self }
    }

    /// Returns the frame with one more header counted before the network header.
    #[inline]
    pub fn deeper(self) -> Result<Self, DecodeError> {
        if self.depth >= MAX_HEADERS {
            return Err(DecodeError { layer: Layer::Link, kind: ErrorKind::TooDeep });
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Bytes from `at` to the end, captured or not.
    #[inline]
    pub fn left(&self, at: u32) -> u32 {
        self.end.saturating_sub(at)
    }

    /// Whether the `len` bytes from `at` on were captured.
    #[inline]
    pub fn has(&self, at: u32, len: u32) -> bool {
        u64::from(at) + u64::from(len) <= self.data.len() as u64
    }

    /// The captured bytes from `at` on.
    #[inline]
    pub fn rest(&self, at: u32) -> Option<&'a [u8]> {
        self.data.get(at as usize..)
    }

    /// The `N` bytes from `at` on.
    #[inline]
    pub fn array<const N: usize>(&self, at: u32) -> Option<&'a [u8; N]> {
        self.rest(at)?.first_chunk()
    }

    /// The byte at `at`.
    #[inline]
    pub fn u8(&self, at: u32) -> Option<u8> {
        self.data.get(at as usize).copied()
    }

    /// The 16-bit value at `at`, in network byte order.
    #[inline]
    pub fn u16(&self, at: u32) -> Option<u16> {
        self.array(at).copied().map(u16::from_be_bytes)
    }

    /// The 32-bit value at `at`, in network byte order.
    #[inline]
    pub fn u32(&self, at: u32) -> Option<u32> {
        self.array(at).copied().map(u32::from_be_bytes)
    }
}
