// Building only: nothing of this runs in the server.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    // The policy of the page forbids inline scripts, and small files are not worth a data URL.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
