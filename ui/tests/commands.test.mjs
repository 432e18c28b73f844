// Every command, table and download that the pages offer is used: it has what its panel shows, and no more.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { done, PAGES, query, settled, stage } from './browser.mjs';
import { folder, start, WEIR } from './program.mjs';

const SAMPLE = fileURLToPath(new URL('../../testdata/sample/sample.pcap', import.meta.url));
const skip = !WEIR && 'needs WEIR, the path of the program';
const on = stage({ skip: !!skip, start: () => null });

/** Runs a line as a shell does into which it is pasted; `weir` is the program under test. */
function shell(line, cwd, ...more) {
  const path = `${dirname(WEIR)}:${process.env.PATH}`;
  const ran = spawnSync('sh', ['-c', [line, ...more].join(' ')], { cwd, env: { ...process.env, PATH: path }, maxBuffer: 1 << 28 });
  assert.equal(ran.status, 0, `${line}\n${ran.stderr}`);
  return String(ran.stdout);
}

const objects = (text) => text.trim().split('\n').filter(Boolean).map(JSON.parse);

/** The rows of a CSV file below its names. Strings of captures may have line ends between quotes. */
function csv(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== ',') rows.push([]);
  }
  return rows.filter((row) => row.length > 1 || (row[0] ?? '') !== '').slice(1);
}

/** What a page offers: of each panel its commands and its tables. Panels are loaded when they come into view. */
async function offers(page) {
  const found = new Map();
  for (;;) {
    await settled(page);
    const fresh = page.locator('[data-panel]:has(.popup.copy)');
    for (const id of await fresh.evaluateAll((panels) => panels.map((panel) => panel.getAttribute('data-panel')))) {
      if (found.has(id)) continue;
      const panel = page.locator(`[data-panel="${id}"]`).first();
      const button = panel.locator('.popup.copy > button');
      await button.click();
      await panel.locator('.popup.copy .box').waitFor();
      // The directory of the store is asked for when the first box opens.
      await page.waitForLoadState('networkidle');
      const lines = await panel.locator('.popup.copy code').allTextContents();
      const links = await panel.locator('.popup.copy a[download]').evaluateAll((all) => all.map((link) => [link.textContent, link.href]));
      await button.press('Escape');
      found.set(id, { lines, links });
    }
    const isEnd = await page.evaluate(() => {
      const end = scrollY + innerHeight >= document.body.scrollHeight;
      if (!end) scrollTo(0, scrollY + innerHeight / 2);
      return end;
    });
    if (isEnd) return found;
  }
}

/** Opens a page and keeps the answers that it gets. */
async function opened(base, path) {
  const answers = new Map();
  const context = await on.browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(String(error)));
  page.on('response', (response) => {
    if (new URL(response.url()).pathname.startsWith('/api/'))
      answers.set(
        response.url(),
        response.text().catch(() => null),
      );
  });
  await page.goto(base + path);
  await settled(page);
  return { page, answers };
}

/** Numbers of the sensor move while the pages are read: of these answers the names are compared. */
const MOVES = /\/api\/v1\/(sensor|status|events)\b/;

/** An answer without the time that it took. */
const timeless = (answer) => (answer !== null && 'milliseconds' in answer ? { ...answer, milliseconds: 0 } : answer);

const within = (value, [low, high], about) => assert.ok(value >= low && value <= high, `${about}: ${value}, not ${low} to ${high}`);

/** Later fragments of the flows of a page with a filter, and their bytes, of which each has at most 1,514. */
async function laterFragments(base, page) {
  const filter = query(page).filter;
  if (!filter) return { fragments: 0, fragmented: 0 };
  const url = `${base}/api/v1/query?${new URLSearchParams({ q: `top client by flow.later_fragments where ${filter}` })}`;
  const { columns, total } = await (await fetch(url)).json();
  const fragments = total[columns.findIndex(({ name }) => name === 'later_fragments')] ?? 0;
  return { fragments, fragmented: fragments * 1514 };
}

/** Whether a table is of the question of an answer: all but the number of rows and the format. */
function alike(...urls) {
  const [one, other] = urls.map((url) => {
    const found = new URL(url);
    for (const name of ['format', 'limit', 'offset']) found.searchParams.delete(name);
    const question = found.searchParams.get('q');
    if (question) found.searchParams.set('q', question.replace(/\blimit \d+ ?/, ''));
    found.searchParams.sort();
    return found.href;
  });
  return one === other;
}

