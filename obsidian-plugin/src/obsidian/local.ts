import { Platform } from "obsidian";
import { portOf, serverConfig } from "../settings.js";

/** The vault's own server, which was found or started. */
export interface LocalServer {
  readonly url: string;
  /** Ends it, if it was started here. */
  end(): void;
}

/** Tokens of a server that was started here for the first time. */
export interface LocalTokens {
  readonly runner: string;
  readonly owner: string;
}

const startMs = 20_000;

/**
 * Finds the silk server of a vault on its port, or starts it: its state is a folder of its own, with the images of the user's. tokens are
 * undefined if known ones are to be used. Desktop only.
 */
export async function localServer(silk: string, vault: string, origin: string, known: LocalTokens | undefined, ready: (url: string) => Promise<boolean>): Promise<{ server: LocalServer; tokens: LocalTokens }> {
  if (!Platform.isLinux) throw new Error("The sandbox needs Linux. The settings show how to use it from macOS and Windows.");
  const { spawn, execFile, fs, os, path } = await node();
  const port = portOf(vault);
  const url = `http://127.0.0.1:${String(port)}`;
  const base = process.env["SILK_HOME"] ?? path.join(os.homedir(), ".local/share/silk");
  const home = path.join(base, "vaults", String(port));
  const args = ["--home", home, "--config", path.join(home, "obsidian.yaml")];
  const token = (role: string): Promise<string> =>
    new Promise((resolve, reject) => {
      execFile(silk, [...args, "token", "new", `obsidian-${role}-${Date.now().toString(36)}`, "--role", role], { timeout: startMs }, (err, out) => {
        if (err === null) resolve(out.trim());
        else reject(new Error(`A token of the server: ${err.message}`));
      });
    });
  const makeTokens = async (): Promise<LocalTokens> => known ?? { runner: await token("runner"), owner: await token("owner") };

  if (await ready(url)) return { server: { url, end: () => undefined }, tokens: await makeTokens() };
  fs.mkdirSync(home, { recursive: true, mode: 0o700 });
  if (!fs.existsSync(path.join(home, "images")) && fs.existsSync(path.join(base, "images"))) fs.symlinkSync(path.join(base, "images"), path.join(home, "images"));
  fs.writeFileSync(path.join(home, "obsidian.yaml"), serverConfig(port, origin), { mode: 0o600 });
  const child = spawn(silk, [...args, "serve"], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const over = new AbortController();
  child.stderr.on("data", (b: Buffer) => (said = (said + b.toString("utf8")).slice(-4000)));
  child.once("error", (err) => {
    over.abort();
    said += err.message;
  });
  child.once("exit", () => {
    over.abort();
  });
  const end = (): void => {
    child.kill("SIGTERM");
  };
  const server = { url, end };
  for (const until = Date.now() + startMs; Date.now() < until && !over.signal.aborted; ) {
    if (await ready(url)) return { server, tokens: await makeTokens() };
    await new Promise((done) => window.setTimeout(done, 100));
  }
  server.end();
  throw new Error(`silk did not start: ${said.trim().split("\n").at(-1) ?? ""}`);
}

/** Node's own modules, which a phone does not have. */
async function node(): Promise<Pick<typeof import("node:child_process"), "spawn" | "execFile"> & { fs: typeof import("node:fs"); os: typeof import("node:os"); path: typeof import("node:path") }> {
  if (Platform.isDesktop && Platform.isDesktopApp) {
    const [{ spawn, execFile }, fs, os, path] = await Promise.all([import("node:child_process"), import("node:fs"), import("node:os"), import("node:path")]);
    return { spawn, execFile, fs, os, path };
  }
  throw new Error("This app cannot start a server. Name one in the settings.");
}
