// The same token by ethers, from JavaScript: silk run -p lab:evm --dir examples/labs/evm -- node --test token.test.mjs
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ethers } from "ethers";
import { Chain, compile } from "silk-chain";

let server, provider, owner, other, token;

before(async () => {
  const chain = await Chain.create();
  server = await chain.listen(); // http://127.0.0.1:8545, inside the sandbox
  provider = new ethers.JsonRpcProvider(server.url);
  [owner, other] = await Promise.all([0, 1].map((i) => provider.getSigner(i)));
  const { abi, bytecode } = compile("token.sol").find(({ name }) => name === "Token");
  token = await new ethers.ContractFactory(abi, bytecode, owner).deploy(1000);
  await token.waitForDeployment();
});

after(() => {
  provider.destroy();
  server.close();
});

test("a transfer moves tokens and says so", async () => {
  const receipt = await (await token.transfer(other.address, 400)).wait();
  assert.equal(await token.balanceOf(other.address), 400n);
  const [event] = receipt.logs.map((log) => token.interface.parseLog(log));
  assert.deepEqual([event.name, event.args.value], ["Transfer", 400n]);
  assert.equal((await token.queryFilter("Transfer", 0)).length, 1);
});

test("who has too little is told why", async () => {
  await assert.rejects(token.connect(other).transfer(owner.address, 401), (error) => error.reason === "balance too low");
});

test("a wallet of one's own signs", async () => {
  const wallet = ethers.Wallet.createRandom(provider);
  await (await owner.sendTransaction({ to: wallet.address, value: ethers.parseEther("1") })).wait();
  await (await token.transfer(wallet.address, 5)).wait();
  await (await token.connect(wallet).transfer(other.address, 5)).wait();
  assert.equal(await token.balanceOf(wallet.address), 0n);
});
