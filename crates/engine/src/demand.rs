//! What the subscriptions of a plan need of the pass, apart from packets and tallies.

use crate::streams::Measuring;
use crate::{Of, OwnApps, Rules, Target};
use std::fmt;
use std::sync::Arc;
use weir_api::Level;
use weir_proto::{
    ANOMALY, Asked, Buffer, Columns, FILES, Hashes, Inflation, STREAM, STREAM_SAMPLE, Table, Wants,
    is_requested,
};

/// Tables whose rows need the content of mails.
const MAILS: [&str; 5] = ["anomaly", "files", "mail", "smtp", "smtp_session"];

/// Length of running samples in nanoseconds, if a function needs them and no option sets it.
const SAMPLE: u64 = 1_000_000_000;

/// Tables of records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Tables {
    /// No table.
    #[default]
    None,
    /// These tables.
    Some(Vec<&'static Table>),
    /// All tables.
    All,
}

impl Tables {
    /// Whether a table is among them.
    pub fn has(&self, table: &Table) -> bool {
        match self {
            Tables::None => false,
            Tables::Some(tables) => tables.iter().any(|one| std::ptr::eq(*one, table) || *one == table),
            Tables::All => true,
        }
    }

    fn add(&mut self, other: &Tables) {
        match (&mut *self, other) {
            (Tables::All, _) | (_, Tables::None) => {}
            (Tables::Some(tables), Tables::Some(others)) => {
                let new = others.iter().filter(|other| !tables.contains(other)).copied();
                tables.extend(new.collect::<Vec<_>>());
            }
            (mine, other) => *mine = other.clone(),
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Tables::None)
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tables::None => f.write_str("none"),
            Tables::All => f.write_str("all"),
            Tables::Some(tables) => {
                let mut names: Vec<&str> = tables.iter().map(|table| table.name).collect();
                names.sort_unstable();
                f.write_str(&names.join(" "))
            }
        }
    }
}

/// Fields of tables.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReadColumns(Vec<(&'static Table, Columns)>);

impl ReadColumns {
    /// Sets the fields of a table that has none yet.
    pub(crate) fn push(&mut self, table: &'static Table, columns: Columns) {
        self.0.push((table, columns));
    }

    /// Adds the fields that others read; `mine` and `theirs` are the tables that these and the others see.
    fn join(&mut self, mine: &Tables, others: &ReadColumns, theirs: &Tables) {
        for (table, columns) in self.0.iter_mut().filter(|(table, _)| theirs.has(table)) {
            *columns = columns.with(others.of(table));
        }
        for (table, columns) in &others.0 {
            if self.0.iter().all(|(one, _)| one != table) {
                // Those that see the table without naming its fields read all of them.
                self.0.push((table, if mine.has(table) { Columns::ALL } else { *columns }));
            }
        }
    }

    fn of(&self, table: &Table) -> Columns {
        self.0.iter().find(|(one, _)| *one == table).map_or(Columns::ALL, |(_, columns)| *columns)
    }
}

/// What subscriptions need. A plan has the sum of the demands of its subscriptions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Demand {
    /// Rows of flows that end are delivered.
    pub rows: bool,
    /// Functions see bytes of the streams of the flows that their subscriptions cover.
    pub streams: bool,
    /// Protocols are identified; those that announce flows are parsed.
    pub identifies: bool,
    /// Tables whose records are delivered.
    pub logged: Tables,
    /// Tables whose records functions see.
    pub tested: Tables,
    /// Tables of [`weir_proto::REQUESTED`] whose records functions see.
    pub requested: Vec<&'static Table>,
    /// The fields that functions and tests read of records of these tables; of other tables that functions see, all.
    pub columns: ReadColumns,
    /// Tables of whose records functions see fields before the records.
    pub fields: Tables,
    /// Buffers that functions see.
    pub buffers: Vec<&'static Buffer>,
    /// Fields that are made of the bodies of messages.
    pub bodies: bool,
    /// Content of files is delivered.
    pub content: bool,
    /// Checksums of files.
    pub hashes: Hashes,
    /// Packets of flows in which no protocol was identified are delivered.
    pub unidentified: bool,
    /// Packets of flows are held, so that those before a decision are written.
    pub held: bool,
    /// Measurements of flows.
    pub measure: Option<Measuring>,
    /// Measurements are delivered as records; if not, only functions see them.
    pub measured: bool,
    /// Applications whose patterns are searched in the first bytes of flows.
    pub own_apps: Option<Arc<OwnApps>>,
    /// Rules that look at flows.
    pub rules: Option<Rules>,
}

