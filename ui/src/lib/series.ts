// Arithmetic on series: sums, selection of lines for a chart, and statistics of a line.

import type { Band, ChartLine, Points, SeriesData } from './types';

/** null where nothing was measured. */
export type Values = Points['avg'];

export interface Line {
  id: string;
  name: string;
  /** A pcap-filter expression, or "". */
  expression: string;
  values: Values;
  min?: Values;
  max?: Values;
  /** Overrides the dash pattern of the colour. */
  dash?: number[];
  /** Index of colour and dash pattern. */
  index: number;
  /** The sum of lines that are not drawn. */
  rest?: boolean;
}

/** Sums point by point; a point without any value stays null. */
export function add(all: Values[], length: number): Values {
  const sum: Values = new Array<number | null>(length).fill(null);
  for (const values of all) {
    for (let at = 0; at < length; at += 1) {
      const value = values[at];
      if (value !== null && value !== undefined) sum[at] = (sum[at] ?? 0) + value;
    }
  }
  return sum;
}

/** Resamples values to other times: the mean of points within a step, else the point that the step lies in. */
export function at(times: number[], step: number, theirs: number[], values: Values): Values {
  const wide = theirs.length > 1 ? (theirs[1] ?? 0) - (theirs[0] ?? 0) : step;
  let next = 0;
  return times.map((time) => {
    while (next < theirs.length && (theirs[next] ?? 0) < time - 1e-6) next += 1;
    let [sum, count] = [0, 0];
    for (let nth = next; nth < theirs.length && (theirs[nth] ?? 0) < time + step - 1e-6; nth += 1) {
      const value = values[nth];
      if (value !== null && value !== undefined) [sum, count] = [sum + value, count + 1];
    }
    if (count > 0) return sum / count;
    return next > 0 && time < (theirs[next - 1] ?? 0) + wide ? (values[next - 1] ?? null) : null;
  });
}

/** Values at the same time of previous weeks, summed over lines and resampled to the times of a chart. */
export interface Past {
  low: Values;
  mid: Values;
  high: Values;
  weeks: number;
}

export function past(band: Band | null, data: Pick<SeriesData, 'times' | 'step'> | null): Past | null {
  if (!band || band.weeks === 0 || !data) return null;
  const of = (which: 'low' | 'mid' | 'high') =>
    at(
      data.times,
      data.step,
      band.times,
      add(
        band.series.map((series) => series[which]),
        band.times.length,
      ),
    );
  return { low: of('low'), mid: of('mid'), high: of('high'), weeks: band.weeks };
}

/** The lines of packets caught and dropped below every chart. */
export function ledgerLines(caught: Values, dropped: Values): Line[] {
  return [
    { id: 'ledger/caught', name: 'caught', expression: '', values: caught, index: 2, dash: [] },
    { id: 'ledger/dropped', name: 'dropped', expression: '', values: dropped, index: 1, dash: [6, 3] },
  ];
}

/** Numbers of bins; absent where nothing was watched. */
export const watchedOnly = (values: number[], watched: number[]): Values =>
  values.map((value, at) => (value === 0 && watched[at] === 0 ? null : value));

/** Bits per watched second of bins with these bytes; absent where nothing was watched. `step` is the length of a bin in seconds. */
export const bitRates = (sizes: number[], watched: number[], step: number): Values =>
  watchedOnly(sizes, watched).map((size, at) => (size === null || size === undefined ? null : (size * 8) / (watched[at] || step)));

/** Integral of rates over steps of the given seconds. */
export function total(values: Values, seconds: number[]): number {
  return values.reduce<number>((sum, value, at) => sum + (value ?? 0) * (seconds[at] ?? 0), 0);
}

/** Mean over the measured time. */
export function mean(values: Values, seconds: number[]): number | null {
  const known = values.reduce<number>((sum, value, at) => sum + (value === null || value === undefined ? 0 : (seconds[at] ?? 0)), 0);
  return known > 0 ? total(values, seconds) / known : null;
}

export interface Figures {
  min: number;
  avg: number;
  p95: number;
  max: number;
  last: number;
}

