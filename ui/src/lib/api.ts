// The HTTP API of Weir, version 1: the functions that call it. Its types are in types.ts.
//
// Times are seconds since the epoch (fractions allowed), rates are per second. Strings may hold anything that came
// from a packet: they are text, never markup. `partial` explains what a limit left out.

export type Params = Record<string, string | number | null | undefined>;

/** A URL under /api/v1; empty and null parameters are left out. */
export function api(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(key, String(value));
  }
  const text = query.toString();
  return `/api/v1/${path}${text ? `?${text}` : ''}`;
}

/** An error of the API or of the connection to it. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly help: string | null = null,
    readonly offset: number | null = null,
    readonly length: number | null = null,
  ) {
    super(message);
  }
}

/** What was thrown, as an error of the API. */
export const faultOf = (error: unknown): ApiError => (error instanceof ApiError ? error : new ApiError(String(error), 0));

async function failure(answer: Response): Promise<ApiError> {
  let body: { error?: unknown; help?: unknown; offset?: unknown; length?: unknown } = {};
  try {
    body = await answer.json();
  } catch {
    // Not JSON: only the status line is known.
  }
  const text = typeof body.error === 'string' ? body.error : `The sensor answered ${answer.status} ${answer.statusText}.`;
  const help = typeof body.help === 'string' ? body.help : answer.status === 401 ? 'Reload the page to sign in.' : null;
  const number = (value: unknown) => (typeof value === 'number' ? value : null);
  return new ApiError(text, answer.status, help, number(body.offset), number(body.length));
}

async function request<T>(url: string, init: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(url, { ...init, headers: { accept: 'application/json', ...init.headers } });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError('The sensor does not answer.', 0, 'Check that weir is running and reachable, then retry.');
  }
  if (!answer.ok) throw await failure(answer);
  if (answer.status === 204) return undefined as T;
  try {
    return (await answer.json()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError('Invalid answer: not JSON, or truncated.', answer.status);
  }
}

export function get<T>(url: string, signal?: AbortSignal): Promise<T> {
  return request<T>(url, { signal: signal ?? null });
}

export function remove<T>(url: string): Promise<T> {
  return request<T>(url, { method: 'DELETE' });
}

export function post<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return request<T>(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
    signal: signal ?? null,
  });
}
