// The sensor: its status, and its event stream during a live run.

import { api, type ApiError, faultOf, get } from './api';
import type { Sensor, Status, Tick } from './types';
import { prefs } from './prefs.svelte';

/** off: no live run. lost: the stream broke, and is retried. ended: the capture has ended. */
export type LiveState = 'off' | 'connecting' | 'live' | 'lost' | 'ended';

/** Seconds of ticks kept for the chart "Now". */
const KEPT = 180;
/** Milliseconds without a message after which a stream is lost. */
const SILENCE = 6000;

export const sensor = $state<{
  status: Status | null;
  error: ApiError | null;
  live: LiveState;
  retryIn: number;
  tick: Tick | null;
  ticks: Tick[];
  /** Directory of the store, after `loadFolder`. */
  folder: string | null;
}>({ folder: null, status: null, error: null, live: 'off', retryIn: 0, tick: null, ticks: [] });

/** Seconds that the sensor's clock is ahead of the browser's. */
let skew = 0;
let stream: EventSource | null = null;
let failures = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let watchdog: ReturnType<typeof setTimeout> | undefined;

/** Current time of the sensor. */
export function sensorNow(): number {
  return Date.now() / 1000 + skew;
}

/** Text for missing data: the first interval of a run may not be over. */
export function nothing(otherwise: string): string {
  const { status } = sensor;
  if (!status || sensor.live !== 'live' || sensorNow() - status.started > status.interval + 2) return otherwise;
  return `No data yet: the first interval ends ${Math.ceil(status.interval)} s after the start.`;
}

export function zone(): string {
  if (prefs.zone === 'utc') return 'UTC';
  if (prefs.zone === 'browser') return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
  return supported(sensor.status?.zone);
}

/** Loads the directory of the store, for commands that read it. */
export async function loadFolder(): Promise<void> {
  if (sensor.folder !== null) return;
  try {
    sensor.folder = (await get<Sensor>(api('sensor'))).store?.path ?? null;
  } catch {
    sensor.folder = null; // there is curl
  }
}

/** Watched seconds of each step of a chart; counts refer to whole steps. */
export function weights(times: number[], step: number, counts: boolean, widths?: number[]): number[] {
  return times.map((_, at) => (counts ? step : (widths?.[at] ?? step)));
}

/** The zone, or UTC when the browser does not support it. */
function supported(name: string | undefined): string {
  if (!name) return 'UTC';
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return name;
  } catch {
    return 'UTC';
  }
}

export async function loadStatus(): Promise<void> {
  try {
    const status = await get<Status>(api('status'));
    sensor.status = status;
    sensor.error = null;
    skew = status.now - Date.now() / 1000;
    if (status.mode === 'live' && !stream && sensor.live !== 'ended') connect();
  } catch (error) {
    sensor.error = faultOf(error);
  }
}

function connect(): void {
  clearTimeout(timer);
  stream?.close();
  sensor.live = 'connecting';
  const source = new EventSource(api('live'));
  stream = source;
  source.addEventListener('tick', (event: MessageEvent<string>) => {
    let tick: Tick;
    try {
      tick = JSON.parse(event.data) as Tick;
    } catch {
      return; // truncated; the next tick follows
    }
    failures = 0;
    sensor.live = 'live';
    sensor.tick = tick;
    sensor.ticks = [...sensor.ticks.filter((old) => old.time > tick.time - KEPT && old.time < tick.time), tick];
    if (Math.abs(tick.time - sensorNow()) > 30) skew = tick.time - Date.now() / 1000;
    watch();
  });
  source.addEventListener('end', () => {
    sensor.live = 'ended';
    close();
    void loadStatus();
  });
  source.addEventListener('error', () => lost());
  watch();
}

function watch(): void {
  clearTimeout(watchdog);
  watchdog = setTimeout(lost, SILENCE);
}

function close(): void {
  clearTimeout(watchdog);
  stream?.close();
  stream = null;
}

/** Reconnects after 1, 2, 4 ... 30 seconds; the browser's own reconnecting does not expose its state. */
function lost(): void {
  close();
  if (sensor.live === 'ended') return;
  sensor.live = 'lost';
  const wait = Math.min(30, 2 ** failures);
  failures += 1;
  sensor.retryIn = wait;
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (!document.hidden)
      void loadStatus().then(() => {
        if (!stream && sensor.status?.mode === 'live') connect();
      });
  }, wait * 1000);
}

export function reconnect(): void {
  failures = 0;
  void loadStatus().then(() => {
    if (sensor.status?.mode === 'live') connect();
  });
}

/** A hidden tab closes the stream. */
function visibility(): void {
  if (sensor.status?.mode !== 'live' || sensor.live === 'ended') return;
  if (document.hidden) {
    clearTimeout(timer);
    close();
    sensor.live = 'off';
  } else if (!stream) reconnect();
}

export function start(): () => void {
  void loadStatus();
  document.addEventListener('visibilitychange', visibility);
  // The stored data grows: the range "all" and the state of the store depend on the status.
  const each = setInterval(() => {
    if (!document.hidden) void loadStatus();
  }, 30_000);
  return () => {
    document.removeEventListener('visibilitychange', visibility);
    clearInterval(each);
    clearTimeout(timer);
    close();
  };
}
