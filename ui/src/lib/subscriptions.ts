// Subscriptions in the text of a configuration: one is added at its end, one is removed, and everything else stays as it is written.

/** A subscription as the form has it. */
export interface Wanted {
  name: string;
  level: string;
  expression: string;
  /** Calls of functions, in words: `top dns.query show 20`. */
  calls: string[];
  /** Length of the interval of its readings, such as `1m`; "" for that of the run. */
  interval: string;
  /** Outputs that get its readings; none for all. */
  outputs: string[];
}

/** The part of a subscription that an error is about. */
export type Part = 'name' | 'level' | 'expression' | 'calls' | 'interval' | 'outputs';

/** A text with a subscription at its end. */
export interface Added {
  text: string;
  /** The part that a line has, and the column of its first character; the whole text has no such part. */
  at: (line: number) => { part: Part; column: number } | null;
}

/** A TOML string: literal where possible, so that columns in the file are those of the text. */
function quoted(text: string): string {
  // eslint-disable-next-line no-control-regex
  if (!/['\x00-\x08\x0a-\x1f\x7f]/.test(text)) return `'${text}'`;
  return JSON.stringify(text).replaceAll('\x7f', '\\u007f');
}

/** Adds a subscription. */
export function added(text: string, wanted: Wanted): Added {
  const before = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  const lines: [Part | null, string, string][] = [
    [null, '[[subscription]]', ''],
    ['name', 'name = ', quoted(wanted.name)],
    ['level', 'level = ', quoted(wanted.level)],
  ];
  if (wanted.expression !== '') lines.push(['expression', 'where = ', quoted(wanted.expression)]);
  lines.push(['calls', 'chain = ', `[${wanted.calls.map(quoted).join(', ')}]`]);
  if (wanted.interval !== '') lines.push(['interval', 'interval = ', quoted(wanted.interval)]);
  if (wanted.outputs.length > 0) lines.push(['outputs', 'outputs = ', `[${wanted.outputs.map(quoted).join(', ')}]`]);
  const gap = before === '' ? '' : '\n';
  const first = (before + gap).split('\n').length;
  return {
    text: `${before}${gap}${lines.map(([, key, value]) => `${key}${value}\n`).join('')}`,
    at: (line) => {
      const [part, key] = lines[line - first] ?? [null, ''];
      // Behind the key and the quote.
      return part && { part, column: key.length + 2 };
    },
  };
}

/** For each line, whether it begins outside of strings, arrays and inline tables. */
function outside(text: string): boolean[] {
  const found = [true];
  const opened = /"""|'''|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|#[^\n]*|[[\]{}]|\n/g;
  let depth = 0;
  for (let match = opened.exec(text); match; match = opened.exec(text)) {
    const [token] = match;
    if (token === '"""' || token === "'''") {
      let end = text.indexOf(token, opened.lastIndex);
      while (token === '"""' && end > 0 && /(^|[^\\])(\\\\)*\\$/.test(text.slice(match.index, end))) end = text.indexOf(token, end + 1);
      const stop = end < 0 ? text.length : end + 3;
      found.push(...Array<boolean>(text.slice(match.index, stop).split('\n').length - 1).fill(false));
      opened.lastIndex = stop;
    } else if (token === '[' || token === '{') depth += 1;
    else if (token === ']' || token === '}') depth = Math.max(0, depth - 1);
    else if (token === '\n') found.push(depth === 0);
  }
  return found;
}

/** The text without the subscription of a name; null if it has none. */
export function removed(text: string, name: string): string | null {
  const lines = text.split('\n');
  const isOutside = outside(text);
  const heads = lines.flatMap((line, at) => (isOutside[at] && /^\s*\[/.test(line) ? [at] : []));
  for (const [nth, from] of heads.entries()) {
    if (!/^\s*\[\[\s*subscription\s*\]\]/.test(lines[from] ?? '')) continue;
    const until = heads[nth + 1] ?? lines.length;
    const named = lines.slice(from, until).some((line, at) => isOutside[from + at] && nameOf(line) === name);
    if (!named) continue;
    // Comments before the next table are about it.
    let end = until;
    while (end > from && /^\s*(#|$)/.test(lines[end - 1] ?? '')) end -= 1;
    // A blank line before it goes with it.
    const start = from > 0 && (lines[from - 1] ?? '').trim() === '' ? from - 1 : from;
    const rest = [...lines.slice(0, start), ...lines.slice(end)];
    return rest.join('\n').replace(/^\n+/, '');
  }
  return null;
}

/** The name in a line `name = "..."`. */
function nameOf(line: string): string | null {
  const match = /^\s*(?:name|"name"|'name')\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*')/.exec(line);
  const value = match?.[1];
  if (!value) return null;
  if (value.startsWith("'")) return value.slice(1, -1);
  try {
    return JSON.parse(value) as string;
  } catch {
    return null; // an escape that only TOML has
  }
}
