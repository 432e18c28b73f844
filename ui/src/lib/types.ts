// The types of the HTTP interface. Generated from its OpenAPI document by scripts/types.mjs: do not edit.

/** Events that are to be acknowledged: those with these identifiers, or all of a kind and subject. */
export interface AcknowledgeDraft {
  /** Identifiers of events, at most 1,000. */
  ids?: string[];
  /** The kind, if there are no identifiers. */
  kind?: string | null;
  /** Free text: at most 200 characters in one line. */
  note?: string;
  /** The subject, with a kind. */
  subject?: string | null;
}

/** Events that were acknowledged. */
export interface Acknowledged {
  /** Their identifiers. */
  ids: string[];
}

/** That a person has seen an event. */
export interface Acknowledgement {
  /** Free text. */
  note: string;
  /** When, in seconds since the epoch. */
  when: number;
  /** The user or token. */
  who: string;
}

/** Subscriptions that were added. */
export interface Added {
  /** Time of the first packet that they see, to the microsecond. */
  from: number;
  /** Their numbers, in the order of the text. */
  ids: number[];
}

/** Time range of a comparison. */
export interface Against {
  /** Start. */
  from: number;
  /** End. */
  to: number;
}

/** Packets and bytes. */
export interface Amount {
  /** Bytes on the wire. */
  bytes: number;
  /** Packets. */
  packets: number;
}

/** Answer to a query. */
export interface Answered {
  /** What the rows are of; absent in an answer without numbers of a time, such as a flow. */
  basis?: Basis;
  /** Columns. */
  columns: Column[];
  /** Flows that cross an end of the time range. */
  crossing?: Crossing;
  /** Duration of the query in milliseconds. */
  milliseconds: number;
  /** Remarks about the answer, such as bounds of its numbers. */
  notes?: string[];
  /** The sum of what has no row, in the same columns. */
  other?: unknown[];
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** The query. */
  q: string;
  /** Cells: text, number or `null`. */
  rows: unknown[][];
  /** The sum of everything that matched, in the same columns. */
  total?: unknown[];
}

/** An argument of a function. */
export interface ArgumentInfo {
  /** Default; `null` if it has to be given. */
  default: string | null;
  /** Meaning and accepted values. */
  help: string;
  /** Name. */
  name: string;
}

/** Range of values at the same time of previous weeks. */
export interface Band {
  /** What the numbers are of. */
  basis: Basis;
  /** In the order of the request. */
  series: BandPoints[];
  /** Start of each point, in the requested range. */
  times: number[];
  /** Number of previous weeks with data. */
  weeks: number;
}

/** Minimum, median and maximum of previous weeks. */
export interface BandPoints {
  /** Maximum. */
  high: (number | null)[];
  /** Identifier of the series. */
  id: string;
  /** Minimum. */
  low: (number | null)[];
  /** Median. */
  mid: (number | null)[];
}

/**
 * What the numbers of an answer are of. Answers over equal ranges from equal sources agree; numbers of different
 * sources may differ by their bounds.
 */
export interface Basis {
  /** Start and end of the time that was asked for, in seconds since the epoch. */
  asked: [number, number];
  /**
   * The most by which a sum of the answer may be off, in the unit by which its rows are ranked, or in bytes; 0 if
   * all of its numbers are exact. `null` where each row states its own bound.
   */
  bound: number | null;
  /**
   * Start and end of the time that is answered: the asked time, moved outwards to the cells that are stored there,
   * as far as anything is stored.
   */
  range: [number, number];
  /** Where the numbers come from. */
  source: Source;
  /** Seconds of the answered time that were watched. A mean is a sum divided by them. */
  watched: number;
}

/** A chart: a set of expressions, each drawn as a line. */
export interface Chart {
  /** Whether the configuration defines it; `false` for built-in charts. */
  configured: boolean;
  /** Lines of the chart. */
  lines: ChartLine[];
  /** Name. */
  name: string;
  /** Label for display. */
  title: string;
  /** Unit of all lines. */
  unit: string;
}

/** A line of a chart. */
export interface ChartLine {
  /** Expression of its packets; "" if no expression defines the line. */
  expression: string;
  /** Identifier of the series. */
  id: string;
  /** Label for display. */
  name: string;
  /** Whether it counts the packets that no other line matches. */
  remainder: boolean;
}

/** All charts. */
export interface Charts {
  /** Built-in charts first, then those of the configuration in its order. */
  charts: Chart[];
}

/** Result of checking a configuration. */
export interface Checked {
  /** Whether it is now in effect. */
  applied: boolean;
  /** Lines removed (`-`) and added (`+`). */
  difference: string;
  /** Errors. */
  errors: Wrong[];
  /** Whether the configuration is valid. */
  ok: boolean;
  /** Settings that need a restart. All others are in effect if `applied`. */
  restart: string[];
}

/** The answer of a function. */
export interface ClientAnswer {
  /**
   * What the numbers of the total are of. What was asked for begins with the subscription, and ends with it or
   * now.
   */
  basis: Basis;
  /** Name of the function. */
  function: string;
  /** Its last whole interval; `null` before the end of the first. */
  latest: IntervalReading | null;
  /** What the total leaves out, and why. */
  partial: string | null;
  /** The place of the function in the chain, from 0. */
  place: number;
  /** Its reading since `from`, as it stands in a line of weir.ndjson. */
  total: unknown;
}

