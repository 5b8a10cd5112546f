import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import { SilkClient, type ClientOptions, type Outcome, type WebSocketConstructor } from "../src/index.js";

export const runID = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
export const otherRun = "01ARZ3NDEKTSV4RRFFQ69G5FAW";
export const oldRun = "01ARZ3NDEKTSV4RRFFQ69G5FAF";
export const sessionID = "01ARZ3NDEKTSV4RRFFQ69G5FAA";

/** What one connection does. query is that of its URL. */
export type Script = (ws: WebSocket, query: URLSearchParams, path: string) => void | Promise<void>;

/** How to answer one HTTP request; undefined leaves it to the server. */
export type Route = (request: { method: string; path: string; query: URLSearchParams; headers: IncomingMessage["headers"]; body: unknown }) => { status: number; body?: unknown; headers?: Record<string, string> } | "cut" | undefined;

/** A server that misbehaves as it is told: each WebSocket follows the next script, and a handshake without one is refused. */
export class FakeServer {
  readonly connections: URLSearchParams[] = [];
  readonly requests: { method: string; path: string; body: unknown; headers: IncomingMessage["headers"] }[] = [];
  route: Route = () => undefined;
  url = "";
  readonly #scripts: Script[];
  readonly #sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "silk.v1" });
  readonly #http = createServer((request, response) => {
    void this.#answer(request, response);
  });

  constructor(...scripts: Script[]) {
    this.#scripts = scripts;
    this.#http.on("upgrade", (request, socket, head) => {
      const url = new URL(request.url ?? "/", "http://fake");
      const script = this.#scripts.shift();
      this.connections.push(url.searchParams);
      if (script === undefined || url.searchParams.get("ticket") !== "t") {
        socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return;
      }
      this.#sockets.handleUpgrade(request, socket, head, (ws) => {
        void script(ws, url.searchParams, url.pathname);
      });
    });
  }

  async listen(): Promise<this> {
    this.#http.listen(0, "127.0.0.1");
    await once(this.#http, "listening");
    this.url = `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
    return this;
  }

  client(options: Partial<ClientOptions> = {}): SilkClient {
    const socket = WebSocket as WebSocketConstructor;
    const quick = { minMs: 1, maxMs: 20, attempts: 4 };
    return new SilkClient({ url: this.url, token: "secret", WebSocket: socket, retry: quick, reconnect: quick, ...options });
  }

  async close(): Promise<void> {
    for (const ws of this.#sockets.clients) ws.terminate();
    this.#http.closeAllConnections();
    this.#http.close();
    await once(this.#http, "close");
  }


  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://fake");
    let text = "";
    for await (const piece of request) text += String(piece);
    const body: unknown = text === "" ? undefined : JSON.parse(text);
    const asked = { method: request.method ?? "", path: url.pathname, headers: request.headers, body };
    this.requests.push(asked);
    const told = this.route({ ...asked, query: url.searchParams });
    if (told === "cut") {
      request.socket.destroy();
      return;
    }
    if (told !== undefined) {
      const type = told.status >= 400 ? "application/problem+json" : "application/json";
      response.writeHead(told.status, { "Content-Type": type, ...told.headers }).end(told.body === undefined ? "" : JSON.stringify(told.body));
    } else if (url.pathname === "/v1/tickets") {
      response.writeHead(201, { "Content-Type": "application/json" }).end(JSON.stringify({ ticket: "t", expires_at_ms: 1 }));
    } else {
      const problem = { type: "urn:silk:not-found", title: "there is no such thing", status: 404 };
      response.writeHead(404, { "Content-Type": "application/problem+json" }).end(JSON.stringify(problem));
    }
  }
}

/** Runs a test with a server. */
export async function withServer(scripts: Script[], run: (server: FakeServer) => Promise<void>): Promise<void> {
  const server = await new FakeServer(...scripts).listen();
  try {
    await run(server);
  } finally {
    await server.close();
  }
}

// Frames, as a server writes them.

export const hello = (stdout = 0, stderr = 0, run = runID): string => JSON.stringify({ type: "hello", run, state: "running", tail_from: { stdout, stderr } });

export const started = JSON.stringify({ type: "started", run: runID, at_ms: 5 });

export function output(offset: number, data: string | Uint8Array, channel = "stdout", run = runID): string {
  const content = typeof data === "string" ? { data } : { b64: Buffer.from(data).toString("base64") };
  return JSON.stringify({ type: "output", run, seq: 1, at_ms: 1, channel, offset, ...content });
}

export const gap = (from: number, to: number, channel = "stdout"): string => JSON.stringify({ type: "gap", run: runID, channel, from, to });

export function outcome(stdout: number, stderr = 0, run = runID): Outcome {
  const channel = (bytes: number): Outcome["stdout"] => ({ bytes, truncated: false, sha256: "" });
  return {
    outcome: "ok",
    exit_code: 0,
    stdout: channel(stdout),
    stderr: channel(stderr),
    artifacts: [],
    flags: {},
    wall_ms: 1,
    usage: { cpu_ms: 1, peak_memory_bytes: 1, processes: 1 },
    run,
  };
}

export const exit = (stdout: number, stderr = 0, run = runID): string => JSON.stringify({ type: "exit", run, outcome: outcome(stdout, stderr, run) });

/** A script that sends messages and then ends the connection: with a code, or cut. */
export function says(messages: string[], end: number | "cut" | "stay" = 1000): Script {
  return (ws) => {
    for (const m of messages) ws.send(m);
    if (end === "cut") ws.terminate();
    else if (end !== "stay") ws.close(end);
  };
}
