// An Ethereum chain inside one process, for tests: Chain is the chain, which ethers and viem take as their provider or
// reach by HTTP, compile is solc, and reason says why a call came to nothing.
//
//	import { Chain, compile } from "silk-chain";
//	const chain = await Chain.create();
//	const signer = await new ethers.BrowserProvider(chain).getSigner();
//
// Every transaction is a block of its own. Time, keys and addresses are the same each time. The keys are made from a
// sentence that everybody can read below: they are worth nothing on any other chain.
export { Chain } from "./chain.js";
export { compile, CompileError } from "./compile.js";
export { reason } from "./reason.js";
export { gasReport, render } from "./trace.js";
