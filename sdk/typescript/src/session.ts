import { reasonOf } from "./backoff.js";
import { Connector, type ConnectionState, type StreamConfig } from "./connect.js";
import { decodeFrame, type Cursor, type Frame } from "./frame.js";
import { Input } from "./input.js";
import { Merge } from "./merge.js";
import type { Closed, Socket } from "./socket.js";
import { Tracker } from "./track.js";
import type { Run, TerminalSize } from "./types.js";
import { isDamage, Watch } from "./watch.js";

export interface WatchSessionOptions {
  /** Ends the watching, not the runs; its reason is thrown. */
  readonly signal?: AbortSignal;
  /** Is told of the connection; must not throw. */
  readonly onConnection?: (state: ConnectionState) => void;
}

/** One thing that a source says: a frame that is to be delivered, or that the session's connection has ended. */
type Item = { readonly frame: Frame; readonly text: string } | { readonly closed: Closed } | { readonly damaged: unknown };

/** Lists the runs of the session, the newest first. */
export type ListRuns = (session: string, signal: AbortSignal) => AsyncIterable<Run>;

/**
 * The frames of all runs of one session, those to come included; each has the run that it is of. Runs that live when it begins
 * come with their tail. It does not end by itself, since another run may come.
 *
 * When the connection breaks, the runs that it carried go on, each over a connection of its own, from the byte where they were;
 * so do the runs that came meanwhile, from their begin. What is promised of {@link Watch} holds for each of them.
 */
