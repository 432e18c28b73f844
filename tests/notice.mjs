#!/usr/bin/env node
// Writes NOTICE: the licences of everything that is linked into the program, and of the packages in its pages. The crates are
// those of `cargo tree` for the program alone, without build scripts, procedural macros and tests. The texts are the files in
// the crates' own sources, so nothing is fetched. `tests/notice.mjs --check` compares, and exits with 1 when NOTICE is stale.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const TARGET = 'x86_64-unknown-linux-gnu';
const WIDE = 256 * 1024 * 1024;

/** Sources in C that a crate contains, with their own licence. */
const BUNDLED = {
  'libmimalloc-sys': [['mimalloc', 'MIT', /^c_src\/mimalloc[^/]*\/(v3\/)?LICENSE$/]],
  'libsqlite3-sys': [['SQLite', 'public domain', null]],
  'pcre2-sys': [['PCRE2', 'BSD-3-Clause', /^upstream\/src\/pcre2_compile\.c$/]],
  'zstd-sys': [['Zstandard', 'BSD-3-Clause', /^zstd\/LICENSE$/]],
};
/** A crate without a licence file, and the crate of the same authors whose text holds for it. */
const SAME_AS = { 'alloc-stdlib': 'alloc-no-stdlib' };
/** npm packages that are part of the pages. What only builds or tests them is not. */
const PAGES = Object.keys(JSON.parse(readFileSync(join(ROOT, 'ui/package.json'), 'utf8')).dependencies);

const cargo = (...args) => execFileSync('cargo', [...args, '--offline', '--locked'], { cwd: ROOT, encoding: 'utf8', maxBuffer: WIDE });

/** Paths of files in `folder`, at most three folders deep, that match. */
function files(folder, pattern, below = '', depth = 0) {
  return readdirSync(join(folder, below)).flatMap((name) => {
    const path = below ? `${below}/${name}` : name;
    if (statSync(join(folder, path)).isDirectory()) return depth < 3 ? files(folder, pattern, path, depth + 1) : [];
    return pattern.test(path) ? [path] : [];
  });
}

/** The licence files of a package: where its licence is a choice that offers MIT, those of MIT alone. */
function texts(folder, expression) {
  const plain = files(folder, /^(LICENSES\/|(licen[sc]e|copying|copyright|unlicense|notice)[^/]*$)/i);
  const choice = /\bOR\b|\//.test(expression) && !/\bAND\b/.test(expression);
  const mit = choice ? plain.filter((name) => /mit/i.test(name)) : [];
  return (mit.length > 0 ? mit : plain).map((name) => readFileSync(join(folder, name), 'utf8'));
}

/** The text of a licence file; of a source file, its first comment from the author's name to the line after the licence. */
const licence = (path) => {
  const text = readFileSync(path, 'utf8');
  return path.endsWith('.c') ? text.match(/Written by[^]*?(?=\n-{20,}\n\*\/)/)[0] : text;
};

/** What is the same text for a reader: line ends, trailing blanks and indentation do not count. */
const same = (text) => text.replace(/\s+/g, ' ').trim();

function components() {
  const program = ['-p', 'weir', '--features', 'parquet'];
  const listed = cargo('tree', ...program, '-e', 'normal,no-proc-macro', '--target', TARGET, '--prefix', 'none', '-f', '{p}');
  const wanted = new Set(listed.split('\n').map((line) => line.split(' ').slice(0, 2).join(' ')));
  const metadata = JSON.parse(cargo('metadata', '--format-version', '1', '--filter-platform', TARGET));
  const crates = metadata.packages.filter((each) => each.source && wanted.has(`${each.name} v${each.version}`));
  const folderOf = (name) => dirname(crates.find((each) => each.name === name).manifest_path);
  const out = [];
  for (const { name, version, license, manifest_path } of crates) {
    const folder = SAME_AS[name] ? folderOf(SAME_AS[name]) : dirname(manifest_path);
    out.push({ name, version, license, texts: texts(folder, license ?? '') });
    for (const [part, terms, pattern] of BUNDLED[name] ?? [])
      out.push({
        name: part,
        version: `in ${name} ${version}`,
        license: terms,
        texts: pattern ? files(folder, pattern).map((path) => licence(join(folder, path))) : [],
      });
  }
  for (const name of PAGES) {
    const folder = join(ROOT, 'ui/node_modules', name);
    if (!existsSync(folder)) throw new Error(`${name} is not installed: (cd ui && npm ci)`);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    out.push({ name, version: `${version} (npm)`, license, texts: texts(folder, license) });
  }
  for (const each of out)
    if (each.texts.length === 0 && each.license !== 'public domain') throw new Error(`${each.name} ${each.version} has no licence file`);
  return out.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function notice() {
  const all = components();
  const list = all.map((each) => `${each.name} ${each.version}: ${each.license}`);
  const byText = new Map();
  for (const each of all)
    for (const text of each.texts) {
      const key = same(text);
      if (!byText.has(key)) byText.set(key, { text, users: new Set() });
      byText.get(key).users.add(each.name);
    }
  const sections = [...byText.values()].map(({ text, users }) => {
    const body = text.replaceAll('\r\n', '\n').replace(/[ \t]+$/gm, '').trim();
    return `${'-'.repeat(100)}\n${[...users].join(', ')}\n\n${body}\n`;
  });
  return `Weir is distributed under the MIT licence or the Apache Licence 2.0, at your choice (LICENSE-MIT, LICENSE-APACHE).
The program contains the components below, each under its own licence. Written by tests/notice.mjs; do not edit.

${list.join('\n')}

${sections.join('\n')}`;
}

const path = join(ROOT, 'NOTICE');
const text = notice();
if (process.argv[2] !== '--check') writeFileSync(path, text);
else if (!existsSync(path) || readFileSync(path, 'utf8') !== text) {
  console.error('NOTICE is stale: the dependencies have changed. Run tests/notice.mjs and commit NOTICE.');
  process.exit(1);
}
