// The page of triggers and their packet files, over the mock: values, files, downloads, and deleting.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { done, query, settled, stage } from './browser.mjs';
import { serve } from '../mock/server.mjs';

const on = stage({ start: () => serve({}) });

/** The page over a mock of its own, which a test changes. */
async function own(t, options = {}, path = '/dumps') {
  const site = await serve(options);
  t.after(site.stop);
  return { site, page: await on.open(path, { base: site.url }) };
}
const row = (page, name) => page.locator(`[data-file^="${name}."]`).first();
const remove = (part) => part.getByRole('button', { name: /^delete / });
const sure = (part) => part.getByRole('button', { name: 'Delete the file' });
/** The failures of the given status are those that the test has asked for. */
function expected(page, status) {
  assert.ok(page.faults.length > 0 && page.faults.every((fault) => fault.includes(String(status))), page.faults.join());
  page.faults.length = 0;
}

test('triggers have their value beside the threshold, and what they have written', async () => {
  const page = await on.open('/');
  await page.keyboard.press('g');
  await page.keyboard.press('d');
  await page.waitForFunction(() => location.pathname === '/dumps');
  await settled(page);
  const text = async (name) => (await page.locator(`[data-trigger="${name}"]`).innerText()).replaceAll(/\s+/g, ' ');
  const flood = await text('syn-flood');
  for (const part of [
    'on since 20',
    '(tcp-syn | tcp-ack) = tcp-syn: above 10 k packets',
    '12.4 k of 10 k packets (124 %)',
    '2 files, 47.0 MB of 1 GB',
    'ring: the last 5.0 s',
    'in /var/lib/weir/dumps',
  ])
    assert.ok(flood.includes(part), `${part}: ${flood}`);
  assert.match(await text('ssh'), /removed by limits: 214 files, 4\.12 GB/);
  assert.match(await text('drops'), /not written: 2 files/);
  assert.match(await text('scans'), /off event port_scan opened by events/);
  assert.match(await text('silent'), /where host 192\.0\.2\.10: below 1 kB 61\.3 kB, threshold 1 kB 0 files/);
  // The bar of a value above the threshold crosses its mark, one below does not.
  const crosses = (name) =>
    page.locator(`[data-trigger="${name}"]`).evaluate((all) => {
      const right = (selector) => all.querySelector(selector).getBoundingClientRect().right;
      return right('.fill') > right('.mark');
    });
  assert.deepEqual([await crosses('syn-flood'), await crosses('ssh')], [true, false]);
  await page.goto(`${on.site.url}/dumps?table=triggers,dumps`);
  await settled(page);
  assert.equal(await page.locator('[data-panel="triggers"] tbody tr').count(), 5);
  assert.equal(await page.locator('[data-panel="dumps"] tbody tr').count(), 50);
  await done(page);
});

test('a file opens to its comment and flows, is downloaded, and leads to the flows of its time', async () => {
  const page = await on.open('/dumps');
  assert.match(await page.locator('[data-panel="dumps"]').innerText(), /12 older files are in the directories/);
  await page.getByRole('button', { name: 'all 64 files' }).click();
  assert.equal(await page.locator('[data-file]').count(), 64);
  await page.locator('[data-trigger="scans"]').getByRole('link', { name: 'its files of scans' }).click();
  await page.waitForFunction(() => document.querySelectorAll('[data-file]').length === 1);
  const scans = row(page, 'scans');
  await scans.locator('[data-row]').press('Enter');
  assert.match(await scans.locator('pre').innerText(), /^trigger scans: .*\nevent port_scan of .*\nnumbers: failed 41\npackets: host /);
  await scans.locator('[data-panel="alert-flows"]').waitFor();
  const name = await scans.getAttribute('data-file');
  assert.ok((await scans.innerText()).includes(`weir open /var/lib/weir/dumps/${name}`));
  const [download] = await Promise.all([page.waitForEvent('download'), scans.getByRole('link', { name: /^download/ }).click()]);
  assert.equal(download.suggestedFilename(), name);
  assert.equal(readFileSync(await download.path()).readUInt32LE(0), 0x0a0d0d0a);
  // A URL restores what is open.
  await page.reload();
  await settled(page);
  await scans.locator('pre').waitFor();
  await scans.getByRole('link', { name: /^flows of/ }).click();
  await page.waitForFunction(() => location.pathname === '/flows');
  const { filter, from, to } = query(page);
  assert.equal(filter, 'host 10.0.0.66 and host 10.0.0.9');
  assert.ok(Number(to) - Number(from) >= 65 && Number(to) - Number(from) <= 67, page.url());
  await settled(page);
  // The trigger of this file goes on for 300 s after the beginning of an event.
  await page.goto(`${on.site.url}/dumps`);
  await settled(page);
  const ssh = new URL(
    await row(page, 'ssh')
      .getByRole('link', { name: /^flows of/ })
      .getAttribute('href'),
    on.site.url,
  ).searchParams;
  const length = Number(ssh.get('to')) - Number(ssh.get('from'));
  assert.ok(length >= 305 && length <= 307, `${length} s`);
  await done(page);
});

