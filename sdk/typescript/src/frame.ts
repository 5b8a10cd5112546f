import { boolean, count, integer, object, oneOf, optional, parseJSON, string, type Decoder, type Shape } from "./decode.js";
import { SilkDecodeError } from "./errors.js";
import type { Outcome, RunState } from "./types.js";
import { outcome, runState } from "./wire.js";

/** The WebSocket subprotocol of streams of frames. */
export const subprotocol = "silk.v1";

export type ChannelName = "stdout" | "stderr";

/** How many bytes of each channel a viewer has. */
export interface Cursor {
  readonly stdout: number;
  readonly stderr: number;
}

/** The first frame: what the stream is of, and the offsets at which the output that follows begins. */
export interface HelloFrame {
  readonly type: "hello";
  readonly run: string;
  readonly state?: RunState;
  readonly profile?: string;
  readonly driver?: string;
  readonly tail_from: Cursor;
  /** Whether the program waits for this viewer: see follow of WatchOptions. */
  readonly followed?: boolean;
}

/** The run waits for its turn. */
export interface QueuedFrame {
  readonly type: "queued";
  readonly run: string;
  /** 1 is next. */
  readonly position?: number;
  /** Guessed from runs before; absent if unknown. */
  readonly eta_ms?: number;
}

/** The program is about to run. at_ms is since 1970. */
export interface StartedFrame {
  readonly type: "started";
  readonly run: string;
  readonly driver?: string;
  readonly at_ms?: number;
}

/** A piece of one channel, which may begin or end in the midst of a character: see {@link OutputText}. */
export interface OutputFrame {
  readonly type: "output";
  readonly run: string;
  readonly channel: ChannelName;
  /** Of the first byte in its channel. */
  readonly offset: number;
  /** What an untrusted program wrote. */
  readonly bytes: Uint8Array;
  /** Common to both channels, from 1; grows, but not by one where pieces were joined. Absent in what comes from a record. */
  readonly seq?: number;
  /** Milliseconds since the program started. Absent in what comes from a record. */
  readonly at_ms?: number;
}

/** A step of the way to the start. */
export interface ProgressFrame {
  readonly type: "progress";
  readonly run: string;
  readonly step?: string;
  readonly detail?: string;
}

/** Policy ended the sandbox. */
export interface ViolationFrame {
  readonly type: "violation";
  readonly run: string;
  readonly rule: string;
  readonly syscall?: string;
  readonly detail?: string;
}

/** Something was dialled or refused. */
export interface EgressFrame {
  readonly type: "egress";
  readonly run: string;
  /** tcp, udp, or dns for a look-up. Servers before it was there do not say. */
  readonly kind?: string;
  readonly host: string;
  readonly port?: number;
  readonly allowed: boolean;
  /** What refused it: name, port, address, protocol, udp, connections. */
  readonly rule?: string;
  /** Why, for people. */
  readonly detail?: string;
}

/** The run waits for the owner, or the owner has decided: pending, granted, denied, expired, withdrawn. */
export interface ApprovalFrame {
  readonly type: "approval";
  readonly run: string;
  readonly state: string;
  readonly detail?: string;
}

/** A result that the program shows, an artifact: those of a run come before its end, in their order. */
export interface DisplayFrame {
  readonly type: "display";
  readonly run: string;
  readonly mime: string;
  readonly path: string;
}

/** The bytes from (included) to to (excluded) of a channel are not to be had any more. */
export interface GapFrame {
  readonly type: "gap";
  readonly run: string;
  readonly channel: ChannelName;
  readonly from: number;
  readonly to: number;
}

/** The last frame of a run. */
export interface ExitFrame {
  readonly type: "exit";
  readonly run: string;
  readonly outcome: Outcome;
}

/** A sign of life on the wire. Streams do not deliver it. */
export interface PingFrame {
  readonly type: "ping";
}

/** A frame of a type that this version does not know. Its content is not decoded. */
export interface UnknownFrame {
  readonly type: "unknown";
  readonly run?: string;
  /** The type on the wire. */
  readonly kind: string;
}

/** What a stream delivers. */
export type Frame =
  | HelloFrame
  | QueuedFrame
  | StartedFrame
  | OutputFrame
  | ProgressFrame
  | ViolationFrame
  | EgressFrame
  | ApprovalFrame
  | DisplayFrame
  | GapFrame
  | ExitFrame
  | UnknownFrame;

