//! Content codings undone as bytes come: gzip, deflate (with or without zlib's header), brotli, and one in another.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};

/// Codings in one another that are undone; libhtp undoes two, some of its tests want a third.
const LAYERS: usize = 3;
/// Bytes that may come out whatever went in, and how many for each that went in beyond that: libhtp's limits for
/// compression bombs. A single deflate stream makes at most 1,032 of one.
const BOMB: u64 = 1 << 20;
const RATIO: u64 = 2048;
/// Where the ratio is looked at: at multiples of so many bytes of input, so that cuts do not matter.
const STEP: u64 = 256;
/// Most bytes that come out between two looks.
const BURST: u64 = 8 << 20;
/// Bytes that are kept until something comes out.
const MAX_RAW: usize = 4096;
/// Bytes of output at a time.
const PIECE: usize = 8192;

/// Undoes the codings of one body.
pub(super) struct Decoder {
    layers: Vec<Layer>,
    taken: u64,
    given: u64,
    burst: u64,
    /// What was taken, while nothing has come out: it may not be coded at all.
    raw: Vec<u8>,
    fault: Option<&'static str>,
    is_over: bool,
}

enum Layer {
    /// Not known yet: the first bytes say whether it is what it claims to be.
    Begin {
        claims_deflate: bool,
        head: Vec<u8>,
    },
    /// Gzip's header in front of the compressed data.
    Header(GzipHeader),
    Deflate {
        inflate: Box<Decompress>,
        is_gzip: bool,
    },
    /// Gzip's checksum and length, then perhaps another member.
    Trailer(u8),
    Brotli(Box<Brotli>),
    /// It is not coded at all.
    Plain,
    /// At its end, or past what can be decoded.
    Over,
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

impl Decoder {
    /// Of a `Content-Encoding`; none where there is nothing to undo. The last of a list was applied last.
    pub fn of(encoding: &[u8]) -> Option<Self> {
        let mut layers = Vec::new();
        let names = encoding.split(|byte| matches!(byte, b',' | b' ')).filter(|name| !name.is_empty());
        for name in names {
            let name = name.to_ascii_lowercase();
            let has = |word: &[u8]| name.windows(word.len()).any(|window| window == word);
            // What contains the word counts, as in libhtp: servers write `x-gzip`, browsers do not look close.
            if has(b"gzip") {
                layers.push(Layer::Begin { claims_deflate: false, head: Vec::new() });
            } else if has(b"deflate") {
                layers.push(Layer::Begin { claims_deflate: true, head: Vec::new() });
            } else if name == b"br" {
                let alloc = StandardAlloc::default;
                layers.push(Layer::Brotli(Box::new(BrotliState::new(alloc(), alloc(), alloc()))));
            }
            if layers.len() == LAYERS {
                break;
            }
        }
        layers.reverse();
        let decoder =
            Self { layers, taken: 0, given: 0, burst: 0, raw: Vec::new(), fault: None, is_over: false };
        (!decoder.layers.is_empty()).then_some(decoder)
    }

    /// Takes bytes and gives those that come out to `sink`.
    pub fn bytes(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() && !self.is_over {
            let step = (STEP - self.taken % STEP).min(bytes.len() as u64) as usize;
            let (now, later) = bytes.split_at_checked(step).unwrap_or((bytes, &[]));
            bytes = later;
            self.taken += now.len() as u64;
            if self.given == 0 && self.raw.len() < MAX_RAW {
                self.raw.extend_from_slice(now);
            }
            let (given, burst) = (&mut self.given, &mut self.burst);
            let mut is_bomb = false;
            let mut counted = |bytes: &[u8]| {
                let room = usize::try_from(BURST - *burst).unwrap_or(usize::MAX);
                let some = bytes.get(..room).unwrap_or(bytes);
                is_bomb |= some.len() < bytes.len();
                *burst += some.len() as u64;
                *given += some.len() as u64;
                if !some.is_empty() {
                    sink(some);
                }
            };
            let fault = push(&mut self.layers, now, &mut counted).err();
            if self.taken.is_multiple_of(STEP) {
                is_bomb |= self.given > BOMB && self.given > RATIO * self.taken;
                self.burst = 0;
            }
            if is_bomb {
                self.fault = Some("compression_bomb");
                self.is_over = true;
            } else if fault.is_some() {
                self.fault = fault;
                if self.given == 0 && self.raw.len() as u64 == self.taken {
                    // It was never coded, whatever was said of it: browsers show it as it is.
                    sink(&std::mem::take(&mut self.raw));
                    self.given = self.taken;
                    self.layers = vec![Layer::Plain];
                } else {
                    self.is_over = true;
                }
            }
            if self.given > 0 {
                self.raw = Vec::new();
            }
        }
    }

    /// Bytes are missing: what comes cannot be decoded.
    pub fn lose(&mut self) {
        self.is_over = true;
        self.layers = Vec::new();
    }

