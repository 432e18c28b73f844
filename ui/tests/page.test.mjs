// The pages in a browser, over the mock or over a daemon (WEIR_URL). Tests that need the mock are skipped over a daemon.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, PAGES, query, reach, settled, stage, target } from './browser.mjs';
import { HOSTILE } from '../mock/data.mjs';

const own = !process.env.WEIR_URL;
const on = stage();
const { open } = on;

const range = (page) => page.locator('[data-range]').innerText();
/** Waits for another range. It is not shown until the store has moved it to its cells. */
const changed = (page, before) => page.waitForFunction((old) => (document.querySelector('[data-range]')?.innerText ?? old) !== old, before);

/** The box of the first chart of a panel. Answers on the way to it have arrived, so that nothing moves it. */
async function plotted(page, panel) {
  const plot = page.locator(`[data-panel="${panel}"] .u-over`).first();
  await reach(plot);
  await settled(page);
  await plot.scrollIntoViewIfNeeded();
  return plot.boundingBox();
}

/** Drags across the first chart of a panel, from one part of its width to another. */
async function brush(page, panel, from, to) {
  const box = await plotted(page, panel);
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 4 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 4 });
  await page.mouse.up();
}

test('the overview has sentences: traffic, top talkers, changes, loss', async () => {
  const page = await open('/');
  const sentence = async (name) => (await page.locator(`[data-summary="${name}"]`).innerText()).trim();
  assert.match(await sentence('traffic'), /: [\d.]+ ([kMGT]?B), average /);
  assert.match(await sentence('traffic'), /Top protocols: .+ %/);
  assert.match(await sentence('talkers'), /: .*B, .* % of all bytes/);
  assert.match(await sentence('changed'), /previous (\d+ )?weeks?/);
  assert.match(await sentence('lost'), /^No loss: all [\d,]+ packets captured|^Loss .* %: /);
  await done(page);
});

test('a selection changes every panel, and Back undoes it', async () => {
  const page = await open('/');
  const before = await range(page);
  page.requests.length = 0;
  await brush(page, 'traffic', 0.3, 0.6);
  await changed(page, before);
  await settled(page);
  const asked = query(page);
  assert.ok(Number(asked.to) > Number(asked.from), page.url());
  // Panels ask for the range that the store moved to its cells.
  const answer = await page.request.get(`${new URL(page.url()).origin}/api/v1/range?from=${asked.from}&to=${asked.to}`);
  const [from, to] = (await answer.json()).range.map((time) => String(Number(time.toFixed(3))));
  assert.ok(Number(from) <= Number(asked.from) && Number(to) >= Number(asked.to), `${from} to ${to}`);
  const requested = page.requests
    .map((url) => new URL(url))
    .filter((url) => url.searchParams.get('from') === from && url.searchParams.get('to') === to)
    .map((url) => url.pathname.replace('/api/v1/', '') + (url.searchParams.get('list') ?? ''));
  for (const tile of ['series/data', 'series/band', 'toptalkers', 'topprotocols', 'new', 'distinct'])
    assert.ok(requested.includes(tile), `${tile} was not reloaded: ${requested}`);
  await page.goBack();
  await page.waitForFunction(() => !new URL(location.href).searchParams.has('from'));
  assert.deepEqual(query(page), {});
  await done(page);
});

test('a selection by keyboard changes the range', async () => {
  const page = await open('/');
  const chart = page.locator('[data-panel="traffic"] [role="application"]');
  await chart.focus();
  for (let step = 0; step < 12; step += 1) await page.keyboard.press('ArrowRight');
  for (let step = 0; step < 20; step += 1) await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => new URL(location.href).searchParams.has('from'));
  await settled(page);
  await done(page);
});

