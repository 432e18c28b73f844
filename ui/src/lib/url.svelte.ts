// The state of a view: path and query of the URL. A bookmark restores the view, and Back undoes a selection or a filter.
// Unknown parameters are ignored.

/** Parameters that all pages share. */
const SHARED = ['range', 'from', 'to', 'filter'];

export type Patch = Record<string, string | number | null>;

interface Place {
  path: string;
  query: Record<string, string>;
}

function read(): Place {
  return { path: location.pathname, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The current path and query; always replaced as a whole. */
export const place = $state<{ now: Place }>({ now: read() });

export function param(name: string): string | null {
  return place.now.query[name] ?? null;
}

function address(path: string, query: Record<string, string>): string {
  const text = new URLSearchParams(query).toString();
  return text ? `${path}?${text}` : path;
}

/** The URL of a page, or of the current one (`path` null), with changed parameters. */
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

/** Navigates; with `replace`, Back skips this step (such as each letter of a search). */
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

/** Frames until a part of a page that is being loaded is there, at most. */
const FRAMES = 300;

/** Scrolls to a part of the page, as soon as it is there, and focuses it. */
function show(id: string, left = FRAMES): void {
  const part = document.getElementById(id);
  if (part) {
    part.tabIndex = -1;
    part.scrollIntoView({ block: 'center' });
    part.focus({ preventScroll: true });
  } else if (left > 0) requestAnimationFrame(() => show(id, left - 1));
}

/** Follows links of the pages without a page load; returns a function that removes the listeners. */
export function listen(): () => void {
  const click = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (/^\/(api\/|metrics|healthz)/.test(link.pathname) || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    visit(link.pathname + link.search);
    if (link.hash) show(link.hash.slice(1));
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
