// No page in any theme has a serious finding of axe.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { audited, PAGES, settled, stage } from './browser.mjs';

const on = stage();

const THEMES = [
  ['light', 'light', 'light'],
  ['dark', 'dark', 'dark'],
  ['contrast', 'light', 'contrast-light'],
  ['contrast', 'dark', 'contrast-dark'],
];
// Over a daemon only the texts differ, not the colours.
for (const [theme, colorScheme, shown] of process.env.WEIR_URL ? THEMES.slice(0, 2) : THEMES) {
  test(`axe: ${shown}`, async () => {
    // The content security policy would refuse axe.
    const context = await on.browser.newContext({
      viewport: { width: 1280, height: 900 },
      colorScheme,
      bypassCSP: true,
      reducedMotion: 'reduce',
    });
    await context.addInitScript((name) => localStorage.setItem('weir.theme', name), theme);
    const page = await context.newPage();
    // Opened parts differ between themes only in colour: light and dark are tested.
    for (const path of [
      ...PAGES,
      ...(theme === 'contrast' ? [] : ['/?filter=tcp&table=traffic', '/flows?row=first', '/charts?style=lines']),
    ]) {
      await page.goto(on.site.url + path.replace('?row=first', ''));
      await settled(page);
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), shown);
      if (path.endsWith('row=first')) {
        await page.locator('[data-panel="flows"] tbody button[aria-expanded]').first().click();
        await page.waitForSelector('.detail dl');
        await settled(page);
      }
      await audited(page, path);
    }
    await context.close();
  });
}
