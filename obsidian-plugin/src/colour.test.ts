import { expect, test } from "vitest";
import { contrast, legible, outcomeColours, palette, terminal, variablesOf } from "./colour.js";

test("contrast is that of WCAG", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
});

test("terminal colours can be read", () => {
  for (const c of [palette.ash, ...terminal.slice(1)]) expect(contrast(c, palette.abyssal)).toBeGreaterThanOrEqual(4.5);
});

test("whatever colours are chosen, text in them can be read on the backgrounds of themes", () => {
  const parts = ["00", "33", "66", "99", "cc", "ff"];
  for (const r of parts) for (const g of parts) for (const b of parts) {
    const v = variablesOf({ ...outcomeColours, failed: `#${r}${g}${b}` });
    for (const background of ["#ffffff", "#f3f3f3", "#e8e8e8"]) expect(contrast(v["--silk-failed-on-light"] ?? "", background)).toBeGreaterThanOrEqual(4.5);
    for (const background of [palette.abyssal, "#1e1e1e", "#262626"]) expect(contrast(v["--silk-failed-on-dark"] ?? "", background)).toBeGreaterThanOrEqual(4.5);
  }
});

test("a colour that can be read is the one that was chosen", () => {
  const v = variablesOf(outcomeColours);
  expect([v["--silk-ok"], v["--silk-ok-on-dark"], v["--silk-other-on-dark"], v["--silk-violated"]]).toEqual(["#39ff14", "#39ff14", "#cccccc", "#ff0000"]);
  expect(variablesOf({ ...outcomeColours, violated: "#0a0b0c" })["--silk-violated-on-light-rgb"]).toBe("10, 11, 12");
});

test("bars and borders of the alert colour can be seen (1.4.11: 3 to 1)", () => {
  for (const background of ["#ffffff", palette.abyssal, "#262626"]) expect(contrast(palette.alert, background)).toBeGreaterThanOrEqual(3);
});

test("a program's own colours become readable, and stay where they are", () => {
  expect(legible("#ff8800", palette.abyssal)).toBe("#ff8800");
  for (const c of ["#000000", "#080808", "#0000ff", "#330000", "#123456"]) expect(contrast(legible(c, palette.abyssal), palette.abyssal)).toBeGreaterThanOrEqual(4.5);
  for (const c of ["#ffffff", "#ffff00"]) expect(contrast(legible(c, "#ffffff"), "#ffffff")).toBeGreaterThanOrEqual(4.5);
});
