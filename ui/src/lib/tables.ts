// Tables of functions: what they show, as text. Their columns are those of any function, so that nothing here knows one by name.

import type { FunctionColumn, FunctionRow, FunctionTable } from './types';
import { equals, operand } from './fieldtest';
import { brief, stamp } from './time';
import { bytes, exact } from './units';
import { inCapitals, titleOf } from './values';

/** Parts of keys beside fields: the ends of a flow, and the site of a request or connection. */
const ENDS: Record<string, { title: string; filter: (value: unknown) => string }> = {
  source: { title: 'Client', filter: (value) => `flow.client = ${String(value)}` },
  destination: { title: 'Server', filter: (value) => `flow.server = ${String(value)}` },
  site: {
    title: 'Site',
    filter: (value) => `(${['http.host', 'tls.server_name'].map((field) => `${field} = ${operand(value)}`).join(' or ')})`,
  },
  port: { title: 'Port', filter: (value) => `dst port ${String(value)}` },
};

/** The heading of a column. */
export function heading(column: FunctionColumn): string {
  if (column.field === null && column.name in ENDS) return ENDS[column.name]?.title ?? column.name;
  const quantile = /^(.+)_(p(\d\d)|max)$/.exec(column.name);
  if (column.kind === 'statistic' && quantile) {
    return quantile[2] === 'max' ? 'Largest' : quantile[3] === '50' ? 'Median' : `${quantile[3]} %`;
  }
  return titleOf(column.field?.split('.')[1] ?? column.name);
}

/** A value as text. */
export function shown(column: FunctionColumn, value: unknown, zone: string): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'number') return String(value);
  if (column.kind === 'key') return String(value);
  if (column.unit === 'seconds' || column.unit === 's') return brief(value);
  if (column.unit === 'time') return stamp(value, zone);
  if (column.unit === 'bytes') return bytes(value);
  return Number.isInteger(value) ? exact(value) : String(Number(value.toPrecision(3)));
}

/** The key of a row: its parts, joined. A part without a value is a dash, and is left out at the end. */
export function label(table: FunctionTable, row: FunctionRow): string {
  const parts = table.columns.flatMap((column, at) => {
    const value = row.values[at];
    return column.kind === 'key' ? [value === null || value === '' ? '–' : String(value)] : [];
  });
  while (parts.length > 1 && parts.at(-1) === '–') parts.pop();
  return parts.join(' · ');
}

/** The expression of a part of a row's key; "" if no stored flow could match it. */
export function filterOf(column: FunctionColumn, value: unknown): string {
  if (value === null || value === undefined || value === '') return '';
  if (column.field !== null) {
    const [table = '', field = ''] = column.field.split('.');
    return equals(table, field, value);
  }
  return ENDS[column.name]?.filter(value) ?? '';
}

/** The expression of a row's key. */
export function rowFilter(table: FunctionTable, row: FunctionRow): string {
  if (row.filter !== '') return row.filter;
  const parts = table.columns.flatMap((column, at) => {
    const filter = column.kind === 'key' ? filterOf(column, row.values[at]) : '';
    return filter === '' ? [] : [filter];
  });
  return parts.join(' and ');
}

/** Names of fields as a person says them. Others are named by their field and table. */
const SPOKEN: Record<string, string> = {
  'stream.first_byte': 'time to first byte of the answer',
  'stream.handshake': 'TCP handshake',
  'stream.handshake_responder': 'TCP handshake, to the server and back',
  'stream.handshake_initiator': 'TCP handshake, to the client and back',
  'dns.rtt': 'time to the answer of DNS',
  'dns.query': 'name asked of DNS',
  'http.status_code': 'status code of HTTP',
  'http.user_agent': 'user agent of HTTP',
  'http.host': 'host of HTTP',
  'tls.server_name': 'server name of TLS',
  'tls.version': 'TLS version',
};

/** A field, or another part of a key, in words. */
function spoken(part: string): string {
  const [table = '', field] = part.split('.');
  if (field === undefined) return part;
  return SPOKEN[part] ?? `${lower(titleOf(field))} of ${inCapitals(table)}`;
}

/** Without its capital letter, unless the word is all capitals. */
function lower(title: string): string {
  return /^[A-Z][a-z]/.test(title) ? title.charAt(0).toLowerCase() + title.slice(1) : title;
}

function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Parts of a list in words: "a", "a and b", "a, b and c". */
function listed(parts: string[]): string {
  return parts.length < 2 ? (parts[0] ?? '') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;
}

/** The expression of the packets of a row that no flow stands for. */
export const packetsOf = (row: FunctionRow & { packets?: string }): string | undefined => row.packets || undefined;

/** What the function of a table counts, as a person says it; for a function without such words its call. */
export function called(table: FunctionTable): string {
  const [name = '', ...words] = table.call.split(/\s+/);
  // The value of the first argument can stand without its name.
  const given = words.length % 2 === 1 ? [['', words.shift() ?? '']] : [];
  for (let at = 0; at + 1 < words.length; at += 2) given.push([words[at] ?? '', words[at + 1] ?? '']);
  const value = (argument: string) => given.find(([each]) => each === argument)?.[1];
  const unnamed = value('') ?? '';
  const keys = (text: string | undefined) =>
    listed(
      (text ?? '')
        .split(',')
        .filter((each) => each !== '')
        .map(spoken),
    );
  const by = (text: string) => (text === '' ? '' : ` by ${text}`);
  if (words.length === 0 && given.length === 0 && name !== 'records' && name !== 'top') return table.call;
  const ofRecords = table.columns.some((column) => column.name === 'records');
  switch (name) {
    case 'quantiles':
      return upper(spoken(value('of') ?? unnamed) + by(keys(value('by'))));
    case 'distinct':
      return `Distinct values: ${keys(value('of') ?? unnamed)}`;
    case 'top':
      return `${ofRecords ? 'Most frequent' : 'Heaviest'}: ${keys(value('by') ?? unnamed) || 'source'}`;
    case 'records':
      return 'Number of records';
    default:
      return table.call.replace(/ rows \d+/, '');
  }
}

/** Whether the rows of a table have keys. */
export function isKeyed(table: FunctionTable): boolean {
  return table.columns.some((column) => column.kind === 'key');
}

/** Whether keys have more parts than a bar has room for, so that they stand in columns. */
export function isLong(table: FunctionTable): boolean {
  const PARTS = 3;
  return table.columns.filter((column) => column.kind === 'key').length > PARTS;
}

/** A value of a column with its unit. */
function quantity(column: FunctionColumn | undefined, value: number): string {
  if (column?.unit === 'bytes') return bytes(value);
  return `${exact(value)} ${column?.unit || column?.name || ''}`.trim();
}

/** What a table leaves out: "37 others: 412 records; any other at most 3". */
export function others(table: FunctionTable): string {
  const ranked = table.ranked === null ? undefined : table.columns[table.ranked];
  const parts = [];
  if (table.others.keys > 0) {
    const sum = table.others.sum !== null && ranked ? `: ${quantity(ranked, table.others.sum)}` : '';
    parts.push(`and ${exact(table.others.keys)} other${table.others.keys === 1 ? '' : 's'}${sum}`);
  }
  if (table.absent > 0) parts.push(`anything not listed: at most ${quantity(ranked, table.absent)}`);
  return parts.join('; ');
}
