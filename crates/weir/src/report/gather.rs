//! What a report about hosts has: the lists of a store over a period, by host.
//!
//! The numbers of a host are those of the list over the whole period, so that the numbers of a day are the sum of its hours. The
//! instances, and what is least and greatest, are those of the stored cells of the period: intervals, or hours or days where intervals
//! are no longer stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use weir_api::web::{Event, KeptTableInfo};
use weir_api::{
    Datum, Folded, Key, Reading, SynCounts, SynHost, Table, TableRow, Trials, UdpHost, WORM_DIFFERENCE,
    WorkWeight,
};
use weir_output::Home;
use weir_output::zone::Zone;
use weir_output::{PortSignature, Worms};
use weir_store::period::Period;
use weir_store::{KnownSignature, Store, StoreError, TimeRange};

/// Worms in more instances than this are listed first.
pub const OFTEN: u64 = 40;
/// Packets that a host receives in a cell, with at most one answer for twenty, are a flood: the rule of the class of `udp`.
pub const FLOOD: u64 = 1000;
/// Maximum number of events.
const EVENTS: usize = 10_000;

/// A report that is asked for.
pub struct Wanted {
    /// The kind of period.
    pub period: Period,
    /// Its begin and end, in nanoseconds since the epoch.
    pub span: (u64, u64),
    /// The zone of shown times.
    pub zone: Zone,
    /// Hosts with a greater work weight in percent are among the worms.
    pub weight: u64,
    /// The networks at home; none where addresses are not the true ones.
    pub home: Home,
    /// The port signatures that runs with the store have found.
    pub signatures: Vec<KnownSignature>,
}

/// A report about hosts.
pub struct HostsReport {
    /// What was asked for.
    pub wanted: Wanted,
    /// Begin and end of what is stored, in nanoseconds since the epoch.
    pub stored: (u64, u64),
    /// Watched seconds of the period.
    pub watched: f64,
    /// The lists by host.
    pub lists: Vec<List>,
    /// The functions without a list.
    pub missing: Vec<Of>,
    /// Events of hosts, the latest first, each with its hosts.
    pub events: Vec<(Event, Vec<IpAddr>)>,
    /// Names of hosts, as clients resolved them.
    pub names: HashMap<IpAddr, String>,
    /// What the report leaves out.
    pub notes: Vec<String>,
}

/// The function of a list.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Of {
    /// `syn`.
    Syn,
    /// `fanout`.
    Fanout,
    /// `flood`.
    Flood,
    /// `icmperror`, by a host.
    Icmperror,
    /// `udp`.
    Udp,
    /// `irc`, by a host.
    Irc,
}

impl Of {
    /// All functions.
    pub const ALL: [Of; 6] = [Of::Syn, Of::Fanout, Of::Flood, Of::Icmperror, Of::Udp, Of::Irc];

    /// The function, by its columns as they are shown; `None` for other tables.
    fn of_columns(list: &KeptTableInfo) -> Option<Self> {
        let columns: [&[&str]; 6] = [
            &["host", "work", "synack", "fin_sent"],
            &["source", "kind", "flows", "silent"],
            &["destination", "kind", "sources", "answered"],
            &["host", "errors", "port_unreachable", "foreign"],
            &["host", "weight", "names_asked", "pings"],
            &["host", "channel", "joins", "pongs"],
        ];
        let has = |names: &&[&str]| names.iter().all(|name| list.columns.iter().any(|column| column == name));
        columns.iter().position(has).and_then(|at| Self::ALL.get(at)).copied()
    }

    /// The name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Of::Syn => "syn",
            Of::Fanout => "fanout",
            Of::Flood => "flood",
            Of::Icmperror => "icmperror",
            Of::Udp => "udp",
            Of::Irc => "irc",
        }
    }

    /// The lines of weir.toml that add a list of it.
    pub fn subscription(self) -> String {
        let (level, by) = match self {
            Of::Fanout => ("level = \"flow\"\n", ""),
            Of::Irc => ("level = \"record\"\n", " by host"),
            Of::Syn | Of::Flood | Of::Icmperror | Of::Udp => ("", ""),
        };
        format!("[[subscription]]\nname = \"{0}\"\n{level}chain = [\"{0}{by}\"]\n", self.name())
    }
}

/// A list of a store over the period.
pub struct List {
    /// Its name.
    pub name: String,
    /// Its function.
    pub of: Of,
    /// The meaning of its hosts, where the function has several.
    pub host: String,
    /// What the cells are whose number is that of instances: `interval`, `hour`, `day`, `week` or `month`.
    pub unit: &'static str,
    /// Number of cells with rows.
    pub cells: u64,
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// Upper bound for the first column of a host without a row.
    pub absent: u64,
}

