// The plain functions, by way of the build tool's own transform, without a browser.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';

let vite;
const load = (path) => vite.ssrLoadModule(path);
before(async () => {
  vite = await createServer({
    root: fileURLToPath(new URL('..', import.meta.url)),
    server: { middlewareMode: true, hmr: false, ws: false },
    appType: 'custom',
    logLevel: 'error',
    optimizeDeps: { noDiscovery: true },
  });
});
after(() => vite.close());

test('clicked parts are joined in parentheses, and can be removed', async () => {
  const { include, exclude, parts, without } = await load('/src/lib/filter.ts');
  let filter = include('', 'host 10.0.0.1');
  assert.equal(filter, 'host 10.0.0.1');
  filter = include(filter, 'tcp port 443');
  assert.equal(filter, '(host 10.0.0.1) and (tcp port 443)');
  filter = exclude(filter, 'net 10.1.0.0/16 or net 10.2.0.0/16');
  assert.deepEqual(parts(filter), ['host 10.0.0.1', 'tcp port 443', 'not (net 10.1.0.0/16 or net 10.2.0.0/16)']);
  assert.equal(without(filter, 1), '(host 10.0.0.1) and (not (net 10.1.0.0/16 or net 10.2.0.0/16))');
  assert.equal(include(filter, 'tcp port 443'), filter, 'twice is once');
  assert.equal(exclude('host a', 'host a'), 'not (host a)', 'to exclude what was included turns it');
});

test('a typed expression stays whole', async () => {
  const { include, parts } = await load('/src/lib/filter.ts');
  for (const typed of ['host a and b', '(tcp) or (udp)', '(tcp', 'tcp) and (udp', '(a) and', '(a) and b'])
    assert.deepEqual(parts(typed), [typed]);
  assert.equal(include('host a and b', 'tcp'), '(host a and b) and (tcp)');
});

test('units', async () => {
  const { amount, bytes, memory, percent, plural, si } = await load('/src/lib/units.ts');
  assert.equal(amount(112_300_000, 'bits/s'), '112 Mbit/s');
  assert.equal(amount(999_700, 'bits/s'), '1 Mbit/s'.replace('1 ', '1.00 '));
  assert.equal(amount(0, 'bits/s'), '0 bit/s');
  assert.equal(amount(null, 'bits/s'), '–');
  assert.equal(amount(1234, 'packets/s'), '1.23 k packets/s');
  assert.equal(bytes(316_400), '316 kB');
  assert.equal(memory(64 * 2 ** 20), '64 MiB');
  assert.equal(si(7), '7');
  assert.equal(percent(1, 1e9), '< 0.01 %');
  assert.equal(percent(999_999_999, 1e9), '> 99.99 %');
  assert.equal(percent(5, 5), '100 %');
  assert.equal(plural(1, 'flow'), '1 flow');
});

test('clocks of a zone, over both changes', async () => {
  const { hours, labels, stamp, zoneLabel } = await load('/src/lib/time.ts');
  const zone = 'Europe/Berlin';
  // 2026-03-29 01:00 UTC: two becomes three; 2026-10-25 01:00 UTC: three becomes two.
  const spring = Date.UTC(2026, 2, 29, 1) / 1000;
  const autumn = Date.UTC(2026, 9, 25, 1) / 1000;
  assert.equal(stamp(spring - 1, zone), '2026-03-29 01:59:59');
  assert.equal(stamp(spring, zone), '2026-03-29 03:00:00');
  assert.equal(hours(autumn - 1, zone), '02:59:59');
  assert.equal(hours(autumn, zone), '02:00:00');
  assert.equal(zoneLabel(zone, autumn - 1), 'Europe/Berlin, UTC+02:00');
  assert.equal(zoneLabel(zone, autumn), 'Europe/Berlin, UTC+01:00');
  assert.equal(zoneLabel('UTC', 0), 'UTC');
  assert.equal(hours(0.9999, 'UTC', 3), '00:00:00.999', 'a second is not printed twice');
  const midnight = Date.UTC(2026, 10, 22) / 1000;
  assert.deepEqual(labels([midnight - 3600, midnight, midnight + 3600], 3600, 'UTC'), ['23:00', '22 Nov', '01:00']);
});