type Plain<F> = Omit<F, "type">;

/** Decodes the fields of a frame, and names its type. */
function frame<F extends { readonly type: string }>(type: F["type"], shape: Shape<Plain<F>>): Decoder<F> {
  const decode = object<Plain<F>>(shape);
  return (value, at) => ({ type, ...decode(value, at) }) as F;
}

const channel = oneOf("stdout", "stderr");
const cursor = object<Cursor>({ stdout: count, stderr: count });

const decoders = {
  hello: frame<HelloFrame>("hello", { run: string, state: optional(runState), profile: optional(string), driver: optional(string), tail_from: cursor, followed: optional(boolean) }),
  queued: frame<QueuedFrame>("queued", { run: string, position: optional(integer), eta_ms: optional(integer) }),
  started: frame<StartedFrame>("started", { run: string, driver: optional(string), at_ms: optional(integer) }),
  output,
  progress: frame<ProgressFrame>("progress", { run: string, step: optional(string), detail: optional(string) }),
  violation: frame<ViolationFrame>("violation", { run: string, rule: string, syscall: optional(string), detail: optional(string) }),
  egress: frame<EgressFrame>("egress", { run: string, kind: optional(string), host: string, port: optional(integer), allowed: boolean, rule: optional(string), detail: optional(string) }),
  approval: frame<ApprovalFrame>("approval", { run: string, state: string, detail: optional(string) }),
  display: frame<DisplayFrame>("display", { run: string, mime: string, path: string }),
  gap,
  exit: frame<ExitFrame>("exit", { run: string, outcome }),
  ping: (): PingFrame => ({ type: "ping" }),
} satisfies Record<string, Decoder<Frame | PingFrame>>;

const isKnown = (type: string): type is keyof typeof decoders => Object.hasOwn(decoders, type);

const typeOf = object<{ type: string; run?: string }>({ type: string, run: optional(string) });

/**
 * Decodes the text of one message of a stream. A type that is not known gives an {@link UnknownFrame}: a newer server may send
 * one. Anything else that does not have the shape of its type is a {@link SilkDecodeError}.
 */
export function decodeFrame(text: string): Frame | PingFrame {
  const value = parseJSON(text);
  const { type, run } = typeOf(value, "");
  if (isKnown(type)) return decoders[type](value, "");
  return run === undefined ? { type: "unknown", kind: type } : { type: "unknown", kind: type, run };
}

const rawOutput = object<Omit<OutputFrame, "type" | "bytes"> & { data?: string; b64?: string }>({
  run: string,
  channel,
  offset: count,
  seq: optional(count),
  at_ms: optional(integer),
  data: optional(string),
  b64: optional(string),
});

function output(value: unknown, at: string): OutputFrame {
  const { data, b64, ...rest } = rawOutput(value, at);
  if (data !== undefined && b64 !== undefined) throw new SilkDecodeError("data", "absent beside b64");
  return { type: "output", ...rest, bytes: b64 === undefined ? encodeText(data ?? "") : decodeBase64(b64, "b64") };
}

const rawGap = object<Plain<GapFrame>>({ run: string, channel, from: count, to: count });

function gap(value: unknown, at: string): GapFrame {
  const g = rawGap(value, at);
  if (g.to <= g.from) throw new SilkDecodeError("to", "after from");
  return { type: "gap", ...g };
}

const encoder = new TextEncoder();

function encodeText(text: string): Uint8Array {
  // Half of a surrogate pair would become U+FFFD, and with it the count of bytes wrong.
  if (/\p{Surrogate}/u.test(text)) throw new SilkDecodeError("data", "well-formed Unicode");
  return encoder.encode(text);
}

/** Decodes standard base64 with padding: RFC 4648 section 4. */
export function decodeBase64(text: string, at: string): Uint8Array {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw new SilkDecodeError(at, "standard base64");
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < out.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}

/** Encodes standard base64 with padding: RFC 4648 section 4. */
export function encodeBase64(bytes: Uint8Array): string {
  const part = 0x8000; // arguments of one call: engines allow at least 65535
  let binary = "";
  for (let i = 0; i < bytes.length; i += part) binary += String.fromCharCode(...bytes.subarray(i, i + part));
  return btoa(binary);
}
