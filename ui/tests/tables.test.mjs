// Tables that answer: completion of the filter, columns, top values, sorting, exports, and what a filter narrows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, query, reach, settled, stage, target } from './browser.mjs';

const own = !process.env.WEIR_URL;
const on = stage();
const { open } = on;

const choices = (page) => page.locator('#filter-choices [role="option"] .text').allInnerTexts();
const top = (page, selector) => page.locator(selector).evaluate((element) => element.getBoundingClientRect().top);
const heads = (page) =>
  page
    .locator('[data-panel="records"] thead th')
    .evaluateAll((all) => all.map((each) => each.innerText.replace(/[↑↓]/g, '').split(',')[0].trim()));

test('the filter completes words, fields, operators, values and hosts, and nothing moves', async () => {
  const page = await open('/flows');
  const before = await top(page, 'main h1');
  await page.focus('#filter');
  await page.keyboard.type('dn');
  // The choices of fewer letters may still be there, one of them with "dns." in its help.
  await page.locator('#filter-choices .text', { hasText: /^dns\.$/ }).waitFor();
  assert.equal(await top(page, 'main h1'), before);
  await page.keyboard.type('s.que');
  // Tab takes the first choice.
  await page.waitForFunction(() => document.querySelector('#filter-choices .text')?.textContent.trim() === 'dns.query');
  await page.keyboard.press('Tab');
  assert.equal(await page.inputValue('#filter'), 'dns.query ');
  // Operators that fit text, then the values that were seen.
  await page.locator('#filter-choices [role="option"]', { hasText: 'under' }).waitFor();
  assert.ok(!(await choices(page)).includes('>='), 'text has no order');
  await page.keyboard.type('= ');
  await page.locator('#filter-choices .help', { hasText: /^\d/ }).first().waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  const typed = await page.inputValue('#filter');
  assert.match(typed, /^dns\.query = \S+/);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#filter-choices').isVisible(), false);
  assert.equal(query(page).filter, undefined, 'a choice is not applied before Enter');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter')?.startsWith('dns.query = '));
  await settled(page);
  await page.fill('#filter', '');
  await page.keyboard.type('host 1');
  await page
    .locator('#filter-choices [role="option"]', { hasText: /^\s*1[\d.:a-f]+/ })
    .first()
    .waitFor();
  assert.ok((await choices(page)).every((each) => /^[\d.:a-f]+$/.test(each)));
  await done(page);
});

test('an error of a filter lies over the page, which does not move', async () => {
  const page = await open('/flows');
  const before = await top(page, 'main h1');
  await page.fill('#filter', 'tcp porrt 443');
  await page.waitForSelector('#filter-error pre');
  assert.equal(await top(page, 'main h1'), before);
  await done(page);
});

test('records have the columns that are asked for first', async () => {
  const page = await open('/protocols?protocol=dns');
  const shown = await heads(page);
  assert.deepEqual(shown.slice(1, 5), ['Query', 'Type', 'Answers', 'Code']);
  assert.equal(shown.at(-1), 'Client');
  await done(page);
});

test('choice, order and width of columns are kept in the URL', async () => {
  const page = await open('/protocols?protocol=dns&columns=query:300,rcode_name,gone,@client');
  assert.deepEqual(await heads(page), ['Query', 'Code', 'Client']);
  const width = await page
    .locator('[data-panel="records"] thead th')
    .first()
    .evaluate((head) => head.getBoundingClientRect().width);
  assert.ok(width >= 299, String(width));
  await page.locator('[data-panel="records"] button', { hasText: /^columns$/ }).click();
  await page.getByRole('button', { name: 'Move rcode_name to the left' }).click();
  await page.getByRole('button', { name: 'Hide @client' }).click();
  await page.locator('[aria-label="Columns"] .add', { hasText: 'answers' }).click();
  assert.equal(query(page).columns, 'rcode_name,query:300,answers');
  await settled(page);
  assert.deepEqual(await heads(page), ['Code', 'Query', 'Answers']);
  // The edge of a heading is dragged.
  await page.keyboard.press('Escape');
  await page.locator('main h1').click();
  const edge = await page.locator('[data-panel="records"] thead th .edge').first().boundingBox();
  await page.mouse.move(edge.x + 4, edge.y + 6);
  await page.mouse.down();
  await page.mouse.move(edge.x + 90, edge.y + 6, { steps: 3 });
  await page.mouse.up();
  await page.waitForFunction(() => /^rcode_name:\d+,/.test(new URL(location.href).searchParams.get('columns')));
  await done(page);
});

