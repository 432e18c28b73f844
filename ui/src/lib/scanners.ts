// The lists of hosts that scan, ask in vain or are flooded: which function a stored list is of, the expressions of its rows, and what
// a row has of ports.

import type { FunctionRow, FunctionTable, SignatureRow, SubscriptionTables } from './types';

export interface Shape {
  name: string;
  /** What its lists answer. */
  title: string;
  /** By what its rows are ranked. */
  ranked: string;
  /** Columns by which a list is known, since a store keeps no calls of functions. */
  columns: string[];
  /** Lines of weir.toml that add one. */
  toml: string;
}

const added = (name: string, level: string, chain: string): string =>
  ['[[subscription]]', `name = "${name}"`, ...(level === 'packet' ? [] : [`level = "${level}"`]), `chain = ["${chain}"]`].join('\n');

export const SHAPES: Shape[] = [
  {
    name: 'syn',
    title: 'TCP: who tries to begin connections',
    ranked: 'by work: SYNs and FINs sent, and RSTs received',
    columns: ['work', 'port_sample'],
    toml: added('connection attempts', 'packet', 'syn'),
  },
  {
    name: 'fanout',
    title: 'Attempts: who tries to reach what',
    ranked: 'by distinct addresses or ports of flows',
    columns: ['flows', 'refused', 'silent'],
    toml: [added('scanned ports', 'flow', 'fanout by vertical'), added('scanned addresses', 'flow', 'fanout by horizontal')].join('\n\n'),
  },
  {
    name: 'icmperror',
    title: 'ICMP errors: who asks in vain',
    ranked: 'by errors of ICMP',
    columns: ['errors', 'port_unreachable'],
    toml: added('icmp errors', 'packet', 'icmperror'),
  },
  {
    name: 'udp',
    title: 'UDP: who sends into the void',
    ranked: 'by weight: (sent - received) x errors',
    columns: ['weight', 'class', 'sent'],
    toml: added('udp work', 'packet', 'udp'),
  },
  {
    name: 'flood',
    title: 'Floods: who is flooded, and with what',
    ranked: 'by packets received',
    columns: ['kind', 'sources', 'answered'],
    toml: added('floods', 'packet', 'flood'),
  },
  {
    name: 'scans',
    title: 'Scans among chosen flows',
    ranked: 'by ports or hosts that failed',
    columns: ['failed', 'refused_flows', 'unanswered_flows'],
    toml: added('scans of servers', 'flow', 'scans').replace('chain', 'where = "dst net 192.0.2.0/24"\nchain'),
  },
  {
    name: 'apps',
    title: 'Applications: what tells peers of file sharing from scanners',
    ranked: 'by flows with an identified protocol',
    columns: ['initiated', 'flags', 'applications'],
    toml: added('applications', 'flow', 'apps'),
  },
];

/** The place of a column; -1 without it. */
const place = (table: FunctionTable, name: string): number => table.columns.findIndex((column) => column.name === name);

export const shapeOf = (table: FunctionTable): Shape | null =>
  SHAPES.find((shape) => shape.columns.every((name) => place(table, name) >= 0)) ?? null;

/** A value of a row by the name of its column; null without one. */
function value(table: FunctionTable, row: FunctionRow, name: string): unknown {
  const at = place(table, name);
  return at < 0 ? null : (row.values[at] ?? null);
}

/** Kinds of first packets by the protocol that their ports are of. */
const OVER: Record<string, string> = {
  ...Object.fromEntries(['syn', 'connect', 'fin', 'maimon', 'xmas', 'null', 'ack', 'other'].map((kind) => [kind, 'tcp'])),
  ...{ udp: 'udp', sctp: 'sctp' },
};
/** IP protocols with ports. */
const PORTED: Record<number, string> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };

/** The expression of the flows of a row; "" for a row that no flow stands for. */
export function flowsOf(table: FunctionTable, row: FunctionRow): string {
  const of = (name: string) => value(table, row, name);
  const port = of('port');
  const parts: string[] = [];
  switch (shapeOf(table)?.name) {
    case 'fanout': {
      // What a host asks on its link is no flow.
      if (/^(arp|nd)$/.test(String(of('kind')))) break;
      parts.push(`flow.client = ${String(of('source'))}`);
      if (of('target') !== null) parts.push(`flow.server = ${String(of('target'))}`);
      const kind = String(of('kind'));
      const protocol = OVER[kind];
      if (protocol) parts.push(typeof port === 'number' ? `${protocol} dst port ${port}` : protocol);
      else if (kind !== 'ip') parts.push('(icmp or icmp6)');
      break;
    }
    case 'scans':
      parts.push(`src host ${String(of('source'))}`);
      if (of('target') !== null) parts.push(`dst host ${String(of('target'))}`);
      parts.push(typeof port === 'number' ? `tcp dst port ${port}` : 'tcp');
      break;
    case 'flood': {
      parts.push(`host ${String(of('destination'))}`);
      const protocol = PORTED[Number(of('protocol'))];
      if (protocol) parts.push(typeof port === 'number' ? `${protocol} port ${port}` : protocol);
      else if (of('kind') === 'icmp') parts.push('(icmp or icmp6)');
      break;
    }
    default: {
      const host = of('host');
      if (host !== null) parts.push(`host ${String(host)}`);
      else {
        const protocol = PORTED[Number(of('protocol'))] ?? String(of('protocol') ?? '');
        if (typeof port === 'number' && /^(tcp|udp|sctp)$/.test(protocol)) parts.push(`${protocol} dst port ${port}`);
      }
    }
  }
  return parts.join(' and ');
}

