// Builds the unit tests of pure modules for `node --test`, which does not read TypeScript.
import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

const tests = readdirSync("unit").filter((name) => name.endsWith(".test.ts"));

export default defineConfig({
  logLevel: "warn",
  publicDir: false,
  build: {
    ssr: true,
    outDir: "node_modules/.unit",
    emptyOutDir: true,
    rollupOptions: {
      input: Object.fromEntries(tests.map((name) => [name.replace(/\.ts$/, ""), `unit/${name}`])),
      output: { entryFileNames: "[name].mjs" },
    },
  },
});
