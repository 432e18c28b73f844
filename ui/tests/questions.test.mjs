// Twenty questions of an operator, each asked as a person does: from the Overview, by clicks and typed words. The clicks and words
// of each are printed. The captures are a story of eight days, whose answers are known, and the sample.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { done, reach, settled, stage } from './browser.mjs';
import { attempt, connection, lookup, pcapAt } from './packets.mjs';
import { count, folder, start, WEIR } from './program.mjs';

const SAMPLE = fileURLToPath(new URL('../../testdata/sample/sample.pcap', import.meta.url));
const skip = !WEIR && 'needs WEIR, the path of the program';
const on = stage({ skip: !!skip, start: () => null });

/** 2026-11-20 00:00 UTC, a Friday: the last day of the story. */
const TODAY = 1_795_132_800;
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
const AT_FIVE_PAST_TWO = 14 * HOUR + 5 * MINUTE;
const [SERVER, RESOLVER] = ['192.0.2.80', '10.2.0.53'];

/** A page of a site: its name is asked for, and it is fetched. */
function visit(client, host, { port, status = '200 OK', agent = 'lynx/2.9', length = 2000 }) {
  const body = 'x'.repeat(length);
  return [
    ...lookup([client, port], [RESOLVER, 53], host.split('.'), SERVER),
    ...connection(
      [client, port],
      [SERVER, 80],
      [
        [0, `GET / HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ${agent}\r\n\r\n`],
        [1, `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${length}\r\n\r\n${body}`],
      ],
    ),
  ];
}

/** Eight days: each hour a client visits a site; at 14:05 others do; today there is a new host, a scan and a flood. */
function story(path) {
  const groups = [];
  for (let day = -7; day <= 0; day += 1) {
    for (let hour = 0; hour < 16; hour += 1) {
      const frames = visit('10.2.0.10', 'www.example.org', { port: 20_000 + hour });
      if (hour === 14) {
        groups.push([TODAY + day * DAY + hour * HOUR, frames]);
        const client = { [-3]: '10.2.0.33', 0: '10.2.0.77' }[day] ?? '10.2.0.11';
        groups.push([TODAY + day * DAY + AT_FIVE_PAST_TWO, visit(client, 'shop.example.org', { port: 30_000, length: 9000 })]);
      } else groups.push([TODAY + day * DAY + hour * HOUR, frames]);
    }
  }
  const today = (seconds, frames) => groups.push([TODAY + seconds, frames]);
  today(15 * HOUR + 600, visit('10.2.0.99', 'new.example.net', { port: 31_000, status: '503 Service Unavailable', agent: 'curl/8.5' }));
  today(15 * HOUR + 660, Array.from({ length: 60 }, (_, at) => attempt(['10.2.0.66', 40_000 + at], ['10.2.0.10', 1000 + at], true)).flat());
  today(
    15 * HOUR + 720,
    Array.from({ length: 400 }, (_, at) => attempt([`198.51.100.${1 + (at % 250)}`, 1024 + at], ['10.2.0.80', 443], false)).flat(),
  );
  // The segment with the request is sent twice more.
  const lossy = visit('10.2.0.44', 'far.example.org', { port: 33_000 });
  today(15 * HOUR + 780, lossy.toSpliced(6, 0, lossy[5], lossy[5]));
  today(15 * HOUR + 1500, visit('10.2.0.12', 'now.example.org', { port: 32_000, length: 30_000 }));
  pcapAt(
    path,
    groups.sort((one, other) => one[0] - other[0]),
  );
}

/** A person with a page: counts clicks, and entries that Enter ends, and the keys of these. */
class Person {
  constructor(page) {
    this.page = page;
    this.clicks = 0;
    this.words = [];
  }
  async click(part) {
    await reach(part);
    await part.first().click();
    this.clicks += 1;
    await settled(this.page);
  }
  async type(part, text) {
    await reach(part);
    await part.first().fill(text);
    await part.first().press('Enter');
    this.words.push(text);
    await settled(this.page);
  }
  async go(name) {
    await this.click(this.page.locator('nav[aria-label="Pages"]').getByRole('link', { name, exact: true }));
  }
  panel(id) {
    return this.page.locator(`[data-panel="${id}"]`);
  }
  async sees(part, expected) {
    await reach(part);
    await part.filter({ hasText: expected }).first().waitFor();
  }
}

async function from(person, first, last) {
  await person.click(person.page.locator('button[title="Enter a time range"]'));
  const form = person.page.locator('.typed');
  await form.getByLabel('From').fill(first);
  person.words.push(first);
  await person.type(form.getByLabel('to', { exact: true }), last);
}
const summary = (person, name) => person.page.locator(`[data-summary="${name}"]`);
const listed = (person, title) =>
  person.page.locator('[data-panel]').filter({ has: person.page.getByRole('heading', { name: title, exact: true }) });
const row = (person, panel, text) => person.panel(panel).locator('[data-row]', { hasText: text });
const span = (person, name) => person.click(person.page.getByRole('link', { name, exact: true }));

