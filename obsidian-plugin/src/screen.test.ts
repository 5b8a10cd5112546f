import { describe, expect, test } from "vitest";
import { plain } from "./ansi.js";
import { Screen, screenLimits } from "./screen.js";

const shown = (...pieces: string[]): string => {
  const s = new Screen();
  for (const p of pieces) s.write(p);
  return s.text();
};

describe("text", () => {
  test.each([
    ["lines", ["a\nb\n"], "a\nb"],
    ["a line that has no end yet", ["a\nb"], "a\nb"],
    ["CRLF is one line end", ["a\r\nb\r\n"], "a\nb"],
    ["a carriage return writes over", ["10%\r20%\r100%\n"], "100%"],
    ["and leaves what it does not reach", ["abcdef\rxy\n"], "xycdef"],
    ["a carriage return between two pieces", ["50%\r", "75%"], "75%"],
    ["erase to the end of the line", ["long line\rshort\u001b[K\n"], "short"],
    ["erase the whole line", ["abc\u001b[2Kd"], "d"],
    ["backspace", ["spin |\b/\b-"], "spin -"],
    ["colours leave no trace in text", ["\u001b[31mred\u001b[0m\n"], "red"],
    ["a sequence that is cut between two pieces", ["\u001b[3", "1mred"], "red"],
    ["a sequence that is cut after its first byte", ["\u001b", "[1mbold"], "bold"],
    ["titles and links of terminals", ["\u001b]0;title\u0007a\u001b]8;;http://x\u001b\\b\u001b]8;;\u001b\\"], "ab"],
    ["moves of the cursor are left out", ["\u001b[2J\u001b[Ha\u001b[1Ab\u001b(Bc"], "abc"],
    ["NUL and other controls are pictures", ["a\u0000b\u0001c\u007f"], "a\u2400b\u2401c\u2421"],
    ["C1 controls are no text", ["\u009b31m"], "\ufffd31m"],
    ["an escape that begins nothing", ["\u001b\u0001x"], "\u241b\u2401x"],
    ["an escape that never ends is text", ["\u001b]" + "x".repeat(300)], "\u241b]" + "x".repeat(300)],
    ["markup is text", ["<img src=x onerror=alert(1)>"], "<img src=x onerror=alert(1)>"],
    ["hangul and emoji", ["한글 \u{1f600}\n"], "한글 \u{1f600}"],
  ])("%s", (_, pieces, want) => {
    expect(shown(...pieces)).toBe(want);
  });

  test("any cut of a stream gives the same text", () => {
    const text = "a\u001b[1;31mb\u001b[0m\r\nc\rd\u001b]0;t\u0007e\u001b[38;5;200mf\u001b[Kg\n\u001b[38;2;1;2;3mh\bi";
    const want = shown(text);
    for (let i = 0; i <= text.length; i++) for (let j = i; j <= text.length; j++) expect(shown(text.slice(0, i), text.slice(i, j), text.slice(j))).toBe(want);
  });

  test("1000 steps of a progress bar are one line", () => {
    const s = new Screen();
    for (let i = 0; i <= 1000; i++) s.write(`\r${String(i)}/1000 ${"#".repeat(i / 50)}`);
    s.write("\n");
    expect(s.text()).toBe(`1000/1000 ${"#".repeat(20)}`);
  });
});

describe("looks", () => {
  const spans = (text: string): unknown => {
    const s = new Screen();
    s.write(text);
    return (s.line(0) ?? []).map((x) => [x.text, x.style]);
  };
  test("named, bright, indexed and true colours", () => {
    expect(spans("\u001b[31ma\u001b[92mb\u001b[38;5;196mc\u001b[48;2;1;2;3md\u001b[39;49me")).toEqual([
      ["a", { fg: 1 }],
      ["b", { fg: 10 }],
      ["c", { fg: "#ff0000" }],
      ["d", { fg: "#ff0000", bg: "#010203" }],
      ["e", {}],
    ]);
  });
  test("flags and their ends", () => {
    expect(spans("\u001b[1;3;4;7;9ma\u001b[22;23mb\u001b[mc")).toEqual([
      ["a", { bold: true, italic: true, underline: true, inverse: true, strike: true }],
      ["b", { underline: true, inverse: true, strike: true }],
      ["c", {}],
    ]);
  });
  test("wrong numbers are ignored", () => {
    expect(spans("\u001b[38;5;999ma\u001b[38;2;1;2;999mb\u001b[999mc\u001b[38mdd")).toEqual([["abcdd", {}]]);
  });
  test("neighbours of one look are one span", () => {
    expect(spans("a\u001b[0mb\u001b[0mc")).toEqual([["abc", plain]]);
  });
  test("what is written over keeps its own look", () => {
    expect(spans("\u001b[31mabc\r\u001b[32mx")).toEqual([
      ["x", { fg: 2 }],
      ["bc", { fg: 1 }],
    ]);
  });
});

describe("bounds", () => {
  test("100,000 lines are kept, the newest", () => {
    const s = new Screen();
    for (let i = 0; i < 250_000; i++) s.write(`line ${String(i)}\n`);
    expect(s.length).toBe(screenLimits.lines);
    expect(s.dropped).toBe(150_000);
    expect(s.line(0)?.[0]?.text).toBe("line 150000");
    expect(s.line(99_999)?.[0]?.text).toBe("line 249999");
    expect(s.line(100_000)).toBeUndefined();
  });
  test("a line without end goes on in the next", () => {
    const s = new Screen({ lines: 10, chars: 1000, lineChars: 10 });
    s.write("x".repeat(25));
    expect(s.text()).toBe(["x".repeat(10), "x".repeat(10), "x".repeat(5)].join("\n"));
  });
  test("no character is cut in two by that", () => {
    const s = new Screen({ lines: 10, chars: 1000, lineChars: 3 });
    s.write("ab\u{1f600}\u{1f600}");
    expect(s.text()).toBe("ab\n\u{1f600}\n\u{1f600}");
  });
  test("characters are bounded too", () => {
    const s = new Screen({ lines: 1000, chars: 100, lineChars: 50 });
    for (let i = 0; i < 100; i++) s.write("x".repeat(40) + "\n");
    expect(s.text().length).toBeLessThanOrEqual(102);
    expect(s.dropped).toBe(98);
  });
});

test("a note of silk's own stands on its own line", () => {
  const s = new Screen();
  s.write("half");
  s.note("[gap]");
  s.write("rest");
  expect(s.text()).toBe("half\n[gap]\nrest");
});
