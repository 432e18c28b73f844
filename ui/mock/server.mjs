// A mock of the daemon: every endpoint of the API with generated traffic, to develop the pages without a link. Run
// `npm run mock`, then `npm run dev`; after `npm run build` it also serves the pages on its port.
//
//   MOCK_PORT=8470  MOCK_MODE=live|file|store  MOCK_SLOW=milliseconds  MOCK_FAIL='regular expression of paths'
//   MOCK_LINES=10000 (a chart with 10,000 lines)  MOCK_READONLY=1

import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  beside,
  CHARTS,
  CONFIG,
  FLOW_FIELDS,
  flows as makeFlows,
  hash,
  HOSTILE,
  rate,
  record,
  TABLES,
  tablesOf,
  tier,
  unit,
} from './data.mjs';
import { dumps } from './dumps.mjs';
import { compile } from './filter.mjs';
import { FUNCTIONS, plan, tables, wrong } from './lists.mjs';
import { answer as answered } from './query.mjs';
import { instant, offsetOf } from './times.mjs';

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const CSP = [
  "default-src 'self'",
  "style-src 'self'",
  "script-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

export function serve(options = {}) {
  const given = { mode: 'live', slow: 0, fail: '', lines: 0, write: true, packets: true };
  const set = { ...given, hashes: true, measures: true, rules: true, ...options };
  const file = set.mode === 'file';
  const last = file ? 1_763_800_014.482 : Math.floor(Date.now() / 1000);
  const first = file ? last - 14.2 : last - 400 * 86_400;
  const interval = file ? 0.1 : 5;
  const now = () => (file ? last : Date.now() / 1000);
  // Flows are kept for a day, series for years.
  const all = makeFlows(file ? first : last - 86_400, last, file ? 900 : 6000);
  let config = CONFIG;
  const ofDumps = dumps(set, last);

  const streams = new Set();
  const text = (request, name) => request.searchParams.get(name) ?? '';
  const number = (request, name, otherwise) => (request.searchParams.get(name) === null ? otherwise : Number(text(request, name)));
  const range = (request) => ({
    from: Math.max(number(request, 'from', first), first),
    to: Math.min(number(request, 'to', now() + 1), now() + 1),
  });

  function selected(request, filter = text(request, 'filter')) {
    const { from, to } = range(request);
    const test = compile(filter);
    return all.filter((flow) => flow.last >= from && flow.first < to && test(flow));
  }
  const packetsOf = (flow) => flow.packets[0] + flow.packets[1];
  const bytesOf = (flow) => flow.bytes[0] + flow.bytes[1];
  const sum = (rows, value) => rows.reduce((total, row) => total + value(row), 0);

  function histogram(request, rows, count = 60) {
    const { from, to } = range(request);
    const step = (to - from) / count;
    const times = Array.from({ length: count }, (_, at) => from + at * step);
    const into = (value) => {
      const bins = new Array(count).fill(0);
      for (const row of rows) bins[Math.min(count - 1, Math.max(0, Math.floor((row.first - from) / step)))] += value(row);
      return bins;
    };
    return { step, times, flows: into(() => 1), bytes: into(bytesOf), watched: times.map(() => step) };
  }

  function times(request) {
    const { from, to } = range(request);
    const points = Math.min(60_000, number(request, 'points', 600));
    const found = file ? { tier: 'interval', step: Math.max(interval, (to - from) / points) } : tier(to - from, points, interval);
    // More points than intervals, for the drawing test.
    const step = points > 5000 ? (to - from) / points : found.step;
    const list = [];
    for (let time = Math.floor(from / step) * step; time < to && list.length < 60_000; time += step) list.push(Number(time.toFixed(3)));
    return { tier: found.tier, step, times: list };
  }
  function series(id, list, step) {
    const avg = list.map((time) => (time < first - step || time > now() ? null : rate(id, time, step)));
    return { id, avg, min: avg.map((value) => value && value * 0.8), max: avg.map((value) => value && value * 1.25) };
  }

  const scan = (source, rest) => ({
    kind: 'address_scan',
    subject: `${source} -> tcp/443`,
    host: source,
    filter: `src host ${source} and tcp dst port 443`,
    ...rest,
  });
  const EVENTS = [
    {
      ago: 30,
      kind: 'port_scan',
      text: '10.0.0.66 -> 10.0.0.9  41 ports (1-40, 443) in 0.213 s, refused',
      subject: '10.0.0.66 -> 10.0.0.9',
      host: '10.0.0.66',
      count: 41,
      open: true,
      evidence: { answered: 2, failed: 41, refused_flows: 41, unanswered_flows: 0 },
      filter: 'src host 10.0.0.66 and dst host 10.0.0.9 and tcp',
    },
    { ago: 600, kind: 'loss', text: 'eth0: 812 packets dropped in 5 s' },
    { ago: 1200, kind: 'link_down', text: 'eth0 was down for 3.000 s', subject: 'eth0' },
    ...[1800, 2600].map((ago) =>
      scan('10.1.0.11', {
        ago,
        text: '10.1.0.11 -> tcp/443  64 hosts in 3.0 s, no answer',
        count: 64,
        evidence: { answered: 0, failed: 64, refused_flows: 0, unanswered_flows: 64 },
      }),
    ),
    {
      ago: 3000,
      kind: 'syn_flood',
      text: 'syn flood -> 192.0.2.80 tcp/80  answered 0, bytes 150000, packets 2500, sources 2400',
      subject: '-> 192.0.2.80 tcp/80',
      count: 2500,
      evidence: { answered: 0, bytes: 150_000, packets: 2500, sources: 2400 },
      filter: 'dst host 192.0.2.80 and tcp dst port 80 and tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn',
    },
    { ago: 5400, kind: 'configuration', text: 'configuration applied: +1 -0 lines' },
  ];
  /** Mutes, and who has acknowledged which event. */
  let mutes = [];
  const acknowledged = new Map();
  /** All events. */
  const stored = () =>
    EVENTS.map(({ ago, subject = null, ...event }, at) => {
      const id = subject && hash(`event ${at}`).toString(16).padStart(16, '0');
      return {
        host: null,
        target: null,
        port: null,
        muted: null,
        acknowledged: acknowledged.get(id) ?? null,
        open: false,
        severity: subject ? 'warning' : 'notice',
        count: 1,
        evidence: {},
        filter: null,
        ...event,
        subject,
        time: Math.floor(last - ago),
        begin: Math.floor(last - ago) - (event.count > 1 ? 3 : 0),
        id,
      };
    });
  /** Whether a mute hides an event. The mock knows addresses, and no nets. */
  const hides = ({ kinds = [], rule = null, source = null, target = null, port = null }, event) =>
    rule === null &&
    event.id !== null &&
    (kinds.length === 0 || kinds.includes(event.kind)) &&
    (source ?? event.host) === event.host &&
    (target ?? event.target) === event.target &&
    (port ?? event.port) === event.port;
  /** Whether a mute hides an alert of a rule. The port is that of the server, and all flows with alerts are of TCP. */
  const hidesAlert = ({ rule = null, source = null, target = null, port = null }, alert) => {
    const { gid, sid, direction } = alert.values;
    const ends = [alert.source, alert.destination];
    const [from, to] = direction === 'to_client' ? ends.reverse() : ends;
    return (
      rule === `${gid}:${sid}` &&
      (source ?? from) === from &&
      (target ?? to) === to &&
      (port ?? `tcp/${alert.destination_port}`) === `tcp/${alert.destination_port}`
    );
  };
  const isMuted = (alert) => mutes.some(({ scope }) => hidesAlert(scope, alert));
  const LISTS = [
    { name: 'talkers', title: 'Top talkers', key: 'server, port and client', unit: 'bytes' },
    { name: 'services', title: 'Top services', key: 'protocol and port', unit: 'bytes' },
    { name: 'sources', title: 'Top senders', key: 'address', unit: 'bytes' },
    { name: 'destinations', title: 'Top receivers', key: 'address', unit: 'bytes' },
    { name: 'flows', title: 'Top flows', key: 'five-tuple', unit: 'bytes' },
    { name: 'protocols', title: 'Top protocols', key: 'protocol', unit: 'bytes' },
  ];
  const KEYS = {
    talkers: (flow) => [
      `${flow.destination}:${flow.destination_port} <- ${flow.source}`,
      `host ${flow.destination} and host ${flow.source} and port ${flow.destination_port}`,
      flow.name,
    ],
    services: (flow) => [`${flow.destination_port}/${flow.protocol}`, `${flow.protocol} port ${flow.destination_port}`, flow.service],
    sources: (flow) => [flow.source, `src host ${flow.source}`, null],
    destinations: (flow) => [flow.destination, `dst host ${flow.destination}`, flow.name],
    flows: (flow) => [
      `${flow.source}:${flow.source_port} -> ${flow.destination}:${flow.destination_port}`,
      `host ${flow.source} and port ${flow.source_port}`,
      null,
    ],
    hosts: (flow) => [flow.destination, `host ${flow.destination}`, flow.name],
    protocols: (flow) => [flow.service ?? 'unknown', `${flow.protocol} port ${flow.destination_port}`, null],
  };
  function top(name, rows, by, limit, exact) {
    const groups = new Map();
    for (const flow of rows) {
      const [label, filter, named] = KEYS[name](flow);
      const group = groups.get(label) ?? {
        label,
        key: {},
        packets: 0,
        bytes: 0,
        flows: 0,
        error: 0,
        filter,
        name: named,
        spark: new Array(24).fill(0),
      };
      group.packets += packetsOf(flow);
      group.bytes += bytesOf(flow);
      group.flows += 1;
      group.spark[hash(flow.id) % 24] += bytesOf(flow);
      groups.set(label, group);
    }
    const list = [...groups.values()].sort((a, b) => b[by] - a[by]).slice(0, limit);
    if (!exact) for (const row of list) row.error = Math.floor(row.bytes * 0.06 * unit(row.label));
    return list;
  }

  function recordsOf(request, name) {
    const wanted = text(request, 'text').toLowerCase();
    const rows = selected(request)
      .filter((flow) => tablesOf(flow).includes(name) && (set.rules || name !== 'alert'))
      .map((flow) => ({
        time: flow.first + 0.01,
        flow: flow.id,
        uid: flow.uid,
        source: flow.source,
        source_port: flow.source_port,
        destination: flow.destination,
        destination_port: flow.destination_port,
        values: set.hashes || name !== 'files' ? record(name, flow) : { ...record(name, flow), md5: null, sha1: null, sha256: null },
      }));
    return wanted ? rows.filter((row) => JSON.stringify(row.values).toLowerCase().includes(wanted)) : rows;
  }
  const page = (request, rows, max = 100) =>
    rows.slice(number(request, 'offset', 0), number(request, 'offset', 0) + Math.min(1000, number(request, 'limit', max)));

  function check(body) {
    const errors = [];
    body.split('\n').forEach((line, at) => {
      const match = /^\s*(intervall|memmory|\w*xx\w*)\s*=/.exec(line);
      if (match)
        errors.push({
          line: at + 1,
          column: line.indexOf(match[1]) + 1,
          message: `unknown key "${match[1]}"`,
          help: 'did you mean "interval"?',
        });
    });
    errors.push(...wrong(body));
    const before = config.split('\n');
    const after = body.split('\n');
    const difference = [
      ...before.filter((line) => !after.includes(line)).map((line) => `-${line}`),
      ...after.filter((line) => !before.includes(line)).map((line) => `+${line}`),
    ].join('\n');
    return { ok: errors.length === 0, applied: false, errors, difference, restart: [] };
  }

  const ROUTES = {
    status: () => ({
      version: '0.5.0',
      sensor: 'campus-north',
      mode: set.mode,
      source: file ? ['sample.pcap'] : ['eth0'],
      expression: '',
      options: [],
      since: null,
      until: null,
      started: first,
      now: now(),
      interval,
      first,
      last: file ? last : now(),
      watched_from: first,
      watched_to: file ? last : now(),
      zone: file ? 'UTC' : 'Europe/Berlin',
      user: 'ann',
      rights: ['look', ...(set.packets ? ['packets'] : []), ...(set.write ? ['write'] : [])].join(','),
      packets_refused: set.packets ? null : 'downloading packets needs the right packets, which ann does not have',
      write: set.write,
      packets: set.packets,
    }),
    range: (request) => {
      const zone = text(request, 'zone') || 'UTC';
      for (const [name, other] of [
        ['since', 'from'],
        ['until', 'to'],
      ]) {
        const typed = text(request, name);
        if (typed) request.searchParams.set(other, String(instant(name, typed, now(), offsetOf(zone, now()))));
      }
      if (number(request, 'from', 0) >= number(request, 'to', Infinity)) throw new Error('the end must be after the start');
      return basis(request, 'cells', 0);
    },
    charts: () => ({ charts: CHARTS(set.lines) }),
    series: () => ({
      series: [
        ...CHARTS(0).flatMap((chart) =>
          chart.lines.map((line) => ({ id: line.id, unit: chart.unit, help: `${chart.title}: ${line.name}` })),
        ),
        { id: 'ledger/caught', unit: 'packets/s', help: 'Packets read from a file or taken from a ring' },
        { id: 'ledger/dropped', unit: 'packets/s', help: 'Packets that the kernel dropped because the ring was full' },
      ],
    }),
    'series/data': (request) => {
      const found = times(request);
      const chart = CHARTS(set.lines).find((each) => each.name === text(request, 'chart'));
      if (text(request, 'chart') && set.lines > 0 && set.ranks !== true) return null;
      const ids = chart
        ? chart.lines.map((line) => line.id)
        : text(request, 'ids')
            .split(',')
            .filter((id) => id !== '');
      const { from, to } = range(request);
      const widths = found.times.map((time) => Math.max(0, Math.min(time + found.step, to) - Math.max(time, from)));
      return { ...found, widths, series: ids.map((id) => series(id, found.times, found.step)), partial: null };
    },
    'series/band': (request) => {
      const found = times(request);
      const weeks = file ? 0 : number(request, 'weeks', 4);
      return {
        times: found.times,
        weeks,
        series: text(request, 'ids')
          .split(',')
          .map((id) => {
            const past = found.times.map((time) =>
              Array.from({ length: weeks }, (_, at) => rate(id, time - (at + 1) * 604_800, found.step)),
            );
            const of = (f) => past.map((list) => (list.length ? f(list) : null));
            return {
              id,
              low: of((list) => Math.min(...list)),
              mid: of((list) => list.reduce((a, b) => a + b, 0) / list.length),
              high: of((list) => Math.max(...list)),
            };
          }),
      };
    },
    lists: () => ({
      lists: LISTS,
      distinct: [
        { name: 'sources', of: 'addresses' },
        { name: 'destinations', of: 'addresses' },
        { name: 'flows', of: 'five-tuples' },
      ],
      tables: [{ name: 'latency', columns: ['destination', 'port', 'count'] }],
    }),
    tables: (request) => tables(config, selected(request, ''), number(request, 'limit', null), text(request, 'filter')),
    plan: () => plan(config),
    functions: () => ({ functions: FUNCTIONS }),
    top: (request) => {
      const hosts = { name: 'hosts', title: 'Top hosts', key: 'address', unit: 'bytes' };
      const list = [...LISTS, hosts].find((each) => each.name === text(request, 'list'));
      if (!list) throw Object.assign(new Error(`no list "${text(request, 'list')}"`), { help: LISTS.map((each) => each.name).join(', ') });
      const by = text(request, 'by') || 'bytes';
      const rows = selected(request);
      return {
        list: list.name,
        key: list.key,
        unit: list.unit,
        rows: top(list.name, rows, by, number(request, 'limit', 20), file),
        absent: file ? 0 : 120_000,
        inserts: rows.length,
        total: { packets: sum(rows, packetsOf), bytes: sum(rows, bytesOf) },
        partial: null,
        filter: text(request, 'filter') || null,
      };
    },
    fields: () => ({
      tables: [
        {
          name: 'flow',
          help: 'Properties of flows',
          fields: FLOW_FIELDS.map(([name, kind, help]) => ({ name, kind, help, list: false, payload: false, aliases: [] })),
        },
        ...TABLES.map((table) => ({
          name: table.name,
          help: table.help,
          fields: table.fields.map((field) => ({
            ...field,
            kind: field.kind === 'list' ? 'text' : field.kind,
            list: field.kind === 'list',
            payload: field.name === 'user_agent',
            aliases: field.name === 'server_name' ? ['sni'] : [],
          })),
        })),
      ],
      operators: ['!=', '<=', '>=', '=', '<', '>', '~', 'contains', 'begins', 'ends', 'under', 'in'],
      words: ['src', 'dst', 'host', 'net', 'port', 'portrange', 'and', 'or', 'not', 'tcp', 'udp', 'icmp', 'ip', 'ip6', 'vlan', 'tcpflags'],
    }),
    findings: (request) => {
      const rows = selected(request);
      const [one] = rows.filter((flow) => flow.protocol === 'tcp');
      const text = one && `${one.source} -> ${one.destination}  41 ports (1-40, 443) in 0.213 s, refused`;
      const times = { first: one?.first, last: one?.last };
      const found = { kind: 'scan', text, host: one?.source, filter: `src host ${one?.source}`, ...times, muted: null };
      return { rows: file || !one ? [] : [found], muted: 0, partial: null };
    },
    alerts: (request) => {
      const matched = recordsOf(request, 'alert');
      const found = matched.filter((alert) => isMuted(alert) === (text(request, 'muted') === 'yes'));
      const sids = [...new Set(found.map(({ values }) => values.sid))];
      const rows = sids.map((of) => {
        const alerts = found.filter(({ values }) => values.sid === of);
        const { gid, sid, rev, signature, category, severity } = alerts[0].values;
        const ends = alerts.map(({ values, source, destination }) =>
          values.direction === 'to_client' ? [destination, source] : [source, destination],
        );
        const times = alerts.map(({ time }) => time);
        return {
          ...{ gid, sid, rev, signature, category, severity, alerts: alerts.length },
          blocked: alerts.filter(({ values }) => values.action === 'blocked').length,
          first: Math.min(...times),
          last: Math.max(...times),
          sources: new Set(ends.map(([source]) => source)).size,
          destinations: new Set(ends.map(([, destination]) => destination)).size,
          error_percent: 0,
          filter: `alert.gid = ${gid} and alert.sid = ${sid} and alert.rev = ${rev}`,
        };
      });
      rows.sort((a, b) => a.severity - b.severity || b.alerts - a.alerts);
      return { rows, rules: rows.length, alerts: found.length, muted: matched.filter(isMuted).length, looks: set.rules, partial: null };
    },
    signatures: (request) => {
      const { from, to } = range(request);
      const row = (ports, first, last, rest) => ({
        ...{ ports, first, last, new: first >= from, hosts: 1, intervals: 1, runs: 1, ...rest },
        filter: ports.map((port) => `tcp dst port ${port}`).join(' or '),
      });
      const rows = [
        row([443, 445], to - 900, to - 60, { hosts: 3, intervals: 14 }),
        row([22, 23, 2323, 5555, 7547, 8080, 37_215, 52_869], from - 40 * 86_400, to - 600, { hosts: 12, intervals: 2044, runs: 6 }),
        row([3389], from - 9000, to - 1200, { intervals: 7, runs: 2 }),
      ];
      return { rows: file ? [] : rows, partial: null };
    },
    query: (request) => {
      const question = text(request, 'q');
      if (question.startsWith('quantiles series')) {
        const names = ['series', 'points', 'least', 'p50', 'p90', 'p95', 'p99', 'most'];
        const columns = names.map((name, at) => ({ name, unit: at > 1 ? 'bits/s' : '' }));
        return {
          q: question,
          columns,
          rows: [['ledger/bytes', 288, 2e7, 9e7, 1.3e8, 1.42e8, 1.5e8, 1.6e8]],
          notes: ['of averages over 300 s'],
          partial: null,
        };
      }
      if (!set.measures && question.startsWith('quantiles stream.')) return { ...answered(question, all), rows: [] };
      return answered(question, all);
    },
    distinct: (request) => {
      const rows = selected(request);
      const count = (key) => new Set(rows.map(key)).size;
      return {
        rows: [
          {
            name: 'sources',
            of: 'addresses',
            estimate: count((flow) => flow.source),
            most: count((flow) => flow.source),
            error_percent: 1.6,
          },
          {
            name: 'destinations',
            of: 'addresses',
            estimate: count((flow) => flow.destination),
            most: count((flow) => flow.destination),
            error_percent: 1.6,
          },
          { name: 'flows', of: 'five-tuples', estimate: rows.length, most: rows.length, error_percent: 0.8 },
        ],
      };
    },
    new: (request) => {
      const { from } = range(request);
      return {
        rows: file
          ? []
          : [
              { kind: 'host', label: '10.1.2.144', filter: 'host 10.1.2.144', bytes: 48_213_000, packets: 51_000 },
              { kind: 'service', label: '8443/tcp', filter: 'tcp port 8443', bytes: 9_120_000, packets: 11_000 },
              { kind: 'host', label: HOSTILE, filter: 'host 192.0.2.80', bytes: 81_000, packets: 130 },
            ],
        against: { from: from - 7 * 86_400, to: from },
        partial: file ? 'No data before this time to compare with.' : null,
      };
    },
    flows: (request) => {
      const rows = selected(request);
      const sort = text(request, 'sort') || '-bytes';
      const key = sort.replace('-', '');
      const value = {
        first: (f) => f.first,
        last: (f) => f.last,
        duration: (f) => f.last - f.first,
        bytes: bytesOf,
        packets: packetsOf,
        source: (f) => f.source,
        destination: (f) => f.destination,
        service: (f) => f.service ?? '',
        state: (f) => f.state,
      }[key];
      if (!value)
        throw Object.assign(new Error(`invalid sort key "${key}"`), {
          help: 'first, last, duration, bytes, packets, source, destination, service, state',
        });
      const sorted = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sort.startsWith('-') ? -1 : 1));
      const { from } = range(request);
      const names = text(request, 'fields')
        .split(',')
        .filter((name) => name !== '');
      return {
        rows: page(request, sorted).map((flow) => (names.length > 0 ? { ...flow, values: beside(flow, names) } : flow)),
        matched: rows.length,
        matched_packets: sum(rows, packetsOf),
        matched_bytes: sum(rows, bytesOf),
        histogram: histogram(request, rows),
        partial: !file && from < last - 86_400 ? 'Flows are kept for one day; older flows are left out.' : null,
      };
    },
    paths: (request) => {
      const rows = selected(request);
      const limit = Number(text(request, 'limit') || 12);
      const service = (flow) => (flow.destination_port ? `${flow.destination_port}/${flow.protocol}` : flow.protocol);
      const ends = [(flow) => flow.source, service, (flow) => flow.destination];
      const filters = [
        (flow) => `host ${flow.source}`,
        (flow) => (flow.destination_port ? `${flow.protocol} port ${flow.destination_port}` : flow.protocol),
        (flow) => `host ${flow.destination}`,
      ];
      const nodes = [];
      const places = ends.map((end, side) => {
        const sums = new Map();
        for (const flow of rows) {
          const node = sums.get(end(flow)) ?? {
            side,
            label: end(flow),
            name: side === 1 ? flow.service : side === 2 ? flow.name : null,
            filter: filters[side](flow),
            bytes: 0,
            flows: 0,
            others: 0,
          };
          node.bytes += bytesOf(flow);
          node.flows += 1;
          sums.set(end(flow), node);
        }
        const order = [...sums.values()].sort((a, b) => b.bytes - a.bytes);
        const rest = order.slice(limit);
        const first = nodes.length;
        nodes.push(...order.slice(0, limit));
        if (rest.length) {
          const add = (name) => rest.reduce((all, node) => all + node[name], 0);
          nodes.push({
            side,
            label: `${rest.length} other`,
            name: null,
            filter: '',
            bytes: add('bytes'),
            flows: add('flows'),
            others: rest.length,
          });
        }
        const known = new Map(order.map((node, at) => [node.label, first + Math.min(at, limit)]));
        return (flow) => known.get(end(flow));
      });
      const links = new Map();
      for (const flow of rows) {
        for (const side of [0, 1]) {
          const [from, to] = [places[side](flow), places[side + 1](flow)];
          const link = links.get(`${from} ${to}`) ?? { from, to, bytes: 0, sent: 0, packets: 0, flows: 0 };
          link.bytes += bytesOf(flow);
          link.sent += flow.bytes[0];
          link.packets += packetsOf(flow);
          link.flows += 1;
          links.set(`${from} ${to}`, link);
        }
      }
      return {
        nodes,
        links: [...links.values()].sort((a, b) => b.bytes - a.bytes),
        flows: rows.length,
        bytes: sum(rows, bytesOf),
        partial: null,
      };
    },
    protocols: () => ({
      tables: TABLES.map((table) => ({ ...table, rows: all.filter((flow) => tablesOf(flow).includes(table.name)).length })),
    }),
    sensor: () => {
      const caught = 1_284_113_902,
        dropped = file ? 0 : 61_204;
      const row = (name, label, value, parent, loss, help) => ({ name, label, value, unit: 'packets', help, parent, loss });
      return {
        ledger: [
          row('offered', 'offered', caught + dropped, null, false, 'Packets that the source offered'),
          row('dropped', 'dropped by the kernel', dropped, 'offered', true, 'Packets that the kernel dropped because the ring was full'),
          row('caught', 'caught', caught, 'offered', false, 'Packets taken from the ring'),
          row('errors', 'malformed', 1412, 'caught', true, 'Packets with an invalid header'),
          row('decoded', 'decoded', caught - 1412, 'caught', false, 'Packets with valid headers'),
          row('outside', 'not matched', 0, 'decoded', false, 'Packets that the expression did not match'),
          row('analysed', 'analysed', caught - 1412, 'decoded', false, 'Packets in flows'),
          row('shed', 'shed: table full', 802, 'analysed', true, 'Packets without a flow because the table was full'),
          row('written', 'written', caught - 1412 - 802, 'analysed', false, 'Packets in stored flows'),
        ],
        imbalance: null,
        memory: [
          ['flows', 0.62],
          ['reassembly', 0.21],
          ['records', 0.07],
          ['top lists', 1],
          ['filter', 0.02],
        ].map(([table, part]) => ({
          table,
          used: Math.floor(part * 2 ** 27),
          limit: 2 ** 27,
          shed: part === 1 ? 18 : 0,
          help: `Memory of ${table}`,
        })),
        costs: [
          ['decode', 'stage', 14.2],
          ['flow table', 'stage', 11.8],
          ['reassembly', 'stage', 6.1],
          ['ports', 'subscription', 1.9],
          ['protocols', 'subscription', 2.4],
          ['top sources', 'subscription', 4.4],
        ].map(([name, kind, ns_per_packet]) => ({ name, kind, ns_per_packet })),
        queues: [
          ['worker 0 to collector', 12],
          ['worker 1 to collector', 1024],
          ['store', 3],
        ].map(([name, length]) => ({ name, length, capacity: 1024, shed: length === 1024 ? 211 : 0 })),
        store: {
          path: '/var/lib/weir',
          bytes: 412e6,
          limit: 4e9,
          bound: 1.9e9,
          free: 81e9,
          state: 'writing',
          failed: null,
          dropped_rows: 0,
          tiers: [
            ['interval', 2 * 86_400, 61e6],
            ['5m', 14 * 86_400, 44e6],
            ['1h', 365 * 86_400, 102e6],
            ['1d', 3650 * 86_400, 9e6],
          ].map(([name, keep, bytes]) => ({ name, keep, bytes, first: Math.max(first, last - keep) })),
        },
        destinations: [
          { name: 'eve', unit: 'rows', offered: 91_204, written: 91_204, shed: 0, lost: 0, limited: 0, missing: 0, bytes: 0 },
          { name: 'dns.pcapng', unit: 'packets', offered: 8120, written: 8100, shed: 20, lost: 0, limited: 0, missing: 3, bytes: 913_000 },
        ],
        clients: [
          { name: 'event streams', connected: 1, dropped: 0 },
          { name: 'queries', connected: 0, dropped: 2 },
        ],
      };
    },
    mutes: () => ({
      mutes: mutes.map((mute) => ({
        ...mute,
        hits:
          stored().filter((event) => hides(mute.scope, event)).length +
          recordsOf(new URL('http://mock/'), 'alert').filter((alert) => hidesAlert(mute.scope, alert)).length,
      })),
      partial: null,
    }),
    events: (request) => {
      const { from, to } = range(request);
      const events = stored()
        .filter((event) => !file && event.time >= from && event.time < to)
        .map((event) => ({ ...event, muted: mutes.find((mute) => hides(mute.scope, event))?.number ?? null }))
        .sort((a, b) => b.time - a.time);
      return {
        events: events.filter((event) => event.muted === null || text(request, 'muted') === 'yes'),
        muted: events.filter((event) => event.muted !== null).length,
        partial: null,
      };
    },
    config: () => ({
      path: '/etc/weir/weir.toml',
      text: config,
      values: [
        ['interface', 'eth0', 'weir.toml:2'],
        ['interval', '5s', 'weir.toml:3'],
        ['memory', '1G', 'weir.toml:4'],
        ['chart.ports', '4 lines', 'weir.toml:6'],
        ['keep', '30d', 'default'],
        ['http.port', '8470', 'command line'],
      ].map(([key, value, origin]) => ({ key, value, origin })),
    }),
    filter: (request) => {
      const expression = text(request, 'expression');
      try {
        compile(expression);
        return {
          ok: true,
          error: null,
          canonical: expression.trim().replace(/\s+/g, ' '),
          explain: ['decided once per flow', 'costs 0.4 ns per packet'],
        };
      } catch (error) {
        const before = Buffer.byteLength(expression.slice(0, error.offset));
        return {
          ok: false,
          error: { message: error.message, offset: before, length: error.length, help: error.help },
          canonical: '',
          explain: [],
        };
      }
    },
    'filter/try': (request) => {
      const rows = selected(request, text(request, 'expression'));
      const whole = selected(request, '');
      const part = histogram(request, rows);
      return {
        flows: rows.length,
        packets: sum(rows, packetsOf),
        bytes: sum(rows, bytesOf),
        of: { flows: whole.length, packets: sum(whole, packetsOf), bytes: sum(whole, bytesOf) },
        histogram: { step: part.step, times: part.times, watched: part.watched, bytes: part.bytes, all: histogram(request, whole).bytes },
        partial: null,
      };
    },
    'packets/size': (request) => {
      const rows = selected(request);
      return { packets: sum(rows, packetsOf), bytes: 24 + sum(rows, (flow) => bytesOf(flow) + 16 * packetsOf(flow)), partial: null };
    },
  };

  /** The basis of an answer: ranges are not moved here. */
  function basis(request, source, bound) {
    const asked = [number(request, 'from', first), number(request, 'to', now() + 1)];
    const { from, to } = range(request);
    return { asked, range: asked, watched: Math.max(0, to - from), source, bound };
  }

  function answer(name, request, body) {
    const found = answerOf(name, request, body);
    const cells = ['series/data', 'series/band', 'distinct', 'tables', 'signatures'];
    const flows = ['paths', 'new', 'findings', 'flows', 'filter/try', 'query'];
    if (!found || found.basis) return found;
    if (name === 'top') return { ...found, basis: basis(request, 'cells', file ? 0 : found.absent) };
    if (cells.includes(name)) return { ...found, basis: basis(request, 'cells', 0) };
    if (name === 'alerts' || name.startsWith('records/')) return { ...found, basis: basis(request, 'records', 0) };
    return flows.includes(name) ? { ...found, basis: basis(request, 'flows', 0) } : found;
  }

  function answerOf(name, request, body) {
    if (name.startsWith('flows/')) {
      const flow = all.find((each) => each.id === name.slice(6));
      if (!flow) return null;
      return {
        flow,
        details: [
          { name: 'duration', value: `${(flow.last - flow.first).toFixed(3)} s`, help: 'From the first packet to the last' },
          { name: 'flags', value: 'SYN ACK PSH FIN', help: 'TCP flags of all packets' },
          { name: 'round trip', value: '12.4 ms', help: 'Of the handshake' },
        ],
        records: tablesOf(flow).map((table) => ({ table, time: flow.first + 0.01, values: record(table, flow) })),
        partial: null,
      };
    }
    if (name.startsWith('records/')) {
      const table = TABLES.find((each) => each.name === name.slice(8));
      if (!table) return null;
      const asked = text(request, 'muted');
      const rows = recordsOf(request, table.name).filter((row) => asked === '' || isMuted(row) === (asked === 'yes'));
      const sort = text(request, 'sort') || '-time';
      const key = sort.replace('-', '');
      const value = (row) => ({ time: row.time, client: row.source, server: row.destination })[key] ?? row.values[key] ?? '';
      rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sort.startsWith('-') ? -1 : 1));
      return { table: table.name, rows: page(request, rows), matched: rows.length, partial: null };
    }
    if (name === 'mutes' && body) {
      const { scope, until, reason } = JSON.parse(body);
      const mute = { number: mutes.length + 1, scope, until, ended: false, reason, who: 'ann', when: now(), hits: 0 };
      mutes.push(mute);
      return mute;
    }
    if (name === 'mutes/preview') {
      const { scope } = JSON.parse(body);
      const hidden = stored().filter((event) => hides(scope, event));
      const since = last - 7 * 86_400;
      if (scope.rule) {
        const alerts = recordsOf(new URL('http://mock/'), 'alert').filter((alert) => !isMuted(alert));
        const count = alerts.filter((alert) => hidesAlert(scope, alert)).length;
        const of = alerts.filter((alert) => hidesAlert({ rule: scope.rule }, alert)).length;
        return { count, of, since, first: [], partial: null };
      }
      return { count: hidden.length, of: stored().filter((event) => event.id).length, since, first: hidden.slice(0, 5), partial: null };
    }
    if (name.startsWith('mutes/')) {
      const mute = mutes.find((each) => `mutes/${each.number}` === name);
      mutes = mutes.filter((each) => each !== mute);
      return mute ?? null;
    }
    if (name === 'events/acknowledge') {
      const { ids, note } = JSON.parse(body);
      ids.forEach((id) => acknowledged.set(id, { who: 'ann', when: now(), note }));
      return { ids };
    }
    if (name === 'config/check' || name === 'config/apply') {
      const wanted = JSON.parse(body).text;
      const result = check(wanted);
      if (name === 'config/apply' && result.ok) {
        config = wanted;
        result.applied = true;
      }
      return result;
    }
    return ROUTES[name]?.(request) ?? null;
  }

  function live(response) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    let caught = 0;
    let dropped = 0;
    const tick = () => {
      const time = Math.floor(Date.now() / 1000);
      const bits = rate('traffic/all', time, 1);
      const packets = Math.round(rate('ledger/caught', time, 1));
      const recent = all.filter((flow) => hash(flow.id + Math.floor(time / 3)) % 40 === 0);
      const talkers = top('talkers', recent, 'bytes', 5, true);
      const scale =
        (0.7 * bits) /
        8 /
        Math.max(
          1,
          sum(talkers, (row) => row.bytes),
        );
      for (const row of talkers) row.bytes = Math.round(row.bytes * scale);
      const data = {
        time,
        seconds: 1,
        packets,
        bytes: Math.round(bits / 8),
        caught: (caught += packets),
        dropped: (dropped += Math.round(rate('ledger/dropped', time, 1))),
        flows_active: 4100 + (hash(String(time)) % 300),
        series: Object.fromEntries(CHARTS(0).flatMap((chart) => chart.lines.map((line) => [line.id, rate(line.id, time, 1)]))),
        talkers,
      };
      response.write(`event: tick\ndata: ${JSON.stringify(data)}\n\n`);
    };
    tick();
    const each = setInterval(tick, 1000);
    streams.add(response);
    response.on('close', () => {
      clearInterval(each);
      streams.delete(response);
    });
  }

  const server = createServer(async (incoming, response) => {
    const request = new URL(incoming.url ?? '/', 'http://mock');
    response.setHeader('content-security-policy', CSP);
    response.setHeader('x-content-type-options', 'nosniff');
    const json = (status, value) => {
      response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
      response.end(JSON.stringify(value));
    };
    if (request.pathname.startsWith('/api/v1/')) {
      const name = decodeURIComponent(request.pathname.slice('/api/v1/'.length));
      if (set.slow && name !== 'status') await new Promise((done) => setTimeout(done, set.slow).unref());
      // The client has closed the connection.
      if (incoming.destroyed || response.destroyed) return undefined;
      if (set.fail && new RegExp(set.fail).test(name))
        return json(500, { error: 'the store cannot be read', help: 'see `weir store check`' });
      if (name === 'live') return set.mode === 'live' && !set.deaf ? live(response) : json(404, { error: 'no live data' });
      if (name === 'packets') {
        response.writeHead(200, {
          'content-type': 'application/vnd.tcpdump.pcap',
          'content-disposition': 'attachment; filename="weir.pcap"',
        });
        return response.end(Buffer.from('d4c3b2a1020004000000000000000000ffff000001000000', 'hex'));
      }
      if (name === 'dumps' || name.startsWith('dumps/')) {
        const [status, value] = ofDumps(incoming.method, name.slice('dumps/'.length));
        if (!Buffer.isBuffer(value)) return status === 204 ? response.writeHead(204).end() : json(status, value);
        const disposition = `attachment; filename="${name.slice('dumps/'.length)}"`;
        response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-disposition': disposition });
        return response.end(value);
      }
      let body = '';
      try {
        for await (const part of incoming) body += part;
      } catch {
        return undefined;
      }
      try {
        const value = answer(name, request, body);
        return value === null ? json(404, { error: `no such route: ${request.pathname}` }) : json(200, value);
      } catch (error) {
        return json(400, { error: error.message, help: error.help ?? null, offset: error.offset ?? null, length: error.length ?? null });
      }
    }
    if (request.pathname === '/healthz') return response.end('ok');
    const path = join(DIST, normalize(request.pathname));
    const found = path.startsWith(DIST) && existsSync(path) && statSync(path).isFile() ? path : join(DIST, 'index.html');
    if (!existsSync(found)) return json(404, { error: 'the pages are not built: npm run build' });
    response.setHeader('content-type', TYPES[extname(found)] ?? 'application/octet-stream');
    if (found.endsWith('index.html')) return response.end(readFileSync(found));
    createReadStream(found).pipe(response);
  });
  return new Promise((done) =>
    server.listen(set.port ?? 0, '127.0.0.1', () =>
      done({
        url: `http://127.0.0.1:${server.address().port}`,
        set,
        end: () => {
          for (const each of streams) each.write('event: end\ndata: {}\n\n');
        },
        /** Breaks every event stream and refuses new ones while `on`. */
        deaf: (on) => {
          set.deaf = on;
          if (on) for (const each of streams) each.destroy();
        },
        stop: () => {
          server.closeAllConnections();
          server.close();
        },
      }),
    ),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const env = process.env;
  const { url } = await serve({
    port: Number(env.MOCK_PORT ?? 8470),
    mode: env.MOCK_MODE ?? 'live',
    slow: Number(env.MOCK_SLOW ?? 0),
    fail: env.MOCK_FAIL ?? '',
    lines: Number(env.MOCK_LINES ?? 0),
    write: !env.MOCK_READONLY,
  });
  console.log(`generated traffic on ${url}`);
}
