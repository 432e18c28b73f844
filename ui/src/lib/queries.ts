// Queries that several panels share.

import { api, type Params } from './api';
import type { Charts, Lists, Protocols, Status } from './types';
import { iso, quote } from './commands';
import type { Range } from './range.svelte';
import { steady } from './series';
import { growing } from './resource.svelte';

/** Points of a chart, unless the URL gives another number. */
export const POINTS = 600;

/** Available top lists, charts and record tables. */
export const queryLists = () => growing<Lists>(api('lists'), (data) => data.lists.length === 0);
export const queryCharts = () => growing<Charts>(api('charts'), (data) => data.charts.every((chart) => chart.lines.length < 2));
export const queryProtocols = () => growing<Protocols>(api('protocols'), (data) => data.tables.every((table) => table.rows === 0));

const neat = (value: number): number => Number(value.toFixed(3));

/** URL of a query over the range; null while the range is not known. */
export function ranged(path: string, range: Range | null, params: Params = {}): string | null {
  return range && api(path, { ...params, from: neat(range.from), to: neat(range.to) });
}

/** The clauses `since` and `until` of a query over the range. */
export function during(range: Range): string {
  return `since ${neat(range.from)} until ${neat(range.to)}`;
}

/** URL of a query in the query language over the range, with the filter of the page; null while the range is not known. */
export function asked(question: string, range: Range | null, filter = ''): string | null {
  if (!range) return null;
  return api('query', { q: `${question} ${during(steady(range))}${filter === '' ? '' : ` where ${filter}`}` });
}

/** The part of the range that is stored, so that a short store is drawn with its own resolution. */
export function stored(range: Range | null, status: Status | null): Range | null {
  if (!range || status?.first === null || status?.first === undefined) return range;
  const from = Math.max(range.from, Math.floor(status.first));
  return from < range.to ? { ...range, from } : range;
}

/** Lists that a filter applies to, with their name in `weir query top`. */
export const GROUPS: Record<string, string> = {
  talkers: 'talker',
  services: 'service',
  sources: 'sender',
  destinations: 'receiver',
  clients: 'client',
  servers: 'server',
  flows: 'flow',
  protocols: 'protocol',
  hosts: 'host',
};

/** The clauses of a range in a query that a person runs later: a range that moves is one before that time. */
function clauses(range: Range, status: Status): string {
  if (range.text === 'all') return '';
  return range.text && status.mode === 'live' ? `since ${range.text}` : `since ${iso(range.from)} until ${iso(range.to)}`;
}

/** The `weir query` command for the events of the range; null without a store. */
export function eventsQuery(limit: number, range: Range | null, status: Status | null, folder: string | null): string | null {
  if (!range || !status || folder === null) return null;
  const query = ['events', clauses(range, status), `limit ${limit}`].filter((part) => part !== '').join(' ');
  return `weir query ${quote(query)} -d ${quote(folder)}`;
}

/** The `weir query` command for flows; null without a store. */
export function flowsQuery(filter: string, range: Range | null, status: Status | null, folder: string | null): string | null {
  if (!range || !status || folder === null) return null;
  const query = ['flows', clauses(range, status), filter === '' ? '' : `where ${filter}`].filter((part) => part !== '').join(' ');
  return `weir query ${quote(query)} -d ${quote(folder)}`;
}

/** The `weir query` command for the rows of a list, such as `weir query 'top sender by bytes since 24h'`. */
export function topQuery(
  list: string,
  by: string,
  limit: number,
  range: Range | null,
  filter: string,
  status: Status | null,
  folder: string | null,
): string | null {
  if (!range || !status || folder === null) return null;
  const time = clauses(range, status);
  const group = GROUPS[list];
  // A name that is more than a word is read up to a quotation mark.
  if (!group && list.includes('"')) return null;
  const what = group ? `top ${group}` : `list ${/\s/.test(list) ? `"${list}"` : list}`;
  const query = [what, `by ${by}`, time, `limit ${limit}`, filter && group ? `where ${filter}` : '']
    .filter((part) => part !== '')
    .join(' ');
  return `weir query ${quote(query)} -d ${quote(folder)}`;
}
