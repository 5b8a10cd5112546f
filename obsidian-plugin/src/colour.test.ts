import { expect, test } from "vitest";
import { contrast, legible, palette, terminal } from "./colour.js";

test("contrast is that of WCAG", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
});

// The lightest and darkest backgrounds that text of the plugin stands on.
test.each<readonly [string, string, string]>([
  ["alert on abyssal", palette.alertOnDark, palette.abyssal],
  ["success on abyssal", palette.success, palette.abyssal],
  ["ash on abyssal", palette.ash, palette.abyssal],
  ["alert on a dark theme", palette.alertOnDark, "#262626"],
  ["success on a dark theme", palette.success, "#262626"],
  ["ash on a dark theme", palette.ash, "#262626"],
  ["alert on white", palette.alertOnLight, "#ffffff"],
  ["alert on a light grey", palette.alertOnLight, "#e8e8e8"],
  ["success on white", palette.successOnLight, "#ffffff"],
  ["success on a light grey", palette.successOnLight, "#e8e8e8"],
  ["ash on white", palette.ashOnLight, "#ffffff"],
  ["ash on a light grey", palette.ashOnLight, "#e8e8e8"],
  ...terminal.slice(1).map((c, i) => [`terminal colour ${String(i + 1)}`, c, palette.abyssal] as const),
])("%s: %s can be read on %s", (_, text, background) => {
  expect(contrast(text, background)).toBeGreaterThanOrEqual(4.5);
});

test("bars and borders of the alert colour can be seen (1.4.11: 3 to 1)", () => {
  for (const background of ["#ffffff", palette.abyssal, "#262626"]) expect(contrast(palette.alert, background)).toBeGreaterThanOrEqual(3);
});

test("a program's own colours become readable, and stay where they are", () => {
  expect(legible("#ff8800", palette.abyssal)).toBe("#ff8800");
  for (const c of ["#000000", "#080808", "#0000ff", "#330000", "#123456"]) expect(contrast(legible(c, palette.abyssal), palette.abyssal)).toBeGreaterThanOrEqual(4.5);
  for (const c of ["#ffffff", "#ffff00"]) expect(contrast(legible(c, "#ffffff"), "#ffffff")).toBeGreaterThanOrEqual(4.5);
});
