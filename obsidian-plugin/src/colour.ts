/** The palette of the project. Each colour has a variant for text on a light background, where the bright one could not be read. */
export const palette = {
  alert: "#ff0000",
  success: "#39ff14",
  ash: "#cccccc",
  abyssal: "#080808",
  /** Of text on abyssal. */
  alertOnDark: "#ff6b6b",
  /** Of text on white and on the light greys of themes. */
  alertOnLight: "#b00000",
  successOnLight: "#0b6100",
  ashOnLight: "#4a4a4a",
} as const;

/** The 16 named colours of terminals, each readable on abyssal (WCAG 2.2, 1.4.3: 4.5 to 1) except black, which is never text there. */
export const terminal: readonly string[] = [
  "#767676", "#ff6b6b", "#4fd64f", "#d7ba4a", "#6ca0ff", "#d787ff", "#4ac8d7", "#cccccc",
  "#949494", "#ff8f8f", "#39ff14", "#ffe066", "#94baff", "#e6adff", "#7fe6f0", "#ffffff",
];

/** Relative luminance of "#rrggbb" (WCAG 2.2). */
export function luminance(colour: string): number {
  const part = (i: number): number => {
    const v = parseInt(colour.slice(i, i + 2), 16) / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

/** Contrast of two colours, 1 to 21 (WCAG 2.2). */
export function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** The nearest to colour that can be read on background: mixed with white or black, whichever is further from it. */
export function legible(colour: string, background: string): string {
  if (contrast(colour, background) >= 4.5) return colour;
  const to = luminance(background) < 0.18 ? 255 : 0;
  for (let step = 1; step <= 20; step++) {
    const mixed = "#" + [1, 3, 5].map((i) => Math.round(parseInt(colour.slice(i, i + 2), 16) * (1 - step / 20) + to * (step / 20)).toString(16).padStart(2, "0")).join("");
    if (contrast(mixed, background) >= 4.5) return mixed;
  }
  return to === 255 ? "#ffffff" : "#000000";
}
