// Events as alerts: grouped by kind and subject, with the rule that each kind follows and its numbers put in.

import type { Event } from './types';
import { api } from './api';
import { curl } from './commands';
import { ordered } from './events';
import { around, type Leads } from './leads';
import { brief } from './time';
import { exact, percent, plural } from './units';

/** Events of one kind about one subject. */
export interface Alert {
  /** Identifies it among all; stable between answers. */
  key: string;
  kind: string;
  subject: string;
  /** That of its most urgent event. */
  severity: string;
  /** Whether an event of it has not ended. */
  open: boolean;
  /** Findings of all its events. */
  count: number;
  /** Time of the first finding, and of the last. */
  begin: number;
  last: number;
  /** Open ones first, then the most urgent, then the latest. */
  events: Event[];
}

/** Events by kind and subject: open ones first, then the most urgent, then the latest. Notes about the sensor are left out. */
export function alerts(events: Event[]): Alert[] {
  const found = new Map<string, Alert>();
  for (const event of ordered(events)) {
    const subject = event.subject ?? '';
    const key = `${event.kind} ${subject}`;
    const alert = found.get(key);
    if (!alert) {
      const { kind, severity, open, count, begin, time: last } = event;
      found.set(key, { key, kind, subject, severity, open, count, begin, last, events: [event] });
      continue;
    }
    alert.count += event.count;
    alert.begin = Math.min(alert.begin, event.begin);
    alert.last = Math.max(alert.last, event.time);
    // The order of the events is by state first: an event that has ended may be more urgent than an open one.
    if (alert.severity !== 'error' && event.severity !== 'notice') alert.severity = event.severity;
    alert.events.push(event);
  }
  return [...found.values()];
}

/** A kind in words: `port_scan` → "port scan". */
export const kindOf = (kind: string): string => kind.replaceAll('_', ' ');

/** A number of evidence by its name; null if the event does not have it. */
function number(event: Event, name: string): number | null {
  const value = event.evidence[name];
  return typeof value === 'number' ? value : null;
}

/** A value of evidence as text. Durations are in nanoseconds. */
function valueText(name: string, value: unknown): string {
  if (typeof value !== 'number') return String(value);
  return /^most_(back|ahead)$/.test(name) ? brief(value / 1e9) : exact(value);
}

/** The numbers of an event by their names. */
export function numbers(event: Event): { name: string; value: string }[] {
  return Object.entries(event.evidence).map(([name, value]) => ({ name, value: valueText(name, value) }));
}

interface Rule {
  /** What is found, in words, with the names of the numbers. */
  rule: string;
  /** The rule with the numbers of an event put in. */
  filled: (event: Event) => string;
}

const of = (event: Event, name: string): number => number(event, name) ?? 0;

function scan(what: string): Rule {
  return {
    rule: `${what} failed, and at least 80 % of all that were tried: failed / (failed + answered), one that did both counts once`,
    filled: (event) => {
      const [failed, answered] = [of(event, 'failed'), of(event, 'answered')];
      const share = `${percent(failed, failed + answered)}${answered > 0 ? ' or more' : ''}`;
      return `failed ${exact(failed)} / (failed ${exact(failed)} + answered ${exact(answered)}) = ${share}`;
    },
  };
}

function flood(rest: string): Rule {
  return {
    rule: `in an interval, ${rest}; and at most a tenth of the packets is answered: answered / packets`,
    filled: (event) => {
      const [packets, answered, sources] = [of(event, 'packets'), of(event, 'answered'), of(event, 'sources')];
      const each = sources > 0 ? `; packets ${exact(packets)} / sources ${exact(sources)} = ${(packets / sources).toFixed(1)} of each` : '';
      const others = of(event, 'others') > 0 ? `; about, with ${exact(of(event, 'others'))} packets of others among them` : '';
      const fragments = of(event, 'fragments') > 0 ? `; beside them, fragments without a first one: ${exact(of(event, 'fragments'))}` : '';
      return `answered ${exact(answered)} / packets ${exact(packets)} = ${percent(answered, packets)}${each}${others}${fragments}`;
    },
  };
}

const FAST = '100 a second';

