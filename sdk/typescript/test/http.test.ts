import { strict as assert } from "node:assert";
import { inspect } from "node:util";
import { test } from "node:test";
import { SilkClient, SilkDecodeError, SilkNetworkError, SilkProblem, type Fetch } from "../src/index.js";
import { outcome, runID, withServer } from "./fake.js";

const run = { run: runID, state: "queued", profile: "lab:text", client: "api", accepted_at_ms: 1 };

test("a request for a run is repeated with the same key when the network breaks, a proxy fails or the server stops", () =>
  withServer([], async (server) => {
    const answers = ["cut", { status: 502 }, { status: 503, body: { type: "urn:silk:stopping", title: "stops", status: 503 } }, { status: 201, body: run }] as const;
    let n = 0;
    server.route = () => answers[n++];
    const got = await server.client().createRun({ language: "sh", code: "true" });
    assert.deepEqual(got, run);
    const keys = new Set(server.requests.map((r) => r.headers["idempotency-key"]));
    assert.equal(server.requests.length, 4);
    assert.equal(keys.size, 1);
    assert.match(String([...keys][0]), /^[0-9a-f-]{36}$/);
    assert.equal(server.requests[0]?.headers.authorization, "Bearer secret");
  }));

test("it gives up after as many attempts as it may make, with the cause", () =>
  withServer([], async (server) => {
    server.route = () => "cut";
    await assert.rejects(server.client().createRun({}), (err) => err instanceof SilkNetworkError && err.cause instanceof Error);
    assert.equal(server.requests.length, 4);
  }));

test("what may not be done twice is not repeated", () =>
  withServer([], async (server) => {
    server.route = () => "cut";
    const client = server.client();
    for (const call of [() => client.createSession(), () => client.createToken({ name: "n", role: "viewer" }), () => client.sendInput(runID, "x")]) {
      server.requests.length = 0;
      await assert.rejects(call(), SilkNetworkError);
      assert.equal(server.requests.length, 1);
    }
  }));

test("a problem is an error with its fields, and is not repeated", () =>
  withServer([], async (server) => {
    server.route = () => ({
      status: 429,
      headers: { "Retry-After": "7" },
      body: { type: "urn:silk:full", title: "the queue is full", status: 429, detail: "100 wait", errors: [{ field: "body.code", detail: "long" }], rule: "r", fix: "f", run: runID },
    });
    await assert.rejects(server.client().getRun(runID), (err) => {
      assert.ok(err instanceof SilkProblem);
      const { type, kind, status, title, detail, errors, rule, fix, run: other, retryAfterMs, message } = err;
      assert.deepEqual(
        { type, kind, status, title, detail, errors, rule, fix, other, retryAfterMs, message },
        {
          type: "urn:silk:full",
          kind: "full",
          status: 429,
          title: "the queue is full",
          detail: "100 wait",
          errors: [{ field: "body.code", detail: "long" }],
          rule: "r",
          fix: "f",
          other: runID,
          retryAfterMs: 7000,
          message: "100 wait; body.code: long",
        },
      );
      return true;
    });
    assert.equal(server.requests.length, 1);
  }));

test("an error that is none of silk's has its status", () =>
  withServer([], async (server) => {
    server.route = () => ({ status: 418, headers: { "Content-Type": "text/html" }, body: "<h1>tea</h1>" });
    await assert.rejects(server.client().getRun(runID), (err) => err instanceof SilkProblem && err.status === 418 && err.type === "about:blank" && err.kind === "");
    server.route = () => ({ status: 400, body: { type: 5 } });
    await assert.rejects(server.client().getRun(runID), (err) => err instanceof SilkProblem && err.status === 400 && err.type === "about:blank");
  }));

