import { strict as assert } from "node:assert";
import { test } from "node:test";
import { OutputText, SilkClient, SilkDecodeError, SilkNetworkError, SilkProblem, SilkStreamError, type ConnectionState, type Frame, type Watch } from "../src/index.js";
import { exit, gap, hello, output, runID, says, started, withServer, type Script } from "./fake.js";

/** The text of stdout, and the types of all other frames. */
async function read(watch: Watch): Promise<{ stdout: string; types: string[]; frames: Frame[] }> {
  const text = new OutputText();
  let stdout = "";
  const frames: Frame[] = [];
  for await (const f of watch) {
    if (f.type === "output" && f.channel === "stdout") stdout += text.push(f);
    else frames.push(f);
  }
  return { stdout, types: frames.map((f) => f.type), frames };
}

test("a stream ends with its exit frame", () =>
  withServer([says([hello(), started, output(0, "grün\n"), exit(6)])], async (server) => {
    const watch = server.client().watch(runID);
    assert.deepEqual(await read(watch).then(({ stdout, types }) => ({ stdout, types })), { stdout: "grün\n", types: ["hello", "started", "exit"] });
    assert.equal(watch.exit?.outcome.outcome, "ok");
    assert.deepEqual(watch.cursor, { stdout: 6, stderr: 0 });
    assert.equal(server.connections[0]?.get("stdout"), "0");
  }));

for (const end of ["cut", 1000, 1001, 1006, 1011, 1013, 4000] as const) {
  test(`a connection that ends with ${end} is resumed at the byte, and what was seen comes once`, () =>
    withServer(
      [
        says([hello(), started, output(0, "aü")], end === 1006 ? "cut" : end),
        says([hello(3), started, output(3, "b"), output(0, "!", "stderr")], end === 1006 ? "cut" : end),
        says([hello(4, 1), started, output(4, "c"), exit(5, 1)]),
      ],
      async (server) => {
        const states: ConnectionState["state"][] = [];
        const out = await read(server.client().watch(runID, { onConnection: (s) => states.push(s.state) }));
        assert.equal(out.stdout, "aübc");
        assert.deepEqual(out.types, ["hello", "started", "output", "exit"]);
        assert.deepEqual(server.connections.map((c) => [c.get("stdout"), c.get("stderr")]), [["0", "0"], ["3", "0"], ["4", "1"]]);
        assert.deepEqual(states, ["open", "waiting", "open", "waiting", "open"]);
      },
    ));
}

test("pieces that were seen are dropped, and parts of them cut off", () =>
  withServer(
    [says([hello(), output(0, "0123"), output(0, "0123"), output(2, "2345"), output(6, new Uint8Array([0x36])), exit(7)])],
    async (server) => {
      const out: [number, string][] = [];
      for await (const f of server.client().watch(runID)) if (f.type === "output") out.push([f.offset, new TextDecoder().decode(f.bytes)]);
      assert.deepEqual(out, [[0, "0123"], [4, "45"], [6, "6"]]);
    },
  ));

test("a gap is passed on, and a gap that was seen is not", () =>
  withServer([says([hello(), output(0, "ab"), gap(2, 10), gap(2, 10), output(10, "cd"), gap(4, 14), exit(14)], "stay")], async (server) => {
    const out = await read(server.client().watch(runID));
    const gaps = out.frames.filter((f) => f.type === "gap");
    assert.equal(out.stdout, "abcd");
    assert.deepEqual(gaps.map((g) => [g.from, g.to]), [[2, 10], [12, 14]]);
  }));

test("bytes that are missing without a gap frame are asked for again", () =>
  withServer([says([hello(), output(0, "ab"), output(4, "ef")], "stay"), says([hello(2), output(2, "cdef"), exit(6)])], async (server) => {
    assert.equal((await read(server.client().watch(runID))).stdout, "abcdef");
    assert.equal(server.connections[1]?.get("stdout"), "2");
  }));

test("an exit frame that says of more bytes than came is no end", () =>
  withServer([says([hello(), output(0, "ab"), exit(3)])], async (server) => {
    await assert.rejects(read(server.client().watch(runID)), (err) => err instanceof SilkStreamError && err.reason === "short" && err.cursor?.stdout === 2);
  }));