test('the loss sentence has the figures of the ledger', async () => {
  const { loss } = await load('/src/lib/prose.ts');
  const data = (dropped, widths = [10, 10]) => ({
    step: 10,
    tier: 'interval',
    times: [0, 10],
    widths,
    basis: { asked: [0, 20], range: [0, 20], watched: 20, source: 'cells', bound: 0 },
    partial: null,
    series: [
      { id: 'ledger/caught', avg: [100, 100], min: [], max: [] },
      { id: 'ledger/dropped', avg: dropped, min: [], max: [] },
    ],
  });
  const status = { mode: 'live', first: 0, last: 20 };
  const range = { from: 0, to: 20 };
  assert.match(loss(data([0, 0]), 'UTC', status, range).text, /^No loss: all 2,000 packets captured\.$/);
  const some = loss(data([0, 1]), 'UTC', status, range);
  assert.equal(some.dropped, 10);
  assert.equal(some.offered, 2010);
  assert.equal(some.text, 'Loss 0.50 %: 10 of 2,010 packets dropped, peak at 1970-01-01 00:00:10.');
  assert.match(loss({ ...data([null, null]), series: [] }, 'UTC', status, range).text, /^No packets in this range\.$/);
  // A step counts as far as it was watched; a whole capture has the totals of the ledger.
  assert.equal(loss(data([0, 0], [5, 2]), 'UTC', status, range).offered, 700);
  const { counted } = await load('/src/lib/prose.ts');
  const ledger = {
    ledger: [
      { name: 'caught', value: 10_444 },
      { name: 'dropped', value: 3 },
      { name: 'bytes', value: 9 },
    ],
  };
  assert.deepEqual(counted({ mode: 'file', first: 1, last: 2 }, { from: 1, to: 3 }, ledger), { caught: 10_444, dropped: 3, bytes: 9 });
  assert.equal(counted({ mode: 'file', first: 1, last: 2 }, { from: 1.5, to: 3 }, ledger), null);
});

test('a rate applies to the watched part of its step', async () => {
  const { mean, total } = await load('/src/lib/series.ts');
  const measured = [0.5, 1, 0.25, 0];
  assert.equal(total([100, 10, 40, 1000], measured), 70);
  assert.equal(mean([100, 10, 40, 1000], measured), 40);
  assert.equal(mean([null, 10, null, 1000], measured), 10);
  assert.equal(mean([null, null, null, 1000], measured), null);
});

test('previous weeks are resampled to the times of the chart', async () => {
  const { at, past } = await load('/src/lib/series.ts');
  const same = [0, 10, 20];
  assert.deepEqual(at(same, 10, same, [1, 2, null]), [1, 2, null]);
  assert.deepEqual(at([0, 10, 20, 30], 10, [0, 20], [1, 3]), [1, 1, 3, 3], 'a wider step covers all steps within it');
  assert.deepEqual(at([0, 10], 10, [0, 5, 10, 15], [1, 3, null, 5]), [2, 5], 'finer steps are averaged');
  assert.deepEqual(at([0, 10], 10, [100, 110], [1, 3]), [null, null]);
  const band = { times: [0, 20], weeks: 2, series: ['a', 'b'].map((id) => ({ id, low: [1, 1], mid: [2, 2], high: [3, null] })) };
  assert.deepEqual(past(band, { times: [0, 10, 20], step: 10 }), { low: [2, 2, 2], mid: [4, 4, 4], high: [6, 6, null], weeks: 2 });
  assert.equal(past({ ...band, weeks: 0 }, { times: [0], step: 10 }), null);
});

test('of ten thousand lines the heaviest are drawn, and the rest is one sum', async () => {
  const { heaviest } = await load('/src/lib/series.ts');
  const lines = Array.from({ length: 10_000 }, (_, at) => ({ id: `s${at}`, name: `n${at}`, expression: '', remainder: false }));
  const data = {
    step: 1,
    tier: 'interval',
    times: [0, 1],
    partial: null,
    series: lines.map((line, at) => ({ id: line.id, avg: [at, at], min: [], max: [] })),
  };
  const { shown, left } = heaviest(lines, data, 12, ['s5']);
  assert.equal(shown.length, 14);
  assert.equal(left, 9987);
  assert.ok(shown.some((line) => line.id === 's9999') && shown.some((line) => line.id === 's5'));
  const sum = shown.reduce((total, line) => total + line.values[0], 0);
  assert.equal(sum, (9999 * 10_000) / 2, 'nothing is left out of the picture');
});

test('a Sankey diagram keeps every byte and fits its height', async () => {
  const { layout } = await load('/src/lib/sankey.ts');
  const weights = Array.from({ length: 12 }, (_, at) => 1 + (12 - at) ** 3);
  const sum = weights.reduce((all, value) => all + value, 0);
  const nodes = [0, 1, 2].flatMap((side) =>
    weights.map((bytes, at) => ({ side, label: `n${at}`, name: null, filter: `host ${at}`, bytes, flows: 1, others: at === 11 ? 5 : 0 })),
  );
  const links = [0, 12].flatMap((first) =>
    weights.map((bytes, at) => ({ from: first + at, to: first + 12 + at, bytes, sent: 1, packets: 1, flows: 1 })),
  );
  const total = sum;
  const drawn = layout({ nodes, links, flows: 36, bytes: sum, partial: null }, 380);
  assert.equal(drawn.total, total);
  for (const side of [0, 1, 2]) {
    const nodes = drawn.nodes.filter((node) => node.side === side);
    assert.equal(nodes.length, 12);
    assert.equal(
      nodes.reduce((sum, node) => sum + node.value, 0),
      total,
    );
    assert.ok(nodes.every((node) => node.y >= -0.01 && node.y + node.height <= 380.01));
    assert.ok(
      nodes.every((node, at) => at === 0 || node.y + node.height / 2 - nodes[at - 1].y - nodes[at - 1].height / 2 >= 13),
      'names do not overlap',
    );
  }
});

