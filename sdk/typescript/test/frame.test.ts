import { strict as assert } from "node:assert";
import { test } from "node:test";
import { decodeFrame, OutputText, SilkDecodeError, type OutputFrame } from "../src/index.js";
import { decodeBase64, encodeBase64 } from "../src/frame.js";
import { outcome, runID } from "./fake.js";

const decode = (value: unknown): unknown => decodeFrame(JSON.stringify(value));

test("frames of each type are decoded", () => {
  const frames: Record<string, unknown>[] = [
    { type: "hello", run: runID, state: "ended", profile: "p", driver: "d", tail_from: { stdout: 1, stderr: 2 } },
    { type: "queued", run: runID, position: 2, eta_ms: 3 },
    { type: "started", run: runID, driver: "d", at_ms: 1 },
    { type: "progress", run: runID, step: "boot", detail: "x" },
    { type: "violation", run: runID, rule: "r", syscall: "ptrace", detail: "d" },
    { type: "egress", run: runID, host: "h", port: 1, allowed: false },
    { type: "approval", run: runID, state: "pending", detail: "d" },
    { type: "display", run: runID, mime: "image/png", path: "a.png" },
    { type: "gap", run: runID, channel: "stderr", from: 1, to: 2 },
    { type: "exit", run: runID, outcome: outcome(1, 2) },
  ];
  for (const f of frames) {
    assert.deepEqual(decode(f), f);
    assert.deepEqual(decode({ ...f, weather: "fine" }), f, "what is not known is dropped");
  }
  assert.deepEqual(decode({ type: "ping" }), { type: "ping" });
  assert.deepEqual(decode({ type: "toString" }), { type: "unknown", kind: "toString" });
});

test("output is bytes, whichever way it came", () => {
  const frame = { type: "output", run: runID, seq: 1, at_ms: 2, channel: "stdout", offset: 7 };
  const bytes = (extra: object): number[] => [...(decode({ ...frame, ...extra }) as OutputFrame).bytes];
  assert.deepEqual(bytes({ data: "aü€😀\u0000" }), [...Buffer.from("aü€😀\u0000")]);
  assert.deepEqual(bytes({ b64: "/w==" }), [0xff]);
  assert.deepEqual(bytes({}), []);
});

test("what has not the shape of its type is an error with its place", () => {
  const output = { type: "output", run: runID, channel: "stdout", offset: 0, data: "x" };
  const bad: [string, unknown][] = [
    ["", null],
    ["", []],
    ["", "ping"],
    ["type", {}],
    ["type", { type: 1 }],
    ["run", { ...output, run: undefined }],
    ["channel", { ...output, channel: "stdin" }],
    ["offset", { ...output, offset: -1 }],
    ["offset", { ...output, offset: 0.5 }],
    ["offset", { ...output, offset: 2 ** 53 }],
    ["offset", { ...output, offset: "0" }],
    ["data", { ...output, data: 5 }],
    ["data", { ...output, b64: "eA==" }],
    ["data", { ...output, data: "\ud800" }],
    ["b64", { ...output, data: undefined, b64: "eA=" }],
    ["b64", { ...output, data: undefined, b64: "e-_=" }],
    ["tail_from", { type: "hello", run: runID }],
    ["tail_from.stderr", { type: "hello", run: runID, tail_from: { stdout: 0 } }],
    ["state", { type: "hello", run: runID, state: "gone", tail_from: { stdout: 0, stderr: 0 } }],
    ["to", { type: "gap", run: runID, channel: "stdout", from: 2, to: 2 }],
    ["allowed", { type: "egress", run: runID, host: "h" }],
    ["outcome", { type: "exit", run: runID }],
    ["outcome.flags.x", { type: "exit", run: runID, outcome: { ...outcome(0), flags: { x: "1" } } }],
  ];
  for (const [at, value] of bad) assert.throws(() => decode(value), (err) => err instanceof SilkDecodeError && err.at === at, JSON.stringify(value));
  for (const torn of ["", "{", '{"type":"output"', "undefined"]) assert.throws(() => decodeFrame(torn), SilkDecodeError);
});

test("a field of an object's prototype is none of the value", () => {
  const f = decode(JSON.parse(`{"type":"exit","run":"${runID}","outcome":${JSON.stringify({ ...outcome(0), flags: { "__proto__": 1 } })}}`)) as { outcome: { flags: object } };
  assert.equal(Object.getPrototypeOf(f.outcome.flags), Object.prototype);
});

test("base64 of any bytes goes there and back", () => {
  for (const n of [0, 1, 2, 3, 255, 100_000]) {
    const bytes = Uint8Array.from({ length: n }, (_, i) => (i * 7) & 255);
    assert.deepEqual(decodeBase64(encodeBase64(bytes), ""), bytes);
    assert.equal(encodeBase64(bytes), Buffer.from(bytes).toString("base64"));
  }
});

test("text is the same however its bytes are cut", () => {
  const whole = Buffer.concat([Buffer.from("\ufeffa\u{10ffff}ü€"), Buffer.from([0xff, 0xc3]), Buffer.from("z")]);
  const want = new TextDecoder("utf-8", { ignoreBOM: true }).decode(whole);
  const piece = (channel: "stdout" | "stderr", offset: number, bytes: Uint8Array): OutputFrame => ({ type: "output", run: runID, channel, offset, bytes });
  for (let a = 0; a <= whole.length; a++) {
    for (let b = a; b <= whole.length; b++) {
      const text = new OutputText();
      let got = "";
      for (const [from, to] of [[0, a], [a, b], [b, whole.length]] as const) {
        got += text.push(piece("stdout", from, whole.subarray(from, to)));
        text.push(piece("stderr", 0, whole.subarray(0, 5))); // ends in the midst of a character
      }
      assert.equal(got + text.end("stdout"), want);
    }
  }
});

test("a character that a gap cuts is U+FFFD, and what follows is read from its begin", () => {
  const text = new OutputText();
  const got = [
    text.push({ type: "output", run: runID, channel: "stdout", offset: 0, bytes: new Uint8Array([0x61, 0xc3]) }),
    text.push({ type: "gap", run: runID, channel: "stdout", from: 2, to: 9 }),
    text.push({ type: "output", run: runID, channel: "stdout", offset: 9, bytes: new Uint8Array([0x62]) }),
  ];
  assert.deepEqual(got, ["a", "\ufffd", "b"]);
});