test('a URL restores the view', async () => {
  const page = await open('/flows');
  const now = Math.floor(await page.evaluate(async () => (await (await fetch('/api/v1/status')).json()).last));
  const path = `/flows?from=${now - 1800}&to=${now}&filter=tcp&sort=-packets`;
  await page.goto(on.site.url + path);
  await settled(page);
  const row = page.locator('[data-panel="flows"] tbody button[aria-expanded]').first();
  await row.click();
  await page.waitForSelector('[data-panel="flows"] .detail dl');
  await settled(page);
  const look = async (which) => ({
    range: await range(which),
    rows: await which.locator('[data-panel="flows"] tbody tr:not(.detail)').allInnerTexts(),
    open: await which.locator('.detail dl').first().innerText(),
    sort: await which.locator('th[aria-sort]').innerText(),
    filter: await which.inputValue('#filter'),
  });
  const here = await look(page);
  const other = await open(page.url().slice(on.site.url.length));
  await other.waitForSelector('[data-panel="flows"] .detail dl');
  await settled(other);
  assert.deepEqual(await look(other), here);
  assert.equal(here.filter, 'tcp');
  assert.ok(here.rows.length > 0);
  await done(other);
  await done(page);
});

test('a click includes, Alt-click excludes, and each part can be removed', async () => {
  const page = await open('/talkers');
  const bar = page.locator('[data-panel="list-sources"] button[data-row]').first();
  await reach(bar);
  await bar.click();
  await page.waitForFunction(() => new URL(location.href).searchParams.has('filter'));
  const first = query(page).filter;
  await settled(page);
  const service = page.locator('[data-panel="list-services"] button[data-row]').first();
  await service.click({ modifiers: ['Alt'] });
  await page.waitForFunction((old) => new URL(location.href).searchParams.get('filter') !== old, first);
  assert.ok(query(page).filter.startsWith(`(${first}) and (not (`), query(page).filter);
  await page.getByRole('link', { name: `Remove ${first}` }).click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter').startsWith('not ('));
  await settled(page);
  await done(page);
});

test('a click on a band of a chart includes its expression', { skip: !own && 'needs the lines of the mock' }, async () => {
  const page = await open('/charts');
  const box = await plotted(page, 'chart-protocols');
  const plots = () => page.evaluate(() => performance.getEntriesByName('weir.strip', 'measure').length);
  // Other colours make a new plot: the click counts although it was pressed on the one before.
  await page.mouse.move(box.x + box.width / 2, box.y + box.height - 4);
  await page.mouse.down();
  const before = await plots();
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForFunction((old) => performance.getEntriesByName('weir.strip', 'measure').length > old, before);
  await page.mouse.up();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'tcp port 443');
  await settled(page);
  await done(page);
});

test('bookmarks restore their view, and unknown parameters are ignored', { skip: !own && 'needs the data of the mock' }, async () => {
  const KEPT = [
    [
      '/charts?range=7d&style=lines&band=off&chart=ports',
      async (page) => {
        assert.equal(await page.locator('main h1').innerText(), 'Charts: Services of the campus');
        assert.deepEqual(await page.locator('main .options [aria-current="true"]').allInnerTexts(), ['lines', 'without']);
        assert.equal(await page.locator('[aria-label="Span"] [aria-current="true"]').innerText(), 'week');
      },
    ],
    [
      '/talkers?range=24h&by=packets&top=25&heat=packets/udp',
      async (page) => {
        assert.deepEqual(await page.locator('main .options [aria-current="true"]').allInnerTexts(), ['packets', '25 rows']);
        assert.equal(await page.locator('[data-panel="list-sources"] li').count(), 25);
      },
    ],
    [
      '/protocols?range=24h&protocol=dns&text=b%C3%BCcher&gone=1',
      async (page) => {
        assert.equal(await page.locator('[data-panel="records"] h2').innerText(), 'dns');
        assert.equal(await page.locator('[data-panel="records"] input').inputValue(), 'b\u00fccher');
        assert.match(await page.locator('[data-panel="records"]').innerText(), /No matching records in this range/);
      },
    ],
    [
      '/flows?range=24h&sort=first&offset=100&filter=(tcp)%20and%20(not%20(port%2080))',
      async (page) => {
        assert.match(await page.locator('[data-panel="flows"]').innerText(), /101 to 200 of/);
        assert.deepEqual(await page.locator('[aria-label="Parts of the filter"] code').allInnerTexts(), ['tcp', 'not (port 80)']);
      },
    ],
    ['/?from=1700000000&to=1700003600', async (page) => assert.match(await range(page), /^2023-11-14 23:13:20/)],
  ];
  for (const [path, look] of KEPT) {
    const page = await open(path);
    await look(page);
    await done(page);
  }
});

