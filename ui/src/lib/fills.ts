// What gives a field or a table values that it has in no row: an option of the run, or what must pass the link.

/** Of a whole table. */
const TABLES: Record<string, string> = {
  stream: 'a run measures delays and loss of each flow with --measure',
  stream_sample: 'a run measures flows in periods with --sample SECONDS',
  files: 'a run that parses payload lists the files that it sees',
};

const HASHES = 'a run computes it with --hash';
/** Of a field. */
const FIELDS: Record<string, string> = {
  'files.md5': `${HASHES} md5`,
  'files.sha1': `${HASHES} sha1`,
  'files.sha256': `${HASHES} sha256`,
  'files.extracted': 'a run extracts files with --files DIR',
  'flow.name': 'the name that the client asked DNS for shortly before; its lookup did not pass this link',
  'flow.vlan': 'only packets with a VLAN tag have it',
  'flow.inner_vlan': 'only packets with two VLAN tags have it',
  'flow.tunnel': 'only flows inside a tunnel have it',
  'flow.client_mac': 'captures without a link layer have none',
  'flow.server_mac': 'captures without a link layer have none',
  'flow.service': 'protocols are identified in payload',
  'flow.retransmitted': 'only TCP has it',
  'flow.sent_retransmitted': 'only TCP has it',
  'flow.received_retransmitted': 'only TCP has it',
  'flow.missed_bytes': 'only streams that a run reassembles have it',
};

/** What gives a table rows; "" if nothing special does. */
export const tableFills = (table: string): string => TABLES[table] ?? '';

/** What gives a field values; "" if nothing special does. */
export const fieldFills = (table: string, field: string): string => FIELDS[`${table}.${field}`] ?? TABLES[table] ?? '';

/** Columns without a value in any row, each with what would fill it. */
export function blanks(columns: { title: string; table: string; field: string; isBlank: boolean }[]): string[] {
  return columns
    .filter((each) => each.isBlank)
    .map(({ title, table, field }) => {
      const how = fieldFills(table, field);
      return `${title} has no value in these rows${how === '' ? '' : `: ${how}`}.`;
    });
}
