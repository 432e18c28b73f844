// Limits of the pages: size of the first page, first paint, and drawing time of a chart.

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

test('first paint comes within a second on loopback', async () => {
  const times = [];
  const whole = [];
  for (let run = 0; run < 3; run += 1) {
    const context = await on.browser.newContext();
    const page = await context.newPage();
    await page.goto(on.site.url);
    await page.waitForFunction(() => /Top protocols/.test(document.querySelector('[data-summary="traffic"]')?.textContent ?? ''));
    whole.push(await page.evaluate(() => performance.now()));
    times.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
    await context.close();
  }
  times.sort((a, b) => a - b);
  console.log(
    `first paint: ${times.map((time) => time.toFixed(0)).join(', ')} ms; sentences: ${whole.map((time) => time.toFixed(0)).join(', ')} ms`,
  );
  assert.ok(times[1] < 1000, `${times}`);
});

test('100,000 points are drawn within 200 ms', { skip: process.env.WEIR_URL && 'needs a series of so many points' }, async () => {
  const page = await on.browser.newPage({ viewport: { width: 1280, height: 900 } });
  // Eight lines of 12,500 points.
  await page.goto(`${on.site.url}/charts?range=7d&points=12500&style=lines&band=off`);
  await page.waitForFunction(
    () =>
      performance
        .getEntriesByName('weir.strip', 'measure')
        .some((entry) => entry.detail.title === 'Protocols' && entry.detail.points >= 100_000),
    null,
    { timeout: 30_000 },
  );
  const drawn = await page.evaluate(() =>
    performance
      .getEntriesByName('weir.strip', 'measure')
      .filter((entry) => entry.detail.points >= 100_000)
      .map((entry) => ({ points: entry.detail.points, took: entry.duration })),
  );
  console.log(drawn.map((each) => `${each.points} points: ${each.took.toFixed(0)} ms`).join(', '));
  assert.ok(
    drawn.every((each) => each.took > 1 && each.took < 200),
    JSON.stringify(drawn),
  );
  // The canvas is drawn: the measure is of drawing, not of loading.
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
});