test('records are sorted by any column', async () => {
  const page = await open('/protocols?protocol=dns');
  const queries = () =>
    page.locator('[data-panel="records"] tbody tr').evaluateAll((rows) => rows.map((row) => row.children[1].innerText.trim()));
  await page.locator('[data-panel="records"] th button', { hasText: 'Query' }).click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('sort') === 'query');
  await settled(page);
  const up = (await queries()).map((each) => each.toLowerCase());
  assert.deepEqual(up, [...up].sort());
  await page.locator('[data-panel="records"] th button', { hasText: 'Query' }).click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('sort') === '-query');
  await settled(page);
  const down = (await queries()).map((each) => each.toLowerCase());
  assert.deepEqual(down, [...down].sort().reverse());
  await done(page);
});

test('top values stand beside the table: a click includes, Alt-click excludes', async () => {
  const page = await open('/protocols?protocol=dns');
  const facet = page.locator('[data-facet="type_name"]');
  const first = facet.locator('li button').first();
  await first.waitFor();
  const [name, count] = [await first.locator('.what').innerText(), await first.locator('.num').innerText()];
  await first.click();
  await page.waitForFunction((value) => new URL(location.href).searchParams.get('filter') === `dns.type_name = ${value}`, name);
  await settled(page);
  await page.locator('[data-facet="type_name"] li').first().waitFor();
  // The count over all rows is the number of rows that the filter leaves.
  const note = await page.locator('[data-panel="records"] .note').innerText();
  if (/^\d+$/.test(count)) assert.match(note, new RegExp(`^${count} records match`));
  await page
    .locator('[data-facet="rcode_name"] li button')
    .first()
    .click({ modifiers: ['Alt'] });
  await page.waitForFunction(() => /and \(not \(dns\.rcode_name = /.test(new URL(location.href).searchParams.get('filter')));
  await settled(page);
  await page.getByRole('link', { name: 'hide' }).click();
  assert.equal(await page.locator('[data-facet]').count(), 0);
  assert.equal(query(page).facets, 'off');
  await done(page);
});

test('a value in a cell is included with its field', async () => {
  const page = await open('/protocols?protocol=dns');
  await page.locator('[data-panel="records"] tbody tr').first().locator('td').nth(1).locator('button').click();
  await page.waitForFunction(() => /^dns\.query = /.test(new URL(location.href).searchParams.get('filter')));
  await settled(page);
  await done(page);
});

test('states of flows are explained, and can be chosen', async () => {
  const page = await open('/flows');
  assert.match(await page.locator('[data-panel="flows"] tbody').innerText(), /SF, normal end/);
  await page.locator('[data-facet="state"] li button', { hasText: 'SF, normal end' }).click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'flow.state = SF');
  await settled(page);
  assert.ok((await page.locator('[data-matched]').getAttribute('data-matched')) > 0);
  await done(page);
});

test('a table can be saved: all rows from the server, and the rows as they are shown', async () => {
  const page = await open('/flows?filter=tcp');
  await page.locator('[data-panel="flows"] .copy button').click();
  const link = page.locator('[data-panel="flows"] .box a', { hasText: 'CSV' }).first();
  const url = new URL(await link.getAttribute('href'), page.url());
  assert.deepEqual(
    [url.pathname, url.searchParams.get('format'), url.searchParams.get('filter'), url.searchParams.get('offset')],
    ['/api/v1/flows', 'csv', 'tcp', null],
  );
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('[data-panel="flows"] .box button', { hasText: 'NDJSON' }).click(),
  ]);
  const text = await (await download.createReadStream()).reduce((all, part) => all + part, '');
  const rows = text.trim().split('\n').map(JSON.parse);
  assert.equal(rows.length, await page.locator('[data-panel="flows"] tbody tr').count());
  assert.ok(Object.hasOwn(rows[0], 'State') && /tcp/.test(rows[0].Protocol), text.slice(0, 300));
  await done(page);
});

