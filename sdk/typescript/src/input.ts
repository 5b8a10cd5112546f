import { sleep } from "./backoff.js";
import { SilkProblem } from "./errors.js";
import { encodeBase64 } from "./frame.js";
import type { HTTP } from "./http.js";
import type { Socket } from "./socket.js";
import type { TerminalSize } from "./types.js";
import { run as decodeRun } from "./wire.js";

export type InputRoute = "http" | "socket";

const pieceBytes = 256 << 10; // of one message: a server keeps 1 MiB ahead of the program and refuses a piece that does not fit
const unsentBytes = 1 << 20; // that may wait in a socket
const fullWaitMs = 50; // until a program may have read some of its input

/** What a client sends to a run, in the order of the calls. */
export class Input {
  readonly #http: HTTP;
  readonly #run: string;
  readonly #route: InputRoute;
  readonly #socket: () => Socket | undefined;
  readonly #signal: AbortSignal | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(http: HTTP, run: string, route: InputRoute, socket: () => Socket | undefined, signal?: AbortSignal) {
    this.#http = http;
    this.#run = run;
    this.#route = route;
    this.#socket = socket;
    this.#signal = signal;
  }

  write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data.slice();
    return this.#inOrder(async () => {
      for (let i = 0; i < bytes.length; i += pieceBytes) await this.#piece({ b64: encodeBase64(bytes.subarray(i, i + pieceBytes)) });
    });
  }

  end(): Promise<void> {
    return this.#inOrder(async () => {
      if (this.#route === "socket" && this.#send({ type: "stdin_end" })) return;
      await this.#post("stdin", { end: true }, true);
    });
  }

  async resize(size: TerminalSize): Promise<void> {
    if (!this.#send({ type: "resize", ...size })) await this.#post("size", size, true);
  }

  /** Always by HTTP: whoever cancels wants to know that it was heard. */
  async cancel(): Promise<void> {
    await this.#post("cancel", undefined, true);
  }

  /** After what was sent before, whether that went well or not. */
  #inOrder(send: () => Promise<void>): Promise<void> {
    const mine = this.#last.then(send);
    this.#last = mine.catch(() => undefined);
    return mine;
  }

  async #piece(piece: { b64: string }): Promise<void> {
    if (this.#route === "socket") {
      for (let s = this.#socket(); s !== undefined && s.unsent > unsentBytes; s = this.#socket()) await sleep(fullWaitMs, this.#signal);
      if (this.#send({ type: "stdin", ...piece })) return;
    }
    for (;;) {
      try {
        await this.#post("stdin", piece, false);
        return;
      } catch (err) {
        if (!(await this.#isFull(err))) throw err;
        await sleep(fullWaitMs, this.#signal);
      }
    }
  }

  /** Whether a piece was refused because the program has not read those before: the run goes on, and there is no other reason. */
  async #isFull(err: unknown): Promise<boolean> {
    if (!(err instanceof SilkProblem) || err.kind !== "input-full") return false;
    const run = await this.#http.json({ method: "GET", path: `v1/runs/${this.#run}`, signal: this.#signal, again: true }, decodeRun);
    return run.state !== "ended";
  }

  #send(command: Record<string, unknown>): boolean {
    return this.#socket()?.send(JSON.stringify({ ...command, run: this.#run })) ?? false;
  }

  async #post(what: string, body: unknown, again: boolean): Promise<void> {
    await this.#http.nothing({ method: "POST", path: `v1/runs/${this.#run}/${what}`, body, signal: this.#signal, again });
  }
}
