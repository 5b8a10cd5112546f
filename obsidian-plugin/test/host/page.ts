/** The page that the tests drive: the real bundle, real CodeMirror 6, and the stand-in. */
import { history } from "@codemirror/commands";
import * as state from "@codemirror/state";
import * as view from "@codemirror/view";
import { augment } from "./dom.js";
import * as obsidian from "./obsidian.js";
import { render } from "./render.js";

const { EditorState } = state;
const { EditorView } = view;

augment();
const modules: Record<string, unknown> = { obsidian, "@codemirror/state": state, "@codemirror/view": view };
const need = (name: string): unknown => {
  if (!(name in modules)) throw new Error(`the app has no module ${name}`);
  return modules[name];
};

interface Loaded extends obsidian.Plugin {
  onUserEnable(): void;
  onExternalSettingsChange(): Promise<void>;
}
type PluginClass = new (app: obsidian.App, manifest: { id: string }) => Loaded;

async function bundle(): Promise<PluginClass> {
  const code = await (await fetch("/main.js")).text();
  const module = { exports: {} as { default?: PluginClass } };
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- so the app loads a plugin
  (new Function("require", "module", "exports", code) as (r: unknown, m: unknown, e: unknown) => void)(need, module, module.exports);
  if (module.exports.default === undefined) throw new Error("the bundle exports no plugin");
  return module.exports.default;
}

const app = new obsidian.App();
const imageOf = (path: string): string | undefined => {
  const data = app.vault.files.get(path)?.data;
  return data === undefined ? undefined : URL.createObjectURL(new Blob([data]));
};
let plugin: Loaded | undefined;
let editor: view.EditorView | undefined;
const children: obsidian.Component[] = [];
const hovering: obsidian.Component[] = [];

// The system hands links of this kind back to the app.
document.addEventListener("click", (e) => {
  const link = e.target instanceof Element ? e.target.closest("a") : null;
  if (link?.protocol !== "obsidian:") return;
  e.preventDefault();
  host.open(link.href);
});

const host = {
  app,
  obsidian,
  get plugin() {
    return plugin;
  },
  stored: () => obsidian.Plugin.stored,

  /** Loads the plugin. data is what it stored. */
  async load(data: unknown, secrets: Record<string, string>): Promise<void> {
    obsidian.Plugin.stored = data;
    for (const [k, v] of Object.entries(secrets)) app.secrets.set(k, v);
    plugin = new (await bundle())(app, { id: "silk-sandbox" });
    await plugin.load();
  },
  unload(): void {
    plugin?.unload();
    plugin = undefined;
  },

  file: (path: string): string | undefined => app.vault.files.get(path)?.text,
  /** The pictures in the vault, and their bytes in Base64. */
  images: (): Record<string, string> =>
    Object.fromEntries(app.vault.getFiles().flatMap((f) => (f.data === undefined ? [] : [[f.path, btoa(String.fromCharCode(...new Uint8Array(f.data)))] as const]))),
  async write(path: string, text: string): Promise<void> {
    const f = app.vault.files.get(path);
    if (f === undefined) await app.vault.create(path, text);
    else app.vault.write(f, text);
  },

  /** Opens a note in live preview. */
  edit(path: string): void {
    const file = app.vault.files.get(path);
    const parent = document.getElementById("main");
    if (file === undefined || parent === null) throw new Error(`no note ${path}`);
    parent.replaceChildren();
    app.views.length = 0;
    const cm = new EditorView({
      parent,
      state: EditorState.create({
        doc: file.text,
        extensions: [history(), EditorView.lineWrapping, obsidian.editorInfoField.init(() => ({ file })), obsidian.editorLivePreviewField, ...(plugin?.extensions ?? [])],
      }),
    });
    editor = cm;
    app.views.push(new obsidian.MarkdownView(app, file, cm));
    app.vault.onWrite.add((f) => {
      // The app merges what was written into open editors.
      const now = cm.state.doc.toString();
      if (f !== file || now === f.text) return;
      let a = 0;
      while (a < now.length && a < f.text.length && now[a] === f.text[a]) a++;
      let z = 0;
      while (z < now.length - a && z < f.text.length - a && now[now.length - 1 - z] === f.text[f.text.length - 1 - z]) z++;
      cm.dispatch({ changes: { from: a, to: now.length - z, insert: f.text.slice(a, f.text.length - z) } });
    });
  },
  text: (): string => editor?.state.doc.toString() ?? "",
  /** Types at an offset, as the user does. */
  type(at: number, text: string): void {
    editor?.dispatch({ changes: { from: at, insert: text }, userEvent: "input.type" });
  },
  delete(from: number, to: number): void {
    editor?.dispatch({ changes: { from, to }, userEvent: "delete" });
  },
  /** Milliseconds of n key strokes at an offset, one transaction each, drawn. */
  typing(at: number, n: number): number {
    const begin = performance.now();
    for (let i = 0; i < n; i++) {
      editor?.dispatch({ changes: { from: at + i, insert: "x" }, userEvent: "input.type" });
      document.body.getBoundingClientRect();
    }
    return performance.now() - begin;
  },
  /** Calls a command with the cursor at a line. */
  command(id: string, line?: number): void {
    const c = plugin?.commands.get(id);
    const file = app.views[0]?.file ?? null;
    if (c?.callback !== undefined) c.callback();
    else c?.editorCallback?.({ getValue: () => host.text(), getCursor: () => ({ line: line ?? 0, ch: 0 }) }, { file });
  },

  /** Opens a link obsidian://ACTION?PARAMS, from wherever. */
  open(href: string): void {
    const url = new URL(href);
    plugin?.links.get(url.host)?.({ action: url.host, ...Object.fromEntries(url.searchParams) });
  },

  /** Shows a note in reading view, in an element of that id. */
  read(path: string, id: string): void {
    const parent = document.getElementById(id);
    if (parent === null) throw new Error(`no element ${id}`);
    for (const c of children.splice(0)) c.unload();
    parent.replaceChildren();
    show(parent, path, children, true);
  },

  /** Shows a note in a popover, which knows nothing of sections. */
  hover(path: string): void {
    const popover = document.body.appendChild(document.createElement("div"));
    popover.className = "popover hover-popover";
    show(popover, path, hovering, false);
  },
  /** The popover goes. */
  leave(): void {
    for (const c of hovering.splice(0)) c.unload();
    document.querySelector(".hover-popover")?.remove();
  },
};

function show(parent: HTMLElement, path: string, owned: obsidian.Component[], sections: boolean): void {
  const text = app.vault.files.get(path)?.text ?? "";
  for (const s of render(text, imageOf)) {
    parent.append(s.el);
    const ctx = {
      sourcePath: path,
      addChild: (c: obsidian.Component) => {
        owned.push(c);
        void c.load();
      },
      getSectionInfo: () => (sections ? { text: app.vault.files.get(path)?.text ?? "", lineStart: s.lineStart, lineEnd: s.lineEnd } : null),
    };
    for (const p of plugin?.processors ?? []) p(s.el, ctx);
  }
}

export type HostPage = typeof host;
Object.assign(window, { host });
