// An answer of the sensor that follows an address: asked for anew when the address changes.

import { get } from './api';
import { Pending } from './pending.svelte';
import { sensor } from './sensor.svelte';

/** Of a link there is more as time passes: this often it is asked what there is, and before there is anything. */
const GROWS = 30_000;
const BEGINS = 2000;

export class Resource<T> extends Pending<T> {
  ask(url: string | null): void {
    this.url = url;
    this.begin(url === null ? null : (signal) => get<T>(url, signal));
  }
}

/** Inside a component: asks whenever `url` comes to another address; null asks nothing. */
export function resource<T>(url: () => string | null): Resource<T> {
  const made = new Resource<T>();
  // Derived, so that a clock that moves without changing the address asks nothing.
  const next = $derived(url());
  $effect(() => made.ask(next));
  $effect(() => () => made.ask(null));
  return made;
}

/** What there is to be asked for. A run that has only begun has nothing yet, and of a link there can be more later. */
export function growing<T>(url: string, isEmpty: (data: T) => boolean): Resource<T> {
  const made = resource<T>(() => url);
  const wait = $derived(made.data && isEmpty(made.data) ? BEGINS : GROWS);
  $effect(() => {
    if (sensor.live !== 'live') return;
    const each = setInterval(() => {
      if (!document.hidden && !made.loading) made.again();
    }, wait);
    return () => clearInterval(each);
  });
  return made;
}
