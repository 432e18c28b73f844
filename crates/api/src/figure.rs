//! The numbers of a reading for counters and series: how each is named, and how it adds up.
//!
//! Their number is bounded by the configuration: labels are never values from packets.

use crate::cells::QUANTILES;
use crate::{Count, Folded, Histogram, Reading, Shown, Table};

/// A number of a reading.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'r> {
    /// The figures of its kind.
    pub family: &'static Family,
    /// What distinguishes it from the reading's other figures of the family; "" if it is the only one.
    pub label: &'r str,
    /// The end of its label: the statistic, if the label is a column with several.
    pub statistic: &'static str,
    /// Its value.
    pub value: FigureValue<'r>,
}

/// The value of a figure.
#[derive(Clone, Copy, Debug)]
pub enum FigureValue<'r> {
    /// A sum: it grows from interval to interval. In silence it is zero.
    Sum(u64),
    /// A value of one interval; `None` if the interval has no value. In silence it does not exist.
    Gauge(Option<f64>),
    /// The number of values in each bin, as sums.
    Histogram(&'r Histogram),
}

/// A kind of figures.
#[derive(Debug)]
pub struct Family {
    /// The counter; `None` if it is none.
    pub metric: Option<Metric>,
    /// The series in a store; `None` if it is none.
    pub series: Option<SeriesName>,
}

/// A counter for Prometheus. All have the labels `chart`, `subscription` and `function`.
#[derive(Debug)]
pub struct Metric {
    /// Its name, without prefix and unit.
    pub name: &'static str,
    /// Its meaning, without a full stop.
    pub help: &'static str,
    /// The unit after its name; "" without one.
    pub unit: &'static str,
    /// The name of the label that has [`Figure::label`]; "" without one.
    pub label: &'static str,
    /// The type.
    pub of: MetricType,
    /// Whether it is listed without values.
    pub always: bool,
}

/// The type of a counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricType {
    /// It grows.
    Counter,
    /// The value of the last interval.
    Gauge,
    /// Values in bins, which grow.
    Histogram,
}

/// The name of a series. `{chart}`, `{subscription}` and `{label}` stand for names.
#[derive(Debug)]
pub struct SeriesName {
    /// The identifier: a template of parts joined by `/`.
    pub id: &'static str,
    /// The unit: a template.
    pub unit: &'static str,
    /// The meaning: a template.
    pub help: &'static str,
    /// Factor of the values in the series.
    pub scale: f64,
}