test('a file is deleted after a second click, and kept with Escape', async (t) => {
  const { page } = await own(t);
  const scans = row(page, 'scans');
  assert.equal(await remove(row(page, 'syn-flood')).count(), 0, 'it is being written');
  await remove(scans).click();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Keep it');
  await page.keyboard.press('Escape');
  assert.equal(await sure(scans).count(), 0);
  await page.waitForFunction(() => document.activeElement.textContent.startsWith('delete'));
  await remove(scans).click();
  await sure(scans).click();
  await scans.waitFor({ state: 'detached' });
  assert.match(await page.locator('[data-panel="dumps"] [role="status"]').innerText(), /^Deleted: scans\..*\.pcapng\.$/);
  assert.match(await page.evaluate(() => document.activeElement.closest('[data-file]').dataset.file), /^drops\./);
  assert.match(await page.locator('[data-trigger="scans"]').innerText(), /0 files, 0 B/);
  assert.equal(await page.title(), 'Dumps · campus-north', 'what packets have is no markup');
  await done(page);
});

test('a file that is being written, and one that is gone, are not deleted', async (t) => {
  const { site, page } = await own(t);
  const [scans, drops] = [row(page, 'scans'), row(page, 'drops')];
  site.set.busy = await scans.getAttribute('data-file');
  await remove(scans).click();
  await sure(scans).click();
  await scans.getByRole('alert').filter({ hasText: 'is being written: delete it when it is complete' }).waitFor();
  expected(page, 409);
  // Another client deletes it after the question.
  await remove(drops).click();
  const gone = await page.request.delete(`${site.url}/api/v1/dumps/${await drops.getAttribute('data-file')}`);
  assert.equal(gone.status(), 204);
  if (await sure(drops).isVisible()) await sure(drops).click();
  await drops.waitFor({ state: 'detached' });
  page.faults = page.faults.filter((fault) => !fault.includes('404'));
  await done(page);
});

test('who may not write does not delete, and who may not have packets does not download', async (t) => {
  const { site, page } = await own(t);
  const scans = row(page, 'scans');
  // The right was taken away after the page was loaded.
  await remove(scans).click();
  site.set.write = false;
  await sure(scans).click();
  await scans.getByRole('alert').filter({ hasText: 'deleting a file needs the right write' }).waitFor();
  assert.equal(await page.locator('[data-file^="scans."]').count(), 1);
  expected(page, 403);
  await done(page);
  const reader = (await own(t, { write: false, packets: false })).page;
  assert.equal(await reader.getByRole('button', { name: /^delete/ }).count(), 0);
  assert.equal(await reader.getByRole('link', { name: /^download/ }).count(), 0);
  assert.match(await reader.locator('[data-panel="dumps"]').innerText(), /downloaded with the right packets, which ann does not have/);
  await done(reader);
});

test('values follow a live run, and what has not changed is not drawn again', async (t) => {
  const { site, page } = await own(t);
  await page.evaluate(() => {
    window.drawn = [];
    const watch = new MutationObserver((found) => {
      for (const { target, type } of found) {
        const within = target instanceof Element ? target : target.parentElement;
        window.drawn.push(`${type} ${(within.closest('[data-trigger], [data-file]') ?? within).outerHTML.slice(0, 60)}`);
      }
    });
    for (const list of document.querySelectorAll('[data-panel] ul'))
      watch.observe(list, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  const asked = () => page.requests.filter((url) => url.endsWith('/api/v1/dumps')).length;
  const before = asked();
  while (asked() < before + 2) await page.waitForTimeout(100);
  await settled(page);
  assert.deepEqual(await page.evaluate(() => window.drawn), []);
  site.set.value = 7321;
  await page.waitForFunction(() => document.querySelector('[data-value]').textContent.startsWith('7.32'));
  const drawn = await page.evaluate(() => window.drawn);
  assert.ok(drawn.length > 0 && drawn.every((each) => each.includes('syn-flood')), drawn.join('\n'));
  await done(page);
});

test('without triggers the page says what makes one', async (t) => {
  for (const [options, words] of [
    [{ triggers: false }, /This run has no triggers\.[\s\S]*\[\[trigger\]\]\nname = "syn-flood"[\s\S]*event = "port_scan"/],
    [{ mode: 'store' }, /a store alone, which has no triggers[\s\S]*\[\[trigger\]\]/],
    [{ mode: 'file' }, /tcp-syn: above 10 k packets\nno value now/],
  ]) {
    const { page } = await own(t, options);
    // Spaces that do not break a number from its prefix.
    const text = (await page.locator('main').innerText()).replaceAll('\u00a0', ' ');
    assert.match(text, words);
    assert.equal(await page.locator('[data-panel="dumps"]').count(), options.mode === 'file' ? 1 : 0);
    if (options.mode === 'file') assert.doesNotMatch(text, /ring/);
    await done(page);
  }
});
