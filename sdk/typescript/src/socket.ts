import { reasonOf } from "./backoff.js";
import { subprotocol } from "./frame.js";

/** The part of WebSocket that is used: that of browsers and of Node from 22 on. */
export interface WebSocketLike {
  readonly readyState: number;
  readonly bufferedAmount: number;
  readonly protocol: string;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "error", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number; readonly reason: string }) => void): void;
}

export type WebSocketConstructor = new (url: string, protocols: string | string[]) => WebSocketLike;

/** Why no further message comes. */
export interface Closed {
  /** RFC 6455 section 7.4; 1006 if the connection broke. */
  readonly code: number;
  readonly reason: string;
  /** We closed it, because its messages were not read fast enough. */
  readonly overflow: boolean;
}

export type Received = { readonly text: string } | { readonly closed: Closed };

export interface SocketLimits {
  /** Characters that may wait to be read; with more, the socket is closed. */
  readonly bufferChars: number;
  /** For the handshake. */
  readonly openMs: number;
  /** Without a message; then the connection is taken for dead. */
  readonly idleMs: number;
}

/** The handshake did not succeed. A browser does not say why. */
export class HandshakeError extends Error {
  override name = "HandshakeError";
}

const keepRead = 1024; // messages that were read and are still in the array: to shift it for each one would be slow
const OPEN = 1; // WebSocket.OPEN, HTML standard

/**
 * One connection, read by one reader. What has arrived waits in a buffer of bounded size: a WebSocket cannot be told to send less,
 * so one that runs over is closed, and its reader comes again later for the rest.
 */
export class Socket {
  readonly #ws: WebSocketLike;
  readonly #limits: SocketLimits;
  #waiting: string[] = [];
  #read = 0; // how many of waiting were read
  #chars = 0;
  #closed: Closed | undefined;
  #wake: (() => void) | undefined;
  #idle: ReturnType<typeof setTimeout> | undefined;

  private constructor(ws: WebSocketLike, limits: SocketLimits) {
    this.#ws = ws;
    this.#limits = limits;
  }

  /** Connects. It rejects with a {@link HandshakeError}, or signal's reason. */
  static open(constructor: WebSocketConstructor, url: URL, limits: SocketLimits, signal: AbortSignal): Promise<Socket> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const ws = new constructor(url.href, [subprotocol]);
      const socket = new Socket(ws, limits);
      const fail = (err: Error): void => {
        clearTimeout(timer);
        socket.#end({ code: 1006, reason: "", overflow: false });
        signal.removeEventListener("abort", abort);
        reject(err);
      };
      const abort = (): void => {
        fail(reasonOf(signal));
      };
      signal.addEventListener("abort", abort, { once: true });
      const timer = setTimeout(() => {
        fail(new HandshakeError(`no WebSocket within ${limits.openMs} ms`));
      }, limits.openMs);
      ws.addEventListener("open", () => {
        clearTimeout(timer);
        if (ws.protocol !== subprotocol) {
          fail(new HandshakeError(`the server does not speak ${subprotocol}`));
          return;
        }
        socket.#alive();
        resolve(socket);
      });
      ws.addEventListener("message", (event) => {
        socket.#message(event.data);
      });
      ws.addEventListener("error", () => {
        fail(new HandshakeError("no WebSocket")); // Node 22 sends no close after a handshake that failed; nothing happens if it was open
      });
      ws.addEventListener("close", (event) => {
        signal.removeEventListener("abort", abort);
        socket.#end({ code: event.code, reason: event.reason, overflow: false });
        fail(new HandshakeError("no WebSocket")); // nothing happens if it was open
      });
    });
  }

  /** The next message, in order; those that arrived before the end come before it. */
  async next(): Promise<Received> {
    for (;;) {
      const text = this.#waiting[this.#read];
      if (text !== undefined) {
        this.#chars -= text.length;
        this.#read++;
        if (this.#read >= keepRead) this.#forget(this.#waiting.slice(this.#read));
        return { text };
      }
      if (this.#closed !== undefined) return { closed: this.#closed };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Hands a message to the network, and says whether it could. That it arrives nobody knows. */
  send(text: string): boolean {
    if (this.#closed !== undefined || this.#ws.readyState !== OPEN) return false;
    this.#ws.send(text);
    return true;
  }

  /** Bytes that were sent and have not left. */
  get unsent(): number {
    return this.#ws.bufferedAmount;
  }

  /** Ends the connection. What has arrived is forgotten. */
  close(): void {
    this.#forget([]);
    this.#chars = 0;
    this.#end({ code: 1000, reason: "", overflow: false });
  }

  #forget(rest: string[]): void {
    this.#waiting = rest;
    this.#read = 0;
  }

  #message(data: unknown): void {
    if (this.#closed !== undefined) return; // after an overflow: it will be sent again
    if (typeof data !== "string") {
      this.#end({ code: 1003, reason: "the server sent what is no text", overflow: false });
      return;
    }
    if (this.#chars + data.length > this.#limits.bufferChars && this.#read < this.#waiting.length) {
      this.#end({ code: 1000, reason: "", overflow: true });
      return;
    }
    this.#waiting.push(data);
    this.#chars += data.length;
    this.#alive();
    this.#wake?.();
  }

  #alive(): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      this.#end({ code: 1006, reason: "nothing was heard of the server", overflow: false });
    }, this.#limits.idleMs);
  }

  #end(closed: Closed): void {
    if (this.#closed !== undefined) return; // Node 22 reports an error of a handshake again when it is closed for that
    clearTimeout(this.#idle);
    this.#closed = closed;
    this.#wake?.();
    if (this.#ws.readyState <= OPEN) this.#ws.close();
  }
}
