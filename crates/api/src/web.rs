//! What the HTTP interface answers, and the questions of the store behind it.
//!
//! Times are seconds since the epoch with a fraction; rates are per second. An answer that a limit has cut says so in
//! `partial`, a sentence for people. Texts may hold anything that came from a packet: they are text, never markup.
//! The OpenAPI document and the types of the pages are made from these.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Where a program's data come from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A link that is listened to.
    Live,
    /// A capture that was analysed.
    File,
    /// Only what is stored.
    Store,
}

/// Who answers, and what it has.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// The sensor's name.
    pub sensor: String,
    /// Where the data come from.
    pub mode: Mode,
    /// Interfaces or files.
    pub source: Vec<String>,
    /// Of the run; "" for every packet.
    pub expression: String,
    /// When it began.
    pub started: f64,
    /// The sensor's clock; that of the packets in mode `file`.
    pub now: f64,
    /// Seconds of a report.
    pub interval: f64,
    /// The beginning of what is stored.
    pub first: Option<f64>,
    /// Its end.
    pub last: Option<f64>,
    /// The sensor's time zone.
    pub zone: String,
    /// The name of the client's user or token.
    pub user: String,
    /// What the client may do: `look`, `packets` and `write`, with commas between them.
    pub rights: String,
    /// Whether the client may apply a configuration.
    pub write: bool,
    /// Whether the client can download packets.
    pub packets: bool,
    /// Why it cannot, where there are packets that others can download.
    pub packets_refused: Option<String>,
}

/// Charts of lines.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Charts {
    /// In the order of the configuration, built in ones first.
    pub charts: Vec<Chart>,
}

/// A chart: Ourmon's filter-set.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// What people read.
    pub title: String,
    /// Of all its lines.
    pub unit: String,
    /// Whether it is of the configuration, else built in.
    pub configured: bool,
    /// Its lines.
    pub lines: Vec<ChartLine>,
}

/// A line of a chart.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChartLine {
    /// The series.
    pub id: String,
    /// What people read.
    pub name: String,
    /// Which packets; "" where it is not an expression that says so.
    pub expression: String,
    /// Whether it is what no other line is.
    pub remainder: bool,
}

/// Every series there is.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SeriesList {
    /// By name.
    pub series: Vec<SeriesInfo>,
}

/// A series.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct SeriesInfo {
    /// Its name: parts joined by `/`.
    pub id: String,
    /// Of its values.
    pub unit: String,
    /// What they mean.
    pub help: String,
}

/// Points of series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct SeriesData {
    /// Seconds between points.
    pub step: f64,
    /// Of what was stored they were made: `interval`, `5m`, `1h`, `1d`.
    pub tier: String,
    /// When each point begins.
    pub times: Vec<f64>,
    /// In the order of the question, or the heaviest first; those that there are not are left out.
    pub series: Vec<Points>,
    /// Where the heaviest were asked for: the sum of all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<PointsOfOthers>,
    /// Where the heaviest were asked for: what each series comes to, the heaviest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Vec<Weight>>,
    /// What was cut.
    pub partial: Option<String>,
}

/// The sum of several series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct PointsOfOthers {
    /// Averages over time.
    pub avg: Vec<Option<f64>>,
    /// The sum of what each had at least, which they need not have had at once.
    pub min: Vec<Option<f64>>,
    /// The sum of what each had at most, which they need not have had at once.
    pub max: Vec<Option<f64>>,
}

/// What a series comes to in a time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Weight {
    /// The series.
    pub id: String,
    /// Its values times the seconds that they held.
    pub weight: f64,
}

/// The points of a series; nothing where nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Points {
    /// The series.
    pub id: String,
    /// Averages over time.
    pub avg: Vec<Option<f64>>,
    /// The least of an interval.
    pub min: Vec<Option<f64>>,
    /// The most of an interval.
    pub max: Vec<Option<f64>>,
}

