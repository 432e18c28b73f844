// The HTTP API of Weir, version 1: its types, and the functions that call it.
//
// Times are seconds since the epoch (fractions allowed), rates are per second. Strings may hold anything that came
// from a packet: they are text, never markup. `partial` explains what a limit left out.

/** GET /api/v1/status */
export interface Status {
  version: string;
  sensor: string;
  /** Live capture, capture file, or store without capture. */
  mode: 'live' | 'file' | 'store';
  /** Interfaces or files. */
  source: string[];
  /** Expression of the run; "" for every packet. */
  expression: string;
  started: number;
  /** Current time of the sensor; time of the last packet in mode "file". */
  now: number;
  /** Interval in seconds. */
  interval: number;
  /** Time range of the stored data. */
  first: number | null;
  last: number | null;
  /** Time zone of the sensor, an IANA name. */
  zone: string;
  /** The name of this client's user or token. */
  user: string;
  /** `look`, `packets` and `write`, with commas between them. */
  rights: string;
  /** Whether this client may apply a configuration. */
  write: boolean;
  /** Whether this client can download packets. */
  packets: boolean;
  /** Why it cannot, where there are packets that others can download. */
  packets_refused: string | null;
}

export interface ChartLine {
  /** Identifier of the series. */
  id: string;
  name: string;
  expression: string;
  /** Whether it counts the packets that no other line matches. */
  remainder: boolean;
}

export interface Chart {
  name: string;
  title: string;
  /** "bits/s", "packets/s", ... */
  unit: string;
  /** Whether it is a [[chart]] of weir.toml; false for built-in charts. */
  configured: boolean;
  lines: ChartLine[];
}

/** GET /api/v1/charts */
export interface Charts {
  charts: Chart[];
}

/** GET /api/v1/series */
export interface SeriesList {
  series: { id: string; unit: string; help: string }[];
}

/** null where nothing was measured. */
export type Values = (number | null)[];

/** GET /api/v1/series/data?ids=a,b,c&from=&to=&points=600 */
export interface SeriesData {
  /** Seconds between points. */
  step: number;
  /** "interval", "5m", "1h" or "1d". */
  tier: string;
  times: number[];
  /** Watched seconds of each point: a rate multiplied by them is a sum. */
  widths?: number[];
  series: { id: string; avg: Values; min: Values; max: Values }[];
  partial: string | null;
  /** With ?chart=NAME&top=N: the sum of all lines but the N heaviest. */
  others?: { avg: Values; min: Values; max: Values } | null;
  /** With ?chart=NAME&top=N: the weight of every line, heaviest first. */
  ranking?: { id: string; weight: number }[];
}

/** GET /api/v1/series/band?ids=&from=&to=&points=&weeks=4: the same hours of previous weeks. */
export interface Band {
  times: number[];
  weeks: number;
  series: { id: string; low: Values; mid: Values; high: Values }[];
}

export interface ListInfo {
  name: string;
  title: string;
  key: string;
  unit: 'bytes' | 'packets';
}

/** GET /api/v1/lists */
export interface Lists {
  lists: ListInfo[];
  distinct: { name: string; of: string }[];
  tables: { name: string; columns: string[] }[];
}

export interface TopRow {
  label: string;
  key: Record<string, unknown>;
  packets: number;
  bytes: number;
  flows: number;
  /** Maximum undercount, in the list's unit; 0 when exact. */
  error: number;
  /** A pcap-filter expression that matches this row's packets. */
  filter: string;
  /** Host name or service name. */
  name: string | null;
  /** With `curves`: the ranked value in each part of the range. */
  spark?: number[];
}

/** GET /api/v1/top?list=sources&from=&to=&limit=20&by=bytes|packets|flows&curves=24 */
export interface TopList {
  list: string;
  key: string;
  unit: 'bytes' | 'packets';
  exact: boolean;
  rows: TopRow[];
  /** Upper bound for any key without a row, in `unit`. */
  absent: number;
  inserts: number;
  total: { packets: number; bytes: number };
  /** With a list that is computed from flows. */
  crossing?: Crossing;
  /** The answered time range: wider than requested where only coarser data is stored. */
  from?: number | null;
  to?: number | null;
  partial: string | null;
  /** The filter that was applied. */
  filter?: string | null;
}

