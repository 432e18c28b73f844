// A part of the language of expressions: tests of fields of the flow or of its records (=, !=, >, contains), host, net (IPv4),
// port, tcp, udp, icmp, ip, and, or, not, parentheses. Errors have a position, as those of the daemon.

import { FLOW_FIELDS, record, tablesOf } from './data.mjs';

const ownFields = (flow) => Object.fromEntries(FLOW_FIELDS.map(([name, , , value]) => [name, value(flow)]));

class Wrong extends Error {
  constructor(message, offset, length, help = null) {
    super(message);
    Object.assign(this, { offset, length, help });
  }
}

function tokens(text) {
  return [...text.matchAll(/"(?:[^"\\]|\\.)*"|\(|\)|&&|\|\||!=|>=|<=|!|[=<>]|[^\s()!=<>"]+/g)].map((match) => ({
    text: match[0],
    at: match.index,
  }));
}

const ip4 = (text) => {
  const parts = text.split('.').map(Number);
  return parts.length === 4 && parts.every((part) => part >= 0 && part < 256) ? parts.reduce((sum, part) => sum * 256 + part, 0) : null;
};

export function compile(text) {
  const all = tokens(text);
  let at = 0;
  const peek = () => all[at];
  const end = { text: '', at: text.length };
  function primary() {
    const token = all[at++] ?? end;
    if (token.text === '(') {
      const inner = either();
      if (peek()?.text !== ')') throw new Wrong('unmatched opening parenthesis', token.at, 1, 'add ")"');
      at += 1;
      return inner;
    }
    if (token.text === 'not' || token.text === '!') {
      const inner = primary();
      return (flow) => !inner(flow);
    }
    if (['tcp', 'udp', 'icmp', 'icmp6'].includes(token.text)) {
      const next = peek()?.text;
      const own = (flow) => flow.protocol === token.text;
      if (next === 'port' || next === 'src' || next === 'dst') {
        const inner = primary();
        return (flow) => own(flow) && inner(flow);
      }
      return own;
    }
    const named = /^([a-z_0-9]+)\.([a-z_0-9]+)$/.exec(token.text);
    if (named && !/^\d/.test(token.text)) return field(named[1], named[2]);
    if (token.text === 'ip') return (flow) => !flow.source.includes(':');
    if (token.text === 'ip6') return (flow) => flow.source.includes(':');
    let side = 'any';
    let word = token;
    if (word.text === 'src' || word.text === 'dst') {
      side = word.text;
      word = all[at++] ?? end;
    }
    const sides = (flow, test) =>
      (side !== 'dst' && test(flow.source, flow.source_port)) || (side !== 'src' && test(flow.destination, flow.destination_port));
    if (word.text === 'port') {
      const value = all[at++] ?? end;
      const port = Number(value.text);
      if (!Number.isInteger(port) || value.text === '')
        throw new Wrong('expected a port', value.at, value.text.length || 1, 'a number from 0 to 65535, or a service name');
      return (flow) => sides(flow, (_host, each) => each === port);
    }
    if (word.text === 'host') {
      const value = all[at++] ?? end;
      if (!/^[\da-f.:]+$/i.test(value.text))
        throw new Wrong(`"${value.text}" is not an address`, value.at, value.text.length || 1, 'such as 10.0.0.1 or 2001:db8::1');
      return (flow) => sides(flow, (host) => host === value.text);
    }
    if (word.text === 'net') {
      const value = all[at++] ?? end;
      const [base, bits = '32'] = value.text.split('/');
      const low = ip4(base);
      if (low === null) throw new Wrong(`"${value.text}" is not a network`, value.at, value.text.length || 1, 'such as 10.0.0.0/8');
      const size = 2 ** (32 - Number(bits));
      return (flow) =>
        sides(flow, (host) => {
          const each = ip4(host);
          return each !== null && Math.floor(each / size) === Math.floor(low / size);
        });
    }
    throw new Wrong(
      word.text === '' ? 'unexpected end of the expression' : `unexpected "${word.text}"`,
      word.at,
      word.text.length || 1,
      'host, net, port, tcp, udp, icmp, ip, ip6, and, or, not',
    );
  }
  /** `table.field`, with an operator and a value behind it or alone. */
  function field(table, name) {
    const values = (flow) => {
      const of =
        table === 'flow'
          ? { ...flow, client: flow.source, server: flow.destination, ...ownFields(flow) }
          : tablesOf(flow).includes(table)
            ? record(table, flow)
            : {};
      return [of[name]].flat().filter((value) => value !== null && value !== undefined);
    };
    const operator = peek()?.text;
    if (!['=', '!=', '>', '<', '>=', '<=', 'contains'].includes(operator)) return (flow) => values(flow).length > 0;
    at += 1;
    const operand = all[at++] ?? end;
    if (operand.text === '') throw new Wrong('expected a value', operand.at, 1);
    const wanted = operand.text.startsWith('"') ? JSON.parse(operand.text) : operand.text;
    const low = String(wanted).toLowerCase();
    const decide = {
      '=': (value) => String(value).toLowerCase() === low,
      '!=': (value) => String(value).toLowerCase() !== low,
      contains: (value) => String(value).toLowerCase().includes(low),
      '>': (value) => value > Number(wanted),
      '<': (value) => value < Number(wanted),
      '>=': (value) => value >= Number(wanted),
      '<=': (value) => value <= Number(wanted),
    }[operator];
    return (flow) => values(flow).some(decide);
  }
  function either() {
    let left = primary();
    for (;;) {
      const token = peek();
      if (!token || token.text === ')') return left;
      at += 1;
      const before = left;
      if (token.text === 'and' || token.text === '&&') {
        const right = primary();
        left = (flow) => before(flow) && right(flow);
      } else if (token.text === 'or' || token.text === '||') {
        const right = primary();
        left = (flow) => before(flow) || right(flow);
      } else throw new Wrong(`expected "and" or "or" before "${token.text}"`, token.at, token.text.length);
    }
  }
  if (text.trim() === '') return () => true;
  const test = either();
  if (at < all.length) throw new Wrong('unmatched closing parenthesis', all[at].at, 1);
  return test;
}
