// Completion of expressions: what may stand at the cursor, and the choices that fit what is typed. Values are loaded by the caller.

import type { ExpressionWords, TestedField } from './types';
import { operand } from './fieldtest';

export interface Choice {
  /** What it inserts. */
  text: string;
  /** What it is, such as the help of a field. */
  help: string;
  kind: 'word' | 'table' | 'field' | 'operator' | 'host' | 'service' | 'value';
  /** Whether a blank follows; after a table's point the name of a field follows. */
  open?: boolean;
}

/** The place of the cursor. */
export interface Place {
  /** The part of the text that a choice replaces. */
  start: number;
  end: number;
  /** The typed text of it, up to the cursor, without its opening quote. */
  typed: string;
  /** What may stand there. */
  wants: 'start' | 'operator' | 'value' | 'list' | 'host' | 'port' | 'joint';
  /** The field of an operator or a value; `list`: what follows a value of a list. */
  field: { table: string; name: string; kind: TestedField['kind'] } | null;
}

export interface Host {
  label: string;
  name: string | null;
}

interface Token {
  text: string;
  start: number;
  end: number;
}

/** Joints between two tests. */
const JOINTS = ['and', 'or'];
const HOSTS = new Set(['host', 'src', 'dst']);
const PORTS = new Set(['port']);
/** Operators before a list in parentheses. */
const LISTS = new Set(['in', 'under']);
/** Words that are offered first where a test begins. */
const FIRST = ['host', 'net', 'port', 'tcp', 'udp', 'icmp', 'icmp6', 'ip', 'ip6', 'arp', 'vlan', 'src', 'dst', 'not'];
/** The most choices. */
export const MOST = 12;

function tokens(text: string): Token[] {
  const found: Token[] = [];
  const each = /"(?:[^"\\]|\\.)*"?|'[^']*'?|[(),]|!=|<=|>=|==|[=<>~!]|[^\s(),=<>~!"']+/g;
  for (const match of text.matchAll(each)) found.push({ text: match[0], start: match.index, end: match.index + match[0].length });
  return found;
}

/** The field of a name in the form `table.field`, by its own name or an alias. */
export function fieldOf(words: ExpressionWords, text: string): { table: string; field: TestedField } | null {
  const dot = text.indexOf('.');
  if (dot <= 0) return null;
  const table = words.tables.find((each) => each.name === text.slice(0, dot));
  const name = text.slice(dot + 1);
  const field = table?.fields.find((each) => each.name === name || each.aliases.includes(name));
  return table && field ? { table: table.name, field } : null;
}

/** The field whose list of values in parentheses is open at the end; `null` if none is. */
function listOf(words: string[]): string | null {
  const open = words.lastIndexOf('(');
  if (open < 2 || words.indexOf(')', open) >= 0 || !LISTS.has(words[open - 1] ?? '')) return null;
  return words[open - 2] ?? null;
}

