// Uses the console in Chromium, with a server of this build: `node tests/run.mjs [PART OF A NAME]`.
// SKEP names the executable, SCREENS a folder for pictures of every page.
import assert from "node:assert/strict";
import { ATTACKS } from "./attacks.mjs";
import { CASES, runCell } from "./pages.mjs";
import { lookAtAll } from "./screens.mjs";
import { openConsole, startBrowser, startServer } from "./server.mjs";

const only = process.argv[2];
const server = await startServer();
const browser = await startBrowser();
const state = {};
let failed = 0;

async function run(name, act) {
  if (only && !name.includes(only)) return;
  const begun = Date.now();
  try {
    await act();
    console.log(`ok    ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack ?? error}`);
    if (process.env.SCREENS && act.page) await act.page.screenshot({ path: `${process.env.SCREENS}/failed-${failed}.png` }).catch(() => undefined);
  }
}

try {
  const page = await openConsole(browser, server);
  for (const [name, act] of Object.entries(CASES)) {
    const bound = () => act({ page, server, browser, state });
    bound.page = page;
    await run(name, bound);
  }
  await run("nothing was complained of", async () => assert.deepEqual(page.complaints, []));
  await page.context().close();

  await run("a thousand sandboxes scroll without a stutter", async () => {
    const many = await openConsole(browser, server);
    await many.route("**/skep/sandboxes?*", async (route) => {
      const records = Array.from({ length: 1000 }, (_, at) => ({ sandboxID: `i${String(at).padStart(19, "0")}`, templateID: "base", alias: "base", state: at % 3 ? "ended" : "running", endReason: at % 3 ? "timeout" : undefined, createdAt: new Date().toISOString(), endAt: new Date(Date.now() + 3e6).toISOString(), cpuCount: 2, memoryMB: 1024, diskSizeMB: 1024, metadata: {} }));
      await route.fulfill({ json: records });
    });
    await many.reload();
    await many.locator(".row a").first().waitFor();
    const measured = await many.evaluate(async () => {
      // Beside it, at the same moment on the same machine, a box with nothing to do.
      const plain = document.createElement("div");
      plain.style.cssText = "position:fixed;inset:0 0 auto auto;height:200px;width:100px;overflow:auto";
      plain.innerHTML = "<div style='height:40000px'></div>";
      document.body.append(plain);
      const framesOf = async (box) => {
        let frames = 0;
        const begun = performance.now();
        while (performance.now() - begun < 2000) {
          box.scrollTop += 160;
          await new Promise(requestAnimationFrame);
          frames += 1;
        }
        return frames;
      };
      const idle = await framesOf(plain);
      const frames = await framesOf(document.querySelector(".rows"));
      return { idle, frames, drawn: document.querySelectorAll(".row").length };
    });
    const { idle, frames, drawn } = measured;
    assert.ok(drawn < 80, `${drawn} rows are drawn`);
    assert.ok(frames >= Math.min(60, idle / 2), `${frames / 2} frames a second, where an idle box has ${idle / 2}`);
    await many.context().close();
  });

  for (const [name, act] of Object.entries(ATTACKS)) {
    const victim = await openConsole(browser, server);
    const bound = () => act({ page: victim, server, browser });
    bound.page = victim;
    await run(name, bound);
    await victim.context().close();
  }

  await run("a server that goes is missed, and found again when it is back", async () => {
    const page = await openConsole(browser, server);
    const port = Number(new URL(server.url).port);
    await page.getByRole("img", { name: "connected", exact: true }).waitFor();
    await server.halt();
    await page.getByRole("img", { name: "not connected" }).waitFor({ timeout: 20_000 });
    Object.assign(server, await startServer(server.folder, port));
    await page.getByRole("img", { name: "connected", exact: true }).waitFor({ timeout: 30_000 });
    const made = await server.call("POST", "/sandboxes", { templateID: "code-interpreter-slim", timeout: 600 });
    await page.getByRole("link", { name: made.sandboxID }).waitFor({ timeout: 20_000 });
    await page.context().close();
  });

  await run("every page is legible to all, in both lights and two sizes", async () => {
    const page = await openConsole(browser, server);
    const made = await server.call("POST", "/sandboxes", { templateID: "code-interpreter-slim", timeout: 3600, secure: true, metadata: { agent: "planner", run: "2026-11-18" } });
    state.shown = made.sandboxID;
    await server.call("POST", "/secrets", { name: "weather-key", value: "shown to nobody" });
    await server.call("POST", "/volumes", { name: "honey" });
    await page.goto(`${server.url}/console/#/sandboxes/${made.sandboxID}/notebook`);
    await page.locator(".cell .cm-content").first().waitFor({ timeout: 60_000 });
    const plot = await runCell(page, "import matplotlib.pyplot as plt\n\nplt.plot(range(8), [3, 5, 9, 14, 18, 17, 9, 4], label='brood')\nplt.plot(range(8), [1, 2, 6, 12, 22, 26, 19, 12], label='honey')\nplt.xlabel('month')\nplt.ylabel('kg')\nplt.title('One hive in a year')\nplt.show()");
    await plot.locator("img.picture").waitFor({ timeout: 60_000 });
    await plot.getByRole("button", { name: "chart" }).click();
    const table = await runCell(page, "import pandas as pd\npd.DataFrame({'hive': ['north', 'south', 'orchard'], 'kg': [31.5, 29.25, 40.0], 'swarmed': [False, True, False]})");
    await table.locator("table").waitFor({ timeout: 60_000 });
    await runCell(page, "sum(n * n for n in range(2_000_000))");
    await page.locator(".receipt").nth(2).waitFor({ timeout: 60_000 });
    await lookAtAll({ page, state, folder: process.env.SCREENS });
    await page.context().close();
  });
} finally {
  await browser.close();
  await server.stop();
}
if (failed > 0) {
  console.log(`${failed} failed`);
  process.exit(1);
}
