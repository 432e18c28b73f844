// Subscriptions over records, as far as the pages need them: `top FIELDS show N`, `distinct FIELD`, `quantiles FIELD by FIELDS` and
// `records`, counted over generated flows.

import { record, tablesOf } from './data.mjs';
import { compile } from './filter.mjs';

export const FUNCTIONS = [
  { name: 'packets', list: false, help: 'Number of packets.', levels: ['packet', 'flow'], arguments: [] },
  {
    name: 'top',
    list: true,
    help: 'The heaviest keys.',
    levels: ['packet', 'flow'],
    arguments: [
      { name: 'by', help: 'The key: talker, source, destination.', default: 'talker' },
      { name: 'show', help: 'Number of rows to show, 1 to 1000.', default: '10' },
    ],
  },
  { name: 'records', list: true, help: 'Number of records.', levels: ['record'], arguments: [] },
  {
    name: 'top',
    list: true,
    help: 'Most frequent values of fields.',
    levels: ['record'],
    arguments: [
      { name: 'by', help: 'The key: up to four of table.field, source, destination and port, joined by commas.', default: 'source' },
      { name: 'show', help: 'Number of rows to show, 1 to 1000.', default: '10' },
    ],
  },
  {
    name: 'distinct',
    list: true,
    help: 'Number of distinct values of a field.',
    levels: ['record'],
    arguments: [{ name: 'of', help: 'The field: table.field, source, destination or port.', default: 'source' }],
  },
  {
    name: 'quantiles',
    list: true,
    help: 'Quantiles of a number, of all records or by fields.',
    levels: ['record'],
    arguments: [
      { name: 'of', help: 'The field: table.field.', default: null },
      { name: 'by', help: 'The key, as in top; none for all records together.', default: '' },
      { name: 'show', help: 'Number of rows to show, 1 to 1000.', default: '10' },
    ],
  },
];

const BUILT_IN = [
  { name: 'names', title: 'Names asked', owner: 'run', level: 'record', expression: '', functions: ['top dns.query show 10'] },
  { name: 'sites', title: 'TLS sites', owner: 'run', level: 'record', expression: '', functions: ['top tls.server_name show 10'] },
  {
    name: 'answers',
    title: 'Answers of DNS by server',
    owner: 'run',
    level: 'record',
    expression: '',
    functions: ['quantiles dns.rtt by destination'],
  },
  {
    name: 'latency',
    title: 'Latency by server',
    owner: 'run',
    level: 'record',
    expression: '',
    functions: ['quantiles dns.rtt by destination,port', 'quantiles dns.rtt by destination'],
  },
];

/** The subscriptions of a configuration's text, one key on each line, as the pages write them. */
function configured(text) {
  const found = [];
  let block = null;
  for (const line of text.split('\n')) {
    if (/^\s*\[/.test(line)) {
      block = /^\s*\[\[subscription\]\]/.test(line) ? { name: '', level: 'packet', expression: '', functions: [] } : null;
      if (block) found.push(block);
    }
    const [, key, value] = /^\s*(\w+)\s*=\s*(.*)$/.exec(line) ?? [];
    if (!block || !key) continue;
    const strings = [...value.matchAll(/'([^']*)'|"((?:[^"\\]|\\.)*)"/g)].map((each) => each[1] ?? JSON.parse(`"${each[2]}"`));
    if (key === 'where') block.expression = strings[0];
    else if (key === 'chain') block.functions = strings;
    else block[key] = strings[0];
  }
  return found.map((each) => ({ ...each, title: each.name, owner: 'configuration' }));
}

/** Errors of the subscriptions in a text: an expression that does not compile, at its line and column. */
export function wrong(text) {
  return text.split('\n').flatMap((line, at) => {
    const [, front, expression] = /^(\s*where\s*=\s*')([^']*)'/.exec(line) ?? [];
    if (expression === undefined) return [];
    try {
      compile(expression);
      return [];
    } catch (error) {
      return [{ line: at + 1, column: front.length + 1 + (error.offset ?? 0), message: error.message, help: error.help ?? null }];
    }
  });
}

