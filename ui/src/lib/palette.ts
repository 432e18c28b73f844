// Colours of lines: Okabe and Ito's eight, which people with any colour vision tell apart, darkened on light ground and
// lightened on dark so that each keeps 3:1 against it (app.css, --c0 to --c7). A dash pattern goes with each, so that
// colour is never the only cue.

export const COLORS = 8;
const DASHES: number[][] = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4]];

export function dash(index: number): number[] {
  // Five patterns and eight colours: a pair comes again after forty lines.
  return DASHES[index % DASHES.length] ?? [];
}

/** For SVG and HTML, which follow the theme by themselves. */
export function cssColor(index: number): string {
  return `var(--c${index % COLORS})`;
}

/** For a canvas, which must be told. */
export function ink(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function lineInk(index: number): string {
  return ink(`--c${index % COLORS}`);
}

export function faded(color: string, alpha: number): string {
  const hex = /^#([0-9a-f]{6})$/i.exec(color)?.[1];
  if (!hex) return color;
  const part = (at: number) => parseInt(hex.slice(at, at + 2), 16);
  return `rgba(${part(0)}, ${part(2)}, ${part(4)}, ${alpha})`;
}