test('completion knows what may stand at the cursor', async () => {
  const { choices, completed, placeOf } = await load('/src/lib/complete.ts');
  const field = (name, kind, aliases = []) => ({ name, kind, help: `Help of ${name}`, list: false, payload: false, aliases });
  const words = {
    tables: [
      { name: 'flow', help: '', fields: [field('bytes', 'number')] },
      { name: 'dns', help: '', fields: [field('query', 'text'), field('rcode_name', 'text')] },
      { name: 'tls', help: '', fields: [field('server_name', 'text', ['sni'])] },
    ],
    operators: ['!=', '=', '<', '>', 'contains', 'in', 'under'],
    words: ['host', 'portrange', 'tcp'],
  };
  const known = {
    hosts: [
      { label: '10.0.0.7', name: 'printer' },
      { label: '192.0.2.1', name: null },
    ],
    services: [{ label: 'tcp/443', name: 'https' }],
    values: [{ value: 'a b', count: 3 }],
  };
  const at = (text, cursor = text.length) => placeOf(text, cursor, words);
  const texts = (text) => choices(at(text), words, known).map((choice) => choice.text);
  assert.equal(at('').wants, 'start');
  assert.equal(at('tcp and ').wants, 'start');
  assert.equal(at('host 10.0.0.7 ').wants, 'joint');
  assert.deepEqual(at('not (dns.query = "a ').field, { table: 'dns', name: 'query', kind: 'text' });
  assert.equal(at('dns.query ').wants, 'operator');
  assert.deepEqual(texts('dns.q'), ['dns.query']);
  assert.deepEqual(texts('tls.sn'), ['tls.server_name'], 'by the name of another program');
  assert.ok(texts('dn').includes('dns.') && texts('portr').includes('portrange'));
  assert.deepEqual(texts('dns.query = '), ['"a b"']);
  assert.ok(!texts('flow.bytes ').includes('contains') && texts('flow.bytes ').includes('>'));
  assert.ok(texts('dns.query ').includes('contains') && !texts('dns.query ').includes('>'));
  assert.deepEqual(texts('src pri'), ['10.0.0.7'], 'a host by its name');
  assert.deepEqual(texts('tcp port h'), ['443'], 'a port by its service');
  assert.ok(texts('https').includes('tcp port 443'));
  // Values of a list, and what follows each.
  for (const list of ['dns.query in (', 'tcp and dns.query under (a.example, ', '(dns.query in (a,'])
    assert.deepEqual([at(list).wants, at(list).field?.name, ...texts(list)], ['value', 'query', '"a b"'], list);
  assert.deepEqual(texts('dns.query in (a '), [',', ')']);
  assert.equal(at('dns.query in (a, b) ').wants, 'joint');
  assert.equal(at('dns.query in (a, b) and (').wants, 'start');
  assert.equal(at('dns.query = a and (').wants, 'start');
  // In the middle of a text only the word at the cursor is replaced.
  const middle = placeOf('dns.qu = a', 6, words);
  assert.deepEqual(completed('dns.qu = a', middle, { text: 'dns.query', help: '', kind: 'field' }), { text: 'dns.query = a', cursor: 10 });
  assert.deepEqual(completed('dn', at('dn'), { text: 'dns.', help: '', kind: 'table', open: true }), { text: 'dns.', cursor: 4 });
});

test('a value becomes the operand of a test', async () => {
  const { equals, operand, serviceOf } = await load('/src/lib/fieldtest.ts');
  assert.equal(equals('http', 'status_code', 404), 'http.status_code = 404');
  assert.equal(equals('dns', 'query', 'example.org'), 'dns.query = example.org');
  assert.equal(equals('http', 'uri', '/a?b="c\\d"'), 'http.uri = "/a?b=\\"c\\\\d\\""');
  assert.equal(equals('http', 'host', null), 'not http.host');
  assert.equal(operand('and'), '"and"');
  assert.equal(operand('-1'), '"-1"');
  assert.equal(serviceOf('tcp/443'), 'tcp dst port 443');
  assert.equal(serviceOf('icmp6'), 'icmp6');
});

