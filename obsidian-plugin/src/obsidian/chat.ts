import type { Component } from "obsidian";
import type { Target } from "../runner.js";
import { hasButton } from "../settings.js";
import { BlockPanel, type PanelHost } from "./panel.js";
import { languageOfClass } from "./reading.js";

const wrapper = ".claudian-code-wrapper";

/**
 * Puts panels under the blocks of code in the Claudian plugin's chat. It has no API: its blocks are seen when they appear. Nothing is
 * run by that; what runs is what stands there when the button is pressed.
 */
export function chat(host: PanelHost, owner: Component, root: HTMLElement): void {
  const panels = new Map<Element, BlockPanel>();
  const look = (): void => {
    for (const [el, panel] of panels) {
      if (el.isConnected) continue;
      panel.unload();
      panel.el.parentElement?.remove();
      panels.delete(el);
    }
    if (!host.settings().chat) return;
    for (const el of Array.from(root.querySelectorAll<HTMLElement>(wrapper))) {
      const code = el.querySelector<HTMLElement>("pre code") ?? el.querySelector<HTMLElement>("pre");
      if (panels.has(el) || code === null) continue;
      const language = languageOfClass(code) || (el.querySelector(".claudian-code-lang-label")?.textContent ?? "").trim().toLowerCase();
      if (!hasButton(language, host.settings())) continue;
      const place = createDiv({ cls: "silk-place silk-chat" });
      el.after(place);
      const target = (): Target => ({ path: undefined, language, code: code.textContent });
      panels.set(el, new BlockPanel(place, host, { target }));
    }
  };
  let asked = 0;
  const observer = new MutationObserver(() => {
    if (asked !== 0) return;
    asked = window.requestAnimationFrame(() => {
      asked = 0;
      look();
    });
  });
  observer.observe(root, { childList: true, subtree: true });
  owner.register(() => {
    observer.disconnect();
    window.cancelAnimationFrame(asked);
    for (const panel of panels.values()) {
      panel.unload();
      panel.el.parentElement?.remove();
    }
    panels.clear();
  });
  look();
}
