//! Decodes content codings as bytes arrive: gzip, deflate (with or without zlib's header), brotli, and nested codings.

use crate::inflation::Allowance;
use crate::work::looked_at;
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};

/// Maximum number of nested codings; libhtp decodes two, and some of its tests need a third.
const LAYERS: usize = 3;
/// Limit of the output of an inner coding, as a divisor of the limit of the last one's output: compressed data hardly
/// shrinks when compressed again, and is expensive to parse.
const INNER: u64 = 32;
/// Bytes that count as output for the beginning of each gzip member: a member without content costs work, too.
const MEMBER: u64 = 256;
/// The limit grows at multiples of this number of input bytes, so that it does not depend on cuts.
const STEP: u64 = 256;
/// Maximum number of bytes that are kept until there is output.
const MAX_RAW: usize = 4096;
/// Maximum number of output bytes at a time.
const PIECE: usize = 8192;
/// The anomaly of content that grows beyond the limit of its flow.
const BOMB: &str = "compression_bomb";
/// The anomaly of content that arrives when the allowance of all flows is used up.
const REFUSED: &str = "decompression_limit";
/// Bytes of a window that are cleared in the time in which one byte is made.
const CLEARED: u64 = 32;

/// Decodes the codings of one body.
pub(super) struct Decoder {
    layers: Vec<Layer>,
    taken: u64,
    given: u64,
    /// Output bytes of each layer.
    made: [u64; LAYERS],
    /// Bytes that were taken from the allowance of all flows.
    charged: u64,
    /// Output bytes that are allowed for any input.
    credit: u64,
    /// Output bytes that are allowed for each input byte.
    ratio: u64,
    /// Input bytes until the first output: the body may not be coded at all.
    raw: Vec<u8>,
    fault: Option<&'static str>,
    is_over: bool,
}

/// One coding.
struct Layer {
    state: State,
    /// Decoder of gzip and deflate, allocated when needed and reused by the next member.
    inflate: Option<Box<Decompress>>,
}

enum State {
    /// Undecided: the first bytes show whether the content has the declared coding.
    Begin {
        claims_deflate: bool,
        head: Vec<u8>,
    },
    /// In gzip's header.
    Header(GzipHeader),
    Deflate {
        is_gzip: bool,
    },
    /// In gzip's checksum and length; another member may follow.
    Trailer(u8),
    Brotli(Box<Brotli>),
    /// The content is not coded.
    Plain,
    /// After the end, or after an error.
    Over,
}

impl From<State> for Layer {
    fn from(state: State) -> Self {
        Self { state, inflate: None }
    }
}

impl Layer {
    /// Work without output: brotli decodes into its window of up to 16 MiB, which it clears.
    fn hidden(&self) -> u64 {
        let State::Brotli(brotli) = &self.state else { return 0 };
        let window = brotli.ringbuffer_size.max(0) as u64;
        let decoded = brotli.rb_roundtrips as u64 * window + (brotli.pos.max(0) as u64).min(window);
        decoded.saturating_sub(brotli.partial_pos_out as u64) + window / CLEARED
    }
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

impl Decoder {
    /// The decoder of a `Content-Encoding`; `None` if there is nothing to decode. The last coding of a list was
    /// applied last. `allowance`: limit of the decoded body.
    pub fn of(encoding: &[u8], allowance: Allowance) -> Option<Self> {
        let mut layers = Vec::<Layer>::new();
        let names = encoding.split(|byte| matches!(byte, b',' | b' ')).filter(|name| !name.is_empty());
        for name in names {
            let name = name.to_ascii_lowercase();
            let has = |word: &[u8]| name.windows(word.len()).any(|window| window == word);
            // A value that contains the word counts, as in libhtp: servers write `x-gzip`, and browsers accept it.
            if has(b"gzip") {
                layers.push(State::Begin { claims_deflate: false, head: Vec::new() }.into());
            } else if has(b"deflate") {
                layers.push(State::Begin { claims_deflate: true, head: Vec::new() }.into());
            } else if name == b"br" {
                let alloc = StandardAlloc::default;
                layers.push(State::Brotli(Box::new(BrotliState::new(alloc(), alloc(), alloc()))).into());
            }
            if layers.len() == LAYERS {
                break;
            }
        }
        layers.reverse();
        let decoder = Self {
            layers,
            taken: 0,
            given: 0,
            made: [0; LAYERS],
            charged: 0,
            credit: allowance.credit,
            ratio: allowance.ratio,
            raw: Vec::new(),
            fault: None,
            is_over: false,
        };
        (!decoder.layers.is_empty()).then_some(decoder)
    }

