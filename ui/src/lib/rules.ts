// Alerts of rules: the name of a rule, the packet in which it matched, and what both lead to.

import { curl } from './commands';
import { api } from './api';
import { around, type Leads } from './leads';
import type { RecordRow, RuleAlertsRow } from './types';

/** A rule by its group, its number and its revision: "1:2013028:7". */
export const ruleOf = ({ gid, sid, rev }: Pick<RuleAlertsRow, 'gid' | 'sid' | 'rev'>): string => `${gid}:${sid}:${rev}`;

/** Priority 1 is the most important; 3 and what follows are for information. */
export const toneOf = (severity: number | null): 'bad' | 'warn' | '' => (severity === 1 ? 'bad' : severity === 2 ? 'warn' : '');

export interface End {
  address: string;
  port: number;
}

/** Who sent the packet in which the rule matched, and to whom. The ends of a record are those of its flow: client and server. */
export function endsOf(alert: RecordRow): { source: End; destination: End } {
  const client = { address: alert.source, port: alert.source_port };
  const server = { address: alert.destination, port: alert.destination_port };
  return alert.values.direction === 'to_client' ? { source: server, destination: client } : { source: client, destination: server };
}

/** What a rule leads to: the flows in which it matched, over the time of all its alerts. */
export function leadsOfRule(rule: RuleAlertsRow): Leads {
  const time = around(rule.first, rule.last);
  return {
    name: `rule ${ruleOf(rule)}`,
    filter: rule.filter,
    time,
    commands: [curl(api('records/alert', { filter: rule.filter, ...time }))],
  };
}

/** The expression of the flow of an alert. Protocols without ports have port 0. */
export function flowOf(alert: RecordRow): string {
  const hosts = `host ${alert.source} and host ${alert.destination}`;
  const ports = [alert.source_port, alert.destination_port].filter((port) => port > 0);
  return [hosts, ...ports.map((port) => `port ${port}`)].join(' and ');
}

/** What an alert leads to: its flow. */
export const leadsOfAlert = (alert: RecordRow, rule: RuleAlertsRow): Leads => ({
  name: `alert of rule ${ruleOf(rule)}`,
  filter: flowOf(alert),
  narrowed: false,
});
