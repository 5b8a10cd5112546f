import { bytesToHex } from "@ethereumjs/util";
import { Interface } from "ethers";
import { reason } from "./reason.js";

// watch follows the calls in a machine. tree() is the last message with all that it called: {kind, to, input, value, gasUsed,
// output, error, calls}.
export function watch(vm) {
  let root, open;
  vm.evm.events.on("beforeMessage", (m) => {
    const node = {
      kind: m.to ? (m.delegatecall ? "delegatecall" : m.isStatic ? "staticcall" : "call") : "create",
      to: m.to ? m.codeAddress.toString() : null, input: bytesToHex(m.data), value: m.value, calls: [],
    };
    (open.at(-1)?.calls ?? root).push(node);
    open.push(node);
  });
  vm.evm.events.on("afterMessage", ({ execResult, createdAddress }) => {
    const node = open.pop();
    node.gasUsed = execResult.executionGasUsed;
    node.output = bytesToHex(execResult.returnValue);
    node.error = execResult.exceptionError?.error;
    if (node.kind === "create") node.to = createdAddress?.toString() ?? null;
  });
  const clear = () => {
    root = [];
    open = [];
  };
  clear();
  return { clear, tree: () => root[0] };
}

// Names gives messages the names that contracts and functions have in the source.
class Names {
  constructor(contracts, seen) {
    this.contracts = contracts.map((c) => ({ ...c, interface: new Interface(c.abi) }));
    this.interfaces = this.contracts.map((c) => c.interface);
    this.at = new Map(); // contracts that were seen to be created, by address
    const look = (node) => {
      if (node.kind === "create") this.of(node);
      node.calls.forEach(look);
    };
    seen.forEach(look);
  }

  of(node) {
    if (node.kind === "create") {
      const made = this.contracts.filter((c) => c.bytecode !== "0x" && node.input.startsWith(c.bytecode)).sort((a, b) => b.bytecode.length - a.bytecode.length)[0];
      if (made && node.to) this.at.set(node.to, made);
      return { contract: made?.name ?? "a contract", call: "(deployment)" };
    }
    const known = this.at.get(node.to);
    const parsed = node.input.length >= 10 ? (known ? [known.interface] : this.interfaces).map((i) => i.parseTransaction({ data: node.input })).find(Boolean) : null;
    const call = parsed ? `${parsed.name}(${parsed.args.map(String).join(", ")})` : node.input === "0x" ? "(receive)" : node.input.slice(0, 10);
    return { contract: known?.name ?? node.to, call, signature: parsed?.signature ?? call };
  }
}

// render writes trees of calls as text, one line each, indented. contracts are what compile returned; seen are the trees in
// which the contracts were created.
export function render(trees, contracts, seen = trees) {
  const names = new Names(contracts, seen);
  const lines = [];
  const line = (node, depth) => {
    const { contract, call } = names.of(node);
    const how = node.kind === "call" || node.kind === "create" ? "" : ` [${node.kind}]`;
    const value = node.value > 0n ? ` value ${node.value}` : "";
    const end = node.error ? `  ${node.error === "revert" ? "reverted" : "failed"}: ${reason(node, names.interfaces)}` : node.output !== "0x" && node.kind !== "create" ? `  -> ${short(node.output)}` : "";
    lines.push(`${"  ".repeat(depth)}${contract}.${call}${how}${value}  gas ${node.gasUsed}${end}`);
    for (const each of node.calls) line(each, depth + 1);
  };
  for (const tree of trees) line(tree, 0);
  return lines.map((text) => `${text.replace(".(deployment)", " (deployment)")}\n`).join("");
}

const short = (output) => (output.length <= 66 ? BigInt(output).toString() : `${output.slice(0, 66)}...`);

// gasReport is what each function of the contracts took, from trees of calls: [{name, calls, least, mean, most}].
export function gasReport(trees, contracts) {
  const names = new Names(contracts, trees);
  const all = new Map();
  const count = (node) => {
    const { contract, call, signature } = names.of(node);
    const name = `${contract} ${signature ?? call}`;
    if (!contract.startsWith("0x")) all.set(name, [...(all.get(name) ?? []), node.gasUsed]);
    node.calls.forEach(count);
  };
  trees.forEach(count);
  return [...all].map(([name, used]) => {
    const sorted = used.map(Number).sort((a, b) => a - b);
    return { name, calls: sorted.length, least: sorted[0], mean: Math.round(sorted.reduce((a, b) => a + b) / sorted.length), most: sorted.at(-1) };
  });
}
