// Plausible traffic, reproducible: all values are derived from a hash of name and time.

export function hash(text) {
  let h = 2166136261;
  for (let at = 0; at < text.length; at += 1) h = Math.imul(h ^ text.charCodeAt(at), 16777619);
  h ^= h >>> 16;
  h = Math.imul(h, 2246822507);
  h ^= h >>> 13;
  return h >>> 0;
}
export const unit = (text) => hash(text) / 2 ** 32;
const pickOf = (list, text) => list[hash(text) % list.length];

/** Hostile strings from packets: none may become markup. */
export const HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>';

/** Paths of requests; one is an attempt at script injection, one is too long for its column. */
const PATHS = [
  '',
  'index.html',
  'api/v2/items?id=7',
  '"><svg/onload=alert(2)>',
  'a/very/long/path/that/goes/on/and/on/and/on/until/it/does/not/fit.tar.gz',
];
/** A name of 40 letters; the address beside it has as many as an IPv6 address usually has. */
export const LONGEST = 'edge-17.frankfurt.content.v6.example.net';
/** Rules that match now and then. */
const RULES = [
  { sid: 2_100_498, rev: 7, signature: 'GPL ATTACK_RESPONSE id check returned root', category: 'Potentially Bad Traffic', severity: 2 },
  { sid: 2_013_028, rev: 9, signature: 'ET POLICY curl User-Agent Outbound', category: 'Attempted Information Leak', severity: 2 },
  { sid: 2_034_647, rev: 1, signature: `ET EXPLOIT ${HOSTILE}`, category: 'Attempted Administrator Privilege Gain', severity: 1 },
  { sid: 1_000_001, rev: 1, signature: 'A host of the corporation looks up a name', category: null, severity: 3 },
];
const SERVERS = [
  ['151.101.1.69', 443, 'tcp', 'tls', 'cdn.example.net'],
  ['192.0.2.80', 80, 'tcp', 'http', HOSTILE],
  ['198.51.100.25', 25, 'tcp', 'smtp', 'mail.example.org'],
  ['203.0.113.53', 53, 'udp', 'dns', 'ns1.example.com'],
  ['142.250.74.46', 443, 'udp', 'quic', 'video.example.com'],
  ['10.0.0.10', 445, 'tcp', 'smb', 'files.corp.example'],
  ['10.0.0.22', 22, 'tcp', 'ssh', null],
  ['185.199.108.153', 443, 'tcp', 'tls', 'pages.example.io'],
  ['10.0.0.5', 389, 'tcp', null, 'directory.corp.example'],
  ['2001:db8:85a3:1234:5678:8a2e:370:7334', 443, 'tcp', 'tls', LONGEST],
  ['192.0.2.123', 123, 'udp', 'ntp', null],
  ['10.0.0.40', 1883, 'tcp', 'mqtt', 'sensors.corp.example'],
];
const CLIENTS = Array.from({ length: 60 }, (_, at) => `10.1.${Math.floor(at / 20)}.${(at % 20) * 7 + 11}`);
const WEIGHT = [9, 2, 0.6, 0.15, 6, 3, 0.9, 2, 0.2, 1.2, 0.02, 0.1];

export const CHARTS = (many) => [
  {
    name: 'traffic',
    title: 'Traffic',
    unit: 'bits/s',
    configured: false,
    lines: [{ id: 'traffic/all', name: 'all', expression: '', remainder: false }],
  },
  {
    name: 'protocols',
    title: 'Protocols',
    unit: 'bits/s',
    configured: false,
    lines: ['tls', 'quic', 'smb', 'http', 'ssh', 'smtp', 'dns', 'other'].map((name, at) => ({
      id: `protocols/${name}`,
      name,
      remainder: name === 'other',
      expression: ['tcp port 443', 'udp port 443', 'tcp port 445', 'tcp port 80', 'tcp port 22', 'tcp port 25', 'udp port 53', ''][at],
    })),
  },
  {
    name: 'packets',
    title: 'Packets by transport',
    unit: 'packets/s',
    configured: false,
    lines: ['tcp', 'udp', 'icmp'].map((name) => ({ id: `packets/${name}`, name, expression: name, remainder: false })),
  },
  {
    name: 'ports',
    title: 'Services of the campus',
    unit: 'bits/s',
    configured: true,
    lines: [
      ['ssh', 'tcp port 22'],
      ['web', 'tcp port 80 or tcp port 443'],
      ['email', 'tcp port 25'],
      ['files', 'tcp port 445'],
      ['xtra', ''],
    ].map(([name, expression]) => ({ id: `ports/${name}`, name, expression, remainder: name === 'xtra' })),
  },
  ...(many
    ? [
        {
          name: 'hosts',
          title: `Each host, ${many} lines`,
          unit: 'bits/s',
          configured: true,
          lines: Array.from({ length: many }, (_, at) => {
            const host = `10.${2 + Math.floor(at / 65536)}.${Math.floor(at / 256) % 256}.${at % 256}`;
            return { id: `hosts/${host}`, name: host, expression: `host ${host}`, remainder: false };
          }),
        },
      ]
    : []),
];

