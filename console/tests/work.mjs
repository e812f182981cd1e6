// What people do beyond one notebook: they keep sandboxes, copy them, build templates, and read what happened.
import assert from "node:assert/strict";
import { runCell } from "./pages.mjs";

const LONG = { timeout: 30_000 };
/** Memory is written to the disk, or a template is built, on a host that has other things to do. */
const SLOW = { timeout: 90_000 };

const INTERPRETER = "code-interpreter-slim";

async function make(server, body = {}) {
  return server.call("POST", "/sandboxes", { templateID: INTERPRETER, timeout: 900, secure: true, ...body });
}

async function openTab(page, server, id, name) {
  await page.goto(`${server.url}/console/#/sandboxes/${id}/${name}`);
  await page.getByRole("tab", { name: new RegExp(`^${name}$`, "i"), selected: true }).waitFor(LONG);
}

async function openNotebook(page, server, id) {
  await openTab(page, server, id, "notebook");
  await page.locator(".cell .cm-content").first().waitFor(LONG);
}

/** The cell of that code, after its receipt. */
async function finishCell(page, code) {
  const cell = await runCell(page, code);
  await cell.locator(".receipt").waitFor(LONG);
  return cell;
}

export const WORK = {
  async "a snapshot is taken, gone back to, and begun with; a copy goes on by itself"({ page, server }) {
    const { sandboxID } = await make(server);
    await openNotebook(page, server, sandboxID);
    await finishCell(page, "kept = 'before'");
    await page.getByRole("tab", { name: "Snapshots" }).click();
    await page.getByText("No snapshots").waitFor(LONG);
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page.getByLabel(/Name/).fill("console-first");
    await page.getByRole("button", { name: "Take", exact: true }).click();
    const row = page.getByRole("row", { name: /console-first/ });
    await row.waitFor(SLOW);

    await page.getByRole("tab", { name: "Notebook" }).click();
    await finishCell(page, "kept = 'after'");
    await page.getByRole("tab", { name: "Snapshots" }).click();
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    await page.locator("dialog").getByRole("button", { name: "Fork", exact: true }).click();
    await page.waitForURL((url) => !url.hash.includes(sandboxID), SLOW);
    const copy = /sandboxes\/(\w+)/.exec(page.url())[1];
    await openNotebook(page, server, copy);
    const copied = await finishCell(page, "kept");
    await copied.locator(".result pre", { hasText: "after" }).waitFor(LONG);

    await openTab(page, server, sandboxID, "snapshots");
    await row.getByRole("button", { name: "Roll back" }).click();
    await page.getByText(`${sandboxID} is as it was`).waitFor(SLOW);
    await openNotebook(page, server, sandboxID);
    const back = await finishCell(page, "kept");
    await back.locator(".result pre", { hasText: "before" }).waitFor(LONG);

    // What is taken after the way back hangs below what it went back to.
    await openTab(page, server, sandboxID, "snapshots");
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page.getByLabel(/Name/).fill("console-second");
    await page.getByRole("button", { name: "Take", exact: true }).click();
    await page.getByRole("row", { name: /└ .*console-second/ }).waitFor(SLOW);
    await page.getByRole("row", { name: /console-second/ }).getByRole("button", { name: "Delete" }).click();
    await page.getByRole("row", { name: /console-second/ }).waitFor({ state: "detached", ...LONG });

    await row.getByRole("button", { name: "New from it" }).click();
    await page.waitForURL((url) => !url.hash.includes(sandboxID), SLOW);
    const begun = /sandboxes\/(\w+)/.exec(page.url())[1];
    await openNotebook(page, server, begun);
    const value = await finishCell(page, "kept");
    await value.locator(".result pre", { hasText: "before" }).waitFor(LONG);
    for (const id of [sandboxID, copy, begun]) await server.call("DELETE", `/sandboxes/${id}`);
    await server.call("DELETE", "/templates/console-first");
  },
  async "what a sandbox was refused is told, with the host and the reason"({ page, server }) {
    // Only names are asked for that no rule has, so nothing leaves the host.
    const { sandboxID } = await make(server, { network: { allowOut: ["allowed.invalid"], denyOut: ["0.0.0.0/0"] } });
    await openNotebook(page, server, sandboxID);
    const refused = await finishCell(page, "import urllib.request\ntry:\n    urllib.request.urlopen(urllib.request.Request('http://192.0.2.7/secret', headers={'Host': 'denied.invalid'}), timeout=20)\nexcept urllib.error.HTTPError as error:\n    print(error.code)");
    await refused.locator(".stdout", { hasText: "403" }).waitFor(LONG);
    await page.getByRole("tab", { name: "Network" }).click();
    const row = page.getByRole("row", { name: /denied\.invalid:80/ });
    await row.waitFor(LONG);
    assert.ok((await row.locator(".badge").textContent()).length > 0);
    await page.getByLabel("Refused only").check();
    await row.waitFor(LONG);
    await server.call("DELETE", `/sandboxes/${sandboxID}`);
  },
  async "the log has what processes said, and is searched"({ page, server }) {
    const { sandboxID } = await make(server);
    await openTab(page, server, sandboxID, "terminal");
    await page.getByText(/process \d+/).waitFor(LONG);
    await openTab(page, server, sandboxID, "logs");
    const log = page.getByRole("log", { name: "Log" });
    await log.locator(".line").first().waitFor(LONG);
    await page.getByLabel("Search the log").fill("nobody says this");
    await page.getByText("Nothing said").waitFor(LONG);
    await page.getByLabel("Search the log").fill("");
    await log.locator(".line").first().waitFor(LONG);
    await server.call("DELETE", `/sandboxes/${sandboxID}`);
  },
  async "a build is followed line by line, to its layers"({ page, server }) {
    const { templateID, buildID } = await server.call("POST", "/v3/templates", { name: "console-built", cpuCount: 1, memoryMB: 512 });
    const steps = [
      { type: "RUN", args: ["echo first-words && while [ ! -e /tmp/never ] && [ $((n=n+1)) -lt 20 ]; do sleep 0.1; done && echo last-words"], force: true },
    ];
    await server.call("POST", `/v2/templates/${templateID}/builds/${buildID}`, { fromTemplate: INTERPRETER, steps });
    await page.goto(`${server.url}/console/#/templates`);
    await page.getByRole("link", { name: /console-built/ }).click(LONG);
    const log = page.getByRole("log", { name: "Log of the build" });
    await log.getByText("first-words").first().waitFor(SLOW);
    await log.getByText("last-words").first().waitFor(SLOW);
    await page.locator("table .badge", { hasText: "ready" }).first().waitFor(SLOW);
    await page.getByRole("heading", { name: "Layers" }).waitFor(LONG);
    await page.locator("pre", { hasText: "echo first-words" }).waitFor(LONG);
    await server.call("DELETE", `/templates/${templateID}`);
  },
  async "a build that fails says why, and one that goes on is cancelled"({ page, server }) {
    const failed = await server.call("POST", "/v3/templates", { name: "console-failed", cpuCount: 1, memoryMB: 512 });
    await server.call("POST", `/v2/templates/${failed.templateID}/builds/${failed.buildID}`, { fromTemplate: INTERPRETER, steps: [{ type: "RUN", args: ["echo so-far && exit 3"], force: true }] });
    await page.goto(`${server.url}/console/#/templates/${failed.templateID}`);
    await page.locator("table .badge", { hasText: "error" }).first().waitFor(SLOW);
    await page.locator(".notice.error").waitFor(LONG);
    await server.call("DELETE", `/templates/${failed.templateID}`);

    const long = await server.call("POST", "/v3/templates", { name: "console-long", cpuCount: 1, memoryMB: 512 });
    await server.call("POST", `/v2/templates/${long.templateID}/builds/${long.buildID}`, { fromTemplate: INTERPRETER, steps: [{ type: "RUN", args: ["sleep 300"], force: true }] });
    await page.goto(`${server.url}/console/#/templates/${long.templateID}`);
    await page.getByRole("button", { name: "Cancel" }).click(LONG);
    await page.locator("table .badge", { hasText: "error" }).first().waitFor(SLOW);
    await server.call("DELETE", `/templates/${long.templateID}`);
  },
  async "events, team and server tell what has just been done"({ page, server }) {
    const { sandboxID } = await make(server, { metadata: { agent: "eventful" } });
    await page.goto(`${server.url}/console/#/events`);
    await page.getByRole("row", { name: new RegExp(`created ${sandboxID}`) }).waitFor(LONG);
    await page.goto(`${server.url}/console/#/team`);
    await page.getByRole("heading", { name: "Now" }).waitFor(LONG);
    const running = page.locator("dt", { hasText: "Running" }).locator("xpath=following-sibling::dd[1]");
    assert.ok(Number(await running.textContent()) >= 1);
    await page.goto(`${server.url}/console/#/events`);
    await page.getByLabel("Filter").fill("eventful");
    await server.call("DELETE", `/sandboxes/${sandboxID}`);
    await page.getByRole("row", { name: new RegExp(`killed ${sandboxID}`) }).waitFor(LONG);
    assert.equal(await page.locator("tbody tr").count(), 2);
    await page.goto(`${server.url}/console/#/server`);
    await page.getByRole("heading", { name: "How sandboxes ended" }).waitFor(LONG);
    await page.locator("dt", { hasText: /^killed$/ }).waitFor(LONG);
    await page.locator(".badge", { hasText: /^ok$/ }).first().waitFor(LONG);
    // The words of `skep doctor`, of the host that the server is on.
    await page.getByRole("row", { name: /capacity .* more sandboxes/ }).waitFor(LONG);
  },
};
