// What a mute can be made of: events of a kind, or alerts of a rule.

import { kindOf } from './alerts';
import { endsOf } from './rules';
import type { Event, MuteScope, RecordRow, RuleAlertsRow } from './types';

export interface Mutable {
  /** In words. */
  name: string;
  /** The kind of events; null for alerts of a rule. */
  kind: string | null;
  /** The rule by its group and its number, "1:2013028"; null for events. */
  rule: string | null;
  /** What is filled in: hosts, and a port with its protocol. */
  source: string;
  target: string;
  port: string;
}

/** Events like one. */
export const likeEvent = ({ kind, host, target, port }: Event): Mutable => ({
  name: kindOf(kind),
  kind,
  rule: null,
  source: host ?? '',
  target: target ?? '',
  port: port ?? '',
});

/** Alerts of a rule, in all of its revisions. */
export const likeRule = ({ gid, sid }: Pick<RuleAlertsRow, 'gid' | 'sid'>): Mutable => ({
  name: `rule ${gid}:${sid}`,
  kind: null,
  rule: `${gid}:${sid}`,
  source: '',
  target: '',
  port: '',
});

/** Alerts of a rule like one: between its hosts. */
export function likeAlert(rule: Pick<RuleAlertsRow, 'gid' | 'sid'>, alert: RecordRow): Mutable {
  const { source, destination } = endsOf(alert);
  return { ...likeRule(rule), source: source.address, target: destination.address };
}

/** What a mute hides, in words. */
export const scopeOf = ({ kinds, rule, source, target, port }: MuteScope): string =>
  [
    rule ? `rule ${rule}` : kinds?.length ? kinds.map(kindOf).join(', ') : 'every kind',
    source ? `of ${source}` : '',
    target ? `to ${target}` : '',
    port ? `at ${port}` : '',
  ]
    .filter((part) => part !== '')
    .join(' ');
