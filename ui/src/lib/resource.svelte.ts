// An answer of the API that is loaded again when its URL changes.

import { untrack } from 'svelte';
import { get } from './api';
import { Pending } from './pending.svelte';
import { sensor } from './sensor.svelte';

/** Milliseconds between reloads during a live run: with data, and before the first data. */
const REFRESH = 30_000;
const FIRST = 2000;
/** Milliseconds between reloads of counters. */
const COUNTERS = 5000;

export class Resource<T> extends Pending<T> {
  load(url: string | null): void {
    this.url = url;
    this.begin(url === null ? null : (signal) => get<T>(url, signal));
  }
}

/** For use inside a component: loads whenever `url` changes; null loads nothing. */
export function resource<T>(url: () => string | null): Resource<T> {
  const made = new Resource<T>();
  // Derived, so that a clock that advances without changing the URL loads nothing.
  const next = $derived(url());
  $effect(() => made.load(next));
  $effect(() => () => made.load(null));
  return made;
}

/** Part of the time that is spent on loading an answer again. */
const SHARE = 4;

/** An answer about a range that moves: loaded again with each tick, with pauses that are longer than loading takes. */
export function ticking<T>(url: () => string | null, moves: () => boolean): Resource<T> {
  const made = resource<T>(url);
  let took = 0;
  $effect(() => {
    if (!made.loading) took = Date.now() - untrack(() => made.since);
  });
  $effect(() => {
    if (sensor.tick === null || !moves()) return;
    untrack(() => {
      if (!made.loading && !document.hidden && Date.now() - made.since >= SHARE * took) made.retry();
    });
  });
  return made;
}

/** A list that can grow during a live run: it is reloaded periodically. */
export function growing<T>(url: string, isEmpty: (data: T) => boolean): Resource<T> {
  const made = resource<T>(() => url);
  const wait = $derived(made.data && isEmpty(made.data) ? FIRST : REFRESH);
  $effect(() => {
    if (sensor.live !== 'live') return;
    const each = setInterval(() => {
      if (!document.hidden && !made.loading) made.retry();
    }, wait);
    return () => clearInterval(each);
  });
  return made;
}

/** Counters that change during a live run: loaded again every five seconds. */
export function counting<T>(url: () => string | null): Resource<T> {
  const made = resource<T>(url);
  const isLive = $derived(sensor.status?.mode === 'live');
  $effect(() => {
    if (!isLive) return;
    const each = setInterval(() => {
      if (!document.hidden && !made.loading) made.retry();
    }, COUNTERS);
    return () => clearInterval(each);
  });
  return made;
}
