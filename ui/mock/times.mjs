// Times of the query language, as far as the tests over the mock type them: epoch seconds, dates, times of day, days and lengths.
// The program reads many more; its own tests compare them.

const DAY = 86_400;

/** Seconds since the epoch of a text, in a zone at `offset` seconds east of UTC; an error of the API for what is no time. */
export function instant(name, text, now, offset) {
  const wrong = () =>
    Object.assign(new Error(`${name}: "${text}" is not a time`), { help: 'expected a length of time before now (`90s`), a day or a time' });
  const midnight = Math.floor((now + offset) / DAY) * DAY - offset;
  const clock = (word) => {
    const [, hour, minute, second = '0'] = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/.exec(word ?? '') ?? [];
    return hour === undefined ? null : Number(hour) * 3600 + Number(minute) * 60 + Number(second);
  };
  const words = text.split(/\s+/);
  const [first, second] = words;
  if (/^\d{9,11}(\.\d+)?$/.test(text)) return Number(text);
  const length = /^(\d+)([smhd])$/.exec(text);
  if (length) return now - Number(length[1]) * { s: 1, m: 60, h: 3600, d: DAY }[length[2]];
  const ago = /^(\d+) days? ago$/.exec(text);
  if (ago) return now - Number(ago[1]) * DAY;
  if (words.length === 1 && clock(first) !== null) {
    const today = midnight + clock(first);
    return today > now ? today - DAY : today;
  }
  const date = /^\d{4}-\d\d-\d\d$/.test(first) ? Date.parse(`${first}T00:00Z`) / 1000 - offset : NaN;
  const day = { today: midnight, yesterday: midnight - DAY, now }[first] ?? date;
  if (Number.isNaN(day)) throw wrong();
  if (words.length === 1) return day;
  if (words.length > 2 || clock(second) === null) throw wrong();
  return day + clock(second);
}

/** The offset of a zone, in seconds east of UTC. */
export function offsetOf(zone, now) {
  const local = new Date(now * 1000).toLocaleString('sv-SE', { timeZone: zone });
  return Math.round(Date.parse(`${local.replace(' ', 'T')}Z`) / 1000 - now);
}
