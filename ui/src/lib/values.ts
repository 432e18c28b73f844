// Values of protocol records as text, by the kind of their field. Whatever comes is shown; nothing of it is markup.

import type { FieldKind } from './api';
import { stamp } from './time';
import { exact } from './units';

export function text(value: unknown, kind: FieldKind, zone: string): string {
  if (value === null || value === undefined) return '';
  if (kind === 'time' && typeof value === 'number') return stamp(value, zone);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return kind === 'number' && Number.isInteger(value) ? exact(value) : String(Number(value.toPrecision(6)));
  if (Array.isArray(value)) return value.map((each) => text(each, 'text', zone)).join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function host(address: string, port: number): string {
  return port === 0 ? address : address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
