// The pages over the program (WEIR), which these tests start. The tests write captures and generate traffic, and compare
// the pages with `weir count`.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { done, moves, query, reach, settled, stage } from './browser.mjs';
import { connection, lookup, pcap } from './packets.mjs';
import { count, folder, free, launchIn, matched, start, WEIR } from './program.mjs';

const SAMPLE = fileURLToPath(new URL('../../testdata/sample/sample.pcap', import.meta.url));
const skip = !WEIR && 'needs WEIR, the path of the program';
const on = stage({ skip: !!skip, start: () => null });

const OWNED = "<script>document.title='owned'</script>.example";
const IMAGE = '<img src=x onerror="document.title=\'owned\'">';

test('strings of a capture are text on every page', { skip }, async (t) => {
  const file = join(folder(t), 'hostile.pcap');
  const [client, server, resolver] = ['10.1.0.1', '192.0.2.80', '10.1.0.53'];
  const body = `<html>${IMAGE}</html>`;
  pcap(file, [
    ...lookup([client, 5353], [resolver, 53], OWNED.split('.'), server),
    ...connection(
      [client, 40_000],
      [server, 80],
      [
        [0, `GET /${encodeURIComponent(IMAGE)} HTTP/1.1\r\nHost: ${OWNED}\r\nUser-Agent: ${IMAGE}\r\n\r\n`],
        [
          1,
          [
            `HTTP/1.1 200 OK\r\nServer: ${IMAGE}\r\nContent-Type: text/html\r\n`,
            `Content-Disposition: attachment; filename="${OWNED.replaceAll('"', '')}"\r\n`,
            `Content-Length: ${body.length}\r\n\r\n${body}`,
          ].join(''),
        ],
      ],
    ),
  ]);
  const { url } = await start(t, ['open', file]);
  for (const path of ['/', '/talkers', '/flows', '/protocols?protocol=http', '/protocols?protocol=dns', '/files']) {
    const page = await on.open(path, { base: url });
    const text = await page.locator('main').evaluate((main) => main.textContent);
    // Lists have names where the API sends them; other strings are shown unchanged.
    const listed =
      path === '/'
        ? await page.evaluate(async () =>
            (await (await fetch('/api/v1/top?list=talkers')).json()).rows.some((row) => `${row.label} ${row.name}`.includes('<script>')),
          )
        : true;
    assert.equal(text.includes('<script>document'), listed, `${path}: ${text}`);
    if (path === '/flows') {
      await page.locator('[data-panel="flows"] tbody tr', { hasText: OWNED }).locator('button[aria-expanded]').first().click();
      await page.locator('.detail section', { hasText: IMAGE }).first().waitFor();
    }
    assert.equal(await page.locator('main :is(script, img, iframe, object, embed, style, link)').count(), 0, path);
    assert.doesNotMatch(await page.title(), /owned/);
    await done(page);
  }
});

test('keyboard only, from the URL to the records of a flow', { skip }, async (t) => {
  const { url } = await start(t, ['open', SAMPLE]);
  const page = await on.open('/', { base: url });
  const keys = async (...all) => {
    for (const key of all) await page.keyboard.press(key);
  };
  // The first tab stop skips the header.
  await keys('Tab', 'Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await keys('g', 'f');
  await page.waitForFunction(() => location.pathname === '/flows');
  await settled(page);
  const all = await matched(page);
  await keys('/');
  await page.keyboard.type('tcp port 80');
  await keys('Enter');
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'tcp port 80');
  await settled(page);
  const few = await matched(page);
  const counted = count(SAMPLE, 'tcp port 80');
  assert.deepEqual(few, { packets: counted.packets, bytes: counted.bytes });
  assert.ok(few.packets > 0 && few.packets < all.packets);
  await keys('Escape');
  // To the first row of flows.
  for (
    let step = 0;
    step < 30 && !(await page.evaluate(() => document.activeElement.matches('[data-panel="flows"] [aria-expanded]')));
    step += 1
  )
    await keys('j');
  await keys('Enter');
  await page.locator('[data-panel="flows"] .detail section h3', { hasText: 'http' }).first().waitFor();
  assert.match(await page.locator('[data-panel="flows"] .detail section').first().innerText(), /method\s+(GET|POST|HEAD)/);
  assert.ok(query(page).row);
  // The same key closes it.
  await keys('Enter');
  await page.waitForSelector('[data-panel="flows"] .detail', { state: 'detached' });
  await done(page);
});

