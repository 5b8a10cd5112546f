import { outcomeColours, type OutcomeColours } from "./colour.js";

/** What the user chose. Tokens are not in it: they are in the host's keychain. */
export interface Settings {
  /** Of the server; "" is the vault's own, which the plugin starts on a desktop with Linux. */
  readonly server: string;
  /** Executable of silk, for the vault's own server. */
  readonly silk: string;
  readonly profiles: Readonly<Record<string, string>>;
  readonly timeoutSeconds: number;
  /** When a dialog shows what would happen before anything is sent. */
  readonly confirm: "never" | "beyond" | "always";
  readonly attachments: string;
  /** Fence words, beside the known ones, that get a button. */
  readonly languages: readonly string[];
  readonly saveToNote: boolean;
  readonly ansi: boolean;
  readonly chat: boolean;
  readonly colours: OutcomeColours;
}

export const defaults: Settings = {
  server: "",
  silk: "silk",
  profiles: {},
  timeoutSeconds: 0,
  confirm: "beyond",
  attachments: "silk",
  languages: [],
  saveToNote: true,
  ansi: true,
  chat: true,
  colours: outcomeColours,
};

/** A run whose result has not reached its note yet. It is kept over a restart of the app. */
export interface Pending {
  readonly run: string;
  readonly path: string;
  readonly line: number;
  readonly codeHash: string;
  readonly language: string;
  readonly code: string;
  readonly ordinal: number;
}

/** An end that was not well. */
export interface Alert {
  readonly atMs: number;
  readonly run: string;
  readonly outcome: string;
  readonly text: string;
  /** "" is none. */
  readonly note: string;
}

/** What the plugin stores. */
export interface Stored {
  readonly settings: Settings;
  readonly pending: readonly Pending[];
  readonly alerts: readonly Alert[];
}

export const maxAlerts = 500;
const maxPending = 500;

/** Reads what was stored, by whatever version: what does not fit is the default, and never an error. */
export function decodeStored(value: unknown): Stored {
  const v = fields(value);
  const s = fields(v["settings"]);
  const confirm = s["confirm"];
  return {
    settings: {
      server: text(s["server"], defaults.server),
      silk: text(s["silk"], defaults.silk),
      profiles: Object.fromEntries(Object.entries(fields(s["profiles"])).filter((e): e is [string, string] => typeof e[1] === "string")),
      timeoutSeconds: typeof s["timeoutSeconds"] === "number" && s["timeoutSeconds"] >= 0 && s["timeoutSeconds"] <= 86_400 ? s["timeoutSeconds"] : 0,
      confirm: confirm === "never" || confirm === "always" ? confirm : "beyond",
      attachments: text(s["attachments"], defaults.attachments),
      languages: list(s["languages"], (x) => (typeof x === "string" ? x : undefined)),
      saveToNote: s["saveToNote"] !== false,
      ansi: s["ansi"] !== false,
      chat: s["chat"] !== false,
      colours: colours(fields(s["colours"])),
    },
    pending: list(v["pending"], pending).slice(-maxPending),
    alerts: list(v["alerts"], alert).slice(-maxAlerts),
  };
}

function colours(v: Readonly<Record<string, unknown>>): OutcomeColours {
  const one = (name: keyof OutcomeColours): string => {
    const c = v[name];
    return typeof c === "string" && /^#[0-9a-f]{6}$/i.test(c) ? c.toLowerCase() : outcomeColours[name];
  };
  return { ok: one("ok"), failed: one("failed"), violated: one("violated"), other: one("other") };
}

function pending(value: unknown): Pending | undefined {
  const v = fields(value);
  const { run, path, line, codeHash, language, code, ordinal } = v;
  if (typeof run !== "string" || typeof path !== "string" || typeof line !== "number" || typeof codeHash !== "string") return undefined;
  return { run, path, line, codeHash, language: text(language, ""), code: text(code, ""), ordinal: typeof ordinal === "number" ? ordinal : 0 };
}

function alert(value: unknown): Alert | undefined {
  const { atMs, run, outcome, text: said, note } = fields(value);
  if (typeof atMs !== "number" || typeof said !== "string") return undefined;
  return { atMs, run: text(run, ""), outcome: text(outcome, ""), text: said, note: text(note, "") };
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : {};
}

function text(value: unknown, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}

function list<T>(value: unknown, decode: (item: unknown) => T | undefined): T[] {
  return Array.isArray(value) ? value.map(decode).filter((x) => x !== undefined) : [];
}

/** Words of fences that silk has a language for. */
export const known: readonly string[] = "python py python3 javascript js node mjs typescript ts sh shell posix bash jq awk gawk sql sqlite sqlite3 c c++ cpp cc go golang make makefile openqasm qasm qasm2 qasm3 q# qsharp qs solidity sol".split(" ");

/** Whether a fence of that word gets a button. The server decides what can be run. */
export const hasButton = (language: string, settings: Settings): boolean => known.includes(language) || settings.languages.includes(language) || Object.hasOwn(settings.profiles, language);

/** The port of a vault's own server, the same whenever it is asked for: 20000 to 39999, by FNV-1a (32 bit) of the vault's path. */
export function portOf(vault: string): number {
  let h = 0x811c9dc5;
  for (const b of new TextEncoder().encode(vault)) h = Math.imul(h ^ b, 0x01000193) >>> 0;
  return 20_000 + (h % 20_000);
}

/** The configuration of a vault's own server: this machine alone, and pages of the app alone. */
export const serverConfig = (port: number, origin: string): string => `serve:\n  listen: "127.0.0.1:${String(port)}"\n  origins: [${JSON.stringify(origin)}]\n`;
