// Where an answer is that a panel does not have: other times, or another panel.

import type { Elsewhere } from '../parts/Panel.svelte';
import type { Range } from './range.svelte';
import { spanPatch } from './range.svelte';
import type { Lists, Status } from './types';
import { between } from './time';
import { href } from './url.svelte';

/** Of a range outside of what is stored: when there is data. */
export function storedTime(range: Range | null, status: Status | null, zone: string): Elsewhere | null {
  const { first = null, last = null } = status ?? {};
  if (!range || first === null || last === null || (range.from <= last && range.to > first)) return null;
  return { text: `Data is stored of ${between(first, last, zone)}`, link: 'Show all of it', href: href(null, spanPatch('all')) };
}

/** The panel of a list, if it is stored. */
export function listPanel(lists: Lists | null, name: string, text: string, link: string): Elsewhere | null {
  const isThere = lists?.tables.some((table) => table.name === name || table.name.startsWith(`${name} `)) ?? false;
  return isThere ? { text, link, href: `${href('/lists')}#subscription-${name}-title` } : null;
}
