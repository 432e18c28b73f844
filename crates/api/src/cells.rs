//! One view of every reading: named columns, and rows of keys and values.
//!
//! Outputs read this view and know no shape of [`Reading`], so that a new shape or a new column is in every output.

use crate::{
    Count, Datum, DistinctCount, DistinctValues, Fold, Folded, Histogram, Key, NAMES, Reading, SampledValues,
    Series, Shown, Sketch, Sweep, SynCounts, SynHost, Table, TableColumn, TableRow, Top, Trials, UdpHost,
    WorkWeight, mac_text, table::names_text,
};
use std::borrow::Cow;
use std::net::IpAddr;

/// A reading in columns and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells<'r> {
    /// Name of the shape.
    pub shape: &'r str,
    /// The meaning of the rows.
    pub layout: Layout<'r>,
    /// Values of the reading as a whole.
    pub facts: Vec<Fact<'r>>,
    /// The columns of the rows.
    pub columns: Cow<'r, [Column<'r>]>,
    /// The rows that are shown, in order.
    pub rows: Vec<Row<'r>>,
    /// The sum of the keys without a row; `None` if there are none, or if they cannot be summed.
    pub rest: Option<Row<'r>>,
    /// Values about the keys without a row.
    pub notes: Vec<Fact<'r>>,
}

/// The meaning of the rows of a reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout<'r> {
    /// The reading has one row, without a key.
    Single,
    /// Each row has a key. The name is that of the rows together.
    Keyed(&'r str),
    /// Each row is a bin or a cell of time: rows follow each other without a gap, and many are 0.
    Bins,
}

/// A value of a reading as a whole, and its column.
pub type Fact<'r> = (Column<'r>, Cell<'r>);

/// The meaning of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Column<'r> {
    /// Name: a word of lower-case letters and underscores.
    pub name: Cow<'r, str>,
    /// How its values are made.
    pub kind: ColumnKind,
    /// Unit of its values; "" without one.
    pub unit: Cow<'r, str>,
    /// Meaning, for a reader of the manual.
    pub help: Cow<'r, str>,
}

/// How the values of a column are made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ColumnKind {
    /// Part of the row's key.
    Key,
    /// A sum.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// Number of distinct values.
    Distinct,
    /// Distinct names.
    Names,
    /// The latest value.
    Last,
    /// Some of the values, with their counts.
    Sample,
    /// A quantile, or another statistic.
    Statistic,
    /// Whether the row, or the reading, is exact; or by how much it may be wrong.
    Error,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'r> {
    /// Its name, for a reader.
    pub label: Label<'r>,
    /// A value for each column.
    pub values: Vec<Cell<'r>>,
    /// Upper bound of the undercount, or one standard error, in the unit of the ranking; `None` if the values are exact
    /// by their nature.
    pub error: Option<u64>,
}

