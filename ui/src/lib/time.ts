// Formatting of times in a time zone, and of durations. No function reads the clock.

/** Cached, since creating one is slow. */
const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string): Intl.DateTimeFormat {
  let made = formats.get(zone);
  if (!made) {
    made = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(zone, made);
  }
  return made;
}

/** The offset of `zone` at an instant, in seconds east of UTC. */
export function offsetAt(seconds: number, zone: string): number {
  const parts = format(zone).formatToParts(seconds * 1000);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value ?? 0);
  const local = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second')) / 1000;
  return Math.round((local - Math.floor(seconds)) / 60) * 60;
}

export interface Clock {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  weekday: number;
}

/** Date and time of day in `zone`. */
export function wall(seconds: number, zone: string): Clock {
  const date = new Date((seconds + (zone === 'UTC' ? 0 : offsetAt(seconds, zone))) * 1000);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    hour: date.getUTCHours(),
    minute: date.getUTCMinutes(),
    second: date.getUTCSeconds(),
    weekday: date.getUTCDay(),
  };
}

const two = (value: number): string => String(value).padStart(2, '0');

export function date(seconds: number, zone: string): string {
  const at = wall(seconds, zone);
  return `${at.year}-${two(at.month)}-${two(at.day)}`;
}

/** `fraction`: digits after the second; negative: minutes only. */
export function hours(seconds: number, zone: string, fraction = 0): string {
  const at = wall(seconds, zone);
  const text = `${two(at.hour)}:${two(at.minute)}`;
  if (fraction < 0) return text;
  const part = fraction > 0 ? (seconds - Math.floor(seconds)).toFixed(fraction) : '';
  // 0.9996 rounds to 1.000: truncated, since the second is already printed.
  return `${text}:${two(at.second)}${part.startsWith('1') ? `.${'9'.repeat(fraction)}` : part.slice(1)}`;
}

export function stamp(seconds: number, zone: string, fraction = 0): string {
  return `${date(seconds, zone)} ${hours(seconds, zone, fraction)}`;
}

/** "UTC", or "Europe/Berlin, UTC+01:00": the offset at that instant, since it changes twice a year. */
export function zoneLabel(zone: string, seconds: number): string {
  if (zone === 'UTC' || zone === 'Etc/UTC') return 'UTC';
  const minutes = Math.round(offsetAt(seconds, zone) / 60);
  const size = Math.abs(minutes);
  return `${zone}, UTC${minutes < 0 ? '−' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** A range as text, with one date when it lies within a day. */
export function between(from: number, to: number, zone: string): string {
  const fraction = to - from < 10 ? 3 : 0;
  const end = date(from, zone) === date(to, zone) ? hours(to, zone, fraction) : stamp(to, zone, fraction);
  return `${stamp(from, zone, fraction)} – ${end}`;
}

const SPANS: [number, string][] = [
  [31_536_000, 'year'],
  [604_800, 'week'],
  [86_400, 'day'],
  [3600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
];

/** 5400 → "90 minutes", 86400 → "1 day": the largest unit that is whole, or nearly. */
export function span(seconds: number): string {
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  for (const [size, word] of SPANS) {
    const count = seconds / size;
    if (count >= 0.99 && count < 119.5 && Math.abs(count - Math.round(count)) < 0.02)
      return `${Math.round(count)} ${word}${Math.round(count) === 1 ? '' : 's'}`;
  }
  const [size, word] = SPANS.find(([each]) => seconds >= each * 2) ?? [1, 'second'];
  return `${(seconds / size).toFixed(1)} ${word}s`;
}

/** "46.4 s", "3.1 min": for columns. */
export function brief(seconds: number): string {
  if (seconds === 0) return '0 s';
  if (seconds > 0 && seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  const [size, word] = seconds < 120 ? [1, 's'] : seconds < 7200 ? [60, 'min'] : seconds < 172_800 ? [3600, 'h'] : [86_400, 'd'];
  return `${(seconds / size).toFixed(1)} ${word}`;
}

/** A duration after "last" or "previous": without the number 1, with a short unit for seconds. */
export function lately(seconds: number): string {
  if (seconds >= 1 && seconds < 119.5) return `${Number(seconds.toFixed(1))} s`;
  return span(seconds).replace(/^1 /, '');
}

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800, y: 31_536_000 };

/** "24h" → 86400; null for what is not a span. */
export function parseSpan(text: string): number | null {
  const match = /^(\d{1,6})([smhdwy])$/.exec(text);
  return match ? Number(match[1]) * (UNITS[match[2] ?? ''] ?? 1) : null;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
export const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** Axis labels of marks `step` seconds apart: the date at the start of a day, else the time of day. */
export function labels(marks: number[], step: number, zone: string): string[] {
  let day = '';
  return marks.map((mark) => {
    const at = wall(mark, zone);
    const today = `${at.day} ${MONTHS[at.month - 1] ?? ''}`;
    if (step >= 86_400 * 28) return at.month === 1 ? String(at.year) : (MONTHS[at.month - 1] ?? '');
    if (step >= 86_400) return today;
    const first = day !== '' && day !== today;
    day = today;
    if (first || (at.hour === 0 && at.minute === 0 && at.second === 0 && step >= 60)) return today;
    return step >= 60 ? `${two(at.hour)}:${two(at.minute)}` : hours(mark, zone, step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3);
  });
}
