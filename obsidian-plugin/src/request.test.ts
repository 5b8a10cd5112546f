import { describe, expect, test } from "vitest";
import { AttributeError, blockAt, bytes, milliseconds, requestOf, words, type Block } from "./request.js";

const none = { profiles: {}, timeoutSeconds: 0 };
const block = (attributes: Record<string, string>): Block => ({ line: 0, end_line: 2, language: "python", profile: "lab:python", attributes, runnable: true, reason: "", code: "x\n", code_hash: "h" });

describe("requestOf", () => {
  test("a block without attributes", () => {
    expect(requestOf(block({}), none)).toEqual({ code: "x\n", language: "python", profile: "lab:python" });
  });
  test("all attributes", () => {
    const all = { profile: "lab:repo", args: `--top 10 'a b'`, timeout: "1m30s", memory: "256MiB", disk: "1GiB", cpus: "0.5", processes: "8", net: "loopback", driver: "gvisor", isolation: "microvm", "no-spawn": "", deterministic: "", auto: "" };
    expect(requestOf(block(all), none)).toEqual({
      code: "x\n",
      language: "python",
      profile: "lab:repo",
      args: ["--top", "10", "a b"],
      network: "loopback",
      driver: "gvisor",
      isolation: "microvm",
      no_spawn: true,
      deterministic: true,
      limits: { timeout_ms: 90_000, memory_bytes: 256 << 20, workspace_bytes: 2 ** 30, cpus: 0.5, processes: 8 },
    });
  });
  test("hosts are an allow-list", () => {
    expect(requestOf(block({ net: "a.example:443, tls:b.example:443" }), none)).toMatchObject({ network: "allowlist", hosts: ["a.example:443", "tls:b.example:443"] });
  });
  test("settings fill what a block leaves out, and nothing else", () => {
    const settings = { profiles: { python: "lab:repo" }, timeoutSeconds: 20 };
    expect(requestOf(block({}), settings)).toMatchObject({ profile: "lab:repo", limits: { timeout_ms: 20_000 } });
    expect(requestOf(block({ profile: "lab:python", timeout: "5s" }), settings)).toMatchObject({ profile: "lab:python", limits: { timeout_ms: 5000 } });
  });
  test.each([[{ nte: "deny" }], [{ net: "deyn" }], [{ net: "a.example" }], [{ timeout: "30" }], [{ timeout: "0s" }], [{ memory: "big" }], [{ cpus: "0" }], [{ cpus: "x" }], [{ isolation: "none" }], [{ args: "'a" }]])("%j is not run by a guess", (attributes) => {
    expect(() => requestOf(block(attributes as Record<string, string>), none)).toThrow(AttributeError);
  });
});

test("durations, sizes and words", () => {
  expect([milliseconds("500ms"), milliseconds("1.5h"), milliseconds("2m")]).toEqual([500, 5_400_000, 120_000]);
  expect([bytes("1024"), bytes("1.5GiB"), bytes("64 MB")]).toEqual([1024, 1.5 * 2 ** 30, 64_000_000]);
  expect(words(` a "b c" d'e f'g `)).toEqual(["a", "b c", "de fg"]);
});

describe("blockAt", () => {
  const at = (line: number, code: string): Block => ({ ...block({}), line, code });
  test("at its line, if it still has that code", () => {
    expect(blockAt([at(1, "a\n"), at(9, "a\n")], { line: 9, code: "a" })?.line).toBe(9);
  });
  test("somewhere else, if only one has that code", () => {
    expect(blockAt([at(1, "a\n"), at(9, "b\n")], { line: 5, code: "b\n\n" })?.line).toBe(9);
  });
  test("another code at its line is not it", () => {
    expect(blockAt([at(1, "a\n")], { line: 1, code: "b\n" })).toBeUndefined();
  });
  test("two that are equal are told apart by their order, or not at all", () => {
    expect(blockAt([at(1, "a\n"), at(9, "a\n")], { code: "a" })).toBeUndefined();
    expect(blockAt([at(1, "a\n"), at(9, "a\n")], { code: "a", ordinal: 1 })?.line).toBe(9);
    expect(blockAt([at(1, "a\n"), at(9, "a\n")], { code: "a", ordinal: 2 })).toBeUndefined();
  });
});