test('packets of a flow: their number before the download, and then as many', { skip }, async (t) => {
  const { url } = await start(t, ['open', SAMPLE]);
  const page = await on.open(`/flows?filter=${encodeURIComponent('udp port 53')}`, { base: url });
  await page.getByRole('button', { name: 'Download packets' }).click();
  const link = page.getByRole('link', { name: /^Download / });
  const counted = count(SAMPLE, 'udp port 53');
  assert.match(await link.innerText(), new RegExp(`Download ${new Intl.NumberFormat('en').format(counted.packets)} packets, \\d`));
  const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
  const file = join(folder(t), 'of-these.pcap');
  await download.saveAs(file);
  assert.deepEqual(count(file, 'udp port 53'), counted);
  assert.equal(count(file, 'not udp port 53').packets, 0);
  await done(page);
});

test('a tried filter matches as many packets as weir counts', { skip }, async (t) => {
  const { url } = await start(t, ['open', SAMPLE]);
  const page = await on.open('/configuration', { base: url });
  await page.fill('#try-filter', 'tcp porrt 80');
  await page.waitForSelector('#try-filter-error pre');
  await page.getByRole('button', { name: 'Try' }).click();
  assert.equal(await page.locator('[data-panel="tried"]').count(), 0);
  await page.fill('#try-filter', 'tcp port 80');
  const [answer] = await Promise.all([
    page.waitForResponse((each) => each.url().includes('/api/v1/filter/try')),
    page.getByRole('button', { name: 'Try' }).click(),
  ]);
  const found = await answer.json();
  const [counted, all] = [count(SAMPLE, 'tcp port 80'), count(SAMPLE, 'ip or ip6')];
  assert.deepEqual(
    [found.packets, found.bytes, found.of.packets, found.of.bytes],
    [counted.packets, counted.bytes, all.packets, all.bytes],
  );
  const panel = page.locator('[data-panel="tried"]');
  await panel.getByText(/of stored bytes/).waitFor();
  assert.match(await panel.innerText(), new RegExp(`\\b${new Intl.NumberFormat('en').format(counted.packets)} packets`));
  await done(page);
});

test('ten thousand lines in a configured chart: the heaviest, and one sum', { skip }, async (t) => {
  const LINES = 10_000;
  const ports = Array.from({ length: LINES }, (_, at) => at + 1);
  const into = folder(t);
  const configuration = join(into, 'weir.toml');
  const lines = ports.map((port) => `  { name = "p${port}", expression = "tcp port ${port}" },\n`).join('');
  writeFileSync(configuration, `[[chart]]\nname = "ports"\nunit = "packets"\nlines = [\n${lines}]\n`);
  const { url } = await start(t, ['open', '-c', configuration, '--interval', '1s', SAMPLE]);
  const page = await on.browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(`${url}/charts`);
  await page.locator('main h1').waitFor();
  const panel = page.locator('[data-panel="chart-ports"]');
  await reach(panel);
  await panel.getByText(`${LINES - 12} other`).waitFor();
  await panel.getByText('lines ranked so far').waitFor({ state: 'detached' });
  // The twelve are those with the most packets, by the program's own count.
  const expressions = join(into, 'expressions');
  writeFileSync(expressions, ports.map((port) => `tcp port ${port}\n`).join(''));
  const counts = execFileSync(WEIR, ['count', SAMPLE, '-F', expressions, '-j'], { encoding: 'utf8', maxBuffer: 1 << 26 })
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).packets);
  const heaviest = [...counts].sort((a, b) => b - a);
  const drawn = await panel.locator('ul').first().locator('li .name').allInnerTexts();
  assert.equal(drawn.length, 13);
  const packets = drawn.slice(0, 12).map((name) => counts[Number(name.slice(1)) - 1]);
  assert.ok(packets[0] > 0 && packets.every((each) => each >= heaviest[11]), `${drawn}: ${packets}, of ${heaviest.slice(0, 14)}`);
  // Drawn lines and the sum of the others add up to the total.
  await panel.getByRole('button', { name: /^table/ }).click();
  const sums = await panel
    .locator('table')
    .first()
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => row.lastElementChild.innerText));
  const si = (text) => Number.parseFloat(text) * (/\d\s?k\b/.test(text) ? 1000 : 1);
  const all = counts.reduce((sum, each) => sum + each, 0);
  const shown = sums.reduce((sum, each) => sum + si(each), 0);
  assert.ok(Math.abs(shown / all - 1) < 0.02, `${shown} of ${all}: ${sums}`);
  // A line that is searched for is drawn, and leaves the sum.
  const light = `p${counts.findIndex((each, nth) => each > 0 && each < heaviest[12] && !drawn.includes(`p${nth + 1}`)) + 1}`;
  await panel.getByRole('button', { name: /^chart/ }).click();
  await panel.locator('input[type=search]').fill(`tcp port ${light.slice(1)}`);
  await panel.getByRole('button', { name: `+ ${light}`, exact: true }).click();
  await panel.getByText(`${LINES - 13} other`).waitFor();
  assert.ok((await panel.locator('ul').first().locator('li .name').allInnerTexts()).includes(light));
  await page.close();
});

