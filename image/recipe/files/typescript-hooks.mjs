// Loader hooks: .ts, .mts and .cts load as JavaScript; relative imports may leave the extension out or name that of
// the compiled file.
import { fileURLToPath } from "node:url";
import typescript from "./typescript.cjs";

export async function load(url, context, nextLoad) {
  if (!url.startsWith("file:") || !/\.[mc]?ts$/.test(new URL(url).pathname)) return nextLoad(url, context);
  const { code, format } = typescript.load(fileURLToPath(url));
  // A CommonJS file is read again by require, which knows the extension.
  return { format, source: format === "module" ? code : undefined, shortCircuit: true };
}

export async function resolve(specifier, context, nextResolve) {
  try {
    return await nextResolve(specifier, context);
  } catch (error) {
    if (!/^(\.{0,2}\/|file:)/.test(specifier)) throw error;
    for (const candidate of candidates(specifier)) {
      try {
        return await nextResolve(candidate, context);
      } catch {
        // The next one may exist; if none does, the first error is the one to show.
      }
    }
    throw error;
  }
}

function candidates(specifier) {
  const compiled = /\.([mc]?)js$/.exec(specifier);
  if (compiled) return [specifier.slice(0, compiled.index) + `.${compiled[1]}ts`];
  return [".ts", ".mts", ".cts", "/index.ts"].map((extension) => specifier + extension);
}
