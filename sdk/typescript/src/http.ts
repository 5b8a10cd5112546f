import { backoffDelay, reasonOf, sleep, type Backoff } from "./backoff.js";
import { parseJSON, type Decoder } from "./decode.js";
import { SilkDecodeError, SilkError, SilkNetworkError, SilkProblem } from "./errors.js";
import { problem } from "./wire.js";

/** The part of fetch that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** One request. */
export interface Call {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below the server's URL, without a slash at its begin, escaped. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Statuses of failures whose answers are decoded as any other, unless they are problems. */
  readonly answers?: readonly number[];
  /** That a second attempt does no harm: it is made if the network breaks, or a proxy or a server that stops answers. */
  readonly again: boolean;
}

export interface HTTPConfig {
  readonly url: URL; // ends in a slash
  readonly getToken: () => string | Promise<string>;
  readonly fetch: Fetch;
  readonly timeoutMs: number;
  readonly backoff: Backoff;
  readonly random: () => number;
}

/** Sends requests, and turns answers that are problems into errors. */
export class HTTP {
  readonly #cfg: HTTPConfig;

  constructor(cfg: HTTPConfig) {
    this.#cfg = cfg;
  }

  /** The address of a path below the server's URL. */
  address(path: string, query: Call["query"] = {}): URL {
    const url = new URL(path, this.#cfg.url);
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
    return url;
  }

  /** The decoded JSON of an answer. */
  json<T>(call: Call, decode: Decoder<T>): Promise<T> {
    return this.#attempts(call, async (answer) => decode(parseJSON(await answer.text()), ""));
  }

  /** Carries out a request whose answer has no content. */
  async nothing(call: Call): Promise<void> {
    await this.#attempts(call, (answer) => answer.text());
  }

  /** The answer itself, whose body the caller reads. The time limit is for its begin. */
  response(call: Call): Promise<Response> {
    return this.#attempts(call, (answer) => Promise.resolve(answer));
  }

  async #attempts<T>(call: Call, read: (answer: Response) => Promise<T>): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await this.#once(call, read);
      } catch (err) {
        if (!call.again) throw err;
        await this.pause(err, failures, call.signal);
      }
    }
  }

  /** Waits before a request is sent again that has failed so many times, the last time with err, or throws that: it will not help. */
  async pause(err: unknown, failures: number, signal: AbortSignal | undefined): Promise<void> {
    if (failures >= this.#cfg.backoff.attempts || !passing(err)) throw err;
    const asked = err instanceof SilkProblem ? (err.retryAfterMs ?? 0) : 0;
    if (asked > this.#cfg.backoff.maxMs) throw err;
    await sleep(Math.max(asked, backoffDelay(this.#cfg.backoff, failures, this.#cfg.random())), signal);
  }

  async #once<T>(call: Call, read: (answer: Response) => Promise<T>): Promise<T> {
    const { method, path, query, signal } = call;
    signal?.throwIfAborted();
    const headers = new Headers(call.headers);
    headers.set("Authorization", `Bearer ${await this.#cfg.getToken()}`);
    const init: RequestInit = {
      method,
      headers,
      cache: "no-store",
      credentials: "omit",
      redirect: "error", // a token goes nowhere else
      referrerPolicy: "no-referrer",
    };
    if (call.body !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = JSON.stringify(call.body);
    }
    const limit = new AbortController();
    const timer = setTimeout(() => {
      limit.abort(new DOMException(`no answer within ${this.#cfg.timeoutMs} ms`, "TimeoutError"));
    }, this.#cfg.timeoutMs);
    const abort = (): void => {
      limit.abort(reasonOf(signal));
    };
    signal?.addEventListener("abort", abort, { once: true });
    let streaming = false;
    try {
      const answer = await this.#cfg.fetch(this.address(path, query).href, { ...init, signal: limit.signal });
      if (!answer.ok && (isProblem(answer) || call.answers?.includes(answer.status) !== true)) throw await problemOf(answer);
      const out = await read(answer);
      streaming = out instanceof Response; // its body is still to be read, and signal ends that too
      return out;
    } catch (err) {
      signal?.throwIfAborted();
      if (err instanceof SilkError) throw err;
      throw new SilkNetworkError(`${method} ${path}: no answer`, { cause: limit.signal.aborted ? limit.signal.reason : err });
    } finally {
      clearTimeout(timer);
      if (!streaming) signal?.removeEventListener("abort", abort);
    }
  }
}

/** Whether the same request may go well a moment later. */
export function passing(err: unknown): boolean {
  if (err instanceof SilkNetworkError) return true;
  return err instanceof SilkProblem && (err.status === 502 || err.status === 503 || err.status === 504);
}

function isProblem(answer: Response): boolean {
  return /^application\/problem\+json\b/i.test(answer.headers.get("Content-Type") ?? "");
}

/** The problem that an answer is. */
export async function problemOf(answer: Response): Promise<SilkProblem> {
  const after = retryAfter(answer.headers.get("Retry-After"));
  if (isProblem(answer)) {
    try {
      const p = problem(parseJSON(await answer.text()), "");
      return new SilkProblem({ ...p, status: answer.status }, p.retry_after_ms ?? after);
    } catch (err) {
      if (!(err instanceof SilkDecodeError)) throw err;
    }
  } else {
    await answer.body?.cancel();
  }
  return new SilkProblem({ type: "about:blank", title: answer.statusText || `status ${answer.status}`, status: answer.status }, after);
}

/** Milliseconds of a Retry-After in seconds (RFC 9110 section 10.2.3), which is what silk sends. */
function retryAfter(header: string | null): number | undefined {
  return header !== null && /^\d{1,9}$/.test(header) ? Number(header) * 1000 : undefined;
}
