import type { Colour, Span } from "../ansi.js";
import { legible, palette, terminal } from "../colour.js";
import type { Screen } from "../screen.js";

const maxRows = 18; // that are seen at once
const spare = 10; // rows above and below those

/**
 * Shows a screen of any number of lines with some dozens of elements: the rows that are seen. Text goes into text nodes and nowhere
 * else. It follows the end until the user scrolls up.
 */
export class OutputView {
  readonly el: HTMLElement;
  readonly #screen: Screen;
  readonly #note: HTMLElement;
  readonly #box: HTMLElement;
  readonly #all: HTMLElement;
  readonly #rows: HTMLElement;
  readonly #colours: boolean;
  #drawn = { version: -1, first: -1, last: -1 };
  #rowPx = 0;
  #follows = true;

  constructor(parent: HTMLElement, screen: Screen, name: string, colours: boolean) {
    this.#screen = screen;
    this.#colours = colours;
    this.el = parent.createDiv({ cls: "silk-channel" });
    this.#note = this.el.createDiv({ cls: "silk-dropped" });
    this.#box = this.el.createDiv({ cls: "silk-lines", attr: { tabindex: "0", role: "log", "aria-live": "off", "aria-label": name } });
    this.#all = this.#box.createDiv({ cls: "silk-all" });
    this.#rows = this.#all.createDiv({ cls: "silk-rows" });
    this.#box.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.#box;
      this.#follows = scrollTop + clientHeight >= scrollHeight - 2;
      this.#draw(false);
    });
  }

  /** Draws what has changed. */
  update(): void {
    const { length, dropped } = this.#screen;
    this.el.toggleClass("silk-none", length === 0);
    if (length === 0) return;
    this.#note.setText(dropped === 0 ? "" : `${dropped.toLocaleString()} earlier lines are not shown`);
    if (this.#rowPx === 0) {
      this.#rowPx = parseFloat(this.#box.win.getComputedStyle(this.#box).lineHeight) || 20;
      this.#box.setCssProps({ "--silk-row": `${String(this.#rowPx)}px` });
    }
    this.#all.setCssProps({ "--silk-height": `${String(length * this.#rowPx)}px` });
    this.#box.setCssProps({ "--silk-seen": `${String(Math.min(length, maxRows) * this.#rowPx)}px` });
    if (this.#follows) this.#box.scrollTop = this.#box.scrollHeight;
    this.#draw(true);
  }

  #draw(changed: boolean): void {
    if (this.#rowPx === 0) return;
    const { length, version } = this.#screen;
    const first = Math.max(0, Math.floor(this.#box.scrollTop / this.#rowPx) - spare);
    const last = Math.min(length, first + maxRows + 2 * spare);
    const same = this.#drawn.first === first && this.#drawn.last === last && (!changed || this.#drawn.version === version);
    if (same) return;
    this.#drawn = { version, first, last };
    this.#rows.setCssProps({ "--silk-top": `${String(first * this.#rowPx)}px` });
    const rows = createFragment();
    for (let i = first; i < last; i++) {
      const row = rows.createDiv({ cls: "silk-row" });
      for (const span of this.#screen.line(i) ?? []) draw(row, span, this.#colours);
    }
    this.#rows.replaceChildren(rows);
  }
}

function draw(row: HTMLElement, span: Span, colours: boolean): void {
  const { style } = span;
  const el = row.createSpan({ text: span.text });
  if (!colours) return;
  for (const flag of ["bold", "dim", "italic", "underline", "strike"] as const) if (style[flag] === true) el.addClass(`silk-${flag}`);
  let [fg, bg] = [rgb(style.fg), rgb(style.bg)];
  if (style.inverse === true) [fg, bg] = [bg ?? palette.abyssal, fg ?? palette.ash];
  if (bg !== undefined) el.setCssProps({ "--silk-bg": bg });
  if (fg !== undefined || bg !== undefined) {
    el.addClass("silk-coloured");
    el.setCssProps({ "--silk-fg": legible(fg ?? palette.ash, bg ?? palette.abyssal) });
  }
}

function rgb(colour: Colour | undefined): string | undefined {
  return typeof colour === "number" ? terminal[colour] : colour;
}