const RULES: Record<string, Rule> = {
  port_scan: scan('20 or more TCP ports of a host'),
  address_scan: scan('a TCP port of 20 or more hosts'),
  syn_flood: flood(`1,000 or more SYNs, ${FAST} or at most 2 of each source`),
  udp_flood: flood('1,000 or more datagrams, at most 5 of each source'),
  icmp_flood: flood(`1,000 or more of ICMP, ${FAST}`),
  fragment_flood: flood(`1,000 or more fragments without a first one, ${FAST}`),
  reflection: flood(
    `1,000 or more SYNs with ACK or RSTs, not asked for, ${FAST} or at most 5 of each source; or 500 datagrams of 20 or more servers`,
  ),
  new_signature: {
    rule: 'hosts that may be worms, with a work weight of 90 % or more, tried a set of at most ten ports that the store did not know',
    filled: (event) => `${plural(of(event, 'hosts'), 'host')} in an interval; the ports are the subject`,
  },
  beacon: {
    rule: '20 or more flows within 24 hours, at even times and with even bytes: the mean of six parts, each from 0 to 1, is 0.9 or more',
    filled: (event) => {
      const parts = ['gap_skew', 'gap_spread', 'bytes_skew', 'bytes_spread', 'day', 'hours'];
      const shown = parts.map((name) => `${name} ${(of(event, name) / 1000).toFixed(3)}`).join(' + ');
      const medians = `every ${brief(of(event, 'gap'))}, ${plural(of(event, 'bytes'), 'byte')} sent`;
      return `(${shown}) / 6 = ${(of(event, 'score') / 1000).toFixed(3)}; ${plural(of(event, 'flows'), 'flow')}, ${medians}`;
    },
  },
  new_host: {
    rule: 'a host at home sent packets, and is in no flow of the seven days before',
    filled: (event) => `${plural(of(event, 'flows'), 'flow')} with ${plural(of(event, 'bytes'), 'byte')}`,
  },
  new_service: {
    rule: 'a port below 32,768 of a host at home answered, and is in no flow of the seven days before',
    filled: (event) => `${plural(of(event, 'flows'), 'flow')} with ${plural(of(event, 'bytes'), 'byte')}`,
  },
  changed_series: {
    rule: 'now is a quarter beyond all weeks before, at least twice or at most half their median, and 3.5 robust deviations from it',
    filled: (event) => {
      const [now, median] = [of(event, 'now'), of(event, 'median')];
      const range = `least ${exact(of(event, 'least'))}, greatest ${exact(of(event, 'greatest'))} of ${plural(of(event, 'weeks'), 'week')}`;
      const share = median > 0 ? ` = ${percent(now, median)}` : '';
      return `now ${exact(now)} / median ${exact(median)}${share}; ${range}`;
    },
  },
  clock_leap: {
    rule: 'the time of packets went back over a second, or ahead over a day; on a link, the clock was set by a second or more',
    filled: (event) =>
      [[of(event, 'back'), 'back', of(event, 'most_back')] as const, [of(event, 'ahead'), 'ahead', of(event, 'most_ahead')] as const]
        .filter(([leaps]) => leaps > 0)
        .map(([leaps, way, most]) => `${plural(leaps, 'leap')} ${way}, by ${brief(most / 1e9)} at most`)
        .join('; '),
  },
  many: {
    rule: 'more than 100 events about traffic began in a minute: the further ones did not begin, and their findings are counted here',
    filled: (event) => `${plural(of(event, 'events'), 'event')} did not begin, with ${plural(event.count, 'finding')}`,
  },
  dump_full: {
    rule: 'a packet file of a trigger has reached its limit of packets or bytes',
    filled: () => 'later packets are not in it',
  },
};

/** Events of subscriptions have a name of their own: what found them is known by their numbers. */
const BY_NUMBERS: [string, Rule][] = [
  [
    'most',
    {
      rule: 'in an interval or a second, a number of the reading passed the threshold of the function event',
      filled: (event) => {
        const [least, most] = [of(event, 'least'), of(event, 'most')];
        const times = `passed ${plural(event.count, 'time')}`;
        return least === most ? `${exact(most)}, ${times}` : `least ${exact(least)}, most ${exact(most)}, ${times}`;
      },
    },
  ],
  [
    'items',
    {
      rule: 'each flow or record that reached the function event counts',
      filled: (event) => `items ${exact(of(event, 'items'))}`,
    },
  ],
  [
    'line',
    {
      rule: 'an end or a name of a flow or record is in the list of the function watch',
      filled: (event) => `${plural(event.count, 'hit')} of the entry in line ${exact(of(event, 'line'))}`,
    },
  ],
];

const ruleOf = (event: Event): Rule | null => RULES[event.kind] ?? BY_NUMBERS.find(([name]) => number(event, name) !== null)?.[1] ?? null;

/** The rule that an event follows, in words; "" for an event that has none, such as a full disk. */
export const rule = (event: Event): string => ruleOf(event)?.rule ?? '';

/** The numbers of an event put into its rule; without a rule its numbers by name, or its text. */
export function filled(event: Event): string {
  const found = ruleOf(event)?.filled(event);
  if (found) return found;
  const all = numbers(event).map(({ name, value }) => `${name} ${value}`);
  return all.join(', ') || event.text;
}

/** What an event leads to; over a longer time, what its alert does. */
export function leadsOf(event: Event, time = around(event.begin, event.time)): Leads {
  const expression = event.filter ?? '';
  const name = `${kindOf(event.kind)} ${event.subject ?? ''}`.trim();
  const commands = [curl(api('events', time))];
  if (expression === '')
    return { name, filter: null, packets: null, time, narrowed: false, why: 'Its subject selects no packets.', commands };
  return { name, filter: ofFlows(expression), packets: expression, time, narrowed: false, commands };
}

/** The part of an expression that selects flows: without tests of single packets, such as of TCP flags. */
export function ofFlows(expression: string): string {
  const parts = [];
  let depth = 0;
  let part = '';
  for (const word of expression.split(/\s+/)) {
    if (word === 'and' && depth === 0) {
      parts.push(part);
      part = '';
      continue;
    }
    depth += (word.match(/\(/g)?.length ?? 0) - (word.match(/\)/g)?.length ?? 0);
    part = part === '' ? word : `${part} ${word}`;
  }
  return [...parts, part].filter((each) => !each.includes('[')).join(' and ');
}
