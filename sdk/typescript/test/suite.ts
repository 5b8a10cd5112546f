import { OutputText, SilkClient, SilkProblem, SilkStreamError, type ClientOptions, type Frame, type Watch } from "../src/index.js";

/**
 * What a client must do with a real server. The same cases run in Node and in a browser, so there is nothing of either here.
 */
export interface World {
  /** A client with a runner's token, or the owner's. */
  client(who?: "runner" | "owner", options?: Partial<ClientOptions>): SilkClient;
  /** Has the network cut the next WebSockets after that many bytes, times in all. */
  cutAfter(bytes: number, times: number): Promise<void>;
  /** How many were cut since. */
  cuts(): Promise<number>;
}

export interface Case {
  readonly name: string;
  run(world: World): Promise<void>;
}

function equal(got: unknown, want: unknown, what: string): void {
  const [g, w] = [JSON.stringify(got), JSON.stringify(want)];
  if (g !== w) throw new Error(`${what}: got ${g.slice(0, 300)}, want ${w.slice(0, 300)}`);
}

function check(ok: boolean, what: string): void {
  if (!ok) throw new Error(what);
}

async function fails(promise: Promise<unknown>, what: string): Promise<unknown> {
  try {
    await promise;
  } catch (err) {
    return err;
  }
  throw new Error(`${what}: no error`);
}

