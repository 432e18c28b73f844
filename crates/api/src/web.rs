//! Answers of the HTTP interface and of the store behind it.
//!
//! Times are seconds since the epoch with a fraction; rates are per second. `partial` explains, in
//! one sentence, what a limit left out of an answer. Strings may hold anything that came from a packet: they are text,
//! never markup. The OpenAPI document and the types of the pages are generated from these types.

use crate::Severity;
use crate::basis::Basis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Origin of the data.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Live capture on a link.
    Live,
    /// A capture file.
    File,
    /// A store without capture.
    Store,
}

/// The sensor and the time that it has data for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Name of the sensor.
    pub sensor: String,
    /// Origin of the data.
    pub mode: Mode,
    /// Interfaces or files.
    pub source: Vec<String>,
    /// Expression of the run; "" for every packet.
    pub expression: String,
    /// Further options of the run over files that decide which packets it has and which flows they are in, as words of a command
    /// line, without --since and --until; null if its input cannot be read again.
    #[schema(required = true)]
    pub options: Option<Vec<String>>,
    /// Start of the packets that the run over files reads (--since), in RFC 3339; null without one.
    #[schema(required = true)]
    pub since: Option<String>,
    /// Their end, excluded (--until).
    #[schema(required = true)]
    pub until: Option<String>,
    /// Start of the run.
    pub started: f64,
    /// Current time of the sensor; time of the last packet in mode `file`.
    pub now: f64,
    /// Interval in seconds.
    pub interval: f64,
    /// Start of the stored data.
    #[schema(required = true)]
    pub first: Option<f64>,
    /// End of the stored data.
    #[schema(required = true)]
    pub last: Option<f64>,
    /// Begin of the time that was watched: of captures the time of the first packet. Means are sums over the time from here on.
    #[schema(required = true)]
    pub watched_from: Option<f64>,
    /// End of the time that was watched: of captures the time of the last packet.
    #[schema(required = true)]
    pub watched_to: Option<f64>,
    /// Time zone of the sensor, by its IANA name.
    pub zone: String,
    /// The name of the client's user or token.
    pub user: String,
    /// What the client may do: `look`, `packets` and `write`, with commas between them.
    pub rights: String,
    /// Whether the client may apply a configuration.
    pub write: bool,
    /// Whether the client can download packets.
    pub packets: bool,
    /// Reason why the client cannot download packets, if there are packets that other clients can download.
    #[schema(required = true)]
    pub packets_refused: Option<String>,
}

/// All charts.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Charts {
    /// Built-in charts first, then those of the configuration in its order.
    pub charts: Vec<Chart>,
}

/// A chart: a set of expressions, each drawn as a line.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Chart {
    /// Name.
    pub name: String,
    /// Label for display.
    pub title: String,
    /// Unit of all lines.
    pub unit: String,
    /// Whether the configuration defines it; `false` for built-in charts.
    pub configured: bool,
    /// Lines of the chart.
    pub lines: Vec<ChartLine>,
}

/// A line of a chart.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChartLine {
    /// Identifier of the series.
    pub id: String,
    /// Label for display.
    pub name: String,
    /// Expression of its packets; "" if no expression defines the line.
    pub expression: String,
    /// Whether it counts the packets that no other line matches.
    pub remainder: bool,
}

/// All series.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SeriesList {
    /// Sorted by identifier.
    pub series: Vec<SeriesInfo>,
}

/// A series.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct SeriesInfo {
    /// Identifier: parts joined by `/`.
    pub id: String,
    /// Unit of the values.
    pub unit: String,
    /// Meaning of the values.
    pub help: String,
}

