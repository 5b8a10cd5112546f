import { setIcon } from "obsidian";
import type { BlockRun, Runner, Target } from "../runner.js";
import type { Settings } from "../settings.js";
import { clock, reached, refused, sentence } from "../words.js";
import { OutputView } from "./output.js";

/** What a panel needs of the plugin. */
export interface PanelHost {
  readonly runner: Runner;
  settings(): Settings;
  /** On a phone nothing is started. */
  readonly viewer: boolean;
  copy(text: string): void;
  now(): number;
}

export interface PanelOptions {
  /** The block as it is now; undefined if it has gone. */
  readonly target: () => Target | undefined;
  /** It shows a run, and starts none. */
  readonly looks?: boolean;
  /** The run that the panel begins with. */
  readonly run?: BlockRun | undefined;
  readonly onRun?: (run: BlockRun | undefined) => void;
  /** The height may have changed. */
  readonly onResize?: () => void;
}

/** The buttons under a block of code and, when it runs, its output. */
export class BlockPanel {
  readonly el: HTMLElement;
  readonly #host: PanelHost;
  readonly #options: PanelOptions;
  readonly #buttons: Readonly<Record<"run" | "stop" | "copy" | "clear", HTMLButtonElement>>;
  readonly #status: HTMLElement;
  readonly #clock: HTMLElement;
  readonly #out: HTMLElement;
  readonly #stop: (() => void)[] = [];
  #run: BlockRun | undefined;
  #views: OutputView[] = [];
  #facts: HTMLElement | undefined;
  #said = "";
  #again: HTMLButtonElement | undefined;
  #shows: unknown;
  #leaveRun: (() => void) | undefined;
  #frame = 0;
  #ticking = 0;

