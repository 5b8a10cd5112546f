import type { SilkClient } from "@silk-sandbox/client";
import { FileSystemAdapter, Notice, Platform, Plugin, type Editor, type MarkdownFileInfo, type MarkdownView, type WorkspaceLeaf } from "obsidian";
import { messageOf, Runner, type BlockRun, type Target } from "../runner.js";
import { outcomeColours, variablesOf } from "../colour.js";
import { blockAt, requestOf, shownOf } from "../request.js";
import { decodeStored, maxAlerts, type Alert, type Pending, type Stored } from "../settings.js";
import { findFences } from "../fences.js";
import { alarm } from "../words.js";
import { chat } from "./chat.js";
import { ApprovalDialog, confirmPlan } from "./dialogs.js";
import { livePreview } from "./live.js";
import { Notes } from "./notes.js";
import type { PanelHost } from "./panel.js";
import { runsView, RunsView, type PaneHost } from "./pane.js";
import { readingView } from "./reading.js";
import { canStart, Server, type Secrets } from "./server.js";
import { SettingsTab } from "./tab.js";
import { Welcome } from "./welcome.js";

/** The plugin: what the host calls, and how its parts are put together. */
export default class SilkPlugin extends Plugin {
  #stored: Stored = decodeStored(undefined);
  #tokens: Record<string, string> = {}; // of a host without a keychain
  #red = false; // there was a violation that nobody has looked at
  #saving: Promise<void> = Promise.resolve();
  readonly #alertListeners = new Set<() => void>();
  readonly #keys = this.#secrets();
  readonly #server = new Server(() => this.#stored.settings, this.#keys, vaultPath(this));

