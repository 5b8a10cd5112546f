import fs from "node:fs";
import path from "node:path";
import solc from "solc";

export class CompileError extends Error {}

// compile compiles a file of Solidity with what it imports: relative to the file, else from /usr/share/nodejs. It returns the
// contracts of the file itself first: [{name, file, abi, bytecode, size}]. warn is told what the compiler warns of.
export function compile(file, { optimize = true, warn = () => {} } = {}) {
  const name = path.basename(file);
  const input = {
    language: "Solidity",
    sources: { [name]: { content: fs.readFileSync(file, "utf8") } },
    settings: { evmVersion: "prague", optimizer: { enabled: optimize }, outputSelection: { "*": { "*": ["abi", "evm.bytecode", "evm.deployedBytecode.object"] } } },
  };
  const beside = path.dirname(file);
  const imported = (wanted) => {
    for (const dir of [beside, "/usr/share/nodejs"]) {
      try {
        return { contents: fs.readFileSync(path.join(dir, wanted), "utf8") };
      } catch (error) {
        if (error.code !== "ENOENT") return { error: error.message };
      }
    }
    return { error: `no file ${wanted} beside ${name}` };
  };
  const { contracts = {}, errors = [] } = JSON.parse(solc.compile(JSON.stringify(input), { import: imported }));
  for (const { severity, formattedMessage } of errors) if (severity !== "error") warn(formattedMessage);
  const wrong = errors.filter(({ severity }) => severity === "error");
  if (wrong.length > 0) throw new CompileError(wrong.map(({ formattedMessage }) => formattedMessage).join("\n"));

  const all = Object.entries(contracts).flatMap(([from, inside]) =>
    Object.entries(inside).map(([contract, { abi, evm }]) => ({
      name: contract, file: from, abi, bytecode: `0x${evm.bytecode.object}`, size: evm.deployedBytecode.object.length / 2,
      links: Object.values(evm.bytecode.linkReferences ?? {}).flatMap(Object.keys),
    })),
  );
  return all.sort((a, b) => Number(b.file === name) - Number(a.file === name));
}
