import { strict as assert } from "node:assert";
import { test } from "node:test";
import { backoffDelay } from "../src/backoff.js";
import { Collector } from "../src/collect.js";
import { decodeFrame, type Frame } from "../src/frame.js";
import { SkippedError, Tracker } from "../src/track.js";
import { exit, gap, hello, outcome, output, runID, started } from "./fake.js";

/** Numbers that are the same in each run of the tests: Park and Miller, 1988. */
function numbers(seed: number): (below: number) => number {
  let x = seed;
  return (below) => {
    x = (x * 48271) % 2147483647;
    return x % below;
  };
}

test("however connections break and repeat, each byte comes once and in order", () => {
  const text = "ä€😀 abcdefgh\n".repeat(30);
  const whole = Buffer.from(text);
  for (let seed = 1; seed <= 500; seed++) {
    const random = numbers(seed);
    const tracker = new Tracker({ stdout: 0, stderr: 0 });
    const got: number[] = [];
    let hellos = 0;
    let starts = 0;
    const take = (message: string): void => {
      const frame = tracker.accept(decodeFrame(message) as Frame, message);
      if (frame?.type === "output") {
        assert.equal(frame.offset, got.length);
        got.push(...frame.bytes);
      }
      if (frame?.type === "hello") hellos++;
      if (frame?.type === "started") starts++;
    };
    while (got.length < whole.length) {
      tracker.reconnected();
      // A server may begin earlier than asked, and repeat what it has sent.
      let at = Math.max(0, got.length - random(20));
      take(hello(at));
      take(started);
      for (let pieces = random(6); pieces > 0 && at < whole.length; pieces--) {
        const to = Math.min(whole.length, at + random(25));
        take(output(at, whole.subarray(at, to)));
        at = random(4) === 0 ? Math.max(0, to - random(30)) : to;
      }
    }
    assert.deepEqual([hellos, starts], [1, 1], `seed ${seed}`);
    assert.equal(Buffer.from(got).toString(), text, `seed ${seed}`);
    assert.equal(tracker.accept(decodeFrame(exit(whole.length)) as Frame, "")?.type, "exit");
  }
});

test("what the server repeats of a run's state is not news, and what is new is", () => {
  const tracker = new Tracker(undefined);
  const take = (message: string): string | undefined => tracker.accept(decodeFrame(message) as Frame, message)?.type;
  const pending = JSON.stringify({ type: "approval", run: runID, state: "pending" });
  const granted = JSON.stringify({ type: "approval", run: runID, state: "granted" });
  const dialled = JSON.stringify({ type: "egress", run: runID, host: "h", allowed: true });
  assert.deepEqual([hello(), pending, granted, started, dialled, dialled].map(take), ["hello", "approval", "approval", "started", "egress", "egress"]);
  tracker.reconnected();
  assert.deepEqual([hello(), granted, started, dialled, output(0, "x"), dialled].map(take), [undefined, undefined, undefined, undefined, "output", "egress"]);
  tracker.reconnected();
  assert.deepEqual([hello(1), granted, started, JSON.stringify({ type: "display", run: runID, mime: "a/b", path: "p" }), started].map(take), [undefined, undefined, undefined, "display", "started"]);
});

test("a frame that is the same as one before is news once the server has repeated that", () => {
  const tracker = new Tracker(undefined);
  const take = (message: string): string | undefined => tracker.accept(decodeFrame(message) as Frame, message)?.type;
  assert.deepEqual([hello(), started].map(take), ["hello", "started"]);
  tracker.reconnected();
  assert.deepEqual([hello(), started, started].map(take), [undefined, undefined, "started"]);
});

test("what would skip bytes is refused", () => {
  const take = (tracker: Tracker, message: string): Frame | undefined => tracker.accept(decodeFrame(message) as Frame, message);
  assert.throws(() => take(new Tracker(undefined), output(0, "x")), SkippedError);
  assert.throws(() => take(new Tracker({ stdout: 3, stderr: 0 }), hello(4)), SkippedError);
  assert.throws(() => take(new Tracker({ stdout: 3, stderr: 0 }), output(4, "x")), SkippedError);
  assert.throws(() => take(new Tracker({ stdout: 3, stderr: 0 }), gap(4, 5)), SkippedError);
});

test("delays grow up to their bound, half of each at random", () => {
  const b = { minMs: 100, maxMs: 1000, attempts: 5 };
  assert.deepEqual([1, 2, 3, 4, 5, 1000].map((n) => backoffDelay(b, n, 0)), [50, 100, 200, 400, 500, 500]);
  assert.deepEqual([1, 2, 3, 4, 5, 1000].map((n) => backoffDelay(b, n, 1)), [100, 200, 400, 800, 1000, 1000]);
});

test("a collection keeps the first bytes of each channel, and says what is missing", () => {
  const c = new Collector(4);
  for (const m of [output(0, "abc"), output(3, "def"), output(6, "g"), output(0, "1234", "stderr"), gap(7, 9)]) c.push(decodeFrame(m) as Frame);
  const r = c.result(outcome(9, 4));
  assert.deepEqual([r.stdout, r.stderr, r.truncated, r.gaps.length, r.run], ["abcd", "1234", { stdout: true, stderr: false }, 1, runID]);
});
