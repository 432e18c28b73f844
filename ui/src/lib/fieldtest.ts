// Tests of fields, as a click on a value makes them: `table.field = value`.

/** Words of expressions that end a value without quotes. */
const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*$/;
const RESERVED = new Set(['and', 'or', 'not', 'in', 'now', 'contains', 'begins', 'ends', 'under']);

/** A value as an operand: numbers and simple words as they are, other text in double quotes. */
export function operand(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (PLAIN.test(text) && !RESERVED.has(text.toLowerCase())) return text;
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** The test that a field has a value; without one, that it has none. */
export function equals(table: string, field: string, value: unknown): string {
  const name = `${table}.${field}`;
  if (value === null || value === undefined || value === '') return `not ${name}`;
  return `${name} = ${operand(value)}`;
}

/** The expression of a service as lists name it: `tcp/443`; a protocol without ports is its own word. */
export function serviceOf(label: unknown): string {
  const [protocol = '', port] = String(label ?? '').split(/[/ ]/);
  return port && /^\d+$/.test(port) ? `${protocol} dst port ${port}` : /^[a-z0-9]+$/.test(protocol) ? protocol : '';
}

/** What flows can be counted by, with the expression of a value. */
export const FLOW_DIMENSIONS: { key: string; title: string; filter: (value: unknown) => string }[] = [
  { key: 'flow.service', title: 'service', filter: (value) => equals('flow', 'service', value) },
  { key: 'service', title: 'server port', filter: serviceOf },
  { key: 'client', title: 'client', filter: (value) => `flow.client = ${value}` },
  { key: 'server', title: 'server', filter: (value) => `flow.server = ${value}` },
  { key: 'host', title: 'host', filter: (value) => `host ${value}` },
  { key: 'flow.name', title: 'name', filter: (value) => equals('flow', 'name', value) },
  { key: 'protocol', title: 'protocol', filter: serviceOf },
  { key: 'state', title: 'state', filter: (value) => equals('flow', 'state', value) },
  { key: 'vlan', title: 'VLAN', filter: (value) => equals('flow', 'vlan', value) },
];
