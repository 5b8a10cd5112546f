// Builds the plugin and the page that stands in for the app, starts a silk server of its own, runs the tests in Chromium, and ends all.
//
//   node test/real.mjs [ARGUMENTS OF VITEST...]
//
// SILK_BIN is the executable (../bin/silk), SILK_TEST_HOME the state directory whose images are used (../.silk): they are only read.
// SILK_TEST_CHROMIUM is the browser (/usr/bin/chromium). SILK_TEST_SCREENSHOTS is a folder for pictures.
import { build } from "esbuild";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const here = import.meta.dirname ?? new URL(".", import.meta.url).pathname;
const root = resolve(here, "../..");
const silk = process.env.SILK_BIN ?? join(root, "bin/silk");
const images = join(process.env.SILK_TEST_HOME ?? join(root, ".silk"), "images");

async function freePort() {
  const s = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => s.once("listening", done));
  const { port } = s.address();
  await new Promise((done) => s.close(done));
  return port;
}

execFileSync(process.execPath, [join(here, "../tools/build.mjs")], { cwd: join(here, ".."), stdio: "inherit" });
await build({ entryPoints: [join(here, "host/page.ts")], outfile: join(here, "build/page.js"), bundle: true, format: "iife", target: "es2022", logLevel: "warning" });

const home = mkdtempSync(join(tmpdir(), "silk-plugin-"));
const [port, originPort] = [await freePort(), await freePort()];
const url = `http://127.0.0.1:${port}`;
symlinkSync(images, join(home, "images"));
writeFileSync(join(home, "c.yaml"), `serve:\n  listen: "127.0.0.1:${port}"\n  origins: ["http://127.0.0.1:${originPort}"]\n`);
const env = { ...process.env, SILK_HOME: home };
const log = join(home, "serve.log");
const server = spawn(silk, ["--config", join(home, "c.yaml"), "serve"], { env, stdio: ["ignore", openSync(log, "w"), openSync(log, "a")] });
const ended = new Promise((done) => server.once("exit", done));
server.once("error", (err) => process.stderr.write(`start ${silk}: ${err.message}\n`));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => server.kill("SIGTERM")); // the tests end for want of it

let status = 1;
try {
  await ready();
  const token = (name, role) => execFileSync(silk, ["--config", join(home, "c.yaml"), "token", "new", name, "--role", role], { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  const tests = spawn(join(here, "../node_modules/.bin/vitest"), ["run", "--config", join(here, "vitest.config.ts"), ...process.argv.slice(2)], {
    cwd: join(here, ".."),
    stdio: "inherit",
    env: { ...process.env, SILK_TEST_SERVER_URL: url, SILK_TEST_SERVER_TOKEN: token("plugin", "runner"), SILK_TEST_OWNER_TOKEN: token("boss", "owner"), SILK_TEST_ORIGIN_PORT: String(originPort), SILK_TEST_BIN: silk, SILK_TEST_IMAGES: images },
  });
  status = await new Promise((done) => tests.once("exit", (code) => done(code ?? 1)));
} finally {
  server.kill("SIGTERM");
  await Promise.race([ended, new Promise((done) => setTimeout(done, 20_000).unref())]);
  if (server.exitCode === null) server.kill("SIGKILL");
  if (status !== 0) process.stderr.write(`the server's log:\n${readFileSync(log, "utf8").slice(-4000)}\n`);
  rmSync(home, { recursive: true, force: true });
}
process.exitCode = status;

async function ready() {
  for (let i = 0; i < 300; i++) {
    if (server.exitCode !== null) throw new Error(`the server ended: ${readFileSync(log, "utf8")}`);
    try {
      if ((await fetch(`${url}/readyz`)).ok) return;
    } catch {
      // it does not listen yet
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`the server is not ready after 30 s: ${readFileSync(log, "utf8")}`);
}
