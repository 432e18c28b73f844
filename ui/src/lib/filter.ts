// The filter of the page is one pcap-filter expression in the URL. Clicked parts are added in parentheses, and only
// parts in parentheses are split again: in `host a and b` the word host applies to both, so a typed expression stays
// whole.

/** "(a) and (not (b))" → ["a", "not (b)"]; an expression of any other form is one part. */
export function parts(expression: string): string[] {
  const text = expression.trim();
  if (text === '') return [];
  const found: string[] = [];
  let at = 0;
  while (at < text.length) {
    if (text[at] !== '(') return [text];
    const end = closing(text, at);
    if (end < 0) return [text];
    found.push(text.slice(at + 1, end).trim());
    at = end + 1;
    if (at === text.length) break;
    const joint = /^\s+and\s+/.exec(text.slice(at));
    if (!joint) return [text];
    at += joint[0].length;
    if (at >= text.length) return [text];
  }
  return found;
}

function closing(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1;
    else if (text[at] === ')') {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
  return -1;
}

export function join(all: string[]): string {
  const rest = all.filter((part) => part !== '');
  return rest.length > 1 ? rest.map((part) => `(${part})`).join(' and ') : (rest[0] ?? '');
}

export function include(expression: string, part: string): string {
  const all = parts(expression).filter((each) => each !== `not (${part})`);
  return all.includes(part) ? join(all) : join([...all, part]);
}

export function exclude(expression: string, part: string): string {
  const all = parts(expression).filter((each) => each !== part);
  const not = `not (${part})`;
  return all.includes(not) ? join(all) : join([...all, not]);
}

export function without(expression: string, index: number): string {
  return join(parts(expression).filter((_, at) => at !== index));
}