/** The expression of what a host asks on its link, by ARP or by neighbour discovery, which is no flow; "" for other rows. */
export function linkPackets(table: FunctionTable, row: FunctionRow): string {
  const kind = shapeOf(table)?.name === 'fanout' ? String(value(table, row, 'kind')) : '';
  const over = { arp: 'arp', nd: 'icmp6' }[kind];
  return over ? `${over} and src host ${String(value(table, row, 'source'))}` : '';
}

/** A subscription with those of its tables that a shape is of, each row with the expression of its flows; null without any. */
export function shaped(of: SubscriptionTables, shape: Shape): SubscriptionTables | null {
  const tables = of.tables
    .filter((table) => shapeOf(table) === shape)
    .map((table) => ({
      ...table,
      rows: table.rows.map((row) => ({ ...row, filter: flowsOf(table, row), packets: linkPackets(table, row) })),
    }));
  return tables.length > 0 ? { ...of, tables } : null;
}

/** A port of a host's sample, with its SYNs. */
export interface Sampled {
  port: number;
  count: number;
}

/** The signature of a host: the destination ports of its SYNs, as far as they were sampled. */
export interface Signature {
  host: string;
  /** The most frequent first. */
  ports: Sampled[];
  /** SYNs without ACK that it sent, of which the sample has a part. */
  syns: number;
  /** Distinct ports, and addresses. */
  ofPorts: number;
  ofTargets: number;
  /** Work weight in percent, and Ourmon's flags. */
  weight: number;
  flags: string;
}

/** A sample as the API has it: `445:120 80:3`. */
export function sample(text: unknown): Sampled[] {
  return String(text ?? '')
    .split(/\s+/)
    .map((each) => each.split(':').map(Number))
    .flatMap(([port, count]) => (port === undefined || count === undefined || Number.isNaN(port + count) ? [] : [{ port, count }]))
    .sort((one, other) => other.count - one.count || one.port - other.port);
}

/** The signatures of the hosts of a list of SYNs, in its order; those without a sample are left out. */
export function signatures(table: FunctionTable): Signature[] {
  return table.rows.flatMap((row) => {
    const count = (name: string) => Number(value(table, row, name) ?? 0);
    const ports = sample(value(table, row, 'port_sample'));
    if (ports.length === 0) return [];
    const sampled = ports.reduce((sum, each) => sum + each.count, 0);
    return [
      {
        host: String(value(table, row, 'host')),
        ports,
        syns: Math.max(sampled, count('syn') - count('synack')),
        ofPorts: count('ports'),
        ofTargets: count('targets'),
        weight: count('weight'),
        flags: String(value(table, row, 'flags') ?? ''),
      },
    ];
  });
}

/** The place of a port on the axis of ports, in percent: by logarithms, since most signatures have low ports. */
export const portPlace = (port: number): number => (100 * Math.log(Math.max(1, port))) / Math.log(65_535);

/** A port as a mark of the axis has it. */
export const portWord = (port: number): string => (port >= 1000 && port < 65_535 ? `${port / 1000} k` : String(port));

/** Whether the store knows the ports of a host as a signature: the row, null if it does not, or if the sample lacks ports of the host. */
export function knownAs(host: Signature, known: SignatureRow[]): SignatureRow | null {
  if (host.ports.length !== host.ofPorts) return null;
  const ports = host.ports.map(({ port }) => port).sort((one, other) => one - other);
  return known.find((row) => row.ports.join() === ports.join()) ?? null;
}

/** The series of hosts that may be worms in the list of SYNs of a subscription: first the total, then its two parts. */
export function wormsOf(subscription: string): { id: string; line: string }[] {
  const part = subscription.replaceAll('%', '%25').replaceAll('/', '%2f').replaceAll(',', '%2c');
  return ['total', 'us', 'them'].map((line) => ({ id: `worms/${part}/${line}`, line }));
}

/** States of flows that nothing answered, or that were refused. */
export const FAILED = ['S0', 'REJ', 'RSTOS0', 'SH'].map((state) => `flow.state = ${state}`).join(' or ');

/** Puts an expression together with that of flows that failed. */
export const failedOf = (filter: string): string => (filter === '' ? FAILED : `(${FAILED}) and (${filter})`);