test('columns are read from the URL and written into it', async () => {
  const { moved, parse, toggled, widened, write } = await load('/src/lib/columns.ts');
  const known = new Set(['@time', 'query', 'answers']);
  const columns = parse('query:240,gone,query,answers:7,@time:99999', known);
  assert.equal(write(columns), 'query:240,answers,@time');
  assert.equal(parse('gone', known), null);
  assert.equal(write(moved(columns, '@time', -1)), 'query:240,@time,answers');
  assert.equal(write(moved(columns, 'query', -1)), 'query:240,answers,@time');
  assert.equal(write(toggled(columns, 'answers')), 'query:240,@time');
  assert.equal(write(toggled(parse('query', known), 'query')), 'query', 'the last one stays');
  assert.equal(write(widened(columns, 'query', null)), 'query,answers,@time');
});

test('certificates expire in days, sizes and durations have units', async () => {
  const { cell, expiry } = await load('/src/lib/values.ts');
  const day = 86_400;
  const now = 1_795_000_000;
  assert.match(expiry(now + 29.5 * day, now, 'UTC'), /^2026-\d\d-\d\d, in 29 days$/);
  assert.match(expiry(now - 1.2 * day, now, 'UTC'), /, expired 1 day ago$/);
  assert.match(expiry(now + 60, now, 'UTC'), /, in less than a day$/);
  assert.equal(expiry('2026-12-21T09:19:57', 1_795_252_813, 'UTC'), '2026-12-21, in 29 days');
  assert.equal(expiry(null, now, 'UTC'), '');
  assert.equal(cell({ name: 'response_body_len', kind: 'number' }, 2500, 'UTC'), '2.50 kB');
  assert.equal(cell({ name: 'rtt', kind: 'duration' }, 0.000097, 'UTC'), '97 µs');
  assert.equal(cell({ name: 'id', kind: 'number' }, 1150, 'UTC'), '1150');
});

test('tables are saved as CSV that no spreadsheet takes for formulas', async () => {
  const { csvCell, written } = await load('/src/lib/export.ts');
  assert.equal(csvCell('=1+1'), '"\'=1+1"');
  assert.equal(csvCell('-6.5'), '-6.5');
  assert.equal(csvCell('a "b", c'), '"a ""b"", c"');
  assert.equal(written(['a', 'b'], [['1', 'x,y']], 'csv'), 'a,b\r\n1,"x,y"\r\n');
  assert.equal(written(['a', 'b'], [['1', 'x']], 'ndjson'), '{"a":"1","b":"x"}\n');
});

test('an answer over time becomes lines, and a comparison rows', async () => {
  const { compared, overTime } = await load('/src/lib/overtime.ts');
  const answer = {
    q: '',
    columns: [
      { name: 'time', unit: '' },
      { name: 'tcp/443', unit: 'bytes' },
      { name: 'other', unit: 'bytes' },
    ],
    rows: [
      ['2026-11-22T00:00:00Z', 1000, 1],
      ['2026-11-22T00:00:10Z', 0, 2],
    ],
    partial: null,
  };
  const drawn = overTime(answer, { from: 0, to: 1 }, (value) => `port ${value}`);
  assert.deepEqual([drawn.step, drawn.unit, drawn.lines[0].values], [10, 'bits/s', [800, 0]]);
  assert.deepEqual([drawn.lines[0].expression, drawn.lines[1].expression, drawn.lines[1].rest], ['port tcp/443', '', true]);
  const { rows, unit } = compared({
    q: '',
    columns: ['service', 'bytes', 'packets', 'before', 'change'].map((name) => ({
      name,
      unit: name === 'packets' ? 'packets' : name === 'before' ? 'bytes' : name,
    })),
    rows: [['a', 20, 1, 10, 100]],
    total: [null, 30, 2, 0, null],
    partial: null,
  });
  assert.equal(unit, 'bytes');
  assert.deepEqual(rows, [
    { label: 'a', now: 20, before: 10, change: 100 },
    { label: 'all', now: 30, before: 0, change: null },
  ]);
});

test('the range of an answer that is wider than asked for is stated', async () => {
  const { bound, newSince, wider } = await load('/src/lib/prose.ts');
  const range = { from: 1000, to: 1060, text: null, moving: false };
  const basis = (from, to, most = 0) => ({ asked: [1000, 1060], range: [from, to], watched: 60, source: 'cells', bound: most });
  assert.deepEqual(wider(range, basis(0, 3600)), [0, 3600]);
  assert.equal(wider(range, basis(1000, 1060.000001)), null);
  assert.equal(wider(range, basis(1010, 1050)), null, 'a shorter store is no wider answer');
  assert.equal(wider(null, basis(0, 3600)), null);
  assert.equal(bound(basis(0, 1), 'bytes'), 'bytes are exact');
  assert.equal(bound(basis(0, 1, 2048), 'packets'), 'within 2.05 k packets');
  assert.equal(bound(basis(0, 1, null), 'bytes'), '', 'each row states its own');
  const news = (hours) => ({ rows: [], against: { from: 0, to: hours * 3600 }, partial: null });
  assert.equal(newSince(news(3)), 'compared with only the 3 hours before');
  assert.equal(newSince(news(168)), 'not seen in the previous week');
  assert.equal(newSince(news(0)), '');
});

