// The time range of the page. In the URL it is either `range=24h`, which moves with the sensor's clock, or `from=` and
// `to=` in epoch seconds, which are fixed; `range=all` covers all stored data. The default is the last hour, or what is
// stored of it, for a live run, and all of a capture.
//
// Sums are stored by cells, such as intervals. The store moves a range outwards to its cells, and the pages show the moved range: every
// answer of a page is of it.

import { go, param, type Patch } from './url.svelte';
import { parseSpan } from './time';
import { api, get } from './api';
import type { Basis } from './types';
import { sensor, sensorNow } from './sensor.svelte';

export interface Range {
  from: number;
  to: number;
  text: string | null;
  moving: boolean;
}

export const SPANS: [string, string][] = [
  ['15m', '15 min'],
  ['1h', 'hour'],
  ['24h', 'day'],
  ['7d', 'week'],
  ['31d', 'month'],
  ['365d', 'year'],
];

/** Milliseconds for which the panels wait for the range. */
const PATIENCE = 1500;

/** Advances while a range moves, so that dependent queries are reloaded. */
const tick = $state({ now: 0 });

/** Seconds between updates of a moving range: the resolution of its chart, but not below the sensor's interval. */
function pace(span: number): number {
  return Math.max(sensor.status?.interval ?? 1, 2, span / 300);
}

function number(name: string): number | null {
  const text = param(name);
  const value = text === null ? NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}

/** The default range of a live run that has less than an hour of data. */
function started(stored: number): number {
  return Math.min(3600, Math.max(60, Math.ceil(stored / 15) * 15));
}

/** The range that was asked for last, and what the store made of it; null before the first answer. */
const moved = $state<{ of: Range | null; basis: Basis | null }>({ of: null, basis: null });

/** Whether two ranges are the same selection: equal, or moving over an equal span. */
function alike(a: Range, b: Range): boolean {
  return (a.from === b.from && a.to === b.to) || (a.moving && b.moving && a.text === b.text);
}

/** The range of the page; null until the status is known, and until the store has moved the first range to its cells. */
export function range(): Range | null {
  const now = wanted();
  if (!now || !moved.of) return null;
  // Until the answer is there, the page stays as it is.
  const of = alike(now, moved.of) ? now : moved.of;
  if (!moved.basis) return of;
  const [from, to] = moved.basis.range;
  return { ...of, from, to };
}

/** Whether the answers of the range are computed from flows, because only cells are stored that are much longer than it. */
export const ofFlows = (): boolean => moved.basis?.source === 'flows';

/** Asks the store for the cells of the range, whenever another range is wanted. A component calls it. */
export function followRange(): void {
  const key = $derived.by(() => {
    const now = wanted();
    return now && JSON.stringify(now);
  });
  $effect(() => {
    if (key === null) return;
    const now = JSON.parse(key) as Range;
    const abort = new AbortController();
    // A slow answer holds up no panel.
    const patience = setTimeout(() => Object.assign(moved, { of: now, basis: null }), PATIENCE);
    void get<Basis>(api('range', { from: neat(now.from), to: neat(now.to) }), abort.signal)
      // The panels report what is wrong with the store.
      .catch(() => null)
      .then((basis) => {
        clearTimeout(patience);
        if (!abort.signal.aborted) Object.assign(moved, { of: now, basis });
      });
    return () => {
      clearTimeout(patience);
      abort.abort();
    };
  });
}

const neat = (value: number): number => Number(value.toFixed(3));

/** The range that the page asks for; null until the status is known. */
function wanted(): Range | null {
  const status = sensor.status;
  if (!status) return null;
  const live = status.mode === 'live';
  const from = number('from');
  const to = number('to');
  if (from !== null && to !== null && to > from) return { from, to, text: null, moving: false };
  // The end of a range is excluded, so that it lies after the last packet.
  const end = live ? Math.max(tick.now, status.now) : Math.floor(status.last ?? status.now) + 1;
  const begin = status.first ?? end - 1;
  const given = param('range');
  const fresh = given === null && live ? started(end - begin) : 3600;
  const text = given ?? (live ? '1h' : 'all');
  const span = fresh < 3600 ? fresh : parseSpan(text);
  if (span === null) {
    const whole = pace(end - begin);
    const last = live ? Math.max(Math.floor(end / whole) * whole, Math.floor(begin) + 1) : end;
    return { from: Math.min(Math.floor(begin), last - 1), to: last, text: 'all', moving: live };
  }
  const step = pace(span);
  const stop = live ? Math.floor(end / step) * step : end;
  if (fresh < 3600) return { from: Math.max(stop - span, Math.min(Math.floor(begin), stop - 15)), to: stop, text: null, moving: true };
  return { from: Math.max(0, stop - span), to: stop, text, moving: live };
}

export function setRange(from: number, to: number): void {
  // Times before the epoch are not valid.
  const [low, high] = (from < to ? [from, to] : [to, from]).map((time) => Math.max(0, time)) as [number, number];
  const fine = high - low < 30;
  const round = (value: number) => (fine ? neat(value) : Math.round(value));
  if (round(high) <= round(low)) return;
  go(null, { range: null, from: round(low), to: round(high), offset: null });
}

export function setSpan(text: string): void {
  go(null, spanPatch(text));
}

export function spanPatch(text: string): Patch {
  return { range: text, from: null, to: null, offset: null };
}

/** Moves the range by half of its length, as it was asked for: the moved one would grow with each step. */
export function shift(direction: -1 | 1): void {
  const now = wanted();
  if (!now) return;
  const by = ((now.to - now.from) / 2) * direction;
  setRange(now.from + by, now.to + by);
}

/** Scales the range about its middle; a moving range keeps its end. */
export function zoom(factor: number): void {
  const now = wanted();
  if (!now) return;
  const middle = (now.from + now.to) / 2;
  const half = ((now.to - now.from) / 2) * factor;
  if (now.moving) setRange(now.to - half * 2, now.to);
  else setRange(middle - half, middle + half);
}

export function startClock(): () => void {
  const each = setInterval(() => {
    if (document.hidden || sensor.status?.mode !== 'live' || sensor.live === 'ended') return;
    const now = sensorNow();
    const span = param('range') === null ? started(now - (sensor.status.first ?? now)) : (parseSpan(param('range') ?? '') ?? 3600);
    // Only when the end of the range moves, since every panel reloads then.
    const step = pace(span);
    if (Math.floor(now / step) !== Math.floor(tick.now / step)) tick.now = now;
  }, 500);
  return () => clearInterval(each);
}
