// Builds the plugin and the page that stands in for the app, starts a silk server of its own, runs the tests in Chromium, and ends all.
//
//   node test/real.mjs [ARGUMENTS OF VITEST...]
//
// SILK_BIN is the executable (../bin/silk), SILK_TEST_HOME the state directory whose images are used (../.silk): they are only read.
// SILK_TEST_CHROMIUM is the browser (/usr/bin/chromium). SILK_TEST_SCREENSHOTS is a folder for pictures.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";

const here = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const common = { bundle: true, target: "es2022", logLevel: "warning" };

execFileSync(process.execPath, ["tools/build.mjs"], { cwd: here, stdio: "inherit" });
await build({ ...common, entryPoints: [join(here, "test/host/page.ts")], outfile: join(here, "test/build/page.js"), format: "iife" });
await build({ ...common, entryPoints: [join(here, "../sdk/typescript/test/server.ts")], outfile: join(here, "test/build/server.mjs"), format: "esm", platform: "node" });
const { testWithServer } = await import("./build/server.mjs");
await testWithServer({
  repository: resolve(here, ".."),
  command: join(here, "node_modules/.bin/vitest"),
  args: ["run", "--config", join(here, "test/vitest.config.ts"), ...process.argv.slice(2)],
  cwd: here,
});
