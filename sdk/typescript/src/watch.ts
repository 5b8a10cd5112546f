import { reasonOf } from "./backoff.js";
import { Connector, type ConnectionState, type StreamConfig } from "./connect.js";
import { SilkDecodeError } from "./errors.js";
import { decodeFrame, type Cursor, type ExitFrame, type Frame, type PingFrame } from "./frame.js";
import { Input, type InputRoute } from "./input.js";
import type { Socket } from "./socket.js";
import { SkippedError, Tracker } from "./track.js";
import type { TerminalSize } from "./types.js";

export interface WatchOptions {
  /**
   * Where to begin: how many bytes of each channel the caller has, or "tail" for the last 4 KiB of each. Left out: at the begin.
   */
  readonly cursor?: Cursor | "tail";
  /** Ends the watching, not the run; its reason is thrown. */
  readonly signal?: AbortSignal;
  /** Is told of the connection; must not throw. */
  readonly onConnection?: (state: ConnectionState) => void;
  /**
   * The way of {@link Watch.stdin}. "http", the default: each piece is acknowledged, waits while the program does not read, and
   * what the run refuses is an error. "socket": over the stream's own connection while there is one, which is faster for single
   * keys; nothing tells whether a piece arrived, and the server drops what the program is more than 1 MiB behind of.
   */
  readonly input?: InputRoute;
  /**
   * A word, the same as follow of createRun, or of one's own: the program waits for this watch, as for the reader of a pipe, in place of
   * losing output, while more waits than the server keeps. Its time limit goes on. Only one can, who may end the run; hello says whether
   * it does. Who takes nothing for half a minute, or is not connected for ten seconds, is not waited for any more, and gets gap frames.
   */
  readonly follow?: string;
}

const ackChars = 64 << 10; // of messages between two acks: well below what a server keeps for a follower
const ackMs = 1000; // or so much time: a reader that is slow lives

/**
 * The frames of one run: an async iterator for one `for await`. It connects when it is first read, and again whenever the
 * connection breaks, from the byte where it was. It ends after the exit frame, and in no other way without an error: how a run
 * ended is unknown without it. Breaking out of the loop closes the connection and does nothing to the run.
 *
 * What arrives waits in a bounded buffer; a reader that is slower than the program loses the connection and nothing else.
 */
export class Watch implements AsyncIterableIterator<Frame, undefined, undefined> {
  readonly #stop = new AbortController();
  readonly #tracker: Tracker;
  readonly #connector: Connector;
  readonly #frames: AsyncGenerator<Frame, undefined>;
  readonly #input: Input;
  readonly #signal: AbortSignal | undefined;
  readonly #follows: boolean;
  #socket: Socket | undefined;
  #exit: ExitFrame | undefined;

  /** @internal Made by SilkClient.watch. */
  constructor(
    cfg: StreamConfig,
    readonly run: string,
    options: WatchOptions,
  ) {
    this.#tracker = new Tracker(options.cursor === "tail" ? undefined : (options.cursor ?? { stdout: 0, stderr: 0 }));
    this.#signal = options.signal;
    this.#follows = options.follow !== undefined;
    const target = {
      path: `v1/runs/${run}/stream`,
      name: `run ${run}`,
      cursor: () => this.cursor,
      query: () => ({ ...this.cursor }),
      ...(options.follow === undefined ? {} : { socketQuery: { follow: options.follow } }),
    };
    this.#connector = new Connector(cfg, target, this.#stop.signal, options.onConnection ?? (() => undefined));
    this.#input = new Input(cfg.http, run, options.input ?? "http", () => this.#socket, options.signal);
    this.#frames = this.#read();
  }

  /** What was delivered: a later watch that is given it goes on from there. undefined before a tail has begun. */
  get cursor(): Cursor | undefined {
    return this.#tracker.cursor;
  }

  /** The exit frame, once it was delivered. */
  get exit(): ExitFrame | undefined {
    return this.#exit;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Frame, undefined>> {
    return this.#frames.next();
  }

  /** Ends the watching, even while a call of next waits. */
  return(): Promise<IteratorResult<Frame, undefined>> {
    this.#stop.abort(left);
    this.#socket?.close();
    return this.#frames.return(undefined);
  }

  /** Sends input to a run that was asked for with stdin_open. Calls are carried out in their order. */
  stdin(data: string | Uint8Array): Promise<void> {
    return this.#input.write(data);
  }

  /** The program sees the end of its input, after what was sent before. */
  stdinEnd(): Promise<void> {
    return this.#input.end();
  }

  /** Tells the program that its terminal has another size. */
  resize(size: TerminalSize): Promise<void> {
    return this.#input.resize(size);
  }

  /** Ends the run. Its exit frame follows. */
  cancel(): Promise<void> {
    return this.#input.cancel();
  }

  async *#read(): AsyncGenerator<Frame, undefined> {
    const abort = (): void => {
      this.#stop.abort(reasonOf(this.#signal));
    };
    if (this.#signal?.aborted === true) abort();
    this.#signal?.addEventListener("abort", abort, { once: true });
    try {
      while (this.#exit === undefined) yield* this.#connection();
    } catch (err) {
      if (err !== left) throw err;
    } finally {
      this.#signal?.removeEventListener("abort", abort);
      this.#stop.abort(left);
    }
    return undefined;
  }

  /** The frames of one connection. */
  async *#connection(): AsyncGenerator<Frame, undefined> {
    const socket = await this.#connector.open();
    this.#socket = socket;
    this.#tracker.reconnected();
    let unsaid = 0; // characters of messages that are not acknowledged
    let said = Date.now();
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
          if (frame.type === "ping") {
            this.#connector.progress();
            continue;
          }
          frame = this.#tracker.accept(frame, received.text);
        } catch (err) {
          if (!isDamage(err)) throw err;
          socket.close();
          this.#socket = undefined;
          await this.#connector.damaged("what came over the connection was damaged", { cause: err });
          return undefined;
        }
        if (frame === undefined) continue;
        if (frame.type !== "hello") this.#connector.progress();
        if (frame.type === "exit") {
          this.#exit = frame;
          socket.close();
        }
        yield frame;
        if (frame.type === "exit") return undefined;
        unsaid += received.text.length;
        if (this.#follows && (unsaid >= ackChars || Date.now() - said >= ackMs)) {
          socket.send(JSON.stringify({ type: "ack", ...this.cursor }));
          unsaid = 0;
          said = Date.now();
        }
      }
    } finally {
      this.#socket = undefined;
      socket.close();
    }
  }
}

/** The reason of a watch that nobody reads any more. */
const left = new DOMException("nobody watches", "AbortError");

/** Whether an error is one of the transport, which another connection mends. A frame of the wrong shape is none: it comes again. */
export function isDamage(err: unknown): boolean {
  return err instanceof SkippedError || (err instanceof SilkDecodeError && err.at === "" && err.expected === "JSON");
}