test('a copied command line prints what the page shows', { skip }, async (t) => {
  const { url } = await start(t, ['open', SAMPLE]);
  for (const [path, list] of [
    ['/talkers', 'sources'],
    [`/talkers?filter=${encodeURIComponent('tcp port 80')}`, 'destinations'],
  ]) {
    const page = await on.open(path, { base: url });
    const panel = page.locator(`[data-panel="list-${list}"]`);
    await reach(panel);
    await panel.locator('li').first().waitFor();
    const shown = await panel.locator('li').evaluateAll((rows) => rows.map((row) => row.querySelector('.label .mono').textContent));
    await panel.locator('.copy button').first().click();
    const code = panel.locator('.copy code', { hasText: /^weir query / });
    await code.waitFor();
    const command = (await code.innerText()).replace(/^weir/, `'${WEIR}'`);
    const printed = execFileSync('sh', ['-c', command], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.split(/\s/)[0])
      .filter((label) => !['other', 'total'].includes(label));
    assert.deepEqual(shown, printed, command);
    // Sparklines are part of the list, with a filter too: no further request is made for them.
    assert.ok((await panel.locator('svg').count()) > 0, path);
    assert.ok(!page.requests.some((url) => url.includes('/filter/try')), path);
    await done(page);
  }
});

/** Two network namespaces with a link between them; the reason as text where they cannot be created. */
function network(t) {
  if (process.getuid() !== 0) return 'not root';
  const [here, there] = ['a', 'b'].map((side) => `weir-p${process.pid}${side}`);
  const ip = (...args) => spawnSync('ip', args, { encoding: 'utf8' });
  t.after(() => {
    for (const space of [here, there]) {
      for (const pid of (ip('netns', 'pids', space).stdout ?? '').split(/\s+/).filter(Boolean)) spawnSync('kill', ['-KILL', pid]);
      ip('netns', 'del', space);
    }
  });
  const inside = (space) => ['ip', 'netns', 'exec', space];
  for (const space of [here, there]) {
    const made = ip('netns', 'add', space);
    if (made.error || made.status !== 0) return `ip netns add: ${made.error?.message ?? made.stderr}`;
    const [exec, ...rest] = [
      ...inside(space),
      'sh',
      '-c',
      'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6',
    ];
    spawnSync(exec, rest);
  }
  for (const line of [
    `-n ${here} link add name near type veth peer name far netns ${there}`,
    `-n ${here} address add 10.77.0.1/24 dev near`,
    `-n ${there} address add 10.77.0.2/24 dev far`,
    `-n ${there} link set lo up`,
    `-n ${there} link set far up`,
    `-n ${here} link set near up`,
  ]) {
    const done = ip(...line.split(' '));
    if (done.status !== 0) return `ip ${line}: ${done.stderr}`;
  }
  return { here: inside(here), there: inside(there) };
}