/** Clients of one kind. */
export interface ClientRow {
  /** Number of connections. */
  connected: number;
  /** Connections dropped because the client read too slowly. */
  dropped: number;
  /** Kind of stream that they read. */
  name: string;
}

/** A subscription of a client, with its answers. */
export interface ClientSubscription {
  /** The answers of its functions. */
  answers: ClientAnswer[];
  /** Whether it is removed and its answers will not change. */
  complete: boolean;
  /** Its expression; empty for everything. */
  expression: string;
  /** Time of the first packet that it sees, to the microsecond. */
  from: number;
  /** Its number. */
  id: number;
  /** Length of the interval of its readings in seconds; 0 for the run's. */
  interval: number;
  /** `packet`, `stream`, `flow` or `record`. */
  level: string;
  /** Its name. */
  name: string;
  /** End of the last interval in its answers; `null` before the first. */
  summed: number | null;
  /** Once it is removed, the time of the first packet that it does not see; else `null`. */
  until: number | null;
}

/** The subscriptions of a client. */
export interface ClientSubscriptions {
  /** In the order of their numbers. */
  subscriptions: ClientSubscription[];
}

/** A column of an answer. */
export interface Column {
  /** Name. */
  name: string;
  /** Unit of the values; "" for text. */
  unit: string;
}

/** Processing cost of a stage or subscription. */
export interface CostRow {
  /** Kind: `stage` or `subscription`. */
  kind: string;
  /** Name. */
  name: string;
  /** Worker time in nanoseconds per analysed packet. */
  ns_per_packet: number;
}

/**
 * Flows that cross an end of a time range. A store has the sums of a flow and not their course: of such a flow
 * the share by time is counted, and the true sums of the answer are at least without `counted` and at most with
 * `whole` in its place.
 */
export interface Crossing {
  /** What is counted of them. */
  counted: Amount;
  /** Number of these flows. */
  flows: number;
  /** What they have inside and outside of the range. */
  whole: Amount;
}

/** A plan in words. */
export interface Described {
  /** What the pass has to do for them. */
  demand: string[];
  /** The run's expression; empty for every packet. */
  expression: string;
  /** What leaves by their functions: logs, files and events. */
  leaves: Leaving[];
  /** Number of the plan; each change makes a new one. */
  plan: number;
  /** The subscriptions, in order. */
  subscriptions: DescribedSubscription[];
}

/** A subscription in words. */
export interface DescribedSubscription {
  /** The chart that has it as a line. */
  chart: string | null;
  /** Its expression; empty for everything. */
  expression: string;
  /** Its functions, with their arguments. */
  functions: string[];
  /** Its number, which is never used again. */
  id: number;
  /** Length of the interval of its readings in seconds; 0 for the run's. */
  interval: number;
  /** `packet`, `stream`, `flow` or `record`. */
  level: string;
  /** Its name. */
  name: string;
  /** Names of the outputs that its readings go to; null for all. */
  outputs?: string[] | null;
  /** Who made it: `run`, `configuration`, or `client` with its number. */
  owner: string;
  /** Whether it covers the packets that no other line of its chart covers. */
  remainder: boolean;
}

/**
 * A log, a packet file or a directory of files, with what became of what left for it. What was offered is
 * written, shed, lost, limited or on its way.
 */
export interface DestinationRow {
  /** Bytes of the packets and files that were written; 0 for rows. */
  bytes: number;
  /** Files of which nothing was kept because a limit was reached. */
  limited: number;
  /** Those that the writer could not write. */
  lost: number;
  /** Packets before a decision that were held no more, and so were never offered. */
  missing: number;
  /** Name of the log, or of the file or directory without its path. */
  name: string;
  /** Packets, rows or files that subscriptions and options delivered. */
  offered: number;
  /** Those for which the queue to the writer had no room. */
  shed: number;
  /** `packets`, `rows` or `files`. */
  unit: string;
  /** Those that were written. */
  written: number;
}

/** A property of a flow. */
export interface Detail {
  /** Meaning. */
  help: string;
  /** Name. */
  name: string;
  /** Value. */
  value: string;
}

/** A distinct count. */
export interface DistinctInfo {
  /** Name. */
  name: string;
  /** Kind of key that is counted. */
  of: string;
}

/** A distinct count over a time range. */
export interface DistinctRow {
  /** Standard error in percent; 0 when the count is exact. */
  error_percent: number;
  /** Estimated number of distinct keys. */
  estimate: number;
  /**
   * The most that the number can be. It is larger than `estimate` where the counts of the range have different
   * keys, because they were made by runs into different stores, or before stores kept their key: such counts
   * cannot be united.
   */
  most: number;
  /** Name. */
  name: string;
  /** Kind of key that is counted. */
  of: string;
}

/** Distinct counts over a time range. */
export interface Distincts {
  /** What the numbers are of. */
  basis: Basis;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** In the order of the configuration. */
  rows: DistinctRow[];
}

/** A packet file of a trigger. */
export interface DumpFile {
  /** Beginning of its event. */
  begun: number;
  /** Its size. */
  bytes: number;
  /** Start of the time of its packets: as its comments have it, or else as its trigger has it now. */
  from: number;
  /** Its name. */
  name: string;
  /** Whether it is being written. */
  open: boolean;
  /** What it says of itself, a line for each comment: who decided, by which numbers, and which packets it has. */
  reason: string;
  /** End of this time, excluded. A file that reached a limit ends before it. */
  to: number;
  /** Its trigger. */
  trigger: string;
}

