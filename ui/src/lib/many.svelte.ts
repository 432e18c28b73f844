// The values of a chart with any number of lines. A few lines are loaded in one request; of thousands, only the heaviest
// are drawn, and the rest is one sum.

import { ApiError, api, get } from './api';
import type { Chart, SeriesData } from './types';
import type { Values } from './series';
import { Pending } from './pending.svelte';
import { add, at, weigh } from './series';

/** Maximum lines of one request. */
export const FEW = 64;
const BATCH = 100;
/** Points of each line while thousands of lines are ranked. */
const COARSE = 200;

interface Query {
  chart: Chart;
  from: number;
  to: number;
  points: number;
  count: number;
  pinned: string[];
}

export class ManyLines extends Pending<SeriesData> {
  #ranked: { key: string; data: SeriesData } | null = null;
  /** Points of the ranked lines. */
  #points = COARSE;

  load(question: Query | null): void {
    this.begin(question && ((signal) => (question.chart.lines.length <= FEW ? this.#few(question, signal) : this.#many(question, signal))));
  }

  #few(q: Query, signal: AbortSignal): Promise<SeriesData> {
    this.url = api('series/data', { ids: q.chart.lines.map((line) => line.id).join(','), from: q.from, to: q.to, points: q.points });
    return get<SeriesData>(this.url, signal);
  }

  async #many(q: Query, signal: AbortSignal): Promise<SeriesData> {
    const key = [q.chart.name, q.from, q.to, q.points].join(' ');
    // One more line does not need a new ranking.
    if (this.#ranked?.key !== key) this.#ranked = { key, data: await this.#rank(q, signal) };
    const { data } = this.#ranked;
    const missing = q.pinned.filter((id) => !data.series.some((series) => series.id === id));
    if (missing.length === 0) return data;
    const more = await get<SeriesData>(
      api('series/data', { ids: missing.join(','), from: q.from, to: q.to, points: this.#points }),
      signal,
    );
    // The ranked lines may have fewer points than a single line.
    const same = (values: Values) => at(data.times, data.step, more.times, values);
    const found = more.series.map((series) => ({ id: series.id, avg: same(series.avg), min: same(series.min), max: same(series.max) }));
    // Lines that are drawn are subtracted from the sum of the others.
    const less = (which: 'avg' | 'min' | 'max'): Values =>
      (data.others?.[which] ?? []).map((value, nth) =>
        value === null
          ? null
          : Math.max(
              0,
              found.reduce((left, series) => left - (series[which][nth] ?? 0), value),
            ),
      );
    return {
      ...data,
      series: [...data.series, ...found],
      others: data.others ? { avg: less('avg'), min: less('min'), max: less('max') } : undefined,
    };
  }

  async #rank(q: Query, signal: AbortSignal): Promise<SeriesData> {
    this.#points = q.points;
    this.url = api('series/data', { chart: q.chart.name, top: q.count, from: q.from, to: q.to, points: q.points });
    try {
      const data = await get<SeriesData>(this.url, signal);
      if (data.ranking) return data;
      if (data.series.length === q.chart.lines.length) return reduce(q, data);
    } catch (error) {
      if (!(error instanceof ApiError) || ![400, 404, 413, 422].includes(error.status)) throw error;
    }
    // The server does not rank lines: they are ranked here.
    this.#points = Math.min(q.points, COARSE);
    return this.#batches(q, signal);
  }

  /** Ranks lines in the browser: all are loaded in batches, and only those drawn are kept. */
  async #batches(q: Query, signal: AbortSignal): Promise<SeriesData> {
    const ids = q.chart.lines.map((line) => line.id);
    let sum: SeriesData | null = null;
    for (let at = 0; at < ids.length; at += BATCH) {
      const part: SeriesData = await get<SeriesData>(
        api('series/data', { ids: ids.slice(at, at + BATCH).join(','), from: q.from, to: q.to, points: this.#points }),
        signal,
      );
      if (sum && part.times.length !== sum.times.length) continue; // the range moved between two answers
      sum = reduce(q, part, sum);
      if (at + BATCH < ids.length)
        this.data = { ...sum, partial: `${Math.min(ids.length, at + BATCH)} of ${ids.length} lines ranked so far.` };
    }
    if (!sum) throw new ApiError('The chart has no lines.', 0);
    return sum;
  }
}

/** Merges an answer into the earlier result: the heaviest lines stay, the others are one sum. */
function reduce(q: Query, part: SeriesData, before: SeriesData | null = null): SeriesData {
  const all = [...(before?.series ?? []), ...part.series];
  const weights = new Map((before?.ranking ?? []).map((each) => [each.id, each.weight]));
  for (const series of part.series) weights.set(series.id, weigh(series.avg));
  const ranking = [...weights].map(([id, weight]) => ({ id, weight })).sort((a, b) => b.weight - a.weight);
  const kept = new Set(ranking.slice(0, q.count).map((each) => each.id));
  const rest = all.filter((series) => !kept.has(series.id));
  const sum = (key: 'avg' | 'min' | 'max'): Values =>
    add([...(before?.others ? [before.others[key]] : []), ...rest.map((series) => series[key])], part.times.length);
  const others = rest.length > 0 || before?.others ? { avg: sum('avg'), min: sum('min'), max: sum('max') } : undefined;
  return {
    ...part,
    series: all.filter((series) => kept.has(series.id)),
    others,
    ranking,
    partial: part.partial ?? before?.partial ?? null,
  };
}
