// Formatted numbers: SI prefixes for rates and traffic, powers of 1024 for memory, three digits.

import { brief } from './time';

const SI = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
const IEC = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const whole = new Intl.NumberFormat('en');

function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1 && Number.isInteger(value) && size < 1000)) return String(value);
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : size >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
}

/** 112.3e6 → "112 M"; `unit` follows the prefix. */
export function si(value: number, unit = ''): string {
  let step = 0;
  let size = value;
  while (Math.abs(size) >= 999.5 && step < SI.length - 1) {
    size /= 1000;
    step += 1;
  }
  const tail = `${SI[step]}${unit}`;
  return tail ? `${digits(size)} ${tail}` : digits(size);
}

/** A unit of the API as displayed. */
export function unitName(unit: string): string {
  return unit === 'bits/s' ? 'bit/s' : unit === 'bytes' ? 'B' : unit;
}

/** A value of a series: "112 Mbit/s", "1.20 k packets/s". */
export function amount(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (unit === 'bits/s' || unit === 'bit/s') return si(value, 'bit/s');
  if (unit === 'bytes' || unit === 'B') return si(value, 'B');
  if (unit === 'bytes/s') return si(value, 'B/s');
  if (unit === 's' || unit === 'seconds') return brief(value);
  return `${si(value)} ${unit}`.trim();
}

export const bytes = (value: number): string => si(value, 'B');

/** 1,234,567: all digits. */
export const exact = (value: number): string => whole.format(value);

/** 1,234, or `5 to 12` of a number that is only known to be within bounds. */
export const bounded = (least: number, most: number): string =>
  most > least ? `${exact(Math.round(least))} to ${exact(Math.round(most))}` : exact(Math.round(least));

export function memory(value: number): string {
  let step = 0;
  let size = value;
  while (size >= 1023.5 && step < IEC.length - 1) {
    size /= 1024;
    step += 1;
  }
  return `${digits(size)} ${IEC[step]}`;
}

export function percent(part: number, of: number): string {
  if (of === 0) return '–';
  if (part === 0) return '0 %';
  const value = (100 * part) / of;
  if (part > 0 && value < 0.01) return '< 0.01 %';
  if (part < of && value > 99.99) return '> 99.99 %';
  return `${value >= 10 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(2)} %`;
}

/** A text of the API as a sentence: with a capital letter and a full stop. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed === '' ? '' : `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?…]$/.test(trimmed) ? '' : '.'}`;
}

/** A count with its noun: plural(1, 'flow') → "1 flow". */
export function plural(count: number, word: string, many = `${word}s`): string {
  return `${exact(count)} ${count === 1 ? word : many}`;
}
