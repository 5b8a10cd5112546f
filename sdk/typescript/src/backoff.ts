/** How long to wait between attempts. */
export interface Backoff {
  /** Milliseconds before the second attempt; doubled for each one after. */
  readonly minMs: number;
  /** Milliseconds at most. */
  readonly maxMs: number;
  /** Attempts in a row that may fail; then the last failure is thrown. */
  readonly attempts: number;
}

/**
 * Milliseconds to wait after the nth failure in a row, from 1. Half of it is random, so that clients whose server comes back do
 * not all come at once. random is from 0 to 1.
 */
export function backoffDelay(b: Backoff, failures: number, random: number): number {
  const full = Math.min(b.maxMs, b.minMs * 2 ** Math.min(failures - 1, 30));
  return full / 2 + (full / 2) * random;
}

/** Waits. If signal is aborted, its reason is thrown. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      clearTimeout(timer);
      reject(reasonOf(signal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** What an aborted signal throws. */
export function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new DOMException(typeof reason === "string" ? reason : "aborted", "AbortError");
}
