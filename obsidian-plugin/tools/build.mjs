// Builds the release folder, dist/: main.js, manifest.json and styles.css, as the community store takes them.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, statSync } from "node:fs";

const limit = 300_000; // bytes of main.js
const manifest = JSON.parse(readFileSync("manifest.json", "utf8"));
const versions = JSON.parse(readFileSync("versions.json", "utf8"));
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
if (manifest.version !== version || versions[version] !== manifest.minAppVersion) throw new Error("manifest.json, versions.json and package.json name different versions");

mkdirSync("dist", { recursive: true });
await build({
  entryPoints: ["src/obsidian/main.ts"],
  outfile: "dist/main.js",
  bundle: true,
  format: "cjs",
  target: "es2022",
  minify: true,
  // import() in a window asks Chromium, which has none of Node's modules: they come by the app's require.
  supported: { "dynamic-import": false },
  legalComments: "none",
  // What the app has: its own modules, its editor, and on a desktop Node's.
  external: ["obsidian", "electron", "@codemirror/*", "@lezer/*", "node:*"],
  logLevel: "warning",
});
copyFileSync("manifest.json", "dist/manifest.json");
copyFileSync("styles.css", "dist/styles.css");
const { size } = statSync("dist/main.js");
if (size > limit) throw new Error(`dist/main.js has ${size} bytes, more than ${limit}`);
process.stdout.write(`dist/main.js: ${size} bytes\n`);
