// How fast the pages are, for `bench/run --only pages`: a line of JSON. First paint and drawing over the stand-in; until a
// page of a link is live, over the program that WEIR names, where the loopback interface may be captured.

import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { launch } from '../tests/browser.mjs';
import { free, start } from '../tests/program.mjs';
import { serve } from '../mock/server.mjs';

const RUNS = 5;
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const browser = await launch();
const ends = [];

/** Milliseconds of several runs, each of a page that nothing is kept of. */
async function measured(work) {
  const found = [];
  for (let run = 0; run < RUNS; run += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    found.push(await work(await context.newPage()));
    await context.close();
  }
  return found;
}

async function painted(url) {
  const pairs = await measured(async (page) => {
    await page.goto(url);
    await page.waitForFunction(() => /Top protocols/.test(document.querySelector('[data-summary="traffic"]')?.textContent ?? ''));
    return page.evaluate(() => [performance.getEntriesByName('first-contentful-paint')[0].startTime, performance.now()]);
  });
  return { paint: median(pairs.map(([paint]) => paint)), sentences: median(pairs.map(([, whole]) => whole)) };
}

/** Eight lines of 12,500 points. */
function drawn(url) {
  return measured(async (page) => {
    await page.goto(`${url}/charts?range=7d&points=12500&style=lines&band=off`);
    const entry = await page.waitForFunction(
      () => performance.getEntriesByName('weir.strip', 'measure').find((each) => each.detail.points >= 100_000)?.duration,
    );
    return entry.jsonValue();
  });
}

/** Until the first sentence is about the last second of the link. */
async function live() {
  const folder = await mkdtemp(join(tmpdir(), 'weir-speed-'));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  const weir = await start({ after: (end) => ends.push(end) }, [
    'serve',
    '-i',
    'lo',
    '--interval',
    '1s',
    '--store',
    join(folder, 'store'),
    '--port',
    await free(),
  ]);
  return measured(async (page) => {
    const begun = Date.now();
    await page.goto(weir.url);
    await page.waitForFunction(
      () =>
        document.querySelector('[data-live="live"]') &&
        /^Now .*bit\/s, .* on lo;/.test(document.querySelector('[data-summary="traffic"]')?.textContent ?? ''),
      null,
      { polling: 50 },
    );
    return Date.now() - begun;
  });
}

const site = await serve({});
const result = {
  ...(await painted(site.url)),
  drawing: median(await drawn(site.url)),
  live: process.env.WEIR && process.getuid() === 0 ? median(await live()) : null,
};
console.log(JSON.stringify(result));
await browser.close();
site.stop();
for (const end of ends) await end();
process.exit();
