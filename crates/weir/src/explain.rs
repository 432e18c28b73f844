//! `weir explain`: how an expression is evaluated, and its measured cost.

use crate::exit::{Exit, complain, print};
use crate::fields::RunFields;
use crate::inputs::{filter_options, inputs, report_read_errors};
use crate::{cli, clock, config, times};
use serde::Serialize;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_capture::{Files, ReadOptions};
use weir_filter::{
    Decided, Decider, Explanation, Filter, FilterError, FlowTest, MatchCounter, Options, Part, RecordTest,
    Set, Strategy, Tables, parts,
};
use weir_output::figures;
use weir_output::zone::Zone;
use weir_wire::{Batch, FlowKey, Layers, LinkType, Packet, PacketBuf, Tag, build, decode};

/// The schema of the JSON object.
const SCHEMA: u32 = 1;

/// Maximum number of packets, and of their bytes, that costs are measured on.
const MAX_PACKETS: usize = 1 << 16;
const MAX_BYTES: usize = 64 << 20;

/// Number of packets that are evaluated together, as in a worker.
const AT_ONCE: usize = 256;

/// Number of measurements of each cost. The minimum is reported, because other processes also run.
const ROUNDS: usize = 7;

/// Minimum duration of one round in nanoseconds.
const ROUND: u64 = 2_000_000;

/// Maximum number of terms and of comparisons to show.
const MAX_LINES: usize = 8;

/// Maximum number of parts to show.
const MAX_PARTS: usize = 20;

/// Costs in nanoseconds; `None` if not measured.
#[derive(Default, Serialize)]
struct Cost {
    /// Per packet, alone in a set.
    packet: Option<f64>,
    /// Per packet, with the expression's program.
    program: Option<f64>,
    /// Per flow, if the flow's key decides.
    flow: Option<f64>,
    /// Per packet, for the lines of the configuration without the expression, and with it.
    lines: Option<f64>,
    lines_and_this: Option<f64>,
}

#[derive(Serialize)]
struct Asked<'a> {
    text: &'a str,
    changes: bool,
    program: bool,
    others: usize,
}

/// A test of the expression.
#[derive(Serialize)]
struct PartFacts<'a> {
    text: &'a str,
    /// `packet`, `flow`, `flow end` or `record`.
    decided: &'static str,
    table: Option<&'static str>,
}

/// An expression over records or finished flows.
#[derive(Serialize)]
struct RowFacts<'a> {
    v: u32,
    kind: &'static str,
    expression: &'a str,
    /// `record`, or `stored` if only stored flows and records can be tested.
    decided: &'static str,
    /// The tables whose records may match; `None` for all.
    tables: Option<Vec<&'static str>>,
    parts: Vec<PartFacts<'a>>,
}

#[derive(Serialize)]
struct Facts<'a> {
    v: u32,
    kind: &'static str,
    expression: &'a str,
    parts: Vec<PartFacts<'a>>,
    /// `flow`, `packet` or `program`.
    decided: &'static str,
    reason: Option<&'a str>,
    strategy: &'static str,
    terms: &'a [String],
    comparisons: Vec<Asked<'a>>,
    instructions: Option<usize>,
    lines: Option<usize>,
    packets: usize,
    of: &'a str,
    nanoseconds: Cost,
}

/// Explains an expression.
pub fn explain(options: &cli::Explain) -> Exit {
    if let Some(words) = &options.plan {
        return crate::run::plan::explain(words, options.json);
    }
    let fields = RunFields::new(Path::new(""), Zone::default());
    let reading = Options { fields: Some(&fields), ..filter_options(options.strict_bpf, options.inner, 0) };
    let expression = options.expression.as_deref().unwrap_or_default();
    let parts = match parts(expression, &reading) {
        Ok(parts) => parts,
        Err(error) => return complain(Exit::Usage, error),
    };
    if parts.iter().any(|part| is_of_rows(part.decider)) {
        return match rows(expression, &parts, &reading) {
            Ok(rows) => print(&if options.json { rows.json() } else { rows.text() }),
            Err(error) => complain(Exit::Usage, error),
        };
    }
    let alone = match Set::compile(&[expression], &reading) {
        Ok(set) => set,
        Err(error) => return complain(Exit::Usage, error),
    };
    let mut lines = None;
    if let Some(path) = &options.config {
        match config::load_file(path) {
            Ok(config) => lines = Some(lines_of(&config)),
            Err(error) => {
                eprint!("{error}");
                return Exit::Usage;
            }
        }
    }
    let (packets, exit) = match &options.file {
        None => (made(), Exit::Good),
        Some(path) => match read(path, &options.times) {
            Ok(read) => read,
            Err(exit) => return exit,
        },
    };
    let joined = match lines.as_deref().map(|lines| join(lines, &alone, expression, &reading)).transpose() {
        Ok(joined) => joined,
        Err(error) => return complain(Exit::Usage, error),
    };
    let (set, index) = joined.as_ref().map_or((&alone, 0), |(_, with)| (with, with.len() - 1));
    // The set has an expression with this index.
    let Some(explanation) = set.explain(index) else { return Exit::Usage };
    let strategy = set.strategy();
    let cost = measure(alone, joined, expression, &reading, &explanation.decided, &packets);
    let of = match &options.file {
        Some(path) => figures::printable(&path.to_string_lossy()),
        None => "made in memory".to_owned(),
    };
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = Found {
        written: expression,
        parts,
        expression: one_line(expression),
        strategy,
        lines: lines.as_ref().map(Vec::len),
        packets: packets.slots.len(),
        of,
        explanation,
    };
    exit.or(print(&if options.json { found.json(cost) } else { found.text(&cost) }))
}

