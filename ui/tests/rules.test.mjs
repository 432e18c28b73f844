// Alerts of rules by rule: over the mock, and over the program (WEIR) with rules that the test writes.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { audited, done, query, reach, settled, stage } from './browser.mjs';
import { connection, pcap } from './packets.mjs';
import { count, folder, start, WEIR } from './program.mjs';
import { serve } from '../mock/server.mjs';

const skip = !WEIR && 'needs WEIR, the path of the program';
const on = stage({ start: () => serve({}) });
const panel = (page) => page.locator('[data-panel="rules"]');
/** Rows of rules, and not of the alerts of an opened one. */
const rows = (page) => page.locator('[data-panel="rules"] > div > table > tbody > tr:not(.detail)');
/** The cells of each row, without the button at its end. */
const cells = (page) =>
  rows(page).evaluateAll((all) =>
    all.map((row) => [...row.querySelectorAll('td:not(.leads)')].map((cell) => cell.innerText.replace(/^[▸▾]\s*/, '').trim())),
  );

test('rules are sorted by severity and number, narrowed by the filter, and add up', async () => {
  const page = await on.open('/alerts?range=24h');
  const of = (all) => all.map((row) => [Number(row[3]), Number(row[4].replaceAll(',', ''))]);
  const all = of(await cells(page));
  assert.equal(all.length, 4);
  for (const [at, [severity, alerts]] of all.entries()) {
    const [before, more] = all[at - 1] ?? [0, Infinity];
    assert.ok(before < severity || (before === severity && more >= alerts), JSON.stringify(all));
  }
  const total = all.reduce((sum, [, alerts]) => sum + alerts, 0);
  assert.match(
    await panel(page).locator('header').innerText(),
    new RegExp(`${new Intl.NumberFormat('en').format(total)} alerts of 4 rules`),
  );
  await rows(page).first().getByRole('button', { name: '1', exact: true }).click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('filter') === 'alert.severity = 1');
  await settled(page);
  assert.deepEqual(of(await cells(page)), all.slice(0, 1));
  assert.equal(await page.locator('main :is(script, img)').count(), 0, 'messages of rules are text');
  await done(page);
});

for (const [colorScheme, width] of [
  ['light', 1280],
  ['dark', 390],
]) {
  test(`the page is as wide as the window at ${width} pixels`, async () => {
    const page = await on.open('/alerts?range=24h&rule=1:2034647:1', { colorScheme, viewport: { width, height: 900 } });
    await page.locator('[data-panel="rule-alerts"] tbody tr').first().waitFor();
    await settled(page);
    assert.ok(!(await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)));
    await done(page);
  });
}

test('without rules the page has the option and the lines that give a run some', async (t) => {
  const site = await serve({ rules: false });
  t.after(site.stop);
  const page = await on.open('/alerts', { base: site.url });
  await reach(panel(page));
  const text = await panel(page).innerText();
  for (const part of ['-S rules/', '[rules]\nfiles = [']) assert.ok(text.includes(part), text);
  await done(page);
});

test('alerts of a rule are muted after a preview, counted apart, and shown again', async (t) => {
  const site = await serve({});
  t.after(site.stop);
  const page = await on.open('/alerts?range=24h', { base: site.url, bypassCSP: true, reducedMotion: 'reduce' });
  const number = (text) => Number(text.replaceAll(',', ''));
  const before = await cells(page);
  const [rule, , , , alerts] = before[0];
  const [gid, sid] = rule.split(':');
  await rows(page).first().locator('[data-row]').first().click();
  const latest = page.locator('[data-panel="rule-alerts"]');
  await latest.locator('tbody tr').first().waitFor();
  // One alert: its hosts are filled in, and any host is left.
  await latest.locator('tbody tr [data-row]').first().click();
  const detail = latest.locator('.detail');
  await detail.getByRole('button', { name: 'Mute like this' }).click();
  const like = detail.getByRole('form', { name: 'Mute' });
  for (const end of ['of', 'to']) assert.match(await like.getByLabel(end, { exact: true }).inputValue(), /^[0-9a-f.:]+$/);
  await like.getByRole('button', { name: 'Preview' }).click();
  await like.getByText(/would have hidden [\d,]+ of [\d,]+ alerts? since/).waitFor();
  // The whole rule.
  await panel(page).getByRole('button', { name: 'Mute like this' }).first().click();
  const form = panel(page).getByRole('form', { name: 'Mute' }).first();
  assert.match(await form.innerText(), new RegExp(`rule ${gid}:${sid}`));
  const mute = form.getByRole('button', { name: 'Mute', exact: true });
  assert.ok(await mute.isDisabled(), 'not before a preview');
  await form.getByRole('button', { name: 'Preview' }).click();
  const preview = form.getByText(/would have hidden [\d,]+ of [\d,]+ alerts? since/);
  await preview.waitFor();
  const [hidden, of] = (await preview.innerText()).match(/[\d,]+/g).map(number);
  assert.equal(hidden, of);
  assert.ok(hidden >= number(alerts));
  await audited(page);
  await form.getByLabel('because').fill('our <b>proxy</b>');
  await mute.click();
  const muted = page.locator('[data-muted-alerts]');
  await muted.waitFor();
  await settled(page);
  assert.equal(await muted.innerText(), `${alerts} muted, show`);
  assert.deepEqual(await cells(page), before.slice(1));
  const mutes = page.locator('[data-panel="mutes"]');
  assert.match(await mutes.locator('tbody tr').innerText(), new RegExp(`rule ${gid}:${sid}\\s+${hidden}\\s.*our <b>proxy</b>\\s+ann`));
  await audited(page);
  // What is muted is listed on request, with its alerts.
  await muted.click();
  await page.waitForFunction(() => new URL(location.href).searchParams.get('muted-alerts') === 'yes');
  await settled(page);
  assert.deepEqual(await cells(page), before.slice(0, 1));
  await rows(page).first().locator('[data-row]').first().click();
  await latest.locator('tbody tr').first().waitFor();
  await page.locator('[data-muted-alerts]').click();
  await settled(page);
  await mutes.getByRole('button', { name: /^Remove: / }).click();
  await mutes.waitFor({ state: 'detached' });
  await page.waitForFunction(() => !document.querySelector('[data-muted-alerts]'));
  await settled(page);
  assert.deepEqual(await cells(page), before);
  await done(page);
});

