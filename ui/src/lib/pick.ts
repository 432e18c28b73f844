// A click on a row, a bar or a band includes it in the filter of the page; with Alt it excludes it.

import { exclude, include } from './filter';
import { go, param } from './url.svelte';

export function pick(filter: string, out: boolean): void {
  if (filter === '') return;
  const now = param('filter') ?? '';
  go(null, { filter: out ? exclude(now, filter) : include(now, filter), offset: null });
}

/** Handlers for onclick and onkeydown of an element with an expression. */
export function picks(filter: string): { onclick: (event: MouseEvent) => void; onkeydown: (event: KeyboardEvent) => void } {
  return {
    onclick: (event) => pick(filter, event.altKey),
    onkeydown: (event) => {
      // Alt-Enter does not click a button.
      if (event.key === 'Enter' && event.altKey) {
        event.preventDefault();
        pick(filter, true);
      }
    },
  };
}

export const PICK_HINT = 'Click to include, Alt-click to exclude.';
