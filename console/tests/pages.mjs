// What is done with each page, with a real server and real sandboxes.
import assert from "node:assert/strict";
import { mkdtemp, writeFile, readFile } from "node:fs/promises";
import { createHash, randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

const LONG = { timeout: 30_000 };

/** Writes code into the last cell, as somebody would, and runs it. */
export async function runCell(page, code) {
  const cell = page.locator(".cell").last();
  const editor = cell.locator(".cm-content");
  await editor.click();
  // What was being written there is kept from before, as it is for everybody.
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(code);
  const number = await page.locator(".cell").count();
  await page.keyboard.press("Shift+Enter");
  return page.locator(".cell").nth(number - 1);
}

export const CASES = {
  async "a sandbox is made with the keyboard, and its notebook shows what code says as it does"({ page, state }) {
    await page.keyboard.press("n");
    await page.getByRole("button", { name: "Create" }).click();
    await page.locator(".cell .cm-content").first().waitFor(LONG);
    state.id = /sandboxes\/(\w+)\//.exec(page.url())[1];
    const sum = await runCell(page, "print('to stdout'); 1 + 1");
    await sum.locator(".result pre", { hasText: "2" }).waitFor(LONG);
    await sum.locator(".receipt", { hasText: "ok" }).waitFor(LONG);
    const raised = await runCell(page, "1 / 0");
    await raised.locator(".raised", { hasText: "ZeroDivisionError" }).waitFor(LONG);
  },
  async "a loop without an end is interrupted, and its variables stay"({ page }) {
    const loop = await runCell(page, "kept = 41\nprint('begun')\nwhile True: pass");
    await loop.locator(".stdout", { hasText: "begun" }).waitFor(LONG);
    await loop.getByRole("button", { name: "Interrupt" }).click();
    await loop.locator(".receipt", { hasText: "interrupted" }).waitFor(LONG);
    const after = await runCell(page, "kept + 1");
    await after.locator(".result pre", { hasText: "42" }).waitFor(LONG);
  },
  async "a plot is a picture, and a chart of its numbers"({ page }) {
    const plot = await runCell(page, "import matplotlib.pyplot as plt\nplt.bar(['spring', 'summer', 'autumn'], [3, 7, 5])\nplt.title('Swarms')\nplt.ylabel('hives')\nplt.show()");
    await plot.locator("img.picture").waitFor(LONG);
    assert.ok((await plot.locator("img.picture").evaluate((image) => image.decode().then(() => image.naturalWidth))) > 100);
    await plot.getByRole("button", { name: "chart" }).click();
    assert.equal(await plot.locator("svg rect").count(), 3);
    const frame = await runCell(page, "import pandas as pd\npd.DataFrame({'hive': ['a', 'b'], 'kg': [11.5, 9.25]})");
    await frame.locator("td", { hasText: "9.25" }).waitFor(LONG);
  },
  async "code asks, and is answered"({ page }) {
    const asking = await runCell(page, "'hello ' + input('Name? ')");
    await asking.getByLabel("Name?").fill("Ada");
    await asking.getByRole("button", { name: "Answer" }).click();
    await asking.locator(".result pre", { hasText: "hello Ada" }).waitFor(LONG);
  },
  async "the kernel completes names and explains them"({ page }) {
    const cell = page.locator(".cell").last();
    await cell.locator(".cm-content").click();
    await page.keyboard.type("plt.subpl");
    await page.keyboard.press("Control+Space");
    await page.locator(".cm-tooltip-autocomplete", { hasText: "subplots" }).waitFor(LONG);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText("len");
    await page.keyboard.press("Shift+Tab");
    await cell.locator(".help", { hasText: "number of items" }).waitFor(LONG);
    await cell.getByRole("button", { name: "Close help" }).click();
  },
  async "a notebook goes out and comes in again"({ page }) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download .ipynb" }).click()]);
    const path = await download.path();
    assert.equal(JSON.parse(await readFile(path, "utf8")).nbformat, 4);
    await page.locator(".notebook input[type=file]").setInputFiles({ name: "again.ipynb", mimeType: "application/json", buffer: await readFile(path) });
    await page.locator(".raised", { hasText: "ZeroDivisionError" }).waitFor(LONG);
  },
  async "a reload finds the notebook again, without a ticket in the address"({ page, server }) {
    await page.reload();
    await page.locator(".result pre", { hasText: "42" }).waitFor(LONG);
    assert.ok(!page.url().includes("ticket"));
    const cookies = await page.context().cookies(server.url);
    assert.deepEqual(cookies, []);
  },
  async "a terminal echoes, and a reload finds it as it was"({ page }) {
    await page.getByRole("tab", { name: "Terminal" }).click();
    await page.locator(".xterm").waitFor(LONG);
    await page.getByText(/process \d+/).waitFor(LONG);
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("marker=$((6*7)); echo is-$marker\n");
    await page.locator(".xterm-accessibility", { hasText: "is-42" }).waitFor(LONG);
    const before = await page.getByText(/process \d+/).textContent();
    await page.reload();
    await page.getByText(/process \d+/).waitFor(LONG);
    assert.equal(await page.getByText(/process \d+/).textContent(), before);
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("echo still-$marker\n");
    await page.locator(".xterm-accessibility", { hasText: "still-42" }).waitFor(LONG);
  },
  async "ten mebibytes go in and come out the same"({ page }) {
    await page.getByRole("tab", { name: "Files" }).click();
    const folder = await mkdtemp(join(tmpdir(), "skep-upload-"));
    const bytes = randomBytes(10 << 20);
    await writeFile(join(folder, "large.bin"), bytes);
    await page.locator(".files input[type=file]").setInputFiles(join(folder, "large.bin"));
    await page.getByRole("button", { name: "large.bin", exact: true }).click(LONG);
    const [download] = await Promise.all([page.waitForEvent("download", LONG), page.getByRole("button", { name: "Download" }).click()]);
    const hash = (data) => createHash("sha256").update(data).digest("hex");
    assert.equal(hash(await readFile(await download.path())), hash(bytes));
    await page.getByRole("button", { name: "Close the file" }).click();
  },
  async "a file is written, saved and read back by code"({ page }) {
    await page.getByRole("button", { name: "New file" }).click();
    await page.getByLabel("Name").fill("notes.py");
    await page.locator("dialog").getByRole("button", { name: "New file" }).click();
    await page.getByRole("button", { name: "notes.py", exact: true }).click(LONG);
    await page.locator(".editor .cm-content").click();
    await page.keyboard.insertText("answer = 42\n");
    await page.keyboard.press("Control+s");
    await page.getByText("notes.py is saved").waitFor(LONG);
    await page.getByRole("tab", { name: "Notebook" }).click();
    const cell = await runCell(page, "open('notes.py').read()");
    await cell.locator(".result pre", { hasText: "answer = 42" }).waitFor(LONG);
  },
  async "logs, metrics, network, snapshots and info are there"({ page, state, server }) {
    const tab = (name) => page.getByRole("tab", { name, exact: true }).click();
    await tab("Metrics");
    await page.locator(".plot canvas").first().waitFor(LONG);
    assert.equal(await page.locator(".plot").count(), 4);
    await tab("Logs");
    await page.getByLabel("Search the log").waitFor(LONG);
    await tab("Network");
    await page.getByText("No requests").first().waitFor(LONG);
    await tab("Snapshots");
    await page.getByRole("button", { name: "Take a snapshot" }).waitFor(LONG);
    await tab("Info");
    await page.getByText("skep sandbox exec").waitFor(LONG);
    const found = await server.call("GET", "/skep/sandboxes");
    assert.ok(found.some((record) => record.sandboxID === state.id));
  },
  async "a kill is undone within three seconds, and done after them, and the reason stays"({ page, state, server }) {
    await page.getByRole("button", { name: "Kill", exact: true }).click();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.locator(".head .badge", { hasText: "running" }).waitFor(LONG);
    assert.equal((await server.call("GET", `/sandboxes/${state.id}`)).state, "running");
    await page.getByRole("button", { name: "Kill", exact: true }).click();
    await page.locator(".head .badge", { hasText: "killed" }).waitFor(LONG);
    await page.getByRole("tab", { name: "Notebook" }).click();
    await page.locator(".result pre", { hasText: "answer = 42" }).waitFor(LONG);
    await page.getByRole("tab", { name: "Info" }).click();
    await page.getByRole("heading", { name: "Used" }).waitFor(LONG);
  },
  async "what happens elsewhere appears by itself"({ page, server }) {
    await page.getByRole("link", { name: "Sandboxes", exact: true }).click();
    const made = await server.call("POST", "/sandboxes", { templateID: "code-interpreter-slim", timeout: 600, metadata: { agent: "planner" } });
    await page.getByRole("link", { name: made.sandboxID }).waitFor(LONG);
    await page.getByLabel("Filter").fill("agent=planner");
    assert.equal(await page.locator(".row a").count(), 1);
    await page.getByLabel("Filter").fill("");
    await server.call("DELETE", `/sandboxes/${made.sandboxID}`);
    await page.locator(".row", { hasText: made.sandboxID }).locator(".badge", { hasText: "killed" }).waitFor(LONG);
  },
  async "the palette goes everywhere"({ page }) {
    for (const [text, heading] of [["templ", "Templates"], ["secr", "Secrets"], ["volu", "Volumes"], ["keys", "Keys"], ["event", "Events"], ["serv", "Server"]]) {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: /Search/ }).fill(text);
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: heading, exact: true }).waitFor(LONG);
    }
  },
  async "a secret, a volume and a key are made and go"({ page }) {
    page.on("dialog", (dialog) => dialog.accept());
    const go = (name) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).click();
    await go("Secrets");
    await page.getByRole("button", { name: "New secret" }).click();
    await page.getByLabel("Name").fill("github-token");
    await page.getByLabel(/Value/).fill("a value that nobody sees");
    await page.getByRole("button", { name: "Keep" }).click();
    await page.getByRole("cell", { name: "github-token" }).waitFor(LONG);
    assert.ok(!(await page.content()).includes("nobody sees"));
    await go("Volumes");
    await page.getByRole("button", { name: "New volume" }).click();
    await page.getByLabel(/Name/).fill("models");
    await page.getByRole("button", { name: "Make" }).click();
    await page.getByRole("cell", { name: "models" }).waitFor(LONG);
    await go("Keys");
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel(/Name/).fill("laptop");
    await page.getByRole("button", { name: "Make" }).click();
    await page.locator("dialog pre", { hasText: "e2b_" }).waitFor(LONG);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("button", { name: "Revoke laptop" }).click();
    await page.getByRole("cell", { name: "laptop", exact: true }).waitFor({ state: "detached", ...LONG });
  },
};
