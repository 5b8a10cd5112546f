// Turns TypeScript into JavaScript by removing types; nothing is checked. Line and column stay as they are, unless the
// file uses syntax that needs code of its own (enum, namespace, parameter properties): then a source map is added.
"use strict";
const Module = require("node:module");
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

let amaro; // loaded when the first TypeScript file is: it costs tens of milliseconds

function strip(source, filename) {
  amaro ??= require("../../share/nodejs/amaro/dist/index.js");
  try {
    return amaro.transformSync(source, { mode: "strip-only", filename }).code;
  } catch (error) {
    if (error?.code !== "UnsupportedSyntax") throw explain(error, filename);
  }
  try {
    const { code, map } = amaro.transformSync(source, { mode: "transform", sourceMap: true, filename });
    return `${code}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString("base64")}`;
  } catch (error) {
    throw explain(error, filename);
  }
}

function explain(error, filename) {
  if (error instanceof Error || typeof error?.message !== "string") return error;
  const wrapped = new SyntaxError(error.message);
  wrapped.stack = `${filename}:${error.startLine ?? "?"}\n${(error.snippet ?? "").trimEnd()}\n\nSyntaxError: ${error.message}`;
  return wrapped;
}

// isModule says whether stripped code is an ECMAScript module: by its extension, by the nearest package.json, else by
// its syntax, as Node itself does.
function isModule(code, filename) {
  if (filename.endsWith(".mts")) return true;
  if (filename.endsWith(".cts")) return false;
  const type = packageType(path.dirname(filename));
  if (type) return type === "module";
  try {
    new vm.Script(Module.wrap(code), { filename });
    return false;
  } catch (error) {
    return /import statement|Unexpected token 'export'|import\.meta|await is only valid|Unexpected reserved word/.test(error.message);
  }
}

function packageType(dir) {
  for (;;) {
    try {
      return JSON.parse(fs.readFileSync(path.join(dir, "package.json"), "utf8")).type;
    } catch (error) {
      if (error.code !== "ENOENT") return undefined;
    }
    const parent = path.dirname(dir);
    if (parent === dir || path.basename(dir) === "node_modules") return undefined;
    dir = parent;
  }
}

// load returns the JavaScript of a TypeScript file and its format.
function load(filename) {
  const code = strip(fs.readFileSync(filename, "utf8"), filename);
  return { code, format: isModule(code, filename) ? "module" : "commonjs" };
}

// addExtensions teaches require about TypeScript files.
function addExtensions() {
  for (const extension of [".ts", ".cts"]) {
    Module._extensions[extension] = (module, filename) => {
      module._compile(strip(fs.readFileSync(filename, "utf8"), filename), filename);
    };
  }
}

module.exports = { load, addExtensions };
