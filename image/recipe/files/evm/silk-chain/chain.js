import { createBlock } from "@ethereumjs/block";
import { Common, Hardfork, Mainnet } from "@ethereumjs/common";
import { SimpleStateManager } from "@ethereumjs/statemanager";
import { createLegacyTx, createTxFromRLP } from "@ethereumjs/tx";
import { bytesToHex, createAccount, createAddressFromPrivateKey, createAddressFromString, createZeroAddress, hexToBytes } from "@ethereumjs/util";
import { createVM, runTx } from "@ethereumjs/vm";
import { id } from "ethers";
import { listen, request } from "./rpc.js";
import { dump, load } from "./state.js";
import { watch } from "./trace.js";

export const gasLimit = 30_000_000n; // of a block, and of a call that names none
export const gasPrice = 1_000_000_000n; // one gwei, always
const start = 1_700_000_000n; // seconds: when the first block comes
const interval = 12n; // seconds between blocks
const balance = 10_000n * 10n ** 18n; // of each account

export class Chain {
  // create makes a chain with ten accounts. state, if given, is what an earlier chain's dump() returned, or a genesis with
  // "alloc": the chain goes on from there.
  static async create({ state, chainId = state?.chainId ?? 31337 } = {}) {
    const chain = new Chain();
    chain.common = new Common({ chain: { ...Mainnet, chainId, name: "silk" }, hardfork: Hardfork.Prague });
    chain.store = new SimpleStateManager({ common: chain.common });
    chain.vm = await createVM({ common: chain.common, stateManager: chain.store });
    chain.trace = watch(chain.vm);
    chain.accounts = Array.from({ length: 10 }, (_, i) => {
      const key = hexToBytes(id(`silk-chain: a key that is worth nothing, number ${i}`));
      return { key, privateKey: bytesToHex(key), address: createAddressFromPrivateKey(key).toString() };
    });
    for (const { address } of chain.accounts) await chain.store.putAccount(createAddressFromString(address), createAccount({ balance }));
    if (state) await load(chain.store, state);
    chain.blocks = [chain.block(BigInt(state?.number ?? 0), BigInt(state?.timestamp ?? start))];
    chain.receipts = new Map(); // by hash of the transaction
    chain.snapshots = [];
    chain.ahead = 0n; // seconds by which the next block comes later
    return chain;
  }

  get chainId() {
    return Number(this.common.chainId());
  }

  get latest() {
    return this.blocks.at(-1);
  }

  block(number, timestamp, parent) {
    const header = { number, timestamp, gasLimit, baseFeePerGas: gasPrice, ...(parent && { parentHash: parent.hash() }) };
    return createBlock({ header }, { common: this.common });
  }

  next() {
    const { number, timestamp } = this.latest.header;
    return this.block(number + 1n, timestamp + interval + this.ahead, this.latest);
  }

  async mine() {
    this.blocks.push(this.next());
    this.ahead = 0n;
  }

  async nonce(address) {
    return (await this.store.getAccount(createAddressFromString(address)))?.nonce ?? 0n;
  }

  // send executes a transaction of one of the accounts, and returns its receipt. One that fails is in a block too.
  async send({ from = this.accounts[0].address, to, data = "0x", value = 0n, gas = gasLimit }) {
    const account = this.accounts.find(({ address }) => address === from.toLowerCase());
    if (!account) throw new Error(`no account of this chain is ${from}: there are its own ten, and signed transactions`);
    return this.include((await this.unsigned({ from, to, data, value, gas })).sign(account.key));
  }

  async unsigned({ from, to, data, value, gas }) {
    return createLegacyTx({ nonce: await this.nonce(from), gasLimit: gas, gasPrice, to: to ?? undefined, data, value }, { common: this.common });
  }

  // sendRaw executes a signed transaction, in hexadecimal.
  async sendRaw(raw) {
    return this.include(createTxFromRLP(hexToBytes(raw), { common: this.common }));
  }

  async include(tx) {
    const block = this.next();
    this.trace.clear();
    const result = await runTx(this.vm, { tx, block, skipBlockGasLimitValidation: true });
    this.ahead = 0n;
    this.blocks.push(block);
    const hash = bytesToHex(tx.hash());
    const receipt = {
      hash, tx, block,
      from: tx.getSenderAddress().toString(), to: tx.to?.toString() ?? null,
      contract: result.createdAddress?.toString() ?? null,
      ok: result.receipt.status === 1,
      gasUsed: result.totalGasSpent,
      output: bytesToHex(result.execResult.returnValue),
      error: result.execResult.exceptionError?.error,
      logs: result.receipt.logs.map(([address, topics, data]) => ({ address: bytesToHex(address), topics: topics.map(bytesToHex), data: bytesToHex(data) })),
      trace: this.trace.tree(),
    };
    this.receipts.set(hash, receipt);
    return receipt;
  }

  // call executes a message and takes its effects back.
  async call({ from, to, data = "0x", value = 0n, gas = gasLimit }) {
    this.trace.clear();
    const sender = from ? createAddressFromString(from) : createZeroAddress();
    await this.store.checkpoint();
    try {
      const { execResult } = await this.vm.evm.runCall({
        caller: sender, origin: sender, to: to ? createAddressFromString(to) : undefined,
        data: hexToBytes(data), value, gasLimit: gas, gasPrice, block: this.next(), skipBalance: true,
      });
      return { output: bytesToHex(execResult.returnValue), error: execResult.exceptionError?.error, gasUsed: execResult.executionGasUsed, trace: this.trace.tree() };
    } finally {
      await this.store.revert();
    }
  }

  // estimate is how much gas a transaction takes, or the failed receipt of one that fails.
  async estimate({ from = this.accounts[0].address, to, data = "0x", value = 0n }) {
    const before = await this.snapshot();
    let receipt;
    try {
      const signed = (await this.unsigned({ from, to, data, value, gas: gasLimit })).sign(this.accounts[0].key);
      const sender = createAddressFromString(from); // who asks need not be one of ours, nor sign
      receipt = await this.include(Object.create(signed, { getSenderAddress: { value: () => sender } }));
    } finally {
      await this.revert(before);
    }
    // A caller keeps one part in 64 of its gas back, and what is refunded is needed first (EIP-150, EIP-3529).
    return receipt.ok ? (receipt.gasUsed * 5n) / 4n + 5000n : receipt;
  }

  async snapshot() {
    await this.store.checkpoint();
    return this.snapshots.push({ blocks: this.blocks.length, ahead: this.ahead });
  }

  // revert goes back to a snapshot, which with all later ones is used up.
  async revert(id) {
    if (!(id >= 1 && id <= this.snapshots.length)) return false;
    let kept;
    while (this.snapshots.length >= id) {
      kept = this.snapshots.pop();
      await this.store.revert();
    }
    this.blocks.length = kept.blocks;
    this.ahead = kept.ahead;
    for (const [hash, { block }] of this.receipts) if (!this.blocks.includes(block)) this.receipts.delete(hash);
    return true;
  }

  dump() {
    const { number, timestamp } = this.latest.header;
    return { chainId: this.chainId, number: Number(number), timestamp: Number(timestamp), alloc: dump(this.store) };
  }

  // request answers JSON-RPC, as EIP-1193 has it.
  request({ method, params = [] }) {
    return request(this, method, params);
  }

  // listen serves JSON-RPC at http://127.0.0.1:port, and returns the server with its url.
  listen(port = 8545) {
    return listen(this, port);
  }
}
