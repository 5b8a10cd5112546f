import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import WebSocket from "ws";

type Handler = (request: IncomingMessage, query: URLSearchParams) => Promise<unknown>;

/** A web server for one folder of modules, one page and some calls that the page makes. */
export class PageServer {
  readonly #server: Server;

  constructor(
    readonly folder: string,
    readonly html: string,
    readonly calls: Readonly<Record<string, Handler>>,
  ) {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((err: unknown) => {
        response.writeHead(500).end(String(err));
      });
    });
  }

  async listen(port: number): Promise<string> {
    this.#server.listen(port, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${port}/`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://page");
    const call = this.calls[url.pathname];
    if (call !== undefined) {
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify((await call(request, url.searchParams)) ?? null));
    } else if (url.pathname === "/") {
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(this.html);
    } else if (extname(url.pathname) === ".js") {
      const text = await readFile(join(this.folder, normalize(url.pathname)));
      response.writeHead(200, { "Content-Type": "text/javascript; charset=utf-8" }).end(text);
    } else {
      response.writeHead(404).end();
    }
  }
}

interface Reply {
  readonly id?: number;
  readonly result?: { readonly targetId?: string; readonly sessionId?: string; readonly result?: { readonly value?: unknown }; readonly exceptionDetails?: { readonly text: string; readonly exception?: { readonly description?: string } } };
  readonly error?: { readonly message: string };
}

/** A headless browser with one page, over the Chrome DevTools Protocol. */
export class Browser {
  readonly #process: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #id = 0;
  #session: string | undefined;

  private constructor(process: ChildProcess, profile: string, socket: WebSocket) {
    this.#process = process;
    this.#profile = profile;
    this.#socket = socket;
    socket.on("message", (data: Buffer) => {
      const reply = JSON.parse(data.toString("utf8")) as Reply;
      if (reply.id !== undefined) this.#waiting.get(reply.id)?.(reply);
    });
    socket.on("close", () => {
      for (const done of this.#waiting.values()) done({ error: { message: "the browser has gone" } });
    });
  }

  static async start(executable: string): Promise<Browser> {
    const profile = await mkdtemp(join(tmpdir(), "silk-chromium-"));
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking"];
    const child = spawn(executable, [...flags, "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"], { stdio: ["ignore", "ignore", "pipe"], detached: true });
    const address = await new Promise<string>((resolve, reject) => {
      let said = "";
      child.stderr.on("data", (data: Buffer) => {
        said += data.toString("utf8");
        const found = /DevTools listening on (ws:\S+)/.exec(said)?.[1];
        if (found !== undefined) resolve(found);
      });
      child.once("exit", (code) => {
        reject(new Error(`the browser ended with ${String(code)}: ${said}`));
      });
      child.once("error", reject);
    });
    const socket = new WebSocket(address);
    await once(socket, "open");
    return new Browser(child, profile, socket);
  }

  /** Opens the page. */
  async open(url: string): Promise<void> {
    const { targetId } = await this.#call("Target.createTarget", { url });
    this.#session = (await this.#call("Target.attachToTarget", { targetId, flatten: true })).sessionId;
  }

  /** The value of an expression in the page, a promise's too. */
  async evaluate(expression: string): Promise<unknown> {
    const r = await this.#call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (r.exceptionDetails !== undefined) throw new Error(r.exceptionDetails.exception?.description ?? r.exceptionDetails.text);
    return r.result?.value;
  }

  async close(): Promise<void> {
    this.#socket.close();
    if (this.#process.exitCode === null && this.#process.pid !== undefined) {
      const gone = once(this.#process, "exit");
      process.kill(-this.#process.pid, "SIGKILL"); // its helpers too: it leads a process group
      await gone;
    }
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 10 });
  }

  async #call(method: string, params: object): Promise<NonNullable<Reply["result"]>> {
    const id = ++this.#id;
    const reply = await new Promise<Reply>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#socket.send(JSON.stringify({ id, method, params, ...(this.#session === undefined ? {} : { sessionId: this.#session }) }));
    });
    this.#waiting.delete(id);
    if (reply.error !== undefined) throw new Error(`${method}: ${reply.error.message}`);
    return reply.result ?? {};
  }
}
