// Compresses a stream and checks what comes out: silk run --artifacts out examples/labs/node/pack.mjs
import { createHash } from "node:crypto";
import fs from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import zlib from "node:zlib";

const hash = createHash("sha256");
let bytes = 0;
async function* lines() {
  for (let n = 1; n <= 20_000; n++) {
    const line = `${n} ${n % 7 === 0 ? "seventh" : "other"}\n`;
    bytes += line.length;
    hash.update(line);
    yield line;
  }
}
await pipeline(Readable.from(lines()), zlib.createGzip(), fs.createWriteStream("lines.gz"));
const again = createHash("sha256").update(zlib.gunzipSync(fs.readFileSync("lines.gz"))).digest("hex");
console.log(`${bytes} bytes became ${fs.statSync("lines.gz").size < bytes / 3 ? "less than a third" : "more than a third"}; ${again === hash.digest("hex") ? "nothing is lost" : "they differ"}`);
