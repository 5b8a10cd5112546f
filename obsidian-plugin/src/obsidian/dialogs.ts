import type { Approval, Preview, RunRequest, SilkClient } from "@silk-sandbox/client";
import { Modal, type App } from "obsidian";
import { messageOf, type BlockRun } from "../runner.js";
import { facts, hosts } from "../words.js";

/** Shows what a request would do, and asks whether it is wanted. */
export function confirmPlan(app: App, request: RunRequest, preview: Preview, ask: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    new PlanDialog(app, request, preview, ask, resolve).open();
  });
}

/** Closed in any way but by its button, it says no. */
class PlanDialog extends Modal {
  #answer = false;
  constructor(app: App, readonly request: RunRequest, readonly preview: Preview, readonly ask: boolean, readonly resolve: (yes: boolean) => void) {
    super(app);
    this.modalEl.addClass("silk-dialog");
  }
  override onClose(): void {
    this.resolve(this.#answer);
    this.contentEl.empty();
  }
  override onOpen(): void {
    const { contentEl, preview, request } = this;
    this.setTitle("What this run may do");
    if (preview.denial !== undefined) {
      const waits = preview.plan !== undefined;
      const box = contentEl.createDiv({ cls: "silk-callout" });
      box.createDiv({ cls: "silk-strong", text: waits ? "It asks for more than its profile gives: the owner of the server decides." : "It will be refused." });
      box.createDiv({ text: [preview.denial.detail, preview.denial.fix ?? ""].filter((s) => s !== "").join(". ") });
    }
    table(contentEl, [...facts(preview.plan), ...(preview.driver === undefined ? [] : [{ name: "Driver", value: preview.driver }])]);
    listOf(contentEl, "This host", preview.notes);
    listOf(contentEl, "What ends the run, or fails in it", preview.enforced.map((e) => e.what));
    code(contentEl, request.code ?? "");
    const buttons = contentEl.createDiv({ cls: "modal-button-container" });
    if (this.ask) {
      const yes = buttons.createEl("button", { cls: "mod-cta", text: preview.denial === undefined ? "Run" : "Ask for approval" });
      yes.addEventListener("click", (e) => {
        if (!e.isTrusted) return; // a script's click starts nothing
        this.#answer = true;
        this.close();
      });
    }
    const no = buttons.createEl("button", { text: this.ask ? "Cancel" : "Close" });
    no.addEventListener("click", () => {
      this.close();
    });
    no.focus();
  }
}

/** Shows a run that waits for the owner: its code, and what it would reach. With an owner's client it can be decided here. */
export class ApprovalDialog extends Modal {
  readonly #run: BlockRun;
  readonly #id: string;
  readonly #asker: SilkClient;
  readonly #owner: SilkClient | undefined;
  #leave: (() => void) | undefined;

  constructor(app: App, run: BlockRun, id: string, asker: SilkClient, owner: SilkClient | undefined) {
    super(app);
    this.#run = run;
    this.#id = id;
    this.#asker = asker;
    this.#owner = owner;
    this.modalEl.addClass("silk-dialog");
  }

  override onOpen(): void {
    this.setTitle("A run asks for approval");
    this.#leave = this.#run.onChange(() => {
      if (this.#run.live?.state.phase !== "pending") this.close();
    });
    this.contentEl.createDiv({ text: "Asks the server…" });
    void this.#load();
  }

  override onClose(): void {
    this.#leave?.();
    this.contentEl.empty();
  }

  async #load(): Promise<void> {
    const { contentEl } = this;
    try {
      const approval = await (this.#owner ?? this.#asker).getApproval(this.#id);
      contentEl.empty();
      this.#show(approval);
    } catch (err) {
      contentEl.empty();
      if (this.#owner !== undefined) contentEl.createDiv({ text: messageOf(err) });
      this.#elsewhere();
    }
  }

  #show(a: Approval): void {
    const { contentEl } = this;
    const box = contentEl.createDiv({ cls: "silk-callout" });
    box.createDiv({ cls: "silk-strong", text: a.detail });
    const reached = hosts(a.plan);
    box.createDiv({ text: reached.length === 0 ? "It names no hosts." : `It would reach: ${reached.join(", ")}` });
    listOf(contentEl, "Look out", a.warnings ?? []);
    table(contentEl, facts(a.plan));
    for (const f of a.files ?? []) {
      contentEl.createDiv({ cls: "silk-strong", text: `${f.name} · ${String(f.bytes)} B${f.executable === true ? " · executable" : ""}` });
      code(contentEl, f.text ?? f.omitted ?? "");
    }
    code(contentEl, a.code ?? a.omitted ?? "");
    if (a.diff !== undefined && a.diff !== "") {
      contentEl.createDiv({ cls: "silk-strong", text: "Changes since it was last approved" });
      code(contentEl, a.diff);
    }
    contentEl.createDiv({ cls: "silk-hash", text: `Request ${a.hash}` });
    if (this.#owner === undefined) this.#elsewhere();
    else this.#decide(a, this.#owner);
  }

  #decide(a: Approval, owner: SilkClient): void {
    const buttons = this.contentEl.createDiv({ cls: "modal-button-container" });
    const said = this.contentEl.createDiv({ attr: { role: "alert" } });
    const choose = (text: string, grant: boolean, hours: number): HTMLButtonElement => {
      const b = buttons.createEl("button", { text });
      b.addEventListener("click", (e) => {
        if (!e.isTrusted) return; // a script's click decides nothing
        owner.decideApproval(this.#id, { grant, hash: a.hash, ...(hours > 0 ? { for_hours: hours } : {}) }).then(
          () => {
            this.close();
          },
          (err: unknown) => {
            said.setText(messageOf(err));
          },
        );
      });
      return b;
    };
    choose("Approve once", true, 0).addClass("mod-warning");
    choose("Approve for 8 hours", true, 8);
    choose("Deny", false, 0).focus(); // what Enter does is the safe thing
  }

  #elsewhere(): void {
    this.contentEl.createDiv({ text: `The owner decides: silk runs approve ${this.#id}` });
    const buttons = this.contentEl.createDiv({ cls: "modal-button-container" });
    const close = buttons.createEl("button", { text: "Keep waiting" });
    close.addEventListener("click", () => {
      this.close();
    });
    close.focus();
  }
}

function table(parent: HTMLElement, rows: readonly { readonly name: string; readonly value: string }[]): void {
  const body = parent.createEl("table", { cls: "silk-table" }).createEl("tbody");
  for (const r of rows) {
    const tr = body.createEl("tr");
    tr.createEl("th", { text: r.name, attr: { scope: "row" } });
    tr.createEl("td", { text: r.value });
  }
}

function listOf(parent: HTMLElement, title: string, items: readonly string[]): void {
  if (items.length === 0) return;
  const details = parent.createEl("details");
  details.createEl("summary", { text: `${title} (${String(items.length)})` });
  const ul = details.createEl("ul");
  for (const i of items) ul.createEl("li", { text: i });
}

function code(parent: HTMLElement, text: string): void {
  if (text !== "") parent.createEl("pre", { cls: "silk-code", text, attr: { tabindex: "0", "aria-label": "Code" } });
}
