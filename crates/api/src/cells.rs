//! One view of every reading: named columns, and rows of keys and values.
//!
//! Outputs read this view and know no shape of [`Reading`], so that a new shape or a new column is in every output.

use crate::{Count, DistinctCount, Histogram, Key, Reading, Scans, Series, Sweep, Top, Trials};
use std::borrow::Cow;
use std::net::IpAddr;

/// A reading in columns and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells<'r> {
    /// Name of the shape.
    pub shape: &'r str,
    /// The meaning of the rows.
    pub layout: Layout,
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
pub enum Layout {
    /// The reading has one row, without a key.
    Single,
    /// Each row has a key. The name is that of the rows together.
    Keyed(&'static str),
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
    /// The latest value.
    Last,
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
    /// A scan.
    Scan(&'r Trials),
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
static SCANS: [Column<'static>; 10] = [
    column("source", ColumnKind::Key, "", "The initiator."),
    column("target", ColumnKind::Key, "", "The probed host, if its ports were probed."),
    column("port", ColumnKind::Key, "", "The probed port, if hosts were probed."),
    column(
        "failed",
        ColumnKind::Distinct,
        "",
        "Ports of the target or, for a port, hosts, where an attempt failed.",
    ),
    column("answered", ColumnKind::Distinct, "", "Ports or hosts that answered."),
    EXACT,
    column("refused_flows", ColumnKind::Sum, "flows", "Flows that the responder refused."),
    column("unanswered_flows", ColumnKind::Sum, "flows", "Flows without an answer."),
    column("first", ColumnKind::Min, "time", "Beginning of the first failed flow."),
    column("last", ColumnKind::Max, "time", "Beginning of the last failed flow."),
];

impl<'r> Cells<'r> {
    fn new(shape: &'r str, layout: Layout, columns: &'r [Column<'r>]) -> Self {
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
            Reading::Scans(scans) => of_scans(scans),
            Reading::Distinct(count) => of_distinct(count),
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
            Cell::Flag(relative_error == 0.0),
            Cell::Number(relative_error),
        ],
        error: Some((relative_error * estimate as f64).ceil() as u64),
    };
    Cells { rows: vec![row], ..Cells::new("distinct", Layout::Single, &DISTINCT) }
}

fn of_scans(scans: &Scans) -> Cells<'_> {
    fn row(row: &Trials) -> Row<'_> {
        let Trials { sweep, failed, answered, refused, unanswered, first, last } = row;
        let (source, target, port) = match *sweep {
            Sweep::Ports { source, target } => (source, Cell::Address(target), Cell::Nothing),
            Sweep::Hosts { source, port } => (source, Cell::Nothing, Cell::Whole(port.into())),
        };
        let values = vec![
            Cell::Address(source),
            target,
            port,
            Cell::Whole(failed.estimate()),
            Cell::Whole(answered.estimate()),
            Cell::Flag(failed.is_exact()),
            Cell::Whole(*refused),
            Cell::Whole(*unanswered),
            Cell::Time(*first),
            Cell::Time(*last),
        ];
        Row { label: Label::Scan(row), values, error: None }
    }
    // Other attempts serve only for merging.
    let rows = scans.found().into_iter().map(row).collect();
    Cells { rows, ..Cells::new("scans", Layout::Keyed("scans"), &SCANS) }
}