  constructor(parent: HTMLElement, host: PanelHost, options: PanelOptions) {
    this.#host = host;
    this.#options = options;
    const target = options.target();
    this.el = parent.createDiv({ cls: "silk-panel", attr: { role: "group", "aria-label": options.looks === true ? "Run" : `Run ${target?.language ?? ""} code`, contenteditable: "false" } });
    const bar = this.el.createDiv({ cls: "silk-bar" });
    this.#buttons = {
      run: button(bar, "play", "Run", "Run this block in the sandbox"),
      stop: button(bar, "square", "Stop", "Stop this run"),
      copy: button(bar, "copy", "Copy", "Copy the output"),
      clear: options.looks === true ? button(bar, "eraser", "Clear", "Clear this run from the list") : button(bar, "eraser", "Clear", "Clear the output, in the note too"),
    };
    this.#status = bar.createSpan({ cls: "silk-status", attr: { role: "status" } });
    this.#clock = bar.createSpan({ cls: "silk-clock", attr: { role: "timer" } });
    this.#out = this.el.createDiv({ cls: "silk-out" });
    if (options.looks === true) this.#buttons.run.remove();
    if (host.viewer) for (const b of [this.#buttons.run, this.#buttons.stop]) b.remove();
    if (host.viewer && options.looks !== true) this.#buttons.clear.remove(); // it changes the note
    this.#buttons.run.addEventListener("click", (e) => {
      e.stopPropagation();
      if (!e.isTrusted) return; // a script's click is no click: what a note or another plugin renders cannot press it
      this.#start();
    });
    this.#buttons.stop.addEventListener("click", (e) => {
      e.stopPropagation();
      if (this.#run !== undefined) void host.runner.stop(this.#run);
    });
    this.#buttons.copy.addEventListener("click", (e) => {
      e.stopPropagation();
      const live = this.#run?.live;
      if (live !== undefined) host.copy([live.stdout.text(), live.stderr.text()].filter((t) => t !== "").join("\n"));
    });
    this.#buttons.clear.addEventListener("click", (e) => {
      e.stopPropagation();
      this.#clear();
    });
    this.#stop.push(
      host.runner.onChange(() => {
        this.#look();
      }),
    );
    this.#attach(options.run ?? this.#found());
    this.#draw();
  }

  /** The panel is taken away. Its run goes on. */
  unload(): void {
    for (const s of this.#stop) s();
    this.#leaveRun?.();
    const { win } = this.el;
    win.cancelAnimationFrame(this.#frame);
    win.clearInterval(this.#ticking);
    this.#ticking = 0;
  }

  #start(): void {
    const target = this.#options.target();
    if (target === undefined) return;
    void this.#host.runner.start(target);
    this.#attach(this.#host.runner.find(target));
  }

  #clear(): void {
    const target = this.#options.target();
    if (this.#run !== undefined && !this.#run.busy) this.#host.runner.drop(this.#run);
    this.#attach(undefined);
    if (target !== undefined) void this.#host.runner.clear(target);
  }

  #found(): BlockRun | undefined {
    const target = this.#options.target();
    return target === undefined ? undefined : this.#host.runner.find(target);
  }

  /** A run was started or dropped somewhere; it may be this block's. */
  #look(): void {
    const { runs } = this.#host.runner;
    const found = this.#found();
    if (found !== undefined && found !== this.#run) this.#attach(found);
    else if (this.#run !== undefined && !runs.includes(this.#run)) this.#attach(undefined);
  }

  #attach(run: BlockRun | undefined): void {
    if (run === this.#run) return;
    this.#leaveRun?.();
    this.#run = run;
    this.#leaveRun = run?.onChange(() => {
      this.#schedule();
    });
    this.#options.onRun?.(run);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#frame !== 0) return;
    this.#frame = this.el.win.requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw(): void {
    const run = this.#run;
    const state = run?.live?.state;
    const busy = run?.busy === true;
    const focused = this.el.doc.activeElement;
    this.#buttons.run.disabled = busy;
    this.#buttons.stop.disabled = !busy;
    this.#buttons.copy.disabled = run?.live === undefined;
    this.#buttons.clear.disabled = busy;
    // A button that is switched off would lose the focus to nowhere.
    if (busy && focused === this.#buttons.run) this.#buttons.stop.focus();
    if (!busy && focused === this.#buttons.stop) this.#buttons.run.focus();
    const alarmed = run?.problem !== undefined && run.problem !== "";
    const outcome = state?.outcome?.outcome ?? (alarmed ? "error" : "");
    this.el.dataset["outcome"] = busy && outcome === "" ? "busy" : outcome;
    const status = statusOf(run);
    if (status !== this.#status.textContent) this.#status.setText(status); // what is the same is not to be read out again
    this.#clock.setText(state === undefined ? "" : clock(state, this.#host.now()));
    this.#tick(busy && state?.phase === "running");
    if (run?.live !== this.#shows) this.#rebuild();
    this.#drawFacts();
    for (const v of this.#views) v.update();
    this.#options.onResize?.();
  }

  #rebuild(): void {
    this.#out.empty();
    this.#views = [];
    this.#facts = undefined;
    const live = this.#run?.live;
    this.#shows = live;
    if (live === undefined) return;
    const colours = this.#host.settings().ansi;
    this.#facts = this.#out.createDiv({ cls: "silk-facts" });
    this.#said = "";
    this.#again = this.#out.createEl("button", { cls: "silk-again silk-none", text: "Reconnect", attr: { type: "button" } });
    this.#again.addEventListener("click", () => {
      if (this.#run !== undefined) void this.#host.runner.reconnect(this.#run);
    });
    this.#views.push(new OutputView(this.#out, live.stdout, "Output", colours));
    const stderr = new OutputView(this.#out, live.stderr, "Errors (stderr)", colours);
    stderr.el.addClass("silk-stderr");
    this.#views.push(stderr);
  }

  #drawFacts(): void {
    const run = this.#run;
    const state = run?.live?.state;
    if (this.#facts === undefined || state === undefined) return;
    const lines = [
      ...state.violations.map((v) => `Violation: ${[v.rule, v.syscall, v.detail].filter((s) => s !== "").join(" · ")}`),
      ...refused(state),
    ];
    const fine = reached(state);
    const said = [...lines, "", ...fine].join("\n");
    if (said !== this.#said) {
      this.#said = said;
      this.#facts.replaceChildren();
      for (const l of lines) this.#facts.createDiv({ cls: "silk-violation", text: l });
      for (const l of fine) this.#facts.createDiv({ cls: "silk-reached", text: l });
    }
    const lost = state.phase === "lost";
    if (!lost && this.el.doc.activeElement === this.#again) this.#buttons.stop.focus();
    this.#again?.toggleClass("silk-none", !lost);
  }

  /** Runs the clock of a running block. */
  #tick(on: boolean): void {
    const { win } = this.el;
    if (on && this.#ticking === 0) {
      this.#ticking = win.setInterval(() => {
        if (this.#run?.live !== undefined) this.#clock.setText(clock(this.#run.live.state, this.#host.now()));
      }, 1000);
    } else if (!on && this.#ticking !== 0) {
      win.clearInterval(this.#ticking);
      this.#ticking = 0;
    }
  }
}

function statusOf(run: BlockRun | undefined): string {
  if (run === undefined) return "";
  const { live, problem, kept } = run;
  const stands = live === undefined ? (run.busy ? "Asks the server" : "") : sentence(live.state);
  return [stands, live?.state.phase === "lost" ? "" : problem, kept].filter((s) => s !== "").join(". ");
}

function button(bar: HTMLElement, icon: string, text: string, label: string): HTMLButtonElement {
  const el = bar.createEl("button", { cls: `silk-button silk-${text.toLowerCase()}`, attr: { type: "button", "aria-label": label } });
  setIcon(el.createSpan({ cls: "silk-icon", attr: { "aria-hidden": "true" } }), icon);
  el.createSpan({ text });
  return el;
}