/// What the same hours of the weeks before had.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Band {
    /// Those of the range, not of the weeks before.
    pub times: Vec<f64>,
    /// How many weeks had something.
    pub weeks: usize,
    /// In the order of the question.
    pub series: Vec<BandPoints>,
}

/// Least, median and most of the weeks before.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BandPoints {
    /// The series.
    pub id: String,
    /// The least.
    pub low: Vec<Option<f64>>,
    /// The median.
    pub mid: Vec<Option<f64>>,
    /// The most.
    pub high: Vec<Option<f64>>,
}

/// What lists there are.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Lists {
    /// Top lists.
    pub lists: Vec<ListInfo>,
    /// Counts of different things.
    pub distinct: Vec<DistinctInfo>,
}

/// A top list.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct ListInfo {
    /// Its name.
    pub name: String,
    /// What people read.
    pub title: String,
    /// What its rows are about.
    pub key: String,
    /// What they are ranked by: `bytes` or `packets`.
    pub unit: String,
}

/// A count of different things.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct DistinctInfo {
    /// Its name.
    pub name: String,
    /// Of what.
    pub of: String,
}

/// A top list over a range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct TopList {
    /// Its name.
    pub list: String,
    /// What its rows are about.
    pub key: String,
    /// What they were ranked by when they were kept.
    pub unit: String,
    /// Whether every row is exact and none is missing.
    pub exact: bool,
    /// The heaviest.
    pub rows: Vec<ListRow>,
    /// The most that a key without a row can have had, in `unit`.
    pub absent: u64,
    /// Keys that had no row when they came.
    pub inserts: u64,
    /// All that the list was given.
    pub total: Amount,
    /// What was cut.
    pub partial: Option<String>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ToSchema)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ListRow {
    /// What people read.
    pub label: String,
    /// Its parts.
    #[schema(value_type = Object)]
    pub key: Map<String, Value>,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Flows that had it.
    pub flows: u64,
    /// By how much the truth may be above the count, in the list's unit; 0 where it is exact.
    pub error: u64,
    /// A pcap-filter(7) expression for its packets.
    pub filter: String,
    /// A name of DNS or of a service.
    pub name: Option<String>,
    /// What it was ranked by in each of the parts of the time, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spark: Option<Vec<u64>>,
}

/// Counts of different things over a range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Distincts {
    /// In the order of the configuration.
    pub rows: Vec<DistinctRow>,
}

/// How many different things there were.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DistinctRow {
    /// Its name.
    pub name: String,
    /// Of what.
    pub of: String,
    /// How many.
    pub estimate: u64,
    /// The standard error in percent; 0 where it is exact.
    pub error_percent: f64,
}

/// What was seen in a range and not in the seven days before it.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct News {
    /// The heaviest first.
    pub rows: Vec<NewsRow>,
    /// The time that was compared with.
    pub against: Against,
    /// What was cut, or why there is nothing to compare with.
    pub partial: Option<String>,
}

/// A time that is compared with.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct Against {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

/// Something new.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NewsRow {
    /// `source`, `destination`, `service`, `protocol`.
    pub kind: String,
    /// What people read.
    pub label: String,
    /// A pcap-filter(7) expression for its packets.
    pub filter: String,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// Flows of a range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Flows {
    /// One page of them.
    pub rows: Vec<Flow>,
    /// How many there are.
    pub matched: u64,
    /// Their packets.
    pub matched_packets: u64,
    /// Their bytes.
    pub matched_bytes: u64,
    /// When they began.
    pub histogram: FlowHistogram,
    /// What was cut.
    pub partial: Option<String>,
}

