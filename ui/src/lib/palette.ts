// Colours of lines: the eight of Okabe and Ito, which are distinct for any colour vision, with a contrast of 3:1 against
// the background of each theme (app.css, --c0 to --c7). Each has a dash pattern too: colour is never the only cue.

export const COLORS = 8;
const DASHES: number[][] = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4]];

export function dash(index: number): number[] {
  // Five patterns and eight colours: a pair repeats after forty lines.
  return DASHES[index % DASHES.length] ?? [];
}

/** Colour for SVG and HTML, as a CSS variable that follows the theme. */
export function cssColor(index: number): string {
  return `var(--c${index % COLORS})`;
}

/** Colour for a canvas, resolved for the present theme. */
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
