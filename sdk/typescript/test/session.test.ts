import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { Frame } from "../src/index.js";
import { exit, hello, oldRun, otherRun, output, runID, says, sessionID, withServer } from "./fake.js";

const run = (id: string): object => ({ run: id, state: "running", profile: "p", client: "api", accepted_at_ms: 1 });

test("a session whose connection breaks goes on with each run at the byte, and with one that came meanwhile from its begin", () => {
  const scripts = [
    says([hello(), output(0, "ab"), hello(0, 0, oldRun), exit(0, 0, oldRun)], "cut"),
    says([hello(0, 0, oldRun), exit(0, 0, oldRun), hello(2), output(2, "c"), hello(0, 0, otherRun), output(0, "n", "stdout", otherRun)], "cut"),
    says([hello(1, 0, otherRun), output(1, "ew", "stdout", otherRun), exit(3, 0, otherRun), hello(3), output(3, "d"), exit(4)], "stay"),
  ];
  return withServer(scripts, async (server) => {
    let lists = 0;
    server.route = ({ path, query }) => {
      if (path !== "/v1/runs") return undefined;
      assert.equal(query.get("session"), sessionID);
      lists++;
      return { status: 200, body: { items: [run(oldRun)] } };
    };
    const out = new Map<string, string>();
    const said: string[] = [];
    for await (const f of server.client().watchSession(sessionID)) {
      if (f.type === "output") out.set(f.run, (out.get(f.run) ?? "") + new TextDecoder().decode(f.bytes));
      else said.push(`${f.type} ${f.run ?? ""}`);
      if (f.type === "exit" && f.run === runID) break;
    }
    assert.deepEqual([...out], [[runID, "abcd"], [otherRun, "new"]]);
    assert.deepEqual(said, [`hello ${runID}`, `hello ${oldRun}`, `exit ${oldRun}`, `hello ${otherRun}`, `exit ${otherRun}`, `exit ${runID}`]);
    assert.deepEqual(server.connections.map((q) => [q.get("after"), q.get("at")]), [
      [oldRun, null],
      [runID, `${runID}:2:0,`],
      [otherRun, `${runID}:3:0,${otherRun}:1:0,`],
    ]);
    assert.equal(lists, 1);
  });
});

test("a session without runs begins after itself", () =>
  withServer([says([hello(), exit(0)], "stay")], async (server) => {
    server.route = ({ path }) => (path === "/v1/runs" ? { status: 200, body: { items: [] } } : undefined);
    for await (const f of server.client().watchSession(sessionID)) if (f.type === "exit") break;
    assert.deepEqual(server.connections.map((q) => q.get("after")), [sessionID]);
  }));

test("a session's watch ends with the reason of its signal, or when it is left", () =>
  withServer([says([hello()], "stay"), says([hello()], "stay")], async (server) => {
    server.route = ({ path }) => (path === "/v1/runs" ? { status: 200, body: { items: [] } } : undefined);
    const abort = new AbortController();
    const watch = server.client().watchSession(sessionID, { signal: abort.signal });
    assert.equal((await watch.next()).value?.type, "hello");
    setTimeout(() => { abort.abort(new Error("enough")); }, 10);
    await assert.rejects(watch.next(), /enough/);
    const other = server.client().watchSession(sessionID);
    await other.next();
    const waiting = other.next();
    await other.return();
    assert.deepEqual(await waiting, { done: true, value: undefined });
  }));

test("frames of one run come in the order of the wire while another is carried", () =>
  withServer([says([hello(), hello(0, 0, otherRun), output(0, "a"), output(0, "x", "stdout", otherRun), output(1, "b"), exit(2), exit(1, 0, otherRun)], "stay")], async (server) => {
    server.route = ({ path }) => (path === "/v1/runs" ? { status: 200, body: { items: [] } } : undefined);
    const seen: string[] = [];
    const say = (f: Frame): string => `${f.type} ${f.run === runID ? 1 : 2}`;
    for await (const f of server.client().watchSession(sessionID)) if (seen.push(say(f)) === 7) break;
    assert.deepEqual(seen, ["hello 1", "hello 2", "output 1", "output 2", "output 1", "exit 1", "exit 2"]);
  }));
