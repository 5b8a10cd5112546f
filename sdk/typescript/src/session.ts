import { reasonOf } from "./backoff.js";
import { Connector, type ConnectionState, type StreamConfig } from "./connect.js";
import { decodeFrame, type Frame, type PingFrame } from "./frame.js";
import { Input } from "./input.js";
import type { Socket } from "./socket.js";
import { Tracker } from "./track.js";
import type { Run, TerminalSize } from "./types.js";
import { isDamage } from "./watch.js";

export interface WatchSessionOptions {
  /** Ends the watching, not the runs; its reason is thrown. */
  readonly signal?: AbortSignal;
  /** Is told of the connection; must not throw. */
  readonly onConnection?: (state: ConnectionState) => void;
}

/** Lists the runs of the session, the newest first. */
export type ListRuns = (session: string, signal: AbortSignal) => AsyncIterable<Run>;

/**
 * The frames of all runs of one session, those to come included; each has the run that it is of. Runs that live when it begins
 * come with their tail. It does not end by itself, since another run may come.
 *
 * When the connection breaks, another one goes on with each run from the byte where it was, and with the runs that came meanwhile
 * from their begin, also those that have ended. What is promised of {@link Watch} holds for each of them.
 */
export class SessionWatch implements AsyncIterableIterator<Frame, undefined, undefined> {
  readonly #cfg: StreamConfig;
  readonly #stop = new AbortController();
  readonly #connector: Connector;
  readonly #list: ListRuns;
  readonly #signal: AbortSignal | undefined;
  readonly #frames: AsyncGenerator<Frame, undefined>;
  readonly #runs = new Map<string, Tracker>(); // that have not ended
  readonly #inputs = new Map<string, Input>(); // of those
  #ended = new Set<string>(); // the last runs that have: they may come a second time
  #newest: string; // run that is known, or the session, which is older than all of them
  #resume = false; // there was a connection
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
    this.#newest = session;
    const target = { path: `v1/sessions/${session}/stream`, name: `session ${session}`, cursor: () => undefined, query: () => this.#query() };
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

  /** Sends input to a run of the session. Calls of one run are carried out in their order. */
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
    let input = this.#inputs.get(run);
    if (input === undefined) {
      input = new Input(this.#cfg.http, run, "http", () => this.#socket, this.#signal);
      if (!this.#ended.has(run)) this.#inputs.set(run, input);
    }
    return input;
  }

  #query(): Record<string, string> {
    if (!this.#resume) return { after: this.#newest };
    let at = "";
    for (const [run, { cursor }] of this.#runs) at += `${run}:${cursor?.stdout ?? 0}:${cursor?.stderr ?? 0},`;
    return { after: this.#newest, at };
  }

  async *#read(): AsyncGenerator<Frame, undefined> {
    try {
      await this.#start();
      for (;;) yield* this.#connection();
    } catch (err) {
      if (err !== left) throw err;
    } finally {
      this.#signal?.removeEventListener("abort", this.#abort);
      this.#stop.abort(left);
      this.#socket?.close();
    }
    return undefined;
  }

  #start(): Promise<Socket> {
    return (this.#opening ??= (async () => {
      if (this.#signal?.aborted === true) this.#abort();
      this.#signal?.addEventListener("abort", this.#abort, { once: true });
      for await (const { run } of this.#list(this.session, this.#stop.signal)) {
        this.#know(run); // what comes later is to come whole
        break;
      }
      return this.#open();
    })());
  }

  async #open(): Promise<Socket> {
    this.#socket = await this.#connector.open();
    this.#resume = true;
    for (const tracker of this.#runs.values()) tracker.reconnected();
    return this.#socket;
  }

  /** The frames of one connection. */
  async *#connection(): AsyncGenerator<Frame, undefined> {
    const socket = this.#socket ?? (await this.#open());
    try {
      for (;;) {
        const received = await socket.next();
        this.#stop.signal.throwIfAborted();
        if ("closed" in received) {
          this.#socket = undefined;
          await this.#connector.after(received.closed);
          return undefined;
        }
        let frame: Frame | PingFrame | undefined;
        try {
          frame = decodeFrame(received.text);
          this.#connector.progress();
          frame = frame.type === "ping" ? undefined : this.#accept(frame, received.text);
        } catch (err) {
          if (!isDamage(err)) throw err;
          socket.close();
          this.#socket = undefined;
          await this.#connector.damaged("what came over the connection was damaged", { cause: err });
          return undefined;
        }
        if (frame !== undefined) yield frame;
      }
    } finally {
      socket.close();
    }
  }

  #accept(frame: Frame, text: string): Frame | undefined {
    const { run } = frame;
    if (run === undefined) return frame;
    if (this.#ended.has(run)) return undefined;
    let tracker = this.#runs.get(run);
    if (tracker === undefined) {
      tracker = new Tracker(undefined);
      this.#runs.set(run, tracker);
      this.#know(run);
    }
    const accepted = tracker.accept(frame, text);
    if (accepted?.type === "exit") this.#end(run);
    return accepted;
  }

  #know(run: string): void {
    if (run > this.#newest) this.#newest = run; // ULIDs sort by time
  }

  #end(run: string): void {
    this.#runs.delete(run);
    this.#inputs.delete(run);
    this.#ended.add(run);
    if (this.#ended.size > endedRuns) this.#ended = new Set([...this.#ended].slice(-endedRuns / 2));
  }
}

const endedRuns = 4096; // some seconds' worth

const left = new DOMException("nobody watches", "AbortError");
