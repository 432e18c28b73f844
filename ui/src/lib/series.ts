// Arithmetic on series: sums, what a chart shows of many lines, and figures of one line.

import type { ChartLine, SeriesData, Values } from './api';

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

/** Caught and dropped, as they stand below every chart. */
export function ledgerLines(caught: Values, dropped: Values): Line[] {
  return [
    { id: 'ledger/caught', name: 'caught', expression: '', values: caught, index: 2, dash: [] },
    { id: 'ledger/dropped', name: 'dropped', expression: '', values: dropped, index: 1, dash: [6, 3] },
  ];
}

export function total(values: Values, step: number): number {
  let sum = 0;
  for (const value of values) sum += value ?? 0;
  return sum * step;
}

/** As `total`, of the part of each step that lies within what is asked for and stored: a mean of an hour that has
 *  only begun is no hour's worth. */
export function within(values: Values, times: number[], step: number, from: number, to: number): number {
  let sum = 0;
  values.forEach((value, at) => {
    const time = times[at] ?? 0;
    sum += (value ?? 0) * Math.max(0, Math.min(time + step, to) - Math.max(time, from));
  });
  return sum;
}

export function mean(values: Values): number | null {
  let sum = 0;
  let count = 0;
  for (const value of values) {
    if (value !== null && value !== undefined) {
      sum += value;
      count += 1;
    }
  }
  return count === 0 ? null : sum / count;
}

export interface Figures { min: number; avg: number; p95: number; max: number; last: number }

export function figures(values: Values): Figures | null {
  const known = values.filter((value): value is number => value !== null && value !== undefined);
  const last = known.at(-1);
  if (last === undefined) return null;
  const sorted = Float64Array.from(known).sort();
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
  return { min: sorted[0] ?? 0, avg: known.reduce((sum, value) => sum + value, 0) / known.length, p95: at(0.95), max: sorted.at(-1) ?? 0, last };
}

/** Lines by weight with the heaviest first, and the sum of those that were left out. */
export function heaviest(lines: ChartLine[], data: SeriesData, count: number, pinned: string[]): { shown: Line[]; left: number } {
  const values = new Map(data.series.map((series) => [series.id, series]));
  const weight = new Map(lines.map((line) => [line.id, total(values.get(line.id)?.avg ?? [], data.step)]));
  const order = [...lines].sort((a, b) => (weight.get(b.id) ?? 0) - (weight.get(a.id) ?? 0));
  const top = new Set([...order.slice(0, count).map((line) => line.id), ...pinned]);
  const shown: Line[] = lines
    .filter((line) => top.has(line.id))
    .map((line, index) => {
      const found = values.get(line.id);
      return { id: line.id, name: line.name, expression: line.expression, values: found?.avg ?? [], min: found?.min ?? [], max: found?.max ?? [], index };
    });
  const rest = order.filter((line) => !top.has(line.id));
  if (rest.length === 0) return { shown, left: 0 };
  const of = (key: 'avg' | 'min' | 'max') => add(rest.map((line) => values.get(line.id)?.[key] ?? []), data.times.length);
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
