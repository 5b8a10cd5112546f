import { applySGR, aside, plain, type Span, type Style } from "./ansi.js";

/** One line of output. */
export type Line = readonly Span[];

/** Bounds of one channel in memory. Whatever a program prints, no more is kept. */
export interface ScreenLimits {
  readonly lines: number;
  /** UTF-16 units of all lines. */
  readonly chars: number;
  /** UTF-16 units of one line, 2 at least; a longer one goes on in the next. */
  readonly lineChars: number;
}

export const screenLimits: ScreenLimits = { lines: 100_000, chars: 16 << 20, lineChars: 8192 };

const longestEscape = 256;
// eslint-disable-next-line no-control-regex -- they are what is looked for
const control = /[\u0000-\u001f\u007f-\u009f]/g;
// Whole sequences: CSI; OSC, DCS, SOS, PM and APC up to their end; and two-character ones.
// eslint-disable-next-line no-control-regex -- they are what is looked for
const sequence = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/y;
// The begin of one that may go on in the next piece.
// eslint-disable-next-line no-control-regex -- they are what is looked for
const unfinished = /\u001b(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\u001b]*\u001b?|[ -/]*)$/y;

/**
 * What a terminal of unlimited width would show of one channel: colours, carriage returns, backspaces and erased lines are obeyed,
 * all other control sequences are left out and single control characters are shown as pictures. Bounded: the oldest lines go.
 * It is changed in place, since a copy of 100,000 lines for each piece would be the slow part.
 */
export class Screen {
  readonly #limits: ScreenLimits;
  #lines: Line[] = [];
  #first = 0; // of #lines that still count
  #dropped = 0;
  #chars = 0; // of complete lines
  #line: Span[] = []; // the one that is written
  #length = 0; // its UTF-16 units
  #column = 0;
  #style: Style = plain;
  #rest = ""; // a sequence whose end has not come
  #version = 0;

  constructor(limits: ScreenLimits = screenLimits) {
    this.#limits = limits;
  }

  /** Grows with each change. */
  get version(): number {
    return this.#version;
  }

  /** Lines that were too many, the oldest ones. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Lines that are kept, with the one that is being written if it has text. */
  get length(): number {
    return this.#lines.length - this.#first + (this.#line.length > 0 ? 1 : 0);
  }

  /** The nth line that is kept, from 0. */
  line(n: number): Line | undefined {
    const i = this.#first + n;
    return i < this.#lines.length ? this.#lines[i] : i === this.#lines.length && this.#line.length > 0 ? this.#line : undefined;
  }

  /** All kept text, without looks. */
  text(): string {
    const out: string[] = [];
    for (let i = 0; i < this.length; i++) out.push((this.line(i) ?? []).map((s) => s.text).join(""));
    return out.join("\n");
  }

  /** Takes a piece of output, which may begin and end anywhere. */
  write(piece: string): void {
    if (piece === "") return;
    this.#version++;
    const text = this.#rest + piece;
    this.#rest = "";
    let at = 0;
    while (at < text.length) {
      control.lastIndex = at;
      const found = control.exec(text);
      if (found === null) {
        this.#put(text.slice(at));
        return;
      }
      if (found.index > at) this.#put(text.slice(at, found.index));
      at = this.#control(text, found.index);
    }
  }

  /** Adds a line of silk's own, after what was written. */
  note(text: string): void {
    this.#version++;
    if (this.#line.length > 0) this.#newline();
    this.#push([{ text, style: aside }], text.length);
  }

  /** Handles the control character at i, and returns where the text goes on. */
  #control(text: string, i: number): number {
    const c = text.charCodeAt(i);
    switch (c) {
      case 0x0a:
        this.#newline();
        return i + 1;
      case 0x0d:
        this.#column = 0;
        return i + 1;
      case 0x08:
        this.#column = Math.max(0, this.#column - 1);
        return i + 1;
      case 0x09:
        this.#put("\t");
        return i + 1;
      case 0x07:
        return i + 1; // a bell
      case 0x1b:
        return this.#escape(text, i);
      default:
        this.#put(c < 0x20 ? String.fromCharCode(0x2400 + c) : c === 0x7f ? "\u2421" : "\ufffd");
        return i + 1;
    }
  }

