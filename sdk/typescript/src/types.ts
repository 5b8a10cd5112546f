import type { components, operations } from "./openapi_gen.js";

type Schemas = components["schemas"];

/** T with fields in which the server may send null for an empty list. Here they are lists. */
type Lists<T, K extends keyof T> = Omit<T, K> & { [P in K]-?: NonNullable<T[P]> };

// What a client sends.
export type RunRequest = Schemas["RunRequest"];
export type RunFile = Schemas["File"];
export type Limits = Schemas["Limits"];
export type TerminalSize = Schemas["Size"];
export type NewSession = Schemas["NewSession"];
export type NewToken = Schemas["NewToken"];
export type DecisionRequest = Schemas["DecisionRequest"];
export type NoteResultRequest = Schemas["NoteResultRequest"];
export type NoteCleanRequest = Schemas["NoteCleanRequest"];
export type SkillRegistration = Required<Schemas["SkillRegistration"]>;

// What the server sends.
export type Artifact = Schemas["Artifact"];
export type ChannelSummary = Schemas["Channel"];
export type Usage = Schemas["Usage"];
export type Destination = Schemas["Destination"];
export type Outcome = Lists<Schemas["Outcome"], "artifacts">;
export type OutcomeKind = Outcome["outcome"];
export type Run = Omit<Schemas["Run"], "outcome"> & { outcome?: Outcome };
export type RunState = Run["state"];
export type Session = Schemas["Session"];
export type ApprovalFile = Schemas["ApprovalFile"];
export type Approval = Omit<Schemas["Approval"], "files"> & { files?: ApprovalFile[] };
export type HandoffDelivery = Schemas["HandoffDelivery"];
export type HandoffCode = Schemas["HandoffCode"];
export type HandoffChannel = Schemas["HandoffChannel"];
export type HandoffViolation = Schemas["HandoffViolation"];
export type HandoffOutcome = Schemas["HandoffOutcome"];
export type HandoffContent = Schemas["HandoffContent"];
export type Handoff = Schemas["Handoff"];
export type Profile = Schemas["Profile"];
export type Image = Schemas["Image"];
export type Preview = Schemas["Preview"];
export type NoteBlock = Schemas["NoteBlock"];
export type NoteText = Schemas["NoteText"];
export type AuditEvent = Schemas["AuditEvent"];
export type Token = Schemas["Token"];
export type MadeToken = Schemas["MadeToken"];
export type InputTaken = Schemas["InputTaken"];
export type Ticket = Schemas["Ticket"];
export type Skill = Schemas["Skill"];
export type SkillResult = Schemas["SkillResult"];
export type SkillFault = Schemas["SkillFault"];
export type SkillMismatch = Schemas["SkillMismatch"];
export type SkillFinding = Schemas["SkillFinding"];
export type FieldError = Schemas["FieldError"];
export type Problem = Schemas["Problem"];

/** One page of a list. next is absent on the last one. */
export interface Page<T> {
  items: T[];
  next?: string;
}

type Query<O extends keyof operations> = Omit<NonNullable<operations[O]["parameters"]["query"]>, "cursor" | "limit">;

// What lists can be narrowed by.
export type RunFilter = Query<"list-runs">;
export type ApprovalFilter = Query<"list-approvals">;
export type AuditFilter = Query<"list-audit">;
export type HandoffFilter = Query<"list-handoffs">;