/** Flows that cross an end of the range: what is counted of them, and what they have in all. */
export interface Crossing {
  flows: number;
  counted: { packets: number; bytes: number };
  whole: { packets: number; bytes: number };
}

/** GET /api/v1/paths?filter=EXPR&from=&to=&limit=12 */
export interface Paths {
  /** Clients (side 0), services (1) and servers (2), the heaviest first and those that are together last. */
  nodes: {
    side: 0 | 1 | 2;
    label: string;
    name: string | null;
    filter: string;
    bytes: number;
    flows: number;
    /** How many are together here; 0 for one by itself. */
    others: number;
  }[];
  /** Between two nodes, by their place in `nodes`. */
  links: { from: number; to: number; bytes: number; sent: number; packets: number; flows: number }[];
  flows: number;
  bytes: number;
  crossing?: Crossing;
  partial: string | null;
}

/** GET /api/v1/distinct?from=&to= */
export interface DistinctRow {
  name: string;
  of: string;
  estimate: number;
  error_percent: number;
}
export interface Distinct {
  rows: DistinctRow[];
}

/** GET /api/v1/new?from=&to=: hosts and services seen in the range and not in the seven days before. */
export interface News {
  rows: { kind: string; label: string; filter: string; bytes: number; packets: number }[];
  against: { from: number; to: number };
  partial: string | null;
}

/** GET /api/v1/findings?filter=EXPR&from=&to= */
export interface Findings {
  rows: { kind: string; text: string; host: string; filter: string; first: number; last: number }[];
  partial: string | null;
}

/** GET /api/v1/query?q=&zone= */
export interface Answered {
  q: string;
  columns: { name: string; unit: string }[];
  rows: unknown[][];
  /** Sum of what has no row. */
  other?: unknown[];
  /** Sum of everything that matched. */
  total?: unknown[];
  /** The range that is answered. */
  range?: [number, number];
  crossing?: Crossing;
  notes?: string[];
  partial: string | null;
}

/** GET /api/v1/fields: what an expression can be made of. */
export interface ExpressionWords {
  /** `flow`, then the tables of records. */
  tables: FieldTable[];
  operators: string[];
  /** Of pcap-filter(7). */
  words: string[];
}
export interface FieldTable {
  name: string;
  help: string;
  fields: TestedField[];
}
export interface TestedField {
  name: string;
  help: string;
  kind: 'text' | 'number' | 'duration' | 'time' | 'address' | 'bool';
  list: boolean;
  /** Whether it needs the right `packets`. */
  payload: boolean;
  aliases: string[];
}

export interface Flow {
  id: string;
  uid: string;
  community_id: string;
  first: number;
  last: number;
  protocol: string;
  source: string;
  source_port: number;
  destination: string;
  destination_port: number;
  /** Forward, reverse. */
  packets: [number, number];
  bytes: [number, number];
  state: string;
  service: string | null;
  vlan: number | null;
  name: string | null;
}

/** GET /api/v1/flows?filter=EXPR&from=&to=&sort=-bytes&limit=100&offset=0 */
export interface Flows {
  rows: Flow[];
  matched: number;
  matched_packets: number;
  matched_bytes: number;
  crossing?: Crossing;
  histogram: { step: number; times: number[]; flows: number[]; bytes: number[] };
  partial: string | null;
}

/** GET /api/v1/flows/{id} */
export interface FlowDetail {
  flow: Flow;
  details: { name: string; value: string; help: string }[];
  records: { table: string; time: number; values: Record<string, unknown> }[];
  partial: string | null;
}

export type FieldKind = 'text' | 'number' | 'duration' | 'time' | 'address' | 'list' | 'bool';
export interface Field {
  name: string;
  help: string;
  kind: FieldKind;
}
export interface ProtocolTable {
  name: string;
  help: string;
  protocol: string;
  rows: number;
  fields: Field[];
}

/** GET /api/v1/protocols */
export interface Protocols {
  tables: ProtocolTable[];
}

export interface RecordRow {
  time: number;
  flow: string | null;
  uid: string;
  source: string;
  source_port: number;
  destination: string;
  destination_port: number;
  values: Record<string, unknown>;
}

/** GET /api/v1/records/{table}?filter=EXPR&text=SUBSTRING&sort=-time&from=&to=&limit=100&offset=0 */
export interface Records {
  table: string;
  rows: RecordRow[];
  matched: number;
  partial: string | null;
}