  #escape(text: string, i: number): number {
    sequence.lastIndex = i;
    const found = sequence.exec(text);
    if (found !== null) {
      const [all, params, final] = found;
      if (final === "m") this.#style = applySGR(this.#style, params ?? "");
      else if (final === "K") this.#erase(params === "" ? 0 : Number(params));
      else if (final === "G") this.#column = Math.min(this.#length, Math.max(0, Number(params === "" ? 1 : params) - 1) || 0);
      return i + all.length;
    }
    unfinished.lastIndex = i;
    if (text.length - i < longestEscape && unfinished.test(text)) {
      this.#rest = text.slice(i);
      return text.length;
    }
    this.#put("\u241b");
    return i + 1;
  }

  #erase(mode: number): void {
    if (mode === 2) {
      this.#line = [];
      this.#length = 0;
      this.#column = 0;
    } else if (mode === 0) {
      this.#line = cut(this.#line, 0, this.#column);
      this.#length = Math.min(this.#length, this.#column);
    } else if (mode === 1) {
      const at = this.#column;
      this.#column = 0;
      this.#put(" ".repeat(Math.min(at, this.#length)));
    }
  }

  #put(text: string): void {
    let rest = text;
    while (rest !== "") {
      const room = this.#limits.lineChars - this.#column;
      const end = rest.length <= room ? rest.length : whole(rest, room);
      if (end <= 0) {
        this.#newline();
        continue;
      }
      this.#overwrite(rest.slice(0, end));
      rest = rest.slice(end);
    }
  }

  #overwrite(text: string): void {
    const at = this.#column;
    const span = { text, style: this.#style };
    if (at === this.#length) {
      const last = this.#line.at(-1);
      if (last?.style === this.#style) this.#line[this.#line.length - 1] = { text: last.text + text, style: last.style };
      else this.#line.push(span);
    } else {
      const before = cut(this.#line, 0, at);
      const after = cut(this.#line, at + text.length, this.#length);
      this.#line = joined([...before, span, ...after]);
    }
    this.#column = at + text.length;
    this.#length = Math.max(this.#length, this.#column);
  }

  #newline(): void {
    this.#push(this.#line, this.#length);
    this.#line = [];
    this.#length = 0;
    this.#column = 0;
  }

  #push(line: Line, length: number): void {
    this.#lines.push(line);
    this.#chars += length;
    while (this.#lines.length - this.#first > this.#limits.lines || this.#chars > this.#limits.chars) {
      for (const s of this.#lines[this.#first] ?? []) this.#chars -= s.text.length;
      this.#lines[this.#first] = [];
      this.#first++;
      this.#dropped++;
    }
    if (this.#first > 10_000 && this.#first * 2 > this.#lines.length) {
      this.#lines = this.#lines.slice(this.#first);
      this.#first = 0;
    }
  }
}

/** Units from..to of a line. */
function cut(line: Line, from: number, to: number): Span[] {
  const out: Span[] = [];
  let at = 0;
  for (const s of line) {
    const a = Math.max(from - at, 0);
    const b = Math.min(to - at, s.text.length);
    if (a < b) out.push(a === 0 && b === s.text.length ? s : { text: s.text.slice(a, b), style: s.style });
    at += s.text.length;
  }
  return out;
}

/** Neighbours of one style become one span. */
function joined(line: Line): Span[] {
  const out: Span[] = [];
  for (const s of line) {
    const last = out.at(-1);
    if (last?.style === s.style) out[out.length - 1] = { text: last.text + s.text, style: s.style };
    else out.push(s);
  }
  return out;
}

/** At most n units of text, and no half of a surrogate pair. */
function whole(text: string, n: number): number {
  const c = text.charCodeAt(n - 1);
  return c >= 0xd800 && c < 0xdc00 ? n - 1 : n;
}
