import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";
import { CuttingProxy } from "../../sdk/typescript/test/proxy.js";
import type { HostPage } from "./host/page.js";

const here = import.meta.dirname;
const files: Readonly<Record<string, [string, string]>> = {
  "/": ["host/page.html", "text/html; charset=utf-8"],
  "/page.js": ["build/page.js", "text/javascript; charset=utf-8"],
  "/main.js": ["../dist/main.js", "text/javascript; charset=utf-8"],
  "/styles.css": ["../dist/styles.css", "text/css; charset=utf-8"],
};

declare global {
  var host: HostPage;
}

function env(name: string): string {
  const v = process.env[name];
  if (v === undefined) throw new Error(`${name} is not set: test/real.mjs sets it`);
  return v;
}

/** A browser, the page's server, and a network to the silk server that can be cut. */
export class World {
  static async start(): Promise<World> {
    const proxy = new CuttingProxy(env("SILK_TEST_SERVER_URL"));
    const url = await proxy.listen();
    const server = createServer((request, response) => {
      const found = files[request.url ?? ""];
      if (found === undefined) response.writeHead(404).end();
      else
        readFile(join(here, found[0])).then(
          (text) => response.writeHead(200, { "Content-Type": found[1] }).end(text),
          (err: unknown) => response.writeHead(500).end(String(err)),
        );
    });
    server.listen(Number(env("SILK_TEST_ORIGIN_PORT")), "127.0.0.1");
    await once(server, "listening");
    const browser = await chromium.launch({ executablePath: process.env["SILK_TEST_CHROMIUM"] ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
    return new World(proxy, url, server, browser);
  }

  /** Of a runner. */
  readonly token = env("SILK_TEST_SERVER_TOKEN");
  readonly #server: Server;
  readonly #browser: Browser;
  private constructor(
    readonly proxy: CuttingProxy,
    readonly url: string,
    server: Server,
    browser: Browser,
  ) {
    this.#server = server;
    this.#browser = browser;
  }

  /** A new page with the plugin loaded; fresh: as after its installation. Errors of the page fail the test that closes it. */
  async page(options: { settings?: object; owner?: boolean; data?: object; mobile?: boolean; fresh?: boolean; clock?: boolean } = {}): Promise<{ page: Page; errors: string[] }> {
    const context = await this.#browser.newContext({ viewport: { width: 1100, height: 720 }, permissions: ["clipboard-read", "clipboard-write"] });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (err) => errors.push(err.message));
    if (options.clock === true) await page.clock.install();
    await page.goto(`http://127.0.0.1:${env("SILK_TEST_ORIGIN_PORT")}/`);
    const secrets: Record<string, string> = options.fresh === true ? {} : { "silk-sandbox-runner": this.token };
    if (options.owner === true) secrets["silk-sandbox-owner"] = env("SILK_TEST_OWNER_TOKEN");
    const data = options.fresh === true ? null : { settings: { server: this.url, ...options.settings }, ...options.data };
    await page.evaluate(
      async (o) => {
        host.obsidian.Platform.isMobile = o.mobile;
        await host.load(o.data, o.secrets);
      },
      { data, secrets, mobile: options.mobile === true },
    );
    return { page, errors };
  }

  async close(): Promise<void> {
    await this.#browser.close();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
    await this.proxy.close();
  }
}

/** Keeps a picture, where pictures are wanted. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env["SILK_TEST_SCREENSHOTS"];
  if (folder === undefined) return;
  await mkdir(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
