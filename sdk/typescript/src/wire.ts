import { array, boolean, count, integer, nullable, number, object, oneOf, optional, record, string, unknown, type Decoder, type Shape } from "./decode.js";
import type { Approval, ApprovalFile, Artifact, AuditEvent, ChannelSummary, Destination, FieldError, Handoff, HandoffChannel, HandoffCode, HandoffContent, HandoffDelivery, HandoffOutcome, HandoffViolation, Image, InputTaken, Limits, MadeToken, NoteBlock, NoteText, Outcome, Page, Preview, Problem, Profile, Run, RunRequest, Session, Skill, SkillFault, SkillFinding, SkillMismatch, SkillResult, Ticket, Token, Usage } from "./types.js";

// Decoders of what the server answers. Numbers of which the server may learn new kinds are not narrowed: a kind of outcome that
// is not known is an error, never taken for ok.

const channel = object<ChannelSummary>({ bytes: count, truncated: boolean, sha256: string });

const artifact = object<Artifact>({
  path: string,
  path_b64: optional(string),
  type: string,
  size: count,
  sha256: optional(string),
  mime: optional(string),
  display: optional(string),
  omitted: optional(string),
});

const usage = object<Usage>({ cpu_ms: integer, peak_memory_bytes: integer, processes: integer });

const destination = object<Destination>({
  kind: oneOf("tcp", "udp", "dns"),
  host: string,
  port: optional(integer),
  allowed: boolean,
  rule: optional(string),
  reason: optional(string),
  addr: optional(string),
  count: integer,
  sent: count,
  taken: count,
  lasted_ms: integer,
});

export const outcome: Decoder<Outcome> = object<Outcome>({
  outcome: oneOf("ok", "failed", "timeout", "oom", "violated", "denied", "canceled", "error"),
  reason: optional(oneOf("host", "usage", "missing")),
  message: optional(string),
  exit_code: nullable(integer),
  signal: optional(integer),
  phase: optional(oneOf("compile")),
  rule: optional(string),
  syscall: optional(string),
  argument: optional(string),
  stdout: channel,
  stderr: channel,
  artifacts: array(artifact),
  flags: record(integer),
  refused: optional(record(integer)),
  egress: optional(array(destination)),
  egress_more: optional(integer),
  wall_ms: integer,
  usage,
  run: string,
  driver: optional(string),
  image: optional(string),
});

export const runState = oneOf("pending", "queued", "running", "ended");

export const run: Decoder<Run> = object<Run>({
  run: string,
  state: runState,
  profile: string,
  client: string,
  command: optional(string),
  session: optional(string),
  accepted_at_ms: integer,
  started_at_ms: optional(integer),
  ended_at_ms: optional(integer),
  position: optional(integer),
  eta_ms: optional(integer),
  hash: optional(string),
  outcome: optional(outcome),
});

export const session = object<Session>({ session: string, name: string, created_at_ms: integer });

const approvalFile = object<ApprovalFile>({
  name: string,
  bytes: count,
  executable: optional(boolean),
  sha256: optional(string),
  text: optional(string),
  omitted: optional(string),
});

export const approval = object<Approval>({
  run: string,
  state: oneOf("pending", "granted", "denied", "expired", "withdrawn"),
  hash: string,
  rule: string,
  detail: string,
  token: string,
  plan: optional(unknown),
  code: optional(string),
  files: optional(array(approvalFile)),
  omitted: optional(string),
  warnings: optional(array(string)),
  diff: optional(string),
  requested_at_ms: integer,
  expires_at_ms: integer,
  decided_at_ms: optional(integer),
  decided_by: optional(string),
  valid_until_ms: optional(integer),
});

const handoffReceiver = oneOf("code_explainer", "widow_weaver");

const handoffDelivery = object<HandoffDelivery>({
  sink: string,
  state: oneOf("pending", "delivered", "dead", "dropped"),
  attempts: count,
  due_at_ms: optional(integer),
  done_at_ms: optional(integer),
  error: optional(string),
});

const handoffCode = object<HandoffCode>({
  name: string,
  bytes: count,
  sha256: optional(string),
  text: optional(string),
  b64: optional(string),
  omitted: optional(string),
});

const handoffChannel = object<HandoffChannel>({
  bytes: count,
  sha256: optional(string),
  text: optional(string),
  b64: optional(string),
  omitted_bytes: optional(count),
  tail: optional(string),
  tail_b64: optional(string),
});

const handoffOutcome = object<HandoffOutcome>({
  outcome: oneOf("ok", "failed", "timeout", "oom", "violated", "denied", "canceled", "error"),
  reason: optional(string),
  message: optional(string),
  exit_code: optional(integer),
  signal: optional(integer),
  phase: optional(string),
  rule: optional(string),
  flags: record(integer),
  wall_ms: integer,
});

const handoffViolation = object<HandoffViolation>({
  rule: string,
  ended: boolean,
  syscall: optional(string),
  argument: optional(string),
  count,
});

const handoffContent = object<HandoffContent>({
  schema: oneOf("silk.handoff/v1"),
  handoff: string,
  receiver: handoffReceiver,
  receivers: array(string),
  created_at_ms: integer,
  run: string,
  name: string,
  profile: string,
  client: string,
  command: optional(string),
  driver: optional(string),
  image: optional(string),
  started_at_ms: integer,
  ended_at_ms: integer,
  language: optional(string),
  code: optional(handoffCode),
  log: object({ stdout: handoffChannel, stderr: handoffChannel }),
  outcome: handoffOutcome,
  violations: array(handoffViolation),
  note: optional(string),
  block: optional(string),
});