/// Points of series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct SeriesData {
    /// Seconds between points.
    pub step: f64,
    /// Storage tier that was read: `interval`, `5m`, `1h` or `1d`; `flows` if the points are computed from stored flows.
    pub tier: String,
    /// What the points are of.
    pub basis: Basis,
    /// Whether only cells that are too long for the range are stored.
    #[serde(skip)]
    pub is_rounded: bool,
    /// Flows that cross an end of the time range, when the points are computed from stored flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub crossing: Option<Crossing>,
    /// Start of each point.
    pub times: Vec<f64>,
    /// Watched seconds of each point: a rate multiplied by them is a sum. 0 where nothing was watched.
    pub widths: Vec<f64>,
    /// In the order of the request, or heaviest first. Unknown series are left out.
    pub series: Vec<Points>,
    /// Sum of all other series, when the heaviest were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub others: Option<PointsOfOthers>,
    /// Weight of each series, heaviest first, when the heaviest were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ranking: Option<Vec<Weight>>,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// Sum of several series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct PointsOfOthers {
    /// Averages over time.
    pub avg: Vec<Option<f64>>,
    /// Sum of the minima, which need not have been simultaneous.
    pub min: Vec<Option<f64>>,
    /// Sum of the maxima, which need not have been simultaneous.
    pub max: Vec<Option<f64>>,
}

/// Weight of a series in a time range.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Weight {
    /// Identifier of the series.
    pub id: String,
    /// Integral over time: each value times its duration in seconds.
    pub weight: f64,
}

/// Points of a series; `null` where nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Points {
    /// Identifier of the series.
    pub id: String,
    /// Averages over time.
    pub avg: Vec<Option<f64>>,
    /// Minimum of an interval.
    pub min: Vec<Option<f64>>,
    /// Maximum of an interval.
    pub max: Vec<Option<f64>>,
}

/// Range of values at the same time of previous weeks.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Band {
    /// Start of each point, in the requested range.
    pub times: Vec<f64>,
    /// Number of previous weeks with data.
    pub weeks: usize,
    /// In the order of the request.
    pub series: Vec<BandPoints>,
    /// What the numbers are of.
    pub basis: Basis,
}

/// Minimum, median and maximum of previous weeks.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BandPoints {
    /// Identifier of the series.
    pub id: String,
    /// Minimum.
    pub low: Vec<Option<f64>>,
    /// Median.
    pub mid: Vec<Option<f64>>,
    /// Maximum.
    pub high: Vec<Option<f64>>,
}

/// All top lists and distinct counts.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Lists {
    /// Top lists.
    pub lists: Vec<ListInfo>,
    /// Distinct counts.
    pub distinct: Vec<DistinctInfo>,
    /// Tables of functions with their own columns; `list NAME` in a query has their rows.
    pub tables: Vec<KeptTableInfo>,
}

/// A table of a function with its own columns.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct KeptTableInfo {
    /// Name.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<String>,
}

/// A top list.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct ListInfo {
    /// Name.
    pub name: String,
    /// Label for display.
    pub title: String,
    /// Kind of key.
    pub key: String,
    /// Unit of ranking: `bytes` or `packets`.
    pub unit: String,
}

/// A distinct count.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct DistinctInfo {
    /// Name.
    pub name: String,
    /// Kind of key that is counted.
    pub of: String,
}

/// A top list over a time range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct TopList {
    /// Name.
    pub list: String,
    /// Kind of key.
    pub key: String,
    /// Unit that ranked the keys when they were stored.
    pub unit: String,
    /// Rows, heaviest first.
    pub rows: Vec<ListRow>,
    /// Upper bound for any key without a row, in `unit`.
    pub absent: u64,
    /// Number of times that a key without a row arrived.
    pub inserts: u64,
    /// Sum over all keys, with and without a row.
    pub total: Amount,
    /// Flows that cross an end of the time range, when the list is computed from stored flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub crossing: Option<Crossing>,
    /// What the rows are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// Flows that cross an end of a time range. A store has the sums of a flow and not their course: of such a flow the share by
/// time is counted, and the true sums of the answer are at least without `counted` and at most with `whole` in its place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ToSchema)]
pub struct Crossing {
    /// Number of these flows.
    pub flows: u64,
    /// What is counted of them.
    pub counted: Amount,
    /// What they have inside and outside of the range.
    pub whole: Amount,
}