/// Whether records or finished flows decide a test.
fn is_of_rows(decider: Decider) -> bool {
    matches!(decider, Decider::Record(_) | Decider::FlowField | Decider::FlowEnd)
}

/// An expression over records or finished flows.
struct Rows<'e> {
    expression: &'e str,
    parts: &'e [Part],
    /// The tables whose records it may hold for, or the reason why only stored rows are tested.
    tables: Result<Tables, String>,
    /// Lines that were left out of lists.
    notes: Vec<String>,
}

/// Explains an expression over records or finished flows.
fn rows<'e>(expression: &'e str, parts: &'e [Part], reading: &Options<'_>) -> Result<Rows<'e>, FilterError> {
    let mut notes: Vec<String> = Vec::new();
    FlowTest::parse(expression, reading)?.fields(&mut |test| {
        notes.extend(test.note().map(str::to_owned));
    });
    notes.dedup();
    let tables = RecordTest::compile(expression, reading).map(|test| test.tables());
    Ok(Rows { expression, parts, tables: tables.map_err(|error| error.message), notes })
}

impl Rows<'_> {
    fn text(&self) -> String {
        let words = self.expression.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut text = format!("{}\n", figures::printable(&words));
        let level = match &self.tables {
            Err(reason) => format!("none, only stored flows and records: {reason}"),
            Ok(_) if self.parts.iter().all(|part| !matches!(part.decider, Decider::Record(_))) => {
                "flow, stream or record: the key of a flow decides".to_owned()
            }
            Ok(Tables::All) => "record: records of all tables".to_owned(),
            Ok(Tables::Only(tables)) => format!("record: records of {}", tables.join(", ")),
        };
        line(&mut text, "level", &level);
        part_lines(&mut text, self.expression, self.parts);
        self.notes.iter().for_each(|note| line(&mut text, "list", note));
        text
    }

    fn json(&self) -> String {
        let facts = RowFacts {
            v: SCHEMA,
            kind: "explain",
            expression: self.expression,
            decided: if self.tables.is_ok() { "record" } else { "stored" },
            tables: match &self.tables {
                Ok(Tables::Only(tables)) => Some(tables.clone()),
                _ => None,
            },
            parts: part_facts(self.expression, self.parts),
        };
        serde_json::to_string(&facts).unwrap_or_default() + "\n"
    }
}

/// The part's text and what decides it, in lines.
fn part_lines(text: &mut String, expression: &str, parts: &[Part]) {
    for (at, part) in parts.iter().take(MAX_PARTS).enumerate() {
        let written = expression.get(part.span.clone()).unwrap_or_default();
        let decided = match part.decider {
            Decider::Packet => "per packet".to_owned(),
            Decider::FlowKey | Decider::FlowField => "once per flow, by its key".to_owned(),
            Decider::FlowEnd => "when the flow has ended".to_owned(),
            Decider::Record(table) => format!("per record of {table}"),
        };
        line(text, if at == 0 { "parts" } else { "" }, &format!("{written}: {decided}"));
    }
    if let Some(more) = parts.len().checked_sub(MAX_PARTS).filter(|more| *more > 0) {
        line(text, "", &format!("{more} more"));
    }
}

fn part_facts<'e>(expression: &'e str, parts: &[Part]) -> Vec<PartFacts<'e>> {
    let fact = |part: &Part| {
        let (decided, table) = match part.decider {
            Decider::Packet => ("packet", None),
            Decider::FlowKey | Decider::FlowField => ("flow", None),
            Decider::FlowEnd => ("flow end", None),
            Decider::Record(table) => ("record", Some(table)),
        };
        PartFacts { text: expression.get(part.span.clone()).unwrap_or_default(), decided, table }
    };
    parts.iter().map(fact).collect()
}

