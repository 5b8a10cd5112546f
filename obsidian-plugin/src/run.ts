import { OutputText, type ChannelName, type ConnectionState, type Cursor, type Frame, type Outcome, type Run } from "@silk-sandbox/client";
import { Screen, type ScreenLimits } from "./screen.js";

/** How a run stands, as a pane shows it. */
export interface RunState {
  readonly run: string;
  /** lost: the stream broke for good; how the run ended is unknown until somebody reconnects. */
  readonly phase: "pending" | "queued" | "running" | "ended" | "lost";
  /** In the queue; 0 is unknown. */
  readonly position: number;
  /** The last step on the way to the start. */
  readonly step: string;
  readonly startedAtMs: number | undefined;
  readonly violations: readonly Violation[];
  readonly egress: readonly Egress[];
  /** Whether the stream is being opened again. */
  readonly reconnecting: boolean;
  readonly outcome: Outcome | undefined;
  /** Why nothing more is known. */
  readonly problem: string;
}

export interface Violation {
  readonly rule: string;
  readonly syscall: string;
  readonly detail: string;
}

export interface Egress {
  readonly host: string;
  readonly port: number;
  readonly allowed: boolean;
}

const maxEgress = 200; // of decisions that are listed

export function newState(run: Run): RunState {
  return {
    run: run.run,
    phase: run.state,
    position: run.position ?? 0,
    step: "",
    startedAtMs: run.started_at_ms,
    violations: [],
    egress: [],
    reconnecting: false,
    outcome: run.outcome,
    problem: "",
  };
}

/** Folds one frame into what is shown. Pure: no DOM, no Obsidian, no clock. Output goes to the screens: see {@link LiveRun}. */
export function fold(state: RunState, frame: Frame): RunState {
  switch (frame.type) {
    case "hello":
      return { ...state, phase: frame.state === undefined || frame.state === "ended" ? state.phase : frame.state };
    case "queued":
      return { ...state, phase: "queued", position: frame.position ?? 0 };
    case "approval":
      return { ...state, phase: frame.state === "pending" ? "pending" : state.phase === "pending" ? "queued" : state.phase, step: frame.detail ?? "" };
    case "progress":
      return { ...state, step: [frame.step, frame.detail].filter((s) => s !== undefined && s !== "").join(" ") };
    case "started":
      return { ...state, phase: "running", startedAtMs: frame.at_ms ?? state.startedAtMs, step: "" };
    case "violation":
      return { ...state, violations: [...state.violations, { rule: frame.rule, syscall: frame.syscall ?? "", detail: frame.detail ?? "" }] };
    case "egress":
      return { ...state, egress: [...state.egress, { host: frame.host, port: frame.port ?? 0, allowed: frame.allowed }].slice(-maxEgress) };
    case "exit":
      return { ...state, phase: "ended", outcome: frame.outcome, reconnecting: false, problem: "" };
    case "output":
    case "gap":
    case "display": // the outcome lists all artifacts
    case "unknown":
      return state;
    default:
      return unreachable(frame);
  }
}

/** A kind of frame that is not handled does not compile. */
function unreachable(frame: never): never {
  throw new Error(`unreachable: ${JSON.stringify(frame)}`);
}

/** One run that is watched: how it stands, and its output. Views ask for both when they are told of a change, and so also when they come late. */
export class LiveRun {
  readonly stdout: Screen;
  readonly stderr: Screen;
  readonly #text = new OutputText();
  readonly #listeners = new Set<() => void>();
  #state: RunState;
  /** Where another watch goes on. */
  cursor: Cursor = { stdout: 0, stderr: 0 };

  constructor(run: Run, limits?: ScreenLimits) {
    this.#state = newState(run);
    this.stdout = new Screen(limits);
    this.stderr = new Screen(limits);
  }

  get state(): RunState {
    return this.#state;
  }

  screen(channel: ChannelName): Screen {
    return channel === "stdout" ? this.stdout : this.stderr;
  }

  /** Calls listener after each change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  push(frame: Frame): void {
    if (frame.type === "output") {
      this.#advance(frame.channel, frame.offset + frame.bytes.length);
      this.screen(frame.channel).write(this.#text.push(frame));
    } else if (frame.type === "gap") {
      this.#advance(frame.channel, frame.to);
      const screen = this.screen(frame.channel);
      screen.write(this.#text.push(frame));
      screen.note(`[${String(frame.to - frame.from)} bytes were too fast to be shown; the record may have them]`);
    } else if (frame.type === "exit") {
      for (const c of ["stdout", "stderr"] as const) this.screen(c).write(this.#text.end(c));
    }
    this.#state = fold(this.#state, frame);
    this.#changed();
  }

  connection(to: ConnectionState): void {
    const reconnecting = to.state === "waiting";
    if (reconnecting === this.#state.reconnecting) return;
    this.#state = { ...this.#state, reconnecting };
    this.#changed();
  }

  /** The stream broke for good. */
  lose(problem: string): void {
    this.#state = { ...this.#state, phase: "lost", reconnecting: false, problem };
    this.#changed();
  }

  /** It is watched again, from its cursor. */
  resume(): void {
    this.#state = { ...this.#state, phase: this.#state.startedAtMs === undefined ? "queued" : "running", problem: "" };
    this.#changed();
  }

  #advance(channel: ChannelName, to: number): void {
    this.cursor = { ...this.cursor, [channel]: to };
  }

  #changed(): void {
    for (const l of [...this.#listeners]) l();
  }
}