/** Traffic over the link: pages over TCP and unanswered datagrams, until the client reads from standard input. */
const SERVER = `const server = require('http').createServer((request, response) => response.end('x'.repeat(20000)));
server.listen(80, '10.77.0.2', () => console.log('ready'));
require('dgram').createSocket('udp4').bind(9999, '10.77.0.2');`;
const CLIENT = `const http = require('http'), socket = require('dgram').createSocket('udp4');
const page = setInterval(() => http.get({ host: '10.77.0.2', agent: false }, (answer) => answer.resume()).on('error', () => {}), 60);
const datagram = setInterval(() => socket.send('a datagram of weir', 9999, '10.77.0.2'), 20);
process.stdin.on('data', () => { clearInterval(page); clearInterval(datagram); setTimeout(() => process.exit(), 500); });`;

test('a link: live, updated every second, and the store equals the dump', { skip }, async (t) => {
  const net = network(t);
  if (typeof net === 'string') return t.skip(net);
  const into = folder(t);
  const [dump, store] = [join(into, 'dump.pcap'), join(into, 'store')];
  const run = (space, text) => spawn(space[0], [...space.slice(1), process.execPath, '-e', text], { stdio: ['pipe', 'pipe', 'inherit'] });
  const server = run(net.there, SERVER);
  await new Promise((resolve) => {
    server.stdout.once('data', resolve);
  });
  const weir = await start(t, ['serve', '-i', 'far', '--interval', '1s', '-w', dump, '--store', store], net.there);
  const client = run(net.here, CLIENT);
  const gone = new Promise((resolve) => {
    client.on('close', resolve);
  });
  const browser = await launchIn(t, net.there, into);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(weir.url);
  await page.waitForFunction(
    () =>
      document.querySelector('[data-live="live"]') &&
      /Now [1-9][\d.]* (k|M)?bit\/s, .* on far;/.test(document.querySelector('[data-summary="traffic"]')?.textContent ?? ''),
    null,
    { polling: 50 },
  );
  await moves(page, 5);
  assert.equal(await page.locator('[data-panel="now"] canvas').count(), 1);
  // Packets of the dump can be downloaded during the run: the size first, then as many packets.
  await page.goto(`${weir.url}/talkers?filter=${encodeURIComponent('udp port 9999')}`);
  await settled(page);
  await page.getByRole('button', { name: 'Download packets' }).click();
  const link = page.getByRole('link', { name: /^Download .* packets, .*, until \d\d:\d\d:\d\d/ });
  const announced = Number((await link.innerText()).replace(/^Download ([\d,]+) packets.*/, '$1').replaceAll(',', ''));
  const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
  const some = join(into, 'some.pcap');
  await download.saveAs(some);
  assert.ok(
    announced > 0 && count(some, 'udp port 9999').packets === announced && count(some, '').packets === announced,
    `${announced}, ${count(some, '').packets}`,
  );
  client.stdin.end('enough\n');
  await gone;
  await page.waitForTimeout(1500);
  assert.equal(await weir.stop('SIGTERM'), 130);
  await page.waitForSelector('[data-live="ended"], [data-live="lost"]');
  await page.close();
  // The store, served again.
  const second = await start(t, ['serve', '--store', store, '--port', await free()]);
  for (const expression of ['tcp', 'udp']) {
    const counted = count(dump, expression);
    assert.ok(counted.packets > 10, `${expression}: ${counted.packets}`);
    const kept = await on.open(`/flows?range=all&filter=${expression}`, { base: second.url });
    assert.deepEqual(await matched(kept), { packets: counted.packets, bytes: counted.bytes }, expression);
    await done(kept);
  }
  server.kill();
});

test('a link before its first interval: the last tick is shown, and stored data follows without a reload', { skip }, async (t) => {
  const net = network(t);
  if (typeof net === 'string') return t.skip(net);
  const run = (space, text) => spawn(space[0], [...space.slice(1), process.execPath, '-e', text], { stdio: ['pipe', 'pipe', 'inherit'] });
  const server = run(net.there, SERVER);
  await new Promise((resolve) => {
    server.stdout.once('data', resolve);
  });
  run(net.here, CLIENT);
  // Intervals end at multiples of 30 s: wait for the start of one.
  await new Promise((resolve) => {
    setTimeout(resolve, Date.now() % 30_000 < 10_000 ? 0 : 30_000 - (Date.now() % 30_000));
  });
  const weir = await start(t, ['serve', '-i', 'far', '--interval', '30s'], net.there);
  const browser = await launchIn(t, net.there, folder(t));
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(weir.url);
  await page.locator('[data-summary="talkers"]', { hasText: /^Last second: .*10\.77\.0\.2/ }).waitFor();
  await page.locator('[data-summary="lost"]', { hasText: /^No loss/ }).waitFor();
  assert.match(await page.locator('[data-panel="traffic"]').innerText(), /first interval ends 30 s after the start/);
  // Without a reload.
  await page.locator('[data-panel="list-talkers"] li').first().waitFor();
  await page.locator('[data-summary="talkers"]', { hasText: /^10\.77\.0\..* of all bytes/ }).waitFor();
  await page.locator('[data-panel="traffic"] canvas').waitFor();
  server.kill();
});