/** A trigger, and what it does now. */
export interface DumpTrigger {
  /** It goes on with more than this. */
  above: number | null;
  /** It goes on with less than this. */
  below: number | null;
  /** Bytes of its files. */
  bytes: number;
  /** Number of times that a file was not written. */
  failed: number;
  /** Number of its files. */
  files: number;
  /**
   * The expression of the packets that are measured; empty for all of them, `null` if events of others open its
   * files.
   */
  filter: string | null;
  /** Maximum bytes of its files. */
  limit: number | null;
  /** Its name. */
  name: string;
  /** Number of older files that were removed in this run, so that there was room for newer ones. */
  removed: number;
  /** Bytes of these. */
  removed_bytes: number;
  /**
   * Seconds before now from which on the packets of all workers are kept; `null` in a run over files, which reads
   * them again.
   */
  ring_seconds: number | null;
  /** Beginning of its earliest open event. */
  since: number | null;
  /** `on` while it has an open event. */
  state: string;
  /** The directory of its files. */
  to: string;
  /** The unit or column of the number that is compared; empty if none is known. */
  unit: string;
  /** What the latest whole interval came to: the number that is nearest to the threshold, or furthest beyond it. */
  value: number | null;
  /** What is compared with its threshold, in words. */
  when: string;
}

/** The triggers of a run and their files. */
export interface Dumps {
  /** Newest first, at most 1,000. */
  files: DumpFile[];
  /** Number of further files. */
  left_out: number;
  /** In the order of the configuration; empty without a run. */
  triggers: DumpTrigger[];
}

/** The configuration in effect. */
export interface Effective {
  /** Path of its file. */
  path: string | null;
  /** Text of the file. */
  text: string;
  /** All values with their origin. */
  values: EffectiveValue[];
}

/** A value of the configuration. */
export interface EffectiveValue {
  /** Key, with its tables, joined by points. */
  key: string;
  /** Origin: `default`, `command line`, `short capture`, or file and line. */
  origin: string;
  /** Value in effect. */
  value: string;
}

/** An event: something found in the traffic, or something about the sensor. */
export interface Event {
  /** Who has seen it; `null` if it is not acknowledged. */
  acknowledged: Acknowledgement | null;
  /** Time of the first finding. */
  begin: number;
  /** Number of findings. */
  count: number;
  /** Numbers by name. */
  evidence: Record<string, unknown>;
  /** An expression that shows its packets. */
  filter: string | null;
  /** The acting host. */
  host: string | null;
  /** Identifier, equal from its begin to its end; `null` for a note. */
  id: string | null;
  /**
   * `port_scan`, `address_scan`, `clock_leap`, `link_down`, `disk_full`, `store_failed`, `output_failed`; of notes
   * about the sensor `start`, `end`, `loss`, `store`, `clock`, `configuration` or `mute`.
   */
  kind: string;
  /** The number of the mute that hides it; `null` if none does. */
  muted: number | null;
  /** Whether it has not ended. */
  open: boolean;
  /** The port that it acts on, with its protocol, as `tcp/445`. */
  port: string | null;
  /** `notice`, `warning` or `error`. */
  severity: string;
  /** What it is about: a host, two hosts, an interface, a file. */
  subject: string | null;
  /** The host that it acts on. */
  target: string | null;
  /** Description. */
  text: string;
  /** Time of the last finding. */
  time: number;
}

/** Events. */
export interface Events {
  /** Latest first. */
  events: Event[];
  /** Number of events of the range that a mute hides, whether they are shown or not. */
  muted: number;
  /** What the answer leaves out, and why. */
  partial: string | null;
}

/** What an expression can be made of. */
export interface ExpressionWords {
  /** Operators of tests of fields. */
  operators: string[];
  /** Tables of fields: `flow`, then those of records. */
  tables: FieldTable[];
  /** Words of pcap-filter(7). */
  words: string[];
}

/** An error answer. */
export interface Failure {
  /** The error. */
  error: string;
  /** Accepted values, or the remedy. */
  help?: string;
  /** Length in bytes. */
  length?: number;
  /** Position in the expression, in bytes. */
  offset?: number;
}

/** An error in an expression. */
export interface Fault {
  /** Accepted values. */
  help: string | null;
  /** Length in bytes. */
  length: number;
  /** The error, and what was expected. */
  message: string;
  /** Position in bytes. */
  offset: number;
}

/** A field of a record table. */
export interface FieldInfo {
  /** Meaning. */
  help: string;
  /** Type of the values: `text`, `number`, `duration` (seconds), `time`, `address`, `list` or `bool`. */
  kind: string;
  /** Name. */
  name: string;
}

/** A table whose fields an expression can test. */
export interface FieldTable {
  /** Fields, in the order of the log. */
  fields: TestedField[];
  /** What a row describes. */
  help: string;
  /** Name. */
  name: string;
}

/** Result of validating an expression. */
export interface FilterCheck {
  /** The expression on one line, with single spaces. */
  canonical: string;
  /** The error, if any. */
  error: Fault | null;
  /** Evaluation plan, line by line, as `weir explain` prints it. */
  explain: string[];
  /** Whether the expression is valid. */
  ok: boolean;
}

/** All flows of a time range. */
export interface FilterOf {
  /** Bytes on the wire of these flows. */
  bytes: number;
  /** Flows. */
  flows: number;
  /** Packets of these flows. */
  packets: number;
}

