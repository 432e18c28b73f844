// What a click on a row, a bar or a band does: include it in the filter of the page, with Alt exclude it.

import { exclude, include } from './filter';
import { go, param } from './url.svelte';

export function pick(filter: string, out: boolean): void {
  if (filter === '') return;
  const now = param('filter') ?? '';
  go(null, { filter: out ? exclude(now, filter) : include(now, filter), offset: null });
}

/** For onclick and onkeydown of anything that stands for an expression. */
export function picks(filter: string): { onclick: (event: MouseEvent) => void; onkeydown: (event: KeyboardEvent) => void } {
  return {
    onclick: (event) => pick(filter, event.altKey),
    onkeydown: (event) => {
      // A button is clicked by Enter only without Alt.
      if (event.key === 'Enter' && event.altKey) {
        event.preventDefault();
        pick(filter, true);
      }
    },
  };
}

export const PICK_HINT = 'Click: only this. Alt-click: all but this.';
