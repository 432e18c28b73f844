// An answer of the sensor that follows an address: asked for anew when the address changes, the older question given up,
// the older answer shown until the newer is here.

import { ApiError, get } from './api';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  /** When the pending question was asked, by the browser's clock. */
  since = $state(0);
  url = $state<string | null>(null);
  #abort: AbortController | null = null;

  async ask(url: string | null): Promise<void> {
    this.#abort?.abort();
    this.url = url;
    if (url === null) {
      this.loading = false;
      return;
    }
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    this.since = Date.now();
    try {
      const data = await get<T>(url, abort.signal);
      if (this.#abort !== abort) return;
      this.data = data;
      this.error = null;
      this.loading = false;
    } catch (error) {
      if (this.#abort !== abort) return;
      this.loading = false;
      this.error = error instanceof ApiError ? error : new ApiError(String(error), 0);
    }
  }

  again(): void {
    void this.ask(this.url);
  }

  /** A question that takes too long is given up by the reader; the sensor sees the closed connection and stops. */
  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.loading = false;
    this.error = new ApiError('Stopped before the answer came.', 0, 'A shorter range or a narrower filter is answered faster.');
  }
}

/** Inside a component: asks whenever `url` comes to another address; null asks nothing. */
export function resource<T>(url: () => string | null): Resource<T> {
  const made = new Resource<T>();
  // Derived, so that a clock that moves without changing the address asks nothing.
  const next = $derived(url());
  $effect(() => { void made.ask(next); });
  $effect(() => () => { void made.ask(null); });
  return made;
}
