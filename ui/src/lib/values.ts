// Values of protocol records as text, by the kind of their field. Any value is shown, and never as markup.

import type { FieldInfo } from './types';
export type FieldKind = FieldInfo['kind'];
import { brief, date, stamp } from './time';
import { bytes } from './units';

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

/** A value in a column of a table: sizes and durations with a unit. */
export function cell(field: Pick<FieldInfo, 'name' | 'kind'>, value: unknown, zone: string): string {
  if (typeof value === 'number' && field.kind === 'duration') return brief(value);
  if (typeof value === 'number' && field.kind === 'number' && /(^|_)(bytes|len|size)$/.test(field.name)) return bytes(value);
  return text(value, field.kind, zone);
}

const DAY = 86_400;

/** Seconds since the epoch of a time in a record, which some fields have as text in UTC. */
export function instantOf(value: unknown): number | null {
  if (typeof value === 'number') return value;
  const parsed = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:]+$/.test(value) ? Date.parse(`${value}Z`) : NaN;
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

/** A time until which something is valid: "2027-01-03, in 41 days", "2024-05-01, expired 3 days ago". */
export function expiry(value: unknown, now: number, zone: string): string {
  const end = instantOf(value);
  if (end === null) return text(value, 'time', zone);
  const days = Math.floor(Math.abs(end - now) / DAY);
  const count = days === 0 ? 'less than a day' : days === 1 ? '1 day' : `${days} days`;
  return `${date(end, zone)}, ${end < now ? `expired ${count} ago` : `in ${count}`}`;
}

/** Headings of fields whose names are longer than what they say. */
const TITLES: Record<string, string> = {
  type_name: 'type',
  rcode_name: 'code',
  rtt: 'round trip',
  status_code: 'status',
  resp_mime_types: 'type',
  response_body_len: 'bytes',
  server_name: 'name',
  not_after: 'expires',
  seen_bytes: 'bytes',
  mime_type: 'type',
  ja4: 'JA4',
  dns_names: 'names',
  uri: 'URI',
  sha256: 'SHA-256',
  bssid: 'BSSID',
  ssid: 'SSID',
  ja3: 'JA3',
  ip_proto: 'IP protocol',
  inner_vlan: 'inner VLAN',
};

/** Words of names that are written in capital letters. */
const CAPITALS = new Set([
  'quic',
  'smb',
  'smtp',
  'ftp',
  'sip',
  'ntp',
  'dhcp',
  'mqtt',
  'rdp',
  'imap',
  'pop3',
  'ldap',
  'ttl',
  'mac',
  'tcp',
  'udp',
  'ip',
  'vlan',
  'dns',
  'tls',
  'ssh',
  'http',
  'md5',
  'id',
  'rtt',
  'mss',
  'ja4',
  'ja3',
]);

/** A word as it is written within a sentence. */
export const inCapitals = (word: string): string => (CAPITALS.has(word) ? word.toUpperCase() : word);

/** The heading of a field's column. */
export function titleOf(name: string): string {
  const title = TITLES[name] ?? name.split('_').map(inCapitals).join(' ');
  return `${title.charAt(0).toUpperCase()}${title.slice(1)}`;
}

export function host(address: string, port: number): string {
  return port === 0 ? address : address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
