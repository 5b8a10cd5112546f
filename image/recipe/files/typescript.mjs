// node --import /usr/lib/silk/typescript.mjs FILE.ts runs TypeScript: types are removed, never checked.
import { register } from "node:module";
import process from "node:process";
import typescript from "./typescript.cjs";

process.setSourceMapsEnabled(true);
typescript.addExtensions();
register("./typescript-hooks.mjs", import.meta.url);