    /// No more comes: what is too short to be coded is given as it is.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if let Some(Layer::Begin { head, .. }) = self.layers.first_mut() {
            let head = std::mem::take(head);
            sink(&head);
        }
    }

    /// What went wrong, once.
    pub fn fault(&mut self) -> Option<&'static str> {
        self.fault.take()
    }

    /// Bytes of heap memory that are held, roughly.
    pub fn memory(&self) -> usize {
        let of = |layer: &Layer| match layer {
            Layer::Begin { head, .. } => head.capacity(),
            Layer::Deflate { .. } => 44 << 10,
            Layer::Brotli(state) => size_of::<Brotli>() + state.ringbuffer_size.max(0) as usize,
            _ => 0,
        };
        self.raw.capacity() + self.layers.iter().map(|layer| of(layer) + size_of::<Layer>()).sum::<usize>()
    }
}

type Sink<'a> = dyn FnMut(&[u8]) + 'a;

/// Lets bytes run through the layers.
fn push(layers: &mut [Layer], mut bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), &'static str> {
    let Some((layer, rest)) = layers.split_first_mut() else {
        sink(bytes);
        return Ok(());
    };
    while !bytes.is_empty() {
        match layer {
            Layer::Begin { claims_deflate, head } => {
                let Some((first, later)) = bytes.split_first() else { break };
                head.push(*first);
                bytes = later;
                let [a, b] = head.as_slice() else { continue };
                let is_zlib = a & 15 == 8 && (u16::from(*a) << 8 | u16::from(*b)).is_multiple_of(31);
                let head = std::mem::take(head);
                let inflate = |is_gzip| Layer::Deflate { inflate: Box::new(Decompress::new(false)), is_gzip };
                (*layer, bytes) = match (head.as_slice(), is_zlib, *claims_deflate) {
                    ([0x1f, 0x8b], ..) => (Layer::Header(GzipHeader::default()), bytes),
                    (_, true, _) => (inflate(false), bytes),
                    (_, false, claims_deflate) => {
                        *layer = if claims_deflate { inflate(false) } else { Layer::Plain };
                        push(std::slice::from_mut(layer), &head, &mut |out| {
                            // Nothing comes out of two bytes of deflate but in an empty stream.
                            let _ = push(rest, out, sink);
                        })?;
                        continue;
                    }
                };
            }
            Layer::Header(header) => {
                let Some((first, later)) = bytes.split_first() else { break };
                bytes = later;
                if header.byte(*first) {
                    let inflate = Box::new(Decompress::new(false));
                    *layer = Layer::Deflate { inflate, is_gzip: true };
                }
            }
            Layer::Deflate { inflate, is_gzip } => {
                let mut output = [0; PIECE];
                loop {
                    let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
                    let status = inflate.decompress(bytes, &mut output, FlushDecompress::None);
                    let taken = (inflate.total_in() - before_in) as usize;
                    let given = (inflate.total_out() - before_out) as usize;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    push(rest, output.get(..given).unwrap_or_default(), sink)?;
                    match status {
                        Ok(Status::StreamEnd) => {
                            *layer = if *is_gzip { Layer::Trailer(0) } else { Layer::Over };
                            break;
                        }
                        Ok(_) if given == PIECE || (taken > 0 && !bytes.is_empty()) => {}
                        Ok(_) => {
                            bytes = &[];
                            break;
                        }
                        Err(_) => {
                            *layer = Layer::Over;
                            return Err("inflate_failed");
                        }
                    }
                }
            }
            Layer::Trailer(seen) => {
                let Some((first, later)) = bytes.split_first() else { break };
                bytes = later;
                *seen += 1;
                // Another member begins with gzip's mark; anything else is not for us.
                match (*seen, *first) {
                    (..=8, _) | (9, 0x1f) => {}
                    (10, 0x8b) => *layer = Layer::Header(GzipHeader::default()),
                    _ => *layer = Layer::Over,
                }
            }
            Layer::Brotli(state) => {
                let mut output = [0; PIECE];
                let mut total = 0;
                loop {
                    let (mut to_take, mut taken, mut room, mut given) = (bytes.len(), 0, PIECE, 0);
                    let result = BrotliDecompressStream(
                        &mut to_take,
                        &mut taken,
                        bytes,
                        &mut room,
                        &mut given,
                        &mut output,
                        &mut total,
                        state,
                    );
                    bytes = bytes.get(taken..).unwrap_or_default();
                    push(rest, output.get(..given).unwrap_or_default(), sink)?;
                    match result {
                        BrotliResult::NeedsMoreOutput => {}
                        BrotliResult::NeedsMoreInput => {
                            bytes = &[];
                            break;
                        }
                        BrotliResult::ResultSuccess => {
                            *layer = Layer::Over;
                            break;
                        }
                        BrotliResult::ResultFailure => {
                            *layer = Layer::Over;
                            return Err("brotli_failed");
                        }
                    }
                }
            }
            Layer::Plain => {
                push(rest, bytes, sink)?;
                bytes = &[];
            }
            Layer::Over => bytes = &[],
        }
    }
    Ok(())
}