/// Clients, services and servers with the traffic between them, over all flows of a time range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Paths {
    /// Clients, then services, then servers, each the heaviest first and those that are together last.
    pub nodes: Vec<PathNode>,
    /// Traffic between a client and a service, and between a service and a server; the heaviest first.
    pub links: Vec<Path>,
    /// All flows.
    pub flows: u64,
    /// Their bytes on the wire in the range.
    pub bytes: u64,
    /// Flows that cross an end of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub crossing: Option<Crossing>,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// A client, a service or a server, or all others of these.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PathNode {
    /// 0 for clients, 1 for services, 2 for servers.
    pub side: usize,
    /// Label for display.
    pub label: String,
    /// Host name or service name.
    #[schema(required = true)]
    pub name: Option<String>,
    /// A pcap-filter(7) expression that matches its packets; "" for others.
    pub filter: String,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Flows.
    pub flows: u64,
    /// Number of clients, services or servers that are together here; 0 for one by itself.
    pub others: u64,
}

/// Traffic between two nodes.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Path {
    /// Place of the first node in the list.
    pub from: usize,
    /// Place of the second node.
    pub to: usize,
    /// Bytes on the wire in both directions.
    pub bytes: u64,
    /// Bytes of these that the clients sent.
    pub sent: u64,
    /// Packets.
    pub packets: u64,
    /// Flows.
    pub flows: u64,
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
    /// Label for display.
    pub label: String,
    /// Parts of the key.
    #[schema(value_type = Object)]
    pub key: Map<String, Value>,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Flows with this key.
    pub flows: u64,
    /// Maximum undercount, in the list's unit; 0 when the row is exact. For lists computed from flows: by how much the row
    /// may be wrong because flows cross an end of the time range.
    pub error: u64,
    /// A pcap-filter(7) expression that matches its packets.
    pub filter: String,
    /// Host name or service name.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Ranked value in each part of the time range, when parts were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub spark: Option<Vec<u64>>,
}

/// Distinct counts over a time range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Distincts {
    /// In the order of the configuration.
    pub rows: Vec<DistinctRow>,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// A distinct count over a time range.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DistinctRow {
    /// Name.
    pub name: String,
    /// Kind of key that is counted.
    pub of: String,
    /// Estimated number of distinct keys.
    pub estimate: u64,
    /// The most that the number can be. It is larger than `estimate` where the counts of the range have different keys, because
    /// they were made by runs into different stores, or before stores kept their key: such counts cannot be united.
    pub most: u64,
    /// Standard error in percent; 0 when the count is exact.
    pub error_percent: f64,
}

/// Hosts and services seen in a time range and not in the seven days before it.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct News {
    /// Heaviest first.
    pub rows: Vec<NewsRow>,
    /// Time range of the comparison.
    pub against: Against,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, or why there is nothing to compare with.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// Time range of a comparison.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct Against {
    /// Start.
    pub from: f64,
    /// End.
    pub to: f64,
}

/// A key that was not seen before.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NewsRow {
    /// `host`, of one that sent packets, or `service`, of one that answered.
    pub kind: String,
    /// Label for display.
    pub label: String,
    /// A pcap-filter(7) expression that matches its packets.
    pub filter: String,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// Port signatures that were seen in a time range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct PortSignatures {
    /// New ones first, then those that were seen last.
    pub rows: Vec<SignatureRow>,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// A port signature: the destination ports that hosts that may be worms tried, at most ten.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SignatureRow {
    /// Its ports, in ascending order.
    pub ports: Vec<u16>,
    /// A pcap-filter(7) expression that matches packets to them.
    pub filter: String,
    /// Whether it is new in the time range: not seen before it, and not by an earlier run.
    pub new: bool,
    /// Begin of the first interval with it.
    pub first: f64,
    /// End of the last interval with it.
    pub last: f64,
    /// The most hosts that had it in an interval.
    pub hosts: u64,
    /// Number of intervals with it.
    pub intervals: u64,
    /// Number of runs that have found it.
    pub runs: u64,
}

