// node /usr/lib/silk/quantum.mjs FILE.qasm|FILE.qs [--shots N] runs OpenQASM 2 and 3, and Q#, on a simulator of the state
// vector. It prints counts and a summary of the state, and leaves counts.json, state.json and histogram.png behind.
//
// The state is the one just before the first measurement of an OpenQASM program, and what DumpMachine() showed last in the
// first shot of a Q# program. A Q# operation that returns Unit has nothing to count: it runs once.
import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { QscEventTarget, StepResultId, getCompiler, getDebugService, loadWasmModule, log } from "../../share/nodejs/qsharp-lang/dist/node.js";
import { print, report } from "../../share/nodejs/silk-quantum/index.js";
import { amplitudes, beforeMeasurement, includes, label, version } from "./quantum-text.mjs";

const simulator = new URL("../../share/nodejs/qsharp-lang/lib/web/qsc_wasm_bg.wasm", import.meta.url);
const manyShots = 1_000_000; // 1,024 take a second

class Refused extends Error {} // a sentence for the user is all there is to say

function options() {
  let parsed;
  try {
    parsed = parseArgs({ allowPositionals: true, options: { shots: { type: "string", default: "1024" } } });
  } catch (error) {
    throw new Refused(error.message);
  }
  const shots = Number(parsed.values.shots);
  if (!Number.isInteger(shots) || shots < 1 || shots > manyShots) throw new Refused(`--shots ${parsed.values.shots} is not a whole number from 1 to ${manyShots}`);
  if (parsed.positionals.length !== 1) throw new Refused("name one file: FILE.qasm or FILE.qs, and --shots N if you like");
  return { file: parsed.positionals[0], shots };
}

// program reads the file and, of OpenQASM, the files of the user's own that it includes.
function program(file) {
  const sources = [];
  const add = (name) => {
    const text = fs.readFileSync(name, "utf8");
    sources.push([qasm ? name : "main.qs", text]); // Q# makes a namespace of it, which not every name is good for
    for (const included of qasm ? includes(text) : []) {
      const beside = path.join(path.dirname(name), included);
      if (!sources.some(([known]) => known === beside) && fs.existsSync(beside)) add(beside);
    }
  };
  const qasm = path.extname(file).toLowerCase() !== ".qs";
  add(file);
  return { file, sources, languageFeatures: [], profile: "unrestricted", projectType: qasm ? "openqasm" : "qsharp" };
}

// complain writes what is wrong with a program, each with its place, as compilers do.
function complain(failure, { file, sources }) {
  const errors = failure?.errors ?? [];
  for (const { document, diagnostic, stack } of errors) {
    const { line, character } = diagnostic.range.start;
    const text = sources.find(([name]) => name === document)?.[1].split("\n")[line];
    console.error(`${document === sources[0][0] ? file : document}:${line + 1}:${character + 1}: ${diagnostic.message}`);
    if (text !== undefined) console.error(`    ${text}\n    ${" ".repeat(character)}^`);
    if (stack) console.error(stack.trimEnd());
  }
  if (errors.length === 0) console.error(String(failure?.message ?? failure));
}

// shoot runs a program, and returns its shots: {result, events}. A shot that fails ends everything.
async function shoot(compiler, prog, shots) {
  const events = new QscEventTarget(true);
  let thrown;
  try {
    await compiler.run(prog, "", shots, events);
  } catch (error) {
    thrown = error;
  }
  const failed = events.getResults().find((shot) => !shot.success);
  if (!failed && !thrown) return events.getResults();
  complain(failed?.result || thrown, prog);
  process.exit(1);
}

// state is the state vector just before the first measurement of an OpenQASM program: [[basis, re, im], ...].
async function state(prog) {
  const [name, text] = prog.sources[0];
  const debug = await getDebugService();
  try {
    if (await debug.loadProgram(prog, undefined)) return [];
    const stop = beforeMeasurement(text, await debug.getBreakpoints(name));
    if (!stop) return [];
    const { id } = await debug.evalContinue([stop.id], new QscEventTarget(false));
    return id === StepResultId.BreakpointHit ? amplitudes(await debug.captureQuantumState()) : [];
  } finally {
    await debug.dispose();
  }
}

async function main() {
  log.setLogLevel("off");
  const { file, shots } = options();
  const prog = program(file);
  await loadWasmModule(fs.readFileSync(simulator));
  const compiler = await getCompiler();
  const qasm = prog.projectType === "openqasm";

  const all = await shoot(compiler, prog, qasm ? shots : 1);
  for (const { type, message } of all[0].events) if (type === "Message") console.log(message);
  const counted = all[0].result !== "()";
  if (!qasm && counted && shots > 1) all.push(...(await shoot(compiler, prog, shots - 1)));

  const dump = all[0].events.findLast(({ type }) => type === "DumpMachine");
  const vector = qasm ? await state(prog) : Object.entries(dump?.state ?? {}).map(([basis, [re, im]]) => [basis.slice(1, -1), re, im]);
  const counts = {};
  if (counted) for (const { result } of all) counts[label(result)] = (counts[label(result)] ?? 0) + 1;

  console.log(`${version(prog.sources[0][1], qasm)}, ${all.length} ${all.length === 1 ? "shot" : "shots"}`);
  print({ counts, state: vector });
  report({ counts, state: vector });
}

main().then(
  () => process.exit(0), // the simulator keeps timers
  (error) => {
    console.error(error instanceof Refused || error?.code === "ENOENT" ? `quantum: ${error.message}` : error);
    process.exit(error instanceof Refused ? 2 : 1);
  },
);
