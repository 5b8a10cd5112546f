import type { ChannelName, GapFrame, OutputFrame } from "./frame.js";

/**
 * Turns the pieces of a run's channels into text. A character that is cut between two pieces comes with the second one; bytes
 * that are not UTF-8, and characters that a gap has cut, become U+FFFD. One for each run.
 */
export class OutputText {
  readonly #decoders = { stdout: newDecoder(), stderr: newDecoder() };

  /** The text that a piece, or a gap, completes in its channel. It may be empty. */
  push(frame: OutputFrame | GapFrame): string {
    if (frame.type === "gap") return this.end(frame.channel);
    return this.#decoders[frame.channel].decode(frame.bytes, { stream: true });
  }

  /** What is left of a channel when nothing follows: "", or U+FFFD for a character that was cut. */
  end(channel: ChannelName): string {
    return this.#decoders[channel].decode();
  }
}

// A byte order mark is output like any other.
const newDecoder = (): TextDecoder => new TextDecoder("utf-8", { ignoreBOM: true });