test('who may not write cannot mute alerts of rules', async (t) => {
  const site = await serve({ write: false });
  t.after(site.stop);
  const page = await on.open('/alerts?range=24h', { base: site.url });
  await rows(page).first().locator('[data-row]').first().click();
  await page.locator('[data-panel="rule-alerts"] tbody tr').first().waitFor();
  assert.equal(await page.getByRole('button', { name: /Mute/ }).count(), 0);
  await done(page);
});

test('from a rule to its alerts, their flow, transaction and packets', { skip }, async (t) => {
  const made = folder(t);
  const [file, rules] = [join(made, 'x.pcap'), join(made, 'x.rules')];
  const web = ['192.0.2.80', 80];
  const asks = (client, path) => [
    [0, `GET /${path} HTTP/1.1\r\nHost: www.example.com\r\n\r\n`],
    [1, 'HTTP/1.1 200 OK\r\nServer: leaky\r\nContent-Length: 2\r\n\r\nok'],
  ];
  pcap(file, [
    ...connection(['10.1.0.1', 40_000], web, asks('10.1.0.1', 'secret')),
    ...connection(['10.1.0.2', 40_001], web, asks('10.1.0.2', 'secret')),
    ...connection(['10.1.0.3', 40_002], web, asks('10.1.0.3', 'other')),
  ]);
  const rule = (to, text, rest) => `alert http any any -> any any (msg:"${text}"; flow:established,${to}; ${rest})\n`;
  writeFileSync(
    rules,
    rule('to_server', 'Asks for a <b>secret</b>', 'http.uri; content:"/secret"; sid:7; rev:2; priority:2;') +
      rule('to_client', 'A leaky server', 'http.server; content:"leaky"; sid:8; rev:1; priority:1;'),
  );
  const { url } = await start(t, ['open', file, '-S', rules]);
  const page = await on.open('/alerts', { base: url });
  const shown = (await cells(page)).map((row) => [...row.slice(0, 5), ...row.slice(-2)]);
  assert.deepEqual(shown, [
    ['1:8:1', 'A leaky server', '', '1', '3', '1', '3'],
    ['1:7:2', 'Asks for a <b>secret</b>', '', '2', '2', '2', '1'],
  ]);
  // The source of an answer is the server.
  await rows(page).first().locator('[data-row]').first().press('Enter');
  const alerts = page.locator('[data-panel="rule-alerts"]');
  await alerts.locator('tbody tr').first().waitFor();
  assert.equal(query(page).rule, '1:8:1');
  assert.match(
    (await alerts.locator('tbody tr').first().innerText()).replaceAll(/\s+/g, ' '),
    /192\.0\.2\.80:80 10\.1\.0\.\d:4000\d http allowed 0 C/,
  );
  await rows(page).last().locator('[data-row]').first().press('Enter');
  await page.waitForFunction(() => new URL(location.href).searchParams.get('rule') === '1:7:2');
  await alerts.locator('tbody tr', { hasText: '10.1.0.2:40001' }).locator('[data-row]').first().click();
  // The transaction is a record of the flow.
  await alerts.locator('.detail section', { hasText: 'http' }).filter({ hasText: '/secret' }).first().waitFor();
  // Packets of the flows in which the rule matched.
  await rows(page).last().locator('[data-leads]').first().click();
  const box = page.getByRole('group', { name: 'Flows, packets and query of rule 1:7:2' });
  await box.getByRole('button', { name: 'Download packets' }).click();
  const link = box.getByRole('link', { name: /^Download / });
  const [download] = await Promise.all([page.waitForEvent('download'), link.click()]);
  const packets = join(made, 'rule.pcap');
  await download.saveAs(packets);
  const both = 'host 10.1.0.1 or host 10.1.0.2';
  assert.deepEqual(count(packets, both), count(file, both));
  assert.equal(count(packets, `not (${both})`).packets, 0);
  await page.keyboard.press('Escape');
  await alerts.getByRole('link', { name: /^All alerts of the rule/ }).click();
  await page.waitForFunction(() => location.pathname === '/protocols');
  await settled(page);
  assert.deepEqual([query(page).protocol, query(page).filter], ['alert', 'alert.gid = 1 and alert.sid = 7 and alert.rev = 2']);
  assert.match(await page.locator('[data-panel="records"] header').innerText(), /2 records match/);
  // The table is the answer of the route.
  const csv = execFileSync('curl', ['-s', `${url}/api/v1/alerts?format=csv`], { encoding: 'utf8' });
  assert.equal(csv.trim().split('\n').length, 3, csv);
  await done(page);
});
