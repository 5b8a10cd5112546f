import { type Frame, type Outcome, type Run } from "@silk-sandbox/client";
import { expect, test } from "vitest";
import { fold, LiveRun, newState } from "./run.js";

const id = "01M8NAA24ZVQHB7DVXTDB13AB4";
const run: Run = { run: id, state: "queued", profile: "lab:text", accepted_at_ms: 1, client: "api" };
const outcome: Outcome = {
  outcome: "ok", run: id, exit_code: 0, artifacts: [], flags: {}, wall_ms: 5,
  stdout: { bytes: 3, truncated: false }, stderr: { bytes: 0, truncated: false },
  usage: {},
} as unknown as Outcome;
const bytes = (s: string): Uint8Array => new TextEncoder().encode(s);

test("a run from its acceptance to its end", () => {
  const frames: Frame[] = [
    { type: "hello", run: id, state: "queued", profile: "lab:text", tail_from: { stdout: 0, stderr: 0 } },
    { type: "queued", run: id, position: 3 },
    { type: "progress", run: id, step: "image", detail: "lab:text" },
    { type: "started", run: id, driver: "gvisor", at_ms: 100 },
    { type: "egress", run: id, host: "a.example", port: 443, allowed: false },
    { type: "violation", run: id, rule: "file.forbidden", syscall: "openat", detail: "/etc/shadow" },
    { type: "exit", run: id, outcome: { ...outcome, outcome: "violated" } },
  ];
  const phases: string[] = [];
  let s = newState(run);
  for (const f of frames) {
    s = fold(s, f);
    phases.push(s.phase);
  }
  expect(phases).toEqual(["queued", "queued", "queued", "running", "running", "running", "ended"]);
  expect(s.startedAtMs).toBe(100);
  expect(s.violations).toEqual([{ rule: "file.forbidden", syscall: "openat", detail: "/etc/shadow" }]);
  expect(s.egress).toEqual([{ host: "a.example", port: 443, allowed: false }]);
  expect(s.outcome?.outcome).toBe("violated");
});

test("a run that waits for the owner goes on when it is granted", () => {
  let s = fold(newState(run), { type: "approval", run: id, state: "pending" });
  expect(s.phase).toBe("pending");
  s = fold(s, { type: "approval", run: id, state: "granted" });
  expect(s.phase).toBe("queued");
});

test("output goes to its own channel, characters whole, and gaps are said", () => {
  const live = new LiveRun(run);
  let changes = 0;
  const stop = live.onChange(() => changes++);
  const euro = bytes("€");
  live.push({ type: "output", run: id, channel: "stdout", offset: 0, bytes: euro.subarray(0, 1) });
  live.push({ type: "output", run: id, channel: "stderr", offset: 0, bytes: bytes("oops\n") });
  live.push({ type: "output", run: id, channel: "stdout", offset: 1, bytes: euro.subarray(1) });
  live.push({ type: "gap", run: id, channel: "stdout", from: 3, to: 10 });
  expect(live.stdout.text()).toBe("€\n[7 bytes were too fast to be shown; the record may have them]");
  expect(live.stderr.text()).toBe("oops");
  expect(live.cursor).toEqual({ stdout: 10, stderr: 5 });
  expect(changes).toBe(4);
  stop();
  live.push({ type: "exit", run: id, outcome });
  expect(changes).toBe(4);
  expect(live.state.phase).toBe("ended");
});

test("a lost stream is no end of the run, and is taken up where it was", () => {
  const live = new LiveRun(run);
  live.push({ type: "started", run: id, at_ms: 1 });
  live.push({ type: "output", run: id, channel: "stdout", offset: 0, bytes: bytes("abc") });
  live.connection({ state: "waiting", failures: 1, delayMs: 200, cause: undefined });
  expect(live.state.reconnecting).toBe(true);
  live.connection({ state: "open" });
  live.lose("the network is away");
  expect([live.state.phase, live.state.outcome, live.state.problem]).toEqual(["lost", undefined, "the network is away"]);
  live.resume();
  expect([live.state.phase, live.cursor.stdout]).toEqual(["running", 3]);
});