test('states of flows in words', async () => {
  const { stateText } = await load('/src/lib/states.ts');
  assert.equal(stateText('SF'), 'SF, normal end');
  assert.equal(stateText('SF', 'udp'), 'SF, answered');
  assert.equal(stateText('XX'), 'XX');
});

test('a range that moves is counted in steps, a fixed one as it is', async () => {
  const { steady } = await load('/src/lib/series.ts');
  const fixed = { from: 1001, to: 4601, text: null, moving: false };
  assert.deepEqual(steady(fixed), fixed);
  const moving = (to) => steady({ from: to - 3600, to, text: '1h', moving: true });
  assert.deepEqual(moving(7212), moving(7248));
  assert.deepEqual([moving(7212).from, moving(7212).to], [3600, 7200]);
  const short = { from: 100, to: 130, text: null, moving: true };
  assert.deepEqual(steady(short), short);
});

test('a step that is followed by nothing has its whole length', async () => {
  const { ended } = await load('/src/lib/series.ts');
  const drawn = ended([0, 10, 20], 10, [
    [1, null, 3],
    [4, 5, null],
  ]);
  assert.deepEqual(drawn.times, [0, 9.99, 10, 19.99, 20, 30]);
  assert.deepEqual(drawn.values, [
    [1, 1, null, null, 3, 3],
    [4, 4, 5, 5, null, null],
  ]);
  assert.deepEqual(drawn.steps, [0, 0, 1, 1, 2, 2]);
  assert.deepEqual(ended([], 1, [[]]).times, []);
});

const OTHER = 'interval = "5s"\n\n[[chart]]\nname = "a"\nlines = [\n  { name = "x", expression = "tcp" },\n]\n';

test('a subscription is added to the text of a configuration, and removed without a trace', async () => {
  const { added, removed } = await load('/src/lib/subscriptions.ts');
  const wanted = {
    name: 'failed names',
    level: 'record',
    expression: 'dns.rcode_name = "NXDOMAIN"',
    calls: ['top dns.query show 20', 'records'],
    interval: '',
    outputs: [],
  };
  for (const before of ['', OTHER, OTHER.trimEnd(), `${OTHER}\n# the end\n`]) {
    const { text, at } = added(before, wanted);
    const lines = text.split('\n');
    const line = lines.indexOf('where = \'dns.rcode_name = "NXDOMAIN"\'');
    assert.ok(line > 0 && text.endsWith("chain = ['top dns.query show 20', 'records']\n"), text);
    assert.deepEqual(at(line + 1), { part: 'expression', column: lines[line].indexOf('dns') + 1 });
    assert.equal(at(line + 2).part, 'calls');
    assert.equal(at(1), null);
    assert.equal(removed(text, 'failed names'), before === OTHER.trimEnd() ? OTHER : before);
    assert.equal(removed(before, 'failed names'), null);
  }
  const timed = added('', { ...wanted, interval: '1m' });
  assert.ok(timed.text.endsWith("]\ninterval = '1m'\n"));
  assert.deepEqual(timed.at(6), { part: 'interval', column: 13 });
  const chosen = added('', { ...wanted, outputs: ['store', 'csv'] });
  assert.ok(chosen.text.endsWith("]\noutputs = ['store', 'csv']\n"));
  assert.equal(chosen.at(6).part, 'outputs');
  // Quotes of both kinds, and what must be escaped.
  const hard = added('', { ...wanted, name: `it's "x"\u007f`, expression: '' });
  assert.match(hard.text, /^name = "it's \\"x\\"\\u007f"$/m);
  assert.ok(!hard.text.includes('where'));
  assert.equal(removed(hard.text, `it's "x"\u007f`), '');
});

test('a subscription is found among others, comments, and brackets in strings', async () => {
  const { removed } = await load('/src/lib/subscriptions.ts');
  const one = (name, more = '') => `[[subscription]]\nname = "${name}"   # its name\n${more}chain = [\n  "top",\n  "records",\n]\n`;
  const second = one('b', "where = '''\n[[subscription]]\nname = \"c\"\n'''\n");
  const text = `${one('a')}\n# about b\n${second}\n# about c\n${one('c')}\n[store]\ndir = "x"\n`;
  assert.equal(
    removed(text, 'b'),
    text.replace(one('b', "where = '''\n[[subscription]]\nname = \"c\"\n'''\n"), '').replace('# about b\n\n', '# about b\n\n'),
  );
  assert.equal(removed(text, 'c'), text.replace(one('c'), ''));
  assert.ok(removed(text, 'a').startsWith('# about b\n'));
  assert.equal(removed(text, 'd'), null);
  assert.equal(removed('[[chart]]\nname = "a"\n', 'a'), null, 'a chart of that name');
});

