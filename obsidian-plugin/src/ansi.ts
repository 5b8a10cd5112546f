/** One of the 16 named colours of terminals (0 to 15), or "#rrggbb". */
export type Colour = number | string;

/** How a piece of text looks. Equal styles are the same object: compare by identity. */
export interface Style {
  readonly fg?: Colour;
  readonly bg?: Colour;
  readonly bold?: true;
  readonly dim?: true;
  readonly italic?: true;
  readonly underline?: true;
  readonly strike?: true;
  readonly inverse?: true;
}

/** Text of one look. It is what an untrusted program wrote: it goes into text nodes and nowhere else. */
export interface Span {
  readonly text: string;
  readonly style: Style;
}

const interned = new Map<string, Style>();

function intern(style: Style): Style {
  const key = JSON.stringify([style.fg, style.bg, style.bold, style.dim, style.italic, style.underline, style.strike, style.inverse]);
  const known = interned.get(key);
  if (known !== undefined) return known;
  if (interned.size >= 4096) interned.clear(); // a program that uses every colour; old spans keep theirs
  interned.set(key, style);
  return style;
}

/** Text as it is. */
export const plain: Style = intern({});
/** What silk says between the lines of a program. */
export const aside: Style = intern({ dim: true, italic: true });

type Flag = "bold" | "dim" | "italic" | "underline" | "strike" | "inverse";
const on: Readonly<Record<number, Flag>> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const off: Readonly<Record<number, readonly Flag[]>> = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

/** The style after a Select Graphic Rendition sequence (ECMA-48 8.3.117). What is not known is ignored. */
export function applySGR(style: Style, params: string): Style {
  const next: { -readonly [K in keyof Style]: Style[K] } = { ...style };
  const codes = params.split(/[;:]/).map((p) => (p === "" ? 0 : Number(p)));
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i] ?? 0;
    const flag = on[c];
    if (c === 0) for (const k of Object.keys(next)) Reflect.deleteProperty(next, k);
    else if (flag !== undefined) next[flag] = true;
    else if (off[c] !== undefined) for (const f of off[c]) Reflect.deleteProperty(next, f);
    else if (c >= 30 && c <= 37) next.fg = c - 30;
    else if (c >= 90 && c <= 97) next.fg = c - 90 + 8;
    else if (c >= 40 && c <= 47) next.bg = c - 40;
    else if (c >= 100 && c <= 107) next.bg = c - 100 + 8;
    else if (c === 39) delete next.fg;
    else if (c === 49) delete next.bg;
    else if (c === 38 || c === 48) {
      const [colour, used] = extended(codes, i + 1);
      i += used;
      if (colour !== undefined) next[c === 38 ? "fg" : "bg"] = colour;
    }
  }
  return intern(next);
}

/** The colour of 5;n or 2;r;g;b at codes[i], and how many codes that is. */
function extended(codes: readonly number[], i: number): [Colour | undefined, number] {
  if (codes[i] === 5) return [indexed(codes[i + 1] ?? 0), 2];
  if (codes[i] === 2) return [hex(codes[i + 1] ?? 0, codes[i + 2] ?? 0, codes[i + 3] ?? 0), 4];
  return [undefined, codes.length];
}

/** A colour of xterm's palette of 256: 16 named, a cube of 6x6x6, 24 greys. */
function indexed(n: number): Colour | undefined {
  if (!Number.isInteger(n) || n < 0 || n > 255) return undefined;
  if (n < 16) return n;
  if (n >= 232) return hex(8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10);
  const level = (v: number): number => (v === 0 ? 0 : 55 + v * 40);
  return hex(level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6));
}

function hex(...rgb: number[]): string | undefined {
  if (rgb.some((v) => !Number.isInteger(v) || v < 0 || v > 255)) return undefined;
  return "#" + rgb.map((v) => v.toString(16).padStart(2, "0")).join("");
}
