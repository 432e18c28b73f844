// The numbers of the pages equal those of `weir count` for the same expression: needs WEIR_URL (a daemon that serves the
// capture WEIR_PCAP) and WEIR (the program).

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { settled, stage } from './browser.mjs';

const { WEIR, WEIR_PCAP, WEIR_URL } = process.env;
const here = WEIR && WEIR_PCAP && WEIR_URL;
const on = stage({ skip: !here });

for (const expression of ['tcp', 'tcp port 80', 'udp', 'tcp and not port 80']) {
  test(
    `what the page counts of ${expression} is what weir count does`,
    { skip: !here && 'needs WEIR, WEIR_PCAP and WEIR_URL' },
    async () => {
      const counted = JSON.parse(execFileSync(WEIR, ['count', WEIR_PCAP, '-e', expression, '-j'], { encoding: 'utf8' }));
      const page = await on.browser.newPage();
      await page.goto(`${on.site.url}/flows?filter=${encodeURIComponent(expression)}`);
      await settled(page);
      const shown = page.locator('[data-matched]');
      assert.equal(Number(await shown.getAttribute('data-packets')), counted.packets);
      assert.equal(Number(await shown.getAttribute('data-bytes')), counted.bytes);
      assert.ok((await shown.innerText()).includes(`${new Intl.NumberFormat('en').format(counted.packets)} packets`));
      await page.close();
    },
  );
}
