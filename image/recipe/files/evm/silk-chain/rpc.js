// The JSON-RPC of a chain, as far as ethers and viem ask for it.
import http from "node:http";
import { bytesToHex, createAddressFromString, hexToBytes, setLengthLeft } from "@ethereumjs/util";
import { gasLimit, gasPrice } from "./chain.js";
import { reason } from "./reason.js";

const hex = (n) => `0x${BigInt(n).toString(16)}`;
const zeros = (bytes) => `0x${"00".repeat(bytes)}`;

class RPCError extends Error {
  constructor(code, message, data) {
    super(message);
    Object.assign(this, { code, data });
  }
}

// reverted is what nodes answer to a call that comes to nothing: libraries decode the reason from data.
function reverted({ error, output }) {
  return error === "revert" ? new RPCError(3, `execution reverted: ${reason({ error, output })}`, output) : new RPCError(-32000, error);
}

function message({ from, to, data, input, value, gas }) {
  return { from, to, data: input ?? data ?? "0x", value: value ? BigInt(value) : 0n, ...(gas && { gas: BigInt(gas) }) };
}

function blockAt(chain, tag = "latest") {
  if (tag === "earliest") return chain.blocks[0];
  if (!/^0x/.test(tag)) return chain.latest;
  return chain.blocks.find(({ header }) => header.number === BigInt(tag)) ?? null;
}

function showBlock(chain, block, full) {
  if (!block) return null;
  const inside = [...chain.receipts.values()].filter((r) => r.block === block);
  const { number, timestamp, parentHash } = block.header;
  return {
    number: hex(number), hash: bytesToHex(block.hash()), parentHash: bytesToHex(parentHash), timestamp: hex(timestamp),
    nonce: zeros(8), difficulty: "0x0", gasLimit: hex(gasLimit), gasUsed: hex(inside.reduce((sum, r) => sum + r.gasUsed, 0n)), baseFeePerGas: hex(gasPrice),
    miner: zeros(20), extraData: "0x", mixHash: zeros(32), sha3Uncles: zeros(32), logsBloom: zeros(256), stateRoot: zeros(32),
    transactionsRoot: zeros(32), receiptsRoot: zeros(32), size: "0x0", uncles: [], transactions: inside.map((r) => (full ? showTransaction(r) : r.hash)),
  };
}

function showTransaction({ hash, tx, from, to, block }) {
  const json = tx.toJSON();
  return {
    ...json, hash, from, to, input: json.data ?? "0x", gas: json.gasLimit, gasPrice: json.gasPrice ?? hex(gasPrice), type: hex(tx.type),
    blockHash: bytesToHex(block.hash()), blockNumber: hex(block.header.number), transactionIndex: "0x0",
  };
}

function showLogs({ hash, block, logs }) {
  const place = { transactionHash: hash, blockHash: bytesToHex(block.hash()), blockNumber: hex(block.header.number), transactionIndex: "0x0", removed: false };
  return logs.map((log, i) => ({ ...log, ...place, logIndex: hex(i) }));
}

function showReceipt(r) {
  return {
    transactionHash: r.hash, transactionIndex: "0x0", blockHash: bytesToHex(r.block.hash()), blockNumber: hex(r.block.header.number), from: r.from, to: r.to,
    contractAddress: r.contract, status: r.ok ? "0x1" : "0x0", type: hex(r.tx.type), gasUsed: hex(r.gasUsed), cumulativeGasUsed: hex(r.gasUsed),
    effectiveGasPrice: hex(gasPrice), logs: showLogs(r), logsBloom: zeros(256),
  };
}

function logs(chain, { address, topics = [], fromBlock = "latest", toBlock = "latest" }) {
  const first = blockAt(chain, fromBlock)?.header.number ?? BigInt(fromBlock);
  const last = blockAt(chain, toBlock)?.header.number ?? BigInt(toBlock);
  const among = (wanted, value) => wanted === undefined || wanted === null || [wanted].flat().some((w) => w.toLowerCase() === value);
  return [...chain.receipts.values()]
    .filter(({ block: { header } }) => header.number >= first && header.number <= last)
    .flatMap(showLogs)
    .filter((log) => among(address, log.address) && topics.every((wanted, i) => among(wanted, log.topics[i])));
}

