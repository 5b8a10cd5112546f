import { strict as assert } from "node:assert";
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import ts from "typescript";
import { need, realServer, serverMissing } from "./need.js";

const root = new URL("../../", import.meta.url); // of the package: this file is in build/test

/** What each example of README.md prints. */
const printed: RegExp[] = [
  /^failed: the program exited with status \d+\nhello\n\s+ls: .*\n/,
  /^hello world\nok\n$/,
  /^(?:[0-9A-Z]{26} .*\n){3}$/,
  /^422 invalid\nbody\.limits\.timeout_ms .+\n$/,
];

const readme = await readFile(new URL("README.md", root), "utf8");
const examples = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((m) => m[1] ?? "");

/** As a user's project compiles. */
const options: ts.CompilerOptions = {
  strict: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.asynciterable.d.ts"],
  types: ["node"],
};

async function compileAll(): Promise<URL[]> {
  const dir = new URL("build/readme/", root);
  await mkdir(dir, { recursive: true });
  const files = await Promise.all(
    examples.map(async (code, i) => {
      const file = fileURLToPath(new URL(`example${i + 1}.ts`, dir));
      await writeFile(file, code);
      return file;
    }),
  );
  const program = ts.createProgram(files, options);
  const faults = ts.getPreEmitDiagnostics(program).map((d) => `${d.file?.fileName ?? ""}: ${ts.flattenDiagnosticMessageText(d.messageText, "\n")}`);
  assert.deepEqual(faults, []);
  program.emit();
  return files.map((f) => new URL(`file://${f.replace(/\.ts$/, ".js")}`));
}

let compiled: Promise<URL[]> | undefined;
const compile = (): Promise<URL[]> => (compiled ??= compileAll());

test("each example of the README compiles, and its output is known", async () => {
  assert.equal(examples.length, printed.length);
  await compile();
});

describe("README", need("server", serverMissing), () => {
  printed.forEach((want, i) => {
    test(`example ${i + 1} prints what it says`, { timeout: 60_000 }, async () => {
      const file = (await compile())[i];
      assert.ok(file);
      const real = realServer();
      // Node 20 has the WebSocket of Node 22 behind a flag.
      const flags = globalThis.WebSocket as unknown ? [] : ["--experimental-websocket"];
      const { stdout } = await promisify(execFile)(process.execPath, [...flags, fileURLToPath(file)], {
        env: { ...process.env, SILK_URL: real?.url, SILK_TOKEN: real?.token, NODE_OPTIONS: "" },
      });
      assert.match(stdout, want);
    });
  });
});