test("JSON that is torn is asked for again", () =>
  withServer([says([hello(), output(0, "ab"), output(2, "cd").slice(0, 40)], "stay"), says([hello(2), output(2, "cd"), exit(4)])], async (server) => {
    assert.equal((await read(server.client().watch(runID))).stdout, "abcd");
  }));

test("a frame of the wrong shape is an error at once, with its place", () =>
  withServer([says([hello(), JSON.stringify({ type: "output", run: runID, channel: "stdlog", offset: 0, data: "x" })], "stay")], async (server) => {
    await assert.rejects(read(server.client().watch(runID)), (err) => err instanceof SilkDecodeError && err.at === "channel");
    assert.equal(server.connections.length, 1);
  }));

test("an outcome of a kind that is not known is an error, never ok", () =>
  withServer([says([hello(), exit(0).replace('"outcome":"ok"', '"outcome":"fine"')], "stay")], async (server) => {
    await assert.rejects(read(server.client().watch(runID)), (err) => err instanceof SilkDecodeError && err.at === "outcome.outcome");
  }));

test("a frame of a type that is not known is passed on without its content", () =>
  withServer([says([hello(), JSON.stringify({ type: "weather", run: runID, rain: true }), exit(0)])], async (server) => {
    const { frames } = await read(server.client().watch(runID));
    assert.deepEqual(frames[1], { type: "unknown", kind: "weather", run: runID });
  }));

for (const code of [1002, 1003, 1007, 1009]) {
  test(`a connection that is closed with ${code} is not tried again`, () =>
    withServer([says([hello(), output(0, "ab")], code)], async (server) => {
      await assert.rejects(read(server.client().watch(runID)), (err) => err instanceof SilkStreamError && err.reason === "refused" && err.cursor?.stdout === 2);
      assert.equal(server.connections.length, 1);
    }));
}

test("a token that is no good any more is a problem, unless there is a new one", () =>
  withServer([says([hello(), output(0, "ab")], 1008), says([hello(2), output(2, "c")], 1008), says([hello(3), exit(3)])], async (server) => {
    server.route = ({ path, headers }) =>
      path === "/v1/tickets" && headers.authorization === "Bearer old" ? { status: 401, body: { type: "urn:silk:unauthorized", title: "no", status: 401 } } : undefined;
    const tokens = ["first", "second", "old"];
    const watch = server.client({ getToken: () => tokens.shift() ?? "" }).watch(runID);
    await assert.rejects(read(watch), (err) => err instanceof SilkProblem && err.kind === "unauthorized");
    assert.deepEqual(watch.cursor, { stdout: 3, stderr: 0 });
  }));

test("a message that is no text ends the stream with an error", () =>
  withServer([(ws) => { ws.send(hello()); ws.send(Buffer.from([1, 2])); }], async (server) => {
    await assert.rejects(read(server.client().watch(runID)), (err) => err instanceof SilkStreamError && err.reason === "refused");
  }));

test("a stream that breaks again and again without bringing anything is lost, not ok", () =>
  withServer([says([hello(), output(0, "ab")]), ...Array.from({ length: 3 }, () => says([hello(2)])), says([hello(2), exit(2)])], async (server) => {
    const delays: number[] = [];
    const watch = server.client().watch(runID, { onConnection: (s) => { if (s.state === "waiting") delays.push(s.delayMs); } });
    await assert.rejects(read(watch), (err) => err instanceof SilkStreamError && err.reason === "lost" && err.cursor?.stdout === 2 && err.message.includes("4 times"));
    assert.equal(watch.exit, undefined);
    assert.equal(server.connections.length, 4);
    // 1, 2 and 4 ms, of which half is random.
    delays.forEach((d, i) => { assert.ok(d >= 2 ** i / 2 && d <= 2 ** i, `delay ${d} after ${i + 1} failures`); });
  }));

test("a stream that brings something between its breaks goes on for ever", () =>
  withServer([...Array.from({ length: 20 }, (_, i) => says([hello(i), output(i, "x")])), says([hello(20), exit(20)])], async (server) => {
    assert.equal((await read(server.client().watch(runID))).stdout, "x".repeat(20));
  }));

