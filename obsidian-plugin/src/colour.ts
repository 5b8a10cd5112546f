/** The palette of the project. */
export const palette = { alert: "#ff0000", success: "#39ff14", ash: "#cccccc", abyssal: "#080808" } as const;

/** Colours of how runs end, each "#rrggbb". The user may choose others. */
export interface OutcomeColours {
  readonly ok: string;
  /** And of what ran out of time or memory, and of errors of the sandbox. */
  readonly failed: string;
  /** And of what was denied. */
  readonly violated: string;
  /** Of all other states. */
  readonly other: string;
}

export const outcomeColours: OutcomeColours = { ok: palette.success, failed: palette.alert, violated: palette.alert, other: palette.ash };

// The backgrounds of themes on which text is hardest to read: the darkest of light ones, and the lightest of dark ones.
const light = "#e8e8e8";
const dark = "#262626";

/** The variables that styles.css takes colours from: each one as it was chosen, for bars, and as it can be read in light and dark themes. */
export function variablesOf(colours: OutcomeColours): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, colour] of Object.entries(colours) as [string, string][]) {
    out[`--silk-${name}`] = colour;
    out[`--silk-${name}-on-light`] = legible(colour, light);
    out[`--silk-${name}-on-dark`] = legible(colour, dark);
    out[`--silk-${name}-on-light-rgb`] = rgb(legible(colour, light)).join(", ");
    out[`--silk-${name}-on-dark-rgb`] = rgb(legible(colour, dark)).join(", ");
  }
  return out;
}

const rgb = (colour: string): number[] => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

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
    const mixed = "#" + rgb(colour).map((v) => Math.round(v * (1 - step / 20) + to * (step / 20)).toString(16).padStart(2, "0")).join("");
    if (contrast(mixed, background) >= 4.5) return mixed;
  }
  return to === 255 ? "#ffffff" : "#000000";
}