impl Demand {
    /// The demand of functions over records of these tables. Measurements are made for functions that see them. `delays`: whether
    /// the functions see nothing else of measurements than [`crate::streams::DELAYS`].
    pub(crate) fn of_tested(tested: Tables, delays: bool) -> Self {
        let sample = if tested.has(&STREAM_SAMPLE) { SAMPLE } else { 0 };
        let is_measured = sample > 0 || tested.has(&STREAM);
        let measure =
            is_measured.then_some(Measuring { sample, details: false, delays: delays && sample == 0 });
        Self { tested, measure, ..Self::default() }
    }

    /// The demand of a function at a level that delivers to a target. Fields of flows that end name their protocols.
    pub(crate) fn of_target(target: &Target, level: Level) -> Self {
        match target {
            Target::Names | Target::Streams | Target::Rows(_) => Self::default(),
            Target::Log(_) | Target::OfRun(_) => {
                Self { identifies: level == Level::Flow, bodies: level == Level::Record, ..Self::default() }
            }
            Target::Files(_) => Self {
                content: true,
                hashes: Hashes { sha256: true, ..Hashes::default() },
                ..Self::default()
            },
            Target::Packets { of: None, .. } => Self::default(),
            Target::Packets { of: Some(Of::Unidentified), .. } => {
                Self { unidentified: true, ..Self::default() }
            }
            Target::Packets { of: Some(_), .. } => {
                Self { identifies: level == Level::Flow, held: true, ..Self::default() }
            }
        }
    }

    /// The demand of rules: all flows are parsed, with the buffers that they read.
    pub(crate) fn of_rules(rules: &Rules) -> Self {
        let buffers = rules.buffers();
        let bodies = buffers.iter().any(|buffer| buffer.is_stream);
        Self { rules: Some(rules.clone()), buffers, bodies, ..Self::default() }
    }

    /// Adds the demand of another subscription.
    pub fn add(&mut self, other: &Demand) {
        self.rows |= other.rows;
        self.streams |= other.streams;
        self.identifies |= other.identifies;
        self.logged.add(&other.logged);
        self.columns.join(&self.tested, &other.columns, &other.tested);
        self.tested.add(&other.tested);
        self.fields.add(&other.fields);
        let new = other.requested.iter().filter(|table| !self.requested.contains(table));
        self.requested.extend(new.copied().collect::<Vec<_>>());
        let new = other.buffers.iter().filter(|buffer| !self.buffers.contains(buffer));
        self.buffers.extend(new.copied().collect::<Vec<_>>());
        self.bodies |= other.bodies;
        self.content |= other.content;
        self.hashes.md5 |= other.hashes.md5;
        self.hashes.sha1 |= other.hashes.sha1;
        self.hashes.sha256 |= other.hashes.sha256;
        self.unidentified |= other.unidentified;
        self.held |= other.held;
        self.measured |= other.measured;
        // All plans of a run have one list.
        self.own_apps = self.own_apps.take().or_else(|| other.own_apps.clone());
        self.rules = self.rules.take().or_else(|| other.rules.clone());
        self.measure = match (self.measure, other.measure) {
            (Some(one), Some(other)) => Some(one.with(other)),
            (one, other) => one.or(other),
        };
    }

    /// Whether protocols are parsed, not only identified.
    pub fn parses(&self) -> bool {
        let tables = [&self.logged, &self.tested, &self.fields];
        tables.iter().any(|tables| !tables.is_none())
            || !self.buffers.is_empty()
            || !self.requested.is_empty()
            || self.content
            || self.unidentified
            || self.rules.is_some()
    }

    /// Whether a record that functions see may be of a flow that another flow announces.
    pub(crate) fn may_be_announced(&self) -> bool {
        weir_proto::announced_tables().any(|table| self.tested.has(table)) || self.content
    }

    /// What parsers are asked for before the records.
    pub(crate) fn early(&self) -> Asked {
        let tables = weir_proto::tables().filter(|table| self.fields.has(table));
        Asked::of(tables, self.buffers.iter().copied())
    }

    /// Whether flows are read beyond the first bytes, which identify a protocol.
    pub fn reads_on(&self) -> bool {
        self.parses() || self.streams || self.held || self.measure.is_some()
    }

    /// Whether payload is read at all.
    pub fn reads(&self) -> bool {
        self.reads_on() || self.identifies
    }

    /// Whether records of a table are used.
    pub(crate) fn has(&self, table: &Table) -> bool {
        match is_requested(table) {
            true => self.requested.contains(&table),
            false => self.logged.has(table) || self.tested.has(table),
        }
    }