/// When flows began.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct FlowHistogram {
    /// Seconds of a bin.
    pub step: f64,
    /// Their beginnings.
    pub times: Vec<f64>,
    /// Flows that began in each.
    pub flows: Vec<u64>,
    /// Bytes of these.
    pub bytes: Vec<u64>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Flow {
    /// To ask for it.
    pub id: String,
    /// As Zeek's logs name it.
    pub uid: String,
    /// As other tools name it.
    pub community_id: String,
    /// Time of its first packet.
    pub first: f64,
    /// Of its last.
    pub last: f64,
    /// Of the transport: `tcp`, `udp`, ...
    pub protocol: String,
    /// Who began it.
    pub source: String,
    /// Its port; of ICMP the type.
    pub source_port: u16,
    /// Who was asked.
    pub destination: String,
    /// Its port; of ICMP the code.
    pub destination_port: u16,
    /// Forward and reverse.
    pub packets: [u64; 2],
    /// The same in bytes on the wire.
    pub bytes: [u64; 2],
    /// How far it came, in Zeek's words.
    pub state: String,
    /// The protocols that were found in it.
    pub service: Option<String>,
    /// Outer VLAN identifier.
    pub vlan: Option<u16>,
    /// The name by which the initiator had asked for the responder.
    pub name: Option<String>,
}

/// A flow and what was said in it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FlowDetail {
    /// The flow.
    pub flow: Flow,
    /// All that is known of it.
    pub details: Vec<Detail>,
    /// What was said, in order.
    pub records: Vec<FlowRecordRow>,
    /// What was cut.
    pub partial: Option<String>,
}

/// One thing that is known.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Detail {
    /// What.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it means.
    pub help: String,
}

/// Something that was said in a flow.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FlowRecordRow {
    /// The table.
    pub table: String,
    /// When.
    pub time: f64,
    /// By field.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
}

/// The tables of protocols.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Protocols {
    /// In the order of the registry.
    pub tables: Vec<TableInfo>,
}

/// A table.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// When there is a row.
    pub help: String,
    /// The protocol it is of.
    pub protocol: String,
    /// Rows that are stored.
    pub rows: u64,
    /// Its fields, in the order of the log.
    pub fields: Vec<FieldInfo>,
}

/// A field.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FieldInfo {
    /// Its name.
    pub name: String,
    /// What it means.
    pub help: String,
    /// `text`, `number`, `time`, `address`, `list` or `bool`.
    pub kind: String,
}

/// Rows of a table.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Records {
    /// The table.
    pub table: String,
    /// One page of them, the latest first.
    pub rows: Vec<RecordRow>,
    /// How many there are.
    pub matched: u64,
    /// What was cut.
    pub partial: Option<String>,
}

/// A row of a table.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordRow {
    /// When.
    pub time: f64,
    /// The flow it was said in, where that has ended.
    pub flow: Option<String>,
    /// As Zeek's logs name the flow.
    pub uid: String,
    /// Who began the flow.
    pub source: String,
    /// Its port.
    pub source_port: u16,
    /// Who was asked.
    pub destination: String,
    /// Its port.
    pub destination_port: u16,
    /// By field.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
}

/// How the sensor is.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Sensor {
    /// What became of each packet: parts of a parent add up to it.
    pub ledger: Vec<LedgerRow>,
    /// A sum that does not hold.
    pub imbalance: Option<String>,
    /// Tables that packets fill.
    pub memory: Vec<MemoryRow>,
    /// What the pass costs.
    pub costs: Vec<CostRow>,
    /// What is under way between threads.
    pub queues: Vec<QueueRow>,
    /// The store, where there is one.
    pub store: Option<StoreState>,
    /// Who looks.
    pub clients: Vec<ClientRow>,
}

/// A counter.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LedgerRow {
    /// Its name in metrics.
    pub name: String,
    /// What people read.
    pub label: String,
    /// Its value since the beginning.
    pub value: u64,
    /// What is counted.
    pub unit: String,
    /// What it means.
    pub help: String,
    /// Whose part it is.
    pub parent: Option<String>,
    /// Whether each of it was lost.
    pub loss: bool,
}