const SHARE = {
  'traffic/all': 1,
  'protocols/tls': 0.42,
  'protocols/quic': 0.24,
  'protocols/smb': 0.14,
  'protocols/http': 0.09,
  'protocols/ssh': 0.04,
  'protocols/smtp': 0.03,
  'protocols/dns': 0.01,
  'protocols/other': 0.03,
  'ports/ssh': 0.04,
  'ports/web': 0.51,
  'ports/email': 0.03,
  'ports/files': 0.14,
  'ports/xtra': 0.28,
};

/** Rates in bits/s or packets/s of a series at a time. */
export function rate(id, time, step) {
  // Thousands of lines: an equal share each, which is fast.
  if (id.startsWith('hosts/')) return 2e6 * (0.002 + unit(id) ** 14 * 40) * (0.6 + 0.4 * unit(`${id}${Math.floor(time / 3600)}`));
  const hour = (((time / 3600) % 24) + 24) % 24;
  const weekday = Math.floor(time / 86_400 + 4) % 7;
  const day = 0.35 + 0.65 * Math.max(0, Math.sin(((hour - 5) / 24) * 2 * Math.PI)) ** 0.8;
  const work = weekday === 0 || weekday === 6 ? 0.45 : 1;
  const slow = 0.85 + 0.3 * unit(`${id} ${Math.floor(time / 7200)}`);
  const noise = 0.8 + 0.4 * unit(`${id} ${Math.floor(time / step)} ${step}`);
  const burst = unit(`b ${id} ${Math.floor(time / 900)}`) > 0.97 ? 1.7 : 1;
  const shape = day * work * slow * noise * burst;
  if (id === 'scans/scans') return unit(`${id} ${Math.floor(time / 1800)}`) > 0.8 ? 1 : 0;
  if (id.startsWith('worms/')) {
    const us = Math.floor(unit(`us ${Math.floor(time / 1800)}`) * 3);
    const them = Math.round(day * work * (6 + 3 * unit(`them ${Math.floor(time / 1800)}`)));
    return { total: us + them, us, them }[id.split('/').at(-1)];
  }
  if (id === 'ledger/caught') return shape * 21_000;
  if (id === 'ledger/dropped')
    return unit(`drop ${Math.floor(time / 1800)}`) > 0.95 ? shape * 21_000 * 0.012 * unit(`d ${Math.floor(time / step)}`) : 0;
  if (id.startsWith('packets/')) return shape * 21_000 * ({ 'packets/tcp': 0.7, 'packets/udp': 0.28, 'packets/icmp': 0.02 }[id] ?? 0.01);
  return shape * 142e6 * (SHARE[id] ?? 0.02);
}

export function tier(span, points, interval) {
  const want = span / points;
  const tiers = [
    ['interval', interval, 2 * 86_400],
    ['5m', 300, 14 * 86_400],
    ['1h', 3600, 366 * 86_400],
    ['1d', 86_400, Infinity],
  ];
  const [name, base] = tiers.find(([, , kept]) => span <= kept) ?? tiers[3];
  return { tier: name, step: Math.max(base, Math.ceil(want / base) * base) };
}

/** `count` flows, spread over the range by time of day. */
export function flows(first, last, count) {
  const made = [];
  for (let at = 0; at < count; at += 1) {
    const key = `flow ${at}`;
    const total = WEIGHT.reduce((sum, value) => sum + value ** 0.4, 0);
    let left = unit(`${key} s`) * total;
    const nth = Math.max(
      0,
      WEIGHT.findIndex((value) => (left -= value ** 0.4) < 0),
    );
    const [destination, port, protocol, service, name] = SERVERS[nth];
    const start = first + unit(`${key} t`) * (last - first) * 0.99;
    const duration = Math.min(last - start, 0.02 + unit(`${key} d`) ** 3 * 240);
    const size = 400 + Math.floor(WEIGHT[nth] * 60_000 * (1 / (0.004 + unit(`${key} b`)) ** 1.1));
    const reverse = Math.floor(size * (nth === 2 ? 0.04 : 0.92));
    const packets = Math.max(2, Math.ceil(size / 900));
    const source = destination.includes(':')
      ? `2001:db8:1:20:a00:27ff:fe4e:${(0x6610 + (hash(key) % 40)).toString(16)}`
      : CLIENTS[Math.floor(unit(`${key} c`) ** 2.2 * CLIENTS.length)];
    made.push({
      id: `f${at}`,
      uid: `C${hash(key).toString(36)}${hash(`${key}u`).toString(36)}`,
      community_id: `1:${Buffer.from(key.padEnd(20, 'x')).toString('base64')}`,
      first: start,
      last: start + duration,
      protocol,
      source,
      source_port: 32_768 + (hash(`${key}p`) % 28_000),
      destination,
      destination_port: port,
      packets: [Math.ceil(packets * 0.45), Math.floor(packets * 0.55)],
      bytes: [size - reverse, reverse],
      state: protocol === 'tcp' ? pickOf(['SF', 'SF', 'SF', 'RSTO', 'S1', 'REJ'], key) : 'SF',
      service,
      vlan: hash(key) % 5 === 0 ? 120 : null,
      name,
      open: protocol === 'tcp' && hash(`${key}o`) % 12 === 0,
    });
  }
  return made.sort((a, b) => a.first - b.first);
}