/// The evaluation of an expression, one fact per line, without its cost.
///
/// # Errors
/// The error in the expression, with its position.
pub fn lines(expression: &str, reading: &Options<'_>) -> Result<Vec<String>, FilterError> {
    let parts = parts(expression, reading)?;
    // The first line is the expression.
    let after_first = |text: String| text.lines().skip(1).map(|line| line.trim_end().to_owned()).collect();
    if parts.iter().any(|part| is_of_rows(part.decider)) {
        return Ok(after_first(rows(expression, &parts, reading)?.text()));
    }
    let set = Set::compile(&[expression], reading).map_err(|error| error.error)?;
    let Some(explanation) = set.explain(0) else { return Ok(Vec::new()) };
    let found = Found {
        written: expression,
        parts,
        expression: expression.split_whitespace().collect::<Vec<_>>().join(" "),
        strategy: set.strategy(),
        lines: None,
        packets: 0,
        of: String::new(),
        explanation,
    };
    Ok(after_first(found.strategies()))
}

/// The expressions of a configuration; an empty one matches every packet.
fn lines_of(config: &config::Config) -> Vec<String> {
    let specs = config.plan().into_iter().filter(|spec| !spec.remainder);
    specs.map(|spec| spec.expression).collect()
}

/// The set of the lines, and the set with the expression added at the end.
fn join(
    lines: &[String],
    alone: &Set,
    expression: &str,
    reading: &Options<'_>,
) -> Result<(Set, Set), FilterError> {
    let set = Set::compile_from(&[alone], lines, reading).map_err(|error| error.error)?;
    let with = set.with(expression, reading)?;
    Ok((set, with))
}

/// Reads packets from the beginning of a capture.
fn read(path: &PathBuf, times: &cli::ZonedTimeOptions) -> Result<(PacketBuf, Exit), Exit> {
    let times = times::of_files(times, std::slice::from_ref(path))?;
    let options = ReadOptions { packets: Some(MAX_PACKETS as u64), times, ..ReadOptions::default() };
    let mut files = Files::open(&inputs([path]), &options)
        .map_err(|error| report_read_errors(std::slice::from_ref(&error)))?;
    let (mut all, mut next, mut errors) = (PacketBuf::default(), PacketBuf::default(), Vec::new());
    while all.bytes.len() < MAX_BYTES {
        match files.fill(&mut next) {
            Ok(true) => next.batch().packets().for_each(|packet| all.push(&packet)),
            Ok(false) => break,
            Err(error) => errors.push(error),
        }
    }
    times::report_outside(&files);
    let exit = report_read_errors(&errors);
    if all.slots.is_empty() && exit != Exit::Good { Err(exit) } else { Ok((all, exit)) }
}

/// Packets as on a typical link, equal in every run: TCP, UDP and ICMP of some thousand hosts.
fn made() -> PacketBuf {
    const PORTS: [u16; 6] = [80, 443, 22, 25, 53, 123];
    const FLAGS: [u8; 6] = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04];
    let mut chunk = PacketBuf::default();
    let mut state = 1_u64;
    for _ in 0..16 * AT_ONCE {
        // Knuth's constants for a 64-bit linear congruential generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [a, b, c, d, e, f, ..] = state.to_be_bytes();
        let (inside, outside) = ([10, 0, a & 15, b], [192, 0, c & 15, d]);
        let port = PORTS[usize::from(e) % PORTS.len()];
        let high = 49_152 | u16::from(f) << 4;
        let from_inside = a & 128 != 0;
        let ends = if from_inside { (inside, outside) } else { (outside, inside) };
        let (sport, dport) = if from_inside { (high, port) } else { (port, high) };
        let builder = build::ethernet().ipv4(ends.0, ends.1);
        let size = if b & 1 == 0 { 6 } else { usize::from(c) * 5 };
        let data = match d % 8 {
            0 => builder.icmp(8, 0, [0; 4]).payload(&[0; 56]),
            1 | 2 => builder.udp(sport, dport).payload(&vec![0; size]),
            _ => builder.tcp(sport, dport, FLAGS[usize::from(d) % FLAGS.len()]).payload(&vec![0; size]),
        };
        chunk.push(&build::packet(&data, LinkType::ETHERNET));
    }
    chunk
}

