// A question that is being answered: an older one is given up for a newer, its answer is shown until the newer is here.

import { ApiError } from './api';

export type Work<T> = (signal: AbortSignal) => Promise<T>;

export class Pending<T> {
  data = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  /** When the pending question was asked, by the browser's clock. */
  since = $state(0);
  /** What is asked, to be copied. */
  url = $state<string | null>(null);
  #abort: AbortController | null = null;
  #work: Work<T> | null = null;

  /** Null asks nothing any more. */
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
        if (this.#abort === abort) this.#fail(error instanceof ApiError ? error : new ApiError(String(error), 0));
      },
    );
  }

  again(): void {
    this.begin(this.#work);
  }

  /** A question that takes too long is given up by the reader; the sensor sees the closed connection and stops. */
  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#fail(new ApiError('Stopped before the answer came.', 0, 'A shorter range or a narrower filter is answered faster.'));
  }

  #fail(error: ApiError): void {
    this.loading = false;
    this.error = error;
  }
}
