import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where silk is, and whose images are used: they are only read. */
export interface Installed {
  readonly silk: string;
  readonly images: string;
}

/** What SILK_BIN and SILK_TEST_HOME name; else bin/silk and .silk of the repository. */
export function installed(repository: string): Installed {
  const { SILK_BIN, SILK_TEST_HOME } = process.env;
  return { silk: SILK_BIN ?? join(repository, "bin/silk"), images: join(SILK_TEST_HOME ?? join(repository, ".silk"), "images") };
}

const readyMs = 30_000;
const endMs = 20_000;

/** A silk server with a state of its own, on a free port of this machine, which allows the pages of one other port. */
export class OwnServer {
  /** Starts one, and returns when it is ready. The caller closes it. */
  static async start(from: Installed): Promise<OwnServer> {
    const server = new OwnServer(from, await freePort(), await freePort());
    try {
      await server.again();
    } catch (err) {
      await server.close();
      throw err;
    }
    return server;
  }

  readonly url: string;
  readonly #home = mkdtempSync(join(tmpdir(), "silk-test-"));
  readonly #args = ["--config", join(this.#home, "c.yaml")];
  readonly #env = { ...process.env, SILK_HOME: this.#home };
  readonly #silk: string;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();

  private constructor(
    from: Installed,
    port: number,
    readonly originPort: number,
  ) {
    this.url = `http://127.0.0.1:${String(port)}`;
    this.#silk = from.silk;
    symlinkSync(from.images, join(this.#home, "images"));
    writeFileSync(join(this.#home, "c.yaml"), `serve:\n  listen: "127.0.0.1:${String(port)}"\n  origins: ["http://127.0.0.1:${String(originPort)}"]\n`);
  }

  /** A new token. */
  token(name: string, role: "viewer" | "runner" | "owner"): string {
    return execFileSync(this.#silk, [...this.#args, "token", "new", name, "--role", role], { env: this.#env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  }

  /** The last that it logged. */
  log(): string {
    return readFileSync(join(this.#home, "serve.log"), "utf8").slice(-8000);
  }

  /** Starts it once more after {@link end}, with the same address and state, and returns when it is ready. */
  async again(): Promise<void> {
    const log = openSync(join(this.#home, "serve.log"), "a");
    const child = spawn(this.#silk, [...this.#args, "serve"], { env: this.#env, stdio: ["ignore", log, log] });
    closeSync(log);
    this.#child = child;
    let over = "";
    this.#ended = new Promise((done) => {
      child.once("error", (err) => {
        over = err.message;
        done();
      });
      child.once("exit", (code, signal) => {
        over = `it ended with ${String(code ?? signal)}`;
        done();
      });
    });
    for (const until = Date.now() + readyMs; Date.now() < until; ) {
      if (over !== "") throw new Error(`start ${this.#silk}: ${over}: ${this.log()}`);
      if (await this.#ready()) return;
      await wait(100);
    }
    throw new Error(`${this.#silk} is not ready after ${String(readyMs)} ms: ${this.log()}`);
  }

  /** Ends it as an administrator does; if that takes too long, by force. */
  async end(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    child.kill("SIGTERM");
    const force = setTimeout(() => child.kill("SIGKILL"), endMs);
    await this.#ended;
    clearTimeout(force);
  }

  /** Ends it, and removes its state. */
  async close(): Promise<void> {
    await this.end();
    rmSync(this.#home, { recursive: true, force: true, maxRetries: 10 });
  }

  async #ready(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/readyz`)).ok;
    } catch {
      return false; // it does not listen yet
    }
  }
}

/** Tests that are a command. */
export interface Tests {
  /** Root of the repository. */
  readonly repository: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

/** Runs tests with a server of their own, which the environment names to them (see need.ts), ends it, and sets the exit code. */
export async function testWithServer(tests: Tests): Promise<void> {
  const from = installed(tests.repository);
  const server = await OwnServer.start(from);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => void server.end()); // the tests end for want of it
  let status = 1;
  try {
    const env = {
      ...process.env,
      SILK_TEST_SERVER_URL: server.url,
      SILK_TEST_SERVER_TOKEN: server.token("tests", "runner"),
      SILK_TEST_OWNER_TOKEN: server.token("boss", "owner"),
      SILK_TEST_ORIGIN_PORT: String(server.originPort),
      SILK_TEST_BIN: from.silk,
      SILK_TEST_IMAGES: from.images,
    };
    const child = spawn(tests.command, tests.args, { cwd: tests.cwd, env, stdio: "inherit" });
    status = await new Promise((done, failed) => {
      child.once("error", failed);
      child.once("exit", (code) => {
        done(code ?? 1);
      });
    });
  } finally {
    await server.end();
    if (status !== 0) process.stderr.write(`the server's log:\n${server.log()}\n`);
    await server.close();
  }
  process.exitCode = status;
}

async function freePort(): Promise<number> {
  const s = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => s.once("listening", done));
  const { port } = s.address() as AddressInfo;
  await new Promise((done) => s.close(done));
  return port;
}

const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