test('with a filter, what is of the whole link stands apart', async () => {
  const page = await open('/?filter=tcp');
  assert.match(await page.locator('[data-summary="traffic"]').innerText(), /flows, .* of the bytes and .* of the flows in this range/);
  const apart = page.locator('section', { has: page.locator('h2', { hasText: 'Whole link, not narrowed by the filter' }) });
  assert.equal(await apart.locator('[data-summary="lost"]').count(), 1);
  assert.equal(await page.locator('.summary [data-summary="lost"]').count(), 0);
  assert.equal(await apart.locator('[data-panel="traffic"]').count(), 1);
  for (const panel of await page.locator('[data-panel^="list-"]').all())
    assert.doesNotMatch(await panel.locator('header').innerText(), /whole link/);
  await done(page);
  const without = await open('/');
  assert.equal(await without.getByText('Whole link, not narrowed').count(), 0);
  assert.equal(await without.locator('.summary [data-summary="lost"]').count(), 1);
  await done(without);
});

test('the overview has hosts and services first, and findings in words', async () => {
  const page = await open('/');
  const panels = await page.locator('[data-panel]').evaluateAll((all) => all.map((each) => each.dataset.panel));
  assert.ok(/^list-(hosts|sources)$/.test(panels[0]) && panels[1] === 'list-services', String(panels));
  if (own) {
    const finding = page.locator('[data-summary="findings"] button').first();
    assert.match(await finding.innerText(), /^Scan \S+ -> \S+\s+41 ports \(1-40, 443\) in 0\.213 s, refused\.$/);
    await finding.click();
    await page.waitForFunction(() => /^src host /.test(new URL(location.href).searchParams.get('filter')));
    await settled(page);
  }
  await done(page);
});

test('events are on the overview, open ones first, and show their packets', async () => {
  const page = await open('/');
  if (own) {
    const panel = page.locator('[data-panel="events"]');
    const rows = panel.locator('tbody tr');
    await rows.first().waitFor();
    assert.match(await rows.first().innerText(), /^open\s+warning\s+port scan\s+10\.0\.0\.66 -> 10\.0\.0\.9\s+41 ports/);
    assert.match(await rows.nth(1).innerText(), /^ended\s+warning\s+link down\s+eth0 was down for 3\.000 s/);
    await rows.first().getByText('41 ports').click();
    await page.waitForFunction(
      () => new URL(location.href).searchParams.get('filter') === 'src host 10.0.0.66 and dst host 10.0.0.9 and tcp',
    );
    await settled(page);
    assert.equal(await panel.count(), 0, 'a filter does not narrow events');
  }
  await done(page);
});

test(
  'alerts are grouped by kind and subject, and open to their numbers and flows',
  { skip: !own && 'needs the events of the mock' },
  async () => {
    const page = await open('/');
    await page.keyboard.press('g');
    await page.keyboard.press('a');
    const panel = page.locator('[data-panel="alerts"]');
    const kinds = panel.locator('[data-alert] .opener b');
    await kinds.first().waitFor();
    assert.deepEqual(await kinds.allInnerTexts(), ['port scan', 'link down', 'address scan', 'syn flood']);
    assert.match(await page.locator('[data-alerts]').innerText(), /^4 alerts, 1 open, of 5 events$/);
    const alert = panel.locator('[data-alert^="address_scan"]');
    assert.match(await alert.innerText(), /ended\s+warning\s+10\.1\.0\.11 -> tcp\/443\s+128 findings in 2 events/);
    assert.match(await alert.innerText(), /failed 64 \/ \(failed 64 \+ answered 0\) = 100 %/);
    // From the keyboard: rows are reached with j, and opened with Enter.
    for (let at = 0; at < 10 && !(await alert.locator('.opener:focus').count()); at += 1) await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await alert.locator('[data-panel="alert-flows"] tbody tr').first().waitFor();
    assert.equal(query(page).row, 'address_scan 10.1.0.11 -> tcp/443');
    assert.equal(await alert.locator('table').first().locator('tbody tr').count(), 2, 'its events');
    for (const text of await alert.locator('[data-panel="alert-flows"] tbody tr').allInnerTexts())
      assert.match(text, /10\.1\.0\.11:\d+\s.*:443\s/);
    await alert.getByRole('button', { name: '10.1.0.11 -> tcp/443', exact: true }).click();
    await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'src host 10.1.0.11 and tcp dst port 443');
    await settled(page);
    assert.match(await page.locator('[data-alerts]').innerText(), /not narrowed by the filter$/);
    await alert.getByRole('link', { name: 'Flows of this time' }).click();
    await page.waitForFunction(() => location.pathname === '/flows');
    await settled(page);
    assert.ok(Number(query(page).from) < Number(query(page).to), page.url());
    // What is decided by single packets is not part of the filter of flows.
    await page.goto(`${on.site.url}/alerts?kind=syn_flood`);
    await settled(page);
    assert.deepEqual(await kinds.allInnerTexts(), ['syn flood']);
    await kinds.first().click();
    await settled(page);
    assert.match(await panel.innerText(), /tcp\[tcpflags\] & \(tcp-syn \| tcp-ack\) = tcp-syn/);
    await panel.getByRole('button', { name: 'Filter on it' }).click();
    await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'dst host 192.0.2.80 and tcp dst port 80');
    await settled(page);
    await done(page);
  },
);

