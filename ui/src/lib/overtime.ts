// Counts over time from the query language: a line for each of the heaviest values, and one for all others.

import type { Answered } from './types';
import type { Line } from './series';

export interface OverTime {
  times: number[];
  step: number;
  lines: Line[];
  unit: string;
}

/** The columns of an answer as lines; bytes become bits per second. `filter` has the expression of a value. */
export function overTime(answer: Answered, range: { from: number; to: number }, filter: (value: string) => string): OverTime {
  const times = answer.rows.map((row) => Date.parse(String(row[0])) / 1000);
  const [first = range.from, second] = times;
  const step = second === undefined ? Math.max(0.001, range.to - first) : second - first;
  const counted = answer.columns[1]?.unit || 'count';
  const isBytes = counted === 'bytes';
  const lines = answer.columns.slice(1).map((column, at): Line => {
    const rest = at === answer.columns.length - 2 && column.name === 'other';
    return {
      id: `${at} ${column.name}`,
      name: column.name === '-' ? 'no value' : column.name,
      expression: rest || column.name === 'all' ? '' : filter(column.name === '-' ? '' : column.name),
      values: answer.rows.map((row) => (typeof row[at + 1] === 'number' ? Number(row[at + 1]) * (isBytes ? 8 / step : 1) : null)),
      index: at,
      rest,
    };
  });
  return { times, step, lines, unit: isBytes ? 'bits/s' : counted };
}

/** A row of a comparison with the range before. */
export interface Compared {
  label: string;
  now: number;
  before: number;
  /** Percent; null if there was nothing before. */
  change: number | null;
}

/** The rows of an answer with `compare`, and those of what has no row and of everything. */
export function compared(answer: Answered): { rows: Compared[]; unit: string; against: string } {
  const at = (name: string) => answer.columns.findIndex((column) => column.name === name);
  const [before, change] = [at('before'), at('change')];
  const unit = answer.columns[before]?.unit ?? '';
  const now = answer.columns.findIndex((column, nth) => nth > 0 && nth < before && column.unit === unit && column.name !== 'error');
  const row = (cells: unknown[], label: string): Compared => ({
    label,
    now: Number(cells[now] ?? 0),
    before: Number(cells[before] ?? 0),
    change: typeof cells[change] === 'number' ? cells[change] : null,
  });
  const rows = answer.rows.map((cells) => row(cells, cells[0] === null || cells[0] === '' ? 'no value' : String(cells[0])));
  if (answer.other) rows.push(row(answer.other, 'other'));
  if (answer.total) rows.push(row(answer.total, 'all'));
  return { rows, unit, against: (answer.notes ?? []).find((note) => note.startsWith('compared with')) ?? '' };
}