/// A host of a list.
pub struct Host {
    /// Its address.
    pub host: IpAddr,
    /// Cells with the host.
    pub seen: Seen,
    /// What the list has of it.
    pub what: What,
}

/// The cells with a host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Their number.
    pub instances: u64,
    /// Begin of the first and end of the last, in nanoseconds since the epoch.
    pub span: Option<(u64, u64)>,
}

/// Least, mean and greatest value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spread {
    /// The smallest one.
    pub least: u64,
    /// Their sum.
    sum: u128,
    /// The largest one.
    pub greatest: u64,
    number: u64,
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.least = if self.number == 0 { value } else { self.least.min(value) };
        self.greatest = self.greatest.max(value);
        self.sum += u128::from(value);
        self.number += 1;
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(self.number.into()).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }
}

/// What a list has of a host.
pub enum What {
    /// Work over TCP.
    Work(Box<Work>),
    /// Packets over UDP.
    Udp(Box<Udp>),
    /// Rows of other columns, heaviest first.
    Rows(Vec<Row>),
}

/// A host of `syn`.
pub struct Work {
    /// The row of the period. Targets, ports and samples are missing in rows of older versions.
    pub row: SynHost,
    /// Upper bound of work that was not counted.
    pub error: u64,
    /// Work weights of the cells, in percent.
    pub weights: Spread,
    /// Number of cells with each flag, in the order of flags.
    pub flags: Vec<(char, u64)>,
    /// Its port signatures in the cells.
    pub signatures: BTreeSet<PortSignature>,
}

impl Work {
    /// The work weight of the period, in percent.
    pub fn weight(&self) -> u64 {
        self.row.counts.weight(WorkWeight::Sent)
    }

    /// Whether the host is among the worms: its weight, and Ourmon's difference of SYNs sent and FINs received.
    pub fn is_worm(&self, least: u64) -> bool {
        self.weight() > least && self.row.counts.may_be_worm(WORM_DIFFERENCE)
    }
}

/// A host of `udp`.
pub struct Udp {
    /// The row of the period.
    pub row: UdpHost,
    /// Upper bound of sent packets that were not counted.
    pub error: u64,
    /// Weights of the cells.
    pub weights: Spread,
    /// Number of cells with each class.
    pub classes: BTreeMap<&'static str, u64>,
}

/// A row of a list of other columns.
pub struct Row {
    /// The parts of its key beside the host, by name.
    pub key: Vec<(String, Datum)>,
    /// Its columns, by name: the value, and whether it is exact.
    pub values: Vec<(String, u64, bool)>,
    /// Upper bound of what was not counted of the first column.
    pub error: u64,
    /// Number of cells in which it is a flood.
    pub flooded: u64,
    /// Of a channel of IRC, what its hosts are.
    pub members: Members,
}

/// The hosts of a channel in a list of `irc`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Members {
    /// Their number.
    pub hosts: u64,
    /// Those of them that are worms in a list of `syn`, or scan in one of `fanout`.
    pub wormy: u64,
}

impl Members {
    /// Whether the channel may be one that infected hosts get orders from: Ourmon's flag E.
    pub fn is_evil(self) -> bool {
        self.wormy > 0
    }
}

impl Row {
    fn of(table: &Table, row: &TableRow) -> Self {
        let names = table.schema.keys.iter().skip(1).map(|part| part.name.to_string());
        let is_exact = |value: &Folded| !matches!(value, Folded::Distinct(values) if !values.is_exact());
        let columns = table.schema.columns.iter().zip(&row.values);
        Row {
            key: names.zip(row.key.iter().skip(1).cloned()).collect(),
            values: columns
                .map(|(column, value)| (column.name.to_string(), value.weight(), is_exact(value)))
                .collect(),
            error: row.error,
            flooded: 0,
            members: Members::default(),
        }
    }

    /// The channel of IRC that it is of.
    fn channel(&self) -> Option<&str> {
        self.key.iter().find_map(|(name, part)| match part {
            Datum::Text(text) if name == "channel" => Some(&**text),
            _ => None,
        })
    }

    /// The value of a column; 0 if the list does not have it.
    pub fn value(&self, name: &str) -> u64 {
        self.values.iter().find(|(known, ..)| known == name).map_or(0, |(_, value, _)| *value)
    }

    /// Whether attempts are a scan: many targets or ports, most of them without success, as in the list of scans.
    pub fn is_scan(&self) -> bool {
        let wide = self.value("targets").max(self.value("ports")) >= Trials::MIN;
        let answered = u128::from(self.value("answered")) * 100;
        wide && answered <= u128::from(self.value("flows")) * u128::from(100 - Trials::MIN_FAILED)
    }

