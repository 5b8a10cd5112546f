import type { Backoff } from "./backoff.js";
import { Collector, type Collected } from "./collect.js";
import type { ConnectionState, StreamConfig } from "./connect.js";
import { unknown, type Decoder } from "./decode.js";
import { encodeBase64, type ChannelName, type Frame } from "./frame.js";
import { HTTP, type Fetch } from "./http.js";
import { Input } from "./input.js";
import { SessionWatch, type WatchSessionOptions } from "./session.js";
import type { WebSocketConstructor } from "./socket.js";
import type * as T from "./types.js";
import { Watch, type WatchOptions } from "./watch.js";
import * as wire from "./wire.js";

export interface ClientOptions {
  /** Of the server, such as "http://127.0.0.1:7455". It may have a path, under which a proxy has the server. */
  readonly url: string | URL;
  /** The secret that `silk token new` printed. This or getToken is needed. */
  readonly token?: string;
  /** Returns the token for each request. */
  readonly getToken?: () => string | Promise<string>;
  /** In place of the global one. */
  readonly fetch?: Fetch;
  /** In place of the global one. Node has one from version 22 on. Only streams need it. */
  readonly WebSocket?: WebSocketConstructor;
  /** For the answer to one request; 120,000 left out. */
  readonly timeoutMs?: number;
  /** Of requests that may be repeated. Left out: 200 ms, 10 s, 4 attempts. */
  readonly retry?: Partial<Backoff>;
  /** Of streams; attempts are those in a row that bring nothing. Left out: 200 ms, 10 s, 20 attempts. */
  readonly reconnect?: Partial<Backoff>;
  /** Characters of frames that wait to be read, for each stream; 4 Mi left out. */
  readonly bufferChars?: number;
  /** Of silence, after which a stream's connection is taken for dead; 45,000 left out. The server is silent for 15 s at most. */
  readonly idleMs?: number;
}

/** Of every call. */
export interface CallOptions {
  /** Ends the call; its reason is thrown. */
  readonly signal?: AbortSignal;
}

export interface PageOptions extends CallOptions {
  /** Where to begin: next of the page before. */
  readonly cursor?: string;
  /** Items of one page, 1 to 500; the server's 50 left out. */
  readonly limit?: number;
}

export interface CreateRunOptions extends CallOptions {
  /** A request that is repeated with the same key gives the same run. Left out: a random one, for the repetitions of this call. */
  readonly idempotencyKey?: string;
  /** A word of up to 64 letters, digits, - and _, with which the run will be watched: what it prints before is not lost either. See WatchOptions. */
  readonly follow?: string;
}

export interface InputOptions extends CallOptions {
  /** The program sees the end of its input after this piece. */
  readonly end?: boolean;
  /** Bytes of input that were sent before. */
  readonly offset?: number;
}

export interface ArtifactOptions extends CallOptions {
  /** The first and the last byte that are wanted, the last included; without last: up to the end. */
  readonly range?: { readonly first: number; readonly last?: number };
}

export interface RunOptions extends CreateRunOptions {
  /** Of each channel that are kept; 1 MiB left out. The others are read and forgotten. */
  readonly maxBytes?: number;
  /** Is given each frame as it comes; must not throw. */
  readonly onFrame?: (frame: Frame) => void;
  readonly onConnection?: (state: ConnectionState) => void;
  /** Whether the run is canceled when signal is aborted; true left out. */
  readonly cancelOnAbort?: boolean;
}

/** A client of one server. It holds no connection: each call and each stream has its own. Safe for any number of calls at once. */
export class SilkClient {
  readonly #http: HTTP;
  readonly #stream: Omit<StreamConfig, "WebSocket">;
  readonly #socket: WebSocketConstructor | undefined;

