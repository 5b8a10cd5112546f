// Shows what a quantum program came to: report({counts, state}) writes counts.json, state.json and histogram.png into the
// current directory, print({counts, state}) prints the same in short.
//
// counts is {"00": 510, "11": 514}; state is [[basis, re, im], ...], {basis: [re, im]} or {basis: probability amplitude}.
// What is empty or missing is left out.
import { spawnSync } from "node:child_process";
import fs from "node:fs";

const shown = 16; // lines of each table
const kept = 1024; // amplitudes in state.json

function summary(state = []) {
  const entries = Array.isArray(state) ? state : Object.entries(state).map(([basis, value]) => [basis, ...[value].flat()]);
  return entries
    .map(([basis, re, im = 0]) => ({ basis, re, im, probability: re * re + im * im }))
    .filter(({ probability }) => probability > 1e-12)
    .sort((a, b) => b.probability - a.probability || (a.basis < b.basis ? -1 : 1));
}

function sorted(counts = {}) {
  return Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1));
}

function more(all) {
  if (all > shown) console.log(`  ... and ${all - shown} more`);
}

const percent = (share) => `${(100 * share).toFixed(1).padStart(5)} %`;

export function print({ counts, state }) {
  const amplitudes = summary(state);
  if (amplitudes.length > 0) console.log("state");
  for (const { basis, re, im, probability } of amplitudes.slice(0, shown)) {
    console.log(`  |${basis}⟩  ${re.toFixed(4).padStart(7)} ${im < 0 ? "-" : "+"} ${Math.abs(im).toFixed(4)}i  ${percent(probability)}`);
  }
  more(amplitudes.length);

  const rows = sorted(counts);
  const total = rows.reduce((sum, [, n]) => sum + n, 0);
  const width = Math.max(0, ...rows.slice(0, shown).map(([outcome]) => outcome.length));
  if (rows.length > 0) console.log("counts");
  for (const [outcome, n] of rows.slice(0, shown)) console.log(`  ${outcome.padEnd(width)}  ${String(n).padStart(7)}  ${percent(n / total)}`);
  more(rows.length);
}

export function report({ counts, state }) {
  const amplitudes = summary(state);
  if (amplitudes.length > 0) {
    const largest = amplitudes.slice(0, kept);
    write("state.json", { qubits: largest[0].basis.length, amplitudes: largest, omitted: amplitudes.length - largest.length });
  }
  const rows = sorted(counts);
  if (rows.length === 0) return;
  write("counts.json", { shots: rows.reduce((sum, [, n]) => sum + n, 0), counts: Object.fromEntries(rows) });
  const { error, status, stderr } = spawnSync("python3", ["-m", "silk_quantum", "counts.json", "histogram.png"], { encoding: "utf8" });
  if (error || status !== 0) console.error(`histogram.png was not drawn: ${error?.message ?? stderr.trim()}`);
}

function write(name, value) {
  fs.writeFileSync(name, `${JSON.stringify(value, null, 1)}\n`);
}
