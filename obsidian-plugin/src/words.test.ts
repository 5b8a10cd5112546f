import type { Outcome } from "@silk-sandbox/client";
import { expect, test } from "vitest";
import { newState } from "./run.js";
import { alarming, clock, duration, ended, facts, hosts, reached, refused, sentence, size } from "./words.js";

const o = (fields: Partial<Outcome>): Outcome => ({ wall_ms: 41, exit_code: null, ...fields }) as Outcome;

test.each([
  ["ok", { outcome: "ok", exit_code: 0 }, "Ok · 41 ms"],
  ["an exit code", { outcome: "failed", exit_code: 3 }, "Failed · exit 3 · 41 ms"],
  ["a signal", { outcome: "failed", signal: 11 }, "Failed · signal 11 · 41 ms"],
  ["time", { outcome: "timeout" }, "Out of time · 41 ms"],
  ["memory", { outcome: "oom" }, "Out of memory · 41 ms"],
  ["a violation", { outcome: "violated", rule: "file.forbidden", syscall: "openat", argument: "/etc/shadow" }, "Violated · file.forbidden openat /etc/shadow"],
  ["a denial", { outcome: "denied", message: "no network" }, "Denied · no network"],
  ["a cancel", { outcome: "canceled" }, "Canceled · 41 ms"],
  ["an error", { outcome: "error", reason: "host" }, "Error of the sandbox · host"],
] as const)("%s", (_, fields, want) => {
  expect(ended(o(fields))).toBe(want);
});

test("how a run stands, and for how long, apart from each other", () => {
  const run = newState({ run: "R", state: "queued", profile: "p", accepted_at_ms: 1, client: "api", position: 2 });
  const running = { ...run, phase: "running", startedAtMs: 1000 } as const;
  expect([run, { ...run, step: "image lab:text" }, running, { ...running, reconnecting: true }].map((s) => [sentence(s), clock(s, 3500)])).toEqual([
    ["Waits, place 2", ""],
    ["Starts: image lab:text", ""],
    ["Runs", "for 2.5 s"],
    ["The connection is broken. Trying again…", ""],
  ]);
});

test("ok and canceled are silent, every other end is not", () => {
  const loud = (["ok", "failed", "timeout", "oom", "violated", "denied", "canceled", "error"] as const).filter((outcome) => alarming(o({ outcome })));
  expect(loud).toEqual(["failed", "timeout", "oom", "violated", "denied", "error"]);
});

test("what was reached and refused: from frames while it runs, from the outcome at the end", () => {
  const run = newState({ run: "R", state: "running", profile: "p", accepted_at_ms: 1, client: "api" });
  const frames = [{ host: "a.example", port: 443, allowed: false }, { host: "a.example", port: 443, allowed: false }, { host: "b.example", port: 443, allowed: true }, { host: "n.example", port: 0, allowed: false }];
  const live = { ...run, egress: frames };
  expect([refused(live), reached(live)]).toEqual([["Refused: a.example:443", "Refused: n.example"], []]);
  const none = { sent: 0, taken: 0, lasted_ms: 0 };
  const egress: NonNullable<Outcome["egress"]> = [
    { kind: "dns", host: "n.example", allowed: false, rule: "name", reason: "no rule has the name", count: 2, ...none },
    { kind: "tcp", host: "2001:db8::1", port: 80, allowed: false, count: 1, ...none },
    { kind: "tcp", host: "b.example", port: 443, allowed: true, count: 1, sent: 10, taken: 1536, lasted_ms: 3 },
  ];
  const end = { ...live, outcome: o({ outcome: "ok", egress, egress_more: 7 }) };
  expect(refused(end)).toEqual(["Refused: n.example, 2 times: no rule has the name", "Refused: [2001:db8::1]:80", "and other destinations, 7 times"]);
  expect(reached(end)).toEqual(["Reached: b.example:443 · 10 B sent, 1.5 KiB received"]);
});

test("numbers for people", () => {
  expect([duration(999), duration(1500), duration(61_000), duration(120_400), duration(7_200_000), duration(7_265_000)]).toEqual(["999 ms", "1.5 s", "1 min 1 s", "2 min", "2 h", "2 h 1 min"]);
  expect([size(10), size(1536), size(2 ** 30)]).toEqual(["10 B", "1.5 KiB", "1 GiB"]);
});

test("a plan in words; what is strange in it is left out", () => {
  const plan = { profile: "lab:python", image: "lab:python", network: "allowlist", hosts: ["a.example:443", 7], limits: { timeout_ms: 120_000, memory_bytes: 2 ** 29 }, mounts: [{ source: "/data" }] };
  expect(facts(plan).map((f) => `${f.name}: ${f.value}`)).toEqual(["Profile: lab:python", "Image: lab:python", "Network: the hosts below only", "Host: a.example:443", "Time: 2 min", "Memory: 512 MiB", "Reads of yours: /data"]);
  expect(hosts(plan)).toEqual(["a.example:443"]);
  for (const odd of [undefined, null, 7, "x", [], { limits: 3, hosts: {} }]) expect(facts(odd)).toEqual([]);
});