/** Stored flows that an expression matches. */
export interface FilterTry {
  /** What the numbers are of. */
  basis: Basis;
  /** Bytes on the wire of these flows. */
  bytes: number;
  /** Matching flows. */
  flows: number;
  /** Bytes over time. */
  histogram: TryHistogram;
  /** All flows of the time range. */
  of: FilterOf;
  /** Packets of these flows. */
  packets: number;
  /** What the answer leaves out, and why. */
  partial: string | null;
}

/** A finding. */
export interface Finding {
  /** An expression that matches its flows. */
  filter: string;
  /** Beginning of its first flow, in seconds since the epoch. */
  first: number;
  /** The host that it is about. */
  host: string;
  /** `scan`. */
  kind: string;
  /** Beginning of its last flow. */
  last: number;
  /** The number of the mute that hides it. */
  muted: number | null;
  /** The finding in words, as the summary has it. */
  text: string;
}

/** Findings in the flows of a time range. */
export interface Findings {
  /** What the numbers are of. */
  basis: Basis;
  /** Number of findings of the range that a mute hides. */
  muted: number;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** Those with the most targets first. */
  rows: Finding[];
}

/** A flow. */
export interface Flow {
  /** Bytes on the wire, forward and reverse. */
  bytes: [number, number];
  /** Community ID. */
  community_id: string;
  /** Address of the responder. */
  destination: string;
  /** Port of the responder; the code for ICMP. */
  destination_port: number;
  /** Time of its first packet. */
  first: number;
  /** Identifier for `/api/v1/flows/{id}`. */
  id: string;
  /** Time of its last packet. */
  last: number;
  /** Name that the initiator had resolved to the responder's address. */
  name: string | null;
  /** Whether the flow is open: its sums are those up to the end of the last stored interval. */
  open: boolean;
  /** Packets forward and reverse. */
  packets: [number, number];
  /** Transport protocol: `tcp`, `udp`, ... */
  protocol: string;
  /** Application protocols identified in it. */
  service: string | null;
  /** Address of the initiator. */
  source: string;
  /** Port of the initiator; the type for ICMP. */
  source_port: number;
  /** Connection state, as in Zeek's conn.log. */
  state: string;
  /** Zeek's uid. */
  uid: string;
  /** Values of the fields that the query asks for, by `table.field`; absent where it asks for none. */
  values?: Record<string, unknown>;
  /** Outer VLAN identifier. */
  vlan: number | null;
}

/** A flow with its records. */
export interface FlowDetail {
  /** Further properties. */
  details: Detail[];
  /** The flow. */
  flow: Flow;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** Records of the flow, in order of time. */
  records: FlowRecordRow[];
}

/** Flows by start time. */
export interface FlowHistogram {
  /** Bytes in each bin, those of a flow spread evenly over its time. */
  bytes: number[];
  /** Flows that began in each bin; in the first one also flows that began before. */
  flows: number[];
  /** Width of a bin in seconds. */
  step: number;
  /** Start of each bin. */
  times: number[];
  /** Seconds of each bin that were watched. Where none were, a bin without flows has no value, not zero. */
  watched: number[];
}

/** A record of a flow. */
export interface FlowRecordRow {
  /** The table. */
  table: string;
  /** Time. */
  time: number;
  /** Values by field name. */
  values: Record<string, unknown>;
}

/** Flows of a time range. */
export interface Flows {
  /** What the numbers are of. */
  basis: Basis;
  /** Flows that cross an end of the range. */
  crossing?: Crossing;
  /** Flows by start time, and their bytes over time. */
  histogram: FlowHistogram;
  /** Number of matching rows on all pages. */
  matched: number;
  /** Bytes on the wire of these flows in the range. */
  matched_bytes: number;
  /** Packets of these flows in the range. */
  matched_packets: number;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** One page of rows. */
  rows: Flow[];
}

/** A column of a table. */
export interface FunctionColumn {
  /** The field of records that it is, as `table.field` in expressions. */
  field: string | null;
  /** Meaning. */
  help: string;
  /**
   * How its values are made: `key`, `sum`, `min`, `max`, `distinct`, `names`, `last`, `sample`, `statistic` or
   * `error`.
   */
  kind: string;
  /** Name. */
  name: string;
  /** Unit; "" without one. */
  unit: string;
}

/** A function of subscriptions. */
export interface FunctionInfo {
  /** Arguments; the value of the first needs no name. */
  arguments: ArgumentInfo[];
  /** Meaning. */
  help: string;
  /** Levels that it works on: `packet`, `stream`, `flow`, `record`. */
  levels: string[];
  /** Whether its reading is a list or a count of distinct values, which /api/v1/tables has. */
  list: boolean;
  /** Name. A function over records can have the name of one over packets and flows. */
  name: string;
}

/** A row of a table. */
export interface FunctionRow {
  /** Upper bound of the undercount in the ranked column, or one standard error; 0 if the row is exact. */
  error: number;
  /** Expression over packets that matches a key of a top list; "" for other keys. */
  filter: string;
  /** A value for each column: text, number, `true`, `false` or `null`; times are seconds since the epoch. */
  values: unknown[];
}

