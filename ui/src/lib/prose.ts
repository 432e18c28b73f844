// The summary sentences of the overview.

import type { Basis, FilterTry, Findings, News, Sensor, SeriesData, Status, Tick, Narrowed } from './types';
import { short } from './commands';
import type { Range } from './range.svelte';
import { add, mean, total, type Past } from './series';
import { between, lately, span, stamp } from './time';
import { amount, bytes, exact, percent, plural, sentence, si } from './units';

export function sumOf(data: SeriesData | null, ids: string[]): (number | null)[] {
  if (!data) return [];
  return add(
    data.series.filter((series) => ids.includes(series.id)).map((series) => series.avg),
    data.times.length,
  );
}

/** Exact totals of the ledger, which cover the whole run. */
export interface Counted {
  caught: number;
  dropped: number;
  bytes?: number;
}

/** Totals of the ledger, when the range covers the whole capture. Otherwise totals are computed from rates. */
export function counted(status: Status | null, range: Range | null, sensor: Sensor | null): Counted | null {
  if (!status || !range || !sensor || status.mode !== 'file') return null;
  if (range.from > (status.first ?? Infinity) || range.to < (status.last ?? -Infinity)) return null;
  const value = (name: string) => sensor.ledger.find((row) => row.name === name)?.value;
  const caught = value('caught');
  const bytes = value('bytes');
  return caught === undefined ? null : { caught, dropped: value('dropped') ?? 0, ...(bytes === undefined ? {} : { bytes }) };
}

/** The time that an answer is of, where it is wider than the range of the page: only longer cells are stored. */
export function wider(range: Range | null, basis: Basis | undefined): [number, number] | null {
  if (!range || !basis) return null;
  const [from, to] = basis.range;
  const out = Math.max(0, range.from - from) + Math.max(0, to - range.to);
  return out > (range.to - range.from) / 1000 ? [from, to] : null;
}

/** What the numbers of an answer may be off, in words; "" if there is nothing to say. */
export function bound(basis: Basis, unit: string): string {
  if (basis.bound === 0) return `${unit} are exact`;
  return basis.bound === null ? '' : `within ${amount(basis.bound, unit)}`;
}

/** The title of the overview. */
export function headline(status: Status | null): string {
  if (!status) return '';
  const source = status.source.map(short).join(', ');
  return status.mode === 'file' ? source : status.mode === 'live' ? `${source} on ${status.sensor}` : `Stored data (${status.sensor})`;
}

/** The sentence "Traffic". */
export function traffic(
  status: Status,
  range: Range,
  tick: Tick | null,
  live: boolean,
  data: SeriesData | null,
  bits: (number | null)[],
  counted: Counted | null,
  zone = 'UTC',
): string {
  const sentences: string[] = [];
  const source = status.source.map(short).join(', ') || 'the store';
  const place = status.source.length > 0 ? `on ${source}` : `in ${source}`;
  if (live && tick && tick.seconds > 0) {
    const rate = amount((tick.bytes * 8) / tick.seconds, 'bits/s');
    const packets = amount(tick.packets / tick.seconds, 'packets/s');
    sentences.push(`Now ${rate}, ${packets} ${place}; ${plural(tick.flows_active, 'open flow')}.`);
  }
  if (!data) return sentences.join(' ');
  const where = live && tick ? '' : ` ${place}`;
  const kept = counted ? null : wider(range, data.basis);
  const whole = counted?.bytes ?? total(bits, data.widths) / 8;
  const time = data.basis.watched;
  if (time === 0 || (counted === null && mean(bits, data.widths) === null)) {
    if (!(live && tick)) sentences.push(`No data in this range${where}.`);
    return sentences.join(' ');
  }
  const middle = (whole * 8) / time;
  const max = bits.reduce<number>((high, value) => Math.max(high, value ?? 0), 0);
  const during = kept
    ? `${between(...kept, zone)}, for which data is kept`
    : range.moving
      ? `Last ${lately(time)}`
      : `${span(time)}${where}`;
  const off = counted ? 0 : (data.basis.bound ?? 0);
  const error = off > whole / 100 ? ` ± ${bytes(off)}` : '';
  const peak = max > 0 ? `, peak ${amount(max, 'bits/s')}` : '';
  sentences.push(`${during}: ${bytes(whole)}${error}, average ${amount(middle, 'bits/s')}${peak}.`);
  return sentences.join(' ');
}

export function shares(list: Narrowed | null, count = 3): string {
  if (!list || list.rows.length === 0) return '';
  const all = list.total.bytes;
  const named = list.rows.slice(0, count).map((row) => `${row.label} ${percent(row.bytes, all)}`);
  return `${list.filter ? 'Top matching protocols' : 'Top protocols'}: ${named.join(', ')}.`;
}

/** The sentence about flows that match the filter. */
export function matching(tried: FilterTry): string {
  const [ofBytes, ofFlows] = [percent(tried.bytes, tried.of.bytes), percent(tried.flows, tried.of.flows)];
  const part = `${ofBytes} of the bytes and ${ofFlows} of the flows in this range`;
  if (tried.flows === 0) return 'No flow in this range matches the filter.';
  return `${plural(tried.flows, 'flow')}, ${plural(tried.packets, 'packet')}, ${bytes(tried.bytes)}: ${part}.`;
}

/** A finding as a sentence, in the words of a run's summary. */
export function finding(row: Findings['rows'][number]): string {
  return sentence(`${row.kind} ${row.text}`);
}

