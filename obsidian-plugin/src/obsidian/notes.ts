import { MarkdownView, normalizePath, TFile, type App } from "obsidian";
import type { NoteFile } from "../writeback.js";

/** The notes of the vault, as the runner sees them. */
export class Notes {
  readonly #app: App;

  constructor(app: App) {
    this.#app = app;
  }

  note(path: string): NoteFile | undefined {
    const file = this.#app.vault.getFileByPath(path);
    if (file === null) return undefined;
    return {
      get path() {
        return file.path; // a renamed note has another one
      },
      read: async () => {
        await this.#saveViews(file);
        return this.#app.vault.getFileByPath(file.path) === null ? undefined : this.#app.vault.read(file);
      },
      replace: async (snapshot, text) => {
        await this.#saveViews(file);
        let replaced = false;
        await this.#app.vault.process(file, (now) => {
          replaced = now === snapshot;
          return replaced ? text : now;
        });
        return replaced;
      },
    };
  }

  async saveImage(path: string, data: ArrayBuffer): Promise<void> {
    const at = normalizePath(path);
    await this.#folder(at);
    const there = this.#app.vault.getFileByPath(at);
    if (there === null) await this.#app.vault.createBinary(at, data);
    else await this.#app.vault.modifyBinary(there, data);
  }

  /** Moves pictures to the trash that a note does not show any more, and their folder if it is empty then. What another note or a canvas shows stays. */
  async dropImages(note: string, paths: readonly string[]): Promise<void> {
    const { vault, metadataCache, fileManager } = this.#app;
    const files = paths.map((p) => vault.getFileByPath(normalizePath(p))).filter((f) => f !== null);
    if (files.length === 0) return;
    const notes = Object.entries(metadataCache.resolvedLinks).filter(([from]) => from !== note);
    const canvases = await Promise.all(vault.getFiles().filter((f) => f.extension === "canvas").map((f) => vault.cachedRead(f)));
    for (const file of files) {
      if (notes.some(([, to]) => to[file.path] !== undefined) || canvases.some((c) => c.includes(file.path))) continue;
      const { parent } = file;
      await fileManager.trashFile(file);
      if (parent?.children.length === 0) await fileManager.trashFile(parent);
    }
  }

  async saveBeside(path: string, run: string, text: string): Promise<string> {
    const at = normalizePath(`${path.replace(/\.md$/, "")} (run ${run}).md`);
    await this.#app.vault.create(at, text);
    return at;
  }

  /** What editors hold that is not in the file yet goes into it first, so that the file is what the user sees. */
  async #saveViews(file: TFile): Promise<void> {
    const saves: Promise<void>[] = [];
    this.#app.workspace.iterateAllLeaves((leaf) => {
      const { view } = leaf;
      if (view instanceof MarkdownView && view.file === file) saves.push(view.save());
    });
    await Promise.all(saves);
  }

  async #folder(path: string): Promise<void> {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    if (folder !== "" && this.#app.vault.getFolderByPath(folder) === null) await this.#app.vault.createFolder(folder);
  }
}
