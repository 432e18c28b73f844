// Arithmetic on series: sums, what a chart shows of many lines, and figures of one line.

import type { Band, ChartLine, SeriesData, Values } from './api';

export interface Line {
  id: string;
  name: string;
  /** A pcap expression, "" where there is none. */
  expression: string;
  values: Values;
  min?: Values;
  max?: Values;
  /** Instead of the pattern that goes with the colour. */
  dash?: number[];
  /** Which colour and dash. */
  index: number;
  /** Of lines that are not drawn one by one. */
  rest?: boolean;
}

/** Sums by point; a point that nobody measured stays null. */
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

/** What was answered for other times, at these: the mean of what begins within a step, else what the step lies in. */
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

/** The same hours of weeks before, summed over lines and at the times of a chart. */
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

/** Caught and dropped, as they stand below every chart. */
export function ledgerLines(caught: Values, dropped: Values): Line[] {
  return [
    { id: 'ledger/caught', name: 'caught', expression: '', values: caught, index: 2, dash: [] },
    { id: 'ledger/dropped', name: 'dropped', expression: '', values: dropped, index: 1, dash: [6, 3] },
  ];
}

/** Seconds of each step that lie within a time. A rate at an end of what was measured is of the part of its step that was:
 *  taken for the whole of it, it would be more than there was. */
export function seconds(times: number[], step: number, from: number, to: number): number[] {
  return times.map((time) => Math.max(0, Math.min(time + step, to) - Math.max(time, from)));
}

/** What rates came to over steps of so many seconds. */
export function total(values: Values, seconds: number[]): number {
  return values.reduce<number>((sum, value, at) => sum + (value ?? 0) * (seconds[at] ?? 0), 0);
}

/** Of the time that was measured. */
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

/** By what lines are ranked: their steps are the same. */
export function weigh(values: Values): number {
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

/** Lines by weight with the heaviest first, and the sum of those that were left out. */
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
  shown.push({ id: '', name: `${rest.length} others`, expression: '', values: of('avg'), index: shown.length, rest: true });
  return { shown, left: rest.length };
}

/** Spans in which more than a thousandth of what was offered was dropped: they are hatched in every chart. */
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
