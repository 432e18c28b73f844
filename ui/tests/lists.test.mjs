// The lists of subscriptions: drawn from any function's columns, added by a form, removed again; and the plan on the page Sensor.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, reach, settled, stage } from './browser.mjs';
import { serve } from '../mock/server.mjs';

const on = stage({ start: () => serve({}) });
const panel = (page, name) => page.locator(`[data-panel="subscription-${name}"]`);

test('lists are drawn with their titles, rows, errors and what they leave out', async () => {
  const page = await on.open('/lists?range=24h');
  const names = panel(page, 'names');
  await names.locator('li').first().waitFor();
  assert.match(await names.innerText(), /^Names asked/);
  assert.ok((await names.locator('li').count()) >= 3);
  // Text from packets stays text.
  assert.equal(await names.locator('b', { hasText: 'bold' }).count(), 0);
  await names.getByText('<b>bold</b>.example', { exact: true }).waitFor();
  await names.getByText('± 2').waitFor();
  // Quantiles have no bars.
  const answers = panel(page, 'answers');
  const heads = await answers.locator('th:not(.leads)').allInnerTexts();
  assert.deepEqual(heads, ['Server', 'Median', '90 %', '99 %', 'Largest']);
  assert.match(await answers.locator('tbody td').nth(1).innerText(), /^[\d.]+ m?s$/);
  // As a table, every column.
  await names.getByRole('button', { name: /^table/ }).click();
  assert.deepEqual(await names.locator('th:not(.leads)').allInnerTexts(), ['Query', 'Records', '± records']);
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
  // What is typed while the monitor answers is not part of what is added.
  await page.route(/\/config$/, async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await route.continue();
  });
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
  await page.getByText('Read-only: lists are added').waitFor();
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

test('the filter narrows lists of records, and what it does not narrow says so', async () => {
  const page = await on.open('/?range=24h&filter=dns.query = example.com');
  const names = panel(page, 'names');
  await reach(names.locator('li'));
  assert.deepEqual(await names.locator('li .label').allInnerTexts(), ['example.com']);
  assert.equal(await panel(page, 'sites').locator('li').count(), 0);
  assert.match(await panel(page, 'sites').innerText(), /No such records in this range match the filter/);
  // What is of the whole link stands apart.
  const apart = page.locator('.apart');
  assert.equal(await apart.locator('[data-panel="subscription-names"]').count(), 0);
  await reach(apart.locator('[data-panel="subscription-answers"]'));
  assert.match(await panel(page, 'answers').innerText(), /whole link, not narrowed by the filter: what its function counts is not stored/);
  await page.goto(`${on.site.url}/lists?range=24h&filter=dns.query = example.com`);
  await settled(page);
  assert.deepEqual(await names.locator('li .label').allInnerTexts(), ['example.com']);
  assert.match(await panel(page, 'answers').innerText(), /whole link/);
  await done(page);
});

test('a panel without an answer says where one is', async (t) => {
  const bare = await serve({ measures: false });
  t.after(bare.stop);
  const page = await on.open('/talkers?range=24h', { base: bare.url });
  const delays = page.locator('[data-panel="quantiles"]');
  await reach(delays);
  await delays.getByText('For delays of each flow run with --measure').waitFor();
  await delays.getByRole('link', { name: 'Latency by server' }).click();
  await page.waitForFunction(() => location.pathname === '/lists');
  await page.waitForFunction(() => document.activeElement?.id === 'subscription-latency-title');
  assert.equal(await page.locator('#subscription-latency-title').innerText(), 'Latency by server');
  // Outside of what is stored a panel names the stored time.
  await page.goto(`${bare.url}/flows?from=1000000&to=1003600`);
  await settled(page);
  await page.locator('[data-panel="flows"]').getByRole('link', { name: 'Show all of it' }).click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('range') === 'all');
  await settled(page);
  await done(page);
});

test('top lists by retransmission, TTL and MAC are one choice', async () => {
  const page = await on.open('/lists?range=24h');
  const lists = page.locator('[data-panel="flow-lists"]');
  await lists.locator('li').first().waitFor();
  assert.match(await lists.innerText(), /^Clients by retransmission/);
  for (const [choice, value, filter] of [
    ['Servers by retransmission', /^[\d.:a-f]+$/, /^flow\.server = /],
    ['TTL of clients', /^(64|128)$/, /^flow\.sent_ttl = /],
    ['MAC addresses of clients', /^02:00:00:00:00:/, /^flow\.client_mac = /],
  ]) {
    await lists.getByLabel('Top').selectOption({ label: choice });
    await page.waitForFunction((title) => document.querySelector('#flow-lists-title').textContent === title, choice);
    await settled(page);
    const row = lists.locator('li button').first();
    assert.match(await row.locator('.mono').innerText(), value);
    await row.click();
    await page.waitForFunction(() => new URL(location.href).searchParams.has('filter'));
    assert.match(new URL(page.url()).searchParams.get('filter'), filter);
    await settled(page);
    // The filter narrows the list.
    if (choice.startsWith('TTL')) assert.equal(await lists.locator('li').count(), 1);
    await page.goBack();
    await settled(page);
  }
  await done(page);
});

test('lists say what they are as a person does, and short times have their digits', async () => {
  const page = await on.open('/lists?range=24h');
  const latency = panel(page, 'latency');
  await reach(latency.locator('tbody tr'));
  assert.deepEqual(await latency.locator('h3').allInnerTexts(), [
    'Time to the answer of DNS by destination and port',
    'Time to the answer of DNS by destination',
  ]);
  const cells = await latency.locator('td.num').allInnerTexts();
  assert.ok(
    cells.every((text) => /^[1-9][\d.]* (µs|ms|s)$/.test(text) || /^0\.[1-9]/.test(text)),
    cells.join(),
  );
  await page.goto(`${on.site.url}/talkers?range=24h`);
  await settled(page);
  await done(page);
});