fn measure(
    alone: Set,
    joined: Option<(Set, Set)>,
    expression: &str,
    reading: &Options<'_>,
    decided: &Decided,
    packets: &PacketBuf,
) -> Cost {
    let all = packets.batch();
    let layers: Vec<Layers> = all.packets().map(|packet| decode(&packet)).collect();
    let slots = all.slots.chunks(AT_ONCE).map(|slots| Batch { bytes: all.bytes, slots });
    let batches: Vec<(Batch<'_>, &[Layers])> = slots.zip(layers.chunks(AT_ONCE)).collect();
    let flow = |(packet, layers): (Packet<'_>, &Layers)| {
        let (key, lower) = FlowKey::of(&packet, layers)?;
        Some((key, Tag::of(packet.link, layers), lower))
    };
    let flows: Vec<(FlowKey, Tag, bool)> = all.packets().zip(&layers).filter_map(flow).collect();
    let counting = |set: Set| {
        let (mut counter, batches) = (MatchCounter::new(Arc::new(set)), &batches);
        move || {
            batches.iter().for_each(|(batch, layers)| counter.packets(*batch, Some(layers)));
            black_box(counter.take());
        }
    };
    let filter = Filter::compile(expression, reading).ok();
    let program = filter.map(|filter| {
        let layers = &layers;
        move || {
            let matched = all.packets().zip(layers).filter(|(packet, layers)| filter.matches(packet, layers));
            black_box(matched.count());
        }
    });
    // Measured with this expression alone: any expression that the key decides costs a flow equally much.
    let flow = Set::compile(&[expression], reading).ok().filter(|_| *decided == Decided::Flow).map(|set| {
        let (mut counter, flows) = (MatchCounter::new(Arc::new(set)), &flows);
        move || {
            flows.iter().for_each(|(key, tag, lower)| counter.flow(key, *tag, *lower, 1, 64));
            black_box(counter.take());
        }
    });
    let (lines, with) = joined.unzip();
    let (mut packet, mut lines, mut with) =
        (Some(counting(alone)), lines.map(&counting), with.map(&counting));
    let (mut program, mut flow) = (program, flow);
    let mut cost = Cost::default();
    let count = all.len();
    for _ in 0..ROUNDS {
        min(&mut cost.packet, &mut packet, count);
        min(&mut cost.program, &mut program, count);
        min(&mut cost.flow, &mut flow, flows.len());
        min(&mut cost.lines, &mut lines, count);
        min(&mut cost.lines_and_this, &mut with, count);
    }
    cost
}

/// Repeats an operation that handles `count` items until it has taken long enough; returns the minimum nanoseconds per
/// item.
fn min(known: &mut Option<f64>, run: &mut Option<impl FnMut()>, count: usize) {
    let Some(run) = run.as_mut().filter(|_| count > 0) else { return };
    let (start, mut times) = (clock::nanoseconds(), 0_u32);
    let took = loop {
        run();
        times += 1;
        let took = clock::nanoseconds() - start;
        if took >= ROUND {
            break took;
        }
    };
    let each = took as f64 / f64::from(times) / count as f64;
    let each = (each * 100.0).round() / 100.0;
    *known = Some(known.map_or(each, |known| known.min(each)));
}

/// The facts to print.
struct Found<'e> {
    written: &'e str,
    parts: Vec<Part>,
    /// On one line.
    expression: String,
    strategy: Strategy,
    /// Number of lines that the expression is added to.
    lines: Option<usize>,
    packets: usize,
    /// Description of the packets.
    of: String,
    explanation: Explanation,
}

