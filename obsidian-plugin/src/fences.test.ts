import { expect, test } from "vitest";
import { findFences, languageOf } from "./fences.js";

const found = (note: string): unknown => findFences(note.split("\n")).map((f) => [f.line, f.endLine, f.language, f.code]);

test.each([
  ["backticks and tildes", "a\n```python\nx\n```\n~~~js\ny\n~~~", [[1, 3, "python", "x\n"], [4, 6, "js", "y\n"]]],
  ["attributes", "```python {silk timeout=30s}\nx\n```", [[0, 2, "python", "x\n"]]],
  ["attributes without a space", "```python{silk}\nx\n```", [[0, 2, "python", "x\n"]]],
  ["a longer fence holds a shorter one", "````md\n```python\nx\n```\n````", [[0, 4, "md", "```python\nx\n```\n"]]],
  ["a longer end", "```sh\nx\n`````", [[0, 2, "sh", "x\n"]]],
  ["an end with text is none", "```sh\n``` x\n```", [[0, 2, "sh", "``` x\n"]]],
  ["no end", "```sh\nx", [[0, 1, "sh", "x\n"]]],
  ["in a quote", "> ```sh\n> x\n>   y\n> ```\nz", [[0, 3, "sh", "x\n  y\n"]]],
  ["a quote that ends with the fence open", "> ```sh\n> x\nz", [[0, 1, "sh", "x\n"]]],
  ["in a list", "- ```sh\n  x\n    y\n  ```", [[0, 3, "sh", "x\n  y\n"]]],
  ["in a list in a callout", "> [!note]\n> 1. ```sh\n>    x\n>    ```", [[1, 3, "sh", "x\n"]]],
  ["CRLF", "```sh\r\nx\r\n```\r", [[0, 2, "sh", "x\n"]]],
  ["front matter is none", "---\na: |\n  ```sh\n---\n```sh\nx\n```", [[4, 6, "sh", "x\n"]]],
  ["byte order mark", "\ufeff```sh\nx\n```", [[0, 2, "sh", "x\n"]]],
  ["inline code is none", "```a```\nx", []],
])("%s", (_, note, want) => {
  expect(found(note)).toEqual(want);
});

test("the language is a word in lower case", () => {
  expect([languageOf("Python title=\"x\""), languageOf(""), languageOf("{silk}"), languageOf("js,ignore")]).toEqual(["python", "", "", "js"]);
});
