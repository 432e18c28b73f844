// Where the reader is: a path and a query. Everything that a view shows is in them, so that an address that was kept
// shows the same next year, and Back undoes a brush or a filter. Parameters that a version does not know are kept out
// of the way, not refused.

/** Parameters that stay when the page changes; the others belong to one page. */
const SHARED = ['range', 'from', 'to', 'filter'];

export type Patch = Record<string, string | number | null>;

interface Place {
  path: string;
  query: Record<string, string>;
}

function read(): Place {
  return { path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The present place; replaced whole, never changed in part. */
export const place = $state<{ now: Place }>({ now: read() });

export function param(name: string): string | null {
  return place.now.query[name] ?? null;
}

function address(path: string, query: Record<string, string>): string {
  const text = new URLSearchParams(query).toString();
  return text ? `${path}?${text}` : path;
}

/** The address of a page, or of this one (`path` null), with some parameters other than now. */
export function href(path: string | null, patch: Patch = {}): string {
  const here = place.now;
  const query: Record<string, string> = {};
  for (const [key, value] of Object.entries(here.query)) {
    if (path === null || path === here.path || SHARED.includes(key)) query[key] = value;
  }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === '') delete query[key];
    else query[key] = String(value);
  }
  return address(path ?? here.path, query);
}

/** `replace`: a step that Back should not stop at, such as each letter of a search. */
export function go(path: string | null, patch: Patch = {}, replace = false): void {
  visit(href(path, patch), replace);
}

export function visit(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  const moved = new URL(to, location.href).pathname !== location.pathname;
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  place.now = read();
  if (moved) scrollTo(0, 0);
}

/** Follows links of this page without loading it anew; returns what undoes that. */
export function listen(): () => void {
  const click = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (/^\/(api\/|metrics|healthz)/.test(link.pathname) || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    visit(link.pathname + link.search);
  };
  const back = () => {
    place.now = read();
  };
  document.addEventListener('click', click);
  addEventListener('popstate', back);
  return () => {
    document.removeEventListener('click', click);
    removeEventListener('popstate', back);
  };
}