impl Found<'_> {
    fn text(&self, cost: &Cost) -> String {
        let mut text = self.strategies();
        self.costs(&mut text, cost);
        text
    }

    fn strategies(&self) -> String {
        let Explanation { terms, comparisons, instructions, wary, ethernet_only, .. } = &self.explanation;
        let mut text = match self.expression.as_str() {
            "" => "every packet\n".to_owned(),
            expression => format!("{}\n", figures::printable(expression)),
        };
        let changing: Vec<&str> =
            comparisons.iter().filter(|asked| asked.changes).map(|asked| asked.text.as_str()).collect();
        let strategy = match self.strategy {
            Strategy::Columns => "columns",
            Strategy::Index => "the index",
            Strategy::Programs => "programs",
        };
        let (decided, by_flow) = match &self.explanation.decided {
            Decided::Flow => (
                "once per flow, by its key".to_owned(),
                "everything: addresses, ports and protocol; a lone packet goes through ".to_owned()
                    + strategy,
            ),
            Decided::Packet => (
                format!("per packet, in {strategy}: it tests fields that change within a flow"),
                format!("nothing, because of {}", shortened(&changing)),
            ),
            Decided::Program { reason } => {
                (format!("per packet, by its program (plain evaluation): {reason}"), "nothing".to_owned())
            }
        };
        line(&mut text, "way", &decided);
        line(&mut text, "by flow", &by_flow);
        if self.parts.len() > 1 {
            part_lines(&mut text, self.written, &self.parts);
        }
        for (at, term) in terms.iter().take(MAX_LINES).enumerate() {
            line(&mut text, if at == 0 { "terms" } else { "" }, term);
        }
        if let Some(more) = terms.len().checked_sub(MAX_LINES).filter(|more| *more > 0) {
            line(&mut text, "", &format!("{more} more"));
        }
        for asked in comparisons.iter().filter(|asked| asked.has_program) {
            line(&mut text, "", &format!("{} has a separate small program", asked.text));
        }
        if let Some(lines) = self.lines {
            let mut shared: Vec<_> = comparisons.iter().filter(|asked| asked.others > 0).collect();
            shared.sort_by_key(|asked| std::cmp::Reverse(asked.others));
            if shared.is_empty() {
                line(
                    &mut text,
                    "shared",
                    &format!("nothing with {}", figures::counted(lines as u64, "line")),
                );
            }
            for (at, asked) in shared.iter().take(MAX_LINES).enumerate() {
                let others = figures::counted(asked.others as u64, "other line");
                line(
                    &mut text,
                    if at == 0 { "shared" } else { "" },
                    &format!("{} with {others}", asked.text),
                );
            }
        }
        let runs = match (&self.explanation.decided, ethernet_only, wary) {
            (Decided::Program { .. }, ..) => "for every packet",
            (_, true, _) => "for truncated packets, and packets of other link types",
            (_, false, true) => "for truncated packets, even if nothing else matches",
            (_, false, false) => "for truncated packets",
        };
        let program = match instructions {
            Some(n) => format!("{} for Ethernet; it runs {runs}", figures::counted(*n as u64, "instruction")),
            None => "matches nothing on Ethernet".to_owned(),
        };
        line(&mut text, "program", &program);
        text
    }

    fn costs(&self, text: &mut String, cost: &Cost) {
        let Some(packet) = cost.packet else {
            line(text, "cost", &format!("not measured: {} has no packets", self.of));
            return;
        };
        let mut alone = format!("{packet:.1} ns a packet alone");
        if let Some(program) = cost.program {
            let _ = write!(alone, ", {program:.1} ns by its program");
        }
        if let Some(flow) = cost.flow {
            let _ = write!(alone, ", {flow:.1} ns a flow");
        }
        line(text, "cost", &alone);
        if let (Some(lines), Some(before), Some(with)) = (self.lines, cost.lines, cost.lines_and_this) {
            let lines = figures::counted(lines as u64, "line");
            line(text, "", &format!("{before:.1} ns a packet for {lines}, {with:.1} ns with this one"));
        }
        let packets = figures::counted(self.packets as u64, "packet");
        let of = if self.of == "made in memory" { self.of.clone() } else { format!("of {}", self.of) };
        line(text, "", &format!("measured now on {packets} {of}, decoded before"));
    }

    fn json(&self, cost: Cost) -> String {
        let Explanation { decided, terms, comparisons, instructions, .. } = &self.explanation;
        let (decided, reason) = match decided {
            Decided::Flow => ("flow", None),
            Decided::Packet => ("packet", None),
            Decided::Program { reason } => ("program", Some(reason.as_str())),
        };
        let comparisons = comparisons
            .iter()
            .map(|asked| Asked {
                text: &asked.text,
                changes: asked.changes,
                program: asked.has_program,
                others: asked.others,
            })
            .collect();
        let facts = Facts {
            v: SCHEMA,
            kind: "explain",
            expression: &self.expression,
            parts: part_facts(self.written, &self.parts),
            decided,
            reason,
            strategy: match self.strategy {
                Strategy::Columns => "columns",
                Strategy::Index => "index",
                Strategy::Programs => "programs",
            },
            terms,
            comparisons,
            instructions: *instructions,
            lines: self.lines,
            packets: self.packets,
            of: &self.of,
            nanoseconds: cost,
        };
        serde_json::to_string(&facts).unwrap_or_default() + "\n"
    }
}

/// The first few texts, and the number of the others.
fn shortened(texts: &[&str]) -> String {
    match texts.len().checked_sub(3) {
        None | Some(0) => texts.join(", "),
        Some(more) => format!("{} and {more} more", texts[..3].join(", ")),
    }
}

fn line(text: &mut String, name: &str, what: &str) {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(text, "  {name:<9} {}", figures::printable(&what));
}
