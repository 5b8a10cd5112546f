// Goes on from a saved state, as one forks a chain: nothing here reaches another chain, or could.
// silk run -p lab:evm --dir examples/labs/evm -- node rehearse.mjs
import fs from "node:fs";
import { ethers } from "ethers";
import { Chain, compile, reason } from "silk-chain";

const state = JSON.parse(fs.readFileSync("state.json", "utf8")); // of: silk run counter.sol -- --call 'add(42)' --save-state state.json
const [address] = Object.entries(state.alloc).find(([, { code }]) => code);
const chain = await Chain.create({ state });
const { abi } = compile("counter.sol")[0];
const counter = new ethers.Contract(address, abi, await new ethers.BrowserProvider(chain).getSigner());

console.log(`block ${chain.latest.header.number} of chain ${chain.chainId}: the counter is at ${await counter.total()}`);
await (await counter.add(8)).wait();
console.log(`after adding 8 it is at ${await counter.total()}`);

const refused = await chain.call({ to: counter.target, data: counter.interface.encodeFunctionData("add", [0]) });
console.log(`adding 0 is refused: ${reason(refused)}`);

try {
  await fetch("http://127.0.0.1:8545");
} catch (error) {
  console.log(`nobody listens where nobody was started: ${error.cause.code}`);
}