    /// Whether what the host received in a cell is a flood.
    fn is_flood(&self) -> bool {
        let packets = self.value("packets");
        packets >= FLOOD && packets / 20 >= self.value("answered")
    }
}

/// The host of a row: the first part of its key.
fn host_of(row: &TableRow) -> Option<IpAddr> {
    match row.key.first() {
        Some(Datum::Address(host)) => Some(*host),
        _ => None,
    }
}

/// Reads a report from a store. `stored` is begin and end of what it has.
///
/// # Errors
///
/// The store cannot be read.
pub fn gather(store: &dyn Store, wanted: Wanted, stored: (u64, u64)) -> Result<HostsReport, StoreError> {
    let mut notes = Vec::new();
    let (mut lists, mut known) = (Vec::new(), BTreeSet::new());
    for info in store.lists()?.tables {
        let Some(of) = Of::of_columns(&info) else { continue };
        known.insert(of);
        lists.push(list(store, info.name, of, wanted.span, &mut notes)?);
    }
    lists.sort_by(|a, b| (a.of, &a.name).cmp(&(b.of, &b.name)));
    join_channels(&mut lists, wanted.weight);
    let span = TimeRange { from: Some(wanted.span.0), to: Some(wanted.span.1) };
    let found = store.events(span, EVENTS)?;
    notes.extend(found.partial);
    let hosts = |event: Event| {
        let subject = event.subject.as_deref().unwrap_or_default();
        let words = subject.split([' ', ',']).filter_map(|word| word.parse().ok());
        let hosts: BTreeSet<IpAddr> =
            words.chain(event.host.as_deref().and_then(|host| host.parse().ok())).collect();
        (!hosts.is_empty()).then(|| (event, hosts.into_iter().collect()))
    };
    let events: Vec<(Event, Vec<IpAddr>)> = found.events.into_iter().filter_map(hosts).collect();
    let all: BTreeSet<IpAddr> = lists
        .iter()
        .flat_map(|list| list.hosts.iter().map(|host| host.host))
        .chain(events.iter().flat_map(|(_, hosts)| hosts.iter().copied()))
        .collect();
    let keys: Vec<Key> = all.into_iter().map(Key::Address).collect();
    let names = store.names(&keys)?.into_iter();
    Ok(HostsReport {
        stored,
        watched: store.watched_within(&[wanted.span])?.first().copied().unwrap_or(0.0),
        missing: Of::ALL.into_iter().filter(|of| !known.contains(of)).collect(),
        lists,
        events,
        names: names
            .filter_map(|(key, name)| if let Key::Address(host) = key { Some((host, name)) } else { None })
            .collect(),
        notes,
        wanted,
    })
}

/// Notes in each row of a channel of IRC how many of the channel's hosts there are, and how many of them are worms or scan. Hosts with a
/// greater work weight than `least` percent may be worms.
fn join_channels(lists: &mut [List], least: u64) {
    let is_wormy = |host: &Host| match &host.what {
        What::Work(work) => work.is_worm(least),
        What::Rows(rows) => rows.iter().any(Row::is_scan),
        What::Udp(_) => false,
    };
    let judged = lists.iter().filter(|list| matches!(list.of, Of::Syn | Of::Fanout));
    let hosts = judged.flat_map(|list| list.hosts.iter().filter(|host| is_wormy(host)));
    let wormy: BTreeSet<IpAddr> = hosts.map(|host| host.host).collect();
    for list in lists.iter_mut().filter(|list| list.of == Of::Irc) {
        let mut channels: BTreeMap<String, Members> = BTreeMap::new();
        for host in &list.hosts {
            for channel in rows_of(host).iter().filter_map(Row::channel) {
                let members = channels.entry(channel.to_owned()).or_default();
                members.hosts += 1;
                members.wormy += u64::from(wormy.contains(&host.host));
            }
        }
        for host in &mut list.hosts {
            let What::Rows(rows) = &mut host.what else { continue };
            for row in rows {
                row.members = row.channel().and_then(|name| channels.get(name)).copied().unwrap_or_default();
            }
        }
    }
}

impl HostsReport {
    /// A port signature as the list of signatures has it, and whether it is new in the period; `None` if the list does not have it.
    pub fn signature(&self, signature: &PortSignature) -> Option<(&KnownSignature, bool)> {
        let ports = signature.to_string();
        let known = self.wanted.signatures.iter().find(|known| known.ports == ports)?;
        Some((known, known.is_new(self.wanted.span.0)))
    }
}

