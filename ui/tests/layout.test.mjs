// Names and addresses are readable whole, and panels of unequal height leave no holes, at the widths of desktops.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, reach, settled, stage } from './browser.mjs';
import { serve } from '../mock/server.mjs';
import { LONGEST } from '../mock/data.mjs';

const on = stage({ start: () => serve({}) });
const WIDTHS = [1280, 1440, 1920];
const ADDRESS = '2001:db8:85a3:1234:5678:8a2e:370:7334';

/** Scrolls to the end, so that every panel is loaded. */
async function whole(page) {
  for (let y = 0; y < (await page.evaluate(() => document.body.scrollHeight)); y += 500) {
    await page.evaluate((to) => scrollTo(0, to), y);
    await page.waitForTimeout(50);
  }
  await settled(page);
}

/** The texts in these elements that do not fit them. */
const cut = (page, selector) =>
  page
    .locator(selector)
    .evaluateAll((all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent.trim()));

for (const width of WIDTHS) {
  test(`keys are readable whole at ${width} pixels`, async () => {
    const options = { viewport: { width, height: 900 } };
    for (const path of ['/?range=24h', '/talkers?range=24h&top=25', '/lists?range=24h']) {
      const page = await on.open(path, options);
      await whole(page);
      const long = page.locator('ol .label', { hasText: LONGEST }).first();
      await reach(long);
      assert.deepEqual(await cut(page, 'ol .label'), [], path);
      // Bars stay bars.
      const tracks = await page.locator('ol .track').evaluateAll((all) => all.map((each) => each.getBoundingClientRect().width));
      assert.ok(Math.min(...tracks) >= 60, `${path}: a bar of ${Math.min(...tracks)} pixels`);
      await done(page);
    }
    const flows = await on.open(`/flows?range=24h&filter=host ${ADDRESS}`, options);
    const cell = flows.locator('[data-panel="flows"] td', { hasText: ADDRESS });
    await cell.first().waitFor();
    const keys = (await cut(flows, '[data-panel="flows"] td')).filter((text) => text.includes(ADDRESS) || text.includes(LONGEST));
    assert.deepEqual(keys, []);
    assert.deepEqual(await cut(flows, '[data-facet] .what'), []);
    await done(flows);
  });

  test(`panels of unequal height leave no holes at ${width} pixels`, async () => {
    for (const path of ['/?range=24h', '/talkers?range=24h', '/lists?range=24h', '/sensor']) {
      const page = await on.open(path, { viewport: { width, height: 900 } });
      await whole(page);
      const tiles = await page.locator('.tiles > *').evaluateAll((all) =>
        all.map((each) => {
          const { left, top, bottom, height } = each.getBoundingClientRect();
          return { left: Math.round(left), top, bottom, height };
        }),
      );
      assert.ok(new Set(tiles.map((each) => each.left)).size >= 2, `${path} has one column`);
      for (const [at, tile] of tiles.entries()) {
        const above = tiles.filter((each) => each.left === tile.left && each.bottom <= tile.top).map((each) => each.bottom);
        if (above.length > 0) assert.ok(tile.top - Math.max(...above) < 20, `${path}: a hole of ${tile.top - Math.max(...above)} pixels`);
        const overlaps = tiles.some(
          (each, other) => other !== at && each.left === tile.left && each.top < tile.bottom && each.bottom > tile.top,
        );
        assert.ok(!overlaps, `${path}: tiles overlap`);
        // The order of the document, which the keyboard follows, goes down the page.
        assert.ok(at === 0 || tile.top >= tiles[at - 1].top - 8, `${path}: tile ${at} is above the one before it`);
      }
      await done(page);
    }
  });
}