test("a refused handshake has the problem that the server says", () =>
  withServer([], async (server) => {
    await assert.rejects(read(server.client().watch(runID)), (err) => err instanceof SilkProblem && err.status === 404 && err.kind === "not-found");
    assert.equal(server.connections.length, 1);
    assert.match(String(server.requests.at(-1)?.headers.accept), /event-stream/);
  }));

test("a ticket that is refused for now is asked for again", () =>
  withServer([says([hello(), exit(0)])], async (server) => {
    let refused = 0;
    server.route = ({ path }) => (path === "/v1/tickets" && refused++ < 2 ? { status: 503, body: { type: "urn:silk:busy", title: "busy", status: 503 } } : undefined);
    assert.deepEqual((await read(server.client().watch(runID))).types, ["hello", "exit"]);
    assert.equal(refused, 3);
  }));

test("a server that falls silent is left, and found again", () =>
  withServer([says([], "stay"), says([hello(), output(0, "ab")], "stay"), says([hello(2), exit(2)])], async (server) => {
    assert.equal((await read(server.client({ idleMs: 50 }).watch(runID))).stdout, "ab");
  }));

test("pings are no frames, and show that the server lives", () =>
  withServer(
    [
      async (ws) => {
        ws.send(hello());
        for (let i = 0; i < 10; i++) {
          await new Promise((done) => setTimeout(done, 20));
          ws.send('{"type":"ping"}');
        }
        ws.send(exit(0));
      },
    ],
    async (server) => {
      assert.deepEqual((await read(server.client({ idleMs: 120 }).watch(runID))).types, ["hello", "exit"]);
      assert.equal(server.connections.length, 1);
    },
  ));

test("a slow reader gets what is buffered, then comes again for the rest", () =>
  withServer(
    [
      says([hello(), ...Array.from({ length: 100 }, (_, i) => output(i * 10, "0123456789"))], "stay"),
      ...Array.from({ length: 20 }, (): Script => (ws, query) => {
        const at = Number(query.get("stdout"));
        assert.ok(at > 0 && at < 1000, `resumed at ${at}`);
        ws.send(hello(at));
        for (let i = at; i < 1000; i += 10) ws.send(output(i, "0123456789"));
        ws.send(exit(1000));
      }),
    ],
    async (server) => {
      const states = new Set<string>();
      const watch = server.client({ bufferChars: 3000 }).watch(runID, { onConnection: (s) => states.add(s.state) });
      let stdout = "";
      for await (const f of watch) {
        if (f.type === "output") stdout += new TextDecoder().decode(f.bytes);
        if (stdout.length === 10 && server.connections.length === 1) await new Promise((done) => setTimeout(done, 100));
      }
      assert.equal(stdout, "0123456789".repeat(100));
      assert.ok(server.connections.length >= 2);
      assert.deepEqual([...states], ["open"], "that is no failure, after which it would wait");
    },
  ));

test("a tail begins where the server says, and is resumed there", () =>
  withServer([says([hello(100, 7), output(100, "ab")], "cut"), says([hello(102, 7), output(102, "c"), exit(103, 7)])], async (server) => {
    assert.equal((await read(server.client().watch(runID, { cursor: "tail" }))).stdout, "abc");
    assert.equal(server.connections[0]?.has("stdout"), false);
    assert.deepEqual([server.connections[1]?.get("stdout"), server.connections[1]?.get("stderr")], ["102", "7"]);
  }));

test("leaving the loop closes the connection", () =>
  withServer([says([hello(), output(0, "ab")], "stay")], async (server) => {
    const watch = server.client().watch(runID);
    for await (const f of watch) if (f.type === "output") break;
    assert.deepEqual(await watch.next(), { done: true, value: undefined });
    assert.deepEqual(watch.cursor, { stdout: 2, stderr: 0 });
  }));

test("return ends a call of next that waits", () =>
  withServer([says([hello()], "stay")], async (server) => {
    const watch = server.client().watch(runID);
    await watch.next();
    const waiting = watch.next();
    await watch.return();
    assert.deepEqual(await waiting, { done: true, value: undefined });
  }));

