// node /usr/lib/silk/evm.mjs FILE.sol [--call 'Contract.f(1, "x")']... [--state FILE] [--save-state FILE] [--trace]
//
// compiles a file of Solidity and runs it on a chain inside this process. Contracts with functions test*() are tests: each
// function runs on a fresh deployment, after setUp(), and one that reverts has failed. Without tests every contract whose
// constructor takes nothing is deployed, the calls are made, and what can be read without arguments is shown.
//
// Left behind: contracts.json (ABI and bytecode), gas.json, and trace.txt of what failed or, with --trace, of everything.
import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { Interface } from "../../share/nodejs/ethers/lib.esm/index.js";
import { Chain, CompileError, compile, gasReport, reason, render } from "../../share/nodejs/silk-chain/index.js";

class Refused extends Error {} // a sentence for the user is all there is to say

function options() {
  const text = { type: "string" };
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { call: { ...text, multiple: true, default: [] }, state: text, "save-state": text, trace: { type: "boolean", default: false } },
    });
    if (positionals.length !== 1) throw new Error("name one file: FILE.sol");
    return { file: positionals[0], ...values };
  } catch (error) {
    throw new Refused(error.message);
  }
}

function readState(name) {
  try {
    return JSON.parse(fs.readFileSync(name, "utf8"));
  } catch (error) {
    throw new Refused(`read the state ${name}: ${error.message}`);
  }
}

const write = (name, value) => fs.writeFileSync(name, typeof value === "string" ? value : `${JSON.stringify(value, null, 1)}\n`);
const plain = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? v.toString() : v)).replaceAll('"', "");
const column = (n) => String(n).padStart(10);

// Lab is one run: the chain, what was compiled, and every tree of calls.
class Lab {
  constructor(chain, contracts, main) {
    Object.assign(this, { chain, contracts, main, trees: [], failures: [], failed: 0 });
    this.interfaces = contracts.map(({ abi }) => new Interface(abi));
  }

  why(receipt) {
    return reason(receipt, this.interfaces);
  }

  async send(transaction) {
    const receipt = await this.chain.send(transaction);
    this.trees.push(receipt.trace);
    if (!receipt.ok) this.failures.push(receipt.trace);
    return receipt;
  }

  async deploy(contract) {
    if (contract.links.length > 0) throw new Refused(`${contract.name} is to be linked with ${contract.links.join(", ")}, which is not supported: make its functions internal`);
    const receipt = await this.send({ data: contract.bytecode });
    if (!receipt.ok) throw new Refused(`${contract.name} could not be deployed: ${this.why(receipt)}`);
    return { ...contract, interface: new Interface(contract.abi), address: receipt.contract, gas: receipt.gasUsed };
  }

  async runTests(contract) {
    const test = await this.deploy(contract);
    const encode = (name) => ({ to: test.address, data: test.interface.encodeFunctionData(name) });
    for (const name of testsOf(contract)) {
      const before = await this.chain.snapshot();
      const ready = test.interface.hasFunction("setUp()") ? await this.send(encode("setUp()")) : { ok: true };
      const receipt = ready.ok ? await this.send(encode(name)) : ready;
      const what = `${contract.name}.${name}`;
      if (receipt.ok) {
        console.log(`ok      ${what}  gas ${receipt.gasUsed}`);
      } else {
        this.failed++;
        console.log(`failed  ${what}: ${ready.ok ? "" : "setUp() "}reverted: ${this.why(receipt)}`);
      }
      this.events(receipt);
      await this.chain.revert(before);
    }
  }

  events({ logs = [] }) {
    for (const log of logs) {
      const event = this.interfaces.map((i) => i.parseLog(log)).find(Boolean);
      if (event) console.log(`        event ${event.name}(${event.args.map(plain).join(", ")})`);
    }
  }

  async runPlain(calls) {
    const deployed = [];
    for (const contract of this.contracts.filter(({ file }) => file === this.main)) {
      const constructor = contract.abi.find(({ type }) => type === "constructor");
      if (contract.bytecode === "0x") continue; // an interface, or abstract
      if (constructor?.inputs.length > 0) {
        console.log(`${contract.name} is not deployed: its constructor takes arguments`);
        continue;
      }
      const made = await this.deploy(contract);
      deployed.push(made);
      console.log(`${made.name} at ${made.address}  gas ${made.gas}, ${made.size} bytes`);
    }
    for (const text of calls) await this.call(text, deployed);
    for (const each of deployed) await this.show(each);
  }

