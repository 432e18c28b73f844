// The first lines of the overview: plain sentences from figures, with nothing in them that the figures do not say.

import type { News, Tick, Sensor, SeriesData, Status, TopList } from './api';
import { short } from './commands';
import type { Range } from './range.svelte';
import { add, mean, seconds, total, type Past } from './series';
import { lately, span, stamp } from './time';
import { amount, bytes, exact, percent, plural, si } from './units';

export function sumOf(data: SeriesData | null, ids: string[]): (number | null)[] {
  if (!data) return [];
  return add(
    data.series.filter((series) => ids.includes(series.id)).map((series) => series.avg),
    data.times.length,
  );
}

/** What the ledger counted, each one: known of all that was seen, not of a part of it. */
export interface Counted {
  caught: number;
  dropped: number;
  bytes?: number;
}

/** The ledger, where the range is all of a capture: then nothing is reckoned from rates. */
export function counted(status: Status | null, range: Range | null, sensor: Sensor | null): Counted | null {
  if (!status || !range || !sensor || status.mode !== 'file') return null;
  if (range.from > (status.first ?? Infinity) || range.to < (status.last ?? -Infinity)) return null;
  const value = (name: string) => sensor.ledger.find((row) => row.name === name)?.value;
  const caught = value('caught');
  const bytes = value('bytes');
  return caught === undefined ? null : { caught, dropped: value('dropped') ?? 0, ...(bytes === undefined ? {} : { bytes }) };
}

/** Seconds of the range that there is anything of: a capture does not fill its last second. */
function covered(status: Status, range: Range): number {
  const [from, to] = covers(status, range);
  return Math.max(0.001, to - from);
}

function covers(status: Status, range: Range): [number, number] {
  return [
    Math.max(range.from, status.first ?? range.from),
    status.mode === 'live' ? range.to : Math.min(range.to, status.last ?? range.to),
  ];
}

/** What the page is about. */
export function headline(status: Status | null): string {
  if (!status) return '';
  const source = status.source.map(short).join(', ');
  return status.mode === 'file' ? source : status.mode === 'live' ? `${source} on ${status.sensor}` : `What ${status.sensor} has stored`;
}

/** "what is on this link" */
export function traffic(
  status: Status,
  range: Range,
  tick: Tick | null,
  live: boolean,
  data: SeriesData | null,
  bits: (number | null)[],
  counted: Counted | null,
): string {
  const said: string[] = [];
  const source = status.source.map(short).join(', ') || 'the store';
  if (live && tick && tick.seconds > 0) {
    const rate = amount((tick.bytes * 8) / tick.seconds, 'bits/s');
    const packets = amount(tick.packets / tick.seconds, 'packets/s');
    said.push(`${rate} and ${packets} on ${source} now, ${plural(tick.flows_active, 'flow')} open.`);
  }
  if (data) {
    const whole = counted?.bytes ?? total(bits, seconds(data.times, data.step, ...covers(status, range))) / 8;
    const middle =
      counted?.bytes === undefined
        ? mean(bits, seconds(data.times, data.step, ...covers(status, range)))
        : (counted.bytes * 8) / covered(status, range);
    const most = bits.reduce<number>((high, value) => Math.max(high, value ?? 0), 0);
    const where = live && tick ? '' : ` on ${source}`;
    if (middle === null && live && tick) return said.join(' ');
    if (middle === null) said.push(`Nothing was measured in this range${where}.`);
    else {
      const time = covered(status, range);
      const during = range.moving ? `the last ${lately(time)}` : span(time);
      const peak = most > 0 ? `, ${amount(most, 'bits/s')} at most` : '';
      said.push(`${bytes(whole)} in ${during}${where}: ${amount(middle, 'bits/s')} on average${peak}.`);
    }
  }
  return said.join(' ');
}

export function shares(list: TopList | null, count = 3): string {
  if (!list || list.rows.length === 0) return '';
  const all = list.total.bytes;
  const named = list.rows.slice(0, count).map((row) => `${row.label} ${percent(row.bytes, all)}`);
  const enumerated = named.length > 1 ? `${named.slice(0, -1).join(', ')} and ${named.at(-1)}` : named[0];
  return list.filter ? `Of what the filter matches, mostly ${enumerated}.` : `Mostly ${enumerated} of the bytes.`;
}