test('open flows are marked in the list and counted above it', async () => {
  const page = await open('/flows');
  await page.waitForSelector('[data-matched]');
  await settled(page);
  const cells = await page.locator('main td').allInnerTexts();
  const marked = cells.filter((text) => /^[A-Z0-9]+, open$/.test(text.trim())).length;
  const said = /(\d+) of those shown open/.exec(await page.locator('[data-matched]').innerText());
  assert.equal(Number(said?.[1] ?? 0), marked);
  if (!process.env.WEIR_URL) assert.ok(marked > 0, 'the stand-in has open flows');
  await done(page);
});

test('the filter is checked while it is typed, and errors are marked', async () => {
  const page = await open('/flows');
  await page.fill('#filter', 'tcp porrt 443');
  await page.waitForSelector('#filter-error pre');
  const caret = await page.locator('#filter-error pre').innerText();
  assert.match(caret, /^tcp porrt 443\n {4}\^+/);
  await page.keyboard.press('Enter');
  assert.equal(query(page).filter, undefined, 'an invalid filter is not applied');
  await page.fill('#filter', 'tcp port 443');
  await page.waitForSelector('#filter-error pre', { state: 'detached' });
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'tcp port 443');
  await settled(page);
  await done(page);
});

test('strings from packets stay text', async () => {
  for (const path of ['/', '/talkers', '/flows', '/protocols?protocol=http', '/files']) {
    const page = await open(path);
    assert.equal(await page.locator('main script, main img').count(), 0, path);
    assert.doesNotMatch(await page.title(), /owned/);
    if (own) assert.ok((await page.locator('main').innerText()).includes('<script>'), `${path} shows the hostile name as text`);
    await done(page);
  }
  assert.ok(HOSTILE.includes('<script>'));
});

test('keyboard only: pages, rows, an open flow, time, help', async () => {
  const page = await open('/');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open]');
  assert.match(await page.locator('dialog').innerText(), /earlier, later by half the range/);
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  for (const [key, path] of [
    ['d', '/dumps'],
    ['c', '/charts'],
    ['t', '/talkers'],
    ['p', '/protocols'],
    ['i', '/files'],
    ['s', '/sensor'],
    ['u', '/configuration'],
    ['f', '/flows'],
  ]) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.waitForFunction((to) => location.pathname === to, path);
    await settled(page);
  }
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[data-panel="flows"] .detail dl');
  assert.ok(query(page).row);
  await page.keyboard.press('/');
  await page.keyboard.type('tcp');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'tcp');
  await page.keyboard.press('Escape');
  const before = await range(page);
  await page.keyboard.press('[');
  await changed(page, before);
  const wide = query(page);
  await page.keyboard.press('+');
  await page.waitForFunction((old) => new URL(location.href).searchParams.get('from') !== old, wide.from);
  const zoomed = query(page);
  assert.ok(Math.abs((zoomed.to - zoomed.from) * 2 - (wide.to - wide.from)) <= 2);
  await page.keyboard.press('z');
  assert.equal(await page.evaluate(() => localStorage.getItem('weir.zone')), 'utc');
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.waitForSelector('[data-panel="list-sources"] button[data-row]');
  await page.locator('[data-panel="list-sources"] button[data-row]').first().focus();
  await page.keyboard.press('Alt+Enter');
  await page.waitForFunction(() => /not \(/.test(new URL(location.href).searchParams.get('filter') ?? ''));
  await settled(page);
  await done(page);
});

test('every chart can be shown as a table', async () => {
  const page = await open('/');
  await page.locator('[data-panel="traffic"] button[aria-pressed]').click();
  await page.waitForSelector('[data-panel="traffic"] table');
  assert.equal(query(page).table, 'traffic');
  assert.match(await page.locator('[data-panel="traffic"] table').first().innerText(), /95th/);
  await done(page);
});

test('copy as: a command line and curl', async () => {
  const page = await open('/flows?filter=tcp');
  await page.locator('[data-panel="flows"] .copy button').click();
  const text = await page.locator('[data-panel="flows"] .box').innerText();
  assert.match(text, /curl -s 'http.*\/api\/v1\/flows\?filter=tcp/);
  if (own) assert.match(text, /weir -i eth0 tcp/);
  await done(page);
});

test('no page scrolls sideways at 375 pixels, nor at 200 %', async () => {
  for (const viewport of [
    { width: 375, height: 812 },
    { width: 640, height: 450 },
  ]) {
    for (const path of PAGES) {
      const page = await open(path, { viewport });
      const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= room, `${path} at ${viewport.width}: ${wide} > ${room}`);
      await done(page);
    }
  }
});

