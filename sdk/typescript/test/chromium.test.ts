import { strict as assert } from "node:assert";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Browser, PageServer } from "./browser.js";
import { chromium, need, realServer, serverMissing } from "./need.js";
import { CuttingProxy } from "./proxy.js";
import { cases } from "./suite.js";

const executable = chromium();
const real = realServer();
const missing = executable === undefined ? "there is no Chromium; SILK_TEST_CHROMIUM names one" : serverMissing;

/** Runs one case in the page. What it throws arrives with its message. */
const page = (url: string, token: string, ownerToken: string): string => `<!doctype html><title>silk</title><script type="module">
import { SilkClient } from "/src/index.js";
import { cases } from "/test/suite.js";
const world = {
  client: (who, options) => new SilkClient({ url: ${JSON.stringify(url)}, token: who === "owner" ? ${JSON.stringify(ownerToken)} : ${JSON.stringify(token)}, ...options }),
  cutAfter: async (bytes, times) => { await fetch("/cut?bytes=" + bytes + "&times=" + times); },
  cuts: async () => (await fetch("/cuts")).json(),
};
window.runCase = async (name) => { await cases.find((c) => c.name === name).run(world); return "passed"; };
</script>`;

describe("Chromium", need("chromium", missing), () => {
  const proxy = new CuttingProxy(real?.url ?? "http://127.0.0.1:1");
  let browser: Browser | undefined;
  let server: PageServer | undefined;
  before(async () => {
    if (executable === undefined || real === undefined) return;
    const url = await proxy.listen();
    server = new PageServer(fileURLToPath(new URL("..", import.meta.url)), page(url, real.token, real.ownerToken), {
      "/cut": (_, query) => {
        proxy.cutAfter(Number(query.get("bytes")), Number(query.get("times")));
        return Promise.resolve();
      },
      "/cuts": () => Promise.resolve(proxy.cuts),
    });
    const address = await server.listen(real.originPort);
    browser = await Browser.start(executable);
    await browser.open(address);
    for (let i = 0; i < 100 && (await browser.evaluate("typeof runCase")) !== "function"; i++) await new Promise((done) => setTimeout(done, 100));
  });
  after(async () => {
    await browser?.close();
    await server?.close();
    await proxy.close();
  });
  for (const c of cases) {
    test(c.name, { timeout: 90_000 }, async () => {
      assert.equal(await browser?.evaluate(`runCase(${JSON.stringify(c.name)})`), "passed");
    });
  }
});
