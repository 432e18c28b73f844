// The columns of record tables: which are shown first, and their choice, order and width in the URL.

import type { TableInfo } from './types';

/** A column of a table of records: a field, or `time`, `client` or `server` of the record itself. */
export interface Shown {
  name: string;
  /** Pixels; without one as wide as its content. */
  width: number | null;
}

/** Columns of the record itself, which are not fields; a field of such a name stays a field. */
export const OWN = ['@time', '@client', '@server'] as const;

/** What is asked for first, by table; `@` marks columns of the record itself. */
const FIRST: Record<string, string[]> = {
  dns: ['@time', 'query', 'type_name', 'answers', 'rcode_name', 'rtt', '@client'],
  http: ['@time', 'host', 'method', 'uri', 'status_code', 'resp_mime_types', 'response_body_len', 'user_agent', '@client'],
  tls: ['@time', 'server_name', 'version', 'issuer', 'not_after', 'ja4', '@client', '@server'],
  x509: ['subject', 'issuer', 'not_after', 'dns_names', 'key_type', 'key_length', '@server', '@time'],
  files: ['@time', 'filename', 'mime_type', 'seen_bytes', 'source', 'sha256', '@client', '@server'],
};

/** Columns without a list of their own: as many fields. */
const FEW = 7;

/** The columns that a table shows without a choice; fields without a value in any row come last, so they are left out. */
export function defaults(table: TableInfo, used: (field: string) => boolean): Shown[] {
  const known = new Set(table.fields.map((field) => field.name));
  const own = FIRST[table.name]?.filter((name) => name.startsWith('@') || known.has(name));
  const names = own ?? [
    '@time',
    ...table.fields
      .map((field) => field.name)
      .filter(used)
      .slice(0, FEW),
    '@client',
    '@server',
  ];
  return names.map((name) => ({ name, width: null }));
}

/** The names of a table's columns. */
export function namesOf(table: TableInfo): Set<string> {
  return new Set<string>([...OWN, ...table.fields.map((field) => field.name)]);
}

/** `query,answers:240,@client` → columns; unknown names are left out. Null without a valid name. */
export function parse(text: string | null, known: Set<string>): Shown[] | null {
  if (text === null) return null;
  const found: Shown[] = [];
  for (const part of text.split(',')) {
    const [name = '', width = ''] = part.split(':');
    if (!known.has(name) || found.some((each) => each.name === name)) continue;
    const pixels = Number(width);
    found.push({ name, width: width !== '' && pixels >= 40 && pixels <= 2000 ? Math.round(pixels) : null });
  }
  return found.length > 0 ? found : null;
}

export function write(columns: Shown[]): string {
  return columns.map((each) => (each.width === null ? each.name : `${each.name}:${each.width}`)).join(',');
}

/** Moves a column by one place. */
export function moved(columns: Shown[], name: string, by: -1 | 1): Shown[] {
  const at = columns.findIndex((each) => each.name === name);
  const to = at + by;
  const all = [...columns];
  const [one] = at >= 0 ? all.splice(at, 1) : [];
  if (one) all.splice(Math.min(Math.max(to, 0), all.length), 0, one);
  return all;
}

/** Adds a column at the end, or removes it; the last one stays. */
export function toggled(columns: Shown[], name: string): Shown[] {
  if (!columns.some((each) => each.name === name)) return [...columns, { name, width: null }];
  return columns.length > 1 ? columns.filter((each) => each.name !== name) : columns;
}

export function widened(columns: Shown[], name: string, width: number | null): Shown[] {
  return columns.map((each) => (each.name === name ? { ...each, width } : each));
}
