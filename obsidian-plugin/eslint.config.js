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
    rules: {
      // "Cursor" is no product here, and some texts show what is typed.
      "obsidianmd/ui/sentence-case": ["error", { brands: ["Silk Sandbox", "Widow Red", "Claudian", "Linux", "Windows", "WSL", "Mac"], acronyms: ["URL"], ignoreWords: ["Run", "silk", "stderr"], ignoreRegex: ["^http://", "^python lab:", "cursor"] }],
    },
  },
  { files: ["src/obsidian/tab.ts"], rules: { "obsidianmd/settings-tab/prefer-setting-definitions": "off" } }, // those are for 1.13 on; versions from 1.11 on are supported
  {
    files: ["**/*.test.ts", "test/**", "tools/**", "*.config.*"],
    languageOptions: { globals: { process: "readonly", URL: "readonly", fetch: "readonly", setTimeout: "readonly" } },
    rules: {
      // These run in Node, or are the stand-in of the host itself.
      "obsidianmd/no-nodejs-modules": "off",
      "obsidianmd/prefer-create-el": "off",
      "obsidianmd/prefer-active-doc": "off",
      "obsidianmd/prefer-window-timers": "off",
      "obsidianmd/prefer-instanceof": "off",
      "obsidianmd/no-static-styles-assignment": "off",
      "obsidianmd/object-assign": "off",
      "obsidianmd/rule-custom-message": "off",
      "obsidianmd/no-global-this": "off",
      "obsidianmd/ui/sentence-case": "off",
      "@typescript-eslint/no-deprecated": "off",
      "no-restricted-globals": "off",
    },
  },
  {
    files: ["src/*.ts"],
    ignores: ["src/*.test.ts"],
    // The model knows neither the host nor the DOM.
    rules: { "no-restricted-imports": ["error", { patterns: [{ regex: "^(obsidian|electron|@codemirror|node:)", message: "only src/obsidian knows the host" }] }], "no-restricted-globals": ["error", "document", "window"] },
  },
]);
