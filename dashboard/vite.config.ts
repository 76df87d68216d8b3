// How the bundle of the dashboard is built: into the Python package, where it is committed.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/ui/",
  build: {
    outDir: "../src/pykueue/web/static",
    emptyOutDir: true,
    target: "es2022",
    // Assets as data: URLs would need a weaker Content-Security-Policy.
    assetsInlineLimit: 0,
    // The polyfill is a script of its own, for browsers older than the target.
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
});
