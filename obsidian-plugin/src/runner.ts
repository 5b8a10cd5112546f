import { SilkProblem, type Frame, type NoteBlock, type NoteText, type Preview, type RunRequest, type SilkClient } from "@silk-sandbox/client";
import { blockAt, ordinalOf, requestOf, requestOfCode, trimmed, type Shown } from "./request.js";
import { LiveRun } from "./run.js";
import type { Alert, Pending, Settings } from "./settings.js";
import { alarming, ended } from "./words.js";
import { rewrite, type Kept, type NoteFile } from "./writeback.js";

/** A block of code on a screen, when its button is pressed. */
export interface Target extends Shown {
  readonly language: string;
  /** Of its note; undefined: it is in none, and its result goes nowhere but to the screen. */
  readonly path: string | undefined;
}

/** The host of the plugin: Obsidian, or a stand-in. */
export interface Host {
  settings(): Settings;
  /** A client of the server, which may have to be started first. Its error is for people. */
  connect(): Promise<SilkClient>;
  /** The note of that path; undefined if there is none. */
  note(path: string): NoteFile | undefined;
  /** Saves a picture of a result. */
  saveImage(path: string, data: ArrayBuffer): Promise<void>;
  /** Removes pictures that a note does not show any more, where nothing else does. */
  dropImages(note: string, paths: readonly string[]): Promise<void>;
  /** Saves a note that could not be put into place beside it, and returns where. */
  saveBeside(path: string, run: string, text: string): Promise<string>;
  /** Shows what would happen, and returns whether the user wants it. */
  confirm(request: RunRequest, preview: Preview): Promise<boolean>;
  /** A run waits for the owner. The dialog is the host's; it ends by itself when the run goes on. */
  approve(block: BlockRun): void;
  notice(text: string): void;
  alert(alert: Alert): void;
  pending(): readonly Pending[];
  remember(pending: readonly Pending[]): void;
  now(): number;
  pause(ms: number): Promise<void>;
}

/** The last run of one block, from the press of its button on. */
export class BlockRun {
  /** From the server, once it has the run. */
  live: LiveRun | undefined;
  /** What went wrong before or after the run, for people. */
  problem = "";
  /** What became of the result, for people. */
  kept = "";
  /** Whether the user was shown that it waits for the owner. */
  asked = false;
  /** Its place among equal blocks of its note, when it was started. */
  ordinal: number | undefined;
  readonly abort = new AbortController();
  readonly #listeners = new Set<() => void>();
  #over = false;

  constructor(
    readonly target: Target,
    readonly atMs: number,
    /** It was opened to look at: who asked for it is told how it ends. */
    readonly opened = false,
  ) {
    this.ordinal = target.ordinal;
  }