test('a configuration is checked, compared and applied to a link with write access', { skip }, async (t) => {
  const net = network(t);
  if (typeof net === 'string') return t.skip(net);
  const into = folder(t);
  const [file, tokens] = [join(into, 'weir.toml'), join(into, 'tokens')];
  const token = '5f0c2b9d7e1a4c3896d0e2f4a6b8c1d3e5f70912';
  writeFileSync(file, 'interval = "1s"\n');
  writeFileSync(tokens, `${token} write\n`, { mode: 0o600 });
  const weir = await start(t, ['serve', '-i', 'far', '-c', file, '--store', join(into, 'store'), '--token-file', tokens], net.there);
  const browser = await launchIn(t, net.there, into);
  const context = await browser.newContext({ httpCredentials: { username: 'anybody', password: token } });
  const page = await context.newPage();
  await page.goto(`${weir.url}/configuration`);
  await settled(page);
  const text = page.locator('#config-text');
  const apply = page.getByRole('button', { name: 'Apply' });
  assert.equal(await text.inputValue(), readFileSync(file, 'utf8'));
  assert.ok(await apply.isDisabled());
  await text.fill('interval = "1s"\n[[chart]]\nname = "web"\nlines = [{ name = "http", expression = "tcp porrt 80" }]\n');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.locator('.errors', { hasText: 'line 4' }).waitFor();
  assert.ok(await apply.isDisabled());
  const good = 'interval = "1s"\n[[chart]]\nname = "web"\nlines = [{ name = "http", expression = "tcp port 80" }]\n';
  await text.fill(good);
  await page.getByRole('button', { name: 'Check' }).click();
  await page.locator('.difference', { hasText: '+name = "web"' }).waitFor();
  await apply.click();
  await page.getByText('Applied:').waitFor();
  assert.equal(readFileSync(file, 'utf8'), good);
  await page.goto(`${weir.url}/charts?chart=web`);
  await page.locator('h1', { hasText: 'Charts: web' }).waitFor();
  await context.close();
});

/** A server that knows no name that begins with "fail", and a client that asks for as many such names as it reads numbers. */
const RESOLVER = `const socket = require('dgram').createSocket('udp4');
socket.on('message', (query, from) => {
  const answer = Buffer.from(query);
  answer[2] = 0x81;
  answer[3] = query.includes('fail') ? 0x83 : 0x80;
  socket.send(answer, from.port, from.address);
});
socket.bind(53, '10.77.0.2', () => console.log('ready'));`;
const ASKER = `const dgram = require('dgram');
const ask = (name) => new Promise((resolve) => {
  const socket = dgram.createSocket('udp4');
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  const query = Buffer.concat([Buffer.from([7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]), ...labels, Buffer.from([0, 0, 1, 0, 1])]);
  socket.on('message', () => { socket.close(); resolve(); });
  socket.send(query, 53, '10.77.0.2');
});
process.stdin.on('data', async (text) => {
  for (let n = 0; n < Number(text); n += 1) await ask(n % 2 ? 'good.example' : 'fail-' + (n % 6) + '.example');
  console.log('asked');
});`;

