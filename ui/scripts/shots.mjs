// Screenshots of every page, light and dark, wide and narrow: npm run shots DIR, of a daemon (WEIR_URL) or of the mock.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { launch, PAGES, settled, target } from '../tests/browser.mjs';

const into = process.argv[2] ?? 'shots';
const only = process.argv[3]?.split(',');
mkdirSync(into, { recursive: true });
const { url, stop } = await target();
const browser = await launch();
for (const [width, height] of [
  [1280, 800],
  [375, 812],
]) {
  for (const colorScheme of ['light', 'dark']) {
    if (only && !only.includes(`${width}-${colorScheme}`)) continue;
    const context = await browser.newContext({ viewport: { width, height }, colorScheme, deviceScaleFactor: 1 });
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error') console.error(message.text());
    });
    page.on('pageerror', (error) => console.error(error));
    for (const path of PAGES) {
      await page.goto(url + path);
      await settled(page);
      // Scroll through the page, so that everything is loaded and drawn.
      for (let y = 0; y < (await page.evaluate(() => document.body.scrollHeight)); y += height * 0.8) {
        await page.evaluate((to) => scrollTo(0, to), y);
        await page.waitForTimeout(60);
      }
      await settled(page);
      await page.evaluate(() => scrollTo(0, 0));
      await page.waitForTimeout(path === '/' ? 1500 : 200);
      await page.screenshot({ path: join(into, `${path.slice(1) || 'overview'}-${colorScheme}-${width}.png`), fullPage: true });
    }
    await context.close();
  }
}
await browser.close();
stop();
