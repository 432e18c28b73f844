// Checks the gzip size of the first page: all files that index.html names, at most 100 kB.

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const LIMIT = 100_000;
const dist = new URL('../dist/', import.meta.url);

export function firstPage() {
  const html = readFileSync(new URL('index.html', dist), 'utf8');
  if (/<script(?![^>]*\bsrc=)|\sstyle=|<style|https?:\/\//i.test(html))
    throw new Error('index.html has an inline script, an inline style or an outside address');
  const named = [...html.matchAll(/(?:src|href)="\/([^"]+\.(?:js|css|svg))"/g)].map((match) => match[1]);
  return ['index.html', ...named].map((name) => ({ name, size: gzipSync(readFileSync(new URL(name, dist))).length }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const parts = firstPage();
  const sum = parts.reduce((total, part) => total + part.size, 0);
  for (const part of parts) console.log(`${String(part.size).padStart(8)}  ${part.name}`);
  const rest = readdirSync(new URL('assets/', dist)).length;
  console.log(`${String(sum).padStart(8)}  first page, gzip, of ${LIMIT} allowed (${rest} files in all)`);
  if (sum > LIMIT) process.exit(1);
}
