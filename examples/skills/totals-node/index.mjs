// Adds up the transfers in data/transfers.json by token. Amounts are whole numbers of a token's smallest unit, so they are BigInts.
import { readFileSync } from "node:fs";

import { inUnits } from "./lib/units.mjs";

const { decimals, transfers } = JSON.parse(readFileSync(new URL("./data/transfers.json", import.meta.url), "utf8"));

const sums = new Map();
for (const { token, amount, out } of transfers) {
  sums.set(token, (sums.get(token) ?? 0n) + (out ? -BigInt(amount) : BigInt(amount)));
}
const totals = {};
for (const token of [...sums.keys()].sort()) {
  totals[token] = inUnits(sums.get(token), decimals[token]);
}
console.log(JSON.stringify({ transfers: transfers.length, totals }));