test("an aborted signal ends the stream with its reason, wherever it is", () =>
  withServer([says([hello()], "stay"), says([hello()], "cut")], async (server) => {
    const now = AbortSignal.abort(new Error("before"));
    await assert.rejects(server.client().watch(runID, { signal: now }).next(), /before/);
    const reading = new AbortController();
    const watch = server.client().watch(runID, { signal: reading.signal });
    await watch.next();
    setTimeout(() => { reading.abort(new Error("while reading")); }, 10);
    await assert.rejects(watch.next(), /while reading/);
    const waiting = new AbortController();
    const slow = server.client({ reconnect: { minMs: 60_000, maxMs: 60_000 } }).watch(runID, {
      signal: waiting.signal,
      onConnection: (s) => { if (s.state === "waiting") waiting.abort(new Error("while waiting")); },
    });
    await slow.next();
    await assert.rejects(slow.next(), /while waiting/);
  }));

test("what is buffered when the signal is aborted is not delivered", () =>
  withServer([says([hello(), output(0, "a"), output(1, "b")], "stay")], async (server) => {
    const abort = new AbortController();
    const watch = server.client().watch(runID, { signal: abort.signal });
    await watch.next();
    assert.equal((await watch.next()).value?.type, "output");
    abort.abort(new Error("enough"));
    await assert.rejects(watch.next(), /enough/);
    assert.deepEqual(watch.cursor, { stdout: 1, stderr: 0 });
  }));

test("commands go over the socket while there is one, else over HTTP", () => {
  const got: string[] = [];
  return withServer(
    [
      (ws) => {
        ws.send(hello());
        ws.on("message", (m: Buffer) => {
          got.push(m.toString());
          if (got.length === 3) ws.send(exit(0));
        });
      },
    ],
    async (server) => {
      server.route = ({ path }) => (path.endsWith("/stdin") ? { status: 200, body: { offset: 6 } } : path.endsWith("/size") || path.endsWith("/cancel") ? { status: 204 } : undefined);
      const watch = server.client().watch(runID, { input: "socket" });
      await watch.stdin("before"); // not connected
      assert.deepEqual(server.requests.at(-1)?.body, { b64: "YmVmb3Jl", offset: 0 });
      await watch.next();
      await watch.stdin("ü");
      await watch.resize({ columns: 80, rows: 24 });
      await watch.stdinEnd();
      assert.equal((await watch.next()).value?.type, "exit");
      assert.deepEqual(got.map((m) => JSON.parse(m) as unknown), [
        { type: "stdin", b64: "w7w=", run: runID },
        { type: "resize", columns: 80, rows: 24, run: runID },
        { type: "stdin_end", run: runID },
      ]);
      await watch.cancel();
      assert.deepEqual([server.requests.at(-1)?.path, server.requests.at(-1)?.method], [`/v1/runs/${runID}/cancel`, "POST"]);
    },
  );
});

test("input that the server has no room for is sent again; other refusals are errors, and do not stop what follows", () =>
  withServer([], async (server) => {
    const refusal = (kind: string): object => ({ type: `urn:silk:${kind}`, title: kind, status: 409 });
    const answers = [{ status: 409, body: refusal("input-full") }, { status: 200, body: { offset: 1 } }, { status: 409, body: refusal("state") }, { status: 200, body: { offset: 2 } }];
    server.route = ({ path, method }) => {
      if (method === "GET") return { status: 200, body: { run: runID, state: "running", profile: "p", client: "api", accepted_at_ms: 1 } };
      return path.endsWith("/stdin") ? answers.shift() : undefined;
    };
    const watch = server.client().watch(runID);
    const [a, b, c] = [watch.stdin("a"), watch.stdin("b"), watch.stdin("c")];
    await a;
    await assert.rejects(b, (err) => err instanceof SilkProblem && err.status === 409);
    await c;
    const bodies = server.requests.filter((r) => r.path.endsWith("/stdin")).map((r) => r.body);
    assert.deepEqual(bodies, [{ b64: "YQ==", offset: 0 }, { b64: "YQ==", offset: 0 }, { b64: "Yg==", offset: 1 }, { b64: "Yw==", offset: 1 }]);
  }));