    /// Whether rules ask for events: anomalies are shown to them.
    fn reads_events(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.program().reads_events())
    }

    /// Whether anomalies are asked for, by rules or as records.
    pub(crate) fn reads_anomalies(&self) -> bool {
        self.has(&ANOMALY) || self.reads_events()
    }

    /// The fields of records of a table that anything reads.
    pub(crate) fn reads_of(&self, table: &Table) -> Columns {
        if self.logged.has(table) {
            Columns::ALL
        } else if self.tested.has(table) {
            self.columns.of(table)
        } else {
            Columns::NONE
        }
    }

    /// What parsers are asked for; `max` is the maximum size of a file with checksums, in bytes.
    pub(crate) fn wants(&self, max: u64, inflation: Inflation) -> Wants {
        if !self.parses() {
            return Wants { identifies: self.identifies, max, inflation, ..Wants::default() };
        }
        let mut tables: Vec<&'static Table> =
            weir_proto::tables().filter(|table| self.has(table) || self.fields.has(table)).collect();
        let protocols = self.buffers.iter().filter_map(|buffer| buffer.protocol());
        tables.extend(protocols.flat_map(|protocol| protocol.tables));
        tables.extend(self.reads_events().then_some(&ANOMALY));
        // Mails and bodies are files, and files are in both.
        let is_shared = self.buffers.iter().any(|buffer| buffer.protocol().is_none());
        let is_of = |names: &[&str]| tables.iter().any(|table| names.contains(&table.name));
        let mut wants = Wants {
            hashes: self.all_hashes(),
            content: self.content,
            passes_mails: !self.content && !is_of(&MAILS) && !is_shared,
            passes_bodies: !self.content && !is_of(&[ANOMALY.name, FILES.name]) && !self.bodies && !is_shared,
            max,
            inflation,
            unread: 0,
            identifies: false,
        };
        // Every protocol must be parsed to find the flows without one.
        if !self.unidentified {
            tables.extend(self.content.then_some(&FILES));
            wants.leave_unread(&tables);
        }
        wants
    }

    /// The checksums of files, with those that are buffers.
    fn all_hashes(&self) -> Hashes {
        let reads = |name: &str| self.buffers.iter().any(|buffer| buffer.name == name);
        Hashes {
            md5: self.hashes.md5 || reads("file.md5"),
            sha1: self.hashes.sha1 || reads("file.sha1"),
            sha256: self.hashes.sha256 || reads("file.sha256"),
        }
    }

    /// The demand in words, a line for each part.
    pub fn lines(&self) -> Vec<String> {
        let flag = |is_set: bool, text: &str| is_set.then(|| text.to_owned());
        let Hashes { md5, sha1, sha256 } = self.all_hashes();
        let hashes = [("md5", md5), ("sha1", sha1), ("sha256", sha256)];
        let hashes: Vec<&str> =
            hashes.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        [
            flag(self.rows, "rows of flows that end"),
            flag(self.streams, "bytes of streams of the flows that functions cover"),
            flag(self.identifies && !self.parses(), "protocols are identified"),
            flag(self.own_apps.is_some(), "first bytes are searched for applications"),
            flag(self.parses(), "protocols are parsed"),
            self.rules
                .as_ref()
                .map(|rules| format!("rules that look at flows: {}", rules.program().rules.len())),
            (!self.logged.is_none()).then(|| format!("records for logs: {}", self.logged)),
            (!self.tested.is_none()).then(|| format!("records for functions: {}", self.tested)),
            (!self.requested.is_empty()).then(|| {
                let mut names: Vec<&str> = self.requested.iter().map(|table| table.name).collect();
                names.sort_unstable();
                format!("records that only functions see: {}", names.join(" "))
            }),
            (!self.fields.is_none()).then(|| format!("fields before their records: {}", self.fields)),
            (!self.buffers.is_empty()).then(|| {
                let mut names: Vec<&str> = self.buffers.iter().map(|buffer| buffer.name).collect();
                names.sort_unstable();
                format!("buffers: {}", names.join(" "))
            }),
            flag(self.bodies, "fields made from bodies"),
            flag(self.content, "content of files"),
            (!hashes.is_empty()).then(|| format!("checksums of files: {}", hashes.join(" "))),
            flag(self.unidentified, "packets of unidentified flows"),
            flag(self.held, "packets of flows until it is decided whether they are written"),
            self.measure.map(|measure| match measure.sample {
                0 if measure.delays => "measurements of handshakes and first bytes".to_owned(),
                0 => "measurements of flows".to_owned(),
                sample => format!("measurements of flows, and samples of {} s", sample / 1_000_000_000),
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, Settings};
    use weir_api::{FunctionCall, SubscriptionSpec};
    use weir_proto::tables;

    #[test]
    fn demands_add_up_in_any_order() {
        let some = |table: &'static Table| Tables::Some(vec![table]);
        let demands = [
            Demand { logged: some(&FILES), rows: true, ..Demand::default() },
            Demand { logged: some(&STREAM), tested: Tables::All, ..Demand::default() },
            Demand {
                measure: Some(Measuring { sample: 5, details: false, delays: true }),
                ..Demand::default()
            },
            Demand {
                measure: Some(Measuring { sample: 3, details: true, delays: false }),
                ..Demand::default()
            },
        ];
        let sum = |order: &mut dyn Iterator<Item = &Demand>| {
            let mut sum = Demand::default();
            order.for_each(|demand| sum.add(demand));
            sum
        };
        let (one, other) = (sum(&mut demands.iter()), sum(&mut demands.iter().rev()));
        assert!(one.logged.has(&FILES) && one.logged.has(&STREAM) && !one.logged.has(&ANOMALY));
        assert_eq!(one.lines(), other.lines());
        assert_eq!(one.measure, Some(Measuring { sample: 3, details: true, delays: false }));
    }

    #[test]
    fn a_field_is_read_if_any_of_the_demands_reads_it() {
        let of = |names: &[&str]| {
            let mut columns = ReadColumns::default();
            columns.push(&FILES, Columns::of(&FILES, names.iter().copied()));
            Demand { tested: Tables::Some(vec![&FILES]), columns, ..Demand::default() }
        };
        let (name, size) = (of(&["filename"]), of(&["size"]));
        let other = Demand { tested: Tables::Some(vec![&STREAM]), ..Demand::default() };
        let whole = Demand { tested: Tables::Some(vec![&FILES]), ..Demand::default() };
        let all = Demand { tested: Tables::All, ..Demand::default() };
        let logged = Demand { logged: Tables::Some(vec![&FILES]), ..Demand::default() };
        let both = Columns::of(&FILES, ["filename", "size"]);
        for (demands, expected) in [
            (vec![&name, &size], both),
            (vec![&other, &name, &size], both),
            (vec![&other], Columns::NONE),
            (vec![&name, &whole, &size], Columns::ALL),
            (vec![&all, &name], Columns::ALL),
            (vec![&name, &logged], Columns::ALL),
        ] {
            let sum = |order: &mut dyn Iterator<Item = &&Demand>| {
                let mut sum = Demand::default();
                order.for_each(|demand| sum.add(demand));
                sum.reads_of(&FILES)
            };
            assert_eq!(sum(&mut demands.iter()), expected, "{demands:?}");
            assert_eq!(sum(&mut demands.iter().rev()), expected, "{demands:?}, reversed");
        }
    }

    #[test]
    fn nothing_is_read_without_a_demand_and_names_of_tables_exist() {
        assert!(!Demand::default().reads() && Demand::default().lines().is_empty());
        assert!(!Demand { rows: true, ..Demand::default() }.reads());
        assert!(MAILS.iter().all(|name| tables().any(|table| table.name == *name)));
    }

    /// What a plan with these subscriptions over records measures: whether only delays. `None`: nothing.
    fn measures_only_delays(of: &[(&str, &str)]) -> Option<bool> {
        let settings = Settings {
            filter: weir_filter::Options { fields: Some(&crate::fields::tests::All), ..Default::default() },
            checksum: crate::ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let specs = of.iter().map(|(expression, call)| {
            let mut words = call.split(' ');
            let mut function = FunctionCall::new(words.next().unwrap_or_default());
            while let (Some(name), Some(value)) = (words.next(), words.next()) {
                function = function.with(name, value);
            }
            SubscriptionSpec {
                level: Level::Record,
                ..SubscriptionSpec::new("one", expression, vec![function])
            }
        });
        let plan = Plan::new("", specs.collect(), settings).unwrap();
        plan.demand.measure.map(|measure| measure.delays)
    }

    #[test]
    fn flows_are_measured_to_their_end_if_anything_but_delays_is_seen() {
        let latency = ("", "quantiles of stream.first_byte by destination,port");
        let of_net = ("net 10.0.0.0/8", "quantiles of stream.handshake by destination");
        for only in [&[latency][..], &[of_net], &[latency, of_net], &[latency, ("", "top by dns.query")]] {
            assert_eq!(measures_only_delays(only), Some(true), "{only:?}");
        }
        for more in [
            ("stream.rtt_forward > 0.1", "quantiles of stream.first_byte by destination"),
            ("", "quantiles of stream.first_byte by stream.bytes_forward"),
            ("", "top by stream.requests"),
            ("", "records"),
            ("stream", "records"),
        ] {
            assert_eq!(measures_only_delays(&[more]), Some(false), "{more:?}");
            assert_eq!(measures_only_delays(&[latency, more]), Some(false), "{more:?}");
        }
        assert_eq!(measures_only_delays(&[("", "top by dns.query")]), None);
    }
}
