//! Applications that users describe: by the ports of servers, and by what either side of a flow says first.

use regex::bytes::{RegexSet, RegexSetBuilder};
use std::sync::Arc;
use weir_flow::Rows;
use weir_proto::PROTOCOLS;
use weir_wire::Direction;
use weir_wire::stream::Chunk;

/// Maximum number of applications that users describe: a flow has a bit for each.
const MOST: usize = 32;

/// The bytes of a side of a flow in which patterns are searched.
const LOOKED_AT: usize = 256;

/// Maximum bytes of a compiled pattern, and of the automaton of all patterns.
const PATTERN: usize = 64 << 10;
const AUTOMATON: usize = 1 << 20;

/// Maximum bytes of a name: a column of names has no room for more.
const NAME: usize = 16;

/// An application that users describe. It needs ports or a pattern; with both, a flow has both.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnApp {
    /// Its name.
    pub name: String,
    /// Its letter.
    pub flag: char,
    /// Ports of its servers, over any protocol with ports.
    pub ports: Vec<u16>,
    /// A regular expression over the bytes that a side of a flow sends first, 256 at most. It is tested in linear time.
    pub first: Option<String>,
}

impl OwnApp {
    /// Checks an application by itself.
    ///
    /// # Errors
    /// The name, the letter or the pattern is invalid, or the pattern is too large.
    pub fn check(&self) -> Result<(), String> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if self.name.is_empty() || self.name.len() > NAME || !self.name.chars().all(is_part) {
            return Err(format!(
                "the name `{}` is not 1 to {NAME} lower-case letters, digits, hyphens and underscores",
                self.name
            ));
        }
        if PROTOCOLS.iter().any(|protocol| protocol.name == self.name) {
            return Err(format!("`{}` is the name of a protocol that is identified without it", self.name));
        }
        if !self.flag.is_ascii_alphabetic() {
            return Err(format!("the flag `{}` is not a letter", self.flag));
        }
        match &self.first {
            Some(pattern) => automaton([pattern.as_str()], PATTERN).map(drop),
            None if self.ports.is_empty() => Err("an application needs ports or first".to_owned()),
            None => Ok(()),
        }
    }
}

/// The automaton of patterns, in at most `size` bytes. Patterns are over bytes and not over text.
fn automaton<'p>(patterns: impl IntoIterator<Item = &'p str>, size: usize) -> Result<RegexSet, String> {
    let set =
        RegexSetBuilder::new(patterns).unicode(false).size_limit(size).dfa_size_limit(AUTOMATON).build();
    set.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!("the pattern needs more than {size} bytes when compiled"),
        // Further lines show the place in the pattern.
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default();
            format!("the pattern is invalid: {}", reason.trim_start_matches("error: "))
        }
    })
}

/// The applications that users describe.
#[derive(Debug, Default)]
pub struct OwnApps {
    all: Vec<OwnApp>,
    /// The patterns of those that have one, and the application of each.
    patterns: Option<RegexSet>,
    places: Vec<usize>,
}

/// What is compiled follows from the applications.
impl PartialEq for OwnApps {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for OwnApps {}

impl OwnApps {
    /// Compiles applications.
    ///
    /// # Errors
    /// One of them is invalid, two have one name, there are more than 32, or their patterns are too large together.
    pub fn new(all: Vec<OwnApp>) -> Result<Self, String> {
        if all.len() > MOST {
            return Err(format!("{} applications are described, of {MOST} at most", all.len()));
        }
        for (at, app) in all.iter().enumerate() {
            app.check()?;
            if all.iter().take(at).any(|other| other.name == app.name) {
                return Err(format!("two applications have the name `{}`", app.name));
            }
        }
        let (places, patterns): (Vec<usize>, Vec<&str>) =
            all.iter().enumerate().filter_map(|(at, app)| Some((at, app.first.as_deref()?))).unzip();
        let patterns = match patterns.as_slice() {
            [] => None,
            _ => Some(automaton(patterns, AUTOMATON)?),
        };
        Ok(Self { all, patterns, places })
    }

    /// Whether none is described.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one has a pattern.
    pub(crate) fn searches(&self) -> bool {
        self.patterns.is_some()
    }

    /// The name and the letter of the one at a position.
    pub(crate) fn get(&self, at: usize) -> Option<(&str, char)> {
        self.all.get(at).map(|app| (app.name.as_str(), app.flag))
    }