test('alerts are acknowledged, muted after a preview, and shown again', { skip: !own && 'starts a mock' }, async (t) => {
  const { url, stop } = await target({});
  t.after(stop);
  const page = await open('/alerts', { base: url });
  const panel = page.locator('[data-panel="alerts"]');
  const alert = panel.locator('[data-alert^="address_scan"]');
  await alert.locator('.opener').click();
  await alert.getByRole('button', { name: 'Acknowledge' }).click();
  await alert.getByText(/Acknowledged by ann/).waitFor();
  assert.equal(await alert.getByRole('button', { name: 'Acknowledge' }).count(), 0);
  await alert.getByRole('button', { name: 'Mute like this' }).click();
  const form = alert.getByRole('form', { name: 'Mute' });
  assert.equal(await form.getByLabel('of', { exact: true }).inputValue(), '10.1.0.11');
  const mute = form.getByRole('button', { name: 'Mute', exact: true });
  assert.ok(await mute.isDisabled(), 'not before a preview');
  await form.getByRole('button', { name: 'Preview' }).click();
  await form.getByText(/would have hidden 2 of 5 events since/).waitFor();
  // Another host needs another preview.
  await form.getByLabel('of', { exact: true }).fill('10.1.0.12');
  assert.ok(await mute.isDisabled());
  await form.getByLabel('of', { exact: true }).fill('10.1.0.11');
  await form.getByLabel('because').fill('our <b>scanner</b>');
  await form.getByLabel('until').selectOption('30 days');
  await mute.click();
  await alert.waitFor({ state: 'detached' });
  await settled(page);
  assert.equal(await page.locator('[data-muted]').innerText(), '2 muted, show');
  const mutes = page.locator('[data-panel="mutes"]');
  assert.match(await mutes.locator('tbody tr').innerText(), /address scan of 10\.1\.0\.11\s+2\s.*our <b>scanner<\/b>\s+ann/);
  await page.locator('[data-muted]').click();
  await alert.waitFor();
  await mutes.getByRole('button', { name: /^Remove: / }).click();
  await mutes.waitFor({ state: 'detached' });
  await page.waitForFunction(() => !document.querySelector('[data-muted]'));
  await done(page);
});

test('who may not write can neither mute nor acknowledge', { skip: !own && 'starts a mock' }, async (t) => {
  const { url, stop } = await target({ write: false });
  t.after(stop);
  const page = await open('/alerts', { base: url });
  const alert = page.locator('[data-alert^="address_scan"]');
  await alert.locator('.opener').click();
  await alert.locator('table').first().waitFor();
  assert.equal(await alert.getByRole('button', { name: /Acknowledge|Mute/ }).count(), 0);
  await done(page);
});

test('without alerts the page says what is found, and what would find more', { skip: !own && 'starts a mock' }, async (t) => {
  const { url, stop } = await target({ mode: 'file' });
  t.after(stop);
  const page = await open('/alerts', { base: url });
  const text = await page.locator('[data-panel="alerts"]').innerText();
  for (const word of ['[[trigger]]', '"flood"', '"scans"', 'event noisy-client', 'watch ']) assert.ok(text.includes(word), word);
  await done(page);
});

