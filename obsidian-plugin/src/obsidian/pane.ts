import type { SilkClient } from "@silk-sandbox/client";
import { ItemView, type WorkspaceLeaf } from "obsidian";
import { messageOf, type BlockRun } from "../runner.js";
import type { Alert } from "../settings.js";
import { ended } from "../words.js";
import { BlockPanel, type PanelHost } from "./panel.js";

export const runsView = "silk-runs";

/** What the pane needs beside the panels. */
export interface PaneHost extends PanelHost {
  connect(): Promise<SilkClient>;
  alerts(): readonly Alert[];
  onAlert(listener: () => void): () => void;
}

/** The runs of this window and of the server, and the log of alerts. */
export class RunsView extends ItemView {
  readonly #host: PaneHost;
  readonly #panels = new Map<BlockRun, { panel: BlockPanel; el: HTMLElement }>();
  #live: HTMLElement | undefined;
  #history: HTMLElement | undefined;
  #alerts: HTMLElement | undefined;

  constructor(leaf: WorkspaceLeaf, host: PaneHost) {
    super(leaf);
    this.#host = host;
    this.icon = "square-terminal";
  }

  override getViewType(): string {
    return runsView;
  }
  override getDisplayText(): string {
    return "Sandbox runs";
  }

  protected override onOpen(): Promise<void> {
    const { contentEl } = this;
    contentEl.addClass("silk-pane");
    this.#live = section(contentEl, "In this window", true);
    const history = section(contentEl, "On the server", false, () => {
      void this.#load();
    });
    this.#history = history;
    this.#alerts = section(contentEl, "Alerts", true);
    this.register(
      this.#host.runner.onChange(() => {
        this.#drawLive();
      }),
    );
    this.register(
      this.#host.onAlert(() => {
        this.#drawAlerts();
      }),
    );
    this.#drawLive();
    this.#drawAlerts();
    return Promise.resolve();
  }

  protected override onClose(): Promise<void> {
    for (const { panel } of this.#panels.values()) panel.unload();
    this.#panels.clear();
    return Promise.resolve();
  }

  /** Brings one run into sight, with the focus on it. */
  reveal(run: BlockRun): void {
    const el = this.#panels.get(run)?.el;
    el?.closest("details")?.setAttribute("open", "");
    el?.scrollIntoView({ block: "nearest" });
    el?.focus();
  }

  #drawLive(): void {
    const { runs } = this.#host.runner;
    for (const [run, { panel, el }] of this.#panels) {
      if (runs.includes(run)) continue;
      panel.unload();
      el.remove();
      this.#panels.delete(run);
    }
    for (const run of runs) {
      if (this.#panels.has(run) || this.#live === undefined) continue;
      const el = createDiv({ cls: "silk-item", attr: { tabindex: "-1" } });
      el.createDiv({ cls: "silk-item-title", text: titleOf(run) });
      this.#panels.set(run, { panel: new BlockPanel(el, this.#host, { target: () => undefined, run, looks: true }), el });
      this.#live.prepend(el);
    }
    this.#live?.toggleClass("silk-nothing", runs.length === 0);
  }

  async #load(): Promise<void> {
    const list = this.#history;
    if (list === undefined) return;
    list.empty();
    try {
      const page = await (await this.#host.connect()).listRunsPage({}, { limit: 50 });
      list.empty();
      for (const r of page.items) this.#entry(list, r.run, r.accepted_at_ms, r.command ?? r.profile, r.outcome?.outcome ?? "", r.outcome === undefined ? r.state : ended(r.outcome));
      list.toggleClass("silk-nothing", page.items.length === 0);
    } catch (err) {
      list.createDiv({ text: messageOf(err) });
    }
  }

  #drawAlerts(): void {
    const list = this.#alerts;
    if (list === undefined) return;
    list.empty();
    const alerts = this.#host.alerts();
    for (const a of [...alerts].reverse()) this.#entry(list, a.run, a.atMs, a.note, a.outcome, a.text);
    list.toggleClass("silk-nothing", alerts.length === 0);
  }

  /** A line that opens its run. */
  #entry(list: HTMLElement, run: string, atMs: number, about: string, outcome: string, end: string): void {
    const el = list.createDiv({ cls: "silk-item", attr: { "data-outcome": outcome } });
    const open = el.createEl("button", { cls: "silk-open", attr: { type: "button" } });
    open.createSpan({ text: new Date(atMs).toLocaleString() });
    open.createSpan({ cls: "silk-command", text: about });
    open.createSpan({ cls: "silk-end", text: end });
    const failed = el.createDiv({ attr: { role: "alert" } });
    open.addEventListener("click", () => {
      this.#host.runner.open(run).then(
        (opened) => {
          this.reveal(opened);
        },
        (err: unknown) => {
          failed.setText(messageOf(err));
        },
      );
    });
  }
}

function titleOf(run: BlockRun): string {
  const { path, language, code } = run.target;
  const first = code.trim().split("\n")[0] ?? "";
  return [new Date(run.atMs).toLocaleTimeString(), path, language, first.slice(0, 80), run.opened ? run.live?.state.run : ""].filter((s) => s !== undefined && s !== "").join(" · ");
}

function section(parent: HTMLElement, title: string, open: boolean, onOpen?: () => void): HTMLElement {
  const details = parent.createEl("details", { cls: "silk-section" });
  details.open = open;
  details.createEl("summary", { text: title });
  if (onOpen !== undefined)
    details.addEventListener("toggle", () => {
      if (details.open) onOpen();
    });
  return details.createDiv({ cls: "silk-list" });
}