test("an answer of another shape is an error with its place, and more than that is dropped", () =>
  withServer([], async (server) => {
    const client = server.client();
    server.route = () => ({ status: 200, body: { ...run, state: "lost" } });
    await assert.rejects(client.getRun(runID), (err) => err instanceof SilkDecodeError && err.at === "state");
    server.route = () => ({ status: 200, body: { ...run, outcome: { ...outcome(1), artifacts: [{ path: "a", type: "file", size: -1 }] } } });
    await assert.rejects(client.getRun(runID), (err) => err instanceof SilkDecodeError && err.at === "outcome.artifacts[0].size");
    server.route = () => ({ status: 200, body: { ...run, weather: "fine", outcome: { ...outcome(1), artifacts: null } } });
    assert.deepEqual(await client.getRun(runID), { ...run, outcome: outcome(1) });
    server.route = () => ({ status: 200, body: "text" });
    await assert.rejects(client.getRun(runID), SilkDecodeError);
  }));

test("an aborted signal's reason is thrown, before, during and between the attempts", () =>
  withServer([], async (server) => {
    const reason = new Error("enough");
    await assert.rejects(server.client().getRun(runID, { signal: AbortSignal.abort(reason) }), reason);
    assert.equal(server.requests.length, 0);
    const during = new AbortController();
    server.route = () => {
      during.abort(reason);
      return "cut";
    };
    await assert.rejects(server.client().getRun(runID, { signal: during.signal }), reason);
    const once = new AbortController();
    server.route = () => {
      once.abort(reason);
      return "cut";
    };
    await assert.rejects(server.client().createSession({}, { signal: once.signal }), reason);
    const between = new AbortController();
    server.route = () => "cut";
    setTimeout(() => { between.abort(reason); }, 50);
    await assert.rejects(server.client({ retry: { minMs: 60_000, maxMs: 60_000 } }).getRun(runID, { signal: between.signal }), reason);
  }));

test("an answer that does not come in time is a network error", async () => {
  const never: Fetch = (_, init) => new Promise((_resolve, reject) => init.signal?.addEventListener("abort", () => { reject(init.signal?.reason as Error); }));
  const client = new SilkClient({ url: "http://127.0.0.1:1", token: "t", fetch: never, timeoutMs: 20, retry: { attempts: 1 } });
  await assert.rejects(client.getRun(runID), (err) => err instanceof SilkNetworkError && err.cause instanceof DOMException && err.cause.name === "TimeoutError");
});

