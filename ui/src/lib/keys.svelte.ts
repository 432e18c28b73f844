// Keyboard shortcuts. They are off while text is typed, and none overrides a key of the browser.

import { nextTheme, nextZone } from './prefs.svelte';
import { PAGES } from './pages';
import { setSpan, shift, zoom } from './range.svelte';
import { go } from './url.svelte';

export const keys = $state({ help: false, pending: false });

export const HELP: [string, string][] = [
  ['?', 'show this help'],
  ['/', 'go to the filter'],
  ['j  k', 'next, previous row or bar'],
  ['Enter', 'on a row: open it, or include it in the filter'],
  ['Alt Enter', 'on a row: exclude it (like Alt-click)'],
  ['[  ]', 'earlier, later by half the range'],
  ['+  −', 'zoom in, zoom out'],
  ['0', 'default range'],
  ['1 … 6', '15 minutes, hour, day, week, month, year'],
  ['← →', 'in a chart: move the cursor; with Shift: select, then Enter sets the range'],
  ['z', 'time zone: sensor, UTC, browser'],
  ['T', 'theme: system, light, dark, high contrast'],
  ['Esc', 'close, or leave a field'],
];

const NUMBERS = ['15m', '1h', '24h', '7d', '31d', '365d'];

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Moves the focus between rows in document order, starting with the first visible one. */
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')].filter((row) => row.getClientRects().length > 0);
  const at = rows.findIndex((row) => row === document.activeElement);
  const next = at < 0 ? rows.find((row) => row.getBoundingClientRect().top >= 0) : rows[at + by];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

const ACTIONS: Record<string, () => void> = {
  '?': () => {
    keys.help = !keys.help;
  },
  '/': () => document.querySelector<HTMLElement>('#filter')?.focus(),
  j: () => step(1),
  k: () => step(-1),
  '[': () => shift(-1),
  ']': () => shift(1),
  '+': () => zoom(0.5),
  '=': () => zoom(0.5),
  '-': () => zoom(2),
  '0': () => go(null, { range: null, from: null, to: null, offset: null }),
  z: nextZone,
  T: nextTheme,
};
NUMBERS.forEach((span, at) => {
  ACTIONS[String(at + 1)] = () => setSpan(span);
});

let waiting: ReturnType<typeof setTimeout> | undefined;

export function keydown(event: KeyboardEvent): void {
  if (event.key === 'Escape') {
    keys.help = false;
    if (typing(event.target)) (event.target as HTMLElement).blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || event.defaultPrevented) return;
  if (keys.pending) {
    keys.pending = false;
    const page = PAGES.find((each) => each.key === event.key);
    if (page) {
      event.preventDefault();
      keys.help = false;
      go(page.path);
    }
    return;
  }
  if (event.key === 'g') {
    keys.pending = true;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      keys.pending = false;
    }, 1500);
    return;
  }
  const action = ACTIONS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
}
