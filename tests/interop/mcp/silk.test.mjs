// silk mcp by the TypeScript SDK, which shares no code with the Go SDK: the executable, real sandboxes, both transports, and a
// running silk serve.
import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const silk = process.env.SILK_TEST_SILK ?? path.join(root, "bin/silk");
const images = path.join(process.env.SILK_TEST_HOME ?? path.join(root, ".silk"), "images");
const dir = mkdtempSync(path.join(tmpdir(), "silk-mcp-"));
const config = path.join(dir, "config.yaml");
const home = path.join(dir, "home");
const env = { PATH: process.env.PATH, HOME: dir, SILK_HOME: home, SILK_CONFIG: config, ...(process.env.SILK_SENTRY && { SILK_SENTRY: process.env.SILK_SENTRY }) };
const closers = [];

before(() => writeFileSync(config, `system_store: ${images}\nserve:\n  listen: ""\n`));
after(async () => {
  for (const close of closers.reverse()) await close();
  rmSync(dir, { recursive: true, force: true });
});

/** A client of a new `silk mcp` with these arguments. */
async function connect(...args) {
  const client = new Client({ name: "interop", version: "1" });
  const transport = new StdioClientTransport({ command: silk, args: ["mcp", ...args], env, stderr: "inherit" });
  await client.connect(transport);
  const close = () => client.close();
  closers.push(close);
  return client;
}

/** Calls a tool, and checks the answer against the schema that the server gave, as callTool does. */
async function call(client, name, args, options = {}) {
  return client.callTool({ name, arguments: args }, undefined, { timeout: 120_000, ...options });
}

const text = (result) => result.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");
const silkJSON = (...args) => JSON.parse(execFileSync(silk, args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));

/** What every client must find. */
async function tour(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((t) => t.name).sort(), ["cancel_run", "get_record", "list_profiles", "plan", "read_output", "run_code", "run_files", "run_status"]);
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, "object", tool.name);
    assert.equal(tool.annotations.openWorldHint, false, tool.name);
  }
  const profiles = (await call(client, "list_profiles", {})).structuredContent.profiles;
  assert.ok(profiles.some((p) => p.name === "lab:python" && p.languages.includes("python")));

  const ok = await call(client, "run_code", { language: "sh", code: "echo out; echo err >&2; exit 3" });
  assert.equal(ok.isError ?? false, false);
  assert.equal(ok.structuredContent.outcome, "failed");
  assert.equal(ok.structuredContent.exit_code, 3);
  assert.equal(ok.structuredContent.stdout.text, "out\n");
  assert.equal(ok.structuredContent.stderr.text, "err\n");

  const denied = await call(client, "run_code", { language: "sh", code: "echo ran", memory_bytes: 1 << 30 });
  assert.equal(denied.isError, true);
  assert.equal(denied.structuredContent.outcome, "denied");
  assert.equal(denied.structuredContent.rule, "memory");
  assert.match(text(denied), /beyond profile lab:text/);
  assert.doesNotMatch(text(denied), /^ran/m);

  const plan = (await call(client, "plan", { language: "sh", code: "echo", timeout_ms: 1000 })).structuredContent;
  assert.equal(plan.plan.network, "deny");
  const record = (await call(client, "get_record", { run: ok.structuredContent.run })).structuredContent.record;
  assert.equal(record.client, "mcp");
  const resource = await client.readResource({ uri: `silk://runs/${ok.structuredContent.run}/record` });
  assert.equal(JSON.parse(resource.contents[0].text).run, record.run);
}