/// A table that packets fill.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MemoryRow {
    /// Its name.
    pub table: String,
    /// Bytes in use; none where that is not counted, as of rings, which are taken as a whole.
    pub used: Option<u64>,
    /// Bytes that it may have.
    pub limit: u64,
    /// What had no room.
    pub shed: u64,
    /// What it is for.
    pub help: String,
}

/// What a part of the pass costs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CostRow {
    /// Its name.
    pub name: String,
    /// `stage` or `subscription`.
    pub kind: String,
    /// Nanoseconds for each packet.
    pub ns_per_packet: f64,
}

/// A queue between threads.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// What waits.
    pub length: u64,
    /// The most that can.
    pub capacity: u64,
    /// What had no room.
    pub shed: u64,
}

/// How the store is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct StoreState {
    /// Its folder.
    pub path: String,
    /// Bytes on the disk.
    pub bytes: u64,
    /// The most that may be.
    pub limit: u64,
    /// What series and lists come to when every tier is full.
    pub bound: u64,
    /// Bytes free on the disk.
    pub free: u64,
    /// `writing`, `waiting` (it cannot write, and tries again) or `reading`.
    pub state: String,
    /// Why it waits.
    pub failed: Option<String>,
    /// Rows that were lost while it could not write.
    pub dropped_rows: u64,
    /// What is kept how long.
    pub tiers: Vec<TierState>,
}

/// A tier of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct TierState {
    /// Its name.
    pub name: String,
    /// Seconds that it is kept.
    pub keep: f64,
    /// Bytes, roughly.
    pub bytes: u64,
    /// The beginning of what is there.
    pub first: Option<f64>,
}

/// Those who look at the pages.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClientRow {
    /// What they read.
    pub name: String,
    /// How many there are.
    pub connected: u64,
    /// How many were dropped because they were too slow.
    pub dropped: u64,
}

/// What has happened to the sensor.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Events {
    /// The latest first.
    pub events: Vec<Event>,
    /// What was cut.
    pub partial: Option<String>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// When.
    pub time: f64,
    /// `start`, `end`, `link`, `loss`, `store`, `clock`, `configuration`.
    pub kind: String,
    /// For people.
    pub text: String,
}

/// The answer to a question of the query language.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Answered {
    /// The question.
    pub q: String,
    /// What stands in each column.
    pub columns: Vec<Column>,
    /// Texts, numbers or nothing.
    #[schema(value_type = Vec<Vec<Object>>)]
    pub rows: Vec<Vec<Value>>,
    /// What was cut.
    pub partial: Option<String>,
    /// How long it took.
    pub milliseconds: f64,
}

/// A column of an answer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Of its values; "" for text.
    pub unit: String,
}

/// What an expression would catch of the flows that are stored.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct FilterTry {
    /// Flows that match.
    pub flows: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// All there are.
    pub of: FilterOf,
    /// By time.
    pub histogram: TryHistogram,
    /// What was cut.
    pub partial: Option<String>,
}

/// All flows of a range.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct FilterOf {
    /// Flows.
    pub flows: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Bytes of flows that match beside those of all, by the time of their beginning.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct TryHistogram {
    /// Seconds of a bin.
    pub step: f64,
    /// Their beginnings.
    pub times: Vec<f64>,
    /// Of those that match.
    pub bytes: Vec<u64>,
    /// Of all.
    pub all: Vec<u64>,
}

/// A moment of a live run.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Tick {
    /// Its end.
    pub time: f64,
    /// How long it was.
    pub seconds: f64,
    /// Packets in it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Caught since the beginning.
    pub caught: u64,
    /// Dropped since the beginning.
    pub dropped: u64,
    /// Flows that are open.
    pub flows_active: u64,
    /// Values of series in it, by name.
    pub series: std::collections::BTreeMap<String, f64>,
    /// The five heaviest talkers.
    pub talkers: Vec<ListRow>,
}
