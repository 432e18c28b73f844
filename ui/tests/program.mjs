// Helpers of tests over the program: starting it, counting with it, and a browser in its network namespace.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CHROMIUM, launch } from './browser.mjs';

export const { WEIR } = process.env;

/** A folder that is gone after the test. */
export function folder(t) {
  const made = mkdtempSync(join(tmpdir(), 'weir-pages-'));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Starts the program and waits for its URL; `before` precedes its command line. */
export async function start(t, args, before = []) {
  const [name, ...rest] = [...before, WEIR, ...args];
  const child = spawn(name, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const ended = new Promise((resolve) => {
    child.on('close', (code) => resolve(code));
  });
  const url = await new Promise((resolve, reject) => {
    const read = (bytes) => {
      output += bytes;
      const found = /^(http:\/\/\S+?)\/?$/m.exec(output);
      if (found) resolve(found[1]);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    void ended.then((code) => reject(new Error(`weir ${args.join(' ')} ended with ${code}: ${output}`)));
  });
  const stop = async (signal = 'SIGINT') => {
    if (child.exitCode === null) child.kill(signal);
    return ended;
  };
  t.after(() => stop('SIGKILL'));
  return { url, stop, output: () => output };
}

/** A free port: `serve` does not try others, as `open` does. */
export async function free() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return String(port);
}

export const count = (file, expression) => JSON.parse(execFileSync(WEIR, ['count', file, '-e', expression, '-j'], { encoding: 'utf8' }));
export const matched = async (page) => {
  const shown = page.locator('[data-matched]');
  return { packets: Number(await shown.getAttribute('data-packets')), bytes: Number(await shown.getAttribute('data-bytes')) };
};

/** A browser in a network namespace, started by a wrapper script. */
export async function launchIn(t, space, into) {
  const chromium = join(into, 'chromium');
  writeFileSync(chromium, `#!/bin/sh\nexec ${space.join(' ')} ${CHROMIUM} "$@"\n`, { mode: 0o755 });
  const browser = await launch(chromium);
  t.after(() => browser.close());
  return browser;
}