/** What new hosts and services are compared with: a week, or what there is of it. */
export function newSince(news: News): string {
  const length = news.against.to - news.against.from;
  if (length <= 0) return '';
  const before = lately(length);
  return length < 86_400 ? `compared with only the ${before} before` : `not seen in the previous ${before}`;
}

/** The sentence "Top talkers". */
export function talker(list: Narrowed | null, range: Range | null = null, zone = 'UTC'): string {
  const first = list?.rows[0];
  if (!list || !first) return 'No traffic in this range.';
  const name = first.name ? ` (${first.name})` : '';
  const error = first.error > 0 ? `, undercounted by at most ${amount(first.error, list.unit)}` : '';
  const second = list.rows[1];
  const share = `${percent(first.bytes, list.total.bytes)} of ${list.filter ? 'matching' : 'all'} bytes`;
  const secondName = second?.name ? ` (${second.name})` : '';
  const next = second ? ` Next: ${second.label}${secondName}, ${bytes(second.bytes)}.` : '';
  const kept = wider(range, list.basis);
  const time = kept ? `${between(...kept, zone)}, for which lists are kept: ` : '';
  return `${time}${first.label}${name}: ${bytes(first.bytes)}, ${share}${error}.${next}`;
}

/** The talkers of a tick as a list. */
export function ofSecond(tick: Tick): Narrowed {
  const total = { packets: tick.packets, bytes: tick.bytes };
  return {
    list: 'talkers',
    key: '',
    unit: 'bytes',
    rows: tick.talkers,
    absent: 0,
    inserts: 0,
    total,
    basis: {
      asked: [tick.time - tick.seconds, tick.time],
      range: [tick.time - tick.seconds, tick.time],
      watched: tick.seconds,
      source: 'cells',
      bound: null,
    },
    partial: null,
  };
}

/** Relative change of a volume against the same hours of previous weeks; null when there are none. `seconds` are the watched ones of
 * each value, which is a rate over these: a last step of a few milliseconds counts as that. */
export function change(bits: (number | null)[], past: Past | null, seconds: number[]): number | null {
  if (!past) return null;
  let now = 0;
  let then = 0;
  bits.forEach((value, at) => {
    const before = past.mid[at];
    if (value !== null && before !== null && before !== undefined) {
      now += value * (seconds[at] ?? 0);
      then += before * (seconds[at] ?? 0);
    }
  });
  return then > 0 ? now / then - 1 : null;
}

/** The sentence "Changes". */
export function changed(bits: (number | null)[], past: Past | null, seconds: number[], news: News | null): string {
  const sentences: string[] = [];
  const by = change(bits, past, seconds);
  const weeks = past?.weeks === 1 ? 'previous week' : `previous ${past?.weeks ?? 0} weeks`;
  if (by === null) sentences.push('No previous weeks to compare with.');
  else if (Math.abs(by) < 0.05) sentences.push(`Within 5 % of the same hours of the ${weeks}.`);
  else {
    const size = Math.abs(by);
    const compared = size >= 10 ? `${si(by + 1)} times` : `${Math.round(size * 100)} % ${by > 0 ? 'above' : 'below'}`;
    sentences.push(`${compared} the same hours of the ${weeks}.`);
  }
  if (news && news.rows.length > 0) {
    const first = news.rows
      .slice(0, 2)
      .map((row) => `${row.kind} ${row.label}`)
      .join(', ');
    sentences.push(`${exact(news.rows.length)} new (${newSince(news)}): ${first}${news.rows.length > 2 ? ' …' : '.'}`);
  } else if (news && !news.partial) sentences.push('No new hosts or services.');
  return sentences.join(' ');
}

export interface Loss {
  caught: number;
  dropped: number;
  offered: number;
  text: string;
  bad: boolean;
}

/** The sentence "Loss", with its figures. */
export function loss(
  data: SeriesData | null,
  zone: string,
  status: Status | null,
  range: Range | null,
  counted: Counted | null = null,
): Loss | null {
  if (!data || !status || !range) return null;
  const caughtBy = sumOf(data, ['ledger/caught']);
  const droppedBy = sumOf(data, ['ledger/dropped']);
  const kept = counted ? null : wider(range, data.basis);
  const measured = data.widths;
  if (!counted && mean(caughtBy, measured) === null && mean(droppedBy, measured) === null)
    return { caught: 0, dropped: 0, offered: 0, text: 'No packets in this range.', bad: false };
  const caught = counted?.caught ?? Math.round(total(caughtBy, measured));
  const dropped = counted?.dropped ?? Math.round(total(droppedBy, measured));
  const offered = caught + dropped;
  const max = droppedBy.reduce<number>((high, value) => Math.max(high, value ?? 0), 0);
  const at = data.times[droppedBy.indexOf(max)];
  const worst = at === undefined ? '' : `, peak at ${stamp(at, zone)}`;
  const packets = `${exact(offered)} packets`;
  const during = kept ? `${between(...kept, zone)}, for which counters are kept: ` : '';
  const text =
    dropped === 0
      ? `${during}${kept ? 'no loss,' : 'No loss:'} all ${packets} captured.`
      : `${during}${kept ? 'loss' : 'Loss'} ${percent(dropped, offered)}: ${exact(dropped)} of ${packets} dropped${worst}.`;
  return { caught, dropped, offered, text, bad: dropped > 0 };
}
