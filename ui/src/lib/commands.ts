// Command lines that produce the data of a view.

import type { Status } from './types';
import type { Range } from './range.svelte';

/** The last part of a path. */
export function short(source: string): string {
  return (
    source
      .split('/')
      .filter((part) => part !== '')
      .at(-1) ?? source
  );
}

/** Quoted for a POSIX shell. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function curl(url: string): string {
  return `curl -s ${quote(new URL(url, location.origin).href)}`;
}

/** A time in UTC for a command line, with milliseconds where it has them. */
export function iso(time: number): string {
  return new Date(Math.round(time * 1000)).toISOString().replace('.000Z', 'Z');
}

/** The weir command for the packets of a filter: of the analysed file, within the range if that is a part of it, or of the link from
 *  now on. */
export function weir(status: Status | null, filter: string, rest = '', range: Range | null = null): string | null {
  const source = status?.source[0];
  if (!status || source === undefined || status.mode === 'store') return null;
  const from = status.mode === 'live' ? status.source.map((name) => `-i ${quote(name)}`).join(' ') : status.source.map(quote).join(' ');
  const whole = status.expression && filter ? `(${status.expression}) and (${filter})` : status.expression || filter;
  const part =
    status.mode === 'file' && range && range.text !== 'all' ? `--since ${quote(iso(range.from))} --until ${quote(iso(range.to))}` : '';
  return ['weir', from, whole ? quote(whole) : '', part, rest].filter((part) => part !== '').join(' ');
}

/** Routes whose answers can be had as CSV and NDJSON. */
const TABLES = /^\/api\/v1\/(distinct|events|findings|flows|new|query|records\/[^/]+|series\/data|top)$/;
/** The most rows of a table of flows or records, and of a list. */
const ROWS = 100_000;
const LIST = 10_000;

/** The URL of an answer as a table with all of its rows; null where it is none. */
export function asTable(url: string, format: 'csv' | 'ndjson'): string | null {
  const found = new URL(url, 'http://weir');
  if (!TABLES.test(found.pathname)) return null;
  const query = found.searchParams;
  if (/\/(flows|records\/[^/]+)$/.test(found.pathname)) query.set('limit', String(ROWS));
  else if (found.pathname.endsWith('/top')) query.set('limit', String(LIST));
  query.delete('offset');
  query.set('format', format);
  return found.pathname + found.search;
}
