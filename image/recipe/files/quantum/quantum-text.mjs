// What quantum.mjs reads out of texts: results, states and programs. Nothing here runs anything.

// label is a result as people write it: "[Zero, One]" is 01, the first bit first; "([One, One], 5)" is (11, 5).
export function label(result) {
  return result
    .replace(/[[(](?:Zero|One)(?:, (?:Zero|One))*[\])]/g, (bits) => bits.replace(/Zero/g, "0").replace(/One/g, "1").replace(/[^01]/g, ""))
    .replace(/\bZero\b/g, "0")
    .replace(/\bOne\b/g, "1");
}

// amplitudes reads a captured state: {name: "|01⟩", value: "0.7071−0.5000𝑖"} is ["01", 0.7071, -0.5].
export function amplitudes(captured) {
  return captured.map(({ name, value }) => {
    const numbers = value.replaceAll("−", "-").match(/[+-]?[\d.]+(?:e[+-]?\d+)?/g).map(Number);
    return [name.slice(1, -1), numbers[0], numbers[1] ?? 0];
  });
}

// bare is a program with its comments and strings blanked, so that offsets stay.
function bare(text) {
  return text.replace(/\/\*[^]*?\*\/|\/\/[^\n]*|"[^"\n]*"/g, (match) => match.replace(/[^\n]/g, " "));
}

// includes lists the files that an OpenQASM program includes, without the standard ones.
export function includes(text) {
  const blanked = bare(text);
  return [...text.matchAll(/\binclude\s+"([^"\n]+)"/g)]
    .filter(({ index }) => blanked.startsWith("include", index))
    .map(([, name]) => name)
    .filter((name) => !["stdgates.inc", "qelib1.inc", "qdk.inc"].includes(name));
}

// beforeMeasurement finds where to stop for the state before the first measurement: of the places where execution can
// stop, the innermost statement around it; without one, the last statement.
export function beforeMeasurement(text, places) {
  const lines = [0];
  for (const { index } of text.matchAll(/\n/g)) lines.push(index + 1);
  const offset = ({ line, character }) => lines[line] + character;
  const spans = places.map(({ id, range }) => ({ id, start: offset(range.start), end: offset(range.end) }));
  const at = /\bmeasure\b/.exec(bare(text))?.index;
  if (at === undefined) return spans.toSorted((a, b) => b.start - a.start)[0];
  return spans.filter(({ start, end }) => start <= at && at < end).toSorted((a, b) => a.end - a.start - (b.end - b.start))[0];
}

// version says which language a program is in.
export function version(text, qasm) {
  if (!qasm) return "Q#";
  return `OpenQASM ${/^\s*OPENQASM\s+([\d.]+)/.exec(bare(text))?.[1] ?? "3"}`;
}