test('scanners: a cell of ports by time opens its flows', async () => {
  const page = await open('/?range=24h');
  await page.keyboard.press('g');
  await page.keyboard.press('n');
  const panel = page.locator('[data-panel="port-heat"]');
  if (!own) {
    await panel.waitFor();
    await done(page);
    return;
  }
  await panel.locator('a.cell').first().waitFor();
  await settled(page);
  // The table has the figures of the map.
  await panel.locator('button[aria-pressed]').click();
  const cell = panel.locator('a.cell').first();
  const figure = Number(await cell.innerText());
  assert.ok(figure > 0);
  await panel.locator('button[aria-pressed]').click();
  assert.equal(await cell.innerText(), '');
  assert.match(await cell.getAttribute('aria-label'), new RegExp(`^tcp/\\d+, .*: ${figure} flows?$`));
  // Arrow keys move between the cells.
  const [row, column] = (await cell.getAttribute('data-cell')).split('-');
  await cell.focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.cell), `${row}-${Number(column) + 1}`);
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.pathname === '/flows');
  await settled(page);
  const { filter, from, to } = query(page);
  assert.match(filter, /flow\.state = REJ.* and \(tcp dst port \d+\) and \(flow\.first >= [\d.]+ and flow\.first < [\d.]+\)$/);
  assert.equal(Number(await page.locator('[data-matched]').getAttribute('data-matched')), figure, 'the flows of the cell');
  assert.ok(Number(from) < Number(to), page.url());
  await done(page);
});

test('scanners: port signatures, lists and the lines that add others', { skip: !own && 'needs the lists of the mock' }, async () => {
  const page = await open('/scanners');
  const host = page.locator('[data-signature="10.1.0.11"]');
  assert.match(await host.innerText(), /1,280 SYNs to 2 ports of 512 addresses, work weight 99 %, flags EWO/);
  assert.match(await host.innerText(), /445\s+95 %\s+443\s+5\.0 %/);
  assert.match(await page.locator('[data-signature="10.0.0.66"]').innerText(), /76 % to ports outside the sample/);
  assert.equal(await page.locator('[data-signature]').count(), 2, 'a host without SYNs has no signature');
  const missing = await page.locator('[data-panel="missing"]').innerText();
  for (const name of ['icmperror', 'udp', 'flood', 'scans', 'apps']) assert.ok(missing.includes(`chain = ["${name}"]`), name);
  assert.ok(!missing.includes('"syn"'), missing);
  await page.locator('[data-panel="subscription-scanned-addresses"] button[data-row]').first().click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'flow.client = 10.1.0.11 and tcp dst port 445');
  await settled(page);
  await page.getByRole('link', { name: 'Show flows' }).click();
  await page.waitForFunction(() => location.pathname === '/flows');
  await settled(page);
  await done(page);
});

test(
  'scanners: hosts that may be worms in total, ours and others, beside the weeks before',
  { skip: !own && 'needs the mock' },
  async () => {
    for (const [colorScheme, width] of [
      ['light', 1280],
      ['dark', 390],
    ]) {
      const page = await open('/scanners?range=24h&table=worms', { colorScheme, viewport: { width, height: 900 } });
      const panel = page.locator('[data-panel="worms"]');
      const values = panel.locator('table').last();
      const head = await values.locator('thead').innerText();
      for (const word of ['total', 'us', 'them']) assert.ok(head.includes(word), head);
      const rows = await values
        .locator('tbody tr')
        .evaluateAll((all) => all.map((row) => [...row.children].slice(1, 4).map((cell) => Number.parseFloat(cell.innerText))));
      assert.ok(rows.length > 10 && rows.every(([total, us, them]) => total === us + them), JSON.stringify(rows.slice(0, 5)));
      await panel.locator('button[aria-pressed]').click();
      await panel.locator('canvas').waitFor();
      assert.match(await panel.innerText(), /previous 4 weeks, same hours/);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      assert.ok(!wide, `${width} pixels`);
      await done(page);
    }
  },
);

test('scanners: without a list of SYNs the page says what counts worms', { skip: !own && 'needs the mock' }, async () => {
  const page = await open('/');
  await page.route('**/api/v1/tables?*', async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, subscriptions: answer.subscriptions.filter(({ name }) => name !== 'connection attempts') } });
  });
  await page.keyboard.press('g');
  await page.keyboard.press('n');
  const panel = page.locator('[data-panel="worms"]');
  await panel.locator('pre').waitFor();
  assert.match(await panel.innerText(), /which this run does not have[^]*chain = \["syn"\]/);
  await done(page);
});