const methods = {
  web3_clientVersion: () => "silk-chain",
  net_version: (chain) => String(chain.chainId),
  eth_chainId: (chain) => hex(chain.chainId),
  eth_blockNumber: (chain) => hex(chain.latest.header.number),
  eth_gasPrice: () => hex(gasPrice),
  eth_maxPriorityFeePerGas: () => "0x0",
  eth_feeHistory: (chain) => ({ oldestBlock: hex(chain.latest.header.number), baseFeePerGas: [hex(gasPrice), hex(gasPrice)], gasUsedRatio: [0], reward: [["0x0"]] }),
  eth_accounts: (chain) => chain.accounts.map(({ address }) => address),
  eth_requestAccounts: (chain) => chain.accounts.map(({ address }) => address),
  eth_getBlockByNumber: (chain, tag, full) => showBlock(chain, blockAt(chain, tag), full),
  eth_getBlockByHash: (chain, hash, full) => showBlock(chain, chain.blocks.find((b) => bytesToHex(b.hash()) === hash), full),
  eth_getBalance: async (chain, address) => hex((await chain.store.getAccount(createAddressFromString(address)))?.balance ?? 0n),
  eth_getTransactionCount: async (chain, address) => hex(await chain.nonce(address)),
  eth_getCode: async (chain, address) => bytesToHex(await chain.store.getCode(createAddressFromString(address))),
  eth_getStorageAt: async (chain, address, slot) => bytesToHex(setLengthLeft(await chain.store.getStorage(createAddressFromString(address), setLengthLeft(hexToBytes(hex(slot).replace(/^0x(.(..)*)$/, "0x0$1")), 32)), 32)),
  eth_getTransactionByHash: (chain, hash) => (chain.receipts.has(hash) ? showTransaction(chain.receipts.get(hash)) : null),
  eth_getTransactionReceipt: (chain, hash) => (chain.receipts.has(hash) ? showReceipt(chain.receipts.get(hash)) : null),
  eth_getLogs: logs,
  eth_sendRawTransaction: async (chain, raw) => (await chain.sendRaw(raw)).hash,
  eth_sendTransaction: async (chain, transaction) => (await chain.send(message(transaction))).hash,
  async eth_call(chain, transaction) {
    const result = await chain.call(message(transaction));
    if (result.error) throw reverted(result);
    return result.output;
  },
  async eth_estimateGas(chain, transaction) {
    const result = await chain.estimate(message(transaction));
    if (typeof result !== "bigint") throw reverted(result);
    return hex(result);
  },
  evm_snapshot: async (chain) => hex(await chain.snapshot()),
  evm_revert: (chain, id) => chain.revert(Number(id)),
  evm_mine: (chain) => chain.mine(),
  evm_increaseTime: (chain, seconds) => Number((chain.ahead += BigInt(seconds))),
  silk_dumpState: (chain) => chain.dump(),
};

export async function request(chain, method, params) {
  if (!Object.hasOwn(methods, method)) throw new RPCError(-32601, `the chain in this sandbox does not know ${method}`);
  // One after the other: a transaction must see what the one before it did.
  const turn = (chain.turn ?? Promise.resolve()).then(() => methods[method](chain, ...params));
  chain.turn = turn.catch(() => {});
  return (await turn) ?? null;
}

async function answer(chain, { id = null, method, params = [] }) {
  try {
    return { jsonrpc: "2.0", id, result: await request(chain, method, params) };
  } catch ({ code = -32603, message, data }) {
    return { jsonrpc: "2.0", id, error: { code: Number.isInteger(code) ? code : -32603, message, data } };
  }
}

export function listen(chain, port) {
  const server = http.createServer(async (req, res) => {
    try {
      const asked = JSON.parse(Buffer.concat(await req.toArray()).toString());
      const answered = Array.isArray(asked) ? await Promise.all(asked.map((one) => answer(chain, one))) : await answer(chain, asked);
      res.setHeader("content-type", "application/json").end(JSON.stringify(answered));
    } catch (error) {
      res.writeHead(400).end(String(error.message));
    }
  });
  server.keepAliveTimeout = 0; // never: a compiler keeps this process from answering for longer than the usual 5 s
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", () => resolve(Object.assign(server, { url: `http://127.0.0.1:${server.address().port}` })));
  });
}