/** The table of a function. */
export interface FunctionTable {
  /** Upper bound of the ranked column for a key without a row. */
  absent: number;
  /** The function with its arguments. */
  call: string;
  /** Columns. */
  columns: FunctionColumn[];
  /** Name in the store, and in queries. */
  name: string;
  /** The keys that are not shown. */
  others: OtherRows;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** Position of the column by which rows are ranked, if it is a sum; counted from 0. */
  ranked: number | null;
  /** The heaviest rows, in order. */
  rows: FunctionRow[];
  /** The sum of the ranked column over all keys. */
  total: number | null;
}

/** All functions of subscriptions. */
export interface Functions {
  /** In the order of the manual. */
  functions: FunctionInfo[];
}

/** The reading of an interval. */
export interface IntervalReading {
  /** What its numbers are of. The answered time is the part of the interval in which the subscription was there. */
  basis: Basis;
  /** End of the interval, excluded. */
  end: number;
  /** What it leaves out, and why. */
  partial: string | null;
  /** The reading, as it stands in a line of weir.ndjson. */
  reading: unknown;
  /** Start of the interval. */
  start: number;
}

/** A table of a function with its own columns. */
export interface KeptTableInfo {
  /** Names of the columns. */
  columns: string[];
  /** Name. */
  name: string;
}

/** Something that leaves a run. */
export interface Leaving {
  /** The number of the subscription that ends there; none for what takes the rows of all. */
  subscription: number | null;
  /** Its name; of a file without its directory, unless it is shown to the user who started the program. */
  to: string;
  /**
   * What it is: `log`, `log of the run`, `packet file`, `directory`, `store`, `syslog`, `webhook`, `names` or
   * `event`.
   */
  what: string;
}

/** A counter. */
export interface LedgerRow {
  /** Meaning. */
  help: string;
  /** Label for display. */
  label: string;
  /** Whether it counts loss. */
  loss: boolean;
  /** Name in metrics. */
  name: string;
  /** Name of the counter that it is part of. */
  parent: string | null;
  /** Unit. */
  unit: string;
  /** Value since the start of the run. */
  value: number;
}

/** A top list. */
export interface ListInfo {
  /** Kind of key. */
  key: string;
  /** Name. */
  name: string;
  /** Label for display. */
  title: string;
  /** Unit of ranking: `bytes` or `packets`. */
  unit: string;
}

/** A row of a list. */
export interface ListRow {
  /** Bytes on the wire. */
  bytes: number;
  /**
   * Maximum undercount, in the list's unit; 0 when the row is exact. For lists computed from flows: by how much
   * the row may be wrong because flows cross an end of the time range.
   */
  error: number;
  /** A pcap-filter(7) expression that matches its packets. */
  filter: string;
  /** Flows with this key. */
  flows: number;
  /** Parts of the key. */
  key: Record<string, unknown>;
  /** Label for display. */
  label: string;
  /** Host name or service name. */
  name: string | null;
  /** Packets. */
  packets: number;
  /** Ranked value in each part of the time range, when parts were requested. */
  spark?: number[];
}

/** All top lists and distinct counts. */
export interface Lists {
  /** Distinct counts. */
  distinct: DistinctInfo[];
  /** Top lists. */
  lists: ListInfo[];
  /** Tables of functions with their own columns; `list NAME` in a query has their rows. */
  tables: KeptTableInfo[];
}

/** Memory of a table. */
export interface MemoryRow {
  /** Purpose. */
  help: string;
  /** Limit in bytes. */
  limit: number;
  /** Entries that found no room. */
  shed: number;
  /** Name. */
  table: string;
  /** Bytes in use; `null` where they are not counted, as for rings, which are allocated as a whole. */
  used: number | null;
}

/** Origin of the data. */
export type Mode = 'live' | 'file' | 'store';

/** A mute that is to be added. */
export interface MuteDraft {
  /** Why: at most 200 characters in one line. */
  reason?: string;
  /** Which events, or which alerts of a rule, it hides. */
  scope: MuteScope;
  /** The time at which it ends, in seconds since the epoch, at most 366 days from now; without one it does not end. */
  until?: number | null;
}

/** The events, or the alerts of a rule, that a mute would have hidden. */
export interface MutePreview {
  /** Their number. */
  count: number;
  /** The latest of the events. */
  first: Event[];
  /** Number of all events, or of all alerts of the rule, of that time that no mute hides. */
  of: number;
  /** What the answer leaves out, and why: the numbers are then lower bounds. */
  partial: string | null;
  /** Start of that time: seven days before the latest data. */
  since: number;
}

/** A mute. */
export interface MuteRow {
  /** Whether it has ended. */
  ended: boolean;
  /** Number of stored events that it hides; of a rule, number of alerts in the seven days before the latest data. */
  hits: number;
  /** Its number, which is used once. */
  number: number;
  /** Why. */
  reason: string;
  /** Which events, or which alerts of a rule, it hides. */
  scope: MuteScope;
  /** The time at which it ends; `null` if it does not. */
  until: number | null;
  /** When it was made. */
  when: number;
  /** The user or token that made it. */
  who: string;
}

/** Which events, or which alerts of a rule, a mute hides, as text. They must meet every condition that is there. */
export interface MuteScope {
  /** Names of events, such as `port_scan`; all if there are none. */
  kinds?: string[];
  /** The port that it acts on, with its protocol, as `tcp/445`; of an alert, that of the server. */
  port?: string | null;
  /** The rule whose alerts are hidden, in place of events: its group and number, as `1:2013028`. */
  rule?: string | null;
  /** An address or a net of the acting host; of an alert, of the sender of the packet in which the rule matched. */
  source?: string | null;
  /** An address or a net of the host that it acts on; of an alert, of the receiver of this packet. */
  target?: string | null;
}

