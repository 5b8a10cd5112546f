import type { Limits, RunRequest } from "@silk-sandbox/client";

/** A block as the server's parse of the note has it. */
export interface Block {
  readonly line: number;
  /** Of the closing fence. */
  readonly end_line: number;
  readonly language: string;
  readonly profile: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly runnable: boolean;
  /** Why it is not. */
  readonly reason: string;
  readonly code: string;
  readonly code_hash: string;
  /** Our own output below it. */
  readonly result?: { readonly line: number; readonly end_line: number; readonly run: string };
}

/** What the settings add to requests. */
export interface RequestDefaults {
  /** Profile by language; a block's own comes first. */
  readonly profiles: Readonly<Record<string, string>>;
  /** 0: the profile's. */
  readonly timeoutSeconds: number;
}

/** A block whose attributes cannot be obeyed. Its message is for people. */
export class AttributeError extends Error {
  override name = "AttributeError";
}

/**
 * The request that runs a block. The server has checked the attributes; one that this version does not know throws AttributeError all
 * the same: nothing is run by a guess.
 */
export function requestOf(block: Pick<Block, "language" | "profile" | "attributes" | "code">, defaults: RequestDefaults): RunRequest {
  const limits: Limits = {};
  const request: RunRequest = { code: block.code };
  if (block.language !== "") request.language = block.language;
  const profile = block.attributes["profile"] ?? defaults.profiles[block.language] ?? block.profile;
  if (profile !== "") request.profile = profile;
  if (defaults.timeoutSeconds > 0) limits.timeout_ms = defaults.timeoutSeconds * 1000;
  for (const [name, value] of Object.entries(block.attributes)) {
    const set = attributes[name];
    if (set === undefined) throw new AttributeError(`this version of the plugin does not know the attribute ${name}`);
    set(request, limits, value);
  }
  if (Object.keys(limits).length > 0) request.limits = limits;
  return request;
}

type Setter = (request: RunRequest, limits: Limits, value: string) => void;

const attributes: Readonly<Record<string, Setter>> = {
  profile: () => undefined,
  auto: () => undefined, // says that `silk note watch` may run it; here only a click does
  args: (r, _, v) => (r.args = words(v)),
  timeout: (_, l, v) => (l.timeout_ms = milliseconds(v)),
  memory: (_, l, v) => (l.memory_bytes = bytes(v)),
  disk: (_, l, v) => (l.workspace_bytes = bytes(v)),
  cpus: (_, l, v) => (l.cpus = positive("cpus", v)),
  processes: (_, l, v) => (l.processes = positive("processes", v)),
  net: (r, _, v) => {
    network(r, v);
  },
  driver: (r, _, v) => (r.driver = v),
  isolation: (r, _, v) => {
    if (v !== "microvm") throw new AttributeError(`isolation=${v}: it is microvm`);
    r.isolation = v;
  },
  "no-spawn": (r) => (r.no_spawn = true),
  deterministic: (r) => (r.deterministic = true),
};

/** The words of text; quotation marks hold together what has spaces. */
export function words(text: string): string[] {
  const out: string[] = [];
  for (const [word] of text.matchAll(/(?:[^\s'"]+|'[^']*'|"[^"]*")+/g)) out.push(word.replace(/'([^']*)'|"([^"]*)"/g, (_, a: string | undefined, b: string | undefined) => a ?? b ?? ""));
  if (text.replace(/'[^']*'|"[^"]*"/g, "").match(/['"]/)) throw new AttributeError("args: a quotation mark is not closed");
  return out;
}

function network(request: RunRequest, value: string): void {
  if (value === "deny" || value === "loopback" || value === "allow") {
    request.network = value;
    return;
  }
  const hosts = value.split(",").map((h) => h.trim());
  if (hosts.some((h) => !/^\S+:\d{1,5}$/.test(h))) throw new AttributeError(`net=${value}: it is deny, loopback, allow or HOST:PORT,...`);
  request.network = "allowlist";
  request.hosts = hosts;
}

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Milliseconds of a duration as Go writes it: 30s, 1m30s, 500ms, 1.5h. */
export function milliseconds(text: string): number {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/.test(text)) throw new AttributeError(`timeout=${text} is no duration such as 30s`);
  let sum = 0;
  for (const [, n = "", unit = ""] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) sum += Number(n) * (units[unit] ?? 0);
  if (sum === 0) throw new AttributeError(`timeout=${text} is not above zero`);
  return Math.round(sum);
}

const sizes: Readonly<Record<string, number>> = { "": 1, KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30, KB: 1e3, MB: 1e6, GB: 1e9, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 };

/** Bytes of a size such as 256MiB. */
export function bytes(text: string): number {
  const [, n, unit] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text) ?? [];
  const factor = sizes[(unit ?? "?").toUpperCase()];
  if (n === undefined || factor === undefined) throw new AttributeError(`memory=${text} is no size such as 256MiB`);
  return Math.round(Number(n) * factor);
}

function positive(name: string, text: string): number {
  const n = Number(text);
  if (!(n > 0)) throw new AttributeError(`${name}=${text} is no positive number`);
  return n;
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
export function blockAt(blocks: readonly Block[], shown: Shown): Block | undefined {
  const same = blocks.filter((b) => trimmed(b.code) === trimmed(shown.code));
  const at = same.find((b) => b.line === shown.line);
  if (at !== undefined) return at;
  return shown.ordinal !== undefined ? same[shown.ordinal] : same.length === 1 ? same[0] : undefined;
}

/** Code without the line ends at its end, of which a rendered block has another number. */
export const trimmed = (code: string): string => code.replace(/\r\n?/g, "\n").replace(/\n+$/, "");
