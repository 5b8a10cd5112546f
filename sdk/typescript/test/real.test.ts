import { after, before, describe, test } from "node:test";
import WebSocket from "ws";
import { SilkClient, type WebSocketConstructor } from "../src/index.js";
import { need, realServer, serverMissing } from "./need.js";
import { CuttingProxy } from "./proxy.js";
import { cases, type World } from "./suite.js";

const real = realServer() ?? { url: "http://127.0.0.1:1", token: "", ownerToken: "", originPort: 0 };

/** The suite in Node, with a WebSocket of its own or of a package. */
function inNode(name: string, socket: WebSocketConstructor | undefined): void {
  describe(name, need("server", serverMissing), () => {
    const proxy = new CuttingProxy(real.url);
    let url = "";
    before(async () => {
      url = await proxy.listen();
    });
    after(() => proxy.close());
    const world: World = {
      client: (who, options) => new SilkClient({ url, token: who === "owner" ? real.ownerToken : real.token, ...(socket && { WebSocket: socket }), ...options }),
      cutAfter: (bytes, times) => {
        proxy.cutAfter(bytes, times);
        return Promise.resolve();
      },
      cuts: () => Promise.resolve(proxy.cuts),
    };
    for (const c of cases) test(c.name, { timeout: 60_000 }, () => c.run(world));
  });
}

const own = globalThis.WebSocket as WebSocketConstructor | undefined;
if (own === undefined) inNode(`Node ${process.version} with the WebSocket of ws`, WebSocket);
else inNode(`Node ${process.version} with its own WebSocket`, undefined);