/** All mutes. */
export interface Mutes {
  /** In the order of their numbers. */
  mutes: MuteRow[];
  /** Why numbers of hidden alerts are lower bounds; `null` if they are exact. */
  partial: string | null;
}

/** A top list and the expression that restricts it. */
export type Narrowed = TopList & {
  /** The expression that was applied; absent when the list covers all packets. */
  filter?: string;
};

/** Hosts and services seen in a time range and not in the seven days before it. */
export interface News {
  /** Time range of the comparison. */
  against: Against;
  /** What the numbers are of. */
  basis: Basis;
  /** What the answer leaves out, or why there is nothing to compare with. */
  partial: string | null;
  /** Heaviest first. */
  rows: NewsRow[];
}

/** A key that was not seen before. */
export interface NewsRow {
  /** Bytes on the wire. */
  bytes: number;
  /** A pcap-filter(7) expression that matches its packets. */
  filter: string;
  /** `host`, of one that sent packets, or `service`, of one that answered. */
  kind: string;
  /** Label for display. */
  label: string;
  /** Packets. */
  packets: number;
}

/** The keys of a table that are not shown. */
export interface OtherRows {
  /** Number of those that have a row. */
  keys: number;
  /** Their sum in the ranked column, and that of keys without a row. */
  sum: number | null;
}

/** Traffic between two nodes. */
export interface Path {
  /** Bytes on the wire in both directions. */
  bytes: number;
  /** Flows. */
  flows: number;
  /** Place of the first node in the list. */
  from: number;
  /** Packets. */
  packets: number;
  /** Bytes of these that the clients sent. */
  sent: number;
  /** Place of the second node. */
  to: number;
}

/** A client, a service or a server, or all others of these. */
export interface PathNode {
  /** Bytes on the wire. */
  bytes: number;
  /** A pcap-filter(7) expression that matches its packets; "" for others. */
  filter: string;
  /** Flows. */
  flows: number;
  /** Label for display. */
  label: string;
  /** Host name or service name. */
  name: string | null;
  /** Number of clients, services or servers that are together here; 0 for one by itself. */
  others: number;
  /** 0 for clients, 1 for services, 2 for servers. */
  side: number;
}

/** Clients, services and servers with the traffic between them, over all flows of a time range. */
export interface Paths {
  /** What the numbers are of. */
  basis: Basis;
  /** Their bytes on the wire in the range. */
  bytes: number;
  /** Flows that cross an end of the range. */
  crossing?: Crossing;
  /** All flows. */
  flows: number;
  /** Traffic between a client and a service, and between a service and a server; the heaviest first. */
  links: Path[];
  /** Clients, then services, then servers, each the heaviest first and those that are together last. */
  nodes: PathNode[];
  /** What the answer leaves out, and why. */
  partial: string | null;
}

/** Points of a series; `null` where nothing was measured. */
export interface Points {
  /** Averages over time. */
  avg: (number | null)[];
  /** Identifier of the series. */
  id: string;
  /** Maximum of an interval. */
  max: (number | null)[];
  /** Minimum of an interval. */
  min: (number | null)[];
}

/** Sum of several series. */
export interface PointsOfOthers {
  /** Averages over time. */
  avg: (number | null)[];
  /** Sum of the maxima, which need not have been simultaneous. */
  max: (number | null)[];
  /** Sum of the minima, which need not have been simultaneous. */
  min: (number | null)[];
}

/** Port signatures that were seen in a time range. */
export interface PortSignatures {
  /** What the numbers are of. */
  basis: Basis;
  /** What the answer leaves out. */
  partial: string | null;
  /** New ones first, then those that were seen last. */
  rows: SignatureRow[];
}

/** All record tables. */
export interface Protocols {
  /** In the order of the registry. */
  tables: TableInfo[];
}

/** A queue between threads. */
export interface QueueRow {
  /** Capacity. */
  capacity: number;
  /** Entries waiting. */
  length: number;
  /** Name. */
  name: string;
  /** Entries that found no room. */
  shed: number;
}

/** A row of a table. */
export interface RecordRow {
  /** Address of the responder. */
  destination: string;
  /** Port. */
  destination_port: number;
  /** Identifier of its flow, once that has ended. */
  flow: string | null;
  /** Address of the flow's initiator. */
  source: string;
  /** Port. */
  source_port: number;
  /** Time. */
  time: number;
  /** Zeek's uid of the flow. */
  uid: string;
  /** Values by field name. */
  values: Record<string, unknown>;
}

/** Records of a table. */
export interface Records {
  /** What the numbers are of. */
  basis: Basis;
  /** Number of matching rows on all pages. */
  matched: number;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** One page of rows. */
  rows: RecordRow[];
  /** The table. */
  table: string;
}

/** A subscription that was removed. */
export interface Removed {
  /** Time of the first packet that it does not see, to the microsecond. */
  until: number;
}

