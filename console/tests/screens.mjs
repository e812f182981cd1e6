// Pictures of every page, in both lights and two sizes, and what axe says of them.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const PAGES = ["sandboxes", "templates", "volumes", "secrets", "events", "keys", "team", "server"];
const TABS = ["notebook", "terminal", "files", "logs", "metrics", "network", "snapshots", "info"];

/** Looks at every page; the pictures go to a folder if there is one. */
export async function lookAtAll({ page, sandbox, folder }) {
  if (folder) await mkdir(folder, { recursive: true });
  const problems = [];
  for (const size of ["wide", "phone"]) {
    await page.setViewportSize(size === "wide" ? { width: 1280, height: 720 } : { width: 390, height: 780 });
    for (const light of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: light, reducedMotion: "reduce" });
      const places = [...PAGES.map((name) => [name, `#/${name}`]), ...TABS.map((name) => [name, `#/sandboxes/${sandbox}/${name}`])];
      for (const [name, address] of places) {
        await page.evaluate((hash) => {
          location.hash = hash;
        }, address);
        await page.locator(".pending").first().waitFor({ state: "detached", timeout: 30_000 });
        await page.locator("main h1").first().waitFor();
        if (name === "metrics") await page.locator(".plot canvas").first().waitFor();
        if (name === "terminal") await page.getByText(/process \d+/).waitFor({ timeout: 30_000 });
        if (name === "notebook") await page.evaluate(() => document.querySelector("main").scrollTo(0, 0));
        await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
        if (folder) await page.screenshot({ path: join(folder, `${name}${size === "phone" ? "-phone" : ""}-${light}.png`) });
        problems.push(...(await complaintsOf(page)).map((what) => `${name} ${size} ${light}: ${what}`));
      }
    }
  }
  assert.deepEqual([...new Set(problems)], []);
}

async function complaintsOf(page) {
  await page.addScriptTag({ path: AXE }).catch(() => undefined);
  if (!(await page.evaluate(() => "axe" in window))) {
    // The policy of the page lets no script in; the browser's own tools may.
    const { readFile } = await import("node:fs/promises");
    await page.evaluate(await readFile(AXE, "utf8"));
  }
  return page.evaluate(async () => {
    const found = await window.axe.run({ exclude: [["iframe"]] }, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa"], iframes: false });
    return found.violations.filter((one) => ["serious", "critical"].includes(one.impact)).flatMap((one) => one.nodes.map((node) => `${one.id} at ${node.target.join(" ")}: ${node.failureSummary?.split("\n")[1] ?? ""}`));
  });
}
