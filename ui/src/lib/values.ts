// Values of protocol records as text, by the kind of their field. Any value is shown, and never as markup.

import type { FieldKind } from './api';
import { stamp } from './time';

export function text(value: unknown, kind: FieldKind, zone: string): string {
  if (value === null || value === undefined) return '';
  if (kind === 'time' && typeof value === 'number') return stamp(value, zone);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  // Without digit grouping, so that it can be searched for: many numbers are names (a port, an id, a type).
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
  if (Array.isArray(value))
    return value.map((each) => text(each, 'text', zone)).join(value.some((each) => typeof each === 'object') ? '\n' : ', ');
  if (typeof value === 'object') {
    // A header or another pair of name and value; any other object is shown as JSON.
    const { name, value: what, ...more } = value as Record<string, unknown>;
    if (typeof name === 'string' && what !== undefined && Object.keys(more).length === 0) return `${name}: ${text(what, 'text', zone)}`;
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function host(address: string, port: number): string {
  return port === 0 ? address : address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