    /// Takes bytes and passes the decoded ones to `sink`.
    pub fn bytes(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() && !self.is_over {
            let step = (STEP - self.taken % STEP).min(bytes.len() as u64) as usize;
            let (now, later) = bytes.split_at_checked(step).unwrap_or((bytes, &[]));
            bytes = later;
            looked_at(now.len());
            self.taken += now.len() as u64;
            if self.given == 0 && self.raw.len() < MAX_RAW {
                self.raw.extend_from_slice(now);
            }
            let max =
                self.ratio.saturating_mul(self.taken.next_multiple_of(STEP)).saturating_add(self.credit);
            let given = &mut self.given;
            let mut counted = |bytes: &[u8]| {
                looked_at(bytes.len());
                *given += bytes.len() as u64;
                sink(bytes);
            };
            let fault = push(&mut self.layers, &mut self.made, max, now, &mut counted).err();
            if fault.is_some() {
                self.fault = fault;
                if self.given == 0 && fault != Some(BOMB) && self.raw.len() as u64 == self.taken {
                    // The body was never coded, in spite of its declaration: browsers show it unchanged.
                    sink(&std::mem::take(&mut self.raw));
                    self.given = self.taken;
                    self.layers = vec![State::Plain.into()];
                } else {
                    self.is_over = true;
                }
            }
            if self.given > 0 {
                self.raw = Vec::new();
            }
        }
    }

    /// Number of input bytes, and of output bytes of all layers.
    pub fn work(&self) -> (u64, u64) {
        (self.taken, self.made.iter().sum())
    }

    /// Returns the bytes that all layers have made since the last call, emitted or not, with a share of the windows that
    /// they have cleared.
    pub fn take_made(&mut self) -> u64 {
        let hidden = self.layers.iter().map(Layer::hidden).sum::<u64>();
        let made = self.charged.max(self.made.iter().sum::<u64>() + hidden);
        made - std::mem::replace(&mut self.charged, made)
    }

    /// Whether later bytes are not decoded any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Refuses later bytes: the allowance of all flows is used up.
    pub fn refuse(&mut self) {
        self.lose();
        self.fault = Some(REFUSED);
    }

    /// Takes a gap: later bytes cannot be decoded.
    pub fn lose(&mut self) {
        self.is_over = true;
        self.layers = Vec::new();
    }

    /// Ends the input: content that is too short to be coded is passed on unchanged.
    pub fn finish(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if let Some(Layer { state: State::Begin { head, .. }, .. }) = self.layers.first_mut() {
            let head = std::mem::take(head);
            sink(&head);
        }
    }

    /// The error, once.
    pub fn fault(&mut self) -> Option<&'static str> {
        self.fault.take()
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let of = |layer: &Layer| {
            let state = match &layer.state {
                State::Begin { head, .. } => head.capacity(),
                State::Brotli(state) => size_of::<Brotli>() + state.ringbuffer_size.max(0) as usize,
                _ => 0,
            };
            state + if layer.inflate.is_some() { INFLATE } else { 0 } + size_of::<Layer>()
        };
        self.raw.capacity() + self.layers.iter().map(of).sum::<usize>()
    }
}

/// Bytes of a deflate decoder's state, including its window of 32 KiB.
const INFLATE: usize = 48 << 10;

type Sink<'a> = dyn FnMut(&[u8]) + 'a;

