/** A fence as it is drawn: enough to put a button at it. What is run is decided from the server's own parse of the whole note. */
export interface Fence {
  /** Lines of the fences, from 0; the closing one is the last line if it is missing. */
  readonly line: number;
  readonly endLine: number;
  readonly language: string;
  readonly code: string;
}

// In lists, quotes and callouts a fence stands behind their marks.
const opening = /^((?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(`{3,}|~{3,})[ \t]*([^`]*)$/;

/** Whether a change of this line may begin, end or name a fence. */
export const maybeFence = (line: string): boolean => line.includes("```") || line.includes("~~~") || line === "---";

/** The fences of a note, in their order. */
export function findFences(lines: Iterable<string>): Fence[] {
  const out: Fence[] = [];
  let open: { line: number; mark: string; quotes: number; indent: number; language: string; code: string[] } | undefined;
  let n = -1;
  let matter = false;
  const close = (endLine: number): void => {
    if (open !== undefined) out.push({ line: open.line, endLine, language: open.language, code: open.code.map((l) => l + "\n").join("") });
    open = undefined;
  };
  for (const text of lines) {
    n++;
    const line = text.replace(/\r$/, "").replace(n === 0 ? /^\ufeff/ : /^$/, "");
    if (n === 0 && line === "---") {
      matter = true;
      continue;
    }
    if (matter) {
      matter = line !== "---";
      continue;
    }
    if (open !== undefined) {
      const inner = unquote(line, open.quotes);
      if (inner !== undefined) {
        const end = inner.trim();
        if (end.length >= open.mark.length && end === (open.mark[0] ?? "`").repeat(end.length)) close(n);
        else open.code.push(dedent(inner, open.indent));
        continue;
      }
      close(n - 1); // its quote has ended
    }
    const found = opening.exec(line);
    if (found === null) continue;
    const [, before = "", mark = "", info = ""] = found;
    const quotes = before.split(">").length - 1;
    open = { line: n, mark, quotes, indent: before.slice(before.lastIndexOf(">") + 1).length - (quotes > 0 ? 1 : 0), language: languageOf(info), code: [] };
  }
  close(n);
  return out;
}

/** The language that a fence's info string names, in lower case. */
export function languageOf(info: string): string {
  return (/^[^\s{,:]*/.exec(info.trim())?.[0] ?? "").toLowerCase();
}

/** The line within so many quotes, or undefined if it is not. */
function unquote(line: string, quotes: number): string | undefined {
  let rest = line;
  for (let i = 0; i < quotes; i++) {
    const found = /^[ \t]*>[ \t]?/.exec(rest);
    if (found === null) return undefined;
    rest = rest.slice(found[0].length);
  }
  return rest;
}

function dedent(line: string, indent: number): string {
  let i = 0;
  while (i < indent && (line[i] === " " || line[i] === "\t")) i++;
  return line.slice(i);
}