export class SessionWatch implements AsyncIterableIterator<Frame, undefined, undefined> {
  readonly #cfg: StreamConfig;
  readonly #stop = new AbortController();
  readonly #connector: Connector;
  readonly #list: ListRuns;
  readonly #signal: AbortSignal | undefined;
  readonly #frames: AsyncGenerator<Frame, undefined>;
  readonly #merge = new Merge<Item>();
  readonly #carried = new Map<string, Tracker>(); // runs on the session's connection that have not ended
  readonly #apart = new Set<string>(); // runs on connections of their own
  #ended: string[] = []; // the last runs that have ended: a list may still have them
  #newest = ""; // the last run that is known
  #socket: Socket | undefined;
  #opening: Promise<Socket> | undefined;
  readonly #abort = (): void => {
    this.#stop.abort(reasonOf(this.#signal));
    this.#socket?.close();
  };

  /** @internal Made by SilkClient.watchSession. */
  constructor(
    cfg: StreamConfig,
    readonly session: string,
    options: WatchSessionOptions,
    list: ListRuns,
  ) {
    this.#cfg = cfg;
    this.#list = list;
    this.#signal = options.signal;
    const target = { path: `v1/sessions/${session}/stream`, name: `session ${session}`, cursor: (): Cursor | undefined => undefined };
    this.#connector = new Connector(cfg, target, this.#stop.signal, options.onConnection ?? (() => undefined));
    this.#frames = this.#read();
  }

  /**
   * Connects, which otherwise the first read does. Whatever run is asked for after that comes from its begin. It may be called again.
   */
  async open(): Promise<void> {
    await this.#start();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Frame, undefined>> {
    return this.#frames.next();
  }

  /** Ends the watching, even while a call of next waits. */
  async return(): Promise<IteratorResult<Frame, undefined>> {
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#stop.abort(left);
    this.#socket?.close();
    return this.#frames.return(undefined);
  }

  /** Sends input to a run of the session: one piece, whose order with others is that in which the promises are awaited. */
  stdin(run: string, data: string | Uint8Array): Promise<void> {
    return this.#input(run).write(data);
  }

  stdinEnd(run: string): Promise<void> {
    return this.#input(run).end();
  }

  resize(run: string, size: TerminalSize): Promise<void> {
    return this.#input(run).resize(size);
  }

  cancel(run: string): Promise<void> {
    return this.#input(run).cancel();
  }

  #input(run: string): Input {
    return new Input(this.#cfg.http, run, "http", () => this.#socket, this.#signal);
  }

  async *#read(): AsyncGenerator<Frame, undefined> {
    try {
      this.#merge.add(this.#connection(await this.#start()));
      for (;;) {
        const item = await this.#merge.next();
        this.#stop.signal.throwIfAborted();
        if ("error" in item) throw item.error;
        if ("done" in item) continue;
        if ("frame" in item.value) {
          yield item.value.frame;
          continue;
        }
        await this.#reconnect(item.value);
      }
    } catch (err) {
      if (err !== left) throw err;
    } finally {
      this.#signal?.removeEventListener("abort", this.#abort);
      this.#stop.abort(left);
      this.#socket?.close();
      await this.#merge.close();
    }
    return undefined;
  }

  #start(): Promise<Socket> {
    return (this.#opening ??= (async () => {
      if (this.#signal?.aborted === true) this.#abort();
      this.#signal?.addEventListener("abort", this.#abort, { once: true });
      for await (const { run } of this.#list(this.session, this.#stop.signal)) {
        this.#know(run); // it is not among those that come while a connection is broken
        break;
      }
      return this.#open();
    })());
  }

  async #open(): Promise<Socket> {
    this.#socket = await this.#connector.open();
    return this.#socket;
  }

  async #reconnect(end: { readonly closed: Closed } | { readonly damaged: unknown }): Promise<void> {
    this.#socket = undefined;
    for (const [run, tracker] of this.#carried) this.#watch(run, tracker.cursor);
    this.#carried.clear();
    if ("closed" in end) await this.#connector.after(end.closed);
    else await this.#connector.damaged("what came over the connection was damaged", { cause: end.damaged });
    const known = this.#newest;
    const socket = await this.#open();
    // What came while there was no connection is in the list, whether it has ended or not. ULIDs sort by time.
    for await (const { run } of this.#list(this.session, this.#stop.signal)) {
      if (run <= known) break;
      if (!this.#apart.has(run) && !this.#ended.includes(run)) this.#watch(run, { stdout: 0, stderr: 0 });
    }
    this.#merge.add(this.#connection(socket));
  }

  /** Follows a run over a connection of its own. */
  #watch(run: string, cursor: Cursor | undefined): void {
    this.#apart.add(run);
    this.#know(run);
    this.#merge.add(this.#ofRun(new Watch(this.#cfg, run, { cursor: cursor ?? "tail", signal: this.#stop.signal }), cursor !== undefined));
  }

  async *#ofRun(watch: Watch, greeted: boolean): AsyncGenerator<Item, undefined> {
    for await (const frame of watch) {
      if (frame.type === "hello" && greeted && (frame.tail_from.stdout > 0 || frame.tail_from.stderr > 0)) continue;
      yield { frame, text: "" };
    }
    this.#end(watch.run);
    return undefined;
  }

  /** The frames of the session's connection that are of runs which it carries. */
  async *#connection(socket: Socket): AsyncGenerator<Item, undefined> {
    try {
      for (;;) {
        const received = await socket.next();
        if ("closed" in received) {
          yield received;
          return undefined;
        }
        const frame = decodeFrame(received.text);
        this.#connector.progress();
        if (frame.type === "ping") continue;
        const item = this.#carry(frame, received.text);
        if (item !== undefined) yield item;
      }
    } catch (err) {
      if (!isDamage(err)) throw err;
      yield { damaged: err };
      return undefined;
    } finally {
      socket.close();
    }
  }

  #carry(frame: Frame, text: string): Item | undefined {
    const { run } = frame;
    if (run === undefined) return { frame, text };
    if (this.#apart.has(run) || this.#ended.includes(run)) return undefined;
    let tracker = this.#carried.get(run);
    if (tracker === undefined) {
      tracker = new Tracker(undefined);
      this.#carried.set(run, tracker);
      this.#know(run);
    }
    const accepted = tracker.accept(frame, text);
    if (accepted?.type === "exit") this.#end(run);
    return accepted && { frame: accepted, text };
  }

  #know(run: string): void {
    if (run > this.#newest) this.#newest = run;
  }

  #end(run: string): void {
    this.#carried.delete(run);
    this.#apart.delete(run);
    this.#ended.push(run);
    if (this.#ended.length > endedRuns) this.#ended = this.#ended.slice(-endedRuns / 2);
  }
}

const endedRuns = 512; // a session's connection carries 256 at most

const left = new DOMException("nobody watches", "AbortError");