function parse(call) {
  const [name, ...words] = call.split(/\s+/);
  const spec = FUNCTIONS.find((each) => each.name === name && each.levels.includes('record'));
  const values = Object.fromEntries((spec?.arguments ?? []).map((argument) => [argument.name, argument.default ?? '']));
  if (words.length % 2 === 1 && spec) values[spec.arguments[0].name] = words.shift();
  for (let at = 0; at + 1 < words.length; at += 2) values[words[at]] = words[at + 1];
  return { name, values };
}

/** The values of a part of a key in a flow's records; none if it has no such record. */
function values(part, flow) {
  if (part === 'source') return [flow.source];
  if (part === 'destination') return [flow.destination];
  if (part === 'port') return [flow.destination_port];
  const [table, field] = part.split('.');
  if (!tablesOf(flow).includes(table)) return [];
  const value = record(table, flow)[field];
  return Array.isArray(value) ? value : value === null || value === undefined ? [] : [value];
}

const key = (part) => ({
  name: part.replace('.', '_'),
  kind: 'key',
  unit: '',
  help: '',
  field: part.includes('.') ? part : null,
});

function table(of, call, flows, limit) {
  const { name, values: given } = parse(call);
  const test = compile(of.expression);
  const matching = flows.filter((flow) => test(flow) && tablesOf(flow).length > 0);
  const shape = { name: of.functions.indexOf(call) === 0 ? of.name : `${of.name} ${name}`, call, absent: 0, ranked: null, partial: null };
  const single = (column, value) => ({
    ...shape,
    columns: [{ unit: '', help: '', field: null, ...column }],
    rows: [{ values: [value], error: 0, filter: '' }],
    others: { keys: 0, sum: null },
    total: null,
  });
  if (name === 'records') return single({ name: 'records', kind: 'sum' }, matching.length);
  if (name === 'distinct') {
    const found = new Set(matching.flatMap((flow) => values(given.of, flow)));
    return single({ name: given.of.replace('.', '_'), kind: 'distinct' }, found.size);
  }
  const parts = (given.by ?? '').split(',').filter((each) => each !== '');
  const groups = new Map();
  for (const flow of matching) {
    const all = parts.map((part) => values(part, flow)[0]);
    const measured = name === 'quantiles' ? values(given.of, flow)[0] : 1;
    if (all.includes(undefined) || measured === undefined) continue;
    const id = JSON.stringify(all);
    groups.set(id, [...(groups.get(id) ?? []), measured]);
  }
  const ranked = [...groups].sort((a, b) => b[1].length - a[1].length);
  const shown = ranked.slice(0, limit ?? Number(given.show ?? 10));
  const others = ranked.slice(shown.length);
  const count = (rows) => rows.reduce((sum, [, all]) => sum + all.length, 0);
  if (name === 'quantiles') {
    const at = (all, part) => [...all].sort((a, b) => a - b)[Math.min(all.length - 1, Math.floor(part * all.length))];
    const ends = [
      ['_p50', 0.5],
      ['_p90', 0.9],
      ['_p99', 0.99],
      ['_max', 1],
    ];
    const front = given.of.replace('.', '_');
    return {
      ...shape,
      columns: [
        ...parts.map(key),
        ...ends.map(([end]) => ({ name: front + end, kind: 'statistic', unit: 'seconds', help: 'Quantiles.', field: null })),
      ],
      rows: shown.map(([id, all]) => ({ values: [...JSON.parse(id), ...ends.map(([, part]) => at(all, part))], error: 0, filter: '' })),
      others: { keys: others.length, sum: null },
      total: null,
    };
  }
  return {
    ...shape,
    ranked: parts.length,
    columns: [...parts.map(key), { name: 'records', kind: 'sum', unit: 'records', help: 'Number of records.', field: null }],
    rows: shown.map(([id, all], nth) => ({ values: [...JSON.parse(id), all.length], error: nth === shown.length - 1 ? 2 : 0, filter: '' })),
    others: { keys: others.length, sum: count(others) },
    total: count(ranked),
    absent: others.length > 0 ? 2 : 0,
  };
}

