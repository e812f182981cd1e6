// Builds the console into a folder: `node build/build.mjs [FOLDER]`, usually `dist`.
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { build } from "vite";

const folder = resolve(process.argv[2] ?? "dist");

await build({ build: { outDir: folder }, logLevel: "warn" });

// The output frame is one file with its script inside, because its policy lets it load nothing.
const result = await build({
  configFile: false,
  publicDir: false,
  logLevel: "warn",
  build: {
    target: "es2022",
    write: false,
    lib: { entry: "src/frame/main.ts", formats: ["iife"], name: "frame" },
  },
});
const { output } = Array.isArray(result) ? result[0] : result;
const script = output.find((file) => file.type === "chunk").code;
if (script.includes("</script")) {
  throw new Error("the script would end its own element");
}
const page = await readFile("src/frame/frame.html", "utf8");
await writeFile(join(folder, "frame.html"), page.replace("<!-- script -->", () => `<script>${script}</script>`));
