// No line of a source file is wider than prettier's printWidth: prettier leaves long strings and templates as they are.

import { readFileSync, readdirSync } from 'node:fs';

const SOURCES = ['src', 'mock', 'scripts', 'tests'];
const root = new URL('../', import.meta.url);
const { printWidth } = JSON.parse(readFileSync(new URL('.prettierrc.json', root), 'utf8'));
let wide = 0;
for (const folder of SOURCES) {
  for (const name of readdirSync(new URL(`${folder}/`, root), { recursive: true })) {
    if (!/\.(svelte|ts|mjs|css|html)$/.test(name)) continue;
    const lines = readFileSync(new URL(`${folder}/${name}`, root), 'utf8').split('\n');
    lines.forEach((line, at) => {
      const width = [...line].length;
      if (width <= printWidth) return;
      console.error(`${folder}/${name}:${at + 1}: ${width} characters, at most ${printWidth} are allowed`);
      wide += 1;
    });
  }
}
process.exit(wide > 0 ? 1 : 0);
