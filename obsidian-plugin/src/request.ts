import type { NoteBlock, RunRequest } from "@silk-sandbox/client";
import type { Fence } from "./fences.js";

/** What the settings add to requests. */
export interface RequestDefaults {
  /** Profile by language; a block's own comes first. */
  readonly profiles: Readonly<Record<string, string>>;
  /** 0: the profile's. */
  readonly timeoutSeconds: number;
}

/** The request of a block of a note: the server's own reading of it, filled from the settings where the block says nothing. undefined: it is not runnable. */
export function requestOf(block: NoteBlock, path: string, defaults: RequestDefaults): RunRequest | undefined {
  if (!block.runnable || block.request === undefined) return undefined;
  return filled({ ...block.request, client: "note", note: path, block: block.code_hash }, block.attributes, defaults);
}

/** The request of code that is in no note, such as an answer in a chat. */
export function requestOfCode(language: string, code: string, defaults: RequestDefaults): RunRequest {
  return filled({ language, code, client: "note" }, {}, defaults);
}

function filled(request: RunRequest, attributes: Readonly<Record<string, string>>, defaults: RequestDefaults): RunRequest {
  const profile = defaults.profiles[request.language ?? ""];
  const out = { ...request };
  if (profile !== undefined && profile !== "" && attributes["profile"] === undefined) out.profile = profile;
  if (defaults.timeoutSeconds > 0 && attributes["timeout"] === undefined) out.limits = { ...request.limits, timeout_ms: defaults.timeoutSeconds * 1000 };
  return out;
}

/** A fence on a screen. */
export interface Shown {
  readonly code: string;
  /** From 0, if it is known. */
  readonly line?: number;
  /** Its place among those with the same code, from 0, if that is known. */
  readonly ordinal?: number;
}

/** The block that a fence on the screen is. undefined: none is, or it cannot be told which of several equal ones. */
export function blockAt<B extends Pick<NoteBlock, "line" | "code">>(blocks: readonly B[], shown: Shown): B | undefined {
  const same = blocks.filter((b) => trimmed(b.code) === trimmed(shown.code));
  const at = same.find((b) => b.line === shown.line);
  if (at !== undefined) return at;
  return shown.ordinal !== undefined ? same[shown.ordinal] : same.length === 1 ? same[0] : undefined;
}

/** A fence of a note as it is shown. */
export function shownOf(fences: readonly Fence[], f: Fence): Shown & { readonly language: string } {
  return { language: f.language, code: f.code, line: f.line, ordinal: ordinalOf(fences, f) };
}

/** The place of a block among those with the same code, whatever their languages. */
export function ordinalOf<B extends Pick<NoteBlock, "line" | "code">>(blocks: readonly B[], block: B): number {
  return blocks.filter((b) => trimmed(b.code) === trimmed(block.code)).findIndex((b) => b.line === block.line);
}

/** Code without the line ends at its end, of which a rendered block has another number. */
export const trimmed = (code: string): string => code.replace(/\r\n?/g, "\n").replace(/\n+$/, "");