const field = (name, kind, help) => ({ name, kind, help });
export const TABLES = [
  {
    name: 'http',
    protocol: 'http',
    help: 'A request with its response',
    fields: [
      field('method', 'text', 'Method of the request'),
      field('host', 'text', 'Host of the request'),
      field('uri', 'text', 'URI of the request'),
      field('status_code', 'number', 'Status code'),
      field('user_agent', 'text', 'User agent of the client'),
      field('response_body_len', 'number', 'Bytes of the body'),
    ],
  },
  {
    name: 'dns',
    protocol: 'dns',
    help: 'A query with its answers',
    fields: [
      field('query', 'text', 'Name of the query'),
      field('type_name', 'text', 'Type of the query'),
      field('rcode_name', 'text', 'Response code'),
      field('answers', 'list', 'Answers'),
      field('rtt', 'duration', 'Seconds until the response'),
    ],
  },
  {
    name: 'tls',
    protocol: 'tls',
    help: 'A handshake',
    fields: [
      field('server_name', 'text', 'Server name of the client (SNI)'),
      field('version', 'text', 'Negotiated version'),
      field('cipher', 'text', 'Cipher suite'),
      field('ja4', 'text', 'JA4 of the client'),
      field('established', 'bool', 'Whether the handshake was completed'),
      field('not_after', 'time', 'End of the certificate'),
    ],
  },
  {
    name: 'ssh',
    protocol: 'ssh',
    help: 'A handshake',
    fields: [
      field('client', 'text', 'Banner of the client'),
      field('server', 'text', 'Banner of the server'),
      field('hassh', 'text', 'HASSH of the client'),
    ],
  },
  {
    name: 'alert',
    protocol: '',
    help: 'A rule matched in a packet, a stream or a transaction',
    fields: [
      field('action', 'text', 'What was done with the packet'),
      field('gid', 'number', 'Group of the rule'),
      field('sid', 'number', 'Number of the rule in its group'),
      field('rev', 'number', 'Revision of the rule'),
      field('signature', 'text', 'Message of the rule'),
      field('category', 'text', "Description of the rule's class"),
      field('severity', 'number', 'Priority of the rule'),
      field('direction', 'text', 'Direction of the packet in which the rule matched'),
      field('app_proto', 'text', 'Protocol of the flow'),
      field('tx_id', 'number', 'Number of the transaction in the flow'),
      field('found_in', 'text', 'Where the rule matched'),
    ],
  },
  {
    name: 'files',
    protocol: '',
    help: 'An observed file',
    fields: [
      field('source', 'text', 'Protocol that carried it'),
      field('filename', 'text', 'File name'),
      field('mime_type', 'text', 'Type by content'),
      field('seen_bytes', 'number', 'Bytes observed'),
      field('md5', 'text', 'MD5'),
      field('sha1', 'text', 'SHA-1'),
      field('sha256', 'text', 'SHA-256'),
      field('sender', 'address', 'Address of the sender'),
      field('complete', 'bool', 'Whether it is complete'),
    ],
  },
];

