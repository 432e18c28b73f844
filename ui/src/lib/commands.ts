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

/** A path as a word that is neither an option nor the name of a command. */
function path(name: string): string {
  return quote(name.startsWith('-') || !/[/.]/.test(name) ? `./${name}` : name);
}

/** The times of a range within those of the run; empty for a run over whole files and all of its packets. */
function times(status: Status, range: Range | null): string {
  const part = status.mode === 'file' && range && range.text !== 'all' ? range : null;
  const { since, until } = status;
  const from = part && (since === null || part.from * 1000 > Date.parse(since)) ? iso(part.from) : since;
  const to = part && (until === null || part.to * 1000 < Date.parse(until)) ? iso(part.to) : until;
  return [from === null ? '' : `--since ${quote(from)}`, to === null ? '' : `--until ${quote(to)}`].join(' ').trim();
}

/** The weir command for the packets of a filter: of the analysed file, within the range if that is a part of it, or of the link from
 *  now on. It has the options of the run that decide which packets these are. */
export function weir(status: Status | null, filter: string, rest = '', range: Range | null = null): string | null {
  if (!status || status.source.length === 0 || status.options === null || status.mode === 'store') return null;
  const from = status.source.map((name) => (status.mode === 'live' ? `-i ${quote(name)}` : path(name))).join(' ');
  const whole = status.expression && filter ? `(${status.expression}) and (${filter})` : status.expression || filter;
  const options = status.options.map(quote).join(' ');
  return ['weir', from, whole ? quote(whole) : '', times(status, range), options, rest].filter((part) => part !== '').join(' ');
}

/** Routes whose answers can be had as CSV and NDJSON. */
const TABLES = /^\/api\/v1\/(alerts|distinct|events|findings|flows|new|query|records\/[^/]+|series\/data|top)$/;
/** The most rows of a table of flows or records, of a list or of events, and of a query, whose answer shares its memory with them. */
const ROWS = 100_000;
const LIST = 10_000;
const QUERY = 1000;

/** The URL of an answer as a table with all of its rows; null where it is none. */
export function asTable(url: string, format: 'csv' | 'ndjson'): string | null {
  const found = new URL(url, 'http://weir');
  if (!TABLES.test(found.pathname)) return null;
  const query = found.searchParams;
  if (/\/(flows|records\/[^/]+)$/.test(found.pathname)) query.set('limit', String(ROWS));
  else if (/\/(top|events)$/.test(found.pathname)) query.set('limit', String(LIST));
  const question = query.get('q');
  // Over time, the limit is the number of columns.
  if (question !== null && !/ points \d/.test(question)) query.set('q', question.replace(/ limit \d+/, ` limit ${QUERY}`));
  query.delete('offset');
  query.set('format', format);
  return found.pathname + found.search;
}
