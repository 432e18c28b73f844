// Packet files of triggers: what their comments say, and which flows they are of.

import type { DumpFile, DumpTrigger } from './types';
import { api } from './api';
import { ofFlows } from './alerts';
import { curl, quote } from './commands';
import type { Leads } from './leads';
import type { Range } from './range.svelte';
import { amount, percent, si } from './units';

/** The rest of the line of a comment that begins with these words; "" without such a line. */
function line(reason: string, words: string): string {
  const found = reason.split('\n').find((each) => each.startsWith(words));
  return found?.slice(words.length).trim() ?? '';
}

/** The expression of the packets of a file; "" for all, null where its comment does not say it, as that of a file that begins. */
export function expressionOf(file: DumpFile): string | null {
  const found = line(file.reason, 'packets: ');
  return found === 'all' ? '' : found || null;
}

/** The kind of the event that opened a file: that of its comment, otherwise the name of its trigger. */
export const eventOf = (file: DumpFile): string => /^(\S+) of /.exec(line(file.reason, 'event '))?.[1] ?? file.trigger;

/** The kind of the events that open files of a trigger: those of others have it in the rule. */
export const kindOfTrigger = (trigger: DumpTrigger): string => /^event (\S+)$/.exec(trigger.when)?.[1] ?? trigger.name;

/** The time of the packets that a file was opened for, in whole seconds. */
export const timeOf = ({ from, to }: DumpFile): Range => ({ from: Math.floor(from), to: Math.ceil(to), text: null, moving: false });

/** A comment in one line: the event with its subject, and its numbers; its first line where it has neither. */
export function shortened(reason: string): string {
  const event = line(reason, 'event ').replace(/, \d{4}-\d\d-\d\dT\S+$/, '');
  const numbers = line(reason, 'numbers: ');
  const parts = [event, numbers === 'none' ? '' : numbers].filter((part) => part !== '');
  return parts.join(': ') || (reason.split('\n')[0] ?? '');
}

/** The URL of a file. */
export const urlOf = (file: DumpFile): string => api(`dumps/${encodeURIComponent(file.name)}`);

/** The path of a file, where its trigger is known. */
export const pathOf = (file: DumpFile, trigger: DumpTrigger | undefined): string =>
  trigger ? `${trigger.to.replace(/\/$/, '')}/${file.name}` : file.name;

/** Whether a trigger compares a number with a threshold: one that waits for events of others does not. */
export const compares = ({ above, below, value }: DumpTrigger): boolean => above !== null || below !== null || value !== null;

/** Units that a number is written with; of others the number stands alone, and the unit is written once. */
const CLOSE = ['bytes', 'bytes/s', 'bits/s', 's', 'seconds'];

/** A number without its unit, unless that is written with it. It is not broken before its prefix. */
const short = (value: number, unit: string): string => (CLOSE.includes(unit) ? amount(value, unit) : si(value)).replace(' ', '\u00a0');
const whole = (value: number, unit: string): string => (CLOSE.includes(unit) ? short(value, unit) : `${short(value, unit)} ${unit}`).trim();

/** The value of a trigger, beside the threshold that it must pass: `12 of 1 k packets (1.2 %)`. */
export function valueText(trigger: DumpTrigger): string {
  const { value, above, unit } = trigger;
  if (!compares(trigger)) return 'opened by events, without a threshold';
  if (value === null) return 'no value now';
  if (above !== null && above > 0) return `${short(value, unit)} of ${whole(above, unit)} (${percent(value, above)})`;
  const threshold = above ?? trigger.below;
  return threshold === null ? whole(value, unit) : `${short(value, unit)}, threshold ${whole(threshold, unit)}`;
}

/** The thresholds of a trigger in words: `above 10 k packets`; "" without one. */
export function thresholdText({ above, below, unit }: DumpTrigger): string {
  if (above === null) return below === null ? '' : `below ${whole(below, unit)}`;
  return below === null ? `above ${whole(above, unit)}` : `above ${short(above, unit)} or below ${whole(below, unit)}`;
}

/** Parts of the width of a bar: that of the value, and the places of the thresholds. */
export function bar({ value, above, below }: DumpTrigger): { width: number; marks: number[] } {
  // A value far beyond a threshold moves the mark to the left, so that both are seen.
  const most = Math.max((above ?? 0) * 1.25, (below ?? 0) * 2, value ?? 0, 1e-9);
  const marks = [below, above].filter((each) => each !== null);
  return { width: (100 * (value ?? 0)) / most, marks: marks.map((each) => (100 * each) / most) };
}

/** What a file leads to: the flows and the packets that it was opened for. */
export function leadsOfFile(file: DumpFile, trigger: DumpTrigger | undefined): Leads {
  const expression = expressionOf(file) ?? '';
  const { from, to } = timeOf(file);
  const commands = [`weir open ${quote(pathOf(file, trigger))}`];
  return { name: file.name, filter: ofFlows(expression), packets: expression, time: { from, to }, narrowed: false, commands };
}

/** What a trigger leads to: what it measures, or what its latest file has if events of others open its files. */
export function leadsOfTrigger(trigger: DumpTrigger, files: DumpFile[]): Leads {
  const commands = [curl(api('dumps'))];
  const { name, filter } = trigger;
  if (filter !== null) return { name, filter: ofFlows(filter), packets: filter, narrowed: false, commands };
  const latest = files.find((file) => file.trigger === name);
  if (latest) return { ...leadsOfFile(latest, trigger), name, why: 'Of its latest file: events of others open its files.', commands };
  return { name, filter: null, packets: null, narrowed: false, why: 'Events of others open its files. It has no file yet.', commands };
}