export const handoff = object<Handoff>({
  handoff: string,
  run: string,
  receiver: handoffReceiver,
  outcome: string,
  state: oneOf("open", "pending", "delivered", "dead", "acked"),
  created_at_ms: integer,
  acked_at_ms: optional(integer),
  acked_by: optional(string),
  deliveries: array(handoffDelivery),
  content: optional(handoffContent),
});

const limits = object<Limits>({
  timeout_ms: optional(integer),
  memory_bytes: optional(integer),
  cpus: optional(number),
  processes: optional(integer),
  workspace_bytes: optional(integer),
  tmp_bytes: optional(integer),
  shm_bytes: optional(integer),
  output_bytes: optional(integer),
});

export const profile = object<Profile>({
  name: string,
  about: optional(string),
  image: string,
  language: optional(string),
  network: string,
  hosts: optional(array(string)),
  limits,
  max: optional(limits),
});

export const image = object<Image>({ tag: optional(string), digest: string, bytes: count });

export const auditEvent = object<AuditEvent>({
  id: string,
  seq: integer,
  timestamp: integer,
  intent_id: string,
  event: string,
  data: unknown,
  hash: string,
});

const tokenShape: Shape<Token> = {
  token: string,
  name: string,
  role: oneOf("owner", "runner", "viewer"),
  max_running: optional(integer),
  max_queued: optional(integer),
  created_at_ms: integer,
  expires_at_ms: optional(integer),
  revoked_at_ms: optional(integer),
};

export const token = object<Token>(tokenShape);

export const madeToken = object<MadeToken>({ ...tokenShape, secret: string });

export const inputTaken = object<InputTaken>({ offset: count });

export const ticket = object<Ticket>({ ticket: string, expires_at_ms: integer });

export const skill = object<Skill>({
  name: string,
  publisherAddress: string,
  publisherName: string,
  manifest: unknown,
  manifestHash: string,
  status: oneOf("active", "revoked"),
  registeredAt: integer,
  revokedAt: nullable(integer),
});

export const skills: Decoder<Skill[]> = array(skill);

const skillFault = object<SkillFault>({ path: string, message: string });

const skillMismatch = object<SkillMismatch>({ path: string, expected: string, actual: string, message: optional(string) });

const skillFinding = object<SkillFinding>({
  file: string,
  line: integer,
  rule: oneOf("dynamic_eval", "child_process", "network_access", "fs_write", "obfuscation", "file_read_error"),
  severity: oneOf("error", "warning"),
  message: string,
});

export const skillResult = object<SkillResult>({
  registered: boolean,
  name: string,
  manifestHash: string,
  error: optional(oneOf("schema_validation_failed", "signature_verification_failed", "file_hash_mismatch", "static_scan_failed", "duplicate_skill")),
  validationErrors: optional(array(skillFault)),
  hashMismatches: optional(array(skillMismatch)),
  scanFindings: optional(array(skillFinding)),
});

export function page<T>(item: Decoder<T>): Decoder<Page<T>> {
  const decode = object<Page<unknown>>({ items: array(item), next: optional(string) });
  return (value, at) => decode(value, at) as Page<T>; // items are what item made
}

const fieldError = object<FieldError>({ field: string, detail: string });

export const problem = object<Problem>({
  type: string,
  title: string,
  status: integer,
  detail: optional(string),
  errors: optional(array(fieldError)),
  rule: optional(string),
  fix: optional(string),
  run: optional(string),
  offset: optional(count),
  retry_after_ms: optional(integer),
});

export const preview = object<Preview>({
  plan: optional(unknown),
  hash: optional(string),
  driver: optional(string),
  image: optional(string),
  denial: optional(object<NonNullable<Preview["denial"]>>({ rule: string, detail: string, fix: optional(string) })),
  notes: array(string),
  enforced: array(object<Preview["enforced"][number]>({ what: string, rule: optional(string) })),
});

// What the server puts into requests that it makes.
type Made = Pick<
  RunRequest,
  | "args" | "client" | "code" | "code_b64" | "deterministic" | "driver" | "env" | "hosts" | "isolation" | "language" | "limits" | "name" | "network" | "no_spawn"
  | "profile" | "require_watch" | "session" | "stdin" | "stdin_open"
>;

const knownRequest = object<Made>({
  args: optional(array(string)),
  client: optional(oneOf("note", "mcp")),
  code: optional(string),
  code_b64: optional(string),
  deterministic: optional(boolean),
  driver: optional(string),
  env: optional(array(string)),
  hosts: optional(array(string)),
  isolation: optional(oneOf("microvm")),
  language: optional(string),
  limits: optional(limits),
  name: optional(string),
  network: optional(oneOf("deny", "loopback", "allow", "allowlist")),
  no_spawn: optional(boolean),
  profile: optional(string),
  require_watch: optional(boolean),
  session: optional(string),
  stdin: optional(string),
  stdin_open: optional(boolean),
});

/** A request that the server made, to be sent back. It stays whole: a field that this version does not know may be what narrows it. */
const runRequest: Decoder<RunRequest> = (value, at) => {
  knownRequest(value, at);
  return value as RunRequest;
};

const noteBlock = object<NoteBlock>({
  line: count,
  end_line: count,
  language: string,
  profile: string,
  attributes: record(string),
  runnable: boolean,
  reason: string,
  code: string,
  code_hash: string,
  request: optional(runRequest),
  result: optional(object<NonNullable<NoteBlock["result"]>>({ line: count, end_line: count, run: string })),
});

export const noteBlocks = object<{ blocks: NoteBlock[] }>({ blocks: array(noteBlock) });

export const noteText = object<NoteText>({
  text: string,
  line: count,
  images: array(object<NoteText["images"][number]>({ artifact: string, path: string })),
  unused: array(string),
});