async function problem(promise: Promise<unknown>, status: number, kind: string): Promise<SilkProblem> {
  const err = await fails(promise, kind);
  if (!(err instanceof SilkProblem)) throw new Error(`${kind}: ${String(err)} is no problem`);
  equal([err.status, err.kind], [status, kind], "problem");
  return err;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Follows a watch to its end, and checks that within each channel no byte is missing, doubled or out of order. */
async function text(watch: Watch, onFrame?: (f: Frame, stdout: string) => Promise<void> | void): Promise<{ stdout: string; stderr: string; frames: Frame[] }> {
  const out = { stdout: "", stderr: "" };
  const frames: Frame[] = [];
  const decode = new OutputText();
  const at = { ...(watch.cursor ?? { stdout: -1, stderr: -1 }) };
  for await (const f of watch) {
    if (f.type === "hello" && at.stdout < 0) Object.assign(at, f.tail_from);
    if (f.type === "output") {
      equal(f.offset, at[f.channel], `offset in ${f.channel}`);
      at[f.channel] += f.bytes.length;
      out[f.channel] += decode.push(f);
    } else frames.push(f);
    await onFrame?.(f, out.stdout);
  }
  for (const channel of ["stdout", "stderr"] as const) equal(at[channel], watch.exit?.outcome[channel].bytes, `bytes of ${channel}`);
  return { ...out, frames };
}

const lines = 30_000;
const printLines = `i=1; while [ $i -le ${lines} ]; do echo "line $i of the output"; i=$((i+1)); done`;
const printed = Array.from({ length: lines }, (_, i) => `line ${i + 1} of the output\n`).join("");

export const cases: Case[] = [
  {
    name: "a run is submitted, watched and collected",
    async run(w) {
      const r = await w.client().run({ language: "sh", code: "echo grün; echo no >&2; exit 3" });
      equal([r.stdout, r.stderr, r.outcome.outcome, r.outcome.exit_code, r.gaps.length], ["grün\n", "no\n", "failed", 3, 0], "result");
      equal(r.truncated, { stdout: false, stderr: false }, "truncated");
    },
  },
  {
    name: "bytes that are no text come as they are",
    async run(w) {
      const r = await w.client().run({ language: "sh", code: "awk 'BEGIN { for (i = 0; i < 256; i++) printf \"%c\", i }' | head -c 1000; printf '\\377\\000\\303'; sleep 0.2; printf '\\244'" });
      const tail = [...r.stdoutBytes.subarray(-4)];
      equal(tail, [0xff, 0, 0xc3, 0xa4], "bytes");
      check(r.stdout.endsWith("\ufffd\0ä"), "text");
    },
  },
  {
    name: "output over the cap is left out, and said to be",
    async run(w) {
      const r = await w.client().run({ language: "sh", code: "seq 100000" }, { maxBytes: 1000 });
      equal([r.stdoutBytes.length, r.truncated.stdout, r.truncated.stderr, r.outcome.outcome], [1000, true, false, "ok"], "result");
    },
  },
  {
    name: "frames come while the program runs, and input reaches it",
    async run(w) {
      const client = w.client();
      const { run } = await client.createRun({ language: "sh", code: "echo ready; read x; echo got $x; cat", stdin_open: true });
      let told = false;
      const watch = client.watch(run);
      const out = await text(watch, async (_, stdout) => {
        if (told || !stdout.includes("ready\n")) return;
        told = true;
        await watch.stdin("wört\n");
        await watch.stdin(new Uint8Array([0x6f, 0x6b]));
        await watch.stdinEnd();
      });
      equal(out.stdout, "ready\ngot wört\nok", "stdout");
      const types = out.frames.map((f) => f.type).filter((t) => t !== "queued" && t !== "progress");
      equal(types, ["hello", "started", "exit"], "frames");
    },
  },
  {
    name: "input over the socket reaches it as well",
    async run(w) {
      const client = w.client();
      const { run } = await client.createRun({ language: "sh", code: "echo ready; cat", stdin_open: true });
      let told = false;
      const watch = client.watch(run, { input: "socket" });
      const out = await text(watch, async (_, stdout) => {
        if (told || !stdout.includes("ready\n")) return;
        told = true;
        await watch.stdin("a");
        await watch.stdin("b\n");
        await watch.stdinEnd();
      });
      equal(out.stdout, "ready\nab\n", "stdout");
    },
  },
  {
    name: "more input than the server keeps waits for the program",
    async run(w) {
      const client = w.client();
      const input = "0123456789abcde\n".repeat(3 << 16); // 3 MiB
      const { run } = await client.createRun({ language: "sh", code: "sleep 1; wc -c; ", stdin_open: true });
      const watch = client.watch(run);
      const sent = (async () => {
        await watch.stdin(input);
        await watch.stdinEnd();
      })();
      const out = await text(watch);
      await sent;
      equal(out.stdout.trim(), String(input.length), "bytes that the program got");
    },
  },
  {
    name: "who comes late gets the tail, and what follows",
    async run(w) {
      const client = w.client();
      const { run } = await client.createRun({ language: "sh", code: "seq 20000; read x; echo end", stdin_open: true });
      for await (const f of client.watch(run)) if (f.type === "output" && new TextDecoder().decode(f.bytes).includes("20000\n")) break;
      const watch = client.watch(run, { cursor: "tail" });
      let told = false;
      const out = await text(watch, async (_, stdout) => {
        if (told || !stdout.includes("20000\n")) return;
        told = true;
        await watch.stdin("\n");
      });
      const hello = out.frames[0];
      check(hello?.type === "hello" && hello.tail_from.stdout > 100_000, "the tail begins late");
      check(/^\d+\n/.test(out.stdout) && out.stdout.endsWith("\n20000\nend\n") && out.stdout.length <= 5000, `tail of ${out.stdout.length} characters`);
    },
  },
  {
    name: "a run that has ended is watched from its record",
    async run(w) {
      const client = w.client();
      const r = await client.run({ language: "sh", code: "seq 5000; echo err >&2" });
      const out = await text(client.watch(r.run));
      equal([out.stdout === r.stdout, out.stderr], [true, "err\n"], "output");
      const part = await text(client.watch(r.run, { cursor: { stdout: r.stdoutBytes.length - 5, stderr: 4 } }));
      equal([part.stdout, part.stderr], ["5000\n", ""], "rest");
    },
  },
  {
    name: "five cuts in 30,000 lines lose and double no byte",
    async run(w) {
      await w.cutAfter(60_000, 5);
      const client = w.client("runner", { reconnect: { minMs: 10, maxMs: 100 } });
      const { run } = await client.createRun({ language: "sh", code: printLines });
      let waits = 0;
      const out = await text(client.watch(run, { onConnection: (s) => void (waits += s.state === "waiting" ? 1 : 0) }));
      equal(await w.cuts(), 5, "cuts");
      equal(waits, 5, "reconnections");
      check(out.stdout === printed, `stdout of ${out.stdout.length} characters, not ${printed.length}`);
      equal(out.frames.filter((f) => f.type !== "queued" && f.type !== "progress").map((f) => f.type), ["hello", "started", "exit"], "frames, each once");
    },
  },
  {
    name: "a reader that is too slow comes again, and loses nothing",
    async run(w) {
      const client = w.client("runner", { bufferChars: 64 << 10 });
      const r = await client.run({ language: "sh", code: "seq 300000" });
      let opened = 0;
      let n = 0;
      const out = await text(client.watch(r.run, { onConnection: (s) => void (opened += s.state === "open" ? 1 : 0) }), async () => {
        if (n++ % 4 === 0) await sleep(20);
      });
      const want = Array.from({ length: 300_000 }, (_, i) => `${i + 1}\n`).join("");
      check(out.stdout === want, `stdout of ${out.stdout.length} characters, not ${want.length}`);
      check(opened > 1, "it never had to come again");
    },
  },
  {
    name: "cancel ends a run",
    async run(w) {
      const client = w.client();
      const { run } = await client.createRun({ language: "sh", code: "echo up; sleep 100" });
      const watch = client.watch(run);
      await text(watch, async (f) => {
        if (f.type === "output") await watch.cancel();
      });
      equal(watch.exit?.outcome.outcome, "canceled", "outcome");
      await problem(watch.cancel(), 409, "state");
      await problem(watch.stdin("x"), 409, "state");
    },
  },
  {
    name: "aborting a watch leaves the run, aborting run() cancels it",
    async run(w) {
      const client = w.client();
      const abort = new AbortController();
      let run = "";
      const err = await fails(
        client.run({ language: "sh", code: "echo up; sleep 100" }, {
          signal: abort.signal,
          onFrame(f) {
            if (f.type !== "output") return;
            run = f.run;
            const one = new AbortController();
            const watched = fails(text(client.watch(run, { signal: one.signal })), "an aborted watch");
            one.abort(new Error("enough"));
            void watched.then((e) => {
              abort.abort(e);
            });
          },
        }),
        "an aborted run",
      );
      check(err instanceof Error && err.message === "enough", `reason ${String(err)}`);
      const watch = client.watch(run);
      await text(watch);
      equal(watch.exit?.outcome.outcome, "canceled", "outcome");
    },
  },
  {
    name: "problems have their kind and fields",
    async run(w) {
      const client = w.client();
      const none = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
      await problem(client.getRun(none), 404, "not-found");
      await problem(text(client.watch(none)), 404, "not-found");
      await problem(text(client.watchSession(none) as unknown as Watch), 404, "not-found");
      await problem(client.listTokens(), 403, "forbidden");
      await problem(w.client("runner", { token: "silk_nonsense" }).getRun(none), 401, "unauthorized");
      const invalid = await problem(client.createRun({ language: "sh", code: "true", limits: { memory_bytes: 0 } }), 422, "invalid");
      equal(invalid.errors.map((e) => e.field), ["body.limits.memory_bytes"], "fields");
      const r = await client.run({ language: "sh", code: "echo 1" });
      await problem(text(client.watch(r.run, { cursor: { stdout: 1000, stderr: 0 } })), 416, "cursor");
      const denied = await fails(client.run({ profile: "lab:nothing", code: "x" }), "an unknown profile");
      check(denied instanceof SilkProblem && denied.status >= 400 && denied.status < 500, String(denied));
      check(!(denied instanceof SilkStreamError), "it is no fault of a stream");
    },
  },
  {
    name: "the same key gives the same run",
    async run(w) {
      const client = w.client();
      const idempotencyKey = crypto.randomUUID();
      const a = await client.createRun({ language: "sh", code: "echo 1" }, { idempotencyKey });
      const b = await client.createRun({ language: "sh", code: "echo 1" }, { idempotencyKey });
      equal(b.run, a.run, "run");
      await problem(client.createRun({ language: "sh", code: "echo 2" }, { idempotencyKey }), 409, "key-reused");
      const c = await client.createRun({ language: "sh", code: "echo 1" });
      check(c.run !== a.run, "a call without a key is a new run");
      for (const { run } of [a, c]) await text(client.watch(run));
    },
  },
  {
    name: "lists come page by page",
    async run(w) {
      const client = w.client();
      const { session } = await client.createSession({ name: "pages" });
      const made: string[] = [];
      for (let i = 0; i < 5; i++) made.unshift((await client.run({ language: "sh", code: `echo ${i}`, session })).run);
      const listed: string[] = [];
      for await (const r of client.listRuns({ session }, { limit: 2 })) listed.push(r.run);
      equal(listed, made, "runs, the newest first");
      const page = await client.listRunsPage({ session, outcome: "ok", state: "ended" }, { limit: 2 });
      equal([page.items.length, typeof page.next], [2, "string"], "page");
      equal((await client.getSession(session)).name, "pages", "session");
      check((await client.listProfiles()).some((p) => p.name === "lab:text"), "profiles");
      check((await client.listImages()).some((i) => i.tag === "lab:text"), "images");
    },
  },
  {
    name: "a block of a note is run as it asks, and its result goes under it",
    async run(w) {
      const client = w.client();
      const text = "# Note\n\n```sh {silk timeout=20s no-spawn}\necho 42\n```\n\nThe end.\n";
      const [block] = await client.listNoteBlocks(text);
      if (block?.request === undefined) throw new Error("the block is not runnable");
      equal([block.line, block.code, block.request.no_spawn, block.request.limits?.timeout_ms], [2, "echo 42\n", true, 20_000], "block");
      const preview = await client.planRun(block.request);
      equal([preview.denial, typeof preview.hash], [undefined, "string"], "preview");
      const { run } = await client.run(block.request);
      const put = { line: block.line, code_hash: block.code_hash, run };
      const after = await client.putNoteResult({ ...put, text });
      check(after.text.includes("42") && after.text.includes(run) && after.text.endsWith("\nThe end.\n"), after.text);
      equal((await client.listNoteBlocks(after.text))[0]?.result?.run, run, "result");
      await problem(client.putNoteResult({ ...put, text: "nothing" }), 409, "block-not-found");
      equal((await client.cleanNote({ line: block.line, code_hash: block.code_hash, text: after.text })).text, text, "cleaned");
    },
  },
  {
    name: "output, record and artifacts are there afterwards",
    async run(w) {
      const client = w.client();
      const r = await client.run({ language: "sh", code: "seq 100; printf 0123456789 > 'a file.txt'" });
      equal(await (await client.getOutput(r.run, "stdout")).text(), r.stdout, "output");
      equal(r.outcome.artifacts.map((a) => [a.path, a.size]), [["a file.txt", 10]], "artifacts");
      equal(await (await client.getArtifact(r.run, "a file.txt")).text(), "0123456789", "artifact");
      const part = await client.getArtifact(r.run, "a file.txt", { range: { first: 2, last: 4 } });
      equal([part.status, await part.text()], [206, "234"], "range");
      const record = (await client.getRecord(r.run)) as { run: unknown };
      equal(record.run, r.run, "record");
    },
  },
  {
    name: "a terminal has the size that it is given",
    async run(w) {
      const client = w.client();
      const { run } = await client.createRun({ language: "sh", code: "stty size; read x; stty size", terminal: { columns: 80, rows: 24 }, stdin_open: true });
      const watch = client.watch(run, { input: "socket" });
      let told = false;
      const out = await text(watch, async (_, stdout) => {
        if (told || !stdout.includes("24 80")) return;
        told = true;
        await watch.resize({ columns: 100, rows: 30 });
        await sleep(300);
        await watch.stdin("\n");
      });
      check(out.stdout.includes("30 100"), JSON.stringify(out.stdout));
    },
  },
  {
    name: "a session brings all its runs, over two cuts",
    async run(w) {
      await w.cutAfter(20_000, 2);
      const client = w.client("runner", { reconnect: { minMs: 10, maxMs: 100 } });
      const { session } = await client.createSession();
      const code = (i: number): string => `i=0; while [ $i -lt 3000 ]; do echo "${i}: $i"; i=$((i+1)); done`;
      const want = (i: number): string => Array.from({ length: 3000 }, (_, n) => `${i}: ${n}\n`).join("");
      const runs = new Map<string, { i: number; out: string; ended: number; at: number }>();
      const watch = client.watchSession(session);
      await watch.open();
      const make = (async () => {
        for (let i = 0; i < 3; i++) runs.set((await client.createRun({ language: "sh", code: code(i), session })).run, { i, out: "", ended: 0, at: 0 });
      })();
      const early: Frame[] = [];
      let ended = 0;
      const take = (f: Frame): void => {
        const r = runs.get(f.run ?? "");
        if (r === undefined) {
          early.push(f);
          return;
        }
        if (f.type === "output") {
          equal(f.offset, r.at, "offset");
          r.at += f.bytes.length;
          r.out += new TextDecoder().decode(f.bytes);
        }
        if (f.type === "exit") ended += ++r.ended;
      };
      for (let next = await watch.next(); next.done !== true; next = await watch.next()) {
        if (runs.size === 3) for (const f of early.splice(0)) take(f);
        take(next.value);
        if (ended === 3) break;
      }
      await make;
      await watch.return();
      for (const r of runs.values()) check(r.ended === 1 && r.out === want(r.i), `run ${r.i}: ${r.ended} ends, ${r.out.length} characters`);
      check((await w.cuts()) >= 1, "nothing was cut");
    },
  },
  {
    name: "what fails is handed on, with its code and where that is from, and taken once",
    async run(w) {
      const client = w.client();
      const code = `echo out; exit 3 # ${crypto.randomUUID()}`;
      const { run } = await client.createRun({ language: "sh", code, note: "Lab/Tour.md", block: "1" });
      await text(client.watch(run));
      const all: string[] = [];
      for await (const h of client.listHandoffs({ run })) all.push(h.receiver);
      equal(all.sort(), ["code_explainer", "widow_weaver"], "receivers");
      const page = await client.listHandoffsPage({ run, receiver: "code_explainer" });
      const id = page.items[0]?.handoff ?? "";
      const { state, content } = await client.getHandoff(id);
      equal([state, content?.code?.text, content?.log.stdout.text, content?.outcome.exit_code, content?.note, content?.block], ["open", code, "out\n", 3, "Lab/Tour.md", "1"], "content");
      await problem(client.retryHandoff(id), 409, "no-sink");
      equal((await client.ackHandoff(id)).state, "acked", "state");
      equal((await client.ackHandoff(id)).acked_by, (await client.getHandoff(id)).acked_by, "who took it");
      await problem(client.getHandoff("01KB0000000000000000000000"), 404, "not-found");
    },
  },
  {
    name: "the owner approves what a runner asks for beyond its profile",
    async run(w) {
      const [client, owner] = [w.client(), w.client("owner")];
      const { run, state } = await client.createRun({ language: "sh", code: `echo ${crypto.randomUUID()}`, limits: { memory_bytes: 1 << 30 } });
      equal(state, "pending", "state");
      let decided = false;
      const watch = client.watch(run);
      const out = await text(watch, async (f) => {
        if (decided || f.type !== "approval") return;
        decided = true;
        await problem(client.decideApproval(run, { grant: true, hash: "0".repeat(64) }), 403, "forbidden");
        const asked: string[] = [];
        for await (const a of owner.listApprovals({ state: "pending" })) asked.push(a.run);
        check(asked.includes(run), "it is listed");
        const approval = await owner.getApproval(run);
        check((approval.code ?? "").startsWith("echo "), "the owner sees the code");
        equal((await owner.decideApproval(run, { grant: true, hash: approval.hash, for_hours: 1 })).state, "granted", "decision");
        check(((await owner.revokeGrant(run)).valid_until_ms ?? 0) <= Date.now() + 60_000, "a grant for later runs is revoked");
      });
      equal(out.frames.filter((f) => f.type === "approval").map((f) => f.state), ["pending", "granted"], "approvals");
      equal(watch.exit?.outcome.outcome, "ok", "outcome");
      let seen = false;
      for await (const e of owner.listAudit({ run })) seen ||= e.event.startsWith("approval");
      check(seen, "the decision is in the audit trail");
    },
  },
  {
    name: "tokens are made, used and revoked",
    async run(w) {
      const owner = w.client("owner");
      const name = `t-${crypto.randomUUID()}`;
      const made = await owner.createToken({ name, role: "viewer", expires_ms: 60_000 });
      const viewer = w.client("runner", { token: made.secret });
      check((await viewer.listProfiles()).length > 0, "it is good");
      await problem(viewer.createRun({ language: "sh", code: "true" }), 403, "forbidden");
      check((await owner.listTokens()).some((t) => t.name === name), "it is listed");
      equal(typeof (await owner.revokeToken(name)).revoked_at_ms, "number", "revoked");
      await problem(viewer.listProfiles(), 401, "unauthorized");
    },
  },
  {
    name: "skills are refused with everything that is wrong, listed and not found",
    async run(w) {
      const owner = w.client("owner");
      const refused = await owner.registerSkill({ manifest: { version: "1", name: "Not A Name" }, basePath: "/nowhere" });
      equal([refused.registered, refused.error, refused.manifestHash], [false, "schema_validation_failed", ""], "result");
      check(refused.validationErrors?.some((f) => f.path === "/name") === true, JSON.stringify(refused));
      equal(await owner.listSkills(), [], "skills");
      for (const call of [owner.getSkill("none"), owner.revokeSkill("none")]) {
        const err = await fails(call, "a skill that is not there");
        check(err instanceof SilkProblem && err.status === 404, String(err));
      }
      await problem(w.client().registerSkill({ manifest: {}, basePath: "" }), 403, "forbidden");
    },
  },
];
