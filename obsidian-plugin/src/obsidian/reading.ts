import { MarkdownRenderChild, type MarkdownPostProcessorContext } from "obsidian";
import { findFences } from "../fences.js";
import { shownOf, trimmed } from "../request.js";
import type { Target } from "../runner.js";
import { hasButton } from "../settings.js";
import { BlockPanel, type PanelHost } from "./panel.js";

/** Puts a panel under each block of code of rendered Markdown: in reading view, popovers, embeds, and callouts of live preview. */
export function readingView(host: PanelHost): (el: HTMLElement, ctx: MarkdownPostProcessorContext) => void {
  return (el, ctx) => {
    for (const code of Array.from(el.querySelectorAll<HTMLElement>("pre > code[class*='language-']"))) {
      const language = languageOfClass(code);
      const pre = code.parentElement;
      if (pre === null || !hasButton(language, host.settings()) || pre.nextElementSibling?.hasClass("silk-place") === true) continue;
      const place = createDiv({ cls: "silk-place" });
      pre.after(place);
      ctx.addChild(new PanelChild(place, host, () => targetOf(el, code, language, ctx)));
    }
  };
}

class PanelChild extends MarkdownRenderChild {
  readonly #host: PanelHost;
  readonly #target: () => Target | undefined;
  #panel: BlockPanel | undefined;

  constructor(place: HTMLElement, host: PanelHost, target: () => Target | undefined) {
    super(place);
    this.#host = host;
    this.#target = target;
  }

  override onload(): void {
    this.#panel = new BlockPanel(this.containerEl, this.#host, { target: this.#target });
  }

  override onunload(): void {
    this.#panel?.unload();
    this.containerEl.empty();
  }
}

/** The fence word of a rendered block. */
export function languageOfClass(code: HTMLElement): string {
  for (const c of Array.from(code.classList)) if (c.startsWith("language-")) return c.slice("language-".length).toLowerCase();
  return "";
}

function targetOf(el: HTMLElement, code: HTMLElement, language: string, ctx: MarkdownPostProcessorContext): Target {
  const text = code.textContent;
  const target = { path: ctx.sourcePath, language, code: text };
  const section = ctx.getSectionInfo(el);
  if (section === null) return target;
  const fences = findFences(section.text.split("\n"));
  const inSection = fences.filter((f) => trimmed(f.code) === trimmed(text) && f.line >= section.lineStart && f.endLine <= section.lineEnd);
  const before = Array.from(el.querySelectorAll("pre > code")).filter((c) => c !== code && trimmed(c.textContent) === trimmed(text) && (c.compareDocumentPosition(code) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0);
  const found = inSection[before.length];
  return found === undefined ? target : { ...target, ...shownOf(fences, found), code: text };
}