/// Passes bytes through the layers. Each layer counts its output; the last one may have `max` bytes.
fn push(
    layers: &mut [Layer],
    made: &mut [u64],
    max: u64,
    mut bytes: &[u8],
    sink: &mut Sink<'_>,
) -> Result<(), &'static str> {
    let (Some((layer, rest)), Some((mine, theirs))) = (layers.split_first_mut(), made.split_first_mut())
    else {
        sink(bytes);
        return Ok(());
    };
    let own = if rest.is_empty() { max } else { max / INNER };
    let mut outlet = Outlet { rest, theirs, mine, own, max };
    while !bytes.is_empty() {
        let Layer { state, inflate } = layer;
        match state {
            State::Begin { claims_deflate, head } => {
                let Some((first, later)) = bytes.split_first() else { break };
                head.push(*first);
                bytes = later;
                let [a, b] = head.as_slice() else { continue };
                let is_zlib = a & 15 == 8 && (u16::from(*a) << 8 | u16::from(*b)).is_multiple_of(31);
                let head = std::mem::take(head);
                *state = match (head.as_slice(), is_zlib, *claims_deflate) {
                    ([0x1f, 0x8b], ..) => State::Header(GzipHeader::default()),
                    (_, true, _) => State::Deflate { is_gzip: false },
                    (_, false, claims_deflate) => {
                        let plain =
                            if claims_deflate { State::Deflate { is_gzip: false } } else { State::Plain };
                        *state = plain;
                        push(layers, made, max, &head, sink)?;
                        return push(layers, made, max, bytes, sink);
                    }
                };
            }
            State::Header(header) => {
                let Some((first, later)) = bytes.split_first() else { break };
                bytes = later;
                if header.byte(*first) {
                    begin(inflate);
                    *state = State::Deflate { is_gzip: true };
                }
            }
            State::Deflate { is_gzip } => {
                let inflate = inflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
                let mut output = [0; PIECE];
                loop {
                    let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
                    let status = inflate.decompress(bytes, &mut output, FlushDecompress::None);
                    let taken = (inflate.total_in() - before_in) as usize;
                    let given = (inflate.total_out() - before_out) as usize;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    outlet.give(output.get(..given).unwrap_or_default(), sink)?;
                    match status {
                        Ok(Status::StreamEnd) => {
                            *state = if *is_gzip { State::Trailer(0) } else { State::Over };
                            break;
                        }
                        Ok(_) if given == PIECE || (taken > 0 && !bytes.is_empty()) => {}
                        Ok(_) => {
                            bytes = &[];
                            break;
                        }
                        Err(_) => {
                            *state = State::Over;
                            return Err("inflate_failed");
                        }
                    }
                }
            }
            State::Trailer(seen) => {
                let Some((first, later)) = bytes.split_first() else { break };
                bytes = later;
                *seen += 1;
                // Another member begins with gzip's signature; other bytes are ignored.
                match (*seen, *first) {
                    (..=8, _) | (9, 0x1f) => {}
                    (10, 0x8b) => {
                        *state = State::Header(GzipHeader::default());
                        outlet.member()?;
                    }
                    _ => *state = State::Over,
                }
            }
            State::Brotli(brotli) => {
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
                        brotli,
                    );
                    bytes = bytes.get(taken..).unwrap_or_default();
                    outlet.give(output.get(..given).unwrap_or_default(), sink)?;
                    match result {
                        BrotliResult::NeedsMoreOutput => {}
                        BrotliResult::NeedsMoreInput => {
                            bytes = &[];
                            break;
                        }
                        BrotliResult::ResultSuccess => {
                            *state = State::Over;
                            break;
                        }
                        BrotliResult::ResultFailure => {
                            *state = State::Over;
                            return Err("brotli_failed");
                        }
                    }
                }
            }
            State::Plain => {
                push(outlet.rest, outlet.theirs, max, bytes, sink)?;
                bytes = &[];
            }
            State::Over => bytes = &[],
        }
    }
    Ok(())
}

/// The destination of a layer's output.
struct Outlet<'a> {
    rest: &'a mut [Layer],
    theirs: &'a mut [u64],
    /// Output bytes of the layer so far, and its limit.
    mine: &'a mut u64,
    own: u64,
    /// Limit of the last layer's output bytes.
    max: u64,
}

impl Outlet<'_> {
    /// Passes on the output, up to the limit.
    fn give(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), &'static str> {
        let room = usize::try_from(self.own.saturating_sub(*self.mine)).unwrap_or(usize::MAX);
        let some = bytes.get(..room).unwrap_or(bytes);
        *self.mine += some.len() as u64;
        if !some.is_empty() {
            push(self.rest, self.theirs, self.max, some, sink)?;
        }
        if some.len() < bytes.len() { Err(BOMB) } else { Ok(()) }
    }

    /// Another gzip member begins.
    fn member(&mut self) -> Result<(), &'static str> {
        *self.mine += MEMBER;
        if *self.mine > self.own { Err(BOMB) } else { Ok(()) }
    }
}

/// A deflate stream begins.
fn begin(inflate: &mut Option<Box<Decompress>>) {
    match inflate {
        Some(inflate) => inflate.reset(false),
        None => *inflate = Some(Box::new(Decompress::new(false))),
    }
}