test('time zones: named on the axis, and applied to every time', async () => {
  const page = await open('/');
  await page.selectOption('.zone select', 'utc');
  assert.match(await page.locator('[data-panel="traffic"] .zone').innerText(), /^time zone: UTC$/);
  const utc = await range(page);
  if (own) {
    await page.selectOption('.zone select', 'sensor');
    assert.match(await page.locator('[data-panel="traffic"] .zone').innerText(), /Europe\/Berlin, UTC\+0[12]:00/);
    assert.notEqual(await range(page), utc);
  }
  await done(page);
});

test('live: the page shows the state of the stream', { skip: !own && 'needs a stream that can be cut' }, async () => {
  const page = await open('/');
  await page.waitForSelector('[data-live="live"]');
  const first = await page.locator('[data-summary="traffic"]').innerText();
  await page.waitForFunction((old) => document.querySelector('[data-summary="traffic"]').innerText !== old, first);
  on.site.deaf(true);
  await page.waitForSelector('[data-live="lost"]');
  on.site.deaf(false);
  await page.waitForSelector('[data-live="live"]');
  await page.context().close();
});

test('the end of a capture is shown, and stored data stays', { skip: !own && 'ends the capture' }, async () => {
  const page = await open('/');
  await page.waitForSelector('[data-live="live"]');
  on.site.end();
  await page.waitForSelector('[data-live="ended"]');
  assert.match(await page.locator('[data-live]').innerText(), /has ended/);
  await page.waitForTimeout(1500);
  assert.equal(page.requests.filter((url) => url.endsWith('/live')).length, 1, 'it is not retried');
  await done(page);
});

test('a capture file is not live, and sets the range', { skip: !own && 'needs a capture' }, async (t) => {
  const other = await target({ mode: 'file' });
  t.after(other.stop);
  const page = await open('/', { base: other.url });
  assert.match(await page.locator('[data-live="file"]').innerText(), /capture file: sample\.pcap/);
  assert.equal(await page.locator('[data-panel="now"]').count(), 0);
  assert.ok(!page.requests.some((url) => url.endsWith('/live')));
  assert.match(await range(page), /^2025-11-22 08:26:40.*08:26:55/);
  await done(page);
});

test(
  'without the right packets there is no download, and the reason stands in its place',
  { skip: !own && 'needs a client without it' },
  async (t) => {
    const other = await target({ packets: false });
    t.after(other.stop);
    const refused = await open('/flows?filter=tcp', { base: other.url });
    assert.equal(await refused.locator('.packets button, .packets a, a[download]').count(), 0);
    assert.match(await refused.locator('main').innerText(), /needs the right packets, which ann does not have/);
    assert.ok(!refused.requests.some((url) => url.includes('/api/v1/packets')));
    await refused.context().close();
    const page = await open('/flows?filter=tcp');
    assert.ok((await page.locator('.packets button').count()) > 0);
    assert.doesNotMatch(await page.locator('main').innerText(), /needs the right packets/);
    await done(page);
  },
);

test('an error, a slow answer and an empty one each have a text', { skip: !own && 'needs a server that can be broken' }, async (t) => {
  const broken = await target({ fail: '^top' });
  t.after(broken.stop);
  // A range that does not move: one that does loads its panels again by itself, and the error is gone before the click.
  const { last } = await (await fetch(`${broken.url}/api/v1/status`)).json();
  const fixed = `from=${Math.floor(last) - 1800}&to=${Math.floor(last)}`;
  let page = await open(`/?${fixed}`, { base: broken.url });
  assert.match(await page.locator('[data-panel="list-talkers"] [role="alert"]').innerText(), /the store cannot be read[\s\S]*Retry/);
  broken.set.fail = '';
  await page.locator('[data-panel="list-talkers"] [role="alert"] button').click();
  await page.waitForSelector('[data-panel="list-talkers"] ol');
  await page.context().close();
  broken.set.slow = 60_000;
  page = await (await on.browser.newContext()).newPage();
  await page.goto(`${broken.url}/flows?${fixed}`);
  await page.locator('[data-panel="flows"] [role="status"] button', { hasText: 'Stop' }).click();
  await page.waitForSelector('[data-panel="flows"] [role="alert"]');
  assert.match(await page.locator('[data-panel="flows"]').innerText(), /Stopped before the answer arrived/);
  await page.context().close();
  page = await open(`/flows?filter=tcp+port+1&${fixed}`);
  assert.match(await page.locator('[data-panel="flows"]').innerText(), /No flow in this range matches the filter/);
  await done(page);
});

