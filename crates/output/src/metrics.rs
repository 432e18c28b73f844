//! Counters for Prometheus: the counts since the start of a run, as OpenMetrics text.
//!
//! Label values come from the configuration and from fixed names, never from packets, so that their number is bounded.
//! As an output it is `weir.prom`, a file that is replaced as a whole at each interval and read by the textfile
//! collector of the Prometheus node exporter.

use crate::replaced::Replaced;
use crate::summary::states;
use crate::{Output, OutputContext, OutputSpec, Takes};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType as Type;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::sync::Arc;
use weir_api::{
    Answer, AnswerId, AnswerLabel, CONN_STATES, Counter, ERROR_KINDS, FAMILIES, Family, Figure, FigureValue,
    Histogram, LAYERS, MetricType, Snapshot, counters,
};

/// The name of the output.
pub const NAME: &str = "prometheus";
const FILE: &str = "weir.prom";

pub(crate) static METRICS: OutputSpec = OutputSpec {
    name: NAME,
    help: "All counters and the cost profile as OpenMetrics text.",
    files: &[FILE],
    is_stream: false,
    flows: false,
    events: "",
    has: |_| false,
    shows: |_| false,
    takes: Takes::Every,
    open: |context| Ok(Box::new(MetricsFile::new(context))),
};

struct MetricsFile {
    file: Replaced,
    metrics: Metrics,
}

impl MetricsFile {
    fn new(context: &OutputContext) -> Self {
        Self { file: Replaced::new(context, FILE), metrics: Metrics::default() }
    }
}

impl Output for MetricsFile {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.metrics.add(snapshot);
        self.file.interval(|| self.metrics.text())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish(|| self.metrics.text())
    }
}

/// The counts so far.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Sums>);

#[derive(Clone, Debug, Default)]
struct Sums {
    /// Sum of all intervals, without their answers.
    counted: Snapshot,
    lines: Vec<Line>,
    /// Ended flows by state.
    states: BTreeMap<String, u64>,
    /// Findings by kind of event.
    found: BTreeMap<&'static str, u64>,
    /// The end of the last interval, in nanoseconds since the epoch.
    end: u64,
}

/// The results of one function of one subscription so far.
#[derive(Clone, Debug)]
struct Line {
    id: AnswerId,
    label: Arc<AnswerLabel>,
    nanoseconds: u64,
    samples: Vec<Sample>,
}

/// A counter of a line.
#[derive(Clone, Debug)]
struct Sample {
    family: &'static Family,
    label: String,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Sum(u64),
    Gauge(f64),
    Histogram(Histogram),
}

impl Sample {
    fn of(figure: &Figure<'_>) -> Option<Self> {
        figure.family.metric.as_ref()?;
        let value = match figure.value {
            FigureValue::Sum(sum) => Value::Sum(sum),
            FigureValue::Gauge(value) => Value::Gauge(value?),
            FigureValue::Histogram(histogram) => Value::Histogram(histogram.clone()),
        };
        Some(Self { family: figure.family, label: [figure.label, figure.statistic].concat(), value })
    }

    fn is(&self, other: &Sample) -> bool {
        std::ptr::eq(self.family, other.family) && self.label == other.label
    }

    /// Continues the previous value: sums grow, other values are replaced.
    fn after(&mut self, before: &Sample) {
        match (&mut self.value, &before.value) {
            (Value::Sum(now), Value::Sum(before)) => *now += before,
            (Value::Histogram(now), Value::Histogram(before)) if now.edges == before.edges => {
                now.merge(before);
            }
            _ => {}
        }
    }
}

impl Metrics {
    /// Adds an interval. After a change of plan, lines that no longer exist are left out.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let sums = Arc::make_mut(&mut self.0);
        sums.counted.merge_counters(snapshot);
        sums.end = sums.end.max(snapshot.interval.end);
        for (state, flows) in states(snapshot) {
            *sums.states.entry(state).or_default() += flows;
        }
        for event in &snapshot.events {
            let found = sums.found.entry(event.kind.name).or_default();
            *found = found.saturating_add(event.count);
        }
        let before = std::mem::take(&mut sums.lines);
        let same = before.len() == snapshot.answers.len()
            && before.iter().zip(&snapshot.answers).all(|(line, answer)| line.id == answer.id);
        let places: HashMap<AnswerId, usize> = match same {
            // Usually the plan is unchanged, and a line is at its previous position.
            true => HashMap::new(),
            false => before.iter().enumerate().map(|(at, line)| (line.id, at)).collect(),
        };
        let line = |(at, answer): (usize, &Answer)| {
            let at = if same { Some(at) } else { places.get(&answer.id).copied() };
            Line::of(answer, at.and_then(|at| before.get(at)))
        };
        sums.lines = snapshot.answers.iter().enumerate().map(line).collect();
    }

    /// All counters as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("weir");
        registry.register_collector(Box::new(Arc::clone(&self.0)));
        let mut text = String::new();
        // Writing into memory does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Line {
    /// The line of an answer, whose line `before` had the sums of earlier intervals.
    fn of(answer: &Answer, before: Option<&Line>) -> Self {
        let mut line = Self {
            id: answer.id,
            label: Arc::clone(&answer.label),
            nanoseconds: answer.nanoseconds,
            samples: Vec::new(),
        };
        answer.reading.figures(&mut |figure| line.samples.extend(Sample::of(&figure)));
        if let Some(before) = before {
            line.nanoseconds += before.nanoseconds;
            // A function's samples have one order, unless its arguments have changed.
            let pairs = line.samples.iter_mut().zip(&before.samples);
            pairs.filter(|(now, before)| now.is(before)).for_each(|(now, before)| now.after(before));
        }
        line
    }

    fn labels(&self) -> [(&'static str, &str); 3] {
        let AnswerLabel { subscription, chart, function, .. } = &*self.label;
        let chart = chart.as_deref().unwrap_or_default();
        [("chart", chart), ("subscription", subscription), ("function", function)]
    }
}

