import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { localServer, type LocalServer } from "../src/obsidian/local.js";
import { portOf } from "../src/settings.js";
import { Platform } from "./host/obsidian.js";

// The vault's own server, started as on a desktop with Linux, with the real silk.
const silk = process.env["SILK_TEST_BIN"] ?? "silk";
const origin = "app://obsidian.md";
let home = "";
let started: LocalServer[] = [];
const vault = `/vault/${String(process.pid)}`;
const ready = async (url: string): Promise<boolean> => {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch {
    return false;
  }
};
const status = async (url: string, token: string): Promise<number> => (await fetch(`${url}/v1/profiles`, { headers: { Authorization: `Bearer ${token}`, Origin: origin } })).status;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "silk-vault-"));
  await symlink(process.env["SILK_TEST_IMAGES"] ?? "", join(home, "images"));
  process.env["SILK_HOME"] = home;
  Object.assign(globalThis, { window: globalThis });
  Object.assign(Platform, { isDesktopApp: true, isDesktop: true, isLinux: true });
});
afterEach(async () => {
  for (const s of started) s.end();
  for (let i = 0; i < 100 && (await ready(`http://127.0.0.1:${String(portOf(vault))}`)); i++) await new Promise((done) => setTimeout(done, 100));
  started = [];
  await rm(home, { recursive: true, force: true, maxRetries: 10 });
});

test("it is started once, found again, and ended", async () => {
  const first = await localServer(silk, vault, origin, undefined, ready);
  started.push(first.server);
  expect(first.server.url).toBe(`http://127.0.0.1:${String(portOf(vault))}`);
  expect(await status(first.server.url, first.tokens.runner)).toBe(200);
  expect(await status(first.server.url, "silk_wrong")).toBe(401);
  const second = await localServer("no such program", vault, origin, first.tokens, ready);
  expect(second.tokens).toEqual(first.tokens);
  second.server.end(); // it was found, not started: it is not this one's to end
  expect(await ready(first.server.url)).toBe(true);
});

test("what does not start says why", async () => {
  await expect(localServer("/no/such/silk", vault, origin, undefined, ready)).rejects.toThrow(/silk did not start: .*ENOENT/);
});

test("where there is no Linux, none is started", async () => {
  Platform.isLinux = false;
  await expect(localServer(silk, vault, origin, undefined, ready)).rejects.toThrow(/needs Linux/);
});
