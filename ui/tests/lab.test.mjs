// The page over the lab: real servers and clients in network namespaces, watched while they talk and looked at afterwards.
// WEIR_LAB names the folder that what they logged and what Weir found are left in, for others to compare.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { done, moves, query, reach, settled, stage } from './browser.mjs';
import { count, free, launchIn, matched, start, WEIR } from './program.mjs';

const { WEIR_LAB } = process.env;
const LAB = fileURLToPath(new URL('../../lab/run', import.meta.url));
const skip = !(WEIR && WEIR_LAB) && 'needs WEIR, the program, and WEIR_LAB, a directory';
const on = stage({ skip: !!skip, start: () => null });

const read = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : '');

/** Polls until `look` returns a value. */
async function eventually(what, look, seconds = 120) {
  for (let tries = 0; tries < seconds * 20; tries += 1) {
    const found = look();
    if (found) return found;
    await pause(50);
  }
  throw new Error(`${what}: not within ${seconds} s`);
}

/** Runs the lab with Weir on its switch and a browser; returns the exit code of the lab. */
async function watch(t, out) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  // Only the command knows the namespace.
  const outputs = `-w ${out}/dump.pcap --store ${out}/store -o ${out}/live --log zeek,csv`;
  const serve = `${WEIR} serve -i "$LAB_IF" --interval 1s ${outputs} >${out}/live.txt`;
  const command = `echo "$LAB_NS" >${out}/space && exec ip netns exec "$LAB_NS" ${serve}`;
  const seed = String(1 + Math.floor(Math.random() * 32_000));
  console.log(`seed ${seed}`);
  // Its hosts talk until all was seen, however long a browser takes for it here.
  const seen = join(out, 'seen');
  const lab = spawn(
    LAB,
    ['-q', '--hosts', '3', '--until', seen, '--seed', seed, '--lead', '5', '--out', join(out, 'lab'), '--command', command],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const over = new Promise((resolve) => {
    lab.on('close', (code) => resolve(code));
  });
  t.after(() => {
    if (lab.exitCode === null) lab.kill('SIGTERM');
  });
  const url = await eventually('the address', () => /^(http:\/\/\S+?)\/?$/m.exec(read(join(out, 'live.txt')))?.[1]);
  const space = ['ip', 'netns', 'exec', read(join(out, 'space')).trim()];
  const browser = await launchIn(t, space, out);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url);
  await page.waitForSelector('[data-live="live"]');
  // During traffic the first sentence changes every second, and a host of the lab is named.
  await moves(page, 4);
  const shows = async (name, what) => {
    const sentence = page.locator(`[data-summary="${name}"]`);
    for (let tries = 0; tries < 1000 && !what.test(await sentence.innerText()); tries += 1) await pause(100);
    assert.match(await sentence.innerText(), what);
  };
  await shows('talkers', /10\.99\.0\.|fd00:99::|weir\.test/);
  await shows('lost', /No loss/);
  // Download during the run.
  await page.goto(`${url}/flows?filter=${encodeURIComponent('tcp port 80')}`);
  await settled(page);
  const button = page.getByRole('button', { name: 'Download packets' });
  const link = page.getByRole('link', { name: /^Download .* packets, / });
  for (let tries = 0; tries < 240 && !(await link.isVisible()); tries += 1) {
    // The first flows appear with the first request.
    if (await button.isVisible()) await button.click();
    else await page.reload();
    await pause(500);
  }
  const announced = Number((await link.innerText()).replace(/^Download ([\d,]+) packets.*/, '$1').replaceAll(',', ''));
  const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
  const some = join(out, 'some.pcap');
  await download.saveAs(some);
  assert.ok(announced > 0, `${announced}`);
  assert.deepEqual([count(some, 'tcp port 80').packets, count(some, '').packets], [announced, announced]);
  writeFileSync(seen, '');
  // The browser ends with the namespace.
  return over;
}

test('the lab: live during its traffic, and the store equals the dump', { skip, timeout: 900_000 }, async (t) => {
  const out = WEIR_LAB;
  assert.equal(await watch(t, out), 0, 'the lab, and Weir in it');
  const [dump, store] = [join(out, 'dump.pcap'), join(out, 'store')];
  const second = await start(t, ['serve', '--store', store, '--port', await free()]);
  for (const expression of ['', 'tcp', 'udp', 'icmp', 'ip6', 'tcp port 80', 'tcp port 25', 'ip host 10.99.0.101 and not tcp']) {
    const counted = count(dump, expression);
    const kept = await on.open(`/flows?range=all&filter=${encodeURIComponent(expression)}`, { base: second.url });
    // Only IP packets belong to flows.
    const all = expression === '' ? count(dump, 'ip or ip6') : counted;
    assert.ok(all.packets > 0, expression);
    assert.deepEqual(await matched(kept), { packets: all.packets, bytes: all.bytes }, expression);
    await done(kept);
  }
  // As many records as the log has rows.
  const rows = (name) =>
    read(join(out, 'live', `${name}.csv`))
      .trim()
      .split('\n').length - 1;
  for (const name of ['http', 'ftp_command', 'smtp', 'pop3', 'imap']) {
    const kept = await on.open(`/protocols?range=all&protocol=${name}`, { base: second.url });
    const shown = await kept.evaluate(async (table) => (await (await fetch(`/api/v1/records/${table}`)).json()).matched, name);
    assert.ok(rows(name) > 0, name);
    assert.equal(shown, rows(name), name);
    const number = new Intl.NumberFormat('en').format(shown);
    assert.match(await kept.locator('[data-panel="records"]').innerText(), new RegExp(`\\b${number}\\b`), name);
    await done(kept);
  }
  // A selection changes every panel, and its URL restores the view.
  const kept = await on.open('/?range=all', { base: second.url });
  const plot = kept.locator('[data-panel="traffic"] .u-over').first();
  await reach(plot);
  const box = await plot.boundingBox();
  kept.requests.length = 0;
  const whole = await kept.locator('[data-range]').innerText();
  await kept.mouse.move(box.x + box.width * 0.3, box.y + box.height / 2);
  await kept.mouse.down();
  await kept.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2, { steps: 6 });
  await kept.mouse.up();
  await kept.waitForFunction(() => new URL(location.href).searchParams.has('from'));
  // Panels ask for the range that the store moved to its cells.
  await kept.waitForFunction((before) => document.querySelector('[data-range]').innerText !== before, whole);
  await settled(kept);
  const requested = kept.requests
    .map((each) => new URL(each))
    .filter((each) => each.pathname.startsWith('/api/v1/') && each.searchParams.has('from') && each.pathname !== '/api/v1/range');
  const answer = await kept.request.get(`${second.url}/api/v1/range?${new URLSearchParams(query(kept))}`);
  const [from, to] = (await answer.json()).range.map((time) => String(Number(time.toFixed(3))));
  assert.ok(
    requested.length > 5 && requested.every((each) => each.searchParams.get('from') === from && each.searchParams.get('to') === to),
    `${requested}`,
  );
  const text = (which) => which.locator('[data-summary]').allInnerTexts();
  const other = await on.open(kept.url().slice(second.url.length), { base: second.url });
  assert.deepEqual(await text(other), await text(kept));
  await done(other);
  await done(kept);
});