test('values have their units, headings their words, and rows an expression', async () => {
  const { called, heading, isLong, shown, label, rowFilter, others } = await load('/src/lib/tables.ts');
  const column = (name, kind, more = {}) => ({ name, kind, unit: '', help: '', field: null, ...more });
  const columns = [
    column('dns_query', 'key', { field: 'dns.query' }),
    column('source', 'key'),
    column('records', 'sum', { unit: 'records' }),
  ];
  const row = { values: ['a "b".example', '10.0.0.1', 1234], error: 0, filter: '' };
  const table = {
    name: 't',
    call: 'top',
    columns,
    rows: [row],
    ranked: 2,
    others: { keys: 2, sum: 5 },
    total: 1239,
    absent: 3,
    partial: null,
  };
  assert.deepEqual(columns.map(heading), ['Query', 'Client', 'Records']);
  assert.equal(label(table, row), 'a "b".example · 10.0.0.1');
  assert.equal(rowFilter(table, row), 'dns.query = "a \\"b\\".example" and flow.client = 10.0.0.1');
  assert.equal(others(table), 'and 2 others: 5 records; anything not listed: at most 3 records');
  assert.equal(rowFilter(table, { ...row, filter: 'host 10.0.0.1' }), 'host 10.0.0.1', 'a key of a top list');
  const site = column('site', 'key');
  assert.equal(
    rowFilter({ ...table, columns: [site] }, { ...row, values: ['a.example'] }),
    '(http.host = a.example or tls.server_name = a.example)',
  );
  const named = (call) => called({ ...table, call });
  assert.equal(
    named('quantiles stream.first_byte by destination,port rows 128'),
    'Time to first byte of the answer by destination and port',
  );
  assert.equal(named('quantiles of stream.first_byte by destination,port'), 'Time to first byte of the answer by destination and port');
  assert.equal(named('quantiles stream.handshake'), 'TCP handshake');
  assert.equal(named('quantiles stream.rtt_forward by source'), 'RTT forward of stream by source');
  assert.equal(named('top by dns.rcode_name,source rows 1024 show 5'), 'Most frequent: code of DNS and source');
  assert.equal(named('quantiles'), 'quantiles');
  assert.equal(named('distinct dns.query'), 'Distinct values: name asked of DNS');
  assert.equal(named('iprange net 10.0.0.0/8 rows 1024'), 'iprange net 10.0.0.0/8');
  const median = column('dns_rtt_p50', 'statistic', { unit: 'seconds' });
  assert.deepEqual([heading(median), shown(median, 0.0031, 'UTC'), shown(median, null, 'UTC')], ['Median', '3.1 ms', '–']);
  assert.equal(heading(column('dns_rtt_max', 'statistic')), 'Largest');
  // Parts without a value are dashes, and none at the end; more than three parts stand in columns.
  const keys = ['sender', 'receiver', 'kind', 'bssid', 'ssid'].map((name) => column(name, 'key'));
  const frames = { ...table, columns: [...keys, column('packets', 'sum', { unit: 'packets' })] };
  const frame = (...values) => label(frames, { values: [...values, 7], error: 0, filter: '' });
  assert.equal(frame(null, '02:00:00:00:00:0a', 'ack', null, null), '– · 02:00:00:00:00:0a · ack');
  assert.equal(frame('a', 'b', 'beacon', 'a', 'home'), 'a · b · beacon · a · home');
  assert.equal(frame(null, null, '', null, null), '–');
  assert.deepEqual([isLong(frames), isLong(table), isLong({ ...table, columns: keys.slice(2) })], [true, false, false]);
  assert.deepEqual(keys.slice(3).map(heading), ['BSSID', 'SSID']);
});

test('a change is of volumes, whatever the lengths of the steps', async () => {
  const { change } = await load('/src/lib/prose.ts');
  const past = (mid) => ({ low: mid, mid, high: mid, weeks: 1 });
  // The last step is 10 ms of a rate that is high: it adds nearly nothing.
  assert.ok(Math.abs(change([100, 100, 1e6], past([100, 100, 100]), [1000, 1000, 0.01]) - 0.05) < 0.001);
  assert.equal(change([200, null], past([100, 100]), [10, 10]), 1);
  assert.equal(change([100], past([null]), [10]), null);
});