test('flows over time by any dimension, beside the range before', async () => {
  const page = await open('/charts?over=client&of=flows&compare=before');
  const panel = page.locator('[data-panel="over"]');
  await panel.locator('canvas').waitFor();
  await panel.locator('tbody tr').first().waitFor();
  const rows = await panel
    .locator('tbody tr')
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.innerText.trim())));
  assert.equal(rows.at(-1)[0], 'all');
  assert.ok(
    rows.every((row) => row.length === 4 && row[1] !== ''),
    JSON.stringify(rows),
  );
  await panel.locator('select').first().selectOption({ value: 'service' });
  await page.waitForFunction(() => new URL(location.href).searchParams.get('over') === 'service');
  await panel.locator('tbody tr', { hasText: 'tcp/443' }).first().waitFor();
  // A short capture has too few averages of five minutes.
  if (own) assert.match(await page.locator('[data-percentile]').innerText(), /^95th percentile of the link .*bit\/s/);
  await done(page);
});

test('delays have their quantiles by server', async () => {
  const page = await open('/talkers');
  await page.locator('h2', { hasText: 'Delays' }).or(page.locator('h1')).first().waitFor();
  const panel = page.locator('[data-panel="quantiles"]');
  await reach(panel);
  // Streams are measured on request; answers of DNS always are.
  await settled(page);
  if (!own) await panel.locator('select').first().selectOption({ value: 'dns.rtt' });
  await panel.locator('tbody tr').first().waitFor();
  const numbers = (await panel.locator('tbody tr').first().innerText()).split(/\t/);
  assert.ok(numbers.length >= 7, String(numbers));
  await done(page);
});

test('every field of flows and of their records is a column that is found by a word', async () => {
  const page = await open('/flows?range=24h');
  const flows = page.locator('[data-panel="flows"]');
  await flows.getByRole('button', { name: 'columns', exact: true }).click();
  const box = flows.getByRole('group', { name: 'Columns' });
  for (const [word, name] of [
    ['retransmitted', 'Retransmitted'],
    ['TTL', 'Sent TTL'],
    ['MAC', 'Client MAC'],
    ['ja4', 'JA4 of tls'],
    ['payload', 'Payload bytes'],
  ]) {
    await box.getByLabel('Search for a column').fill(word);
    await box.locator('button.add', { hasText: name }).first().click();
  }
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => (new URL(location.href).searchParams.get('columns') ?? '').includes('flow.payload_bytes'));
  assert.match(query(page).columns, /flow\.retransmitted,flow\.sent_ttl,flow\.client_mac,tls\.ja4,flow\.payload_bytes$/);
  // A column of the URL has its values, and a click on one narrows the page.
  await page.goto(`${on.site.url}/flows?range=24h&columns=source,flow.sent_ttl,flow.client_mac,tls.ja4,flow.inner_vlan`);
  await settled(page);
  await flows.locator('th', { hasText: 'JA4 of tls' }).waitFor();
  if (own) {
    const row = flows.locator('tbody tr', { hasText: 't13d1516h2' }).first();
    const cells = await row.locator('td').allInnerTexts();
    assert.match(cells[1], /^(64|128)$/);
    assert.match(cells[2], /^02:00:00:00:00:/);
    // What has no value says what would give it one.
    await flows.getByText('Inner VLAN has no value in these rows: only packets with two VLAN tags have it.').waitFor();
    await row.locator('td').nth(1).locator('button').click();
    await page.waitForFunction(() => /^flow\.sent_ttl = (64|128)$/.test(new URL(location.href).searchParams.get('filter')));
  }
  await settled(page);
  await done(page);
});

test('a column of hashes without values says which option computes them', { skip: !own && 'needs files of the mock' }, async (t) => {
  const bare = await target({ hashes: false });
  t.after(bare.stop);
  const page = await open('/files?range=24h&columns=filename,sha256', { base: bare.url });
  await page.getByText('SHA-256 has no value in these rows: a run computes it with --hash sha256.').waitFor();
  await done(page);
});