/// Alerts of a time range, added up by the rule that matched.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RuleAlerts {
    /// The most severe first, and among those of one severity the one with the most alerts.
    pub rows: Vec<RuleAlertsRow>,
    /// Number of rules with an alert.
    pub rules: u64,
    /// Alerts of all of these rules.
    pub alerts: u64,
    /// Number of matching alerts that a mute hides. They are in no row, unless they are asked for in place of the others.
    pub muted: u64,
    /// Whether rules look at flows in the run.
    pub looks: bool,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// The alerts of a rule. Message, category and severity are those of its latest alert.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RuleAlertsRow {
    /// Group of the rule.
    pub gid: u64,
    /// Number of the rule in its group.
    pub sid: u64,
    /// Revision of the rule.
    pub rev: u64,
    /// Message of the rule.
    pub signature: String,
    /// Description of the rule's class; `null` for a rule without a class.
    #[schema(required = true)]
    pub category: Option<String>,
    /// Priority of the rule: 1 is the most important; `null` if the record has none.
    #[schema(required = true)]
    pub severity: Option<u64>,
    /// Number of alerts.
    pub alerts: u64,
    /// Number of alerts whose packet the rule drops or rejects.
    pub blocked: u64,
    /// Time of the first alert.
    pub first: f64,
    /// Time of the last alert.
    pub last: f64,
    /// Number of addresses that sent the packets in which the rule matched.
    pub sources: u64,
    /// Number of addresses that these packets were sent to.
    pub destinations: u64,
    /// Standard error of both numbers of addresses in percent; 0 if they are exact.
    pub error_percent: f64,
    /// An expression over flows and records that matches its alerts.
    pub filter: String,
}

/// Flows of a time range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Flows {
    /// One page of rows.
    pub rows: Vec<Flow>,
    /// Number of matching rows on all pages.
    pub matched: u64,
    /// Packets of these flows in the range.
    pub matched_packets: u64,
    /// Bytes on the wire of these flows in the range.
    pub matched_bytes: u64,
    /// Flows that cross an end of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub crossing: Option<Crossing>,
    /// Flows by start time, and their bytes over time.
    pub histogram: FlowHistogram,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// Flows by start time.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct FlowHistogram {
    /// Width of a bin in seconds.
    pub step: f64,
    /// Start of each bin.
    pub times: Vec<f64>,
    /// Flows that began in each bin; in the first one also flows that began before.
    pub flows: Vec<u64>,
    /// Bytes in each bin, those of a flow spread evenly over its time.
    pub bytes: Vec<u64>,
    /// Seconds of each bin that were watched. Where none were, a bin without flows has no value, not zero.
    pub watched: Vec<f64>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Flow {
    /// Identifier for `/api/v1/flows/{id}`.
    pub id: String,
    /// Zeek's uid.
    pub uid: String,
    /// Community ID.
    pub community_id: String,
    /// Time of its first packet.
    pub first: f64,
    /// Time of its last packet.
    pub last: f64,
    /// Transport protocol: `tcp`, `udp`, ...
    pub protocol: String,
    /// Address of the initiator.
    pub source: String,
    /// Port of the initiator; the type for ICMP.
    pub source_port: u16,
    /// Address of the responder.
    pub destination: String,
    /// Port of the responder; the code for ICMP.
    pub destination_port: u16,
    /// Packets forward and reverse.
    #[schema(min_items = 2, max_items = 2)]
    pub packets: [u64; 2],
    /// Bytes on the wire, forward and reverse.
    #[schema(min_items = 2, max_items = 2)]
    pub bytes: [u64; 2],
    /// Connection state, as in Zeek's conn.log.
    pub state: String,
    /// Application protocols identified in it.
    #[schema(required = true)]
    pub service: Option<String>,
    /// Outer VLAN identifier.
    #[schema(required = true)]
    pub vlan: Option<u16>,
    /// Name that the initiator had resolved to the responder's address.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Whether the flow is open: its sums are those up to the end of the last stored interval.
    pub open: bool,
    /// Values of the fields that the query asks for, by `table.field`; absent where it asks for none.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object, required = false)]
    pub values: Map<String, Value>,
}

/// A flow with its records.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FlowDetail {
    /// The flow.
    pub flow: Flow,
    /// Further properties.
    pub details: Vec<Detail>,
    /// Records of the flow, in order of time.
    pub records: Vec<FlowRecordRow>,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// A property of a flow.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Detail {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Meaning.
    pub help: String,
}

