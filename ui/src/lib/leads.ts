// What a row leads to: its flows, its packets and its query.

import type { Flow } from './types';

export interface Leads {
  /** The row, for readers of the screen. */
  name: string;
  /** The expression of its flows; "" for all flows of the time, null for a row that no flow stands for. */
  filter: string | null;
  /** The expression of its packets, where it is not that of its flows; null without any packets. */
  packets?: string | null;
  /** The time of both, in seconds since the epoch; without it the range of the page. */
  time?: { from: number; to: number };
  /** Whether the filter of the page narrows the row. */
  narrowed?: boolean;
  /** Further commands that produce the row. */
  commands?: (string | null)[];
  /** Why the row has no flows or packets, as one sentence. */
  why?: string;
}

/** Whole seconds around a time, so that its last packet is within. */
export const around = (from: number, to: number): { from: number; to: number } => ({
  from: Math.max(0, Math.floor(from)),
  to: Math.ceil(to + 0.001),
});

/** The expression of the packets of a flow. */
export function ofFlow(flow: Flow): string {
  const both = `host ${flow.source} and host ${flow.destination}`;
  const isPorted = flow.protocol === 'tcp' || flow.protocol === 'udp';
  return isPorted ? `${both} and ${flow.protocol} port ${flow.source_port} and ${flow.protocol} port ${flow.destination_port}` : both;
}