const fn metric(
    of: MetricType,
    (name, unit, label): (&'static str, &'static str, &'static str),
    help: &'static str,
) -> Option<Metric> {
    Some(Metric { name, help, unit, label, of, always: true })
}

/// A counter that is listed only with values.
const fn further(
    of: MetricType,
    (name, unit, label): (&'static str, &'static str, &'static str),
    help: &'static str,
) -> Option<Metric> {
    Some(Metric { name, help, unit, label, of, always: false })
}

const fn series(id: &'static str, unit: &'static str, help: &'static str) -> Option<SeriesName> {
    Some(SeriesName { id, unit, help, scale: 1.0 })
}

const fn bits(id: &'static str, help: &'static str) -> Option<SeriesName> {
    Some(SeriesName { id, unit: "bits/s", help, scale: 8.0 })
}

use MetricType::{Counter, Gauge, Histogram as Values};

static MATCHED_PACKETS: Family = Family {
    metric: metric(Counter, ("matched", "packets", ""), "Matching packets of a subscription"),
    series: series("chart/{chart}/{subscription}/packets", "packets/s", "{subscription} of {chart}"),
};
static MATCHED_BYTES: Family = Family {
    metric: metric(Counter, ("matched", "bytes", ""), "Matching bytes of a subscription"),
    series: bits("chart/{chart}/{subscription}/bits", "{subscription} of {chart}"),
};
static CLASS_PACKETS: Family = Family {
    metric: metric(Counter, ("class", "packets", "class"), "Classified packets of a subscription"),
    series: series("class/{subscription}/{label}/packets", "packets/s", "{label} of {subscription}"),
};
static CLASS_BYTES: Family = Family {
    metric: metric(Counter, ("class", "bytes", "class"), "Classified bytes of a subscription"),
    series: bits("class/{subscription}/{label}/bits", "{label} of {subscription}"),
};
static VALUES: Family = Family {
    metric: metric(Values, ("values", "", "of"), "Values measured by a subscription"),
    series: None,
};
static MEAN: Family =
    Family { metric: None, series: series("mean/{subscription}", "", "Mean {label} in an interval") };
static LIST_INSERTS: Family = Family {
    metric: metric(Counter, ("list_inserts", "", ""), "Keys that had no row in the list when they arrived"),
    series: series(
        "list/{subscription}/inserts",
        "keys/s",
        "Keys that had no row in {subscription} when they arrived; rises first in a flood",
    ),
};
static LIST_SHED: Family = Family {
    metric: metric(Counter, ("list_shed_packets", "", ""), "Packets of keys that had no room in the list"),
    series: None,
};
static LIST_ROWS: Family = Family {
    metric: metric(Gauge, ("list_rows", "", ""), "Rows of a list in the last interval"),
    series: None,
};
static LIST_ABSENT: Family = Family {
    metric: metric(
        Gauge,
        ("list_absent", "", ""),
        "Upper bound for a key without a row in the last interval, in the list's unit",
    ),
    series: None,
};
static DISTINCT: Family = Family {
    metric: metric(Gauge, ("distinct", "", "of"), "Distinct values in the last interval, estimated"),
    series: series("distinct/{subscription}", "{label}", "Distinct {label} in an interval"),
};
static SCANS: Family = Family {
    metric: metric(Gauge, ("scans", "", ""), "Scans detected in the last interval"),
    series: series("scans/{subscription}", "scans", "Scans detected in an interval"),
};

static TABLE_ROWS: Family = Family {
    metric: further(Gauge, ("table_rows", "", ""), "Rows of a table in the last interval"),
    series: series("value/{subscription}/rows", "rows", "Rows of {subscription} in an interval"),
};
static TABLE_SUM: Family = Family {
    metric: further(Counter, ("table_sum", "", "column"), "Sum of a column over all rows of a table"),
    series: series("sum/{subscription}/{label}", "1/s", "Sum of {label} of {subscription}"),
};
static TABLE_VALUE: Family = Family {
    metric: further(
        Gauge,
        ("table_value", "", "column"),
        "Value of a column over all rows of a table, in the last interval",
    ),
    series: series("value/{subscription}/{label}", "", "{label} of {subscription}, in an interval"),
};

/// Every family, in the order of the counters.
pub static FAMILIES: &[&Family] = &[
    &MATCHED_PACKETS,
    &MATCHED_BYTES,
    &CLASS_PACKETS,
    &CLASS_BYTES,
    &VALUES,
    &MEAN,
    &LIST_INSERTS,
    &LIST_SHED,
    &LIST_ROWS,
    &LIST_ABSENT,
    &DISTINCT,
    &SCANS,
    &TABLE_ROWS,
    &TABLE_SUM,
    &TABLE_VALUE,
];

impl Reading {
    /// Passes each figure to `show`. Readings of one function have the same figures in the same order.
    pub fn figures<'r>(&'r self, show: &mut dyn FnMut(Figure<'r>)) {
        let mut sum = |family, label, value| show(Figure::of(family, label, FigureValue::Sum(value)));
        match self {
            Reading::Count(Count { packets, bytes }) => {
                sum(&MATCHED_BYTES, "", *bytes);
                sum(&MATCHED_PACKETS, "", *packets);
            }
            Reading::Classes { classes, .. } => {
                for class in classes {
                    sum(&CLASS_BYTES, &class.label, class.count.bytes);
                    sum(&CLASS_PACKETS, &class.label, class.count.packets);
                }
            }
            Reading::Top(top) => {
                sum(&LIST_INSERTS, "", top.inserts);
                sum(&LIST_SHED, "", top.shed.packets);
                show(Figure::gauge(&LIST_ROWS, "", top.rows.len() as f64));
                show(Figure::gauge(&LIST_ABSENT, "", top.absent as f64));
            }
            Reading::Distinct(count) => {
                show(Figure::gauge(&DISTINCT, count.of.name(), count.estimate() as f64));
            }
            Reading::Table(table) => of_table(table, show),
            Reading::Histogram(histogram) => {
                let label = histogram.of.as_str();
                show(Figure::of(&VALUES, label, FigureValue::Histogram(histogram)));
                let mean = (histogram.n > 0).then(|| histogram.mean());
                show(Figure::of(&MEAN, label, FigureValue::Gauge(mean)));
            }
            // Rates follow from the counters, and sums for a judge are in no output.
            Reading::Series(_) | Reading::Flooded(_) => {}
        }
    }
}

/// The columns of a table, each over all its rows: keys come from packets.
fn of_table<'r>(table: &'r Table, show: &mut dyn FnMut(Figure<'r>)) {
    if table.schema.shown == Shown::Scans {
        show(Figure::gauge(&SCANS, "", table.shown().len() as f64));
        return;
    }
    show(Figure::gauge(&TABLE_ROWS, "", table.rows.len() as f64));
    for (column, value) in table.schema.columns.iter().zip(table.whole()) {
        let gauge = |value| Figure::of(&TABLE_VALUE, &column.name, FigureValue::Gauge(value));
        match value {
            Folded::Sum(sum) => show(Figure::of(&TABLE_SUM, &column.name, FigureValue::Sum(sum))),
            Folded::Min(value) | Folded::Max(value) => show(gauge(value.map(|value| value as f64))),
            Folded::Distinct(values) => show(gauge(Some(values.estimate() as f64))),
            Folded::Sketch(sketch) => {
                for (statistic, place) in QUANTILES {
                    show(Figure { statistic, ..gauge(sketch.quantile(place)) });
                }
            }
            // It can be text, and a sample has values of packets.
            Folded::Last(_) | Folded::Sample(_) => {}
        }
    }
}

impl<'r> Figure<'r> {
    fn of(family: &'static Family, label: &'r str, value: FigureValue<'r>) -> Self {
        Self { family, label, statistic: "", value }
    }

    fn gauge(family: &'static Family, label: &'r str, value: f64) -> Self {
        Self::of(family, label, FigureValue::Gauge(Some(value)))
    }
}