/** Each question: what a person does, and what then answers it. */
const QUESTIONS = {
  'Who uses the link now?': async (person) => {
    await span(person, '15 min');
    await person.sees(row(person, 'list-hosts', '10.2.0.12'), '30.8 kB');
    assert.equal(await person.panel('list-hosts').filter({ hasText: '10.2.0.11' }).count(), 0);
  },
  'Who used it at 14:05 today?': async (person) => {
    await from(person, '14:05', '14:06');
    await person.sees(person.panel('list-hosts'), '10.2.0.77');
    assert.equal(await row(person, 'list-hosts', '10.2.0.33').count(), 0);
  },
  'Who used it at 14:05 three days ago?': async (person) => {
    await from(person, '3 days ago 14:05', '3 days ago 14:06');
    await person.sees(person.panel('list-hosts'), '10.2.0.33');
    assert.equal(await row(person, 'list-hosts', '10.2.0.77').count(), 0);
  },
  'What did this host do?': async (person) => {
    await person.click(row(person, 'list-hosts', '10.2.0.77'));
    await person.sees(summary(person, 'traffic'), '2 flows');
    await person.sees(person.panel('list-services'), 'tcp/80');
  },
  'Which names did it ask for?': async (person) => {
    await person.click(row(person, 'list-hosts', '10.2.0.77'));
    await person.sees(listed(person, 'Names asked of DNS'), 'shop.example.org');
    assert.equal(await listed(person, 'Names asked of DNS').filter({ hasText: 'www.example.org' }).count(), 0);
  },
  'Which certificates expire first?': async (person) => {
    await person.go('Protocols');
    await person.click(person.page.getByRole('link', { name: /^x509/ }));
    await person.click(person.panel('records').getByRole('button', { name: 'Expires' }));
    await person.sees(person.panel('records').locator('tbody'), /20\d\d-\d\d-\d\d/);
  },
  'What are the packets of this flow?': async (person, file) => {
    await person.go('Flows');
    await person.click(person.panel('flows').locator('tbody tr', { hasText: 'now.example.org' }).locator('button[aria-expanded]'));
    await person.click(person.page.locator('.detail').getByRole('button', { name: /packets …/ }));
    await person.sees(person.page.locator('.detail a[download]'), `${count(file, 'host 10.2.0.12 and tcp').packets} packets`);
  },
  'What are the packets of this site?': async (person, file) => {
    await person.click(listed(person, 'Sites').locator('[data-row]', { hasText: 'shop.example.org' }));
    await person.click(person.page.getByRole('button', { name: 'Download packets …' }));
    await person.sees(person.page.locator('a[download]'), `${count(file, 'http.host = "shop.example.org"').packets} packets`);
  },
  'Which hosts are new?': async (person) => {
    await span(person, 'hour');
    await person.sees(person.panel('new'), '10.2.0.99');
    await person.sees(person.panel('new'), '10.2.0.66');
  },
  'Who scans?': async (person) => {
    await span(person, 'day');
    await person.sees(summary(person, 'findings'), '10.2.0.66');
  },
  'Which server is flooded with SYNs?': async (person) => {
    await person.go('Flows');
    await person.click(person.page.locator('[data-row], button', { hasText: /^\s*S0/ }));
    await person.sees(person.panel('flows').locator('tbody'), '10.2.0.80');
  },
  'How long do servers take?': async (person) => {
    await person.sees(listed(person, 'Latency by server'), '192.0.2.80');
  },
  'Who sends again?': async (person) => {
    await person.go('Lists');
    await person.sees(person.panel('flow-lists'), '10.2.0.44');
  },
  'Which services over time?': async (person) => {
    await person.go('Charts');
    await person.sees(person.panel('over'), 'http');
  },
  'What is the 95th percentile of the link?': async (person) => {
    await person.go('Charts');
    await person.sees(person.page.locator('main'), /95th percentile of the link [\d.]+ k?bit\/s/);
  },
  'What was lost?': async (person) => {
    await person.sees(summary(person, 'lost'), /No loss: all [\d,]+ packets captured/);
  },
  'How is it against last week?': async (person) => {
    await span(person, 'day');
    await person.sees(summary(person, 'changed'), /[\d.]+ (% above|times) the same hours of the previous week/);
  },
  'Which sites, most first?': async (person) => {
    await person.sees(listed(person, 'Sites').locator('[data-row]').first(), 'www.example.org');
  },
  'Which requests failed at the server?': async (person) => {
    await person.click(listed(person, 'Status codes of HTTP').locator('[data-row]', { hasText: '503' }));
    await person.sees(listed(person, 'User agents of HTTP'), 'curl/8.5');
  },
  'Which programs do hosts use?': async (person) => {
    await person.sees(listed(person, 'User agents of HTTP'), 'lynx/2.9');
  },
};
/** Of these the answer is within three clicks and entries. */
const WITHIN_THREE = 20;

test('twenty questions of an operator, by clicks from the Overview', { skip }, async (t) => {
  const file = join(folder(t), 'story.pcap');
  story(file);
  const [{ url: ofStory }, { url: ofSample }] = await Promise.all([start(t, ['open', file]), start(t, ['open', SAMPLE])]);
  let near = 0;
  for (const [question, ask] of Object.entries(QUESTIONS)) {
    await t.test(question, async () => {
      const page = await on.open('/', { base: question.includes('certificates') ? ofSample : ofStory });
      const person = new Person(page);
      await ask(person, file);
      const steps = person.clicks + person.words.length;
      console.log(`${person.clicks} clicks, ${person.words.length} entries (${person.words.join('').length} keys): ${question}`);
      if (steps <= 3) near += 1;
      await done(page);
    });
  }
  console.log(`${near} of ${Object.keys(QUESTIONS).length} within three`);
  assert.ok(near >= WITHIN_THREE, `${near}`);
});