test('events of a kind and subject are one alert', async () => {
  const { alerts, filled, ofFlows, rule } = await load('/src/lib/alerts.ts');
  const event = (id, more) => ({
    ...{ id, kind: 'port_scan', subject: 'a -> b', host: 'a', severity: 'notice', open: false, begin: 10, time: 20, count: 1 },
    ...{ evidence: {}, filter: null, text: 'what', ...more },
  });
  const found = alerts([
    event('1', { time: 90, count: 3 }),
    event('2', { severity: 'warning', begin: 5, open: true }),
    event('3', { kind: 'disk_full', severity: 'error' }),
    event(null, { kind: 'start' }),
  ]);
  assert.deepEqual(
    found.map(({ key, severity, open, count, begin, last, events }) => [key, severity, open, count, begin, last, events.length]),
    [
      ['port_scan a -> b', 'warning', true, 4, 5, 90, 2],
      ['disk_full a -> b', 'error', false, 1, 10, 20, 1],
    ],
  );
  const scan = event('1', { evidence: { failed: 53, answered: 6, refused_flows: 53, unanswered_flows: 0 } });
  assert.equal(filled(scan), 'failed 53 / (failed 53 + answered 6) = 90 % or more');
  assert.match(rule(scan), /^20 or more TCP ports of a host failed, and at least 80 %/);
  const flood = event('1', { kind: 'syn_flood', evidence: { packets: 2500, sources: 2400, answered: 0, bytes: 150_000 } });
  assert.equal(filled(flood), 'answered 0 / packets 2,500 = 0 %; packets 2,500 / sources 2,400 = 1.0 of each');
  const named = (evidence, count = 2) => filled(event('1', { kind: 'mine', evidence, count }));
  assert.equal(named({ least: 120, most: 3400 }), 'least 120, most 3,400, passed 2 times');
  assert.equal(named({ line: 7 }, 21), '21 hits of the entry in line 7');
  assert.equal(named({ other: 7 }), 'other 7');
  assert.equal(named({}), 'what');
  const leap = event('1', { kind: 'clock_leap', evidence: { back: 1, ahead: 0, most_back: 3_600_000_000_000, most_ahead: 0 } });
  assert.equal(filled(leap), '1 leap back, by 60.0 min at most');
  const many = event('1', { kind: 'many', count: 90, evidence: { events: 60 } });
  assert.equal(filled(many), '60 events did not begin, with 90 findings');
  const among = event('1', { kind: 'udp_flood', evidence: { packets: 2000, sources: 1000, answered: 0, others: 50 } });
  assert.match(filled(among), /2\.0 of each; about, with 50 packets of others among them$/);
  const reflected = event('1', { kind: 'reflection', evidence: { packets: 642, sources: 32, answered: 0, fragments: 93 } });
  assert.match(filled(reflected), /20\.1 of each; beside them, fragments without a first one: 93$/);
  for (const [expression, flows] of [
    ['host a', 'host a'],
    ['dst host a and tcp dst port 80 and tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn', 'dst host a and tcp dst port 80'],
    ['dst host a and (ip proto 17 or ip6 proto 17) and ip[6:2] & 0x1fff != 0', 'dst host a and (ip proto 17 or ip6 proto 17)'],
    ['', ''],
  ])
    assert.equal(ofFlows(expression), flows);
});

test('an alert of a rule has the ends of its packet, and the expression of its flow', async () => {
  const { endsOf, flowOf, ruleOf, toneOf } = await load('/src/lib/rules.ts');
  const alert = (direction, ports = [40_000, 80]) => ({
    ...{ time: 1, flow: null, uid: 'C1', source: '10.0.0.1', source_port: ports[0], destination: '192.0.2.80', destination_port: ports[1] },
    values: { direction },
  });
  const [client, server] = [
    { address: '10.0.0.1', port: 40_000 },
    { address: '192.0.2.80', port: 80 },
  ];
  assert.deepEqual(endsOf(alert('to_server')), { source: client, destination: server });
  assert.deepEqual(endsOf(alert('to_client')), { source: server, destination: client });
  assert.equal(flowOf(alert('to_client')), 'host 10.0.0.1 and host 192.0.2.80 and port 40000 and port 80');
  assert.equal(flowOf(alert('to_server', [0, 0])), 'host 10.0.0.1 and host 192.0.2.80');
  assert.equal(ruleOf({ gid: 1, sid: 2_013_028, rev: 9 }), '1:2013028:9');
  assert.deepEqual([1, 2, 3, null].map(toneOf), ['bad', 'warn', '', '']);
});

