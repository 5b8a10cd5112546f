import { SilkClient } from "@silk-sandbox/client";
import { Platform } from "obsidian";
import type { Settings } from "../settings.js";
import { localServer, type LocalServer, type LocalTokens } from "./local.js";

/** Where tokens are kept. */
export interface Secrets {
  get(id: "runner" | "owner"): string;
  set(id: "runner" | "owner", secret: string): void;
}

/** The server of the settings, or the vault's own, found or started when it is first needed. */
export class Server {
  readonly #settings: () => Settings;
  readonly #secrets: Secrets;
  readonly #vault: string;
  #local: LocalServer | undefined;
  #starting: Promise<LocalServer> | undefined;

  constructor(settings: () => Settings, secrets: Secrets, vault: string) {
    this.#settings = settings;
    this.#secrets = secrets;
    this.#vault = vault;
  }

  /** A client that may start runs. */
  async client(): Promise<SilkClient> {
    const { url } = await this.#find();
    const token = this.#secrets.get("runner") || this.#secrets.get("owner");
    if (token === "") throw new Error("There is no token for the server yet. Open the settings of Silk Sandbox.");
    return new SilkClient({ url, token });
  }

  /** A client that may decide; undefined if the owner's token is not here, or is the only one: who asks never decides. */
  async owner(): Promise<SilkClient | undefined> {
    const token = this.#secrets.get("owner");
    if (token === "" || this.#secrets.get("runner") === "") return undefined;
    return new SilkClient({ url: (await this.#find()).url, token });
  }

  /** Ends the server that was started here. */
  end(): void {
    this.#local?.end();
    this.#local = undefined;
    this.#starting = undefined;
  }

  async #find(): Promise<{ url: string }> {
    const { server } = this.#settings();
    if (server !== "") return { url: server };
    if (this.#local !== undefined && (await isReady(this.#local.url))) return this.#local;
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async #start(): Promise<LocalServer> {
    const [runner, owner] = [this.#secrets.get("runner"), this.#secrets.get("owner")];
    let known: LocalTokens | undefined = runner !== "" && owner !== "" ? { runner, owner } : undefined;
    const start = (): ReturnType<typeof localServer> => localServer(this.#settings().silk, this.#vault, window.location.origin, known, isReady);
    let found = await start();
    if (known !== undefined && !(await accepts(found.server.url, known.runner))) {
      known = undefined; // of another server, or expired
      found = await start();
    }
    this.#local = found.server;
    this.#secrets.set("runner", found.tokens.runner);
    this.#secrets.set("owner", found.tokens.owner);
    return found.server;
  }
}

async function isReady(url: string): Promise<boolean> {
  const { ok } = await get(`${url}/readyz`, "");
  return ok;
}

async function accepts(url: string, token: string): Promise<boolean> {
  const { status } = await get(`${url}/v1/profiles`, token);
  return status !== 401;
}

/** What a server answers; status 0 is no answer. The app's own fetch, as the client's: requestUrl would follow redirects with the token. */
async function get(url: string, token: string): Promise<{ ok: boolean; status: number }> {
  try {
    const headers: HeadersInit = token === "" ? {} : { Authorization: `Bearer ${token}` };
    const answer = await window.fetch(url, { redirect: "error", cache: "no-store", credentials: "omit", headers });
    return { ok: answer.ok, status: answer.status };
  } catch {
    return { ok: false, status: 0 };
  }
}

/** Whether a vault can have a server of its own here. */
export const canStart = (): boolean => Platform.isDesktopApp && Platform.isLinux;