  override async onload(): Promise<void> {
    const data: unknown = await this.loadData();
    this.#stored = decodeStored(data);
    this.#tokens = tokensOf(data);
    const notes = new Notes(this.app);
    const [secrets, server] = [this.#keys, this.#server];
    this.register(() => {
      server.end();
    });
    const runner = new Runner({
      settings: () => this.#stored.settings,
      connect: () => this.#connect(server),
      note: (path) => notes.note(path),
      saveImage: (path, image) => notes.saveImage(path, image),
      dropImages: (note, paths) => notes.dropImages(note, paths),
      saveBeside: (path, run, text) => notes.saveBeside(path, run, text),
      confirm: (request, preview) => confirmPlan(this.app, request, preview, true),
      approve: (run) => void this.#approve(run, server),
      notice: (text) => {
        new Notice(text, 10_000);
      },
      alert: (a) => {
        this.#alert(a);
      },
      pending: () => this.#stored.pending,
      remember: (pending: readonly Pending[]) => {
        this.#store({ pending });
      },
      now: () => Date.now(),
      pause: (ms) => new Promise((done) => window.setTimeout(done, ms)),
    });
    const host: PaneHost = {
      runner,
      settings: () => this.#stored.settings,
      viewer: Platform.isMobile,
      copy: (text) => {
        navigator.clipboard.writeText(text).then(
          () => new Notice("Copied."),
          (err: unknown) => new Notice(messageOf(err)),
        );
      },
      now: () => Date.now(),
      connect: () => this.#connect(server),
      alerts: () => this.#stored.alerts,
      onAlert: (listener) => {
        this.#alertListeners.add(listener);
        return () => this.#alertListeners.delete(listener);
      },
    };
    this.registerMarkdownPostProcessor(readingView(host));
    this.registerEditorExtension(livePreview(host));
    this.registerView(runsView, (leaf: WorkspaceLeaf) => new RunsView(leaf, host));
    this.addRibbonIcon("square-terminal", "Sandbox runs", () => void this.#openRuns());
    this.#statusBar(runner);
    this.#commands(runner, host, server);
    this.registerObsidianProtocolHandler(this.manifest.id, ({ run }) => void this.#openRun(runner, run));
    this.#colours();
    this.addSettingTab(
      new SettingsTab(this.app, this, {
        settings: () => this.#stored.settings,
        change: (s) => {
          this.#store({ settings: { ...this.#stored.settings, ...s } });
          this.#colour();
        },
        secrets,
        keychain: hasKeychain(this),
        test: () => this.#test(server),
        welcome: () => {
          this.#welcome(server);
        },
      }),
    );
    this.app.workspace.onLayoutReady(() => {
      chat(host, this, this.app.workspace.containerEl);
      if (!Platform.isMobile) void runner.resume();
    });
  }

  /** The user has enabled the plugin for the first time. */
  override onUserEnable(): void {
    if (this.#keys.get("runner") === "") this.#welcome(this.#server);
  }

  /** Another device has changed the stored data: its settings count, but the runs that wait here and what happened here do not go. */
  override async onExternalSettingsChange(): Promise<void> {
    const data: unknown = await this.loadData();
    const { pending, alerts } = this.#stored;
    this.#stored = { settings: decodeStored(data).settings, pending, alerts };
    this.#tokens = tokensOf(data);
    this.#colour();
  }

  /** Gives the chosen colours to all windows, also to those that are opened later. */
  #colours(): void {
    this.#colour();
    this.registerEvent(this.app.workspace.on("window-open", (w) => {
      w.doc.body.setCssProps(variablesOf(this.#stored.settings.colours));
    }));
    this.register(() => {
      this.#colour(Object.fromEntries(Object.keys(variablesOf(outcomeColours)).map((k) => [k, ""])));
    });
  }

  #colour(variables = variablesOf(this.#stored.settings.colours)): void {
    const { workspace } = this.app;
    const windows = new Set([workspace.containerEl.doc]);
    workspace.iterateAllLeaves((leaf) => windows.add(leaf.view.containerEl.doc));
    for (const doc of windows) doc.body.setCssProps(variables);
  }

  async #connect(server: Server): Promise<SilkClient> {
    const { server: url } = this.#stored.settings;
    if (url === "" && !canStart()) {
      this.#welcome(server);
      throw new Error("There is no server yet");
    }
    return server.client();
  }

  #commands(runner: Runner, host: PanelHost, server: Server): void {
    if (!Platform.isMobile) {
      this.addCommand({ id: "run-block", name: "Run block under cursor", icon: "play", editorCallback: (editor, ctx) => void this.#runAt(runner, editor, ctx) });
      this.addCommand({
        id: "run-above",
        name: "Run all above",
        icon: "list-video",
        editorCallback: (editor, ctx) => {
          const { file } = ctx;
          if (file !== null) void runner.startAbove(file.path, editor.getCursor().line);
        },
      });
    }
    this.addCommand({
      id: "stop-all",
      name: "Stop all",
      icon: "square",
      callback: () => {
        void runner.stopAll().then((n) => new Notice(n === 0 ? "Nothing runs." : `Stopping ${String(n)}.`));
      },
    });
    this.addCommand({
      id: "plan-block",
      name: "Show what the block under cursor may do",
      icon: "scan-eye",
      editorCallback: (editor, ctx) => void this.#planAt(editor, ctx, host, server),
    });
    this.addCommand({ id: "show-runs", name: "Show runs", icon: "square-terminal", callback: () => void this.#openRuns() });
  }

  async #runAt(runner: Runner, editor: Editor, ctx: MarkdownView | MarkdownFileInfo): Promise<void> {
    const target = targetAt(editor, ctx);
    if (target === undefined) {
      new Notice("There is no block of code at the cursor.");
      return;
    }
    const run = await runner.start(target);
    if (run.problem !== "") new Notice(run.problem, 10_000);
  }

  async #planAt(editor: Editor, ctx: MarkdownView | MarkdownFileInfo, host: PanelHost, server: Server): Promise<void> {
    const target = targetAt(editor, ctx);
    try {
      const client = await this.#connect(server);
      const block = target === undefined ? undefined : blockAt(await client.listNoteBlocks(editor.getValue()), target);
      if (block?.request === undefined) throw new Error(block === undefined ? "There is no block of code at the cursor." : `This block cannot run: ${block.reason}.`);
      const request = requestOf(block, target?.path ?? "", host.settings()) ?? block.request;
      await confirmPlan(this.app, request, await client.planRun(request), false);
    } catch (err) {
      new Notice(messageOf(err), 10_000);
    }
  }

  #statusBar(runner: Runner): void {
    const el = this.addStatusBarItem();
    el.addClass("silk-statusbar", "mod-clickable");
    el.setAttrs({ role: "button", tabindex: "0" });
    const open = (): void => void this.#openRuns();
    this.registerDomEvent(el, "click", open);
    this.registerDomEvent(el, "keydown", (e) => {
      if (e.key !== "Enter" && e.key !== " ") return;
      e.preventDefault(); // no scrolling
      open();
    });
    const draw = (): void => {
      const n = runner.runs.filter((r) => r.busy).length;
      const text = n > 0 ? `${String(n)} running` : this.#red ? "Widow Red" : "Sandbox";
      el.setText(text);
      el.setAttr("aria-label", `${text}: show sandbox runs`);
      el.toggleClass("silk-red", this.#red);
    };
    this.register(runner.onChange(draw));
    this.#alertListeners.add(draw);
    draw();
  }

  #alert(a: Alert): void {
    const red = a.outcome === "violated";
    this.#red ||= red;
    this.#store({ alerts: [...this.#stored.alerts, a].slice(-maxAlerts) });
    this.#alertsChanged();
    const notice = new Notice(`${alarm(a.outcome)}\n${a.text}${a.note === "" ? "" : `\n${a.note}`}`, red ? 0 : 8000);
    notice.messageEl.addClass("silk-notice");
    notice.messageEl.setAttr("role", "alert");
    if (red) notice.messageEl.addClass("silk-red");
  }

  #alertsChanged(): void {
    for (const l of [...this.#alertListeners]) l();
  }

  async #approve(run: BlockRun, server: Server): Promise<void> {
    const id = run.live?.state.run;
    if (id === undefined) return;
    try {
      new ApprovalDialog(this.app, run, id, await server.client(), await server.owner()).open();
    } catch (err) {
      new Notice(messageOf(err), 10_000);
    }
  }

  async #openRuns(): Promise<RunsView | undefined> {
    const { workspace } = this.app;
    const leaf = workspace.getLeavesOfType(runsView)[0] ?? workspace.getRightLeaf(false);
    if (leaf === null) return undefined;
    await leaf.setViewState({ type: runsView, active: true });
    await workspace.revealLeaf(leaf);
    this.#red = false; // it is seen
    this.#alertsChanged();
    return leaf.view instanceof RunsView ? leaf.view : undefined;
  }

  /** Shows the run that a link names, such as that of a long log in a note. Anybody can make such a link: it shows, and does nothing else. */
  async #openRun(runner: Runner, id: string | undefined): Promise<void> {
    if (id === undefined || !/^[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) {
      new Notice("This link names no run.");
      return;
    }
    try {
      const run = await runner.open(id);
      (await this.#openRuns())?.reveal(run);
    } catch (err) {
      new Notice(messageOf(err), 10_000);
    }
  }

  #welcome(server: Server): void {
    new Welcome(
      this.app,
      () => {
        const { setting } = this.app as unknown as { setting?: { open(): void; openTabById(id: string): void } }; // which is not in the types
        setting?.open();
        setting?.openTabById(this.manifest.id);
      },
      () => this.#test(server),
    ).open();
  }

  async #test(server: Server): Promise<string> {
    try {
      const profiles = await (await server.client()).listProfiles();
      return `Connected. Profiles: ${profiles.map((p) => p.name).join(", ")}`;
    } catch (err) {
      return messageOf(err);
    }
  }

  #store(change: Partial<Stored>): void {
    this.#stored = { ...this.#stored, ...change };
    const data = { ...this.#stored, ...(hasKeychain(this) ? {} : { tokens: this.#tokens }) };
    this.#saving = this.#saving.then(() => this.saveData(data)).catch((err: unknown) => {
      new Notice(`The plugin's data could not be saved: ${messageOf(err)}`);
    });
  }

  #secrets(): Secrets {
    const { secretStorage } = this.app;
    if (hasKeychain(this)) {
      return {
        get: (id) => secretStorage.getSecret(`silk-sandbox-${id}`) ?? "",
        set: (id, secret) => {
          secretStorage.setSecret(`silk-sandbox-${id}`, secret);
        },
      };
    }
    return {
      get: (id) => this.#tokens[id] ?? "",
      set: (id, secret) => {
        this.#tokens = { ...this.#tokens, [id]: secret };
        this.#store({});
      },
    };
  }
}

const hasKeychain = (plugin: Plugin): boolean => (plugin.app as { secretStorage?: unknown }).secretStorage !== undefined;

/** The folder of the vault, or its name where it has none. */
function vaultPath(plugin: Plugin): string {
  const { adapter } = plugin.app.vault;
  return adapter instanceof FileSystemAdapter ? adapter.getBasePath() : plugin.app.vault.getName();
}

/** The block of code that the cursor is in. */
function targetAt(editor: Editor, ctx: MarkdownView | MarkdownFileInfo): Target | undefined {
  const { line } = editor.getCursor();
  const fences = findFences(editor.getValue().split("\n"));
  const f = fences.find((x) => x.line <= line && line <= x.endLine);
  return f === undefined || ctx.file === null ? undefined : { path: ctx.file.path, ...shownOf(fences, f) };
}

function tokensOf(data: unknown): Record<string, string> {
  const tokens = typeof data === "object" && data !== null && "tokens" in data ? data.tokens : undefined;
  if (typeof tokens !== "object" || tokens === null) return {};
  return Object.fromEntries(Object.entries(tokens).filter((e): e is [string, string] => typeof e[1] === "string"));
}
