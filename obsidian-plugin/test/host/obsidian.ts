/**
 * A thin stand-in of Obsidian's API: what the plugin calls, with an in-memory vault and one pane per view. Its behaviour is that of
 * the documentation of the `obsidian` types; what the plugin does not call is not here.
 */
import { StateField, type Extension } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import { drawIcon } from "./icons.js";

export const Platform = { isMobile: false, isDesktopApp: false, isDesktop: false, isLinux: false };
export const normalizePath = (p: string): string => p.replace(/\\/g, "/").replace(/\/+/g, "/").replace(/^\/|\/$/g, "");
export const setIcon = drawIcon;

export class Component {
  #cleanups: (() => void)[] = [];
  load(): unknown {
    return this.onload();
  }
  unload(): void {
    this.onunload();
    for (const c of this.#cleanups.reverse()) c();
    this.#cleanups = [];
  }
  onload(): unknown {
    return undefined;
  }
  onunload(): void {
    // the subclass's
  }
  register(cb: () => void): void {
    this.#cleanups.push(cb);
  }
  registerEvent(off: () => void): void {
    this.register(off);
  }
  registerDomEvent(el: HTMLElement, type: string, cb: (e: Event) => void): void {
    el.addEventListener(type, cb);
    this.register(() => {
      el.removeEventListener(type, cb);
    });
  }
}

export class MarkdownRenderChild extends Component {
  constructor(readonly containerEl: HTMLElement) {
    super();
  }
}

export class TFile {
  constructor(
    public path: string,
    public text: string,
    readonly parent: TFolder | null,
    public data?: ArrayBuffer,
  ) {}
  get name(): string {
    return this.path.slice(this.path.lastIndexOf("/") + 1);
  }
  get extension(): string {
    return this.name.slice(this.name.lastIndexOf(".") + 1);
  }
}
export class TFolder {
  constructor(
    readonly path: string,
    readonly children: TFile[] = [],
  ) {}
}
export class FileSystemAdapter {
  getBasePath(): string {
    return "/vault";
  }
}

export class Vault {
  readonly adapter = {};
  readonly files = new Map<string, TFile>();
  readonly folders = new Map<string, TFolder>();
  readonly onWrite = new Set<(file: TFile) => void>();
  /** Called when process has begun and has not read the file yet: what another program wrote then is what process works on. */
  readonly onProcess = new Set<(file: TFile) => void>();
  getName(): string {
    return "Vault";
  }
  getFileByPath(path: string): TFile | null {
    return this.files.get(path) ?? null;
  }
  getFiles(): TFile[] {
    return [...this.files.values()];
  }
  getFolderByPath(path: string): TFolder | null {
    return this.folders.get(path) ?? null;
  }
  createFolder(path: string): Promise<void> {
    this.folders.set(path, new TFolder(path));
    return Promise.resolve();
  }
  cachedRead(file: TFile): Promise<string> {
    return Promise.resolve(file.text);
  }
  read(file: TFile): Promise<string> {
    return Promise.resolve(file.text);
  }
  async process(file: TFile, fn: (text: string) => string): Promise<string> {
    await Promise.resolve(); // it reads the file first
    for (const l of [...this.onProcess]) l(file);
    this.write(file, fn(file.text));
    return file.text;
  }
  write(file: TFile, text: string): void {
    if (file.text === text) return;
    file.text = text;
    for (const l of this.onWrite) l(file);
  }
  create(path: string, text: string, data?: ArrayBuffer): Promise<TFile> {
    const parent = this.getFolderByPath(path.slice(0, Math.max(0, path.lastIndexOf("/"))));
    const f = new TFile(path, text, parent, data);
    this.files.set(path, f);
    parent?.children.push(f);
    return Promise.resolve(f);
  }
  createBinary(path: string, data: ArrayBuffer): Promise<TFile> {
    return this.create(path, "", data);
  }
  modifyBinary(file: TFile, data: ArrayBuffer): Promise<void> {
    file.data = data;
    return Promise.resolve();
  }
  remove(file: TFile | TFolder): void {
    this.files.delete(file.path);
    this.folders.delete(file.path);
    if (file instanceof TFile && file.parent !== null) file.parent.children.splice(file.parent.children.indexOf(file), 1);
  }
}

/** An open note: the editor's text, and the file that it goes to. */
export class MarkdownView {
  constructor(
    readonly app: App,
    readonly file: TFile,
    readonly cm: EditorView,
  ) {}
  get containerEl(): HTMLElement {
    return this.cm.dom;
  }
  save(): Promise<void> {
    this.app.vault.write(this.file, this.cm.state.doc.toString());
    return Promise.resolve();
  }
}

export class App {
  readonly vault = new Vault();
  readonly secrets = new Map<string, string>();
  readonly secretStorage = {
    getSecret: (id: string): string | null => this.secrets.get(id) ?? null,
    setSecret: (id: string, secret: string): void => {
      this.secrets.set(id, secret);
    },
  };
  readonly fileManager = {
    trashFile: (file: TFile | TFolder): Promise<void> => {
      this.vault.remove(file);
      return Promise.resolve();
    },
  };
  readonly metadataCache = {
    vault: this.vault,
    /** Of each note, what it embeds by its whole path. */
    get resolvedLinks(): Record<string, Record<string, number>> {
      const links = (text: string): Record<string, number> => Object.fromEntries([...text.matchAll(/!\[\[([^\]|]+)/g)].map((m) => [m[1] ?? "", 1]));
      return Object.fromEntries(this.vault.getFiles().filter((f) => f.extension === "md").map((f) => [f.path, links(f.text)]));
    },
  };
  readonly views: MarkdownView[] = [];
  readonly events = new EventTarget();
  /** What the settings show: "" is nothing. */
  shown = "";
  readonly setting = {
    open: (): void => undefined,
    openTabById: (id: string): void => {
      this.shown = id;
    },
  };
  readonly workspace = {
    containerEl: document.body,
    iterateAllLeaves: (cb: (leaf: { view: unknown }) => void): void => {
      for (const view of this.views) cb({ view });
    },
    on: (name: string, cb: (window: { doc: Document }) => void): (() => void) => {
      const listener = (e: Event): void => {
        cb((e as CustomEvent<{ doc: Document }>).detail);
      };
      this.events.addEventListener(name, listener);
      return () => {
        this.events.removeEventListener(name, listener);
      };
    },
    onLayoutReady: (cb: () => void): void => {
      cb();
    },
    getLeavesOfType: (type: string): Leaf[] => this.leaves.filter((l) => l.type === type),
    getRightLeaf: (): Leaf => new Leaf(this),
    revealLeaf: (): Promise<void> => Promise.resolve(),
  };
  readonly leaves: Leaf[] = [];
  readonly viewTypes = new Map<string, (leaf: Leaf) => ItemView>();
}

export class Leaf {
  type = "";
  view: ItemView | undefined;
  constructor(readonly app: App) {}
  async setViewState({ type }: { type: string }): Promise<void> {
    if (this.type === type) return;
    this.type = type;
    this.app.leaves.push(this);
    this.view = this.app.viewTypes.get(type)?.(this);
    await this.view?.open();
  }
}

export class ItemView extends Component {
  icon = "";
  readonly contentEl: HTMLElement;
  readonly app: App;
  constructor(leaf: Leaf) {
    super();
    this.app = leaf.app;
    this.contentEl = (document.getElementById("right") ?? document.body).appendChild(document.createElement("div"));
  }
  async open(): Promise<void> {
    await this.onOpen();
  }
  protected onOpen(): Promise<void> {
    return Promise.resolve();
  }
}

export class Modal {
  readonly modalEl = document.createElement("div");
  readonly titleEl: HTMLElement;
  readonly contentEl: HTMLElement;
  #back = document.createElement("div");
  #before: Element | null = null;
  readonly #key = (e: KeyboardEvent): void => {
    if (e.key === "Escape") this.close();
  };
  constructor(readonly app: App) {
    this.#back.className = "modal-container";
    this.modalEl.className = "modal";
    this.modalEl.setAttribute("role", "dialog");
    this.modalEl.setAttribute("aria-modal", "true");
    this.titleEl = this.modalEl.appendChild(document.createElement("h2"));
    this.contentEl = this.modalEl.appendChild(document.createElement("div"));
    this.#back.append(this.modalEl);
  }
  setTitle(text: string): this {
    this.titleEl.textContent = text;
    this.modalEl.setAttribute("aria-label", text);
    return this;
  }
  open(): void {
    this.#before = document.activeElement;
    document.body.append(this.#back);
    document.addEventListener("keydown", this.#key);
    this.onOpen();
  }
  close(): void {
    if (!this.#back.isConnected) return;
    this.#back.remove();
    document.removeEventListener("keydown", this.#key);
    if (this.#before instanceof HTMLElement) this.#before.focus();
    this.onClose();
  }
  onOpen(): void {
    // the subclass's
  }
  onClose(): void {
    // the subclass's
  }
}

export class Notice {
  readonly messageEl: HTMLElement;
  constructor(text: string) {
    this.messageEl = document.body.appendChild(document.createElement("div"));
    this.messageEl.className = "notice";
    this.messageEl.textContent = text;
  }
}

class Control {
  readonly el: HTMLElement;
  readonly inputEl: HTMLInputElement;
  constructor(parent: HTMLElement, tag: string, type?: string) {
    this.el = parent.appendChild(document.createElement(tag));
    this.inputEl = this.el as HTMLInputElement;
    if (type !== undefined) this.inputEl.type = type;
  }
  setValue(v: string | boolean): this {
    if (typeof v === "boolean") this.inputEl.checked = v;
    else this.inputEl.value = v;
    return this;
  }
  setPlaceholder(v: string): this {
    this.inputEl.placeholder = v;
    return this;
  }
  onChange(cb: (v: never) => void): this {
    this.el.addEventListener("input", () => {
      cb((this.inputEl.type === "checkbox" ? this.inputEl.checked : this.inputEl.value) as never);
    });
    return this;
  }
  addOptions(o: Record<string, string>): this {
    for (const [k, v] of Object.entries(o)) this.el.append(new Option(v, k));
    return this;
  }
  setButtonText(t: string): this {
    this.el.textContent = t;
    return this;
  }
  setIcon(t: string): this {
    setIcon(this.el, t);
    return this;
  }
  setTooltip(t: string): this {
    this.el.setAttribute("aria-label", t);
    return this;
  }
  setCta(): this {
    this.el.classList.add("mod-cta");
    return this;
  }
  onClick(cb: () => unknown): this {
    this.el.addEventListener("click", () => void cb());
    return this;
  }
}

export class Setting {
  readonly settingEl: HTMLElement;
  readonly #name: HTMLElement;
  readonly #desc: HTMLElement;
  readonly #control: HTMLElement;
  constructor(parent: HTMLElement) {
    this.settingEl = parent.appendChild(document.createElement("div"));
    this.settingEl.className = "setting-item";
    const info = this.settingEl.appendChild(document.createElement("div"));
    this.#name = info.appendChild(document.createElement("div"));
    this.#name.className = "setting-item-name";
    this.#desc = info.appendChild(document.createElement("div"));
    this.#desc.className = "setting-item-description";
    this.#control = this.settingEl.appendChild(document.createElement("div"));
    this.#control.className = "setting-item-control";
  }
  setName(t: string): this {
    this.#name.textContent = t;
    return this;
  }
  setDesc(t: string): this {
    this.#desc.textContent = t;
    return this;
  }
  setHeading(): this {
    this.settingEl.classList.add("setting-item-heading");
    return this;
  }
  #add(c: Control, cb: (c: Control) => void): this {
    cb(c);
    return this;
  }
  addText(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "input", "text"), cb);
  }
  addTextArea(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "textarea"), cb);
  }
  addToggle(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "input", "checkbox"), cb);
  }
  addColorPicker(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "input", "color"), cb);
  }
  addDropdown(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "select"), cb);
  }
  addButton(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "button"), cb);
  }
  addExtraButton(cb: (c: Control) => void): this {
    return this.#add(new Control(this.#control, "button"), cb);
  }
}

