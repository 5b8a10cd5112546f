import { sleep } from "./backoff.js";
import { SilkProblem } from "./errors.js";
import { encodeBase64 } from "./frame.js";
import { passing, type HTTP } from "./http.js";
import type { Socket } from "./socket.js";
import type { TerminalSize } from "./types.js";
import { inputTaken, run as decodeRun } from "./wire.js";

export type InputRoute = "http" | "socket";

const pieceBytes = 256 << 10; // of one message: a server keeps 1 MiB ahead of the program and refuses a piece that does not fit
const unsentBytes = 1 << 20; // that may wait in a socket
const fullWaitMs = 50; // until a program may have read some of its input

/**
 * What a client sends to a run, in the order of the calls. Over HTTP a piece that got no answer is sent again, with where it begins, and
 * arrives once. Others may send too: each piece arrives whole.
 */
export class Input {
  readonly #http: HTTP;
  readonly #run: string;
  readonly #route: InputRoute;
  readonly #socket: () => Socket | undefined;
  readonly #signal: AbortSignal | undefined;
  #last: Promise<void> = Promise.resolve();
  #at = 0; // bytes of input that the run has got, as far as is known

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
      await this.#take({ end: true });
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
    await this.#take(piece);
  }

  /** Sends a piece until it is taken. */
  async #take(piece: { b64?: string; end?: boolean }): Promise<void> {
    let failures = 0;
    for (let unanswered = false; ; ) {
      const body = { ...piece, offset: this.#at };
      try {
        const taken = await this.#http.json({ method: "POST", path: `v1/runs/${this.#run}/stdin`, body, signal: this.#signal, again: false }, inputTaken);
        this.#at = taken.offset;
        return;
      } catch (err) {
        if (passing(err)) {
          unanswered = true; // it may have been taken
          await this.#http.pause(err, ++failures, this.#signal);
        } else if (!unanswered && err instanceof SilkProblem && err.kind === "input-offset" && (err.offset ?? 0) > this.#at) {
          this.#at = err.offset ?? 0; // somebody else has sent some
        } else if (await this.#isFull(err)) {
          await sleep(fullWaitMs, this.#signal);
        } else {
          throw err;
        }
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
