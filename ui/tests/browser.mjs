// What tests and screenshots share: chromium, and the address of what is tested: WEIR_URL, or the stand-in.

import { after, before } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from '../mock/server.mjs';

export async function target(options = {}) {
  if (process.env.WEIR_URL) return { url: process.env.WEIR_URL.replace(/\/$/, ''), set: null, stop: () => {} };
  return serve(options);
}

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** For a file of tests: what is tested and chromium are there from the first test to the last, unless all are skipped. */
export function stage(skipped = false) {
  const on = { site: null, browser: null };
  before(async () => {
    if (skipped) return;
    on.site = await target();
    on.browser = await launch();
  });
  after(async () => {
    await on.browser?.close();
    on.site?.stop();
  });
  return on;
}

export const PAGES = ['/', '/charts', '/talkers', '/flows', '/protocols', '/files', '/sensor', '/configuration'];

/** Until the page has what it asked for: no panel is busy, and none waits for its first answer. */
export async function settled(page) {
  await page.waitForSelector('main h1');
  // What is below the fold is asked for when it is seen.
  await page.waitForFunction(() => document.querySelectorAll('[data-panel]').length > 0 && !document.querySelector('[aria-busy="true"], .wait'), null, { timeout: 20_000 });
}