test('rows of lists of hosts have the expressions of their flows', async () => {
  const { flowsOf, sample, shapeOf, signatures } = await load('/src/lib/scanners.ts');
  const table = (names) => ({ columns: names.split(' ').map((name) => ({ name })), rows: [] });
  const of = (names, values) => [shapeOf(table(names))?.name, flowsOf(table(names), { values, error: 0, filter: '' })];
  const tried = 'kind targets flows answered refused silent';
  for (const [names, values, shape, filter] of [
    [`source port ${tried}`, ['10.0.0.1', 445, 'syn'], 'fanout', 'flow.client = 10.0.0.1 and tcp dst port 445'],
    [`source target ${tried}`, ['10.0.0.1', '10.0.0.2', 'udp'], 'fanout', 'flow.client = 10.0.0.1 and flow.server = 10.0.0.2 and udp'],
    [`source port ${tried}`, ['10.0.0.1', 47, 'ip'], 'fanout', 'flow.client = 10.0.0.1'],
    [`source ${tried}`, ['10.0.0.1', 'echo'], 'fanout', 'flow.client = 10.0.0.1 and (icmp or icmp6)'],
    [`source ${tried}`, ['10.0.0.1', 'arp'], 'fanout', ''],
    ['host work syn port_sample', ['10.0.0.1'], 'syn', 'host 10.0.0.1'],
    ['host weight class sent errors', ['10.0.0.1'], 'udp', 'host 10.0.0.1'],
    ['protocol port errors port_unreachable', [17, 161], 'icmperror', 'udp dst port 161'],
    [
      'destination kind service protocol port packets sources answered',
      ['10.0.0.1', 'reflected', 'ntp', 17, 123],
      'flood',
      'host 10.0.0.1 and udp port 123',
    ],
    ['source target port failed refused_flows unanswered_flows', ['a', null, 22], 'scans', 'src host a and tcp dst port 22'],
    ['host bytes', ['10.0.0.1'], undefined, 'host 10.0.0.1'],
  ])
    assert.deepEqual(of(names, values), [shape, filter], names);
  assert.deepEqual(sample('80:3 445:120 wrong'), [
    { port: 445, count: 120 },
    { port: 80, count: 3 },
  ]);
  assert.deepEqual(sample(null), []);
  const hosts = table('host work syn synack port_sample ports targets weight flags');
  hosts.rows = [{ values: ['a', 9, 200, 50, '80:3 445:120', 7, 9, 90, null] }, { values: ['b', 9, 0, 0, '', 0, 0, 9, 'W'] }];
  assert.deepEqual(
    signatures(hosts).map(({ host, syns, ports, flags }) => [host, syns, ports.length, flags]),
    [['a', 150, 2, '']],
  );
});

test('the comment of a packet file has its expression, its event and the time before it', async () => {
  const { bar, eventOf, expressionOf, kindOfTrigger, shortened, thresholdText, timeOf, valueText } = await load('/src/lib/dumps.ts');
  const file = (reason) => ({ name: 'a.pcapng', trigger: 'own', begun: 1000.25, from: 997.75, to: 1300.25, bytes: 1, open: false, reason });
  const whole = file(
    [
      'trigger own: event port_scan',
      'event port_scan of 10.0.0.1 -> 10.0.0.2, 2026-11-29T20:17:00.123456Z',
      'numbers: failed 41',
      'packets: host 10.0.0.1 and tcp',
      'before the event: 2.500 s wanted, 0.100 s written',
    ].join('\n'),
  );
  assert.deepEqual(
    [expressionOf(whole), eventOf(whole), shortened(whole.reason)],
    ['host 10.0.0.1 and tcp', 'port_scan', 'port_scan of 10.0.0.1 -> 10.0.0.2: failed 41'],
  );
  assert.deepEqual(timeOf(whole), { from: 997, to: 1301, text: null, moving: false });
  // Comments of other versions.
  const other = file('an event\nof another form\npackets: all');
  assert.deepEqual([expressionOf(other), eventOf(other), shortened(other.reason)], ['', 'own', 'an event']);
  assert.deepEqual([shortened(''), expressionOf(file('')), expressionOf(file('packets: '))], ['', null, null]);
  const trigger = (rest) => ({ name: 'own', when: 'rate', unit: 'packets', above: 1000, below: null, filter: '', value: 12, ...rest });
  const plain = (text) => text.replaceAll('\u00a0', ' ');
  for (const [rest, value, threshold] of [
    [{}, '12 of 1 k packets (1.2 %)', 'above 1 k packets'],
    [{ unit: 'bytes', value: 5e7, above: 2.5e7 }, '50 MB of 25 MB (200 %)', 'above 25 MB'],
    [{ value: null }, 'no value now', 'above 1 k packets'],
    [{ value: 3, above: 0 }, '3, threshold 0 packets', 'above 0 packets'],
    [{ value: 3, above: null, below: 2, unit: '' }, '3, threshold 2', 'below 2'],
    [{ above: null }, '12 packets', ''],
    [{ below: 4 }, '12 of 1 k packets (1.2 %)', 'above 1 k or below 4 packets'],
    [{ value: null, above: null }, 'opened by events, without a threshold', ''],
  ])
    assert.deepEqual([plain(valueText(trigger(rest))), plain(thresholdText(trigger(rest)))], [value, threshold]);
  assert.deepEqual([kindOfTrigger(trigger({})), kindOfTrigger(trigger({ when: 'event port_scan' }))], ['own', 'port_scan']);
  assert.deepEqual(bar(trigger({ value: 500 })), { width: 40, marks: [80] });
  assert.deepEqual(bar(trigger({ value: 4000 })), { width: 100, marks: [25] });
  assert.deepEqual(bar(trigger({ value: 5, above: null, below: 10 })), { width: 25, marks: [50] });
  assert.deepEqual(bar(trigger({ value: null, above: null })), { width: 0, marks: [] });
});
