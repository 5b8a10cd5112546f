// What becomes of a program that wants a live chain: silk run -p lab:evm examples/labs/evm/live.mjs
import { ethers } from "ethers";

const byName = new ethers.JsonRpcProvider("https://rpc.example.org", undefined, { staticNetwork: true });
await byName.getBlockNumber().catch((error) => console.log(`by name: it is ${error.code === "ENOTFOUND" || error.code === "EAI_AGAIN" ? "not found" : error.code}`));

// An address of the documentation's own (RFC 5737). This ends the run.
await new ethers.JsonRpcProvider("http://192.0.2.1:8545", undefined, { staticNetwork: true }).getBlockNumber();
