import type { NoteBlock } from "@silk-sandbox/client";
import { describe, expect, test } from "vitest";
import { blockAt, ordinalOf, requestOf, requestOfCode } from "./request.js";

const none = { profiles: {}, timeoutSeconds: 0 };
const block = (attributes: Record<string, string>, request: NoteBlock["request"] = { code: "x\n", language: "python", profile: "lab:python" }): NoteBlock => ({
  line: 0, end_line: 2, language: "python", profile: "lab:python", attributes, runnable: true, reason: "", code: "x\n", code_hash: "h", request,
});

describe("requests", () => {
  test("the server's reading of a block is what is asked for, whole", () => {
    const request = { code: "x\n", language: "python", profile: "lab:python", no_spawn: true, limits: { cpus: 0.5 }, later: "what this version does not know" };
    expect(requestOf(block({}, request), "a.md", none)).toEqual({ ...request, client: "note", note: "a.md", block: "h" });
  });
  test("settings fill what a block leaves out, and nothing else", () => {
    const settings = { profiles: { python: "lab:repo" }, timeoutSeconds: 20 };
    expect(requestOf(block({}), "a.md", settings)).toMatchObject({ profile: "lab:repo", limits: { timeout_ms: 20_000 } });
    expect(requestOf(block({}, { code: "x", language: "python", profile: "lab:python", limits: { memory_bytes: 7 } }), "a.md", settings)?.limits).toEqual({ memory_bytes: 7, timeout_ms: 20_000 });
    const own = { code: "x", language: "python", profile: "lab:python", limits: { timeout_ms: 5000 } };
    expect(requestOf(block({ profile: "lab:python", timeout: "5s" }, own), "a.md", settings)).toEqual({ ...own, client: "note", note: "a.md", block: "h" });
  });
  test("what is not runnable has none", () => {
    expect(requestOf({ ...block({}), runnable: false }, "a.md", none)).toBeUndefined();
  });
  test("code of a chat", () => {
    expect(requestOfCode("sh", "echo", { profiles: { sh: "lab:text" }, timeoutSeconds: 0 })).toEqual({ client: "note", language: "sh", code: "echo", profile: "lab:text" });
  });
});

describe("blockAt", () => {
  const at = (line: number, code: string): NoteBlock => ({ ...block({}), line, code });
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
    const two = [at(1, "a\n"), at(9, "a\n")];
    expect(blockAt(two, { code: "a" })).toBeUndefined();
    expect(blockAt(two, { code: "a", ordinal: 1 })?.line).toBe(9);
    expect(blockAt(two, { code: "a", ordinal: 2 })).toBeUndefined();
    expect(two.map((b) => ordinalOf(two, b))).toEqual([0, 1]);
  });
});