test("input that got no answer is sent again where it was, and goes on where others have sent some", () =>
  withServer([], async (server) => {
    const offset = (at: number): object => ({ type: "urn:silk:input-offset", title: "not the next one", status: 409, offset: at });
    const answers: ReturnType<typeof server.route>[] = [
      { status: 409, body: offset(10) }, // somebody else was here
      "cut",
      { status: 503, body: { type: "urn:silk:stopping", title: "the server stops", status: 503 } },
      { status: 200, body: { offset: 11 } },
      "cut",
      { status: 409, body: offset(20) }, // whether the piece is among these nobody knows
    ];
    server.route = ({ path }) => (path.endsWith("/stdin") ? answers.shift() : undefined);
    const watch = server.client().watch(runID);
    await watch.stdin("a");
    await assert.rejects(watch.stdin("b"), (err) => err instanceof SilkProblem && err.kind === "input-offset" && err.offset === 20);
    const at = server.requests.filter((r) => r.path.endsWith("/stdin")).map((r) => (r.body as { offset: number }).offset);
    assert.deepEqual(at, [0, 10, 10, 10, 11, 11]);
  }));

test("one piece is sent again if it says where it begins, and not otherwise", () =>
  withServer([], async (server) => {
    let cuts = 1;
    server.route = ({ path }) => (path.endsWith("/stdin") ? (cuts-- > 0 ? "cut" : { status: 200, body: { offset: 3 } }) : undefined);
    assert.equal(await server.client().sendInput(runID, "abc", { offset: 0, end: true }), 3);
    assert.deepEqual(server.requests.at(-1)?.body, { b64: "YWJj", end: true, offset: 0 });
    cuts = 1;
    await assert.rejects(server.client().sendInput(runID, "abc"), SilkNetworkError);
    assert.equal(server.requests.length, 3);
  }));

test("a follower acknowledges what its reader has taken; run follows with the word of its request", () => {
  const acks: unknown[] = [];
  const long = "x".repeat(40_000);
  const messages = [hello(), output(0, long), output(40_000, long), output(80_000, long), output(120_000, long)];
  const script: Script = (ws) => {
    for (const m of messages) ws.send(m);
    ws.on("message", (m: Buffer) => {
      acks.push(JSON.parse(m.toString()));
      if (acks.length === 2) ws.send(exit(160_000));
    });
  };
  return withServer([script, script, says([...messages, exit(160_000)])], async (server) => {
    const words: (string | null)[] = [];
    server.route = ({ path, method, query }) => {
      if (path !== "/v1/runs" || method !== "POST") return undefined;
      words.push(query.get("follow"));
      return { status: 201, body: { run: runID, state: "queued", profile: "p", client: "api", accepted_at_ms: 1 } };
    };
    const want = [{ type: "ack", stdout: 80_000, stderr: 0 }, { type: "ack", stdout: 160_000, stderr: 0 }];
    await read(server.client().watch(runID, { follow: "me" }));
    assert.deepEqual(acks.splice(0), want);
    assert.equal((await server.client().run({ code: "x" })).stdout.length, 160_000);
    assert.deepEqual(acks.splice(0), want);
    await read(server.client().watch(runID));
    assert.deepEqual(acks, []);
    assert.deepEqual(server.connections.map((q) => q.get("follow")), ["me", words[0], null]);
    assert.match(words[0] ?? "", /^[0-9a-f-]{36}$/);
  });
});

test("without a WebSocket nothing is asked for that nobody could watch", () =>
  withServer([], async (server) => {
    const had = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
    Object.defineProperty(globalThis, "WebSocket", { value: undefined, configurable: true, writable: true });
    try {
      const client = new SilkClient({ url: server.url, token: "secret" });
      await assert.rejects(client.run({ code: "x" }), /no global WebSocket/);
      assert.deepEqual(server.requests, []);
    } finally {
      if (had === undefined) Reflect.deleteProperty(globalThis, "WebSocket");
      else Object.defineProperty(globalThis, "WebSocket", had);
    }
  }));