/// The name of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Label<'r> {
    /// No name: the only row.
    None,
    /// A name.
    Text(&'r str),
    /// Distinct values of a kind.
    Distinct(&'static str),
    /// The key of a top list.
    Key(Key),
    /// A bin: the measured quantity, and the lower edge.
    Bin(&'r str, u64),
    /// A time in nanoseconds since the epoch.
    Time(u64),
    /// The parts of a table's key.
    Parts(&'r [Datum]),
    /// A scan: its kind, and the number of its targets.
    Scan {
        /// Initiator and target.
        sweep: Sweep,
        /// Number of ports or hosts.
        targets: u64,
        /// Whether the number is exact.
        is_exact: bool,
    },
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'r> {
    /// No value.
    Nothing,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A large whole number.
    Wide(u128),
    /// A number.
    Number(f64),
    /// A time in nanoseconds since the epoch.
    Time(u64),
    /// Text, which can come from packets.
    Text(Cow<'r, str>),
    /// An address.
    Address(IpAddr),
    /// The key of a top list.
    Key(Key),
    /// Packets and bytes.
    Count(Count),
    /// Values, such as ports, and the count of each, sorted by value.
    Sample(Vec<(u128, u64)>),
}

/// A sample as text: `22:1 443:5`, each value before its count.
pub fn sample_text(sample: &[(u128, u64)]) -> String {
    let texts: Vec<String> = sample.iter().map(|(value, count)| format!("{value}:{count}")).collect();
    texts.join(" ")
}

const fn column(
    name: &'static str,
    kind: ColumnKind,
    unit: &'static str,
    help: &'static str,
) -> Column<'static> {
    Column { name: Cow::Borrowed(name), kind, unit: Cow::Borrowed(unit), help: Cow::Borrowed(help) }
}

const PACKETS: Column<'static> = column("packets", ColumnKind::Sum, "packets", "Packets.");
const BYTES: Column<'static> =
    column("bytes", ColumnKind::Sum, "bytes", "Bytes on the wire, link-layer headers included.");
const FLOWS: Column<'static> = column("flows", ColumnKind::Sum, "flows", "Flows.");
const KEY: Column<'static> = column("key", ColumnKind::Key, "", "The key of the row.");
const UNIT: Column<'static> = column("unit", ColumnKind::Key, "", "The unit of the ranking.");
const OF: Column<'static> = column("of", ColumnKind::Key, "", "The measured quantity.");
const EXACT: Column<'static> =
    column("exact", ColumnKind::Error, "", "Whether every value is exact and no key is missing.");

static COUNTED: [Column<'static>; 2] = [PACKETS, BYTES];
static RANKED: [Column<'static>; 4] = [KEY, PACKETS, BYTES, FLOWS];
static BINS: [Column<'static>; 2] = [
    column("edges", ColumnKind::Key, "", "Lower edge of the bin."),
    column("counts", ColumnKind::Sum, "", "Number of values in the bin."),
];
static DISTINCT: [Column<'static>; 4] = [
    OF,
    column("estimate", ColumnKind::Distinct, "", "Number of distinct values."),
    EXACT,
    column("relative_error", ColumnKind::Error, "", "The standard error, relative to the true number."),
];

/// What follows from the sums of a host over UDP.
const OF_UDP: [Column<'static>; 2] = [
    column("weight", ColumnKind::Statistic, "", "(sent - received) x errors; 0 if the host received more."),
    column(
        "class",
        ColumnKind::Statistic,
        "",
        "What the sums suggest: scan, flood, resolver, server or p2p; nothing if none of them.",
    ),
];

/// What follows from the sums of a host over TCP.
static OF_SYN: [Column<'static>; 6] = [
    column(
        "weight",
        ColumnKind::Statistic,
        "percent",
        "The work weight: work in percent of the TCP packets that the host sent and received.",
    ),
    column(
        "weight_probe",
        ColumnKind::Statistic,
        "percent",
        "The same with the FINs that the host received in place of those that it sent, as Ourmon's probe 2.5 counts.",
    ),
    column("weight_no_fin", ColumnKind::Statistic, "percent", "The same without FINs."),
    column(
        "synack_share",
        ColumnKind::Statistic,
        "percent",
        "SYNs with ACK in percent of the SYNs that the host sent: 100 for a server, 0 for a client.",
    ),
    column(
        "flags",
        ColumnKind::Statistic,
        "",
        "Ourmon's flags: E, many errors for SYNs that no FIN follows; W, w, work above 90 and 50 percent; O, SYNs and hardly a FIN; R, RSTs and no FIN; M, nothing received.",
    ),
    column(
        "sampled",
        ColumnKind::Statistic,
        "packets",
        "SYNs to the ports of the sample of destination ports. `syn` has all SYNs.",
    ),
];

impl<'r> Cells<'r> {
    fn new(shape: &'r str, layout: Layout<'r>, columns: &'r [Column<'r>]) -> Self {
        let columns = Cow::Borrowed(columns);
        Self { shape, layout, facts: Vec::new(), columns, rows: Vec::new(), rest: None, notes: Vec::new() }
    }
}

impl Reading {
    /// The reading in columns and rows.
    pub fn cells(&self) -> Cells<'_> {
        match self {
            Reading::Count(count) => {
                let row = Row { label: Label::None, values: counted(count), error: None };
                Cells { rows: vec![row], ..Cells::new("count", Layout::Single, &COUNTED) }
            }
            Reading::Top(top) => of_top(top),
            Reading::Classes { unit, classes } => Cells {
                facts: vec![(UNIT, text(unit.name()))],
                rows: classes
                    .iter()
                    .map(|class| Row {
                        label: Label::Text(&class.label),
                        values: counted(&class.count),
                        error: None,
                    })
                    .collect(),
                ..Cells::new("classes", Layout::Keyed("classes"), &COUNTED)
            },
            Reading::Histogram(histogram) => of_histogram(histogram),
            Reading::Series(series) => of_series(series),
            Reading::Distinct(count) => of_distinct(count),
            Reading::Table(table) => of_table(table),
            Reading::Flooded(_) => Cells::new("flooded", Layout::Keyed("flooded"), &[]),
        }
    }
}

fn counted(count: &Count) -> Vec<Cell<'static>> {
    vec![Cell::Whole(count.packets), Cell::Whole(count.bytes)]
}

fn text(text: &str) -> Cell<'_> {
    Cell::Text(Cow::Borrowed(text))
}

fn of_top(top: &Top) -> Cells<'_> {
    let row = |row: crate::TopRow| Row {
        label: Label::Key(row.key),
        values: vec![
            Cell::Key(row.key),
            Cell::Whole(row.count.packets),
            Cell::Whole(row.count.bytes),
            Cell::Whole(row.flows),
        ],
        error: Some(row.error),
    };
    let rest = Row {
        label: Label::Text("no row"),
        values: vec![
            Cell::Nothing,
            Cell::Whole(top.shed.packets),
            Cell::Whole(top.shed.bytes),
            Cell::Nothing,
        ],
        error: Some(top.absent),
    };
    let inserts =
        column("inserts", ColumnKind::Sum, "keys", "Keys that had no row in the list when they arrived.");
    let shed = column("shed", ColumnKind::Sum, "", "Counts of keys without a row.");
    let absent = column(
        "absent",
        ColumnKind::Error,
        "",
        "Upper bound for a key without a row, in the unit of the ranking.",
    );
    Cells {
        facts: vec![
            (KEY, text(top.key.name())),
            (UNIT, text(top.unit.name())),
            (EXACT, Cell::Flag(top.is_exact())),
        ],
        rows: top.ranked().into_iter().map(row).collect(),
        rest: (!top.is_exact()).then_some(rest),
        notes: vec![
            (inserts, Cell::Whole(top.inserts)),
            (shed, Cell::Count(top.shed)),
            (absent, Cell::Whole(top.absent)),
        ],
        ..Cells::new("top", Layout::Keyed("rows"), &RANKED)
    }
}

