/**
 * Client of a silk server: run code that you do not trust in a sandbox, and watch it live. See {@link SilkClient}.
 *
 * @packageDocumentation
 */
export type { Backoff } from "./backoff.js";
export { SilkClient } from "./client.js";
export type { ArtifactOptions, CallOptions, ClientOptions, CreateRunOptions, InputOptions, PageOptions, RunOptions } from "./client.js";
export type { Collected } from "./collect.js";
export type { ConnectionState } from "./connect.js";
export { SilkDecodeError, SilkError, SilkNetworkError, SilkProblem, SilkStreamError } from "./errors.js";
export type { StreamErrorReason } from "./errors.js";
export { decodeFrame, subprotocol } from "./frame.js";
export type {
  ApprovalFrame,
  ChannelName,
  Cursor,
  DisplayFrame,
  EgressFrame,
  ExitFrame,
  Frame,
  GapFrame,
  HelloFrame,
  OutputFrame,
  PingFrame,
  ProgressFrame,
  QueuedFrame,
  StartedFrame,
  UnknownFrame,
  ViolationFrame,
} from "./frame.js";
export type { Fetch } from "./http.js";
export type { InputRoute } from "./input.js";
export type { SessionWatch, WatchSessionOptions } from "./session.js";
export type { WebSocketConstructor, WebSocketLike } from "./socket.js";
export { OutputText } from "./text.js";
export type * from "./types.js";
export type { Watch, WatchOptions } from "./watch.js";
