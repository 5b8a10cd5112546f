import type { Cursor } from "./frame.js";
import type { FieldError, Problem } from "./types.js";

/** What every error of this package is, except that an aborted signal's reason is thrown as it is. */
export class SilkError extends Error {
  override name = "SilkError";
}

/**
 * An answer of the server that is not the one that was asked for: problem details of RFC 9457. An answer that has none, from a
 * proxy say, has the type "about:blank" and the status.
 */
export class SilkProblem extends SilkError {
  override name = "SilkProblem";
  /** Kind of problem, such as "urn:silk:not-found". */
  readonly type: string;
  /** The kind in words. */
  readonly title: string;
  /** HTTP status code. */
  readonly status: number;
  /** What is wrong this time; empty if the server did not say. */
  readonly detail: string;
  /** Each thing that is wrong with the request. */
  readonly errors: FieldError[];
  /** Of a denial: the rule, and what can be done about it. */
  readonly rule: string | undefined;
  readonly fix: string | undefined;
  /** The run that has the record of the denial, or that is in the way. */
  readonly run: string | undefined;
  /** Of input that was refused: where the next piece begins. */
  readonly offset: number | undefined;
  /** Milliseconds after which to try again; undefined if the server did not say. */
  readonly retryAfterMs: number | undefined;

  constructor(p: Problem, retryAfterMs: number | undefined = p.retry_after_ms) {
    super([p.detail ?? p.title, ...(p.errors ?? []).map((e) => `${e.field}: ${e.detail}`)].join("; "));
    this.type = p.type;
    this.title = p.title;
    this.status = p.status;
    this.detail = p.detail ?? "";
    this.errors = p.errors ?? [];
    this.rule = p.rule;
    this.fix = p.fix;
    this.run = p.run;
    this.offset = p.offset;
    this.retryAfterMs = retryAfterMs;
  }

  /** The last word of type: "not-found" of "urn:silk:not-found"; "" if the problem is not one of silk's. */
  get kind(): string {
    return this.type.startsWith("urn:silk:") ? this.type.slice("urn:silk:".length) : "";
  }
}

/** No answer came: the network broke, or the time was over. The cause says more. Whether the request was carried out is unknown. */
export class SilkNetworkError extends SilkError {
  override name = "SilkNetworkError";
}

/** What the server sent does not have the shape that its API promises. */
export class SilkDecodeError extends SilkError {
  override name = "SilkDecodeError";
  constructor(
    /** Where, such as "outcome.stdout.bytes"; "" is the whole. */
    readonly at: string,
    /** What was expected there. */
    readonly expected: string,
  ) {
    super(`${at === "" ? "the answer" : at} is not ${expected}`);
  }
}

/**
 * - lost: it broke, and so did every attempt to resume it
 * - short: it ended with fewer bytes than the program wrote, and no gap frame said so
 * - refused: the server closed it because of what the client sent
 */
export type StreamErrorReason = "lost" | "short" | "refused";

/** A stream ended without an exit frame, and cannot be resumed: how the run ended is unknown. */
export class SilkStreamError extends SilkError {
  override name = "SilkStreamError";
  constructor(
    readonly reason: StreamErrorReason,
    message: string,
    /** What was delivered, for another attempt later. */
    readonly cursor: Cursor | undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