export function figures(values: Values, seconds: number[]): Figures | null {
  const known = values.filter((value): value is number => value !== null && value !== undefined);
  const last = known.at(-1);
  if (last === undefined) return null;
  const sorted = Float64Array.from(known).sort();
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
  return { min: sorted[0] ?? 0, avg: mean(values, seconds) ?? last, p95: at(0.95), max: sorted.at(-1) ?? 0, last };
}

/** Weight that ranks lines with equal steps. */
export function weigh(values: Values): number {
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

/** The heaviest and pinned lines, and the sum of all others. */
export function heaviest(lines: ChartLine[], data: SeriesData, count: number, pinned: string[]): { shown: Line[]; left: number } {
  const values = new Map(data.series.map((series) => [series.id, series]));
  const weight = new Map(lines.map((line) => [line.id, weigh(values.get(line.id)?.avg ?? [])]));
  const order = [...lines].sort((a, b) => (weight.get(b.id) ?? 0) - (weight.get(a.id) ?? 0));
  const top = new Set([...order.slice(0, count).map((line) => line.id), ...pinned]);
  const shown: Line[] = lines
    .filter((line) => top.has(line.id))
    .map((line, index) => {
      const found = values.get(line.id);
      return {
        id: line.id,
        name: line.name,
        expression: line.expression,
        values: found?.avg ?? [],
        min: found?.min ?? [],
        max: found?.max ?? [],
        index,
      };
    });
  const rest = order.filter((line) => !top.has(line.id));
  if (rest.length === 0) return { shown, left: 0 };
  const of = (key: 'avg' | 'min' | 'max') =>
    add(
      rest.map((line) => values.get(line.id)?.[key] ?? []),
      data.times.length,
    );
  shown.push({ id: '', name: `${rest.length} other`, expression: '', values: of('avg'), index: shown.length, rest: true });
  return { shown, left: rest.length };
}

/** Time ranges with more than 0.1 % of packets dropped, which are hatched in every chart. */
export function lossy(times: number[], step: number, caught: Values, dropped: Values): { from: number; to: number }[] {
  const spans: { from: number; to: number }[] = [];
  times.forEach((time, at) => {
    const lost = dropped[at] ?? 0;
    if (lost <= 0 || lost / (lost + (caught[at] ?? 0)) <= 0.001) return;
    const before = spans.at(-1);
    if (before && Math.abs(before.to - time) < step / 2) before.to = time + step;
    else spans.push({ from: time, to: time + step });
  });
  return spans;
}

/** A range that moves in steps of a minute or a sixtieth of it: counting reads every flow or record of the range, so that it is not
 *  repeated as often as a curve is drawn. */
export function steady<R extends { from: number; to: number; moving: boolean }>(range: R): R {
  if (!range.moving) return range;
  const pace = Math.max(60, (range.to - range.from) / 60);
  const back = range.to % pace;
  // A link that was begun just now has no earlier step.
  return range.to - range.from < 2 * pace ? range : { ...range, from: range.from - back, to: range.to - back };
}

/** Points that end steps: a value that is followed by none, and the last one, lasts until the end of its step. `steps` has the
 *  place in `times` of each point. */
export function ended(times: number[], step: number, series: Values[]): { times: number[]; steps: number[]; values: Values[] } {
  const made = { times: [] as number[], steps: [] as number[], values: series.map((): Values => []) };
  const add = (time: number, at: number, value: (values: Values) => number | null) => {
    made.times.push(time);
    made.steps.push(at);
    series.forEach((values, nth) => made.values[nth]?.push(value(values)));
  };
  times.forEach((time, at) => {
    add(time, at, (values) => values[at] ?? null);
    const isLast = at === times.length - 1;
    const ends = series.some((values) => (values[at] ?? null) !== null && (values[at + 1] ?? null) === null);
    // Just before the next point, so that times stay in order.
    if (isLast) add(time + step, at, (values) => values[at] ?? null);
    else if (ends) add(Math.max(time, (times[at + 1] ?? time) - step / 1000), at, (values) => values[at] ?? null);
  });
  return made;
}
