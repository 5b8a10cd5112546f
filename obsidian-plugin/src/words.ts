import type { Outcome } from "@silk-sandbox/client";
import type { RunState } from "./run.js";

/** What a person is told of how a run stands, in one line. */
export function sentence(state: RunState): string {
  if (state.reconnecting) return "The connection is broken. Trying again…";
  switch (state.phase) {
    case "pending":
      return "Waits for approval";
    case "queued":
      return state.step !== "" ? `Starts: ${state.step}` : state.position > 0 ? `Waits, place ${String(state.position)}` : "Starts";
    case "running":
      return "Runs";
    case "lost":
      return `The connection is lost: ${state.problem}. How the run ended is not known`;
    case "ended":
      return state.outcome === undefined ? "Ended" : ended(state.outcome);
  }
}

/** How long it has been running, to stand behind the sentence; "" if it does not run. It changes all the time, and nobody wants to hear it read out. */
export function clock(state: RunState, nowMs: number): string {
  return state.phase !== "running" || state.reconnecting || state.startedAtMs === undefined ? "" : `for ${duration(Math.max(0, nowMs - state.startedAtMs))}`;
}

/** How a run ended, in one line. */
export function ended(o: Outcome): string {
  const time = duration(o.wall_ms);
  switch (o.outcome) {
    case "ok":
      return `Ok · ${time}`;
    case "failed":
      return o.signal === undefined || o.signal === 0 ? `Failed · exit ${String(o.exit_code ?? 0)} · ${time}` : `Failed · signal ${String(o.signal)} · ${time}`;
    case "timeout":
      return `Out of time · ${time}`;
    case "oom":
      return `Out of memory · ${time}`;
    case "violated":
      return `Violated · ${[o.rule, o.syscall, o.argument].filter((s) => s !== undefined && s !== "").join(" ")}`;
    case "denied":
      return `Denied · ${o.message ?? o.rule ?? "by policy"}`;
    case "canceled":
      return `Canceled · ${time}`;
    case "error":
      return `Error of the sandbox · ${o.message ?? o.reason ?? "unknown"}`;
  }
}

/** What the program was kept from reaching, a line each: as it comes, and of a run that has ended from its outcome, which has reasons and numbers. */
export function refused(state: RunState): string[] {
  const { outcome } = state;
  if (outcome === undefined) return [...new Set(state.egress.filter((e) => !e.allowed).map((e) => `Refused: ${address(e.host, e.port)}`))];
  const lines = (outcome.egress ?? []).filter((d) => !d.allowed).map((d) => `Refused: ${address(d.host, d.port ?? 0)}${times(d.count)}${d.reason === undefined || d.reason === "" ? "" : `: ${d.reason}`}`);
  const more = outcome.egress_more ?? 0;
  return more === 0 ? lines : [...lines, `and other destinations${times(more)}`];
}

/** What it has reached, of a run that has ended; or would have, had it been there. */
export function reached(state: RunState): string[] {
  return (state.outcome?.egress ?? [])
    .filter((d) => d.allowed)
    .map((d) => `Reached: ${address(d.host, d.port ?? 0)}${times(d.count)} · ${size(d.sent)} sent, ${size(d.taken)} received${d.reason === undefined || d.reason === "" ? "" : ` · ${d.reason}`}`);
}

const address = (host: string, port: number): string => (port === 0 ? host : host.includes(":") ? `[${host}]:${String(port)}` : `${host}:${String(port)}`);

const times = (n: number): string => (n > 1 ? `, ${String(n)} times` : "");

/** Whether an end is one that people are told of beyond the block: every one but ok and canceled. */
export const alarming = (o: Outcome): boolean => o.outcome !== "ok" && o.outcome !== "canceled";

/** The title of the notice of such an end. */
export const alarm = (outcome: string): string => (outcome === "violated" ? "Widow Red: a violation ended a run" : "A run did not end well");

export function duration(ms: number): string {
  if (ms < 1000) return `${String(Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const [unit, part, of, each] = ms < 3_600_000 ? (["min", "s", 60_000, 1000] as const) : (["h", "min", 3_600_000, 60_000] as const);
  const rest = Math.floor((ms % of) / each);
  return `${String(Math.floor(ms / of))} ${unit}${rest === 0 ? "" : ` ${String(rest)} ${part}`}`;
}

export function size(bytes: number): string {
  for (const [unit, factor] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
    if (bytes >= factor) return `${String(Math.round((bytes / factor) * 10) / 10)} ${unit}`;
  }
  return `${String(bytes)} B`;
}

/** One line of a list of what would happen. */
export interface Fact {
  readonly name: string;
  readonly value: string;
}

const networks: Readonly<Record<string, string>> = {
  deny: "none",
  loopback: "inside the sandbox only",
  allow: "the whole internet, but no private addresses",
  allowlist: "the hosts below only",
  "local-fork": "a chain inside the sandbox only",
};

/** What a plan of the server comes to, for people. What it does not have, or has in another form, is not shown. */
export function facts(plan: unknown): Fact[] {
  const out: Fact[] = [];
  const add = (name: string, value: unknown, show: (v: string) => string = (v) => v): void => {
    if (typeof value === "string" && value !== "") out.push({ name, value: show(value) });
    else if (typeof value === "number" && value > 0) out.push({ name, value: show(String(value)) });
  };
  const p = record(plan);
  add("Profile", p["profile"]);
  add("Image", p["image"]);
  add("Network", p["network"], (v) => networks[v] ?? v);
  for (const host of hosts(plan)) add("Host", host);
  const limits = record(p["limits"]);
  add("Time", limits["timeout_ms"] ?? p["timeout_ms"], (v) => duration(Number(v)));
  add("Memory", limits["memory_bytes"], (v) => size(Number(v)));
  add("Processors", limits["cpus"]);
  add("Processes", limits["processes"]);
  add("Files that it may write", limits["workspace_bytes"], (v) => `${size(Number(v))}, gone after the run`);
  if (Array.isArray(p["mounts"])) for (const m of p["mounts"]) add("Reads of yours", record(m)["source"]);
  return out;
}

/** The hosts that a plan reaches. */
export function hosts(plan: unknown): string[] {
  const list = record(plan)["hosts"];
  return Array.isArray(list) ? list.filter((h) => typeof h === "string") : [];
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : {};
}