/** Checks everything that one page offers, and counts it. */
async function use(base, path, tried, cwd, run = { file: 'x.pcap', expression: '', since: null }) {
  const { page, answers } = await opened(base, path);
  for (const [panel, { lines, links }] of await offers(page)) {
    const about = `${path}, ${panel}`;
    for (const line of lines) {
      if (line.startsWith('curl ')) {
        const url = new URL(line.slice(line.indexOf('http')).replaceAll("'", '')).href;
        const [got, shown] = [shell(line, cwd), (await answers.get(url)) ?? 'null'].map(JSON.parse).map(timeless);
        assert.notEqual(shown, null, `${about}: the panel has not asked ${url}`);
        if (MOVES.test(url)) assert.deepEqual(Object.keys(got), Object.keys(shown), about);
        else assert.ok(isDeepStrictEqual(got, shown), `${about}: another answer to ${line}`);
        tried.curl += 1;
      } else if (line.startsWith("weir query 'events ")) {
        const [, events] = [...answers].find(([url]) => new URL(url).pathname === '/api/v1/events');
        const shown = JSON.parse(await events).events.filter((event) => event.id !== null);
        assert.equal(JSON.parse(shell(line, cwd, '-j')).rows.length, shown.length, `${about}: ${line}`);
        tried.query += 1;
      } else if (line.startsWith('weir query ')) {
        assert.ok(shell(line, cwd).length > 0, about);
        const answer = JSON.parse(shell(line, cwd, '-j'));
        const top = [...answers].filter(([url]) => new URL(url).pathname === '/api/v1/top');
        const list = panel.replace(/^list-/, '');
        const shown = JSON.parse(await top.findLast(([url]) => new URL(url).searchParams.get('list') === list)[1]);
        const place = (name) => answer.columns.findIndex((column) => column.name === name);
        const names = ['bytes', 'packets', 'flows'].filter((name) => place(name) >= 0);
        assert.ok(names.length > 0, line);
        const rows = answer.rows.map((row) => [String(row[0]), ...names.map((name) => row[place(name)])]);
        assert.deepEqual(
          rows.filter(([label]) => !['other', 'total'].includes(label)),
          shown.rows.map((row) => [row.label, ...names.map((name) => row[name])]),
          `${about}: ${line}`,
        );
        tried.query += 1;
      } else if (/ -o logs --log csv$/.test(line)) {
        const made = mkdtempSync(join(cwd, 'logs-'));
        shell(line.replace('-o logs', `-o ${made}`), cwd, '-q');
        const text = existsSync(join(made, 'flows.csv')) ? readFileSync(join(made, 'flows.csv'), 'utf8') : '';
        const names = text.split('\n')[0].split(',');
        const rows = csv(text);
        const sum = (...of) => rows.reduce((all, row) => of.reduce((n, name) => n + Number(row[names.indexOf(name)]), all), 0);
        const [, flows] = [...answers].find(([each]) => new URL(each).pathname === '/api/v1/flows');
        const { matched, matched_packets: packets, matched_bytes: bytes, crossing } = JSON.parse(await flows);
        assert.equal(rows.length, matched, `${about}: ${line}`);
        // Flows that cross an end of the range are there with their share. Later fragments have no ports, by which the packets of flows
        // are selected.
        const { counted, whole } = crossing ?? { counted: { packets: 0, bytes: 0 }, whole: { packets: 0, bytes: 0 } };
        const bounds = (own, share, all, missed) => [own - share - missed, own - share + all];
        const { fragments, fragmented } = await laterFragments(base, page);
        within(sum('packets', 'reverse_packets'), bounds(packets, counted.packets, whole.packets, fragments), line);
        within(sum('frame_bytes', 'reverse_frame_bytes'), bounds(bytes, counted.bytes, whole.bytes, fragmented), line);
        tried.logs += 1;
      } else {
        assert.match(line, /^weir /, about);
        const [ledger] = objects(shell(line, cwd, '-j -q')).filter((each) => each.kind === 'ledger');
        // The chart of the link: its first request. Others are of weeks before.
        const chart = lines.find((each) => each.includes('ids=ledger%2Fbytes'));
        const { series, step, widths } = JSON.parse(shell(chart, cwd));
        const bits = series[0].avg.reduce((all, value, at) => all + (value ?? 0) * (widths?.[at] ?? step), 0);
        assert.equal(ledger.bytes, Math.round(bits / 8), `${about}: ${line}`);
        tried.files += 1;
      }
    }
    for (const [format, url] of links) {
      const text = await (await fetch(url)).text();
      const rows = format === 'CSV' ? csv(text).length : objects(text).length;
      const [, of] = [...answers].find(([each]) => alike(each, url)) ?? [];
      const shown = JSON.parse(await of);
      const all = shown.matched ?? shown.rows?.length ?? shown.times?.length ?? shown.events.length;
      assert.ok(shown.matched === undefined ? rows >= all : rows === all, `${about}: ${rows} rows as ${format}, ${all} shown: ${url}`);
      tried.tables += 1;
    }
  }
  const download = page.getByRole('button', { name: 'Download packets' }).first();
  if ((await download.count()) > 0) {
    await download.click();
    const link = page.getByRole('link', { name: /^Download / }).first();
    await link.waitFor();
    const [saved] = await Promise.all([page.waitForEvent('download'), link.click()]);
    const file = join(mkdtempSync(join(cwd, 'packets-')), 'x.pcap');
    await saved.saveAs(file);
    const counted = (source, expression, ...more) => objects(shell(`weir count ${source} -e '${expression}' -j`, cwd, ...more))[0].packets;
    const { filter = '', from, to } = Object.fromEntries(new URL(await link.getAttribute('href'), base).searchParams);
    const times = [`--since ${run.since ?? new Date(from * 1000).toISOString()}`, `--until ${new Date(to * 1000).toISOString()}`];
    const whole = [run.expression, filter].filter(Boolean).join(' and ');
    const packets = counted(file, '');
    assert.equal(packets, Number(/^Download ([\d,]+) /.exec(await link.innerText())[1].replaceAll(',', '')), path);
    assert.equal(packets, counted(run.file, whole, ...times), path);
    tried.packets += 1;
  }
  await done(page);
}