export function record(table, flow) {
  const key = `${table} ${flow.id}`;
  const hex = (length) =>
    Array.from({ length: Math.ceil(length / 8) }, (_, at) => hash(`${key}${at}`).toString(16).padStart(8, '0'))
      .join('')
      .slice(0, length);
  const host = flow.name ?? 'www.example.com';
  switch (table) {
    case 'http':
      return {
        method: pickOf(['GET', 'GET', 'POST'], key),
        host,
        uri: `/${pickOf(PATHS, key)}`,
        status_code: pickOf([200, 200, 304, 404, 500], key),
        user_agent: pickOf(['curl/8.14.1', 'Mozilla/5.0 (X11; Linux x86_64)', null], key),
        response_body_len: hash(key) % 90_000,
      };
    case 'dns':
      return {
        query: pickOf(['example.com', 'cdn.example.net', '<b>bold</b>.example', 'xn--bcher-kva.example'], key),
        type_name: pickOf(['A', 'AAAA', 'MX'], key),
        rcode_name: pickOf(['NOERROR', 'NOERROR', 'NXDOMAIN'], key),
        answers: ['192.0.2.80', '2001:db8::80'].slice(0, hash(key) % 3),
        rtt: unit(key) / 20,
      };
    case 'tls':
      return {
        server_name: host,
        version: pickOf(['TLSv1.3', 'TLSv1.2'], key),
        cipher: 'TLS_AES_128_GCM_SHA256',
        ja4: `t13d1516h2_${hex(12)}_${hex(12)}`,
        established: hash(key) % 9 !== 0,
        not_after: flow.first + 7e6,
      };
    case 'alert':
      return {
        action: hash(key) % 11 === 0 ? 'blocked' : 'allowed',
        ...{ gid: 1, ...pickOf(RULES, `rule ${key}`) },
        direction: pickOf(['to_server', 'to_server', 'to_client'], key),
        app_proto: flow.service,
        tx_id: hash(`tx ${key}`) % 3 === 0 ? null : hash(key) % 4,
        found_in: hash(`tx ${key}`) % 3 === 0 ? 'packet' : 'transaction',
      };
    case 'ssh':
      return { client: 'SSH-2.0-OpenSSH_9.2p1', server: 'SSH-2.0-OpenSSH_10.0', hassh: hex(32) };
    default:
      return {
        source: flow.service,
        filename: pickOf(['report.pdf', 'setup.exe', '../../etc/passwd', HOSTILE, null], key),
        mime_type: pickOf(['application/pdf', 'application/x-dosexec', 'text/plain', 'image/png'], key),
        seen_bytes: hash(key) % 4_000_000,
        md5: hex(32),
        sha1: hex(40),
        sha256: hex(64),
        sender: flow.destination,
        complete: hash(key) % 6 !== 0,
      };
  }
}

/** Fields of flows: name, kind, help and value. */
export const FLOW_FIELDS = [
  ['bytes', 'number', 'Bytes of both directions', (flow) => flow.bytes[0] + flow.bytes[1]],
  ['service', 'text', 'Protocols identified in it', (flow) => flow.service],
  ['name', 'text', 'Name that the client had resolved', (flow) => flow.name],
  ['state', 'text', 'State of the connection', (flow) => flow.state],
  ['first', 'time', 'Time of the first packet', (flow) => flow.first],
  ['duration', 'duration', 'From the first packet to the last', (flow) => flow.last - flow.first],
  ['sent_ttl', 'number', "Time to live of the client's packets", (flow) => [64, 64, 128][hash(flow.source) % 3]],
  ['received_ttl', 'number', "Time to live of the server's packets", (flow) => 240 - (hash(flow.destination) % 9)],
  ['client_mac', 'text', 'MAC address in front of the client', (flow) => `02:00:00:00:00:${(16 + (hash(flow.source) % 200)).toString(16)}`],
  ['server_mac', 'text', 'MAC address in front of the server', () => '02:00:00:00:00:01'],
  ['retransmitted', 'number', 'Segments sent again, in both directions', (flow) => (flow.protocol === 'tcp' ? hash(flow.id) % 7 : null)],
  ['payload_bytes', 'number', 'Bytes of payload, in both directions', (flow) => Math.floor((flow.bytes[0] + flow.bytes[1]) * 0.93)],
  ['inner_vlan', 'number', 'Inner VLAN identifier', () => null],
];

/** The values of fields beside a flow, as `table.field`. */
export function beside(flow, names) {
  const value = (name) => {
    const [table, field] = name.split('.');
    if (table === 'flow') return FLOW_FIELDS.find(([each]) => each === field)?.[3](flow) ?? null;
    return tablesOf(flow).includes(table) ? (record(table, flow)[field] ?? null) : null;
  };
  return Object.fromEntries(names.map((name) => [name, value(name)]));
}

/** The tables with records of a flow. */
export function tablesOf(flow) {
  const own = TABLES.filter((table) => table.protocol === flow.service).map((table) => table.name);
  if ((flow.service === 'http' || flow.service === 'smb' || flow.service === 'smtp') && hash(flow.id) % 3 === 0) own.push('files');
  if (flow.service !== null && hash(`alert ${flow.id}`) % 12 === 0) own.push('alert');
  return own;
}

export const CONFIG = `# What the campus link is watched for.
interface = "eth0"
interval = "5s"
memory = "1G"

[[chart]]
name = "ports"
title = "Services of the campus"
unit = "bits/s"
lines = [
  { name = "ssh", expression = "tcp port 22" },
  { name = "web", expression = "tcp port 80 or tcp port 443" },
  { name = "email", expression = "tcp port 25" },
  { name = "files", expression = "tcp port 445" },
]
`;