/// The rows that a list has of a host, where it has several.
fn rows_of(host: &Host) -> &[Row] {
    if let What::Rows(rows) = &host.what { rows } else { &[] }
}

/// A list over a period.
fn list(
    store: &dyn Store,
    name: String,
    of: Of,
    span: (u64, u64),
    notes: &mut Vec<String>,
) -> Result<List, StoreError> {
    let range = TimeRange { from: Some(span.0), to: Some(span.1) };
    let kept = store.table(&name, range)?.unwrap_or_default();
    notes.extend(kept.partial.map(|note| format!("{name}: {note}")));
    let mut list =
        List { name, of, host: String::new(), unit: "interval", cells: 0, hosts: Vec::new(), absent: 0 };
    let Some(table) = kept.table else { return Ok(list) };
    list.absent = table.absent;
    list.host = table.schema.keys.first().map(|part| part.help.to_string()).unwrap_or_default();
    let mut hosts: BTreeMap<IpAddr, Host> = BTreeMap::new();
    for row in table.rows.heaviest(usize::MAX, TableRow::weight) {
        let Some(address) = host_of(row) else { continue };
        let Some(what) = what(of, &table, row) else { continue };
        match hosts.get_mut(&address) {
            None => {
                hosts.insert(address, Host { host: address, seen: Seen::default(), what });
            }
            Some(host) => {
                if let (What::Rows(rows), What::Rows(more)) = (&mut host.what, what) {
                    rows.extend(more);
                }
            }
        }
    }
    let mut cells = 0;
    let tier = store.each_cell(&list.name, span, &mut |from, until, reading| {
        let Reading::Table(cell) = reading else { return };
        cells += 1;
        for row in &cell.rows {
            if let Some(host) = host_of(row).and_then(|host| hosts.get_mut(&host)) {
                host.seen.add(from, until);
                add_cell(&mut host.what, &cell, row);
            }
        }
    })?;
    list.cells = cells;
    list.unit = match tier {
        "1h" => "hour",
        "1d" => "day",
        "1w" => "week",
        "1mo" => "month",
        _ => "interval",
    };
    list.hosts = hosts.into_values().collect();
    Ok(list)
}

impl Seen {
    /// Adds a cell. The rows of a host in a cell follow each other or not: the cell counts once.
    fn add(&mut self, from: u64, until: u64) {
        let is_known = self.span.is_some_and(|(_, last)| last >= until);
        self.instances += u64::from(!is_known);
        let (first, last) = self.span.unwrap_or((from, until));
        self.span = Some((first.min(from), last.max(until)));
    }
}

/// What the row of a period has; `None` if it is a row of another table.
fn what(of: Of, table: &Table, row: &TableRow) -> Option<What> {
    Some(match of {
        Of::Syn => {
            let counts = SynCounts::of(row)?;
            let row_of = SynHost::of(row).unwrap_or_else(|| SynHost { counts, ..SynHost::default() });
            What::Work(Box::new(Work {
                row: row_of,
                error: row.error,
                weights: Spread::default(),
                flags: ['E', 'W', 'w', 'O', 'R', 'M'].map(|flag| (flag, 0)).to_vec(),
                signatures: BTreeSet::new(),
            }))
        }
        Of::Udp => What::Udp(Box::new(Udp {
            row: UdpHost::of(row)?,
            error: row.error,
            weights: Spread::default(),
            classes: BTreeMap::new(),
        })),
        Of::Fanout | Of::Flood | Of::Icmperror | Of::Irc => What::Rows(vec![Row::of(table, row)]),
    })
}

/// Adds the row of a cell to what follows from single cells.
fn add_cell(what: &mut What, table: &Table, row: &TableRow) {
    match what {
        What::Work(work) => {
            let Some(counts) = SynCounts::of(row) else { return };
            work.weights.add(counts.weight(WorkWeight::Sent));
            let flags = counts.flags();
            for (flag, cells) in &mut work.flags {
                *cells += u64::from(flags.contains(*flag));
            }
            let signature = SynHost::of(row).and_then(|host| Worms::default().signature(&host));
            work.signatures.extend(signature);
        }
        What::Udp(udp) => {
            let Some(host) = UdpHost::of(row) else { return };
            udp.weights.add(host.weight());
            if let Some(class) = host.class() {
                *udp.classes.entry(class).or_default() += 1;
            }
        }
        // Of these lists only that of floods is judged by its cells.
        What::Rows(_) if !table.schema.columns.iter().any(|column| column.name == "sources") => {}
        What::Rows(rows) => {
            let here = Row::of(table, row);
            if here.is_flood()
                && let Some(known) = rows.iter_mut().find(|known| known.key == here.key)
            {
                known.flooded += 1;
            }
        }
    }
}
