// Questions that several panels put in the same words.

import { api, type Charts, type Lists, type Params, type Protocols, type Status } from './api';
import { quote } from './commands';
import type { Range } from './range.svelte';
import { growing } from './resource.svelte';

/** Points that a chart asks for, unless the address says another number. */
export const POINTS = 600;

/** What there is: top lists, charts, and tables of what was said. */
export const askLists = () => growing<Lists>(api('lists'), (data) => data.lists.length === 0);
export const askCharts = () => growing<Charts>(api('charts'), (data) => data.charts.every((chart) => chart.lines.length < 2));
export const askProtocols = () => growing<Protocols>(api('protocols'), (data) => data.tables.every((table) => table.rows === 0));

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

/** Lists that are made of flows can be narrowed by a filter; each is called so where flows are grouped. */
export const GROUPS: Record<string, string> = {
  talkers: 'talker',
  services: 'service',
  sources: 'src',
  destinations: 'dst',
  flows: 'flow',
  protocols: 'protocol',
};

/** `weir query 'list sources by bytes since 24h'`: the same rows, of the store in that folder. */
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
  const iso = (time: number) => `${new Date(time * 1000).toISOString().slice(0, 19)}Z`;
  const time =
    range.text === 'all'
      ? ''
      : range.text && status.mode === 'live'
        ? `since ${range.text}`
        : `since ${iso(Math.floor(range.from))} until ${iso(Math.ceil(range.to))}`;
  const group = GROUPS[list];
  const what = filter && group ? `top ${group}` : `list ${list}`;
  const query = [what, `by ${by}`, time, `limit ${limit}`, filter && group ? `where ${filter}` : '']
    .filter((part) => part !== '')
    .join(' ');
  return `weir query ${quote(query)} -d ${quote(folder)}`;
}
