import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { obsidian: fileURLToPath(new URL("host/obsidian.ts", import.meta.url)) } },
  test: { include: ["test/*.test.ts"], testTimeout: 45_000, hookTimeout: 60_000, fileParallelism: false },
});
