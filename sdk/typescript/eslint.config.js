import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "build/", "node_modules/", "tools/", "src/openapi_gen.ts"] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js", "test/real.mjs"] }, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "no-console": "error", // a library has no business on its user's console
      eqeqeq: "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/consistent-type-definitions": "off", // generated types are interfaces, unions are types
    },
  },
  {
    files: ["src/**"],
    rules: {
      // Node and browsers alike: only what both have, and nothing from a package.
      "no-restricted-imports": ["error", { patterns: [{ regex: "^[^.]", message: "the client has no dependency, not even on Node" }] }],
      "no-restricted-globals": ["error", "process", "Buffer", "window", "document", "require"],
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
    },
  },
  { files: ["test/**"], rules: { "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test", "describe", "it"] }] }] } },
  { files: ["eslint.config.js", "test/*.mjs"], ...tseslint.configs.disableTypeChecked },
);
