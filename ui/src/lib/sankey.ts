// Layout of a Sankey diagram: client, service, server. Widths are bytes; each ribbon has the bytes sent and received.

import type { Paths } from './types';

export interface Node {
  id: string;
  label: string;
  /** Clients (0), services (1) and servers (2). */
  side: number;
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

/** Places the nodes and links of an answer within a height. */
export function layout(paths: Paths | null, height: number): Sankey {
  const nodes: Node[] = (paths?.nodes ?? []).map((node) => ({
    id: node.others > 0 ? '' : node.label,
    label: node.side === 1 && node.name ? `${node.name} ${node.label}` : node.label,
    side: node.side,
    value: node.bytes,
    filter: node.filter,
    y: 0,
    height: 0,
    rest: node.others > 0,
    name: node.side === 1 ? null : node.name,
  }));
  const columns = ([0, 1, 2] as const).map((side) => ({ nodes: nodes.filter((node) => node.side === side) }));
  const total = paths?.bytes ?? 0;
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
  const all: Link[] = (paths?.links ?? []).flatMap((link) => {
    const from = nodes[link.from];
    const to = nodes[link.to];
    if (!from || !to) return [];
    const filter = from.filter && to.filter ? `${from.filter} and ${to.filter}` : from.filter || to.filter;
    return [{ from, to, value: link.bytes, sent: link.sent, y0: 0, y1: 0, height: 0, filter }];
  });
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
  return { nodes, links: all, height, total };
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
