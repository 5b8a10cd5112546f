import type { Frame, GapFrame, OutputFrame } from "./frame.js";
import { OutputText } from "./text.js";
import type { Outcome } from "./types.js";

/** What a run has printed, and how it ended. */
export interface Collected {
  readonly run: string;
  readonly outcome: Outcome;
  /** As text: what is not UTF-8 is U+FFFD. */
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  /** Whether the end of a channel was left out, here or by the server. */
  readonly truncated: { readonly stdout: boolean; readonly stderr: boolean };
  /** Bytes that were not to be had. */
  readonly gaps: readonly GapFrame[];
}

const keptGaps = 1000;

/** Keeps the first maxBytes of each channel. */
export class Collector {
  readonly #maxBytes: number;
  readonly #channels = { stdout: { pieces: [] as Uint8Array[], bytes: 0, cut: false }, stderr: { pieces: [] as Uint8Array[], bytes: 0, cut: false } };
  readonly #gaps: GapFrame[] = [];

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  push(frame: Frame): void {
    if (frame.type === "output") this.#output(frame);
    else if (frame.type === "gap" && this.#gaps.length < keptGaps) this.#gaps.push(frame);
  }

  result(outcome: Outcome): Collected {
    const out = { stdout: this.#join("stdout"), stderr: this.#join("stderr") };
    return {
      run: outcome.run,
      outcome,
      stdout: textOf(out.stdout),
      stderr: textOf(out.stderr),
      stdoutBytes: out.stdout,
      stderrBytes: out.stderr,
      truncated: {
        stdout: this.#channels.stdout.cut || outcome.stdout.truncated,
        stderr: this.#channels.stderr.cut || outcome.stderr.truncated,
      },
      gaps: this.#gaps,
    };
  }

  #output(frame: OutputFrame): void {
    const c = this.#channels[frame.channel];
    const piece = frame.bytes.subarray(0, this.#maxBytes - c.bytes);
    if (piece.length < frame.bytes.length) c.cut = true;
    if (piece.length === 0) return;
    c.pieces.push(piece);
    c.bytes += piece.length;
  }

  #join(channel: "stdout" | "stderr"): Uint8Array {
    const c = this.#channels[channel];
    const out = new Uint8Array(c.bytes);
    let at = 0;
    for (const p of c.pieces) {
      out.set(p, at);
      at += p.length;
    }
    return out;
  }
}

function textOf(bytes: Uint8Array): string {
  const text = new OutputText();
  return text.push({ type: "output", run: "", channel: "stdout", offset: 0, bytes }) + text.end("stdout");
}
