// Every key of the page. They are quiet while something is being typed, and none takes a key of the browser's own.

import { nextTheme, nextZone } from './prefs.svelte';
import { PAGES } from './pages';
import { setSpan, shift, zoom } from './range.svelte';
import { go } from './url.svelte';

export const keys = $state({ help: false, pending: false });

export const HELP: [string, string][] = [
  ['?', 'this list'],
  ['/', 'the filter'],
  ['j  k', 'next and previous row, bar or band'],
  ['Enter', 'on a row: open it, or include it in the filter'],
  ['Alt Enter', 'on a row: exclude it (as Alt-click does)'],
  ['[  ]', 'earlier, later by half the range'],
  ['+  −', 'half the range, twice the range'],
  ['0', 'the default range'],
  ['1 … 6', '15 minutes, hour, day, week, month, year'],
  ['← →', 'in a chart: move the cursor; with Shift select, then Enter takes the time'],
  ['z', 'time zone: of the sensor, UTC, of this browser'],
  ['T', 'theme: of the system, light, dark, high contrast'],
  ['Esc', 'close, or leave a field'],
];

const NUMBERS = ['15m', '1h', '24h', '7d', '31d', '365d'];

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Rows are in the order of the document; the first step goes to the first one in sight. */
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
