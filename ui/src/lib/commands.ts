// Command lines that produce the data of a view.

import type { Status } from './api';

/** The last part of a path. */
export function short(source: string): string {
  return (
    source
      .split('/')
      .filter((part) => part !== '')
      .at(-1) ?? source
  );
}

/** Quoted for a POSIX shell. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function curl(url: string): string {
  return `curl -s ${quote(new URL(url, location.origin).href)}`;
}

/** The weir command for the packets of a filter: of the analysed file, or of the link from now on. */
export function weir(status: Status | null, filter: string, rest = ''): string | null {
  const source = status?.source[0];
  if (!status || source === undefined || status.mode === 'store') return null;
  const from = status.mode === 'live' ? status.source.map((name) => `-i ${quote(name)}`).join(' ') : status.source.map(quote).join(' ');
  const whole = status.expression && filter ? `(${status.expression}) and (${filter})` : status.expression || filter;
  return ['weir', from, whole ? quote(whole) : '', rest].filter((part) => part !== '').join(' ');
}
