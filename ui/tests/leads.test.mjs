// From every row of Scanners, Alerts and Dumps, and from every finding of the Overview: its flows, its packets and its query.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, query, settled, stage } from './browser.mjs';
import { serve } from '../mock/server.mjs';

const on = stage({ start: () => serve({}) });

/** Panels without rows of data: what a mute hides is a setting, and the others have lines of weir.toml. */
const ROWLESS = ['mutes', 'missing'];

/** Opens what each row of a panel leads to. Returns the panel, the text of the row and what it has, for every row. */
const walked = (page, within = '[data-panel]') =>
  page.evaluate(
    async ({ within, rowless }) => {
      const found = [];
      const waits = () => new Promise((go) => setTimeout(go, 5));
      for (const panel of document.querySelectorAll(within)) {
        const name = panel.dataset.panel ?? within;
        if (rowless.includes(name)) continue;
        const rows = [...panel.querySelectorAll('tbody > tr:not(.detail), ol > li, ul > li, .found')];
        for (const row of rows.filter((each) => each.closest(within) === panel && !each.closest('[data-legend]'))) {
          // A moving range draws rows of times anew.
          if (!row.isConnected) continue;
          const text = row.textContent.replaceAll(/\s+/g, ' ').trim().slice(0, 60);
          const opener = [...row.querySelectorAll('[data-leads]')].find((each) => each.closest('tr, li, .found') === row);
          if (!opener) {
            found.push({ panel: name, text, has: [] });
            continue;
          }
          opener.scrollIntoView({ block: 'center' });
          opener.click();
          const box = document.getElementById(opener.getAttribute('popovertarget'));
          for (let tries = 0; tries < 1000 && !box.querySelector('[data-lead="query"] code'); tries += 1) await waits();
          const lead = (which, inner) => box.querySelector(`[data-lead="${which}"]${inner}`);
          const place = box.getBoundingClientRect();
          found.push({
            panel: name,
            text,
            has: [
              lead('flows', '')?.getAttribute('href').startsWith('/flows') ? 'flows' : '',
              lead('packets', ' .button') ? 'packets' : '',
              /^(weir|curl) /.test(lead('query', ' code')?.textContent ?? '') ? 'query' : '',
            ].filter((each) => each !== ''),
            why: /Its subject selects no packets|It has no file yet/.exec(box.textContent)?.[0] ?? '',
            isInside: place.left >= 0 && place.right <= document.documentElement.clientWidth,
          });
          box.hidePopover();
        }
      }
      return found;
    },
    { within, rowless: ROWLESS },
  );

/** Asserts that each row has all three, or says why it has no packets. */
function complete(rows, panels) {
  for (const { panel, text, has, why, isInside } of rows) {
    const expected = why ? ['query'] : ['flows', 'packets', 'query'];
    assert.deepEqual(has, expected, `${panel}: ${text}`);
    assert.ok(isInside, `${panel}: ${text} opens beyond the window`);
  }
  const seen = new Set(rows.map(({ panel }) => panel));
  for (const panel of panels) assert.ok(seen.has(panel), `no rows of ${panel}`);
  const excused = rows.filter(({ why }) => why).length;
  assert.ok(excused * 3 < rows.length, `${excused} of ${rows.length} rows have neither flows nor packets`);
}

const LISTS = ['subscription-connection-attempts', 'subscription-scanned-addresses'];
const TABLES = ['port-heat', 'scans', 'worms', 'known-signatures', 'signatures', ...LISTS];

for (const [path, panels] of [
  ['/scanners', ['port-heat', 'known-signatures', 'signatures', ...LISTS]],
  [`/scanners?table=${TABLES.join(',')}`, TABLES.filter((each) => each !== 'scans')],
  ['/alerts', ['alerts', 'rules']],
  ['/alerts?table=alerts', ['alerts', 'rules']],
  ['/alerts?range=24h&rule=1:2034647:1', ['alerts', 'rules', 'rule-alerts']],
  ['/dumps', ['triggers', 'dumps']],
  ['/dumps?table=triggers,dumps', ['triggers', 'dumps']],
]) {
  for (const width of [1280, 390]) {
    test(`every row of ${path} leads to its flows, packets and query at ${width} pixels`, async () => {
      const page = await on.open(path, { viewport: { width, height: 900 } });
      complete(await walked(page), panels);
      await done(page);
    });
  }
}

test('events of an opened alert and flows of an opened file lead on, too', async () => {
  const alerts = await on.open('/alerts?range=24h');
  const before = (await walked(alerts)).length;
  await alerts.locator('[data-alert^="address_scan"] [data-row]').first().click();
  await alerts.locator('[data-panel="alert-flows"]').waitFor();
  await settled(alerts);
  const rows = await walked(alerts);
  assert.ok(rows.length > before, 'the events of the alert');
  complete(rows, ['alerts']);
  await done(alerts);
  const dumps = await on.open('/dumps');
  await dumps.locator('[data-file^="ssh."] [data-row]').first().click();
  await dumps.locator('[data-panel="alert-flows"] tbody tr').first().waitFor();
  await settled(dumps);
  complete(await walked(dumps), ['triggers', 'dumps', 'alert-flows']);
  await done(dumps);
});

test('findings, events and new hosts of the Overview lead to theirs', async () => {
  const page = await on.open('/?range=24h');
  await page.locator('[data-summary="findings"] [data-row]').first().waitFor();
  complete(await walked(page, '[data-summary="findings"]'), ['[data-summary="findings"]']);
  complete(await walked(page, '[data-panel="events"], [data-panel="new"]'), ['events', 'new']);
  await done(page);
});

test('a row leads to the flows of the filter of the page and its own, and Escape returns to it', async () => {
  const page = await on.open('/scanners?range=24h&filter=tcp');
  const opener = page.locator('[data-panel="signatures"] [data-leads]').first();
  await opener.focus();
  await page.keyboard.press('Enter');
  const box = page.getByRole('group', { name: /^Flows, packets and query of 10\.1\.0\.11$/ });
  await box.getByRole('link', { name: 'Flows' }).waitFor();
  assert.match(
    await box.locator('[data-lead="query"]').innerText(),
    /weir query 'flows .*where \(tcp\) and \(flow\.client = 10\.1\.0\.11 and tcp\)/,
  );
  await page.keyboard.press('Escape');
  await box.waitFor({ state: 'hidden' });
  assert.ok(await opener.evaluate((each) => each === document.activeElement));
  await opener.click();
  await box.getByRole('link', { name: 'Flows' }).click();
  await page.waitForFunction(() => location.pathname === '/flows');
  assert.match(query(page).filter, /^\(tcp\) and \(flow\.client = 10\.1\.0\.11 and tcp\)$/);
  await settled(page);
  await done(page);
});