/** A counter; parts of a parent add up to it, and follow it. */
export interface LedgerRow {
  name: string;
  label: string;
  value: number;
  unit: string;
  help: string;
  parent: string | null;
  loss: boolean;
}

/** GET /api/v1/sensor */
export interface Sensor {
  ledger: LedgerRow[];
  imbalance: string | null;
  /** `used` is null where it is not measured, as for rings. */
  memory: { table: string; used: number | null; limit: number; shed: number; help: string }[];
  costs: { name: string; kind: 'stage' | 'subscription'; ns_per_packet: number }[];
  queues: { name: string; length: number; capacity: number; shed: number }[];
  store: {
    path: string;
    bytes: number;
    limit: number;
    bound: number;
    free: number;
    state: string;
    failed: string | null;
    dropped_rows: number;
    tiers: { name: string; keep: number; bytes: number; first: number | null }[];
  } | null;
  clients: { name: string; connected: number; dropped: number }[];
}

/** GET /api/v1/events?from=&to=&limit=100 */
export interface Events {
  events: { time: number; kind: string; text: string }[];
  partial: string | null;
}

/** GET /api/v1/config; an origin is "default", "weir.toml:12" or "command line". */
export interface Config {
  path: string | null;
  text: string;
  values: { key: string; value: string; origin: string }[];
}

/** POST /api/v1/config/check and /apply, both with { text }. */
export interface ConfigCheck {
  ok: boolean;
  applied: boolean;
  errors: { line: number; column: number; message: string; help: string | null }[];
  difference: string;
}

/** GET /api/v1/filter?expression=EXPR */
export interface FilterCheck {
  ok: boolean;
  error: { message: string; offset: number; length: number; help: string | null } | null;
  canonical: string;
  explain: string[];
}

/** GET /api/v1/filter/try?expression=EXPR&from=&to=, on stored flows. */
export interface FilterTry {
  flows: number;
  packets: number;
  bytes: number;
  of: { flows: number; packets: number; bytes: number };
  histogram: { step: number; times: number[]; bytes: number[]; all: number[] };
  partial: string | null;
}

/** GET /api/v1/packets/size?filter=&from=&to= */
export interface PacketsSize {
  packets: number;
  bytes: number;
  partial: string | null;
}

/** GET /api/v1/live: `event: tick`, at most one a second; `event: end` when the capture has ended. */
export interface Tick {
  time: number;
  seconds: number;
  packets: number;
  bytes: number;
  /** Since the start of the run. */
  caught: number;
  dropped: number;
  flows_active: number;
  /** Rates by series. */
  series: Record<string, number>;
  /** The top five of the tick. */
  talkers: TopRow[];
}

export type Params = Record<string, string | number | null | undefined>;

/** A URL under /api/v1; empty and null parameters are left out. */
export function api(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(key, String(value));
  }
  const text = query.toString();
  return `/api/v1/${path}${text ? `?${text}` : ''}`;
}

/** An error of the API or of the connection to it. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly help: string | null = null,
    readonly offset: number | null = null,
    readonly length: number | null = null,
  ) {
    super(message);
  }
}

async function failure(answer: Response): Promise<ApiError> {
  let body: { error?: unknown; help?: unknown; offset?: unknown; length?: unknown } = {};
  try {
    body = await answer.json();
  } catch {
    // Not JSON: only the status line is known.
  }
  const text = typeof body.error === 'string' ? body.error : `The sensor answered ${answer.status} ${answer.statusText}.`;
  const help = typeof body.help === 'string' ? body.help : answer.status === 401 ? 'Reload the page to sign in.' : null;
  const number = (value: unknown) => (typeof value === 'number' ? value : null);
  return new ApiError(text, answer.status, help, number(body.offset), number(body.length));
}

async function request<T>(url: string, init: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(url, { ...init, headers: { accept: 'application/json', ...init.headers } });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError('The sensor does not answer.', 0, 'Check that weir is running and reachable, then retry.');
  }
  if (!answer.ok) throw await failure(answer);
  try {
    return (await answer.json()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError('Invalid answer: not JSON, or truncated.', answer.status);
  }
}

export function get<T>(url: string, signal?: AbortSignal): Promise<T> {
  return request<T>(url, { signal: signal ?? null });
}

export function post<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return request<T>(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    signal: signal ?? null,
  });
}
