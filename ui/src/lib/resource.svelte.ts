// An answer of the sensor that follows an address: asked for anew when the address changes.

import { get } from './api';
import { Pending } from './pending.svelte';

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
