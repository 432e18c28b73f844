// A request in progress. A new request aborts the previous one, whose data stays until the new data arrives.

import { ApiError, faultOf } from './api';

export type Work<T> = (signal: AbortSignal) => Promise<T>;

export class Pending<T> {
  data = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  /** Start of the request, by the browser's clock. */
  since = $state(0);
  /** URL of the request, for copying. */
  url = $state<string | null>(null);
  #abort: AbortController | null = null;
  #work: Work<T> | null = null;

  /** Starts a request; null aborts without a new one. */
  protected begin(work: Work<T> | null): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#work = work;
    this.loading = work !== null;
    if (!work) return;
    const abort = new AbortController();
    this.#abort = abort;
    this.since = Date.now();
    work(abort.signal).then(
      (data) => {
        if (this.#abort === abort) Object.assign(this, { data, error: null, loading: false });
      },
      (error: unknown) => {
        if (this.#abort === abort) this.#fail(faultOf(error));
      },
    );
  }

  retry(): void {
    this.begin(this.#work);
  }

  /** Aborts the request; the server notices the closed connection and stops. */
  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#fail(new ApiError('Stopped before the answer arrived.', 0, 'Try a shorter range or a narrower filter.'));
  }

  #fail(error: ApiError): void {
    this.loading = false;
    this.error = error;
  }
}