/// A record of a flow.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FlowRecordRow {
    /// The table.
    pub table: String,
    /// Time.
    pub time: f64,
    /// Values by field name.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
}

/// All record tables.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Protocols {
    /// In the order of the registry.
    pub tables: Vec<TableInfo>,
}

/// A record table.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// What a row describes.
    pub help: String,
    /// Protocol; "" for tables that protocols share.
    pub protocol: String,
    /// Number of stored rows.
    pub rows: u64,
    /// Fields, in the order of the log.
    pub fields: Vec<FieldInfo>,
}

/// A field of a record table.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FieldInfo {
    /// Name.
    pub name: String,
    /// Meaning.
    pub help: String,
    /// Type of the values: `text`, `number`, `duration` (seconds), `time`, `address`, `list` or `bool`.
    pub kind: String,
}

/// What an expression can be made of.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ExpressionWords {
    /// Tables of fields: `flow`, then those of records.
    pub tables: Vec<FieldTable>,
    /// Operators of tests of fields.
    pub operators: Vec<String>,
    /// Words of pcap-filter(7).
    pub words: Vec<String>,
}

/// A table whose fields an expression can test.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FieldTable {
    /// Name.
    pub name: String,
    /// What a row describes.
    pub help: String,
    /// Fields, in the order of the log.
    pub fields: Vec<TestedField>,
}

/// A field that an expression can test as `table.field`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TestedField {
    /// Name.
    pub name: String,
    /// Meaning.
    pub help: String,
    /// Kind of the values, or of the values of its list: `text`, `number`, `duration` (seconds), `time` (seconds since the
    /// epoch), `address` or `bool`.
    pub kind: String,
    /// Whether it has several values.
    pub list: bool,
    /// Whether it holds payload, which needs the right `packets`.
    pub payload: bool,
    /// Other names by which it is found: Zeek's column and Suricata's key.
    pub aliases: Vec<String>,
}

/// Findings in the flows of a time range.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Findings {
    /// Those with the most targets first.
    pub rows: Vec<Finding>,
    /// Number of findings of the range that a mute hides.
    pub muted: u64,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// A finding.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Finding {
    /// `scan`.
    pub kind: String,
    /// The finding in words, as the summary has it.
    pub text: String,
    /// The host that it is about.
    pub host: String,
    /// An expression that matches its flows.
    pub filter: String,
    /// Beginning of its first flow, in seconds since the epoch.
    pub first: f64,
    /// Beginning of its last flow.
    pub last: f64,
    /// The number of the mute that hides it.
    #[schema(required = true)]
    pub muted: Option<u64>,
}

/// Records of a table.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Records {
    /// The table.
    pub table: String,
    /// One page of rows.
    pub rows: Vec<RecordRow>,
    /// Number of matching rows on all pages.
    pub matched: u64,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// A row of a table.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordRow {
    /// Time.
    pub time: f64,
    /// Identifier of its flow, once that has ended.
    #[schema(required = true)]
    pub flow: Option<String>,
    /// Zeek's uid of the flow.
    pub uid: String,
    /// Address of the flow's initiator.
    pub source: String,
    /// Port.
    pub source_port: u16,
    /// Address of the responder.
    pub destination: String,
    /// Port.
    pub destination_port: u16,
    /// Values by field name.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
}

/// State of the sensor.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Sensor {
    /// Packet ledger and other counters. Parts of a parent add up to it.
    pub ledger: Vec<LedgerRow>,
    /// The first sum of the ledger that does not hold.
    #[schema(required = true)]
    pub imbalance: Option<String>,
    /// Memory of tables.
    pub memory: Vec<MemoryRow>,
    /// Processing cost of stages and subscriptions.
    pub costs: Vec<CostRow>,
    /// Queues between threads.
    pub queues: Vec<QueueRow>,
    /// State of the store, if any.
    #[schema(required = true)]
    pub store: Option<StoreState>,
    /// What became of what left for each log, packet file and directory.
    pub destinations: Vec<DestinationRow>,
    /// Connected clients.
    pub clients: Vec<ClientRow>,
}