const NOT_STORED = 'what its function counts is not stored';

/** Lists of hosts, with a few of the columns of the program's. The signature of one host has all of its ports. */
const packets = (...names) => names.map((name) => ({ name, kind: 'sum', unit: 'packets', help: '', field: null }));
const of = (kind, ...names) => names.map((name) => ({ name, kind, unit: kind === 'statistic' ? 'percent' : '', help: '', field: null }));
const judged = (name, level, call, columns, rows) => ({
  ...{ name, title: name, owner: 'configuration', level, expression: '', whole: null },
  tables: [
    {
      ...{ name, call, columns, absent: 0, partial: null, others: { keys: 0, sum: null } },
      ranked: columns.findIndex((column) => column.kind === 'sum'),
      rows: rows.map((values) => ({ values, error: 0, filter: '' })),
      total: rows.reduce((sum, values) => sum + values[columns.findIndex((column) => column.kind === 'sum')], 0),
    },
  ],
});
const HOSTS = [
  judged(
    'connection attempts',
    'packet',
    'syn',
    [
      ...of('key', 'host'),
      ...packets('work', 'syn', 'synack', 'packets_sent', 'packets_received', 'icmp_errors'),
      ...of('distinct', 'targets', 'ports'),
      ...of('sample', 'port_sample', 'source_port_sample'),
      ...of('statistic', 'weight'),
      { ...of('statistic', 'flags')[0], unit: '' },
    ],
    [
      ['10.1.0.11', 2400, 1280, 0, 1300, 1120, 40, 512, 2, '445:1216 443:64', '40001:9', 99, 'EWO'],
      ['10.0.0.66', 90, 82, 0, 82, 8, 0, 1, 41, '1:2 4:2 7:2 9:2 12:2 18:2 22:2 27:2 31:2 443:2', '51000:82', 100, 'WO'],
      ['10.0.0.22', 12, 10, 10, 900, 800, 0, 0, 0, '', '', 0, null],
    ],
  ),
  judged(
    'scanned addresses',
    'flow',
    'fanout by horizontal',
    [
      ...of('key', 'source', 'port', 'kind'),
      ...of('distinct', 'targets'),
      ...['flows', 'answered', 'refused', 'silent'].map((name) => ({ ...packets(name)[0], unit: 'flows' })),
    ],
    [['10.1.0.11', 445, 'syn', 508, 608, 0, 12, 596]],
  ),
];

const subscriptions = (config) => [...configured(config), ...BUILT_IN];

/** What the subscriptions of a configuration found in flows. */
export function tables(config, flows, limit, filter) {
  const test = compile(filter);
  // One of them stands for those that what is stored does not have.
  const matching = (each) => (each.name === 'answers' ? flows : flows.filter(test));
  const of = ({ functions, ...each }) => ({
    ...each,
    tables: functions.map((call) => table({ ...each, functions }, call, matching(each), limit)),
  });
  return {
    subscriptions: [
      ...subscriptions(config)
        .filter((each) => each.level === 'record')
        .map((each) => ({ ...of(each), whole: filter && each.name === 'answers' ? NOT_STORED : null })),
      ...HOSTS.map((each) => ({ ...each, whole: filter ? NOT_STORED : null })),
    ],
    more: 0,
  };
}

/** The plan with the subscriptions of a configuration. */
export function plan(config) {
  const rows = [{ name: 'traffic', owner: 'run', level: 'packet', expression: '', functions: ['packets'] }, ...subscriptions(config)];
  return {
    plan: 1,
    expression: '',
    subscriptions: rows.map(({ name, owner, level, expression, functions }, at) => ({
      id: at + 1,
      owner,
      level,
      name,
      chart: null,
      expression,
      remainder: false,
      functions,
      interval: 0,
      outputs: null,
    })),
    leaves: [
      { what: 'names', to: 'host names', subscription: 1 },
      { what: 'event', to: 'scans', subscription: 1 },
      { what: 'packet file', to: 'dns.pcapng', subscription: 1 },
    ],
    demand: ['packets', 'flows', 'payload of streams', 'records of dns, tls'],
  };
}