/** Alerts of a time range, added up by the rule that matched. */
export interface RuleAlerts {
  /** Alerts of all of these rules. */
  alerts: number;
  /** What the numbers are of. */
  basis: Basis;
  /** Whether rules look at flows in the run. */
  looks: boolean;
  /**
   * Number of matching alerts that a mute hides. They are in no row, unless they are asked for in place of the
   * others.
   */
  muted: number;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** The most severe first, and among those of one severity the one with the most alerts. */
  rows: RuleAlertsRow[];
  /** Number of rules with an alert. */
  rules: number;
}

/** The alerts of a rule. Message, category and severity are those of its latest alert. */
export interface RuleAlertsRow {
  /** Number of alerts. */
  alerts: number;
  /** Number of alerts whose packet the rule drops or rejects. */
  blocked: number;
  /** Description of the rule's class; `null` for a rule without a class. */
  category: string | null;
  /** Number of addresses that these packets were sent to. */
  destinations: number;
  /** Standard error of both numbers of addresses in percent; 0 if they are exact. */
  error_percent: number;
  /** An expression over flows and records that matches its alerts. */
  filter: string;
  /** Time of the first alert. */
  first: number;
  /** Group of the rule. */
  gid: number;
  /** Time of the last alert. */
  last: number;
  /** Revision of the rule. */
  rev: number;
  /** Priority of the rule: 1 is the most important; `null` if the record has none. */
  severity: number | null;
  /** Number of the rule in its group. */
  sid: number;
  /** Message of the rule. */
  signature: string;
  /** Number of addresses that sent the packets in which the rule matched. */
  sources: number;
}

/** State of the sensor. */
export interface Sensor {
  /** Connected clients. */
  clients: ClientRow[];
  /** Processing cost of stages and subscriptions. */
  costs: CostRow[];
  /** What became of what left for each log, packet file and directory. */
  destinations: DestinationRow[];
  /** The first sum of the ledger that does not hold. */
  imbalance: string | null;
  /** Packet ledger and other counters. Parts of a parent add up to it. */
  ledger: LedgerRow[];
  /** Memory of tables. */
  memory: MemoryRow[];
  /** Queues between threads. */
  queues: QueueRow[];
  /** State of the store, if any. */
  store: StoreState | null;
}

/** Points of series. */
export interface SeriesData {
  /** What the points are of. */
  basis: Basis;
  /** Flows that cross an end of the time range, when the points are computed from stored flows. */
  crossing?: Crossing;
  /** Sum of all other series, when the heaviest were requested. */
  others?: PointsOfOthers;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** Weight of each series, heaviest first, when the heaviest were requested. */
  ranking?: Weight[];
  /** In the order of the request, or heaviest first. Unknown series are left out. */
  series: Points[];
  /** Seconds between points. */
  step: number;
  /**
   * Storage tier that was read: `interval`, `5m`, `1h` or `1d`; `flows` if the points are computed from stored
   * flows.
   */
  tier: string;
  /** Start of each point. */
  times: number[];
  /** Watched seconds of each point: a rate multiplied by them is a sum. 0 where nothing was watched. */
  widths: number[];
}

/** A series. */
export interface SeriesInfo {
  /** Meaning of the values. */
  help: string;
  /** Identifier: parts joined by `/`. */
  id: string;
  /** Unit of the values. */
  unit: string;
}

/** All series. */
export interface SeriesList {
  /** Sorted by identifier. */
  series: SeriesInfo[];
}

/** A port signature: the destination ports that hosts that may be worms tried, at most ten. */
export interface SignatureRow {
  /** A pcap-filter(7) expression that matches packets to them. */
  filter: string;
  /** Begin of the first interval with it. */
  first: number;
  /** The most hosts that had it in an interval. */
  hosts: number;
  /** Number of intervals with it. */
  intervals: number;
  /** End of the last interval with it. */
  last: number;
  /** Whether it is new in the time range: not seen before it, and not by an earlier run. */
  new: boolean;
  /** Its ports, in ascending order. */
  ports: number[];
  /** Number of runs that have found it. */
  runs: number;
}

/** Size of a download. */
export interface Size {
  /** Bytes of the file. */
  bytes: number;
  /** Packets. */
  packets: number;
  /** The part that the answer omits, with the reason. */
  partial: string | null;
}

/** Where the numbers of an answer come from. */
export type Source = 'cells' | 'flows' | 'records' | 'packets';

/** The sensor and the time that it has data for. */
export interface Status {
  /** Expression of the run; "" for every packet. */
  expression: string;
  /** Start of the stored data. */
  first: number | null;
  /** Interval in seconds. */
  interval: number;
  /** End of the stored data. */
  last: number | null;
  /** Origin of the data. */
  mode: Mode;
  /** Current time of the sensor; time of the last packet in mode `file`. */
  now: number;
  /**
   * Further options of the run over files that decide which packets it has and which flows they are in, as words
   * of a command line, without --since and --until; null if its input cannot be read again.
   */
  options: string[] | null;
  /** Whether the client can download packets. */
  packets: boolean;
  /** Reason why the client cannot download packets, if there are packets that other clients can download. */
  packets_refused: string | null;
  /** What the client may do: `look`, `packets` and `write`, with commas between them. */
  rights: string;
  /** Name of the sensor. */
  sensor: string;
  /** Start of the packets that the run over files reads (--since), in RFC 3339; null without one. */
  since: string | null;
  /** Interfaces or files. */
  source: string[];
  /** Start of the run. */
  started: number;
  /** Their end, excluded (--until). */
  until: string | null;
  /** The name of the client's user or token. */
  user: string;
  /** Version of the program. */
  version: string;
  /**
   * Begin of the time that was watched: of captures the time of the first packet. Means are sums over the time
   * from here on.
   */
  watched_from: number | null;
  /** End of the time that was watched: of captures the time of the last packet. */
  watched_to: number | null;
  /** Whether the client may apply a configuration. */
  write: boolean;
  /** Time zone of the sensor, by its IANA name. */
  zone: string;
}

