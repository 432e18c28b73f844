// A part of the query language over generated flows: `count TABLE by KEY`, `top KEY by MEASURE` and `quantiles FIELD by KEY`, with
// `limit`, `points`, `compare`, `since`, `until` and `where`.

import { FLOW_FIELDS, record, tablesOf } from './data.mjs';
import { compile } from './filter.mjs';

const KEYS = {
  client: (flow) => flow.source,
  server: (flow) => flow.destination,
  host: (flow) => flow.destination,
  service: (flow) => `${flow.protocol}/${flow.destination_port}`,
  protocol: (flow) => flow.protocol,
  state: (flow) => flow.state,
  vlan: (flow) => flow.vlan,
};
const FLOW = {
  ...Object.fromEntries(FLOW_FIELDS.map(([name, , , value]) => [name, value])),
  vlan: (flow) => flow.vlan,
};

/** The values of a key or field: of a flow, or of a record of it. */
function valuesOf(key, table, flow) {
  const [of, name] = key.includes('.') ? key.split('.') : [table, key];
  if (of === 'flow' && key.includes('.')) return [FLOW[name]?.(flow) ?? null];
  if (table !== 'flow' && tablesOf(flow).includes(table)) {
    const value = record(table, flow)[name];
    if (value !== undefined) return Array.isArray(value) ? value : [value];
  }
  return [KEYS[key]?.(flow) ?? null];
}

const packetsOf = (flow) => flow.packets[0] + flow.packets[1];
const bytesOf = (flow) => flow.bytes[0] + flow.bytes[1];

export function answer(question, flows) {
  const [front, where = ''] = question.split(/ where (.*)/s);
  const words = front.split(/\s+/);
  const after = (word) => words[words.indexOf(word) + 1];
  const limit = Number(words.includes('limit') ? after('limit') : 20);
  const [from, to] = [Number(after('since')), Number(after('until'))];
  const test = compile(where);
  const within = (begin, end) => flows.filter((flow) => flow.first >= begin && flow.first < end && test(flow));
  const [subject, first] = words;
  const table = subject === 'count' ? first.replace('flows', 'flow') : 'flow';
  const key = subject === 'top' ? first : words.includes('by') ? after('by') : '';
  const measure = subject === 'top' ? after('by') : table === 'flow' ? 'flows' : 'records';
  const field = measure?.startsWith('flow.') ? measure.slice(5) : null;
  const weight = (flow) =>
    field ? Number(FLOW[field](flow) ?? 0) : measure === 'bytes' ? bytesOf(flow) : measure === 'packets' ? packetsOf(flow) : 1;
  const rows = within(from, to).filter((flow) => table === 'flow' || tablesOf(flow).includes(table));
  if (subject === 'quantiles') {
    const groups = new Map();
    for (const flow of rows) {
      const value = key ? valuesOf(key, 'flow', flow)[0] : '';
      groups.set(value, [...(groups.get(value) ?? []), flow]);
    }
    const names = ['count', 'least', 'p50', 'p90', 'p95', 'p99', 'most', 'name'];
    const columns = [...(key ? [key] : []), ...names].map((name) => ({ name, unit: name === key || name === 'count' ? '' : 's' }));
    const of = (list, part) => list[Math.max(0, Math.ceil(part * list.length) - 1)];
    const found = [...groups].slice(0, limit).map(([value, group]) => {
      const sorted = group.map((flow) => (flow.last - flow.first) / 100).sort((a, b) => a - b);
      const cells = [sorted.length, sorted[0], ...[0.5, 0.9, 0.95, 0.99].map((part) => of(sorted, part)), sorted.at(-1), null];
      return key ? [value, ...cells] : cells;
    });
    return { q: question, columns, rows: found, partial: null };
  }
  const sums = (list) => {
    const found = new Map();
    for (const flow of list) for (const value of valuesOf(key, table, flow)) found.set(value, (found.get(value) ?? 0) + weight(flow));
    return found;
  };
  const ranked = [...sums(rows)].sort((a, b) => b[1] - a[1]);
  const shown = ranked.slice(0, limit);
  const total = rows.reduce((sum, flow) => sum + weight(flow), 0);
  const rest = ranked.slice(limit).reduce((sum, [, value]) => sum + value, 0);
  if (words.includes('points')) {
    const points = Number(after('points'));
    const step = (to - from) / points;
    const columns = [{ name: 'time', unit: '' }, ...shown.map(([value]) => ({ name: String(value ?? '-'), unit: measure }))];
    if (rest > 0) columns.push({ name: 'other', unit: measure });
    const over = Array.from({ length: points }, (_, at) => {
      const here = sums(within(from + at * step, from + (at + 1) * step).filter((flow) => rows.includes(flow)));
      const cells = shown.map(([value]) => here.get(value) ?? 0);
      const others = [...here].filter(([value]) => !shown.some(([other]) => other === value)).reduce((sum, [, value]) => sum + value, 0);
      return [new Date((from + at * step) * 1000).toISOString(), ...cells, ...(rest > 0 ? [others] : [])];
    });
    return { q: question, columns, rows: over, range: [from, to], partial: null };
  }
  const columns = [
    { name: key, unit: '' },
    { name: measure, unit: measure },
  ];
  const row = (value, sum) => [value, sum];
  const found = shown.map(([value, sum]) => row(value, sum));
  const result = {
    q: question,
    columns,
    rows: found,
    other: rest > 0 ? row(null, rest) : undefined,
    total: row(null, total),
    partial: null,
  };
  if (words.includes('compare')) {
    const before = sums(within(from - (to - from), from));
    const whole = [...before.values()].reduce((sum, value) => sum + value, 0);
    const cells = (now, then) => [then, then > 0 ? Math.round((1000 * (now - then)) / then) / 10 : null];
    columns.push({ name: 'before', unit: measure }, { name: 'change', unit: '%' });
    for (const cell of found) cell.push(...cells(cell[1], before.get(cell[0]) ?? 0));
    result.total.push(...cells(total, whole));
    result.other?.push(...cells(rest, 0));
    result.notes = ['compared with the range before'];
  }
  return result;
}