test('everything that the pages offer has what they show', { skip }, async (t) => {
  const cwd = folder(t);
  copyFileSync(SAMPLE, join(cwd, 'x.pcap'));
  const { url } = await start(t, ['open', 'x.pcap'], ['env', '-C', cwd]);
  const tried = { curl: 0, query: 0, logs: 0, files: 0, tables: 0, packets: 0 };
  const part = 'from=1795252801.25&to=1795252806.5';
  const paths = [
    ...PAGES,
    ...['http', 'tls', 'mail', 'anomaly'].map((table) => `/protocols?protocol=${table}`),
    ...['/', '/talkers', '/flows', '/protocols?protocol=dns'].map((page) => `${page}${page.includes('?') ? '&' : '?'}${part}`),
    ...['/', '/talkers', '/flows'].map((page) => `${page}?filter=udp+port+53`),
    ...['dns.rcode_name = NXDOMAIN', 'flow.state = SF'].map((filter) => `/flows?${new URLSearchParams({ filter })}`),
    `/flows?${new URLSearchParams({ filter: 'tcp and not port 443' })}&${part}`,
    '/talkers?by=packets&top=25&range=5s',
  ];
  for (const path of paths) await use(url, path, tried, cwd);
  console.log(tried);
  for (const [name, least] of Object.entries({ curl: 100, query: 40, logs: 5, files: 3, tables: 150, packets: 5 })) {
    assert.ok(tried[name] >= least, `${name}: ${tried[name]}`);
  }
});

test('a command has the options of the run that decide which packets it has', { skip }, async (t) => {
  const cwd = folder(t);
  // The name of a command, and one that a shell takes apart.
  for (const [name, file] of [
    ['count', './count'],
    ["it's x.pcap", `'it'\\''s x.pcap'`],
  ]) {
    copyFileSync(SAMPLE, join(cwd, name));
    const since = '2026-11-21T09:20:03.5Z';
    const options = ['--since', since, '--checksum', 'off', '--snaplen', '200'];
    const { url } = await start(t, ['open', '-r', name, 'tcp', ...options], ['env', '-C', cwd]);
    const tried = { curl: 0, query: 0, logs: 0, files: 0, tables: 0, packets: 0 };
    for (const path of ['/', '/flows', '/flows?filter=port+80']) await use(url, path, tried, cwd, { file, expression: 'tcp', since });
    assert.deepEqual([tried.files, tried.logs, tried.packets], [1, 2, 2]);
  }
});