  /** Whether there is something to stop. */
  get busy(): boolean {
    return !this.#over;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  changed(): void {
    for (const l of [...this.#listeners]) l();
  }

  watch(live: LiveRun): void {
    this.live = live;
    live.onChange(() => {
      this.changed();
    });
    this.changed();
  }

  finish(): void {
    this.#over = true;
    this.changed();
  }

  reopen(): void {
    this.#over = false;
    this.problem = "";
    this.changed();
  }
}

const maxKept = 200; // of runs whose output is in memory

/** Starts, watches and ends the runs of blocks, and puts their results into notes. It starts nothing by itself: each start is a call that a click made. */
export class Runner {
  readonly #host: Host;
  readonly #listeners = new Set<() => void>();
  readonly #writing = new Map<string, Promise<unknown>>();
  #runs: BlockRun[] = [];

  constructor(host: Host) {
    this.#host = host;
  }

  /** The runs of this window, the newest last. */
  get runs(): readonly BlockRun[] {
    return this.#runs;
  }

  /** Is told when a run is added or dropped, begins or ends. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The last run of a block on a screen. */
  find(t: Target): BlockRun | undefined {
    const same = (r: BlockRun): boolean => (t.ordinal === undefined || r.ordinal === undefined ? r.target.language === t.language : r.ordinal === t.ordinal);
    return this.#runs.findLast((r) => r.target.path === t.path && trimmed(r.target.code) === trimmed(t.code) && same(r));
  }

  /** Runs a block. The promise ends when the result is where it belongs. It never fails: what went wrong is in the run. */
  async start(target: Target): Promise<BlockRun> {
    const before = this.find(target);
    if (before?.busy === true) return before;
    if (before !== undefined) this.drop(before);
    const run = new BlockRun(target, this.#host.now());
    this.#add(run);
    await this.#guard(run, () => this.#start(run));
    return run;
  }

  /** Runs all runnable blocks of a note that end above a line, one after the other, until one does not end well. */
  async startAbove(path: string, line: number): Promise<void> {
    const text = await this.#host.note(path)?.read();
    if (text === undefined) return;
    let blocks: NoteBlock[];
    try {
      blocks = await (await this.#host.connect()).listNoteBlocks(text);
    } catch (err) {
      this.#host.notice(messageOf(err));
      return;
    }
    const above = blocks.filter((b) => b.runnable && b.end_line < line);
    if (above.length === 0) this.#host.notice("There is no block above that can run.");
    for (const b of above) {
      const run = await this.start({ path, language: b.language, code: b.code, ordinal: ordinalOf(blocks, b) });
      if (run.live?.state.outcome?.outcome !== "ok") return;
    }
  }

  /** Ends a run. Its end arrives like any other. */
  async stop(run: BlockRun): Promise<void> {
    if (run.live === undefined) {
      run.abort.abort();
      return;
    }
    try {
      await (await this.#host.connect()).cancelRun(run.live.state.run);
    } catch (err) {
      run.problem = `It could not be stopped: ${messageOf(err)}`;
      run.changed();
    }
  }

  async stopAll(): Promise<number> {
    const busy = this.#runs.filter((r) => r.busy);
    await Promise.all(busy.map((r) => this.stop(r)));
    return busy.length;
  }

  /** Watches a run again whose stream was lost. */
  async reconnect(run: BlockRun): Promise<void> {
    const { live } = run;
    if (live === undefined || live.state.phase !== "lost" || run.busy) return;
    run.reopen();
    await this.#guard(run, async () => {
      const client = await this.#host.connect();
      live.resume();
      await this.#follow(run, live, client);
      await this.#keep(run);
    });
  }

  /** Forgets a run that has ended. */
  drop(run: BlockRun): void {
    this.#runs = this.#runs.filter((r) => r !== run);
    run.changed();
    this.#changed();
  }

  /** Takes the result of a block out of its note, if there is one. */
  async clear(target: Target): Promise<void> {
    const { path } = target;
    if (path === undefined) return;
    try {
      const kept = await this.#inTurn(path, async () => {
        const client = await this.#host.connect();
        return this.#rewrite(path, async (text) => {
          const block = blockAt(await client.listNoteBlocks(text), target);
          return block?.result === undefined ? undefined : client.cleanNote({ text, line: block.line, code_hash: block.code_hash });
        });
      });
      if (kept.kept === "conflict") this.#host.notice("The note was edited all the time and is as you left it. Try again in a moment.");
    } catch (err) {
      this.#host.notice(messageOf(err));
    }
  }

  /** Takes up the runs whose results had not reached their notes when the app was closed. They run, or have run, anyway: nothing is started. */
  async resume(): Promise<void> {
    const pending = this.#host.pending();
    if (pending.length === 0) return;
    let client: SilkClient;
    try {
      client = await this.#host.connect();
    } catch {
      return; // the next start of the app, or the next run, tries again
    }
    await Promise.all(pending.map((p) => this.#resume(client, p)));
  }

  /** Opens a run of the server, whoever asked for it, to look at. */
  async open(id: string): Promise<BlockRun> {
    const here = this.#runs.find((r) => r.live?.state.run === id);
    if (here !== undefined) return here;
    const client = await this.#host.connect();
    const got = await client.getRun(id);
    const run = new BlockRun({ path: undefined, language: "", code: got.command ?? "", line: -1 }, this.#host.now(), true);
    const live = new LiveRun(got);
    run.watch(live);
    this.#add(run);
    void this.#guard(run, () => this.#follow(run, live, client));
    return run;
  }

  async #resume(client: SilkClient, p: Pending): Promise<void> {
    const run = new BlockRun({ path: p.path, language: p.language, code: p.code, line: p.line, ordinal: p.ordinal }, this.#host.now());
    await this.#guard(run, async () => {
      let got;
      try {
        got = await client.getRun(p.run);
      } catch (err) {
        if (err instanceof SilkProblem && err.status === 404) this.#forget(p.run);
        throw err;
      }
      const live = new LiveRun(got);
      run.watch(live);
      this.#add(run);
      await this.#follow(run, live, client);
      await this.#keep(run);
    });
  }

  async #start(run: BlockRun): Promise<void> {
    const { target, abort } = run;
    const client = await this.#host.connect();
    const { request, block, before } = await this.#request(run, client);
    abort.signal.throwIfAborted();
    if (!(await this.#wanted(client, request))) {
      this.drop(run);
      return;
    }
    abort.signal.throwIfAborted();
    let got;
    try {
      got = await client.createRun(request); // to its end: a run that the server has must not be unknown here
    } catch (err) {
      await this.#refused(run, err, block, client, before);
      throw err;
    }
    const live = new LiveRun(got);
    run.watch(live);
    if (block !== undefined && target.path !== undefined && this.#host.settings().saveToNote) {
      const p = { run: got.run, path: target.path, line: block.line, codeHash: block.code_hash, language: target.language, code: target.code, ordinal: run.ordinal ?? 0 };
      this.#host.remember([...this.#host.pending(), p]);
    }
    this.#changed();
    if (abort.signal.aborted) await this.stop(run);
    await this.#follow(run, live, client);
    await this.#keep(run, before);
  }

  /** What a block asks for, by the server's reading of its note. */
  async #request(run: BlockRun, client: SilkClient): Promise<{ request: RunRequest; block?: NoteBlock; before?: string }> {
    const { target } = run;
    const settings = this.#host.settings();
    if (target.path === undefined) return { request: requestOfCode(target.language, target.code, settings) };
    const before = await this.#host.note(target.path)?.read();
    if (before === undefined) throw new Error("The note is not there any more.");
    const blocks = await client.listNoteBlocks(before);
    const block = blockAt(blocks, target);
    if (block === undefined) throw new Error("This block is not in the note as it is saved, or twice. Try again in a moment.");
    run.ordinal = ordinalOf(blocks, block);
    const request = requestOf(block, target.path, settings);
    if (request === undefined) throw new Error(`This block cannot run: ${block.reason}.`);
    return { request, block, before };
  }

  /** Shows what would happen where the settings say so. What is beyond the profile is asked for again by the server, of its owner. */
  async #wanted(client: SilkClient, request: RunRequest): Promise<boolean> {
    const { confirm } = this.#host.settings();
    if (confirm === "never") return true;
    const preview = await client.planRun(request);
    if (confirm === "beyond" && (preview.denial === undefined || !beyond(preview))) return true;
    return this.#host.confirm(request, preview);
  }

  async #refused(run: BlockRun, err: unknown, block: NoteBlock | undefined, client: SilkClient, before: string | undefined): Promise<void> {
    if (!(err instanceof SilkProblem) || err.kind !== "denied" || err.run === undefined) return;
    const id = err.run;
    this.#host.alert({ atMs: this.#host.now(), run: id, outcome: "denied", text: err.message, note: run.target.path ?? "" });
    if (block === undefined || run.target.path === undefined || !this.#host.settings().saveToNote) return;
    await this.#put(run, { run: id, path: run.target.path, line: block.line, codeHash: block.code_hash }, client, before);
  }

  async #follow(run: BlockRun, live: LiveRun, client: SilkClient): Promise<void> {
    const watch = client.watch(live.state.run, {
      cursor: live.cursor,
      onConnection: (c) => {
        live.connection(c);
      },
    });
    try {
      for await (const frame of watch) {
        live.push(frame);
        this.#react(run, frame);
      }
    } catch (err) {
      live.lose(messageOf(err));
      throw err;
    }
  }

  #react(run: BlockRun, frame: Frame): void {
    if ((frame.type === "approval" || frame.type === "hello") && frame.state === "pending" && !run.asked) {
      run.asked = true;
      this.#host.approve(run);
    }
    if (frame.type !== "exit") return;
    this.#changed();
    if (run.opened || !alarming(frame.outcome)) return;
    this.#host.alert({ atMs: this.#host.now(), run: frame.run, outcome: frame.outcome.outcome, text: ended(frame.outcome), note: run.target.path ?? "" });
  }

  async #keep(run: BlockRun, before?: string): Promise<void> {
    const id = run.live?.state.run ?? "";
    const p = this.#host.pending().find((x) => x.run === id);
    if (p === undefined) return;
    await this.#put(run, p, await this.#host.connect(), before);
    this.#forget(id);
  }

  #forget(id: string): void {
    this.#host.remember(this.#host.pending().filter((x) => x.run !== id));
  }

  /** Does what once all that was asked for before of the same note is done. */
  #inTurn<T>(path: string, what: () => Promise<T>): Promise<T> {
    const last = this.#writing.get(path) ?? Promise.resolve();
    const mine = last.then(what);
    const done = mine.catch(() => undefined);
    this.#writing.set(path, done);
    void done.then(() => {
      if (this.#writing.get(path) === done) this.#writing.delete(path);
    });
    return mine;
  }

  async #rewrite(path: string, render: Parameters<typeof rewrite>[1]): Promise<Kept> {
    const file = this.#host.note(path);
    if (file === undefined) return { kept: "gone" };
    const kept = await rewrite(file, render, (n) => this.#host.pause(n * 300));
    if (kept.kept === "written") await this.#host.dropImages(file.path, kept.written.unused);
    return kept;
  }

  /** Puts a result under its block. */
  async #put(run: BlockRun, p: Pick<Pending, "run" | "path" | "line" | "codeHash">, client: SilkClient, before: string | undefined): Promise<void> {
    let why = "the note is not there any more";
    const saved = new Set<string>();
    const { attachments } = this.#host.settings();
    const render = async (text: string): Promise<NoteText | undefined> => {
      try {
        const written = await client.putNoteResult({ text, line: p.line, code_hash: p.codeHash, run: p.run, ...(before === undefined ? {} : { before }), ...(attachments === "" ? {} : { attachments }) });
        for (const { artifact, path } of written.images) {
          if (saved.has(path)) continue;
          await this.#host.saveImage(path, await (await client.getArtifact(p.run, artifact)).arrayBuffer()); // before the note shows it
          saved.add(path);
        }
        return written;
      } catch (err) {
        if (!(err instanceof SilkProblem) || err.status !== 409) throw err;
        why = err.message;
        return undefined;
      }
    };
    const kept = await this.#inTurn(p.path, () => this.#rewrite(p.path, render));
    if (kept.kept === "gone") {
      run.kept = `The result is not in the note: ${why}. It is kept as run ${p.run}.`;
      this.#host.notice(run.kept);
    } else if (kept.kept === "conflict") {
      const where = await this.#host.saveBeside(p.path, p.run, kept.text);
      run.kept = `The note was edited all the time and is as you left it. With the result it is in ${where}.`;
      this.#host.notice(run.kept);
    } else {
      run.kept = "The result is in the note.";
    }
    run.changed();
  }

  /** Does what, and says what went wrong. */
  async #guard(run: BlockRun, what: () => Promise<void>): Promise<void> {
    try {
      await what();
    } catch (err) {
      run.problem = run.abort.signal.aborted && run.live === undefined ? "Stopped before it was sent." : messageOf(err);
    }
    run.finish();
    this.#changed();
  }

  #add(run: BlockRun): void {
    this.#runs = [...this.#runs, run];
    const over = this.#runs.length - maxKept;
    if (over > 0) {
      const old = new Set(this.#runs.filter((r) => !r.busy).slice(0, over));
      this.#runs = this.#runs.filter((r) => !old.has(r));
    }
    this.#changed();
  }

  #changed(): void {
    for (const l of [...this.#listeners]) l();
  }
}

/** Whether a preview waits for the owner. What is refused whoever approves needs no question: the server says so, and keeps a record. */
const beyond = (p: Preview): boolean => p.denial?.rule === "approval" || (p.denial !== undefined && p.plan !== undefined);

/** What an error is to people. */
export function messageOf(err: unknown): string {
  if (err instanceof SilkProblem && err.status === 401) return "The server does not accept the token in the settings; `silk token new NAME` makes one";
  if (err instanceof SilkProblem && err.fix !== undefined && err.fix !== "" && !err.message.includes(err.fix)) return `${err.message}; ${err.fix}`;
  return err instanceof Error ? err.message : String(err);
}
