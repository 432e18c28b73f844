// Preferences of the user: kept in this browser, not in URLs.

export type Theme = 'system' | 'light' | 'dark' | 'contrast';
export type ZoneChoice = 'sensor' | 'utc' | 'browser';

const THEMES: readonly Theme[] = ['system', 'light', 'dark', 'contrast'];
const ZONES: readonly ZoneChoice[] = ['sensor', 'utc', 'browser'];

function kept<T extends string>(key: string, allowed: readonly T[], otherwise: T): T {
  try {
    const value = localStorage.getItem(key) as T | null;
    return value !== null && allowed.includes(value) ? value : otherwise;
  } catch {
    return otherwise; // no storage: the choice lasts as long as the page
  }
}

export const prefs = $state({
  theme: kept('weir.theme', THEMES, 'system'),
  zone: kept('weir.zone', ZONES, 'sensor'),
  /** The resolved theme; charts read their colours again when it changes. */
  shown: 'light',
});

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // As above.
  }
}

const dark = matchMedia('(prefers-color-scheme: dark)');
const more = matchMedia('(prefers-contrast: more)');

function show(): void {
  const shade = prefs.theme === 'system' || prefs.theme === 'contrast' ? (dark.matches ? 'dark' : 'light') : prefs.theme;
  const contrast = prefs.theme === 'contrast' || (prefs.theme === 'system' && more.matches);
  prefs.shown = contrast ? `contrast-${shade}` : shade;
  document.documentElement.dataset.theme = prefs.shown;
}

show();
dark.addEventListener('change', show);
more.addEventListener('change', show);

export function setTheme(theme: Theme): void {
  prefs.theme = theme;
  keep('weir.theme', theme);
  show();
}

export function nextTheme(): void {
  setTheme(THEMES[(THEMES.indexOf(prefs.theme) + 1) % THEMES.length] ?? 'system');
}

export function setZone(zone: ZoneChoice): void {
  prefs.zone = zone;
  keep('weir.zone', zone);
}

export function nextZone(): void {
  setZone(ZONES[(ZONES.indexOf(prefs.zone) + 1) % ZONES.length] ?? 'sensor');
}
