// Shows results of a program that runs in silk: tables, JSON, HTML, SVG, pictures.
//
//   import { show } from "silk";        // or const { show } = require("silk")
//   show([{ a: 1 }, { a: 2 }]);         // a list of objects: a table
//   show({ a: 1 });                     // JSON
//   show(buffer);                       // the bytes of a PNG
//   show("<svg ...>", "image/svg+xml"); // what text is must be said
//   const result = show("0 %");
//   result.update("100 %");             // in its place
//
// Each result is a file in /workspace/.silk/display, and results stand in the order in which they were shown first. What is there at the
// end of the program counts. See docs/howto/results.md of silk.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const folder = "/workspace/.silk/display";
const most = 64; // results that silk takes
const maxRows = 1000;
const maxColumns = 64;
const table = "application/vnd.silk.table+json";
const endings = {
  "image/png": ".png",
  "image/svg+xml": ".svg",
  "text/html": ".html",
  "application/json": ".json",
  [table]: ".table.json",
  "text/plain": ".txt",
};
const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

let claimed = 0;

/** The next number that no other process of the program has, or undefined: there are enough. */
function claim() {
  fs.mkdirSync(folder, { recursive: true });
  while (claimed < most) {
    claimed++;
    try {
      fs.mkdirSync(path.join(folder, "." + name(claimed)));
      return claimed;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
  }
  if (claimed === most) {
    claimed++;
    console.error(`silk: only ${most} results are shown`);
  }
  return undefined;
}

const name = (number) => String(number).padStart(4, "0");

/** One result. It keeps its place whatever it is updated with. */
class Result {
  #number;
  #path;

  constructor(number) {
    this.#number = number;
  }

  /** Shows something else in place of this result. */
  update(value, mime) {
    if (this.#number === undefined) return this;
    const [kind, data] = form(value, mime);
    const file = path.join(folder, name(this.#number) + endings[kind]);
    const part = path.join(folder, `.${name(this.#number)}-${process.pid}`);
    fs.writeFileSync(part, data);
    fs.renameSync(part, file);
    if (this.#path !== undefined && this.#path !== file) fs.unlinkSync(this.#path);
    this.#path = file;
    return this;
  }
}

/** Shows a value, and returns the Result, whose update shows another one in its place. */
function show(value, mime) {
  return new Result(claim()).update(value, mime);
}

/** What a value is shown as, and its bytes. */
function form(value, mime) {
  if (mime !== undefined && !Object.hasOwn(endings, mime)) {
    throw new TypeError(`silk shows no ${mime}; it shows ${Object.keys(endings).join(", ")}`);
  }
  if (value instanceof Uint8Array) {
    const isPNG = png.equals(Buffer.from(value.subarray(0, png.length)));
    return [mime ?? (isPNG ? "image/png" : "text/plain"), value];
  }
  if (typeof value === "string") return [mime ?? "text/plain", value];
  if (mime === undefined && isRows(value)) return [table, JSON.stringify(rowsOf(value))];
  if (mime === undefined || mime === "application/json" || mime === table) {
    const text = typeof value === "object" || typeof value === "number" || typeof value === "boolean" ? json(value) : undefined;
    if (text !== undefined) return [mime ?? "application/json", text];
  }
  return [mime ?? "text/plain", require("node:util").inspect(value)];
}

function json(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined; // it refers to itself, or has a bigint
  }
}

const isRows = (value) =>
  Array.isArray(value) && value.length > 0 && value.every((row) => row !== null && typeof row === "object" && !Array.isArray(row));

function rowsOf(list) {
  const columns = [...new Set(list.slice(0, maxRows).flatMap(Object.keys))].slice(0, maxColumns);
  const rows = list.slice(0, maxRows).map((row) => columns.map((column) => cell(row[column])));
  return { columns: columns.length > 0 ? columns : [""], rows: columns.length > 0 ? rows : [], total: list.length };
}

function cell(value) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "undefined":
      return null;
    case "object":
      return value === null ? null : (json(value) ?? String(value));
    default:
      return String(value);
  }
}

module.exports = { show, Result };
