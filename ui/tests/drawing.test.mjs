// What the page holds itself to: size of the first page, and how much a chart draws. Times are measured by scripts/speed.mjs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { settled, stage } from './browser.mjs';

const on = stage();

test('the first page is 100 kB gzip at most', async () => {
  const page = await on.browser.newPage();
  const parts = new Map();
  page.on('response', async (response) => {
    const path = new URL(response.url()).pathname;
    if (!path.startsWith('/api/') && response.ok())
      parts.set(
        path,
        response.body().then((body) => gzipSync(body).length),
      );
  });
  await page.goto(on.site.url);
  await settled(page);
  const sizes = await Promise.all(parts.values());
  const sum = sizes.reduce((total, size) => total + size, 0);
  console.log(`first page: ${sum} bytes gzip in ${sizes.length} files`);
  assert.ok(sizes.length >= 3);
  assert.ok(sum <= 100_000, `${sum}`);
  await page.close();
});

for (const [what, late, lost] of [
  ['', 0, false],
  [' when the counts of lost packets come last', 1500, false],
  [' when the status is loaded again', 0, true],
])
  test(
    `100,000 points are drawn, once for each size and range${what}`,
    { skip: process.env.WEIR_URL && 'needs a series of so many points' },
    async () => {
      const page = await on.browser.newPage({ viewport: { width: 1280, height: 900 } });
      let counts = 0;
      await page.route(/ledger/, async (route) => {
        counts += 1;
        await new Promise((resolve) => setTimeout(resolve, late));
        await route.continue();
      });
      // A page without a stream of ticks loads the status again and again.
      let statuses = 0;
      if (lost) await page.route(/live/, (route) => route.abort());
      page.on('response', (response) => {
        statuses += Number(new URL(response.url()).pathname.endsWith('/status'));
      });
      // Eight lines of 12,500 points.
      await page.goto(`${on.site.url}/charts?range=7d&points=12500&style=lines&band=off`);
      await page.waitForFunction(() =>
        performance
          .getEntriesByName('weir.strip', 'measure')
          .some((entry) => entry.detail.title === 'Protocols' && entry.detail.points >= 100_000),
      );
      // The strip of caught and dropped packets is drawn from the same answer as the spans of loss.
      await page.waitForFunction(() =>
        performance
          .getEntriesByName('weir.strip', 'measure')
          .some((entry) => entry.detail.title === 'Caught and dropped' && entry.detail.points > 0),
      );
      assert.ok(counts > 0);
      while (lost && statuses < 3) await page.waitForResponse(/status/);
      await settled(page);
      const drawn = await page.evaluate(() =>
        performance
          .getEntriesByName('weir.strip', 'measure')
          .filter((entry) => entry.detail.title === 'Protocols')
          .filter((entry) => entry.detail.points >= 100_000)
          .map((entry) => JSON.stringify(entry.detail)),
      );
      console.log(`drawn: ${drawn.join(', ')}`);
      // The range moves on with the time, a scroll bar changes the width, and spans of loss come with an answer of their own.
      // Nothing else may cause another drawing.
      assert.equal(new Set(drawn).size, drawn.length, `${drawn}`);
      // The canvas is drawn.
      const inked = await page
        .locator('[data-panel="chart-protocols"] canvas')
        .first()
        .evaluate((canvas) => {
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          let count = 0;
          for (let at = 3; at < data.length; at += 4) if (data[at] > 0) count += 1;
          return count / (canvas.width * canvas.height);
        });
      assert.ok(inked > 0.02, `${inked}`);
      await page.close();
    },
  );
