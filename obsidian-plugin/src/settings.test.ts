import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { decodeStored, defaults, hasButton, known, maxAlerts, portOf, serverConfig } from "./settings.js";

test("nothing stored, and rubbish stored, are the defaults", () => {
  for (const v of [null, undefined, 7, "x", [], {}, { settings: [], pending: {}, alerts: "x" }, { settings: { confirm: "no", timeoutSeconds: -1, profiles: { a: 1 }, languages: [1], colours: { ok: "red;}", failed: 7 } } }]) {
    expect(decodeStored(v)).toEqual({ settings: defaults, pending: [], alerts: [] });
  }
});
test("what was stored comes back", () => {
  const settings = { ...defaults, server: "https://lab.example:7455", confirm: "always" as const, timeoutSeconds: 30, profiles: { python: "lab:repo" }, saveToNote: false, chat: false, colours: { ...defaults.colours, ok: "#0000ff" } };
  const pending = [{ run: "R", path: "a.md", line: 3, codeHash: "h", language: "sh", code: "x", ordinal: 1 }];
  const alerts = [{ atMs: 1, run: "R", outcome: "violated", text: "t", note: "a.md" }];
  expect(decodeStored(JSON.parse(JSON.stringify({ settings, pending, alerts })))).toEqual({ settings, pending, alerts });
});
test("the log of alerts is bounded", () => {
  expect(decodeStored({ alerts: Array.from({ length: 2000 }, (_, i) => ({ atMs: i, text: "t" })) }).alerts.length).toBe(maxAlerts);
});
test("a vault's port is its own, and always the same", () => {
  expect(portOf("/home/a/notes")).toBe(portOf("/home/a/notes"));
  const ports = new Set(Array.from({ length: 50 }, (_, i) => portOf(`/home/a/vault ${String(i)}`)));
  expect(ports.size).toBeGreaterThan(45);
  for (const p of ports) expect(p).toSatisfy((x: number) => x >= 20_000 && x < 40_000);
});
test("the server listens here alone, for the app alone", () => {
  expect(serverConfig(23456, "app://obsidian.md")).toBe('serve:\n  listen: "127.0.0.1:23456"\n  origins: ["app://obsidian.md"]\n');
});
test("every language that silk runs has a button, and no other", () => {
  const source = readFileSync(new URL("../../profile/language.go", import.meta.url), "utf8");
  const fences = [...source.matchAll(/Fences: \[\]string\{([^}]*)\}/g)].flatMap((m) => (m[1] ?? "").split(",").map((w) => w.trim().replaceAll('"', "")));
  expect(fences.length).toBeGreaterThan(20);
  expect([...known].sort()).toEqual(fences.sort());
});
test("buttons", () => {
  const s = { ...defaults, languages: ["qasm"], profiles: { perl: "lab:perl" } };
  expect(["python", "qasm", "perl", "mermaid", "", "text", "toString"].filter((l) => hasButton(l, s))).toEqual(["python", "qasm", "perl"]);
});