fn total(metric: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

fn seconds(metric: &mut MetricEncoder<'_>, nanoseconds: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, f64, u64>(&(nanoseconds as f64 / 1e9), None)
}

/// The unit to append to a counter's name, if the name lacks it.
fn unit(counter: &Counter) -> Option<Unit> {
    let unit = if counter.unit == "bytes" { "bytes" } else { counter.unit };
    let contains = |word: &str| counter.name.split('_').any(|part| part == word);
    (!contains(unit) && !contains(counter.unit)).then(|| Unit::Other(unit.to_owned()))
}

impl Collector for Sums {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_counters(&mut to)?;
        self.encode_costs(&mut to)?;
        self.encode_figures(&mut to)?;
        if !self.found.is_empty() {
            let help = "Findings by kind of event";
            let mut metric = to.encode_descriptor("event_findings", help, None, Type::Counter)?;
            for (kind, found) in &self.found {
                let labels = [("kind", *kind)];
                total(&mut metric.encode_family(&labels)?, *found)?;
            }
        }
        let end = to.encode_descriptor(
            "interval_end",
            "End of the last interval, since the epoch",
            Some(&Unit::Seconds),
            Type::Gauge,
        );
        end?.encode_gauge(&(self.end as f64 / 1e9))
    }
}

impl Sums {
    fn encode_counters(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for counter in counters() {
            // The registry appends a full stop to each help text.
            let help = counter.help.trim().trim_end_matches('.');
            let unit = unit(counter);
            let mut metric = to.encode_descriptor(counter.name, help, unit.as_ref(), Type::Counter)?;
            if counter.name != "decode_errors" {
                total(&mut metric, (counter.of)(&self.counted))?;
                continue;
            }
            for (layer, kinds) in LAYERS.iter().zip(&self.counted.ledger.errors.0) {
                for (kind, value) in ERROR_KINDS.iter().zip(kinds) {
                    total(&mut metric.encode_family(&[("layer", *layer), ("kind", *kind)])?, *value)?;
                }
            }
        }
        let help = "Ended flows by connection state, as Zeek names it";
        let mut metric = to.encode_descriptor("flows_by_state", help, None, Type::Counter)?;
        for state in CONN_STATES {
            let value = self.states.get(state).copied().unwrap_or_default();
            total(&mut metric.encode_family(&[("state", state)])?, value)?;
        }
        Ok(())
    }

    /// The cost profile: time in total and for each packet.
    fn encode_costs(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let help = "Worker time of a stage, estimated from a sample of packets";
        let mut metric = to.encode_descriptor("stage", help, unit, Type::Counter)?;
        for (stage, nanoseconds) in self.counted.costs.parts() {
            seconds(&mut metric.encode_family(&[("stage", stage)])?, nanoseconds)?;
        }
        let help = "Worker time of a subscription's function, estimated from a sample of packets";
        let mut metric = to.encode_descriptor("function", help, unit, Type::Counter)?;
        for line in &self.lines {
            seconds(&mut metric.encode_family(&line.labels())?, line.nanoseconds)?;
        }
        let help = "Worker time in nanoseconds per analysed packet, since the start";
        let mut metric = to.encode_descriptor("cost_ns_per_packet", help, None, Type::Gauge)?;
        let each = |nanoseconds: u64| nanoseconds as f64 / self.counted.ledger.analysed.max(1) as f64;
        for (stage, nanoseconds) in self.counted.costs.parts() {
            metric.encode_family(&[("stage", stage)])?.encode_gauge(&each(nanoseconds))?;
        }
        for line in &self.lines {
            metric.encode_family(&line.labels())?.encode_gauge(&each(line.nanoseconds))?;
        }
        Ok(())
    }