/// A log, a packet file or a directory of files, with what became of what left for it. What was offered is written, shed, lost,
/// limited or on its way.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DestinationRow {
    /// Name of the log, or of the file or directory without its path.
    pub name: String,
    /// `packets`, `rows` or `files`.
    pub unit: String,
    /// Packets, rows or files that subscriptions and options delivered.
    pub offered: u64,
    /// Those that were written.
    pub written: u64,
    /// Those for which the queue to the writer had no room.
    pub shed: u64,
    /// Those that the writer could not write.
    pub lost: u64,
    /// Files of which nothing was kept because a limit was reached.
    pub limited: u64,
    /// Packets before a decision that were held no more, and so were never offered.
    pub missing: u64,
    /// Bytes of the packets and files that were written; 0 for rows.
    pub bytes: u64,
}

/// A counter.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LedgerRow {
    /// Name in metrics.
    pub name: String,
    /// Label for display.
    pub label: String,
    /// Value since the start of the run.
    pub value: u64,
    /// Unit.
    pub unit: String,
    /// Meaning.
    pub help: String,
    /// Name of the counter that it is part of.
    #[schema(required = true)]
    pub parent: Option<String>,
    /// Whether it counts loss.
    pub loss: bool,
}

/// Memory of a table.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MemoryRow {
    /// Name.
    pub table: String,
    /// Bytes in use; `null` where they are not counted, as for rings, which are allocated as a whole.
    #[schema(required = true)]
    pub used: Option<u64>,
    /// Limit in bytes.
    pub limit: u64,
    /// Entries that found no room.
    pub shed: u64,
    /// Purpose.
    pub help: String,
}

/// Processing cost of a stage or subscription.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CostRow {
    /// Name.
    pub name: String,
    /// Kind: `stage` or `subscription`.
    pub kind: String,
    /// Worker time in nanoseconds per analysed packet.
    pub ns_per_packet: f64,
}

/// A queue between threads.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct QueueRow {
    /// Name.
    pub name: String,
    /// Entries waiting.
    pub length: u64,
    /// Capacity.
    pub capacity: u64,
    /// Entries that found no room.
    pub shed: u64,
}

/// State of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct StoreState {
    /// Directory.
    pub path: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// Size limit in bytes.
    pub limit: u64,
    /// Size of series and lists when every tier is full, in bytes.
    pub bound: u64,
    /// Free disk space in bytes.
    pub free: u64,
    /// `writing`, `waiting` (writing failed and is retried) or `reading`.
    pub state: String,
    /// Error of the last attempt to write.
    #[schema(required = true)]
    pub failed: Option<String>,
    /// Rows lost because they could not be written.
    pub dropped_rows: u64,
    /// Tiers, with their age limits.
    pub tiers: Vec<TierState>,
}

/// A tier of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct TierState {
    /// Name.
    pub name: String,
    /// Age limit in seconds.
    pub keep: f64,
    /// Approximate size in bytes.
    pub bytes: u64,
    /// Start of the stored data.
    #[schema(required = true)]
    pub first: Option<f64>,
}

/// Clients of one kind.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClientRow {
    /// Kind of stream that they read.
    pub name: String,
    /// Number of connections.
    pub connected: u64,
    /// Connections dropped because the client read too slowly.
    pub dropped: u64,
}