    /// A bit for each whose pattern is in the bytes that a side sent first.
    fn in_bytes(&self, said: &[u8]) -> u32 {
        let found = self.patterns.iter().flat_map(|patterns| patterns.matches(said));
        found.filter_map(|at| self.places.get(at)).fold(0, |bits, place| bits | 1 << place)
    }

    /// A bit for each that a flow is of. `said` has those whose pattern was found, `port` is that of the responder, if the
    /// protocol has ports.
    pub(crate) fn of_flow(&self, said: u32, port: Option<u16>) -> u32 {
        let is_of = |at: usize, app: &OwnApp| {
            (app.first.is_none() || said >> at & 1 == 1)
                && (app.ports.is_empty() || port.is_some_and(|port| app.ports.contains(&port)))
        };
        let found = self.all.iter().enumerate().filter(|(at, app)| is_of(*at, app));
        found.fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

/// What a side of a flow sent so far.
enum Said {
    /// The first bytes, fewer than [`LOOKED_AT`].
    First(Vec<u8>),
    /// It was searched, or its first bytes are missing.
    Done,
}

impl Default for Said {
    fn default() -> Self {
        Said::First(Vec::new())
    }
}

/// A flow whose sides are searched.
#[derive(Default)]
struct Flow {
    sides: [Said; 2],
    /// A bit for each application whose pattern was found.
    found: u32,
}

/// Searches the first bytes of flows for the patterns of applications.
pub(crate) struct FirstBytes {
    own: Arc<OwnApps>,
    flows: Rows<Option<Box<Flow>>>,
    /// Bytes that flows hold, as [`Flow::memory`] has them.
    held: usize,
}

impl Flow {
    fn memory(&self) -> usize {
        let kept = |said: &Said| if let Said::First(bytes) = said { bytes.capacity() } else { 0 };
        size_of::<Self>() + self.sides.iter().map(kept).sum::<usize>()
    }

    /// Searches what a side has sent, if anything, which ends its search.
    fn search(&mut self, side: usize, own: &OwnApps) {
        let Some(said) = self.sides.get_mut(side) else { return };
        if let Said::First(bytes) = std::mem::replace(said, Said::Done)
            && !bytes.is_empty()
        {
            self.found |= own.in_bytes(&bytes);
        }
    }
}

impl FirstBytes {
    /// A search for the patterns of these applications.
    pub fn new(own: Arc<OwnApps>) -> Self {
        Self { own, flows: Rows::default(), held: 0 }
    }

    /// Whether more of a side of the flow of a row is needed. Of a flow whose first bytes were not seen nothing is.
    pub fn wants(&self, row: u32, side: Direction) -> bool {
        let flow = self.flows.get(row).and_then(Option::as_ref);
        let said = flow.and_then(|flow| flow.sides.get(side as usize));
        said.is_some_and(|said| !matches!(said, Said::Done))
    }

    /// Takes the next bytes of a side of the flow of a row.
    pub fn chunk(&mut self, row: u32, chunk: &Chunk<'_>) {
        let Some(place) = self.flows.make(row) else { return };
        if place.is_none() {
            self.held += size_of::<Flow>();
        }
        let flow = place.get_or_insert_default();
        let side = chunk.direction as usize;
        let before = flow.memory();
        let Some(Said::First(bytes)) = flow.sides.get_mut(side) else { return };
        if chunk.gap == 0 {
            let room = LOOKED_AT.saturating_sub(bytes.len());
            bytes.extend_from_slice(chunk.data.get(..room.min(chunk.data.len())).unwrap_or_default());
        }
        // What follows a gap is not next to what was sent before it.
        if chunk.gap > 0 || bytes.len() >= LOOKED_AT {
            flow.search(side, &self.own);
        }
        self.held = self.held + flow.memory() - before;
    }

    /// Ends the flow of a row. Returns a bit for each application whose pattern was found.
    pub fn end(&mut self, row: u32) -> u32 {
        let Some(mut flow) = self.flows.get_mut(row).and_then(Option::take) else { return 0 };
        self.held -= flow.memory();
        (0..flow.sides.len()).for_each(|side| flow.search(side, &self.own));
        flow.found
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.held + self.flows.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::Time;

    fn app(name: &str, ports: &[u16], first: Option<&str>) -> OwnApp {
        OwnApp { name: name.to_owned(), flag: 'X', ports: ports.to_vec(), first: first.map(str::to_owned) }
    }

    fn chunk(direction: Direction, gap: u64, data: &[u8]) -> Chunk<'_> {
        Chunk { time: Time(0), direction, gap, data }
    }

    #[test]
    fn wrong_applications_are_refused_with_a_reason() {
        let cases = [
            (app("", &[1], None), "the name"),
            (app("Chess", &[1], None), "lower-case"),
            (app("a-name-that-is-too-long", &[1], None), "1 to 16"),
            (app("http", &[1], None), "name of a protocol"),
            (OwnApp { flag: '1', ..app("chess", &[1], None) }, "not a letter"),
            (app("chess", &[], None), "ports or first"),
            (app("chess", &[], Some("(")), "unclosed group"),
            (app("chess", &[], Some("(?:a{1000}){1000}")), "more than 65536 bytes"),
            (app("chess", &[], Some(r"(a)\1")), "backreferences"),
        ];
        for (app, reason) in cases {
            let error = app.check().unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert_eq!(OwnApps::new(vec![app]).unwrap_err(), error);
        }
        let twice = vec![app("chess", &[1], None); 2];
        assert!(OwnApps::new(twice).unwrap_err().contains("two applications"));
        let many = (0..33).map(|at| app(&format!("a{at}"), &[1], None)).collect();
        assert!(OwnApps::new(many).unwrap_err().contains("33 applications"));
    }

    #[test]
    fn a_flow_has_the_ports_and_the_pattern() {
        let all = vec![
            app("ports", &[5000, 5001], None),
            app("first", &[], Some("^CHESS/[0-9]")),
            app("both", &[5000], Some(r"^\xff\x00")),
        ];
        let own = OwnApps::new(all).unwrap();
        assert_eq!(own.of_flow(0, Some(5001)), 0b001);
        assert_eq!(own.of_flow(0, None), 0);
        let said = own.in_bytes(b"CHESS/1 hello");
        assert_eq!(own.of_flow(said, Some(5000)), 0b011);
        let said = own.in_bytes(b"\xff\x00");
        assert_eq!(own.of_flow(said, Some(1)), 0);
        assert_eq!(own.of_flow(said, Some(5000)), 0b101);
        assert_eq!(own.in_bytes(b" CHESS/1"), 0);
    }

    #[test]
    fn the_first_bytes_of_both_sides_are_searched_however_they_arrive() {
        use Direction::{Forward, Reverse};
        let own =
            Arc::new(OwnApps::new(vec![app("a", &[], Some("needle")), app("b", &[], Some("^pin"))]).unwrap());
        let long = [b"x".repeat(250), b"needle".to_vec()].concat();
        let cut = [b"x".repeat(251), b"needle".to_vec()].concat();
        for (data, found) in
            [(&b"needle"[..], 1), (&b"pin needle"[..], 3), (b"need", 0), (&long, 1), (&cut, 0), (b"", 0)]
        {
            for size in [1, 3, 7, 256, 1000] {
                for side in [Forward, Reverse] {
                    let mut search = FirstBytes::new(Arc::clone(&own));
                    assert!(!search.wants(5, side));
                    data.chunks(size).for_each(|part| search.chunk(5, &chunk(side, 0, part)));
                    let other = if side == Forward { Reverse } else { Forward };
                    search.chunk(5, &chunk(other, 0, b"other"));
                    assert!(search.wants(5, other), "it has said little");
                    assert_eq!(search.end(5), found, "{size} {:?}", String::from_utf8_lossy(data));
                    assert_eq!((search.end(5), search.held), (0, 0));
                }
            }
        }
    }

    #[test]
    fn nothing_is_found_across_a_gap_and_nothing_is_kept_beyond_the_first_bytes() {
        let own = Arc::new(OwnApps::new(vec![app("a", &[], Some("needle"))]).unwrap());
        let mut search = FirstBytes::new(own);
        search.chunk(1, &chunk(Direction::Forward, 0, b"nee"));
        search.chunk(1, &chunk(Direction::Forward, 2, b"dle needle"));
        search.chunk(1, &chunk(Direction::Reverse, 0, &[b'x'; 4000]));
        assert!(!search.wants(1, Direction::Forward) && !search.wants(1, Direction::Reverse));
        assert_eq!(search.held, size_of::<Flow>());
        assert_eq!(search.end(1), 0);
    }
}
