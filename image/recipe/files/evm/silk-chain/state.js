// The state of a chain as a file: the "alloc" of a genesis, {address: {balance, nonce, code, storage}}, as geth writes it.
import { bytesToHex, createAccount, createAddressFromString, hexToBytes, setLengthLeft } from "@ethereumjs/util";

// load puts what the file says over what is there. A fault names its address.
export async function load(store, { alloc }) {
  if (typeof alloc !== "object" || alloc === null) throw new Error('the state has no "alloc": {address: {balance, nonce, code, storage}}');
  for (const [key, { balance = 0, nonce = 0, code = "0x", storage = {} }] of Object.entries(alloc)) {
    try {
      const address = createAddressFromString(key.startsWith("0x") ? key : `0x${key}`);
      await store.putAccount(address, createAccount({ balance: BigInt(balance), nonce: BigInt(nonce) }));
      if (code !== "0x") await store.putCode(address, hexToBytes(code));
      for (const [slot, value] of Object.entries(storage)) await store.putStorage(address, word(slot), trimmed(word(value)));
    } catch (error) {
      throw new Error(`the state of ${key}: ${error.message}`, { cause: error });
    }
  }
}

const word = (hex) => setLengthLeft(hexToBytes(hex.length % 2 ? hex.replace("0x", "0x0") : hex), 32);

// trimmed is a stored value as the machine keeps it: without leading zeros.
function trimmed(bytes) {
  const first = bytes.findIndex((b) => b !== 0);
  return first < 0 ? new Uint8Array(0) : bytes.slice(first);
}

// dump reads the topmost layer of the store, which holds all that the lower ones do.
export function dump(store) {
  const alloc = {};
  for (const [address, account] of [...store.accountStack.at(-1)].sort()) {
    if (account) alloc[address] = { balance: `0x${account.balance.toString(16)}`, nonce: `0x${account.nonce.toString(16)}` };
  }
  for (const [address, code] of store.codeStack.at(-1)) if (alloc[address] && code.length > 0) alloc[address].code = bytesToHex(code);
  for (const [key, value] of [...store.storageStack.at(-1)].sort()) {
    const [address, slot] = key.split("_");
    if (alloc[address] && value.some((b) => b !== 0)) (alloc[address].storage ??= {})[slot] = bytesToHex(setLengthLeft(value, 32));
  }
  return alloc;
}