    fn encode_figures(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for family in FAMILIES {
            let Some(metric) = &family.metric else { continue };
            let of_family = |sample: &&Sample| std::ptr::eq(sample.family, *family);
            let found = |line: &Line| line.samples.iter().any(|sample| of_family(&sample));
            if !metric.always && !self.lines.iter().any(found) {
                continue;
            }
            let unit = (!metric.unit.is_empty()).then(|| Unit::Other(metric.unit.to_owned()));
            let kind = match metric.of {
                MetricType::Counter => Type::Counter,
                MetricType::Gauge => Type::Gauge,
                MetricType::Histogram => Type::Histogram,
            };
            let mut to = to.encode_descriptor(metric.name, metric.help, unit.as_ref(), kind)?;
            for line in &self.lines {
                for sample in line.samples.iter().filter(of_family) {
                    let mut labels = line.labels().to_vec();
                    if !metric.label.is_empty() {
                        labels.push((metric.label, &sample.label));
                    }
                    encode_sample(&mut to.encode_family(&labels)?, &sample.value)?;
                }
            }
        }
        Ok(())
    }
}

fn encode_sample(to: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Sum(sum) => total(to, *sum),
        Value::Gauge(value) => to.encode_gauge(value),
        Value::Histogram(histogram) => {
            to.encode_histogram::<NoLabelSet>(histogram.sum as f64, histogram.n, &buckets(histogram), None)
        }
    }
}

/// Bins with their inclusive upper edges, as in Prometheus; the encoder accumulates them.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let upper = histogram.edges.iter().skip(1).map(|edge| edge.saturating_sub(1) as f64);
    upper.chain([f64::INFINITY]).zip(histogram.counts.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use std::collections::BTreeSet;
    use weir_api::Reading;

    fn text(snapshots: &[Snapshot]) -> String {
        let mut metrics = Metrics::default();
        snapshots.iter().for_each(|snapshot| metrics.add(snapshot));
        metrics.text()
    }

    fn value(text: &str, name: &str) -> f64 {
        let line =
            text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn every_counter_is_present_and_grows() {
        let snapshot = fixtures::snapshot();
        let twice = text(&[snapshot.clone(), snapshot.clone()]);
        assert!(twice.ends_with("# EOF\n"));
        assert_eq!(value(&twice, "weir_caught_packets_total"), 2.0 * snapshot.ledger.caught as f64);
        assert_eq!(value(&twice, "weir_bytes_total"), 2.0 * snapshot.ledger.bytes as f64);
        for counter in counters() {
            assert!(twice.contains(&format!("weir_{}", counter.name)), "{}", counter.name);
        }
        let samples: Vec<&str> = twice.lines().filter(|line| !line.starts_with('#')).collect();
        let names: BTreeSet<&str> =
            samples.iter().map(|line| line.rsplit_once(' ').expect("a value").0).collect();
        assert_eq!(names.len(), samples.len(), "no counter is present twice");
    }

    #[test]
    fn names_of_the_configuration_are_escaped() {
        let mut snapshot = Snapshot::default();
        let reading = Reading::Count(fixtures::count(3, 180));
        snapshot
            .answers
            .push(Answer { nanoseconds: 1500, ..fixtures::answer("a\"}\n", Some("c\\"), "count", reading) });
        snapshot.ledger.analysed = 10;
        let text = text(&[snapshot]);
        let labels = r#"{chart="c\\",subscription="a\"}\n",function="count"}"#;
        assert_eq!(value(&text, &format!("weir_matched_packets_total{labels}")), 3.0);
        assert_eq!(value(&text, &format!("weir_function_seconds_total{labels}")), 1.5e-6);
        assert_eq!(value(&text, &format!("weir_cost_ns_per_packet{labels}")), 150.0);
    }

    #[test]
    fn bins_have_upper_edges() {
        let mut snapshot = Snapshot::default();
        let mut histogram = Histogram::new("size", vec![0, 64, 128]);
        [63, 64, 127, 128, 1500].into_iter().for_each(|value| histogram.add(value));
        snapshot.answers.push(fixtures::answer("s", None, "size", Reading::Histogram(histogram)));
        let text = text(&[snapshot.clone(), snapshot]);
        let labels = |le: &str| {
            format!(
                "weir_values_bucket{{le=\"{le}\",chart=\"\",subscription=\"s\",function=\"size\",of=\"size\"}}"
            )
        };
        assert_eq!(value(&text, &labels("63.0")), 2.0);
        assert_eq!(value(&text, &labels("127.0")), 6.0);
        assert_eq!(value(&text, &labels("+Inf")), 10.0);
    }

    /// Adding a line in the middle must not give one line's sums to another.
    #[test]
    fn a_changed_plan_keeps_the_sums_of_unchanged_lines() {
        let line = |name: &str, packets| {
            fixtures::answer(name, None, "count", Reading::Count(fixtures::count(packets, 0)))
        };
        let [mut one, mut two] = [(); 2].map(|()| Snapshot::default());
        one.answers = vec![line("a", 1), line("b", 10)];
        two.answers = vec![line("new", 100), line("b", 1000)];
        let text = text(&[one, two]);
        let name = |name: &str| {
            format!("weir_matched_packets_total{{chart=\"\",subscription=\"{name}\",function=\"count\"}}")
        };
        assert_eq!(value(&text, &name("b")), 1010.0);
        assert_eq!(value(&text, &name("new")), 100.0);
        assert!(!text.contains(&name("a")));
    }
}