fn of_histogram(histogram: &Histogram) -> Cells<'_> {
    let known = |value| if histogram.n > 0 { Cell::Whole(value) } else { Cell::Nothing };
    let of = histogram.of.as_str();
    let bin = |(edge, values): (&u64, &u64)| Row {
        label: Label::Bin(of, *edge),
        values: vec![Cell::Whole(*edge), Cell::Whole(*values)],
        error: None,
    };
    Cells {
        facts: vec![
            (OF, text(of)),
            (column("n", ColumnKind::Sum, "", "Number of values."), Cell::Whole(histogram.n)),
            (column("sum", ColumnKind::Sum, "", "Sum of the values."), Cell::Wide(histogram.sum)),
            (
                column("mean", ColumnKind::Statistic, "", "Mean of the values."),
                Cell::Number(histogram.mean()),
            ),
            (column("min", ColumnKind::Min, "", "The smallest value."), known(histogram.min)),
            (column("max", ColumnKind::Max, "", "The largest value."), known(histogram.max)),
        ],
        rows: histogram.edges.iter().zip(&histogram.counts).map(bin).collect(),
        ..Cells::new("histogram", Layout::Bins, &BINS)
    }
}

fn of_series(series: &Series) -> Cells<'_> {
    let time = |at: u64| series.first.saturating_add(at).saturating_mul(series.step);
    let row = |(at, count)| Row { label: Label::Time(time(at)), values: counted(count), error: None };
    Cells {
        facts: vec![
            (column("first", ColumnKind::Min, "time", "Beginning of the first cell."), Cell::Time(time(0))),
            (
                column("step_ns", ColumnKind::Statistic, "nanoseconds", "Length of a cell."),
                Cell::Whole(series.step),
            ),
        ],
        rows: (0..).zip(&series.cells).map(row).collect(),
        ..Cells::new("series", Layout::Bins, &COUNTED)
    }
}

fn of_distinct(count: &DistinctCount) -> Cells<'_> {
    let (estimate, relative_error) = (count.estimate(), count.relative_error());
    let row = Row {
        label: Label::Distinct(count.of.name()),
        values: vec![
            text(count.of.name()),
            Cell::Whole(estimate),
            Cell::Flag(count.is_exact()),
            Cell::Number(relative_error),
        ],
        error: Some((relative_error * estimate as f64).ceil() as u64 + (count.most() - estimate)),
    };
    Cells { rows: vec![row], ..Cells::new("distinct", Layout::Single, &DISTINCT) }
}