/** What may stand at the cursor. */
export function placeOf(text: string, cursor: number, words: ExpressionWords): Place {
  const all = tokens(text);
  const own = all.find((token) => token.start < cursor && cursor <= token.end && !/^[(),=<>~!]/.test(token.text)) ?? null;
  const before = all.filter((token) => token.end <= (own?.start ?? cursor));
  const [second, last] = [before.at(-2)?.text ?? '', before.at(-1)?.text ?? ''];
  const typed = text.slice(own?.start ?? cursor, cursor).replace(/^["']/, '');
  const place = { start: own?.start ?? cursor, end: own?.end ?? cursor, typed };
  const named = (name: string) => {
    const found = fieldOf(words, name);
    return found && { table: found.table, name: found.field.name, kind: found.field.kind };
  };
  const listed = listOf(before.map((token) => token.text));
  if (listed !== null) {
    const field = named(listed);
    if (field) return last === '(' || last === ',' ? { ...place, wants: 'value', field } : { ...place, wants: 'list', field };
  }
  const field = named(second);
  if (field && words.operators.includes(last)) return { ...place, wants: 'value', field };
  if (named(last)) return { ...place, wants: 'operator', field: named(last) };
  if (HOSTS.has(last)) return { ...place, wants: 'host', field: null };
  if (PORTS.has(last)) return { ...place, wants: 'port', field: null };
  const begins = last === '' || last === '(' || last === '!' || last === 'not' || JOINTS.includes(last);
  // Behind the word of a protocol a test may go on: `tcp port 80`, `tcp and ...`.
  const goesOn = ['tcp', 'udp', 'sctp', 'ip', 'ip6', 'src', 'dst'].includes(last);
  return { ...place, wants: begins || goesOn ? 'start' : 'joint', field: null };
}

/** Choices that begin with the typed text come before those that contain it. */
function fitting<T>(all: T[], typed: string, text: (each: T) => string[]): T[] {
  const low = typed.toLowerCase();
  if (low === '') return all;
  const begins = all.filter((each) => text(each).some((one) => one.toLowerCase().startsWith(low)));
  const contains = all.filter((each) => !begins.includes(each) && text(each).some((one) => one.toLowerCase().includes(low)));
  return [...begins, ...contains];
}

/** The choices of a place; `values` are those of its field, the most frequent first. */
export function choices(
  place: Place,
  words: ExpressionWords,
  known: { hosts: Host[]; services: Host[]; values: { value: unknown; count: number }[] },
): Choice[] {
  const { typed } = place;
  const word = (text: string, help = ''): Choice => ({ text, help, kind: 'word' });
  const hosts = (front: string): Choice[] =>
    fitting(known.hosts, typed, (host) => [host.label, host.name ?? '']).map((host) => ({
      text: `${front}${host.label}`,
      help: host.name ?? '',
      kind: 'host',
    }));
  const services = (front: (label: string) => string): Choice[] =>
    fitting(known.services, typed, (service) => [service.label, service.name ?? '', service.label.split('/').at(-1) ?? '']).map(
      (service) => ({ text: front(service.label), help: [service.label, service.name ?? ''].join(' ').trim(), kind: 'service' }),
    );
  switch (place.wants) {
    case 'operator':
      return [
        ...fitting(words.operators, typed, (each) => [each]).map((text): Choice => ({ text, help: operatorHelp(text), kind: 'operator' })),
        ...fitting(JOINTS, typed, (each) => [each]).map((text) => word(text)),
      ].filter((choice) => allowed(choice, place));
    case 'value':
      return fitting(known.values, typed, (each) => [String(each.value)])
        .slice(0, MOST)
        .map((each) => ({ text: operand(each.value), help: `${each.count}`, kind: 'value' }));
    case 'list':
      return fitting([',', ')'], typed, (each) => [each]).map((text) => word(text, text === ',' ? 'another value' : 'end of the list'));
    case 'host':
      return hosts('').slice(0, MOST);
    case 'port':
      return services((label) => numberOf(label)).slice(0, MOST);
    case 'joint':
      return fitting([...JOINTS], typed, (each) => [each]).map((text) => word(text));
    default:
  }
  const dot = typed.indexOf('.');
  const table = dot > 0 ? words.tables.find((each) => each.name === typed.slice(0, dot).toLowerCase()) : undefined;
  if (table)
    return fitting(table.fields, typed.slice(dot + 1), (field) => [field.name, ...field.aliases])
      .slice(0, 60)
      .map((field) => ({ text: `${table.name}.${field.name}`, help: field.help, kind: 'field' }));
  if (typed === '') return FIRST.map((text) => word(text));
  const low = typed.toLowerCase();
  const own = [...FIRST, ...words.words.filter((each) => !FIRST.includes(each))].filter((each) => each.startsWith(low) && each !== low);
  const tables = words.tables
    .filter((each) => each.name.startsWith(low))
    .map((each): Choice => ({ text: `${each.name}.`, help: each.help, kind: 'table', open: true }));
  const fields = words.tables.flatMap((each) =>
    each.fields
      .filter((field) => field.name.startsWith(low) || field.aliases.some((alias) => alias.startsWith(low)))
      .map((field): Choice => ({ text: `${each.name}.${field.name}`, help: field.help, kind: 'field' })),
  );
  return [
    ...own.slice(0, 4).map((text) => word(text)),
    ...hosts('host ').slice(0, 4),
    ...services(expressionOf).slice(0, 3),
    ...tables.slice(0, 4),
    ...fields.slice(0, 5),
  ].slice(0, MOST);
}

/** `tcp/443` or `443/tcp` → `443`. */
function numberOf(label: string): string {
  return label.split('/').find((part) => /^\d+$/.test(part)) ?? label;
}

/** `tcp/443` → `tcp port 443`; a protocol without ports is its own word. */
function expressionOf(label: string): string {
  const [port, protocol] = [numberOf(label), label.split('/').find((part) => !/^\d+$/.test(part)) ?? ''];
  return port === label ? label : `${protocol} port ${port}`;
}

function operatorHelp(operator: string): string {
  const helps: Record<string, string> = {
    '=': 'is',
    '!=': 'is not',
    '<': 'below',
    '<=': 'at most',
    '>': 'above',
    '>=': 'at least',
    '~': 'matches a regular expression',
    contains: 'contains a text',
    begins: 'begins with a text',
    ends: 'ends with a text',
    under: 'a domain, or one of a list, and the names below it',
    in: 'one of a list in parentheses',
  };
  return helps[operator] ?? '';
}

/** Operators of text are not offered for numbers, nor those of order for text. */
function allowed(choice: Choice, place: Place): boolean {
  if (choice.kind !== 'operator') return true;
  const isText = place.field?.kind === 'text';
  if (['contains', 'begins', 'ends', 'under', '~'].includes(choice.text)) return isText;
  if (['<', '<=', '>', '>='].includes(choice.text)) return !isText && place.field?.kind !== 'bool';
  return true;
}

/** The text after a choice, and the place of the cursor. */
export function completed(text: string, place: Place, choice: Choice): { text: string; cursor: number } {
  const rest = text.slice(place.end);
  const blank = choice.open || rest.startsWith(' ') ? '' : ' ';
  const before = text.slice(0, place.start) + choice.text + blank;
  return { text: before + rest, cursor: before.length + (choice.open || blank !== '' ? 0 : 1) };
}
