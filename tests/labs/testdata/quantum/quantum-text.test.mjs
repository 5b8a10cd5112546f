import assert from "node:assert/strict";
import { test } from "node:test";
import { amplitudes, beforeMeasurement, includes, label, version } from "/usr/lib/silk/quantum-text.mjs";

test("labels", () => {
  for (const [result, want] of [["[Zero, One]", "01"], ["(One, One)", "11"], ["One", "1"], ["([One, Zero], 5)", "(10, 5)"], ["([One], Zero)", "(1, 0)"], ["[1, 2]", "[1, 2]"], ["(One, 3)", "(1, 3)"]]) {
    assert.equal(label(result), want);
  }
});

test("amplitudes", () => {
  const captured = [{ name: "|01⟩", value: "0.7071+0.0000𝑖" }, { name: "|10⟩", value: "−0.5000−0.5000𝑖" }, { name: "|11⟩", value: "1.0e-4+0.0000𝑖" }];
  assert.deepEqual(amplitudes(captured), [["01", 0.7071, 0], ["10", -0.5, -0.5], ["11", 1e-4, 0]]);
});

test("where to stop for the state", () => {
  const text = '// measure nothing here\nh q;\nfor uint i in [0:1] { c[i] = measure q[i]; }\nx q;\n';
  const place = (id, line, from, to) => ({ id, range: { start: { line, character: from }, end: { line, character: to } } });
  const places = [place(0, 1, 0, 4), place(1, 2, 0, 45), place(2, 2, 22, 42), place(3, 3, 0, 4)];
  assert.equal(beforeMeasurement(text, places).id, 2);
  assert.equal(beforeMeasurement(text.replaceAll("measure", "moisten"), places).id, 3);
  assert.equal(beforeMeasurement("", []), undefined);
});

test("includes", () => {
  assert.deepEqual(includes('include "stdgates.inc";\n// include "a.inc";\n/* include "b.inc"; */ include "my/c.inc";'), ["my/c.inc"]);
});

test("versions", () => {
  assert.equal(version("/* */ // x\nOPENQASM 2.0;", true), "OpenQASM 2.0");
  assert.equal(version("qubit q;", true), "OpenQASM 3");
  assert.equal(version("", false), "Q#");
});
