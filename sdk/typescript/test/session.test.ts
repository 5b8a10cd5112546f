import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { Frame } from "../src/index.js";
import { exit, hello, otherRun, output, runID, says, sessionID, withServer, type Script } from "./fake.js";

const run = (id: string): object => ({ run: id, state: "running", profile: "p", client: "api", accepted_at_ms: 1 });

test("a run whose session's connection breaks goes on at the byte, and one that came meanwhile from its begin", () => {
  const paths: string[] = [];
  const apart: Record<string, Script> = {
    [runID]: says([hello(2), output(2, "cd"), exit(4)]),
    [otherRun]: says([hello(0, 0, otherRun), output(0, "new", "stdout", otherRun), exit(3, 0, otherRun)]),
  };
  const any: Script = (ws, query, path) => {
    paths.push(`${path}?${query.get("stdout") ?? ""}`);
    const id = path.split("/")[3] ?? "";
    const script = path.includes("/sessions/") ? says([hello(0, 0, otherRun), output(0, "n", "stdout", otherRun)], "stay") : apart[id];
    return script?.(ws, query, path);
  };
  return withServer([says([hello(), output(0, "ab")], "cut"), any, any, any], async (server) => {
    let lists = 0;
    server.route = ({ path, query }) => {
      if (path !== "/v1/runs") return undefined;
      assert.equal(query.get("session"), sessionID);
      return { status: 200, body: { items: lists++ === 0 ? [] : [run(otherRun), run(runID)] } };
    };
    const out = new Map<string, string>();
    let ends = 0;
    const hellos: (string | undefined)[] = [];
    for await (const f of server.client().watchSession(sessionID)) {
      if (f.type === "hello") hellos.push(f.run);
      if (f.type === "output") out.set(f.run, (out.get(f.run) ?? "") + new TextDecoder().decode(f.bytes));
      if (f.type === "exit" && ++ends === 2) break;
    }
    assert.deepEqual([...out], [[runID, "abcd"], [otherRun, "new"]]);
    assert.deepEqual(hellos, [runID, otherRun]);
    assert.deepEqual(paths.sort(), [`/v1/runs/${runID}/stream?2`, `/v1/runs/${otherRun}/stream?0`, `/v1/sessions/${sessionID}/stream?`]);
  });
});

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