test('ten thousand lines in a chart: twelve and a sum, and any other by search', { skip: !own && 'needs such a chart' }, async (t) => {
  const many = await target({ lines: 10_000 });
  t.after(many.stop);
  const page = await on.browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(`${many.url}/charts?range=24h`);
  const panel = page.locator('[data-panel="chart-hosts"]');
  await reach(panel);
  // The mock refuses to rank them, so the page does, and shows its progress.
  await panel.locator('text=/of 10000 lines ranked so far/').waitFor();
  await panel.locator('text=9988 other').waitFor();
  await panel.locator('text=/lines ranked so far/').waitFor({ state: 'detached' });
  assert.equal(await panel.locator('ul').first().locator('li').count(), 13);
  await panel.locator('input[type=search]').fill('10.2.7.7');
  await panel.locator('button', { hasText: '+ 10.2.7.7' }).first().click();
  await panel.locator('text=9987 other').waitFor();
  await page.close();
});

test('a configuration is checked, compared and only then applied', { skip: !own && 'changes the configuration' }, async () => {
  const page = await open('/configuration');
  const text = page.locator('#config-text');
  const before = await text.inputValue();
  const apply = page.getByRole('button', { name: 'Apply' });
  assert.ok(await apply.isDisabled());
  await text.fill(before.replace('interval', 'intervall'));
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('unknown key "intervall"').waitFor();
  assert.ok(await apply.isDisabled());
  await text.fill(before.replace('"5s"', '"10s"'));
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('+interval = "10s"').waitFor();
  await apply.click();
  await page.getByText('Applied:').waitFor();
  await page.fill('#try-filter', 'tcp port 443');
  await page.getByRole('button', { name: 'Try' }).click();
  await page
    .locator('[data-panel="tried"]')
    .getByText(/of stored bytes/)
    .waitFor();
  await done(page);
});

test('times are typed in the words of queries', async () => {
  const page = await open('/?range=1h');
  const type = async (first, last) => {
    const form = page.locator('form.typed');
    if ((await form.count()) === 0) await page.locator('button[title="Enter a time range"]').click();
    await page.getByLabel('From', { exact: true }).fill(first);
    await page.getByLabel('to', { exact: true }).fill(last);
    await page.getByRole('button', { name: 'Show', exact: true }).click();
  };
  await type('yesterdy', 'now');
  await page.locator('form.typed [role="alert"]', { hasText: /since: "yesterdy" is not a time; expected a length of time/i }).waitFor();
  await type('today 0:30', 'yesterday 9:00');
  await page.locator('form.typed [role="alert"]', { hasText: 'The end must be after the start' }).waitFor();
  assert.ok(page.faults.length === 2 && page.faults.every((fault) => fault.includes('400')), page.faults.join());
  page.faults.length = 0;
  for (const [first, last] of [
    ['yesterday 9:00', 'today 0:30'],
    ['3 days ago', 'yesterday'],
    ['90m', 'now'],
    ['13:50', ''],
  ]) {
    await type(first, last);
    await page.locator('form.typed').waitFor({ state: 'detached' });
    const zone = await page.evaluate(async () => (await (await fetch('/api/v1/status')).json()).zone);
    const words = new URLSearchParams({ since: first, ...(last ? { until: last } : {}), zone });
    const answer = await page.request.get(`${on.site.url}/api/v1/range?${words}`);
    const { asked } = await answer.json();
    const { from, to } = query(page);
    assert.ok(Math.abs(Number(from) - asked[0]) <= 5, `${first}: ${from} is not ${asked[0]}`);
    assert.ok(Math.abs(Number(to) - asked[1]) <= 5, `${last}: ${to} is not ${asked[1]}`);
  }
  await settled(page);
  await done(page);
});