/** Starts a program that goes on, and resolves when a line of its stderr matches. */
function daemon(args, pattern) {
  const child = spawn(silk, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  closers.push(() => {
    child.kill("SIGTERM");
    return ended;
  });
  return new Promise((resolve, reject) => {
    let said = "";
    child.stderr.on("data", (data) => {
      said += data;
      const found = said.match(pattern);
      if (found) resolve(found);
    });
    child.on("exit", (status) => reject(new Error(`silk ${args.join(" ")} ended with ${status}: ${said}`)));
  });
}

test("tools, on this host", async () => tour(await connect()));

test("a figure is an image", async () => {
  const client = await connect();
  const code = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nprint('drawn')";
  const result = await call(client, "run_code", { language: "python", code });
  assert.equal(result.structuredContent.outcome, "ok", text(result));
  const picture = result.content.find((c) => c.type === "image");
  assert.equal(picture.mimeType, "image/png");
  assert.deepEqual([...Buffer.from(picture.data, "base64").subarray(0, 8)], [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const artifact = result.structuredContent.artifacts[0];
  const again = await call(client, "read_output", { run: result.structuredContent.run, artifact: artifact.path });
  assert.equal(again.content[0].data, picture.data);
  assert.equal((await client.readResource({ uri: artifact.uri })).contents[0].blob, picture.data);
});

test("what no sandbox allows", async () => {
  const result = await call(await connect(), "run_code", { language: "python", code: "print(open('/etc/passwd').read())" });
  assert.equal(result.structuredContent.outcome, "violated");
  assert.ok(result.structuredContent.rule);
});

test("files, a long output and its rest", async () => {
  const client = await connect();
  const result = await call(client, "run_files", {
    files: [{ path: "src/n.py", text: "def n(): return 100_000\n" }, { path: "main.py", text: "import sys; sys.path.insert(0, 'src')\nfrom n import n\nfor i in range(n()): print(i)\n" }],
    entry: "main.py",
    max_output_bytes: 2000,
  });
  const { stdout, run } = result.structuredContent;
  assert.match(stdout.text, /^0\n1\n2\n/);
  assert.match(stdout.text, /\n99999\n$/);
  const [, left, offset] = stdout.text.match(/\[\.\.\. (\d+) bytes are left out here; read_output with run \S+ channel stdout, offset (\d+)/);
  assert.equal(Number(left), stdout.omitted_bytes);
  const part = await call(client, "read_output", { run, channel: "stdout", offset: Number(offset), length: 10 });
  assert.match(text(part), new RegExp(`^bytes ${offset} to ${Number(offset) + 10} of ${stdout.bytes}; go on`));
});

test("progress, and the end of a canceled call", async () => {
  const client = await connect();
  const told = [];
  const abort = new AbortController();
  const code = "import time\nprint('step 1', flush=True)\ntime.sleep(100)";
  await assert.rejects(
    call(client, "run_code", { language: "python", code }, {
      signal: abort.signal,
      onprogress: (p) => {
        told.push(p);
        if (/stdout 7 bytes: step 1/.test(p.message)) abort.abort();
      },
    }),
  );
  assert.ok(told.length > 1 && told.every((p, i) => i === 0 || p.progress > told[i - 1].progress));
  const [newest] = JSON.parse((await client.readResource({ uri: "silk://runs" })).contents[0].text);
  const end = await call(client, "run_status", { run: newest.run, wait_ms: 20_000 });
  assert.equal(end.structuredContent.outcome, "canceled");
});

test("a run in the background, and cancel_run", async () => {
  const client = await connect();
  const begun = (await call(client, "run_code", { language: "sh", code: "echo so far; sleep 100", background: true })).structuredContent;
  assert.notEqual(begun.state, "ended");
  let now;
  do now = (await call(client, "run_status", { run: begun.run })).structuredContent;
  while (now.stdout.bytes === 0);
  assert.equal(now.state, "running");
  const end = (await call(client, "cancel_run", { run: begun.run })).structuredContent;
  assert.equal(end.outcome, "canceled");
  assert.equal(end.stdout.text, "so far\n");
});

test("with the client its sandboxes end", async () => {
  const client = await connect();
  const begun = (await call(client, "run_code", { language: "sh", code: "sleep 100", background: true })).structuredContent;
  await client.close();
  assert.equal(silkJSON("runs", "show", begun.run, "--json").outcome.kind, "canceled");
});

test("twenty calls at once", async () => {
  const client = await connect();
  const results = await Promise.all(Array.from({ length: 20 }, (_, i) => call(client, "run_code", { language: "sh", code: `echo ${i}` })));
  assert.deepEqual(results.map((r) => r.structuredContent.stdout.text), Array.from({ length: 20 }, (_, i) => `${i}\n`));
});

test("streamable HTTP", async () => {
  const [, url] = await daemon(["mcp", "--http", "127.0.0.1:0"], /(http:\/\/\S+\/mcp)/);
  const token = execFileSync(silk, ["token", "new", "agent"], { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  const client = new Client({ name: "interop", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
  closers.push(() => client.close());
  await tour(client);
  const told = [];
  const abort = new AbortController();
  await assert.rejects(
    call(client, "run_code", { language: "sh", code: "echo here; sleep 100" }, { signal: abort.signal, onprogress: (p) => { told.push(p); if (/here/.test(p.message)) abort.abort(); } }),
  );
  assert.ok(told.length > 0);
  for (const headers of [{}, { Authorization: "Bearer silk_no" }, { Authorization: `Bearer ${token}`, Origin: "https://evil.example" }]) {
    const stranger = new Client({ name: "stranger", version: "1" });
    await assert.rejects(stranger.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })), JSON.stringify(headers));
  }
});

test("a running silk serve", async () => {
  await daemon(["serve"], /"msg":"listening"/);
  const server = "unix://" + path.join(home, "silk.sock");
  const client = await connect("--server", server);
  await tour(client);
  const begun = (await call(client, "run_code", { language: "sh", code: "sleep 100", background: true })).structuredContent;
  await client.close();
  const shown = silkJSON("runs", "show", begun.run, "--json", "--server", server);
  assert.equal((shown.outcome.kind ?? shown.outcome.outcome), "canceled", JSON.stringify(shown));
});