/// Events.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Events {
    /// Latest first.
    pub events: Vec<Event>,
    /// Number of events of the range that a mute hides, whether they are shown or not.
    pub muted: u64,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// An event: something found in the traffic, or something about the sensor.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// Time of the last finding.
    pub time: f64,
    /// `port_scan`, `address_scan`, `clock_leap`, `link_down`, `disk_full`, `store_failed`, `output_failed`; of notes about the
    /// sensor `start`, `end`, `loss`, `store`, `clock`, `configuration` or `mute`.
    pub kind: String,
    /// Description.
    pub text: String,
    /// Identifier, equal from its begin to its end; `null` for a note.
    #[schema(required = true)]
    pub id: Option<String>,
    /// `notice`, `warning` or `error`.
    pub severity: String,
    /// What it is about: a host, two hosts, an interface, a file.
    #[schema(required = true)]
    pub subject: Option<String>,
    /// The acting host.
    #[schema(required = true)]
    pub host: Option<String>,
    /// The host that it acts on.
    #[schema(required = true)]
    pub target: Option<String>,
    /// The port that it acts on, with its protocol, as `tcp/445`.
    #[schema(required = true)]
    pub port: Option<String>,
    /// Time of the first finding.
    pub begin: f64,
    /// Number of findings.
    pub count: u64,
    /// Whether it has not ended.
    pub open: bool,
    /// Numbers by name.
    #[schema(value_type = Object)]
    pub evidence: BTreeMap<String, u64>,
    /// An expression that shows its packets.
    #[schema(required = true)]
    pub filter: Option<String>,
    /// The number of the mute that hides it; `null` if none does.
    #[schema(required = true)]
    pub muted: Option<u64>,
    /// Who has seen it; `null` if it is not acknowledged.
    #[schema(required = true)]
    pub acknowledged: Option<Acknowledgement>,
}

/// That a person has seen an event.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// The user or token.
    pub who: String,
    /// When, in seconds since the epoch.
    pub when: f64,
    /// Free text.
    pub note: String,
}

impl Event {
    /// A note about the sensor, at a time in seconds since the epoch.
    pub fn note(time: f64, kind: &str, text: String) -> Self {
        let severity = Severity::Notice.name().to_owned();
        Self { time, kind: kind.to_owned(), text, severity, begin: time, count: 1, ..Self::default() }
    }
}

/// Answer to a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Answered {
    /// The query.
    pub q: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Cells: text, number or `null`.
    #[schema(value_type = Vec<Vec<Value>>)]
    pub rows: Vec<Vec<Value>>,
    /// The sum of what has no row, in the same columns.
    #[schema(value_type = Option<Vec<Value>>, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Vec<Value>>,
    /// The sum of everything that matched, in the same columns.
    #[schema(value_type = Option<Vec<Value>>, nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Vec<Value>>,
    /// What the rows are of; absent in an answer without numbers of a time, such as a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub basis: Option<Basis>,
    /// Flows that cross an end of the time range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub crossing: Option<Crossing>,
    /// Remarks about the answer, such as bounds of its numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
    /// Duration of the query in milliseconds.
    pub milliseconds: f64,
}

/// A column of an answer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Unit of the values; "" for text.
    pub unit: String,
}

/// Stored flows that an expression matches.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct FilterTry {
    /// Matching flows.
    pub flows: u64,
    /// Packets of these flows.
    pub packets: u64,
    /// Bytes on the wire of these flows.
    pub bytes: u64,
    /// All flows of the time range.
    pub of: FilterOf,
    /// Bytes over time.
    pub histogram: TryHistogram,
    /// What the numbers are of.
    pub basis: Basis,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    pub partial: Option<String>,
}

/// All flows of a time range.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct FilterOf {
    /// Flows.
    pub flows: u64,
    /// Packets of these flows.
    pub packets: u64,
    /// Bytes on the wire of these flows.
    pub bytes: u64,
}

/// Bytes of matching flows and of all flows, by start time.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct TryHistogram {
    /// Width of a bin in seconds.
    pub step: f64,
    /// Start of each bin.
    pub times: Vec<f64>,
    /// Bytes of matching flows.
    pub bytes: Vec<u64>,
    /// Bytes of all flows.
    pub all: Vec<u64>,
    /// Seconds of each bin that were watched. Where none were, a bin without flows has no value, not zero.
    pub watched: Vec<f64>,
}

/// One tick of a live run.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Tick {
    /// End of the tick.
    pub time: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Packets in the tick.
    pub packets: u64,
    /// Bytes on the wire in the tick.
    pub bytes: u64,
    /// Packets caught since the start of the run.
    pub caught: u64,
    /// Packets dropped since the start of the run.
    pub dropped: u64,
    /// Open flows.
    pub flows_active: u64,
    /// Values of series, by identifier.
    pub series: std::collections::BTreeMap<String, f64>,
    /// The top five talkers.
    pub talkers: Vec<ListRow>,
}