  // call makes one --call: a transaction, whose result is what a call would have returned.
  async call(text, deployed) {
    const [, name, method, list] = /^(?:(\w+)\.)?(\w+)\((.*)\)$/s.exec(text) ?? [];
    const target = deployed.find((d) => (!name || d.name === name) && method && d.interface.hasFunction(method));
    if (!target) throw new Refused(`--call ${text}: no deployed contract has that function; write Contract.function(1, "two")`);
    let args;
    try {
      args = JSON.parse(`[${list.replace(/(?<!")\b0x[0-9a-fA-F]+\b(?!")/g, '"$&"').replace(/\baccount(\d)\b/g, (_, i) => `"${this.chain.accounts[i].address}"`)}]`);
      args = target.interface.encodeFunctionData(method, args);
    } catch (error) {
      throw new Refused(`--call ${text}: ${error.shortMessage ?? error.message}`);
    }
    const receipt = await this.send({ to: target.address, data: args });
    if (receipt.ok) {
      const values = target.interface.decodeFunctionResult(method, receipt.output);
      console.log(`ok      ${text}${values.length > 0 ? ` -> ${values.map(plain).join(", ")}` : ""}  gas ${receipt.gasUsed}`);
    } else {
      this.failed++;
      console.log(`failed  ${text}: reverted: ${this.why(receipt)}`);
    }
    this.events(receipt);
  }

  // show prints what can be read of a contract without arguments.
  async show(target) {
    for (const f of target.interface.fragments) {
      if (f.type !== "function" || f.inputs.length > 0 || f.outputs.length === 0 || !["view", "pure"].includes(f.stateMutability)) continue;
      const result = await this.chain.call({ to: target.address, data: target.interface.encodeFunctionData(f) });
      const value = result.error ? `reverted: ${this.why(result)}` : target.interface.decodeFunctionResult(f, result.output).map(plain).join(", ");
      console.log(`        ${target.name}.${f.name}() is ${value}`);
    }
  }

  report(everything) {
    const gas = gasReport(this.trees, this.contracts);
    const width = Math.max(...gas.map(({ name }) => name.length), 0);
    if (gas.length > 0) console.log(`\n${"gas".padEnd(width)}${["calls", "least", "mean", "most"].map(column).join("")}`);
    for (const { name, calls, least, mean, most } of gas) console.log(name.padEnd(width) + [calls, least, mean, most].map(column).join(""));
    write("gas.json", gas);
    const trees = everything ? this.trees : this.failures;
    if (trees.length === 0) return;
    write("trace.txt", render(trees, this.contracts, this.trees));
    if (this.failures.length > 0) console.error(`\nwhat failed, call by call:\n${render(this.failures, this.contracts, this.trees)}`.trimEnd());
  }
}

const testsOf = ({ abi }) => abi.filter(({ type, name, inputs }) => type === "function" && /^test/.test(name) && inputs.length === 0).map(({ name }) => `${name}()`);

async function main() {
  const asked = options();
  const state = asked.state && readState(asked.state);
  const contracts = compile(asked.file, { warn: (text) => console.error(text.trimEnd()) });
  const main = path.basename(asked.file);
  write("contracts.json", contracts.map(({ name, file, abi, bytecode, size }) => ({ name, file, size, abi, bytecode })));

  const lab = new Lab(await Chain.create({ state }), contracts, main);
  const tests = contracts.filter((c) => c.file === main && c.bytecode !== "0x" && testsOf(c).length > 0);
  if (tests.length > 0 && asked.call.length > 0) throw new Refused("--call is for files without tests");
  for (const contract of tests) await lab.runTests(contract);
  if (tests.length === 0) await lab.runPlain(asked.call);
  lab.report(asked.trace);
  if (asked["save-state"]) write(asked["save-state"], lab.chain.dump());
  return lab.failed === 0 ? 0 : 1;
}

main().then(
  (status) => {
    process.exitCode = status;
  },
  (error) => {
    console.error(error instanceof CompileError ? error.message : error instanceof Refused || error?.code === "ENOENT" ? `evm: ${error.message}` : error);
    process.exitCode = error instanceof Refused ? 2 : 1;
  },
);