test('a list that is added on the page is seen at once, is stored, and has every record once', { skip }, async (t) => {
  const net = network(t);
  if (typeof net === 'string') return t.skip(net);
  const into = folder(t);
  const [file, tokens, store] = [join(into, 'weir.toml'), join(into, 'tokens'), join(into, 'store')];
  const token = '5f0c2b9d7e1a4c3896d0e2f4a6b8c1d3e5f70912';
  writeFileSync(file, 'interval = "30s"\n');
  writeFileSync(tokens, `${token} write\n`, { mode: 0o600 });
  const run = (space, text) => spawn(space[0], [...space.slice(1), process.execPath, '-e', text], { stdio: ['pipe', 'pipe', 'inherit'] });
  const answered = (child) =>
    new Promise((resolve) => {
      child.stdout.once('data', resolve);
    });
  const [resolver, asker] = [run(net.there, RESOLVER), run(net.here, ASKER)];
  t.after(() => [resolver, asker].forEach((child) => child.kill()));
  await answered(resolver);
  const weir = await start(t, ['serve', '-i', 'far', '-c', file, '--store', store, '--token-file', tokens], net.there);
  const browser = await launchIn(t, net.there, into);
  const context = await browser.newContext({ httpCredentials: { username: 'anybody', password: token } });
  const page = await context.newPage();
  await page.goto(`${weir.url}/lists`);
  await settled(page);
  await page.getByRole('button', { name: 'Add a list' }).click();
  await page.fill('#list-name', 'failed names');
  await page.fill('#list-expression', 'dns.rcode_name = "NXDOMAIN" and net 10.0.0.0/8');
  await page.fill('#list-0-by', 'dns.nowhere,source');
  await page.fill('#list-0-show', '20');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.locator('[data-panel="add-list"] [role=alert]', { hasText: 'nowhere' }).waitFor();
  await page.fill('#list-0-by', 'dns.query,source');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const panel = page.locator('[data-panel="subscription-failed-names"]');
  await panel.waitFor();
  assert.match(readFileSync(file, 'utf8'), /\[\[subscription\]\]\nname = 'failed names'\nlevel = 'record'\n/);
  // Asked after the list is there: of 60 names half fail, 10 of each of three.
  asker.stdin.write('60\n');
  await answered(asker);
  const rows = () => panel.locator('li').evaluateAll((all) => all.map((row) => row.innerText.replaceAll(/\s+/g, ' ').trim()));
  const names = ['fail-0.example · 10.77.0.1', 'fail-2.example · 10.77.0.1', 'fail-4.example · 10.77.0.1'];
  // Long before the end of the first interval, from the ticks.
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll('[data-panel="subscription-failed-names"] li')]
        .map((row) => / 10 /.test(row.innerText.replaceAll(/\s+/g, ' ')))
        .join() === 'true,true,true',
  );
  assert.deepEqual(
    (await rows()).map((row) => row.split(' 10 ')[0]),
    names,
  );
  // What the store has after the interval is the same, not twice as much.
  const tables = () => page.evaluate(async () => (await (await fetch('/api/v1/tables')).json()).subscriptions);
  const extent = () => page.evaluate(async () => (await (await fetch('/api/v1/status')).json()).last);
  const before = Date.now() / 1000;
  while (!((await extent()) > before)) {
    const [list] = await tables();
    assert.equal(list.tables[0].total, 30);
    await page.waitForTimeout(300);
  }
  assert.equal((await tables())[0].tables[0].total, 30);
  const ledger = await page.evaluate(async () => (await (await fetch('/api/v1/sensor')).json()).ledger);
  const of = (name) => ledger.find((row) => row.name === name)?.value ?? 0;
  const offered = ledger.find((row) => row.label === 'offered')?.value;
  assert.ok(offered >= 120, JSON.stringify(ledger.slice(0, 4)));
  assert.equal(of('weir_dropped_packets_total'), 0);
  // Removed: the file is what it was, and what was stored stays.
  await panel.getByRole('button', { name: /^remove/ }).click();
  await panel.getByRole('button', { name: 'Remove it' }).click();
  await panel.getByText('removed: stored data').waitFor();
  assert.equal(readFileSync(file, 'utf8'), 'interval = "30s"\n');
  asker.stdin.write('12\n');
  await answered(asker);
  await page.close();
  assert.equal(await weir.stop('SIGTERM'), 130);
  const second = await start(t, ['serve', '--store', store, '--port', await free()]);
  const kept = await on.open('/lists?range=all', { base: second.url });
  const stored = kept.locator('[data-panel="subscription-failed-names"]');
  await stored.locator('li').first().waitFor();
  assert.match((await stored.locator('li').first().innerText()).replaceAll(/\s+/g, ' '), /^fail-0\.example · 10\.77\.0\.1 10 /);
  await done(kept);
});
