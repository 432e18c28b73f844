// The lists of subscriptions: drawn from any function's columns, added by a form, removed again; and the plan on the page Sensor.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';
import { done, settled, stage } from './browser.mjs';
import { serve } from '../mock/server.mjs';

const on = stage({ start: () => serve({}) });
const panel = (page, name) => page.locator(`[data-panel="subscription-${name}"]`);

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

const OTHER = 'interval = "5s"\n\n[[chart]]\nname = "a"\nlines = [\n  { name = "x", expression = "tcp" },\n]\n';

test('a subscription is added to the text of a configuration, and removed without a trace', async () => {
  const { added, removed } = await load('/src/lib/subscriptions.ts');
  const wanted = {
    name: 'failed names',
    level: 'record',
    expression: 'dns.rcode_name = "NXDOMAIN"',
    calls: ['top dns.query show 20', 'records'],
    interval: '',
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
  const { called, heading, shown, label, rowFilter, others } = await load('/src/lib/tables.ts');
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
  assert.equal(rowFilter(table, row), 'dns.query = "a \\"b\\".example" and src host 10.0.0.1');
  assert.equal(others(table), 'and 2 others: 5 records; anything not listed: at most 3 records');
  assert.equal(rowFilter(table, { ...row, filter: 'host 10.0.0.1' }), 'host 10.0.0.1', 'a key of a top list');
  const site = column('site', 'key');
  assert.equal(
    rowFilter({ ...table, columns: [site] }, { ...row, values: ['a.example'] }),
    '(http.host = a.example or tls.server_name = a.example)',
  );
  assert.equal(called({ ...table, call: 'top by site rows 1024 show 5' }), 'top by site show 5');
  const median = column('dns_rtt_p50', 'statistic', { unit: 'seconds' });
  assert.deepEqual([heading(median), shown(median, 0.0031, 'UTC'), shown(median, null, 'UTC')], ['Median', '3.1 ms', '–']);
  assert.equal(heading(column('dns_rtt_max', 'statistic')), 'Largest');
});

test('lists are drawn with their titles, rows, errors and what they leave out', async () => {
  const page = await on.open('/lists?range=24h');
  const names = panel(page, 'names');
  await names.locator('li').first().waitFor();
  assert.match(await names.innerText(), /^Names asked/);
  assert.ok((await names.locator('li').count()) >= 3);
  // Text from packets stays text.
  assert.equal(await names.locator('b', { hasText: 'bold' }).count(), 0);
  await names.getByText('<b>bold</b>.example').waitFor();
  await names.getByText('± 2').waitFor();
  // Quantiles have no bars.
  const answers = panel(page, 'answers');
  const heads = await answers.locator('th').allInnerTexts();
  assert.deepEqual(heads, ['Server', 'Median', '90 %', '99 %', 'Largest']);
  assert.match(await answers.locator('tbody td').nth(1).innerText(), /^[\d.]+ m?s$/);
  // As a table, every column.
  await names.getByRole('button', { name: /^table/ }).click();
  assert.deepEqual(await names.locator('th').allInnerTexts(), ['Query', 'Records', '±']);
  await page.goto(`${on.site.url}/lists?range=24h&top=25`);
  await settled(page);
  // A row narrows the pages to it.
  await panel(page, 'sites').locator('li button').first().click();
  assert.match(new URL(page.url()).searchParams.get('filter'), /^tls\.server_name = /);
  await done(page);
});

test('a list is added to a running monitor and removed again', async () => {
  const page = await on.open('/lists?range=24h');
  await page.getByRole('button', { name: 'Add a list' }).click();
  await page.fill('#list-name', 'failed names');
  await page.fill('#list-expression', 'dns.rcode_name = NXDOMAIN and tcp porrt 80');
  await page.fill('#list-0-by', 'dns.query,source');
  await page.fill('#list-0-show', '20');
  await page.getByRole('button', { name: 'Add a function' }).click();
  await page.getByLabel('Function 2', { exact: true }).selectOption('distinct');
  await page.getByText('2 functions: top dns.query,source show 20, distinct').waitFor();
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  // Refused, with its place.
  const caret = await page.locator('#list-expression-error .caret').innerText();
  const [line, mark] = caret.split('\n');
  assert.equal(line.slice(mark.indexOf('^')).split(' ')[0], 'porrt');
  await page.fill('#list-expression', 'dns.rcode_name = NXDOMAIN');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('Added: failed names.').waitFor();
  const added = panel(page, 'failed-names');
  await added.locator('li').first().waitFor();
  await added.getByText('distinct client', { exact: true }).waitFor();
  assert.match(await added.innerText(), /dns\.rcode_name = NXDOMAIN/);
  // Only what the configuration has can be removed.
  assert.equal(
    await panel(page, 'names')
      .getByRole('button', { name: /^remove/ })
      .count(),
    0,
  );
  await added.getByRole('button', { name: /^remove/ }).click();
  await added.getByRole('button', { name: 'Remove it' }).click();
  await page.getByText('Removed: failed names.').waitFor();
  await added.waitFor({ state: 'detached' });
  await done(page);
});

test('without the right to write there is no form', async () => {
  on.site.set.write = false;
  const page = await on.open('/lists?range=24h&add=1');
  await page.getByText('Read-only: adding a list').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Add a list' }).count(), 0);
  assert.equal(await page.locator('#list-name').count(), 0);
  on.site.set.write = true;
  await done(page);
});

test('the page Sensor shows the plan in effect', async () => {
  const page = await on.open('/sensor');
  const plan = page.locator('[data-panel="plan"]');
  const row = await plan.locator('tbody tr', { hasText: 'names' }).first().locator('td').allInnerTexts();
  assert.deepEqual(row.slice(1), ['run', 'record', 'names', 'all', 'top dns.query show 10', 'of the run', 'all']);
  await plan.getByText('records of dns, tls').waitFor();
  await done(page);
});
