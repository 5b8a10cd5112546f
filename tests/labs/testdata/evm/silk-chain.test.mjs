import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { ethers } from "ethers";
import { Chain, CompileError, compile, gasReport, reason, render } from "silk-chain";

const source = `// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;
contract Box {
    uint256[] public kept;
    error Full(uint256 size, string why);
    event Kept(uint256 what);
    function put(uint256 x) external { if (kept.length == 2) revert Full(2, "no room"); kept.push(x); emit Kept(x); }
    function nothing() external pure { revert(); }
    function wrong(uint256 i) external view returns (uint256) { return kept[i] / (i - 1); }
    function forever() external pure { while (true) {} }
}`;
fs.writeFileSync("box.sol", source);
const contracts = compile("box.sol");
const box = new ethers.Interface(contracts[0].abi);
const deployed = async (chain) => (await chain.send({ data: contracts[0].bytecode })).contract;

test("reasons", async () => {
  const chain = await Chain.create();
  const to = await deployed(chain);
  const ask = async (method, ...args) => reason(await chain.call({ to, data: box.encodeFunctionData(method, args) }), [box]);
  for (const x of [7, 8]) await chain.send({ to, data: box.encodeFunctionData("put", [x]) });
  assert.equal(await ask("put", 9), "Full(2, no room)");
  assert.equal(await ask("nothing"), "no reason given");
  assert.equal(await ask("wrong", 5), "index out of bounds");
  assert.equal(await ask("wrong", 0), "arithmetic overflow or underflow");
  assert.equal(await ask("wrong", 1), "division by zero");
  assert.equal(reason(await chain.call({ to, data: box.encodeFunctionData("forever"), gas: 50_000n })), "out of gas");
});

test("a failed transaction is in a block, and its calls are told", async () => {
  const chain = await Chain.create();
  const made = await chain.send({ data: contracts[0].bytecode });
  const failed = await chain.send({ to: made.contract, data: box.encodeFunctionData("nothing") });
  assert.deepEqual([failed.ok, chain.latest.header.number], [false, 2n]);
  const trees = [made.trace, failed.trace];
  assert.match(render(trees, contracts), /^Box \(deployment\)  gas \d+\nBox\.nothing\(\)  gas \d+  reverted: no reason given\n$/);
  assert.match(render([failed.trace], contracts, trees), /^Box\.nothing/);
  assert.deepEqual(gasReport(trees, contracts).map(({ name, calls }) => [name, calls]), [["Box (deployment)", 1], ["Box nothing()", 1]]);
});

test("snapshots", async () => {
  const chain = await Chain.create();
  const to = await deployed(chain);
  const before = await chain.request({ method: "evm_snapshot" });
  await chain.send({ to, data: box.encodeFunctionData("put", [1]) });
  assert.equal(await chain.request({ method: "evm_revert", params: [before] }), true);
  assert.equal(await chain.request({ method: "evm_revert", params: [before] }), false);
  assert.equal(chain.latest.header.number, 1n);
  assert.equal((await chain.call({ to, data: box.encodeFunctionData("kept", [0]) })).error, "revert");
});

test("a state goes on elsewhere", async () => {
  const chain = await Chain.create();
  const to = await deployed(chain);
  await chain.send({ to, data: box.encodeFunctionData("put", [0xabcd]) });
  const state = JSON.parse(JSON.stringify(chain.dump()));
  const forked = await Chain.create({ state });
  assert.equal(BigInt((await forked.call({ to, data: box.encodeFunctionData("kept", [0]) })).output), 0xabcdn);
  assert.deepEqual(forked.dump(), state);
  await assert.rejects(Chain.create({ state: { alloc: { "0x12": {} } } }), /the state of 0x12: /);
  await assert.rejects(Chain.create({ state: {} }), /no "alloc"/);
});

test("what it does not know it says", async () => {
  const chain = await Chain.create();
  await assert.rejects(chain.request({ method: "eth_sign" }), { code: -32601 });
  await assert.rejects(chain.send({ from: `0x${"12".repeat(20)}` }), /no account of this chain/);
});

test("a fault in a source", () => {
  fs.writeFileSync("bad.sol", 'pragma solidity ^0.8.0;\nimport "./none.sol";\ncontract A { uint x = "a"; }');
  assert.throws(() => compile("bad.sol"), (error) => error instanceof CompileError && /no file none\.sol beside bad\.sol/.test(error.message));
});
