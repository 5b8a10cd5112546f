import { existsSync } from "node:fs";

/** What a test needs that not every machine has. */
export type Need = "server" | "chromium" | "websocket";

const required = (process.env["SILK_TEST_REQUIRE"] ?? "").split(",");

/** Options of a test that needs something: it is skipped with the reason, or fails if SILK_TEST_REQUIRE names the need. */
export function need(what: Need, missing: string | undefined): { skip: string | false } {
  if (missing === undefined) return { skip: false };
  if (required.includes(what) || required.includes("all")) throw new Error(`${what} is required and not there: ${missing}`);
  return { skip: missing };
}

/** A real server, from the environment: see real.mjs. */
export interface RealServer {
  readonly url: string;
  readonly token: string; // of a runner
  readonly ownerToken: string;
  readonly originPort: number; // of the page that the server allows
}

export function realServer(): RealServer | undefined {
  const { SILK_TEST_SERVER_URL: url, SILK_TEST_SERVER_TOKEN: token, SILK_TEST_OWNER_TOKEN: ownerToken, SILK_TEST_ORIGIN_PORT: port } = process.env;
  if (url === undefined || token === undefined || ownerToken === undefined) return undefined;
  return { url, token, ownerToken, originPort: Number(port ?? "0") };
}

export const serverMissing = realServer() === undefined ? "SILK_TEST_SERVER_URL, SILK_TEST_SERVER_TOKEN and SILK_TEST_OWNER_TOKEN are not set: test/real.mjs sets them" : undefined;

/** The browser's executable. */
export function chromium(): string | undefined {
  const candidates = [process.env["SILK_TEST_CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  return candidates.find((c) => c !== undefined && existsSync(c));
}