/// The quantiles of a [`Sketch`] that are shown: the end of a column's name, and the place.
pub(crate) const QUANTILES: [(&str, f64); 4] = [("_p50", 0.5), ("_p90", 0.9), ("_p99", 0.99), ("_max", 1.0)];

fn of_table(table: &Table) -> Cells<'_> {
    let schema = &*table.schema;
    let key = |key: &'_ crate::KeyColumn| (key.name.clone(), key.help.clone());
    let mut columns: Vec<Column<'_>> = schema
        .keys
        .iter()
        .map(key)
        .map(|(name, help)| Column { name, kind: ColumnKind::Key, unit: Cow::Borrowed(""), help })
        .collect();
    if let Shown::Udp(_) = schema.shown {
        columns.extend(OF_UDP);
    }
    // Whether a row is exact stands after the last number that can be an estimate.
    let last_estimate = schema.columns.iter().rposition(is_estimated);
    for (at, column) in schema.columns.iter().enumerate() {
        add_columns(&mut columns, column);
        if last_estimate == Some(at) {
            columns.push(EXACT);
        }
    }
    if let Shown::Syn(_) = schema.shown {
        columns.extend_from_slice(&OF_SYN);
    }
    let row = |row| of_row(table, row, last_estimate);
    let mut cells = Cells {
        columns: Cow::Owned(columns),
        rows: table.shown().into_iter().map(row).collect(),
        ..Cells::new(&schema.name, Layout::Keyed(&schema.name), &[])
    };
    if schema.shown != Shown::Scans {
        cells.facts.push((EXACT, Cell::Flag(table.is_exact())));
        cells.rest = rest_of(table);
        let absent = "Upper bound of the first column for a key without a row.";
        cells.notes.push((column("absent", ColumnKind::Error, "", absent), Cell::Whole(table.absent)));
        let sketches = table.rows.iter().flat_map(|row| &row.values).filter_map(|value| match value {
            Folded::Sketch(sketch) => Some(sketch.error()),
            _ => None,
        });
        if schema.columns.iter().any(|column| column.fold == Fold::Sketch) {
            let help = "Upper bound of the error of a quantile, relative to the exact value.";
            let error = column("quantile_error", ColumnKind::Error, "", help);
            cells.notes.push((error, Cell::Number(sketches.fold(0.0, f64::max))));
        }
    }
    cells
}

/// Whether a column has numbers that can be estimates.
fn is_estimated(column: &TableColumn) -> bool {
    column.fold == Fold::Distinct && column.unit != NAMES
}

/// The names of a column of them, or their number where they are not known any more.
fn names(distinct: &DistinctValues) -> Cell<'static> {
    match distinct.values() {
        Some(values) if values.is_empty() => Cell::Nothing,
        Some(values) => Cell::Text(Cow::Owned(names_text(&values))),
        None => Cell::Whole(distinct.estimate()),
    }
}

/// What keys without a row have; `None` if nothing is missing, or if it is not counted.
fn rest_of(table: &Table) -> Option<Row<'_>> {
    let shed = table.shed.as_ref().filter(|_| table.absent > 0)?;
    let derived = if let Shown::Udp(_) = table.schema.shown { OF_UDP.len() } else { 0 };
    let keys = std::iter::repeat_n(Cell::Nothing, table.schema.keys.len() + derived);
    let sums = table.schema.columns.iter().zip(shed).flat_map(|(column, sum)| match column.fold {
        Fold::Sum => vec![Cell::Whole(*sum)],
        Fold::Sketch => vec![Cell::Nothing; QUANTILES.len()],
        _ => vec![Cell::Nothing],
    });
    let has_flag = table.schema.columns.iter().any(is_estimated);
    // Whether it is exact stands after the last estimate; a table that counts what it sheds has none.
    let values = (!has_flag).then(|| keys.chain(sums).collect())?;
    Some(Row { label: Label::Text("no row"), values, error: Some(table.absent) })
}