/** State of the store. */
export interface StoreState {
  /** Size of series and lists when every tier is full, in bytes. */
  bound: number;
  /** Bytes on disk. */
  bytes: number;
  /** Rows lost because they could not be written. */
  dropped_rows: number;
  /** Error of the last attempt to write. */
  failed: string | null;
  /** Free disk space in bytes. */
  free: number;
  /** Size limit in bytes. */
  limit: number;
  /** Directory. */
  path: string;
  /** `writing`, `waiting` (writing failed and is retried) or `reading`. */
  state: string;
  /** Tiers, with their age limits. */
  tiers: TierState[];
}

/** A subscription, and a table for each of its functions. */
export interface SubscriptionTables {
  /** Its expression; "" for everything. */
  expression: string;
  /** `packet`, `flow` or `record`; "" if it is not in the plan in effect. */
  level: string;
  /** Name. */
  name: string;
  /** Who made it: `run`, `configuration`, or `client` with its number; `null` if it is not in the plan in effect. */
  owner: string | null;
  /** Its tables, in the order of its functions. */
  tables: FunctionTable[];
  /** Label for display. */
  title: string;
  /** Why the filter does not narrow its tables; `null` if it does, and without a filter. */
  whole: string | null;
}

/** A record table. */
export interface TableInfo {
  /** Fields, in the order of the log. */
  fields: FieldInfo[];
  /** What a row describes. */
  help: string;
  /** Name. */
  name: string;
  /** Protocol; "" for tables that protocols share. */
  protocol: string;
  /** Number of stored rows. */
  rows: number;
}

/**
 * The tables of subscriptions over a time range: those of the configuration first, then the built-in ones, then
 * those that have been removed and have stored data.
 */
export interface Tables {
  /** What the numbers are of: up to the last tick, which may be after the stored range of other answers. */
  basis: Basis;
  /** Number of further subscriptions. */
  more: number;
  /** Each with its tables. */
  subscriptions: SubscriptionTables[];
}

/** A field that an expression can test as `table.field`. */
export interface TestedField {
  /** Other names by which it is found: Zeek's column and Suricata's key. */
  aliases: string[];
  /** Meaning. */
  help: string;
  /**
   * Kind of the values, or of the values of its list: `text`, `number`, `duration` (seconds), `time` (seconds
   * since the epoch), `address` or `bool`.
   */
  kind: string;
  /** Whether it has several values. */
  list: boolean;
  /** Name. */
  name: string;
  /** Whether it holds payload, which needs the right `packets`. */
  payload: boolean;
}

/** A configuration as text. */
export interface Text {
  /** TOML. */
  text: string;
}

/** One tick of a live run. */
export interface Tick {
  /** Bytes on the wire in the tick. */
  bytes: number;
  /** Packets caught since the start of the run. */
  caught: number;
  /** Packets dropped since the start of the run. */
  dropped: number;
  /** Open flows. */
  flows_active: number;
  /** Packets in the tick. */
  packets: number;
  /** Duration in seconds. */
  seconds: number;
  /** Values of series, by identifier. */
  series: Record<string, number>;
  /** The top five talkers. */
  talkers: ListRow[];
  /** End of the tick. */
  time: number;
}

/** A tier of the store. */
export interface TierState {
  /** Approximate size in bytes. */
  bytes: number;
  /** Start of the stored data. */
  first: number | null;
  /** Age limit in seconds. */
  keep: number;
  /** Name. */
  name: string;
}

/** A top list over a time range. */
export interface TopList {
  /** Upper bound for any key without a row, in `unit`. */
  absent: number;
  /** What the rows are of. */
  basis: Basis;
  /** Flows that cross an end of the time range, when the list is computed from stored flows. */
  crossing?: Crossing;
  /** Number of times that a key without a row arrived. */
  inserts: number;
  /** Kind of key. */
  key: string;
  /** Name. */
  list: string;
  /** What the answer leaves out, and why. */
  partial: string | null;
  /** Rows, heaviest first. */
  rows: ListRow[];
  /** Sum over all keys, with and without a row. */
  total: Amount;
  /** Unit that ranked the keys when they were stored. */
  unit: string;
}

/** Bytes of matching flows and of all flows, by start time. */
export interface TryHistogram {
  /** Bytes of all flows. */
  all: number[];
  /** Bytes of matching flows. */
  bytes: number[];
  /** Width of a bin in seconds. */
  step: number;
  /** Start of each bin. */
  times: number[];
  /** Seconds of each bin that were watched. Where none were, a bin without flows has no value, not zero. */
  watched: number[];
}

/** Weight of a series in a time range. */
export interface Weight {
  /** Identifier of the series. */
  id: string;
  /** Integral over time: each value times its duration in seconds. */
  weight: number;
}

/** An error in a configuration. */
export interface Wrong {
  /** Column, counted from 1, in characters. */
  column: number;
  /** Accepted values. */
  help: string | null;
  /** Line, counted from 1; 0 for the whole text. */
  line: number;
  /** The error. */
  message: string;
}
