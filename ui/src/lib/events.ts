// Events as rows of a table.

import type { Event } from './types';

/** Severities, the most urgent first. */
const URGENT = ['error', 'warning', 'notice'];

/** Events without notes about the sensor: open ones first, then the most urgent, then the latest. */
export function ordered(events: Event[]): Event[] {
  const rank = (event: Event) => URGENT.indexOf(event.severity);
  return events
    .filter((event) => event.id !== null)
    .sort((one, other) => Number(other.open) - Number(one.open) || rank(one) - rank(other) || other.time - one.time);
}

/** Whether the severity of an event stands out. */
export function tone(event: Event): 'bad' | 'warn' | '' {
  return event.severity === 'error' ? 'bad' : event.severity === 'warning' ? 'warn' : '';
}
