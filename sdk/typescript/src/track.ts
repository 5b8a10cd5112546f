import { SilkStreamError } from "./errors.js";
import type { ChannelName, Cursor, ExitFrame, Frame, GapFrame, HelloFrame, OutputFrame } from "./frame.js";

/** Bytes are missing that no gap frame has named: the connection cannot be trusted, another one may have them. */
export class SkippedError extends Error {
  override name = "SkippedError";
}

const keptTexts = 256; // as many frames as a server sends again to a viewer that comes back, and some

/**
 * Follows one run over all its connections: what was delivered, and what of a new frame is new. Whatever the network does, what
 * {@link Tracker.accept} returns has each byte at most once, in order, with gap frames for all that is missing.
 */
export class Tracker {
  #at: { stdout: number; stderr: number } | undefined;
  #texts: string[] = []; // frames that are not output, delivered, the last ones
  #again: string[] = []; // those of them that a new connection may repeat at its begin
  #greeted = false;

  /** cursor undefined: the first hello says where the output begins. */
  constructor(cursor: Cursor | undefined) {
    this.#at = cursor && { ...cursor };
  }

  /** What was delivered; undefined before the first hello of a stream that begins with the tail. */
  get cursor(): Cursor | undefined {
    return this.#at && { ...this.#at };
  }

  /** A new connection begins. */
  reconnected(): void {
    this.#again = [...this.#texts];
  }

  /** What is new in a frame, or undefined. text is the frame on the wire. */
  accept(frame: Frame, text: string): Frame | undefined {
    switch (frame.type) {
      case "hello":
        return this.#hello(frame);
      case "output":
        this.#again = [];
        return this.#output(frame);
      case "gap":
        this.#again = [];
        return this.#gap(frame);
      case "exit":
        this.#exit(frame);
        return frame;
      default:
        return this.#news(text) ? frame : undefined;
    }
  }

  #hello(frame: HelloFrame): HelloFrame | undefined {
    const from = frame.tail_from;
    this.#at ??= { ...from };
    if (from.stdout > this.#at.stdout || from.stderr > this.#at.stderr) throw new SkippedError("the stream begins after what was delivered");
    if (this.#greeted) return undefined;
    this.#greeted = true;
    return frame;
  }

  #position(channel: ChannelName): number {
    if (this.#at === undefined) throw new SkippedError("the stream has no hello");
    return this.#at[channel];
  }

  #output(frame: OutputFrame): OutputFrame | undefined {
    const at = this.#position(frame.channel);
    const end = frame.offset + frame.bytes.length;
    if (frame.offset > at) throw new SkippedError(`bytes ${at} to ${frame.offset} of ${frame.channel} are missing`);
    if (end <= at) return undefined;
    this.#move(frame.channel, end);
    return frame.offset === at ? frame : { ...frame, offset: at, bytes: frame.bytes.subarray(at - frame.offset) };
  }

  #gap(frame: GapFrame): GapFrame | undefined {
    const at = this.#position(frame.channel);
    if (frame.from > at) throw new SkippedError(`bytes ${at} to ${frame.from} of ${frame.channel} are missing`);
    if (frame.to <= at) return undefined;
    this.#move(frame.channel, frame.to);
    return frame.from === at ? frame : { ...frame, from: at };
  }

  #exit(frame: ExitFrame): void {
    for (const channel of ["stdout", "stderr"] as const) {
      const at = this.#position(channel);
      const { bytes, truncated } = frame.outcome[channel];
      if (at < bytes && !truncated) {
        throw new SilkStreamError("short", `${bytes - at} bytes of ${channel} are missing at the end of run ${frame.run}`, this.cursor);
      }
    }
  }

  #move(channel: ChannelName, to: number): void {
    if (this.#at !== undefined) this.#at[channel] = to;
  }

  /** Whether a frame that is not output is a new one. The server repeats at the begin of a connection how the run stands. */
  #news(text: string): boolean {
    const repeated = this.#again.indexOf(text);
    if (repeated >= 0) {
      this.#again.splice(0, repeated + 1); // they come in the order of their publication
      return false;
    }
    this.#again = [];
    this.#texts.push(text);
    if (this.#texts.length > keptTexts) this.#texts.shift();
    return true;
  }
}
