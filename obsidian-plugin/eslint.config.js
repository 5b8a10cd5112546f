import obsidianmd from "eslint-plugin-obsidianmd";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig([
  { ignores: ["node_modules/", "dist/", "test/build/"] },
  ...obsidianmd.configs.recommended,
  ...tseslint.configs.strictTypeChecked.map((c) => ({ ...c, files: ["**/*.ts"] })),
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js", "tools/*.mjs", "test/*.mjs"] }, tsconfigRootDir: import.meta.dirname } },
  },
  {
    files: ["src/**/*.ts"],
    rules: {
      "no-console": "error",
      eqeqeq: "error",
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property, message: "what programs print is text" }))],
    },
  },
  {
    files: ["src/*.ts"],
    // The model knows neither the host nor the DOM.
    rules: { "no-restricted-imports": ["error", { patterns: [{ regex: "^(obsidian|electron|@codemirror|node:)", message: "only src/obsidian knows the host" }] }], "no-restricted-globals": ["error", "document", "window"] },
  },
]);
