// Captures with known contents: Ethernet, IPv4, TCP and UDP.

import { writeFileSync } from 'node:fs';

const address = (text) => Buffer.from(text.split('.').map(Number));

/** The Internet checksum over 16-bit words. */
function sum(bytes) {
  let all = 0;
  for (let at = 0; at < bytes.length; at += 2) all += (bytes[at] << 8) | (bytes[at + 1] ?? 0);
  while (all > 0xffff) all = (all & 0xffff) + (all >>> 16);
  return ~all & 0xffff;
}

function frame(from, to, protocol, segment, sumAt) {
  const pseudo = Buffer.alloc(4);
  pseudo[1] = protocol;
  pseudo.writeUInt16BE(segment.length, 2);
  segment.writeUInt16BE(sum(Buffer.concat([address(from), address(to), pseudo, segment])), sumAt);
  const ip = Buffer.alloc(20);
  ip[0] = 0x45;
  ip.writeUInt16BE(20 + segment.length, 2);
  ip[8] = 64;
  ip[9] = protocol;
  address(from).copy(ip, 12);
  address(to).copy(ip, 16);
  ip.writeUInt16BE(sum(ip), 10);
  return Buffer.concat([Buffer.from('0200000000020200000000010800', 'hex'), ip, segment]);
}

/** A UDP datagram; endpoints are [address, port]. */
export function datagram(from, to, payload) {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(from[1], 0);
  head.writeUInt16BE(to[1], 2);
  head.writeUInt16BE(8 + payload.length, 4);
  return frame(from[0], to[0], 17, Buffer.concat([head, payload]), 6);
}

/** A TCP connection: handshake, payload in turn ([0 for the client or 1 for the server, bytes]), close. */
export function connection(client, server, payloads) {
  const ends = [client, server];
  const next = [1000, 5000];
  const frames = [];
  const send = (side, flags, payload = Buffer.alloc(0)) => {
    const head = Buffer.alloc(20);
    head.writeUInt16BE(ends[side][1], 0);
    head.writeUInt16BE(ends[1 - side][1], 2);
    head.writeUInt32BE(next[side], 4);
    if (flags & 0x10) head.writeUInt32BE(next[1 - side], 8);
    head[12] = 0x50;
    head[13] = flags;
    head.writeUInt16BE(64_000, 14);
    frames.push(frame(ends[side][0], ends[1 - side][0], 6, Buffer.concat([head, payload]), 16));
    next[side] += payload.length + (flags & 0x03 ? 1 : 0);
  };
  const [SYN, ACK, PUSH, FIN] = [0x02, 0x10, 0x08, 0x01];
  send(0, SYN);
  send(1, SYN | ACK);
  send(0, ACK);
  for (const [side, bytes] of payloads) {
    send(side, ACK | PUSH, Buffer.from(bytes));
    send(1 - side, ACK);
  }
  send(0, FIN | ACK);
  send(1, FIN | ACK);
  send(0, ACK);
  return frames;
}

const u16 = (...values) => Buffer.from(values.flatMap((value) => [value >> 8, value & 0xff]));
const labels = (names) =>
  Buffer.concat([...names.map((name) => Buffer.concat([Buffer.from([Buffer.byteLength(name)]), Buffer.from(name)])), Buffer.from([0])]);

/** A DNS query for the address of a name, given as labels, and its answer. */
export function lookup(client, server, names, found) {
  const question = Buffer.concat([labels(names), u16(1, 1)]);
  const answer = Buffer.concat([u16(0xc00c, 1, 1, 0, 300, 4), address(found)]);
  return [
    datagram(client, server, Buffer.concat([u16(7, 0x0100, 1, 0, 0, 0), question])),
    datagram(server, client, Buffer.concat([u16(7, 0x8180, 1, 1, 0, 0), question, answer])),
  ];
}

/** An attempt to begin a TCP connection: without an answer, or `refused` with a reset (RFC 9293, 3.5.2). */
export function attempt(client, server, refused) {
  const syn = connection(client, server, [])[0];
  if (!refused) return [syn];
  const reset = Buffer.alloc(20);
  reset.writeUInt16BE(server[1], 0);
  reset.writeUInt16BE(client[1], 2);
  reset.writeUInt32BE(syn.readUInt32BE(14 + 20 + 4) + 1, 8);
  reset[12] = 0x50;
  reset[13] = 0x14;
  return [syn, frame(server[0], client[0], 6, reset, 16)];
}

/** A pcap file with one packet per millisecond from a second of the epoch on. */
export function pcap(path, frames, begin = 1_763_800_000) {
  pcapAt(path, [[begin, frames]]);
}

/** A pcap file with groups of packets, each from a second of the epoch on, one packet per millisecond. */
export function pcapAt(path, groups) {
  const head = Buffer.alloc(24);
  head.writeUInt32LE(0xa1b2c3d4, 0);
  head.writeUInt16LE(2, 4);
  head.writeUInt16LE(4, 6);
  head.writeUInt32LE(262_144, 16);
  head.writeUInt32LE(1, 20);
  writeFileSync(
    path,
    Buffer.concat([
      head,
      ...groups.flatMap(([begin, frames]) =>
        frames.flatMap((bytes, at) => {
          const record = Buffer.alloc(16);
          record.writeUInt32LE(begin + Math.floor(at / 1000), 0);
          record.writeUInt32LE((at % 1000) * 1000, 4);
          record.writeUInt32LE(bytes.length, 8);
          record.writeUInt32LE(bytes.length, 12);
          return [record, bytes];
        }),
      ),
    ]),
  );
}
