// Helpers of tests and screenshots: chromium, and the URL under test (WEIR_URL, or the mock).

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from '../mock/server.mjs';

export async function target(options = {}) {
  if (process.env.WEIR_URL) return { url: process.env.WEIR_URL.replace(/\/$/, ''), set: null, stop: () => {} };
  return serve(options);
}

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Milliseconds that only a page that hangs needs: no test depends on how fast or how busy a machine is. */
export const HANGS = 120_000;

export async function launch(executablePath = CHROMIUM) {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'], timeout: HANGS });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(HANGS);
    return context;
  };
  return browser;
}

/** Until the first sentence has been so many different ones. */
export async function moves(page, times) {
  const seen = (wanted) => {
    window.sentences ??= new Set();
    window.sentences.add(document.querySelector('[data-summary="traffic"]').textContent);
    return window.sentences.size >= wanted;
  };
  await page.waitForFunction(seen, times, { polling: 50 });
}

/** Starts the server under test and chromium for all tests of a file, unless all are skipped. */
export function stage({ skip = false, start = target } = {}) {
  const on = {
    site: null,
    browser: null,
    /** Opens a page. The test fails at `done` when a request fails, is refused or goes to another host. */
    async open(path, { base = on.site.url, ...options } = {}) {
      const context = await on.browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
      const page = await context.newPage();
      page.faults = [];
      page.requests = [];
      page.on('console', (message) => {
        if (message.type() === 'error' || /content security/i.test(message.text())) page.faults.push(message.text());
      });
      page.on('pageerror', (error) => page.faults.push(String(error)));
      page.on('request', (request) => {
        page.requests.push(request.url());
        if (!request.url().startsWith(base)) page.faults.push(`another host: ${request.url()}`);
      });
      await page.goto(base + path);
      await settled(page);
      return page;
    },
  };
  before(async () => {
    if (skip) return;
    on.site = await start();
    on.browser = await launch();
  });
  after(async () => {
    await on.browser?.close();
    on.site?.stop();
  });
  return on;
}

export async function done(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Fails if axe has a serious finding in a page. Its context bypasses the content security policy, which would refuse axe. */
export async function audited(page, name = new URL(page.url()).pathname) {
  await page.evaluate(axe);
  const found = await page.evaluate(() =>
    globalThis.axe.run(document, {
      resultTypes: ['violations'],
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    }),
  );
  const serious = found.violations.filter((each) => each.impact === 'serious' || each.impact === 'critical');
  assert.deepEqual(
    serious.map(
      (each) =>
        `${name}: ${each.id}: ${each.help}: ${each.nodes
          .slice(0, 3)
          .map((node) => `${node.target.join(' ')} ${node.failureSummary?.split('\n')[1] ?? ''}`)
          .join(' | ')}`,
    ),
    [],
  );
}

/** The query parameters of a page. */
export const query = (page) => Object.fromEntries(new URL(page.url()).searchParams);

export const PAGES = [
  '/',
  '/alerts',
  '/dumps',
  '/charts',
  '/talkers',
  '/scanners',
  '/lists',
  '/flows',
  '/protocols',
  '/files',
  '/sensor',
  '/configuration',
];

/** Waits until no panel is busy or waits for its first answer. */
export async function settled(page) {
  await page.waitForSelector('main h1');
  // Panels below the fold are loaded when they come into view.
  await page.waitForFunction(
    () => document.querySelectorAll('[data-panel]').length > 0 && !document.querySelector('[aria-busy="true"], .wait'),
  );
}

/** Scrolls through the page until a part of it is there: panels out of view are neither drawn nor loaded. */
export async function reach(part) {
  const page = part.page();
  const until = Date.now() + HANGS;
  while ((await part.count()) === 0 && Date.now() < until) {
    await page.evaluate(() => {
      const end = scrollY + innerHeight >= document.body.scrollHeight;
      scrollTo(0, end ? 0 : scrollY + innerHeight / 2);
    });
    await page.waitForTimeout(50);
  }
  await part.first().scrollIntoViewIfNeeded();
}
