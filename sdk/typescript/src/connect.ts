import { backoffDelay, sleep, type Backoff } from "./backoff.js";
import { SilkNetworkError, SilkProblem, SilkStreamError } from "./errors.js";
import type { Cursor } from "./frame.js";
import type { HTTP } from "./http.js";
import { HandshakeError, Socket, type Closed, type SocketLimits, type WebSocketConstructor } from "./socket.js";
import { ticket } from "./wire.js";

/** How a stream's connection is: for a light in a user interface. */
export type ConnectionState =
  | { readonly state: "open" }
  /** It is broken, and tried again after delayMs. failures counts those in a row. */
  | { readonly state: "waiting"; readonly failures: number; readonly delayMs: number; readonly cause: unknown };

export interface StreamConfig {
  readonly http: HTTP;
  readonly WebSocket: WebSocketConstructor;
  readonly limits: SocketLimits;
  readonly backoff: Backoff;
  readonly random: () => number;
}

/** What a stream is of. */
export interface Target {
  /** Its path on the server. */
  readonly path: string;
  /** For people. */
  readonly name: string;
  /** What was delivered, for errors. */
  readonly cursor: () => Cursor | undefined;
  /** Where to begin, and how. */
  readonly query: () => Readonly<Record<string, string | number>>;
  /** What of that only a WebSocket may ask for. */
  readonly socketQuery?: Readonly<Record<string, string>>;
}

/** A connection broke in a way that another one may mend. */
class Interrupted extends Error {
  override name = "Interrupted";
}

/** Opens the connections of one stream, one after the other, and gives up when too many in a row bring nothing. */
export class Connector {
  readonly #cfg: StreamConfig;
  readonly #target: Target;
  readonly #signal: AbortSignal;
  readonly #tell: (state: ConnectionState) => void;
  #failures = 0;
  #openedAt = 0;

  constructor(cfg: StreamConfig, target: Target, signal: AbortSignal, tell: (state: ConnectionState) => void) {
    this.#cfg = cfg;
    this.#target = target;
    this.#signal = signal;
    this.#tell = tell;
  }

  /** The next connection. */
  async open(): Promise<Socket> {
    for (;;) {
      try {
        const socket = await this.#dial();
        this.#openedAt = Date.now();
        this.#tell({ state: "open" });
        return socket;
      } catch (err) {
        this.#signal.throwIfAborted();
        await this.#wait(err);
      }
    }
  }

  /** The connection is worth its while. */
  progress(): void {
    this.#failures = 0;
  }

  /** Returns when a connection that ended may be followed by another, and throws if none could mend it. */
  async after(closed: Closed): Promise<void> {
    this.#signal.throwIfAborted();
    if (closed.overflow) return; // what was buffered has been read
    if (Date.now() - this.#openedAt > this.#cfg.backoff.maxMs) this.progress(); // it was silent, but it lived
    if (final.has(closed.code)) {
      throw new SilkStreamError("refused", `the stream of ${this.#target.name} was closed: ${closed.code} ${closed.reason}`, this.#target.cursor());
    }
    await this.#wait(new Interrupted(`the connection ended: ${closed.code} ${closed.reason}`));
  }

  /** As {@link after}, when what came over the connection was damaged. */
  async damaged(what: string, options?: ErrorOptions): Promise<void> {
    await this.#wait(new Interrupted(what, options));
  }

  async #dial(): Promise<Socket> {
    const { http } = this.#cfg;
    const { path } = this.#target;
    // Browsers set no headers on a WebSocket; a ticket stands in for the token, once, wherever we run.
    const t = await http.json({ method: "POST", path: "v1/tickets", body: { path: `/${path}` }, signal: this.#signal, again: false }, ticket);
    const url = http.address(path, { ...this.#target.query(), ...this.#target.socketQuery, ticket: t.ticket });
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    try {
      return await Socket.open(this.#cfg.WebSocket, url, this.#cfg.limits, this.#signal);
    } catch (err) {
      if (err instanceof HandshakeError) await this.#diagnose();
      throw err;
    }
  }

  /** Finds out what a browser does not tell about a handshake: the same stream as events, over fetch, has a status. */
  async #diagnose(): Promise<void> {
    const answer = await this.#cfg.http.response({
      method: "GET",
      path: this.#target.path,
      query: this.#target.query(),
      headers: { Accept: "text/event-stream" },
      signal: this.#signal,
      again: false,
    });
    await answer.body?.cancel();
  }

  async #wait(cause: unknown): Promise<void> {
    if (!mendable(cause)) throw cause;
    this.#failures++;
    if (this.#failures >= this.#cfg.backoff.attempts) {
      throw new SilkStreamError("lost", `the stream of ${this.#target.name} broke ${this.#failures} times in a row`, this.#target.cursor(), { cause });
    }
    const asked = cause instanceof SilkProblem ? (cause.retryAfterMs ?? 0) : 0;
    const delayMs = Math.max(asked, backoffDelay(this.#cfg.backoff, this.#failures, this.#cfg.random()));
    this.#tell({ state: "waiting", failures: this.#failures, delayMs, cause });
    await sleep(delayMs, this.#signal);
  }
}

/**
 * Codes that say that the same would happen again: protocol error, unsupported or inconsistent data, too big. Policy (1008) is none: the
 * server sends it when a token is no good any more, and to the request for the next ticket it says why; there may be a new one too.
 */
const final: ReadonlySet<number> = new Set([1002, 1003, 1007, 1009]);

function mendable(err: unknown): boolean {
  if (err instanceof SilkProblem) return err.status >= 500 || err.status === 408 || err.status === 425 || err.status === 429;
  return err instanceof SilkNetworkError || err instanceof HandshakeError || err instanceof Interrupted;
}
