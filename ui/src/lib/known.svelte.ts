// What completion offers: fields and words, loaded once; hosts, services and values of the range of the page, when they are wanted.

import { api, get } from './api';
import type { Answered, ExpressionWords, Narrowed } from './types';
import type { Host, Place } from './complete';
import { operand } from './fieldtest';
import { asked, ranged } from './queries';
import type { Range } from './range.svelte';

/** Hosts and services that are offered at most. */
const HOSTS = 300;
/** Values of a field. */
const VALUES = 12;

export const known = $state<{ words: ExpressionWords | null; hosts: Host[]; services: Host[] }>({ words: null, hosts: [], services: [] });

let of = '';
let loading = false;

/** Loads fields and words once, and the hosts and services of another range. */
export async function loadKnown(range: Range | null): Promise<void> {
  if (!known.words && !loading) {
    loading = true;
    try {
      known.words = await get<ExpressionWords>(api('fields'));
    } catch {
      // Without them there is no completion, and the next focus tries again.
    }
    loading = false;
  }
  const hosts = ranged('top', range, { list: 'hosts', limit: HOSTS });
  const services = ranged('top', range, { list: 'services', limit: HOSTS });
  if (!hosts || !services || of === hosts) return;
  of = hosts;
  const [first, second] = await Promise.allSettled([get<Narrowed>(hosts), get<Narrowed>(services)]);
  const rows = (answer: PromiseSettledResult<Narrowed>) =>
    answer.status === 'fulfilled' ? answer.value.rows.map(({ label, name }) => ({ label, name })) : [];
  known.hosts = rows(first);
  known.services = rows(second);
}

/** The most frequent values of a field that contain a text. */
export async function valuesOf(
  field: NonNullable<Place['field']>,
  typed: string,
  range: Range | null,
  signal: AbortSignal,
): Promise<{ value: unknown; count: number }[]> {
  const name = `${field.table}.${field.name}`;
  const part = field.kind === 'text' && typed !== '' ? `${name} contains ${operand(typed)}` : '';
  const url = asked(`count ${field.table === 'flow' ? 'flows' : field.table} by ${name} limit ${VALUES}`, range, part);
  if (!url) return [];
  const answer = await get<Answered>(url, signal);
  const count = answer.columns.findIndex((column) => column.unit === 'records' || column.unit === 'flows');
  return answer.rows.filter((row) => row[0] !== null && row[0] !== '').map((row) => ({ value: row[0], count: Number(row[count] ?? 0) }));
}
