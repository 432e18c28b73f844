// Questions that several panels put in the same words.

import { api, type Params, type Status } from './api';
import type { Range } from './range.svelte';

/** Points that a chart asks for, unless the address says another number. */
export const POINTS = 600;

const neat = (value: number): number => Number(value.toFixed(3));

/** Null while the range is not known: then nothing is asked. */
export function ranged(path: string, range: Range | null, params: Params = {}): string | null {
  return range && api(path, { ...params, from: neat(range.from), to: neat(range.to) });
}

/** Of the range what is stored: a store of five minutes has no hour, and is not asked for the steps of one. */
export function stored(range: Range | null, status: Status | null): Range | null {
  if (!range || status?.first === null || status?.first === undefined) return range;
  const from = Math.max(range.from, Math.floor(status.first));
  return from < range.to ? { ...range, from } : range;
}

/** `top src by bytes since 24h where ...`, for lists that the query language has a word for. */
export function topQuery(word: string | undefined, by: string, range: Range | null, filter: string, status: Status | null): string | null {
  if (!word || !range || !status) return null;
  const since = range.text && range.text !== 'all' && status.mode === 'live' ? `since ${range.text}` : range.text === 'all' ? '' : `from ${neat(range.from)} to ${neat(range.to)}`;
  const query = ['top', word, 'by', by, since, filter ? `where ${filter}` : ''].filter((part) => part !== '').join(' ');
  return `weir query '${query.replaceAll("'", `'\\''`)}'`;
}
