// Layout of a Sankey diagram: client, service, server. Widths are bytes; each ribbon has the bytes sent and received.

import type { Flow } from './api';

export interface Node {
  id: string;
  label: string;
  side: 0 | 1 | 2;
  value: number;
  filter: string;
  y: number;
  height: number;
  rest: boolean;
  name: string | null;
}
export interface Link {
  from: Node;
  to: Node;
  value: number;
  sent: number;
  y0: number;
  y1: number;
  height: number;
  filter: string;
}
export interface Sankey {
  nodes: Node[];
  links: Link[];
  height: number;
  total: number;
}

const GAP = 4;
/** Minimum height of a name. */
const SLOT = 13;

function endpoint(host: string): string {
  return `host ${host}`;
}

function service(flow: Flow): { label: string; filter: string } {
  const ported = flow.protocol === 'tcp' || flow.protocol === 'udp';
  const port = ported ? `${flow.destination_port}/${flow.protocol}` : flow.protocol;
  return {
    label: flow.service ? `${flow.service} ${port}` : port,
    filter: ported
      ? `${flow.protocol} port ${flow.destination_port}`
      : /^(icmp6?|igmp|sctp|esp|ah|vrrp)$/.test(flow.protocol)
        ? flow.protocol
        : '',
  };
}

/** Pixels per byte, so that a column with room for every name fits into `height`. */
function fit(values: number[], height: number): number {
  const sum = values.reduce((all, value) => all + value, 0);
  if (sum === 0) return 0;
  let low = 0;
  let high = height / sum;
  for (let step = 0; step < 40; step += 1) {
    const middle = (low + high) / 2;
    const need = values.reduce((all, value) => all + Math.max(SLOT, value * middle) + GAP, -GAP);
    if (need > height) high = middle;
    else low = middle;
  }
  return low;
}

/** The heaviest `count` nodes of each column are drawn; all others are one node. */
export function layout(flows: Flow[], count: number, height: number): Sankey {
  const names = flows.map((flow) => ({
    flow,
    sent: flow.bytes[0],
    value: flow.bytes[0] + flow.bytes[1],
    ends: [
      { id: flow.source, filter: endpoint(flow.source), name: null as string | null },
      { id: service(flow).label, filter: service(flow).filter, name: null as string | null },
      { id: flow.destination, filter: endpoint(flow.destination), name: flow.name },
    ],
  }));
  const columns = [0, 1, 2].map((side) => {
    const sums = new Map<string, Node>();
    for (const each of names) {
      const end = each.ends[side];
      if (!end) continue;
      const node = sums.get(end.id) ?? {
        id: end.id,
        label: end.id,
        side: side as 0 | 1 | 2,
        value: 0,
        filter: end.filter,
        y: 0,
        height: 0,
        rest: false,
        name: end.name,
      };
      node.value += each.value;
      node.name ??= end.name;
      sums.set(end.id, node);
    }
    const order = [...sums.values()].sort((a, b) => b.value - a.value);
    const shown = order.slice(0, order.length === count + 1 ? count + 1 : count);
    const left = order.slice(shown.length);
    const rest: Node | null = left.length
      ? {
          id: '',
          label: `${left.length} other`,
          side: side as 0 | 1 | 2,
          value: left.reduce((sum, node) => sum + node.value, 0),
          filter: '',
          y: 0,
          height: 0,
          rest: true,
          name: null,
        }
      : null;
    return { nodes: rest ? [...shown, rest] : shown, find: (id: string) => shown.find((node) => node.id === id) ?? rest };
  });
  const total = names.reduce((sum, each) => sum + each.value, 0);
  const scale = Math.min(
    ...columns.map((column) =>
      fit(
        column.nodes.map((node) => node.value),
        height,
      ),
    ),
  );
  for (const column of columns) {
    const slot = (node: Node) => Math.max(SLOT, node.value * scale);
    let y = (height - column.nodes.reduce((sum, node) => sum + slot(node) + GAP, -GAP)) / 2;
    for (const node of column.nodes) {
      node.height = node.value * scale;
      node.y = y + (slot(node) - node.height) / 2;
      y += slot(node) + GAP;
    }
  }
  const links = new Map<string, Link>();
  for (const each of names) {
    for (const side of [0, 1] as const) {
      const from = columns[side]?.find(each.ends[side]?.id ?? '');
      const to = columns[side + 1]?.find(each.ends[side + 1]?.id ?? '');
      if (!from || !to) continue;
      const key = `${side} ${from.id} ${to.id}`;
      const link = links.get(key) ?? {
        from,
        to,
        value: 0,
        sent: 0,
        y0: 0,
        y1: 0,
        height: 0,
        filter: from.filter && to.filter ? `${from.filter} and ${to.filter}` : from.filter || to.filter,
      };
      link.value += each.value;
      link.sent += each.sent;
      links.set(key, link);
    }
  }
  const all = [...links.values()];
  const used = new Map<Node, [number, number]>();
  const take = (node: Node, side: 0 | 1, size: number) => {
    const now = used.get(node) ?? [0, 0];
    const at = node.y + now[side];
    now[side] += size;
    used.set(node, now);
    return at;
  };
  // In the order of the other end, so that few ribbons cross.
  for (const link of [...all].sort((a, b) => a.from.y - b.from.y || a.to.y - b.to.y)) {
    link.height = link.value * scale;
    link.y0 = take(link.from, 1, link.height);
  }
  for (const link of [...all].sort((a, b) => a.to.y - b.to.y || a.from.y - b.from.y)) link.y1 = take(link.to, 0, link.height);
  return { nodes: columns.flatMap((column) => column.nodes), links: all, height, total };
}

/** A ribbon from x0 to x1: `offset` and `size` choose a part of its height. */
export function ribbon(link: Link, x0: number, x1: number, offset: number, size: number): string {
  const middle = (x0 + x1) / 2;
  const a = link.y0 + offset;
  const b = link.y1 + offset;
  const upper = `M${x0} ${a}C${middle} ${a} ${middle} ${b} ${x1} ${b}`;
  const lower = `L${x1} ${b + size}C${middle} ${b + size} ${middle} ${a + size} ${x0} ${a + size}`;
  return `${upper}${lower}Z`;
}
