import { AbiCoder } from "ethers";

// The codes of Panic(uint256), from the documentation of Solidity.
const panics = {
  0x01: "assertion failed", 0x11: "arithmetic overflow or underflow", 0x12: "division by zero", 0x21: "no such value of an enum", 0x22: "storage is corrupt",
  0x31: "pop of an empty array", 0x32: "index out of bounds", 0x41: "too much memory", 0x51: "call of an internal function that is not set",
};

// reason says in words why a call came to nothing: {error, output} of a receipt or a call. interfaces, if given, know
// errors of a contract's own.
export function reason({ error, output = "0x" }, interfaces = []) {
  if (error !== "revert") return error ?? "";
  if (output === "0x") return "no reason given";
  const body = `0x${output.slice(10)}`;
  try {
    if (output.startsWith("0x08c379a0")) return AbiCoder.defaultAbiCoder().decode(["string"], body)[0];
    if (output.startsWith("0x4e487b71")) {
      const [code] = AbiCoder.defaultAbiCoder().decode(["uint256"], body);
      return panics[Number(code)] ?? `panic ${code}`;
    }
  } catch {
    return output; // a contract may return anything
  }
  for (const each of interfaces) {
    const known = each.parseError(output);
    if (known) return `${known.name}(${known.args.map(String).join(", ")})`;
  }
  return output;
}