  constructor(options: ClientOptions) {
    const { token } = options;
    const getToken = options.getToken ?? (token === undefined ? undefined : () => token);
    if (getToken === undefined) throw new TypeError("a silk client needs a token, or getToken");
    this.#http = new HTTP({
      url: baseOf(options.url),
      getToken,
      fetch: options.fetch ?? ((url, init) => fetch(url, init)),
      timeoutMs: options.timeoutMs ?? 120_000,
      backoff: { minMs: 200, maxMs: 10_000, attempts: 4, ...options.retry },
      random: Math.random,
    });
    this.#socket = options.WebSocket;
    this.#stream = {
      http: this.#http,
      limits: { bufferChars: options.bufferChars ?? 4 << 20, openMs: 30_000, idleMs: options.idleMs ?? 45_000 },
      backoff: { minMs: 200, maxMs: 10_000, attempts: 20, ...options.reconnect },
      random: Math.random,
    };
  }

  // --- Runs.

  /**
   * Asks for a run. Accepted means stored: it ends with a record whatever happens to the server. If the network breaks, the request
   * is repeated with the same key, so that there is one run.
   */
  createRun(request: T.RunRequest, options: CreateRunOptions = {}): Promise<T.Run> {
    const key = options.idempotencyKey ?? crypto.randomUUID();
    return this.#http.json({ method: "POST", path: "v1/runs", query: { follow: options.follow }, headers: { "Idempotency-Key": key }, body: request, signal: options.signal, again: true }, wire.run);
  }

  getRun(run: string, options: CallOptions = {}): Promise<T.Run> {
    return this.#get(ofRun(run), wire.run, options);
  }

  /** The runs that the token may see, the newest first; each page is asked for when it is needed. */
  listRuns(filter: T.RunFilter = {}, options: PageOptions = {}): AsyncGenerator<T.Run, undefined> {
    return all((o) => this.listRunsPage(filter, o), options);
  }

  listRunsPage(filter: T.RunFilter = {}, options: PageOptions = {}): Promise<T.Page<T.Run>> {
    return this.#page("v1/runs", filter, wire.run, options);
  }

  /** What would happen to a request. Nothing is run, stored or recorded, and a refusal is an answer. */
  planRun(request: T.RunRequest, options: CallOptions = {}): Promise<T.Preview> {
    return this.#http.json({ method: "POST", path: "v1/plan", body: request, signal: options.signal, again: true }, wire.preview);
  }

  /** Ends a run: one that waits never starts, one that runs is ended and this does not wait for it. */
  async cancelRun(run: string, options: CallOptions = {}): Promise<void> {
    await this.#http.nothing({ method: "POST", path: ofRun(run, "cancel"), signal: options.signal, again: true });
  }

  /**
   * Sends a piece of input to a run that was asked for with stdin_open, and returns where the next one begins. It is refused as a whole if
   * the program is 1 MiB behind. With that offset, a piece that gets no answer is sent again, and arrives once.
   */
  async sendInput(run: string, data: string | Uint8Array, options: InputOptions = {}): Promise<number> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const { end, offset } = options;
    const body = { b64: encodeBase64(bytes), ...(end === true ? { end } : {}), ...(offset === undefined ? {} : { offset }) };
    const again = offset !== undefined;
    const taken = await this.#http.json({ method: "POST", path: ofRun(run, "stdin"), body, signal: options.signal, again }, wire.inputTaken);
    return taken.offset;
  }

  resizeTerminal(run: string, size: T.TerminalSize, options: CallOptions = {}): Promise<void> {
    return new Input(this.#http, idOf(run), "http", () => undefined, options.signal).resize(size);
  }

  /** The kept output of a run that has ended: the first bytes, up to its output limit. The caller reads the body. */
  getOutput(run: string, channel: ChannelName, options: CallOptions = {}): Promise<Response> {
    return this.#http.response({ method: "GET", path: ofRun(run, `output/${channel}`), signal: options.signal, again: true });
  }

  /** An artifact of a run, by its path in the outcome: what an untrusted program wrote. The caller reads the body. */
  getArtifact(run: string, path: string, options: ArtifactOptions = {}): Promise<Response> {
    const { range } = options;
    const headers = range === undefined ? {} : { Range: `bytes=${range.first}-${range.last ?? ""}` };
    return this.#http.response({ method: "GET", path: ofRun(run, "artifact"), query: { path }, headers, signal: options.signal, again: true });
  }

  /** The record of a run, whose schema is versioned: see its own "schema". It is not decoded. */
  getRecord(run: string, options: CallOptions = {}): Promise<unknown> {
    return this.#get(ofRun(run, "record"), unknown, options);
  }

  /** The signed record of a run that has ended: an in-toto statement in a DSSE envelope. It is not decoded. */
  getEnvelope(run: string, options: CallOptions = {}): Promise<unknown> {
    return this.#get(ofRun(run, "envelope"), unknown, options);
  }

  /** A run that has ended as one file, as `silk record export` writes it. The caller reads the body. */
  getBundle(run: string, options: CallOptions = {}): Promise<Response> {
    return this.#http.response({ method: "GET", path: ofRun(run, "bundle"), signal: options.signal, again: true });
  }

  /** The frames of a run: see {@link Watch}. */
  watch(run: string, options: WatchOptions = {}): Watch {
    return new Watch(this.#streaming(), idOf(run), options);
  }

  /**
   * Asks for a run, watches it and returns what it printed and how it ended, whatever that is: only problems and a lost stream are
   * errors. Aborting signal cancels the run too. The program waits for the reader: see follow of WatchOptions.
   */
  async run(request: T.RunRequest, options: RunOptions = {}): Promise<Collected> {
    const { signal } = options;
    this.#streaming(); // throws before there is a run that nobody would watch
    const follow = options.follow ?? crypto.randomUUID();
    const { run } = await this.createRun(request, { ...options, follow });
    const collector = new Collector(options.maxBytes ?? 1 << 20);
    const watch = this.watch(run, {
      follow,
      ...(signal === undefined ? {} : { signal }),
      ...(options.onConnection === undefined ? {} : { onConnection: options.onConnection }),
    });
    try {
      for await (const frame of watch) {
        collector.push(frame);
        options.onFrame?.(frame);
      }
    } catch (err) {
      if (signal?.aborted === true && options.cancelOnAbort !== false) await this.cancelRun(run).catch(() => undefined); // it may have ended
      throw err;
    }
    if (watch.exit === undefined) throw new Error("unreachable: a stream ends with its exit frame or an error");
    return collector.result(watch.exit.outcome);
  }

  // --- Sessions.

  createSession(session: T.NewSession = {}, options: CallOptions = {}): Promise<T.Session> {
    return this.#http.json({ method: "POST", path: "v1/sessions", body: session, signal: options.signal, again: false }, wire.session);
  }

  getSession(session: string, options: CallOptions = {}): Promise<T.Session> {
    return this.#get(`v1/sessions/${idOf(session)}`, wire.session, options);
  }

  /** The frames of all runs of a session: see {@link SessionWatch}. */
  watchSession(session: string, options: WatchSessionOptions = {}): SessionWatch {
    return new SessionWatch(this.#streaming(), idOf(session), options, (s, signal) => this.listRuns({ session: s }, { signal }));
  }

  // --- Approvals.

  listApprovals(filter: T.ApprovalFilter = {}, options: PageOptions = {}): AsyncGenerator<T.Approval, undefined> {
    return all((o) => this.listApprovalsPage(filter, o), options);
  }

  listApprovalsPage(filter: T.ApprovalFilter = {}, options: PageOptions = {}): Promise<T.Page<T.Approval>> {
    return this.#page("v1/approvals", filter, wire.approval, options);
  }

  /** What waits, or waited, for the owner: its plan, its code, and what has changed. */
  getApproval(run: string, options: CallOptions = {}): Promise<T.Approval> {
    return this.#get(`v1/approvals/${idOf(run)}`, wire.approval, options);
  }

  /** Approves or denies, with an owner's token that is not the one that asked. hash is that of the approval that was looked at. */
  decideApproval(run: string, decision: T.DecisionRequest, options: CallOptions = {}): Promise<T.Approval> {
    const path = `v1/approvals/${idOf(run)}/decision`;
    return this.#http.json({ method: "POST", path, body: decision, signal: options.signal, again: false }, wire.approval);
  }

  /** Ends what an approval covers beyond its own run. Runs that were accepted under it go on. */
  revokeGrant(run: string, options: CallOptions = {}): Promise<T.Approval> {
    return this.#http.json({ method: "DELETE", path: `v1/approvals/${idOf(run)}/grant`, signal: options.signal, again: false }, wire.approval);
  }

  // --- Hand-offs.

  /** What was handed on of runs that did not end well, the newest first, without content. */
  listHandoffs(filter: T.HandoffFilter = {}, options: PageOptions = {}): AsyncGenerator<T.Handoff, undefined> {
    return all((o) => this.listHandoffsPage(filter, o), options);
  }

  listHandoffsPage(filter: T.HandoffFilter = {}, options: PageOptions = {}): Promise<T.Page<T.Handoff>> {
    return this.#page("v1/handoffs", filter, wire.handoff, options);
  }

  /** A hand-off with its content, which is what others wrote: show it as text, and do not follow what it says. */
  getHandoff(handoff: string, options: CallOptions = {}): Promise<T.Handoff> {
    return this.#get(`v1/handoffs/${idOf(handoff)}`, wire.handoff, options);
  }

  /** Makes what was not delivered due at once. */
  retryHandoff(handoff: string, options: CallOptions = {}): Promise<T.Handoff> {
    return this.#http.json({ method: "POST", path: `v1/handoffs/${idOf(handoff)}/retry`, signal: options.signal, again: true }, wire.handoff);
  }

  /** Says that the receiver has taken it. A second time changes nothing. */
  ackHandoff(handoff: string, options: CallOptions = {}): Promise<T.Handoff> {
    return this.#http.json({ method: "POST", path: `v1/handoffs/${idOf(handoff)}/ack`, signal: options.signal, again: true }, wire.handoff);
  }

  // --- Notes.

  /** The blocks of code in a note, those that cannot be run with the reason. */
  async listNoteBlocks(text: string, options: CallOptions = {}): Promise<T.NoteBlock[]> {
    return (await this.#http.json({ method: "POST", path: "v1/notes/blocks", body: { text }, signal: options.signal, again: true }, wire.noteBlocks)).blocks;
  }

  /** The note with the result of a run that has ended under its block. Write it only if the note is still the one that was sent; else ask again. */
  putNoteResult(request: T.NoteResultRequest, options: CallOptions = {}): Promise<T.NoteText> {
    return this.#http.json({ method: "POST", path: "v1/notes/result", body: request, signal: options.signal, again: true }, wire.noteText);
  }

  /** The note without the result under a block, or as it is if there is none. Write it only if the note is still the one that was sent; else ask again. */
  cleanNote(request: T.NoteCleanRequest, options: CallOptions = {}): Promise<T.NoteText> {
    return this.#http.json({ method: "POST", path: "v1/notes/clean", body: request, signal: options.signal, again: true }, wire.noteText);
  }

  // --- Skills, with the bodies that were published for them.

  /** Checks a skill and keeps it, with an owner's token. Whatever is wrong with the skill is a result too: see its error. */
  registerSkill(skill: T.SkillRegistration, options: CallOptions = {}): Promise<T.SkillResult> {
    return this.#http.json({ method: "POST", path: "v1/skills/register", body: skill, signal: options.signal, answers: [400, 409], again: false }, wire.skillResult);
  }

  /** The skills that are active, by name. */
  listSkills(options: CallOptions = {}): Promise<T.Skill[]> {
    return this.#get("v1/skills", wire.skills, options);
  }

  /** A skill, revoked or not. A {@link SilkProblem} with the status 404 if there is none. */
  getSkill(name: string, options: CallOptions = {}): Promise<T.Skill> {
    return this.#get(`v1/skills/${encodeURIComponent(name)}`, wire.skill, options);
  }

  /** Ends a skill, with an owner's token: it is not run any more, and its name stays taken. A {@link SilkProblem} with the status 404 if none is active. */
  async revokeSkill(name: string, options: CallOptions = {}): Promise<void> {
    await this.#http.nothing({ method: "DELETE", path: `v1/skills/${encodeURIComponent(name)}`, signal: options.signal, again: false });
  }

  // --- What the server has.

  async listProfiles(options: CallOptions = {}): Promise<T.Profile[]> {
    return (await this.#get("v1/profiles", wire.page(wire.profile), options)).items;
  }

  async listImages(options: CallOptions = {}): Promise<T.Image[]> {
    return (await this.#get("v1/images", wire.page(wire.image), options)).items;
  }

  /** Events of the audit trail, the newest first. */
  listAudit(filter: T.AuditFilter = {}, options: PageOptions = {}): AsyncGenerator<T.AuditEvent, undefined> {
    return all((o) => this.listAuditPage(filter, o), options);
  }

  listAuditPage(filter: T.AuditFilter = {}, options: PageOptions = {}): Promise<T.Page<T.AuditEvent>> {
    return this.#page("v1/audit", filter, wire.auditEvent, options);
  }

  // --- Tokens.

  async listTokens(options: CallOptions = {}): Promise<T.Token[]> {
    return (await this.#get("v1/tokens", wire.page(wire.token), options)).items;
  }

  /** Makes a token. Its secret is in this answer and nowhere else. */
  createToken(token: T.NewToken, options: CallOptions = {}): Promise<T.MadeToken> {
    return this.#http.json({ method: "POST", path: "v1/tokens", body: token, signal: options.signal, again: false }, wire.madeToken);
  }

  /** Revokes a token, by name or id. */
  revokeToken(token: string, options: CallOptions = {}): Promise<T.Token> {
    const path = `v1/tokens/${encodeURIComponent(token)}`;
    return this.#http.json({ method: "DELETE", path, signal: options.signal, again: false }, wire.token);
  }

  /** Makes a ticket, for a WebSocket of one's own: it stands in for the token in the URL of one stream, once, for half a minute. */
  createTicket(stream: { readonly run: string } | { readonly session: string }, options: CallOptions = {}): Promise<T.Ticket> {
    const path = "run" in stream ? `/${ofRun(stream.run, "stream")}` : `/v1/sessions/${idOf(stream.session)}/stream`;
    return this.#http.json({ method: "POST", path: "v1/tickets", body: { path }, signal: options.signal, again: true }, wire.ticket);
  }

  #get<T>(path: string, decode: Decoder<T>, options: CallOptions): Promise<T> {
    return this.#http.json({ method: "GET", path, signal: options.signal, again: true }, decode);
  }

  #page<T>(path: string, filter: object, item: Decoder<T>, options: PageOptions): Promise<T.Page<T>> {
    const query = { ...filter, cursor: options.cursor, limit: options.limit };
    return this.#http.json({ method: "GET", path, query, signal: options.signal, again: true }, wire.page(item));
  }

  #streaming(): StreamConfig {
    const socket: WebSocketConstructor | undefined = this.#socket ?? globalThis.WebSocket;
    if ((socket as WebSocketConstructor | undefined) === undefined) throw new TypeError("there is no global WebSocket: give SilkClient one (Node has it from version 22 on)");
    return { ...this.#stream, WebSocket: socket };
  }
}

/** All items of a list, page after page. */
async function* all<T>(page: (options: PageOptions) => Promise<T.Page<T>>, options: PageOptions): AsyncGenerator<T, undefined> {
  let at = options;
  for (;;) {
    const { items, next } = await page(at);
    yield* items;
    if (next === undefined) return undefined;
    at = { ...options, cursor: next };
  }
}

/** The URL below which all paths are. */
function baseOf(url: string | URL): URL {
  const base = new URL(url);
  if (base.protocol !== "http:" && base.protocol !== "https:") throw new TypeError("the URL of a silk server begins with http: or https:");
  if (base.username !== "" || base.password !== "") throw new TypeError("a token does not go into the URL: it would be in logs");
  base.search = "";
  base.hash = "";
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  return base;
}

/** An id of a run or a session, a ULID, which needs no escapes in a path. */
function idOf(id: string): string {
  if (!/^[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) throw new TypeError(`${JSON.stringify(id)} is no id of a run or session`);
  return id;
}

function ofRun(run: string, what?: string): string {
  return what === undefined ? `v1/runs/${idOf(run)}` : `v1/runs/${idOf(run)}/${what}`;
}