export class PluginSettingTab {
  readonly containerEl = document.createElement("div");
  constructor(
    readonly app: App,
    readonly plugin: Plugin,
  ) {}
  display(): void {
    // the subclass's
  }
}

interface Command {
  id: string;
  name: string;
  icon?: string;
  callback?: () => void;
  editorCallback?: (editor: unknown, ctx: unknown) => void;
}

export class Plugin extends Component {
  static stored: unknown = null;
  readonly commands = new Map<string, Command>();
  readonly processors: ((el: HTMLElement, ctx: unknown) => void)[] = [];
  readonly extensions: Extension[] = [];
  /** By the action of the link. */
  readonly links = new Map<string, (params: Record<string, string>) => void>();
  tab: PluginSettingTab | undefined;
  constructor(
    readonly app: App,
    readonly manifest: { id: string },
  ) {
    super();
  }
  loadData(): Promise<unknown> {
    return Promise.resolve(structuredClone(Plugin.stored));
  }
  saveData(data: unknown): Promise<void> {
    Plugin.stored = structuredClone(data);
    return Promise.resolve();
  }
  addCommand(c: Command): void {
    if (c.icon !== undefined) setIcon(document.createElement("div"), c.icon);
    this.commands.set(c.id, c);
  }
  registerMarkdownPostProcessor(p: (el: HTMLElement, ctx: unknown) => void): void {
    this.processors.push(p);
  }
  registerEditorExtension(e: Extension): void {
    this.extensions.push(e);
  }
  registerView(type: string, make: (leaf: Leaf) => ItemView): void {
    this.app.viewTypes.set(type, make);
  }
  registerObsidianProtocolHandler(action: string, handler: (params: Record<string, string>) => void): void {
    this.links.set(action, handler);
    this.register(() => this.links.delete(action));
  }
  addRibbonIcon(icon: string, title: string, cb: () => void): HTMLElement {
    const el = document.createElement("div"); // the tests use commands
    setIcon(el, icon);
    el.title = title;
    el.addEventListener("click", cb);
    return el;
  }
  addStatusBarItem(): HTMLElement {
    return (document.getElementById("statusbar") ?? document.body).appendChild(document.createElement("div"));
  }
  addSettingTab(tab: PluginSettingTab): void {
    this.tab = tab;
  }
}

export const editorInfoField = StateField.define<{ file: TFile | null }>({ create: () => ({ file: null }), update: (v) => v });
export const editorLivePreviewField = StateField.define<boolean>({ create: () => true, update: (v) => v });
