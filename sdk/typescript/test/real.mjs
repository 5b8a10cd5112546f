// Starts a silk server of its own, makes tokens, runs all tests against it, and ends it. The tests are compiled before: npm run pretest.
//
//   node test/real.mjs [TEST FILE...]
//
// SILK_BIN is the executable (../../bin/silk), SILK_TEST_HOME the state directory whose images are used (../../.silk): they are
// only read. SILK_TEST_NODE is the node that runs the tests.
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { testWithServer } from "../build/test/server.js";

const here = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "..");
const all = () => readdirSync(join(here, "build/test")).filter((name) => name.endsWith(".test.js")).map((name) => `build/test/${name}`);

await testWithServer({
  repository: resolve(here, "../.."),
  command: process.env.SILK_TEST_NODE ?? process.execPath,
  args: ["--test", ...(process.argv.length > 2 ? process.argv.slice(2) : all())],
  cwd: here,
});