/// Gzip's header (RFC 1952) after its signature, skipped byte by byte. Its checksum and reserved bits are ignored, as
/// clients do.
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

    /// Selects the first present part from `from` on.
    fn next(&mut self, from: u8) {
        let parts = [(1, 4), (4, 8), (5, 16), (6, 2)];
        let part = parts.iter().find(|(stage, flag)| *stage >= from && self.flags & flag != 0);
        self.stage = part.map_or(8, |(stage, _)| *stage);
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, INNER};
    use crate::inflation::{Allowance, Inflation};
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn decoded(encoding: &str, data: &[u8], size: usize) -> (Vec<u8>, Option<&'static str>) {
        let (mut decoder, mut found) =
            (Decoder::of(encoding.as_bytes(), Allowance::default()).unwrap(), Vec::new());
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
    fn encoded_content_is_decoded_wherever_it_is_cut() {
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
        assert!(Decoder::of(b"identity", Allowance::default()).is_none());
    }

    #[test]
    fn brotli_is_decoded_wherever_it_is_cut() {
        // An uncompressed metablock of "hello" and the last, empty one, written by hand after RFC 7932.
        let data = b"\x0b\x02\x80hello\x03";
        for size in [1, 2, 100] {
            let (found, fault) = decoded("br", data, size);
            assert_eq!((found.as_slice(), fault), (&b"hello"[..], None));
        }
        assert_eq!(decoded("br", b"\xff\xff\xff\xff\xff\xff\xff\xff", 1).1, Some("brotli_failed"));
    }

    #[test]
    fn broken_content_gives_equal_results_wherever_it_is_cut() {
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

    /// Decoding of bytes that expand a million times stops, at a position that does not depend on cuts.
    #[test]
    fn decompression_bombs_are_stopped() {
        let Inflation { free, ratio, .. } = Inflation::default();
        let zeros = vec![0; 64 << 20];
        let cases = [
            ("gzip", gzip(&zeros)),
            ("gzip, gzip", gzip(&gzip(&zeros))),
            ("gzip, gzip, gzip", gzip(&gzip(&gzip(&zeros)))),
            // Empty blocks and empty members have no output, but cost work.
            ("gzip, gzip", gzip(&[0, 0, 0, 0xff, 0xff].repeat(4 << 20))),
            ("gzip, gzip", gzip(&gzip(&[]).repeat(1 << 20))),
        ];
        for (encoding, bomb) in &cases {
            let max = u64::from(free) + u64::from(ratio) * (bomb.len() as u64).next_multiple_of(256);
            let of_size = |size: usize| {
                let (mut decoder, mut found) =
                    (Decoder::of(encoding.as_bytes(), Allowance::default()).unwrap(), 0);
                for piece in bomb.chunks(size) {
                    decoder.bytes(piece, &mut |out| found += out.len() as u64);
                }
                assert!(decoder.work().1 <= max + 2 * max / INNER, "{encoding}: {:?}", decoder.work());
                (found, decoder.fault())
            };
            let whole = of_size(bomb.len());
            let (found, fault) = whole;
            assert_eq!(fault, Some("compression_bomb"), "{encoding} {}", bomb.len());
            assert!(found <= max, "{encoding}: {found} {max}");
            for size in [1, 100] {
                assert_eq!(of_size(size), whole, "{encoding} {size}");
            }
        }
    }

    /// The output of a flow's earlier bodies counts for its later ones, and input increases the limit.
    #[test]
    fn a_flow_has_one_decompression_limit() {
        let body = gzip(&vec![0; 600 << 10]);
        let mut allowance = Allowance::default();
        let decode = |data: &[u8], allowance: &mut Allowance| {
            let mut decoder = Decoder::of(b"gzip", *allowance).unwrap();
            decoder.bytes(data, &mut |_| {});
            *allowance = allowance.after(decoder.work());
            decoder.fault()
        };
        let faults: Vec<_> = (0..3).map(|_| decode(&body, &mut allowance)).collect();
        assert_eq!(faults, [None, Some("compression_bomb"), Some("compression_bomb")]);
        // Bytes that hardly compress.
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..1 << 20)
            .map(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert_eq!(decode(&gzip(&noise), &mut allowance), None);
        assert_eq!(decode(&body, &mut allowance), None);
    }
}