fn add_columns<'r>(columns: &mut Vec<Column<'r>>, column: &'r TableColumn) {
    let kind = match column.fold {
        Fold::Sum => ColumnKind::Sum,
        Fold::Min => ColumnKind::Min,
        Fold::Max => ColumnKind::Max,
        Fold::Distinct if column.unit == NAMES => ColumnKind::Names,
        Fold::Distinct => ColumnKind::Distinct,
        Fold::Last => ColumnKind::Last,
        Fold::Sample => ColumnKind::Sample,
        Fold::Sketch => ColumnKind::Statistic,
    };
    let (unit, help) = (Cow::Borrowed(&*column.unit), Cow::Borrowed(&*column.help));
    if column.fold != Fold::Sketch {
        columns.push(Column { name: Cow::Borrowed(&column.name), kind, unit, help });
        return;
    }
    for (end, _) in QUANTILES {
        let name = Cow::Owned(format!("{}{end}", column.name));
        columns.push(Column { name, kind, unit: unit.clone(), help: help.clone() });
    }
}

fn of_row<'r>(table: &'r Table, row: &'r TableRow, last_estimate: Option<usize>) -> Row<'r> {
    let datum = |datum: &'r Datum| match datum {
        Datum::Nothing => Cell::Nothing,
        Datum::Address(address) => Cell::Address(*address),
        Datum::Number(number) => Cell::Whole(*number),
        Datum::Text(datum) => text(datum),
        Datum::Mac(mac) => Cell::Text(Cow::Owned(mac_text(mac))),
    };
    let mut values: Vec<Cell<'r>> = row.key.iter().map(datum).collect();
    if let Shown::Udp(_) = table.schema.shown {
        let host = UdpHost::of(row).unwrap_or_default();
        values.extend([Cell::Whole(host.weight()), host.class().map_or(Cell::Nothing, text)]);
    }
    let is_estimate = |value: &Folded| matches!(value, Folded::Distinct(values) if !values.is_exact());
    for (at, (value, column)) in row.values.iter().zip(table.schema.columns.iter()).enumerate() {
        let number =
            |number: u64| if column.unit == "time" { Cell::Time(number) } else { Cell::Whole(number) };
        match value {
            Folded::Sum(sum) => values.push(Cell::Whole(*sum)),
            Folded::Min(value) | Folded::Max(value) => values.push(value.map_or(Cell::Nothing, number)),
            Folded::Distinct(distinct) if column.unit == NAMES => values.push(names(distinct)),
            Folded::Distinct(distinct) => values.push(Cell::Whole(distinct.estimate())),
            Folded::Last(value) => {
                values.push(value.as_ref().map_or(Cell::Nothing, |(_, value)| datum(value)))
            }
            Folded::Sketch(sketch) => values.extend(quantiles(sketch)),
            Folded::Sample(sample) => values.push(Cell::Sample(sample.values())),
        }
        if last_estimate == Some(at) {
            values.push(Cell::Flag(row.error == 0 && !row.values.iter().any(is_estimate)));
        }
    }
    if let Shown::Syn(_) = table.schema.shown {
        values.extend(of_syn(row));
    }
    let (label, error) = match (table.schema.shown, Trials::of(row)) {
        (Shown::Scans, Some(Trials { sweep, failed, .. })) => {
            let (targets, is_exact) = (failed.estimate(), failed.is_exact());
            (Label::Scan { sweep, targets, is_exact }, (row.error > 0).then_some(row.error))
        }
        _ => (Label::Parts(&row.key), Some(row.error)),
    };
    Row { label, values, error }
}

/// What follows from the sums of a host over TCP; nothing for a row of another table.
fn of_syn(row: &TableRow) -> Vec<Cell<'static>> {
    let Some(counts) = SynCounts::of(row) else { return vec![Cell::Nothing; OF_SYN.len()] };
    let flags = counts.flags();
    let sampled = SynHost::of(row).map(|host| host.samples.first().map_or(0, SampledValues::sampled));
    vec![
        Cell::Whole(counts.weight(WorkWeight::Sent)),
        Cell::Whole(counts.weight(WorkWeight::Received)),
        Cell::Whole(counts.weight(WorkWeight::None)),
        Cell::Whole(counts.synack_percent()),
        if flags.is_empty() { Cell::Nothing } else { Cell::Text(Cow::Owned(flags)) },
        sampled.map_or(Cell::Nothing, Cell::Whole),
    ]
}

fn quantiles(sketch: &Sketch) -> [Cell<'static>; QUANTILES.len()] {
    QUANTILES.map(|(_, place)| sketch.quantile(place).map_or(Cell::Nothing, Cell::Number))
}
