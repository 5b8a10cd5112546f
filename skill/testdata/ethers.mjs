// Makes ethers.json, manifests that ethers has signed: npm install ethers@6 canonicalize@2 && node ethers.mjs > ethers.json
import canonicalize from "canonicalize";
import { Signature, SigningKey, computeAddress, keccak256, toUtf8Bytes } from "ethers";

const hash = (c) => c.repeat(64);
const plain = {
  version: "1",
  name: "price-check",
  publisher: { name: "Ann", address: "", contact: "ann@example.org" },
  permissions: { txActions: ["transfer", "swap_exact_in"], chains: [1, 8453], networkAccess: true, filesystemAccess: false },
  sandbox: { memoryMb: 128, timeoutMs: 30000, allowSpawn: false },
  files: [{ path: "index.js", sha256: hash("a") }],
};
const cases = [
  ["plain", "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", plain],
  ["text that JSON escapes", "0x" + "0".repeat(63) + "1", {
    ...plain,
    publisher: { ...plain.publisher, name: "Zoë \u2028 <b>\u007f\u0001\u20ac😀 \"\\/" },
    permissions: { ...plain.permissions, txActions: [], chains: [9007199254740991] },
  }],
  ["many files", "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d", {
    ...plain, name: "a".repeat(64), sandbox: { memoryMb: 512, timeoutMs: 60000, allowSpawn: true },
    files: ["main.py", "lib/é.py", "data/1.json"].map((path, i) => ({ path, sha256: hash(String(i)) })),
  }],
];
const vectors = cases.map(([name, key, manifest], i) => {
  let address = computeAddress(key); // with EIP-55's upper case
  if (i === 0) address = address.toLowerCase();
  const unsigned = { ...manifest, publisher: { ...manifest.publisher, address } };
  const canonical = canonicalize(unsigned);
  const digest = keccak256(toUtf8Bytes(canonical));
  const signature = Signature.from(new SigningKey(key).sign(digest)).serialized;
  return { name, key, address, canonical, hash: digest, manifest: { ...unsigned, signature } };
});
console.log(JSON.stringify(vectors, null, 2));