/// Gzip's header (RFC 1952) behind its mark, passed over byte by byte. Its checksum and what is reserved do not
/// count: those who receive it do not look either.
#[derive(Default)]
struct GzipHeader {
    seen: u8,
    flags: u8,
    extra: u16,
    stage: u8,
}

impl GzipHeader {
    /// Whether the header ends with this byte.
    fn byte(&mut self, byte: u8) -> bool {
        match self.stage {
            // Method, flags, time, extra flags, system.
            0 => {
                self.seen += 1;
                if self.seen == 2 {
                    self.flags = byte;
                }
                if self.seen == 8 {
                    self.next(1);
                }
            }
            1 => {
                self.extra = byte.into();
                self.stage = 2;
            }
            2 => {
                self.extra |= u16::from(byte) << 8;
                self.stage = 3;
                if self.extra == 0 {
                    self.next(4);
                }
            }
            3 => {
                self.extra -= 1;
                if self.extra == 0 {
                    self.next(4);
                }
            }
            4 | 5 => {
                if byte == 0 {
                    self.next(self.stage + 1);
                }
            }
            6 => self.stage = 7,
            _ => self.next(8),
        }
        self.stage >= 8
    }

    /// The first part from this on that is there.
    fn next(&mut self, from: u8) {
        let parts = [(1, 4), (4, 8), (5, 16), (6, 2)];
        let part = parts.iter().find(|(stage, flag)| *stage >= from && self.flags & flag != 0);
        self.stage = part.map_or(8, |(stage, _)| *stage);
    }
}

#[cfg(test)]
mod tests {
    use super::Decoder;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn decoded(encoding: &str, data: &[u8], size: usize) -> (Vec<u8>, Option<&'static str>) {
        let (mut decoder, mut found) = (Decoder::of(encoding.as_bytes()).unwrap(), Vec::new());
        for piece in data.chunks(size) {
            decoder.bytes(piece, &mut |out| found.extend_from_slice(out));
        }
        decoder.finish(&mut |out| found.extend_from_slice(out));
        (found, decoder.fault())
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_encoded_comes_out_wherever_it_is_cut() {
        let text: Vec<u8> = (0..20000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(&text).unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        let mut named = vec![0x1f, 0x8b, 8, 4 | 8 | 16 | 2, 0, 0, 0, 0, 0, 3, 2, 0, 9, 9];
        named.extend(b"name\0comment\0\x01\x02");
        named.extend(&gzip(&text)[10..]);
        let twice = [gzip(&text[..500]), gzip(&text[500..])].concat();
        let cases = [
            ("gzip", gzip(&text)),
            ("x-gzip", named),
            ("gzip", twice),
            ("deflate", deflate.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("gzip, gzip", gzip(&gzip(&text))),
            ("gzip", text.clone()),
            ("br", b"\xff".repeat(2000)),
        ];
        for (encoding, data) in &cases {
            for size in [1, 2, 3, 500, 100_000] {
                let (found, fault) = decoded(encoding, data, size);
                let wanted = if *encoding == "br" { data } else { &text };
                assert_eq!(found, *wanted, "{encoding} {size}");
                assert_eq!(fault.is_some(), *encoding == "br", "{encoding} {size}");
            }
        }
        assert!(Decoder::of(b"identity").is_none());
    }

    #[test]
    fn brotli_comes_out_wherever_it_is_cut() {
        // An uncompressed metablock of "hello" and the last, empty one, written by hand after RFC 7932.
        let data = b"\x0b\x02\x80hello\x03";
        for size in [1, 2, 100] {
            let (found, fault) = decoded("br", data, size);
            assert_eq!((found.as_slice(), fault), (&b"hello"[..], None));
        }
        assert_eq!(decoded("br", b"\xff\xff\xff\xff\xff\xff\xff\xff", 1).1, Some("brotli_failed"));
    }

    #[test]
    fn what_is_broken_gives_the_same_wherever_it_is_cut() {
        // Blocks that are stored, and one of a kind that does not exist.
        let mut data = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        for n in 0..500u16 {
            data.extend([0, 4, 0, 0xfb, 0xff, n as u8, 1, 2, 3]);
        }
        data.extend([7, 1, 2, 3, 4, 5]);
        let whole = decoded("gzip", &data, data.len());
        assert_eq!((whole.0.len(), whole.1), (2000, Some("inflate_failed")));
        for size in [1, 2, 7, 100, 5000] {
            assert_eq!(decoded("gzip", &data, size), whole, "{size}");
        }
    }

    /// Bytes that make millions of themselves are not followed, at the same byte wherever they are cut.
    #[test]
    fn bombs_are_not_followed() {
        let bomb = gzip(&gzip(&gzip(&vec![0; 64 << 20])));
        let whole = decoded("gzip, gzip, gzip", &bomb, bomb.len());
        assert_eq!(whole.1, Some("compression_bomb"));
        assert!(whole.0.len() <= 9 << 20);
        for size in [1, 100] {
            let cut = decoded("gzip, gzip, gzip", &bomb, size);
            assert_eq!((cut.0.len(), cut.1), (whole.0.len(), whole.1));
        }
    }
}