test("a signal still ends the body of an answer that is read later", async () => {
  const stuck: Fetch = (_, init) => {
    const body = new ReadableStream<Uint8Array>({ start: (c) => init.signal?.addEventListener("abort", () => { c.error(init.signal?.reason); }) });
    return Promise.resolve(new Response(body));
  };
  const abort = new AbortController();
  const answer = await new SilkClient({ url: "http://127.0.0.1:1", token: "t", fetch: stuck }).getOutput(runID, "stdout", { signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(answer.text(), /enough/);
});

test("a list is read page by page, as far as it is wanted", () =>
  withServer([], async (server) => {
    server.route = ({ query }) => {
      const at = Number(query.get("cursor") ?? "0");
      assert.deepEqual([query.get("limit"), query.get("state"), query.has("outcome")], ["2", "ended", false]);
      return { status: 200, body: { items: [{ ...run, position: at + 1 }, { ...run, position: at + 2 }], ...(at < 4 && { next: String(at + 2) }) } };
    };
    const client = server.client();
    const got: (number | undefined)[] = [];
    for await (const r of client.listRuns({ state: "ended" }, { limit: 2 })) got.push(r.position);
    assert.deepEqual(got, [1, 2, 3, 4, 5, 6]);
    server.requests.length = 0;
    for await (const r of client.listRuns({ state: "ended" }, { limit: 2 })) if (r.position === 2) break;
    assert.equal(server.requests.length, 1);
  }));

test("paths are below the URL's own, with everything escaped", () =>
  withServer([], async (server) => {
    server.route = ({ path }) => ({ status: 200, body: path });
    const client = server.client({ url: `${server.url}/proxy/silk?x#y` });
    await assert.rejects(client.revokeToken("../a b?"), SilkDecodeError);
    await client.getRecord(runID);
    await (await client.getArtifact(runID, "a&b=c/../d")).text();
    assert.deepEqual(server.requests.map((r) => r.path), ["/proxy/silk/v1/tokens/..%2Fa%20b%3F", `/proxy/silk/v1/runs/${runID}/record`, `/proxy/silk/v1/runs/${runID}/artifact`]);
    assert.throws(() => client.watch("../../tokens"), TypeError);
    assert.throws(() => client.getRun("x"), TypeError);
  }));

test("what is wrong with a skill is a result, and what is wrong with the request is a problem", () =>
  withServer([], async (server) => {
    const skill = { name: "a", publisherAddress: "0x1", publisherName: "Ann", manifest: { version: "1" }, manifestHash: "0x2", status: "active", registeredAt: 1, revokedAt: null };
    const registered = { registered: true, name: "a", manifestHash: "0x2", scanFindings: [{ file: "a.js", line: 1, rule: "fs_write", severity: "warning", message: "m" }] };
    const invalid = { registered: false, name: "", manifestHash: "", error: "schema_validation_failed", validationErrors: [{ path: "/name", message: "m" }] };
    const other = { registered: false, name: "a", manifestHash: "", error: "file_hash_mismatch", hashMismatches: [{ path: "a.js", expected: "1", actual: "2" }] };
    const taken = { registered: false, name: "a", manifestHash: "", error: "duplicate_skill" };
    const client = server.client();
    for (const [status, body] of [[200, registered], [400, invalid], [400, other], [409, taken]] as const) {
      server.route = () => ({ status, body, headers: { "Content-Type": "application/json" } });
      assert.deepEqual(await client.registerSkill({ manifest: skill.manifest, basePath: "/srv/skills/a" }), body);
    }
    assert.deepEqual(server.requests.map((r) => `${r.method} ${r.path}`), Array(4).fill("POST /v1/skills/register"));
    for (const status of [400, 403, 500]) {
      server.route = () => ({ status, body: { type: "urn:silk:x", title: "t", status } });
      await assert.rejects(client.registerSkill({ manifest: 1, basePath: "" }), (err) => err instanceof SilkProblem && err.status === status && err.kind === "x");
    }
    server.route = () => ({ status: 200, body: [skill] });
    assert.deepEqual(await client.listSkills(), [skill]);
    server.route = () => ({ status: 200, body: { ...skill, status: "revoked", revokedAt: 2 } });
    assert.equal((await client.getSkill("a/b")).revokedAt, 2);
    assert.equal(server.requests.at(-1)?.path, "/v1/skills/a%2Fb");
    server.route = () => ({ status: 200, body: { revoked: true, name: "a" } });
    await client.revokeSkill("a");
    assert.equal(server.requests.at(-1)?.method, "DELETE");
    server.route = () => ({ status: 404, body: { error: "skill_not_found", name: "a" }, headers: { "Content-Type": "application/json" } });
    for (const call of [() => client.getSkill("a"), () => client.revokeSkill("a")]) {
      await assert.rejects(call(), (err) => err instanceof SilkProblem && err.status === 404);
    }
  }));

test("a token is asked for at each request, and shows nowhere", () =>
  withServer([], async (server) => {
    server.route = () => ({ status: 200, body: run });
    let n = 0;
    const client = server.client({ getToken: () => Promise.resolve(`secret-${n++}`) });
    await client.getRun(runID);
    await client.getRun(runID);
    assert.deepEqual(server.requests.map((r) => r.headers.authorization), ["Bearer secret-0", "Bearer secret-1"]);
    const plain = new SilkClient({ url: server.url, token: "hidden" });
    assert.doesNotMatch(inspect(plain, { depth: 10, showHidden: true }) + JSON.stringify(plain), /hidden/);
    assert.throws(() => new SilkClient({ url: server.url }), TypeError);
    assert.throws(() => new SilkClient({ url: "ftp://host", token: "t" }), TypeError);
    assert.throws(() => new SilkClient({ url: "http://user:pass@host", token: "t" }), TypeError);
  }));