/** "who talks most" */
export function talker(list: TopList | null): string {
  const first = list?.rows[0];
  if (!list || !first) return 'Nobody was heard in this range.';
  const name = first.name ? ` (${first.name})` : '';
  const doubt = first.error > 0 ? `, at most ${amount(first.error, list.unit)} more` : '';
  const second = list.rows[1];
  const share = `${percent(first.bytes, list.total.bytes)} of ${list.filter ? 'what the filter matches' : 'all'}`;
  const secondName = second?.name ? ` (${second.name})` : '';
  const then = second ? ` Then ${second.label}${secondName} with ${bytes(second.bytes)}.` : '';
  return `${first.label}${name}: ${bytes(first.bytes)}, ${share}${doubt}.${then}`;
}

/** The talkers of a tick as a list. */
export function ofSecond(tick: Tick): TopList {
  const total = { packets: tick.packets, bytes: tick.bytes };
  return { list: 'talkers', key: '', unit: 'bytes', exact: false, rows: tick.talkers, absent: 0, inserts: 0, total, partial: null };
}

/** By how much the range is above the same hours before; null where there is nothing to compare with. */
export function change(bits: (number | null)[], past: Past | null): number | null {
  if (!past) return null;
  let now = 0;
  let then = 0;
  bits.forEach((value, at) => {
    const before = past.mid[at];
    if (value !== null && before !== null && before !== undefined) {
      now += value;
      then += before;
    }
  });
  return then > 0 ? now / then - 1 : null;
}

/** "what changed" */
export function changed(bits: (number | null)[], past: Past | null, news: News | null): string {
  const said: string[] = [];
  const by = change(bits, past);
  const weeks = past?.weeks === 1 ? 'the week before' : `the ${past?.weeks ?? 0} weeks before`;
  if (by === null) said.push('There are no earlier weeks to compare with.');
  else if (Math.abs(by) < 0.05) said.push(`As much as in the same hours of ${weeks}.`);
  else {
    const size = Math.abs(by);
    const compared = size >= 10 ? `${si(by + 1)} times` : `${Math.round(size * 100)} % ${by > 0 ? 'above' : 'below'}`;
    said.push(`${compared} the same hours of ${weeks}.`);
  }
  if (news && news.rows.length > 0) {
    const first = news.rows
      .slice(0, 2)
      .map((row) => `${row.kind} ${row.label}`)
      .join(', ');
    const number = news.rows.length === 1 ? 'One is new' : `${exact(news.rows.length)} are new`;
    const before = lately(news.against.to - news.against.from);
    said.push(`${number} against the ${before} before: ${first}${news.rows.length > 2 ? ' …' : '.'}`);
  } else if (news && !news.partial) said.push('Nothing new was seen.');
  return said.join(' ');
}

export interface Loss {
  caught: number;
  dropped: number;
  offered: number;
  text: string;
  bad: boolean;
}

/** "was anything lost" */
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
  const measured = seconds(data.times, data.step, ...covers(status, range));
  if (!counted && mean(caughtBy, measured) === null && mean(droppedBy, measured) === null)
    return { caught: 0, dropped: 0, offered: 0, text: 'No packet was counted in this range.', bad: false };
  const caught = counted?.caught ?? Math.round(total(caughtBy, measured));
  const dropped = counted?.dropped ?? Math.round(total(droppedBy, measured));
  const offered = caught + dropped;
  const most = droppedBy.reduce<number>((high, value) => Math.max(high, value ?? 0), 0);
  const at = data.times[droppedBy.indexOf(most)];
  const worst = at === undefined ? '' : `, most at ${stamp(at, zone)}`;
  const text =
    dropped === 0
      ? `Nothing was lost: all ${si(offered)} packets that were offered were caught.`
      : `${percent(dropped, offered)} was lost: ${exact(dropped)} of ${si(offered)} packets were dropped${worst}.`;
  return { caught, dropped, offered, text, bad: dropped > 0 };
}
