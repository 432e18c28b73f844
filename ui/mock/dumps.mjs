// Triggers of the mock and their packet files: listed, downloaded and deleted.

import { HOSTILE } from './data.mjs';

const DIRECTORY = '/var/lib/weir/dumps';
/** Number of files of the trigger `ssh`. */
const MANY = 60;

/** A time in UTC as names of files have it. */
const stamp = (time) => `${new Date(time * 1000).toISOString().replace(/[-:]|\.\d+Z$/g, '')}.000000Z`;

function file(trigger, begun, bytes, event, numbers, packets, rest = {}) {
  const reason = [
    `trigger ${trigger}: ${event.startsWith('port_scan') ? 'event port_scan' : `top destination, event name ${trigger} above 10000`}`,
    `event ${event}, ${new Date(begun * 1000).toISOString()}`,
    `numbers: ${numbers}`,
    `packets: ${packets}`,
    'before the event: 5.000 s wanted, 4.812 s written',
    'ledger of the run at the event: 812344 packets caught, 0 dropped by the kernel, 0 by the interface: those are not in this file',
  ].join('\n');
  const after = trigger === 'ssh' ? 300 : 60;
  const times = { begun, from: begun - 5, to: begun + after };
  return { name: `${trigger}.${stamp(begun)}.pcapng`, trigger, ...times, bytes, open: false, reason, ...rest };
}

/** What the triggers have written until `last`, and the answers about it. `set` has the options of the mock. */
export function dumps(set, last) {
  const live = set.mode === 'live';
  const flood = (ago, rest) =>
    file('syn-flood', last - ago, 41_912_004, 'syn-flood of 192.0.2.80', 'least 11204, most 18377', 'host 192.0.2.80 and tcp', rest);
  let files =
    set.mode === 'store' || set.triggers === false
      ? []
      : [
          flood(4, { open: live, bytes: 5_120_448 }),
          file('scans', last - 31, 20_412, 'port_scan of 10.0.0.66 -> 10.0.0.9', 'failed 41', 'host 10.0.0.66 and host 10.0.0.9'),
          file('drops', last - 930, 98_304, `drops of ${HOSTILE}`, 'least 1204, most 1204', 'all'),
          ...Array.from({ length: live ? MANY : 0 }, (_, at) =>
            file('ssh', last - 3600 - at * 5400, 1_204_133 + at * 991, 'ssh of ssh', `most ${51_200 + at}`, 'tcp port 22'),
          ),
          flood(90_000),
        ];
  const left = () => (live && files.length > MANY ? 12 : 0);

  function trigger(name, rest) {
    const own = files.filter((each) => each.trigger === name);
    return {
      name,
      filter: '',
      unit: 'packets',
      above: null,
      below: null,
      value: null,
      state: 'off',
      since: null,
      to: live ? DIRECTORY : 'dumps',
      limit: null,
      files: own.length,
      bytes: own.reduce((sum, each) => sum + each.bytes, 0),
      removed: 0,
      removed_bytes: 0,
      failed: 0,
      ring_seconds: live ? 5 : null,
      ...rest,
    };
  }
  const triggers = () =>
    set.mode === 'store' || set.triggers === false
      ? []
      : [
          trigger('syn-flood', {
            when: 'top destination in 1 s where tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn',
            filter: 'tcp[tcpflags] & (tcp-syn | tcp-ack) = tcp-syn',
            above: 10_000,
            value: live ? (set.value ?? 12_377) : null,
            state: live ? 'on' : 'off',
            since: live ? last - 4 : null,
            limit: 1e9,
          }),
          trigger('ssh', {
            when: 'packets where tcp port 22',
            filter: 'tcp port 22',
            above: 50_000,
            value: live ? 1204 : null,
            limit: 200e6,
            removed: 214,
            removed_bytes: 4.12e9,
          }),
          trigger('drops', { when: 'drops in 10 s', above: 1000, value: live ? 0 : null, failed: 2, ring_seconds: live ? 0.412 : null }),
          trigger('silent', {
            when: 'bytes in 60 s where host 192.0.2.10',
            filter: 'host 192.0.2.10',
            unit: 'bytes',
            below: 1000,
            value: live ? 61_300 : null,
          }),
          trigger('scans', { when: 'event port_scan', filter: null, unit: '' }),
        ];

  /** Answers a request below `dumps`: a status, and its body. */
  return function answer(method, name) {
    if (name === '') return [200, { triggers: triggers(), files, left_out: left() }];
    const found = files.find((each) => each.name === name);
    if (method !== 'DELETE')
      return found ? [200, Buffer.from('0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000', 'hex')] : missing(name);
    if (!set.write) return [403, { error: 'deleting a file needs the right write, which ann does not have', help: null }];
    if (!found) return missing(name);
    if (found.open || set.busy === name) return [409, { error: `${name} is being written`, help: 'delete it when it is complete' }];
    files = files.filter((each) => each !== found);
    return [204, null];
  };
}

const missing = (name) => [404, { error: `there is no file ${name}`, help: null }];
