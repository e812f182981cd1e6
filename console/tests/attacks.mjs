// What code and strangers may try against somebody who looks at the console. Each attack has a control, in which it works.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { once } from "node:events";
import { runCell } from "./pages.mjs";

const LONG = { timeout: 30_000 };

/** Markup that tries everything there is around it, and notes what worked. */
function hostile(beacon) {
  return `<div id="tall" style="height:1000000px">x</div>
<form id="form" action="${beacon}/form" target="_self"></form>
<script>
const found = (window.found = {});
const tried = (name, act) => { try { found[name] = Boolean(act()); } catch { found[name] = false; } };
tried("parent", () => parent.document.body);
tried("storage", () => (sessionStorage.setItem("x", "1"), true));
tried("cookie", () => (document.cookie = "x=1", document.cookie.includes("x=1")));
tried("window", () => { const other = open("about:blank"); other?.close(); return other; });
fetch("/health").then((answer) => { found.fetch = answer.ok; }, () => { found.fetch = false; });
const image = new Image();
image.onload = () => { found.image = true; };
image.onerror = () => { found.image = false; };
image.src = "${beacon}/image.svg";
for (let at = 0; at < 20000; at += 1) parent.postMessage({ height: at }, "*");
</script>`;
}

const SCRIPT = `<img src="/console/none" onerror="window.reached=1"><script>window.reached=1</script>`;

/** A server of another origin, which knows who came. */
async function stranger() {
  const visits = [];
  const server = createServer((asked, answer) => {
    visits.push(asked.url);
    if (asked.url === "/image.svg") {
      answer.writeHead(200, { "content-type": "image/svg+xml" });
      answer.end(`<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`);
    } else if (asked.url === "/health") {
      answer.end("ok");
    } else {
      answer.writeHead(200, { "content-type": "text/html" });
      answer.end("<!doctype html><body></body>");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}`, visits, close: () => server.close() };
}

async function handshake(server, headers) {
  const url = new URL(server.url);
  const asked = request({ host: url.hostname, port: url.port, path: "/skep/console/events", headers: { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", ...headers } });
  asked.end();
  return new Promise((resolve, reject) => {
    asked.on("response", (answer) => resolve(answer.statusCode));
    asked.on("upgrade", (answer, socket) => {
      socket.destroy();
      resolve(answer.statusCode);
    });
    asked.on("error", reject);
  });
}

export const ATTACKS = {
  async "markup that code made reaches nothing around it"({ page, server, browser }) {
    const beacon = await stranger();
    const made = await server.call("POST", "/sandboxes", { templateID: "code-interpreter-slim", timeout: 900, secure: true });
    await page.goto(`${server.url}/console/#/sandboxes/${made.sandboxID}/notebook`);
    await page.locator(".cell .cm-content").first().waitFor(LONG);
    const html = hostile(beacon.url);
    const cell = await runCell(page, `from IPython.display import HTML, display\ndisplay(HTML(${JSON.stringify(html)}))`);
    const element = await cell.locator("iframe").elementHandle(LONG);
    const frame = await element.contentFrame();
    await frame.waitForFunction(() => window.found && "fetch" in window.found && "image" in window.found, undefined, LONG);
    const found = await frame.evaluate(() => window.found);
    assert.deepEqual(found, { parent: false, storage: false, cookie: false, window: false, fetch: false, image: false });
    await frame.evaluate(() => document.getElementById("form").submit());
    await frame.evaluate(() => {
      try {
        top.location.href = "about:blank";
      } catch {
        // Refused, as it should be.
      }
    });
    // The page is where it was, and as tall as it allows.
    await page.getByRole("button", { name: "Show all" }).waitFor(LONG);
    assert.ok(page.url().includes("/console/#/sandboxes/"));
    const box = await element.boundingBox();
    assert.ok(box.height <= 600, `${box.height}`);
    assert.deepEqual(beacon.visits, []);
    // The complaints of the browser are the policy at work.
    page.complaints.length = 0;

    // Control: in the page's own origin all of it works.
    const context = await browser.newContext();
    const own = await context.newPage();
    await own.goto(`${beacon.url}/page`);
    await own.evaluate((markup) => {
      const frame = document.createElement("iframe");
      frame.srcdoc = markup;
      document.body.append(frame);
    }, html);
    const inner = own.frames().at(-1);
    await inner.waitForFunction(() => window.found && "fetch" in window.found && "image" in window.found, undefined, LONG);
    const reached = await inner.evaluate(() => window.found);
    assert.deepEqual(reached, { parent: true, storage: true, cookie: true, window: true, fetch: true, image: true });
    assert.ok(beacon.visits.includes("/image.svg"));
    await inner.evaluate(() => document.getElementById("form").submit());
    await own.waitForFunction(() => document.querySelector("iframe").contentDocument?.location.pathname === "/form", undefined, LONG);
    assert.ok(beacon.visits.some((url) => url.startsWith("/form")));
    await own.frames().at(-1).evaluate((url) => {
      top.location.href = url;
    }, `${beacon.url}/elsewhere`);
    await own.waitForURL(/elsewhere/, LONG);
    await context.close();
    beacon.close();
  },
  async "markup in text, names and errors stays text"({ page, server, browser }) {
    const made = await server.call("POST", "/sandboxes", { templateID: "code-interpreter-slim", timeout: 900, secure: true, metadata: { [SCRIPT]: SCRIPT } });
    await page.goto(`${server.url}/console/#/sandboxes/${made.sandboxID}/notebook`);
    await page.locator(".cell .cm-content").first().waitFor(LONG);
    const text = JSON.stringify(SCRIPT);
    const printed = await runCell(page, `print(${text}); ${text}`);
    await printed.locator(".receipt").waitFor(LONG);
    const raised = await runCell(page, `raise type(${text}, (Exception,), {})(${text})`);
    await raised.locator(".raised").waitFor(LONG);
    const table = await runCell(page, `import pandas as pd\npd.DataFrame({${text}: [${text}]})`);
    await table.locator("th", { hasText: "onerror" }).waitFor(LONG);
    const named = await runCell(page, `open('<img src=x onerror=window.reached=1>', 'w').close()\nopen('page.svg', 'w').write(${text})`);
    await named.locator(".receipt").waitFor(LONG);
    await page.getByRole("tab", { name: "Files" }).click();
    await page.getByText("<img src=x onerror=window.reached=1>").waitFor(LONG);
    await page.getByRole("tab", { name: "Info" }).click();
    await page.getByText("onerror").first().waitFor(LONG);
    await page.getByRole("link", { name: "Sandboxes", exact: true }).click();
    await page.getByRole("link", { name: made.sandboxID }).waitFor(LONG);
    assert.equal(await page.evaluate(() => window.reached), undefined);

    // Control: as markup it runs.
    const context = await browser.newContext();
    const own = await context.newPage();
    await own.setContent(SCRIPT);
    await own.waitForFunction(() => window.reached === 1, undefined, LONG);
    await context.close();
  },
  async "pictures and pages that are drawn by code run nothing in the console's page"({ page, server, browser }) {
    const made = await server.call("POST", "/sandboxes", { templateID: "code-interpreter-slim", timeout: 900, secure: true });
    await page.goto(`${server.url}/console/#/sandboxes/${made.sandboxID}/notebook`);
    await page.locator(".cell .cm-content").first().waitFor(LONG);
    const act = "try{parent.reached=1}catch{};window.reached=1";
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="${act}"><script>${act}</script><rect width="40" height="40"/></svg>`;
    for (const show of [`SVG(data=${JSON.stringify(svg)})`, `Markdown(${JSON.stringify(SCRIPT)})`, `Javascript(${JSON.stringify(act)})`]) {
      const cell = await runCell(page, `from IPython.display import display, SVG, Markdown, Javascript\ndisplay(${show})`);
      await cell.locator(".receipt").waitFor(LONG);
    }
    await server.call("POST", `/sandboxes/${made.sandboxID}/timeout`, { timeout: 900 });
    // A file of that kind, looked at where files are.
    const wrote = await runCell(page, `open('drawn.svg', 'w').write(${JSON.stringify(svg)})\nopen('page.html', 'w').write(${JSON.stringify(SCRIPT)})`);
    await wrote.locator(".receipt").waitFor(LONG);
    await page.getByRole("tab", { name: "Files" }).click();
    for (const name of ["drawn.svg", "page.html"]) {
      await page.getByRole("button", { name, exact: true }).click(LONG);
      await page.getByRole("button", { name: "Close the file" }).waitFor(LONG);
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      await page.getByRole("button", { name: "Close the file" }).click();
    }
    assert.equal(await page.evaluate(() => window.reached), undefined);
    // The complaints of the browser are the policy at work.
    page.complaints.length = 0;
    await server.call("DELETE", `/sandboxes/${made.sandboxID}`);

    // Control: in a page itself the picture runs.
    const context = await browser.newContext();
    const own = await context.newPage();
    await own.setContent(svg);
    await own.waitForFunction(() => window.reached === 1, undefined, LONG);
    await context.close();
  },
  async "a page of another origin opens no socket, not even with a key"({ server }) {
    const offered = { "Sec-WebSocket-Protocol": `skep.v1, skep.key.${server.key}` };
    assert.equal(await handshake(server, { ...offered, Origin: "https://evil.example" }), 403);
    assert.equal(await handshake(server, { ...offered, Origin: "null" }), 403);
    assert.equal(await handshake(server, { Origin: server.url }), 401);
    // Control: the console's own page does.
    assert.equal(await handshake(server, { ...offered, Origin: server.url }), 101);
  },
  async "a ticket opens once"({ server }) {
    const { ticket } = await server.call("POST", "/skep/console/tickets");
    const open = () => fetch(`${server.url}/skep/console/sessions`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ticket }) });
    assert.equal((await open()).status, 201);
    assert.equal((await open()).status, 401);
  },
  async "the console is framed by nobody"({ server, browser }) {
    const beacon = await stranger();
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${beacon.url}/page`);
    const framed = async (url) => {
      await page.evaluate((source) => {
        const frame = document.createElement("iframe");
        frame.src = source;
        document.body.replaceChildren(frame);
        return new Promise((resolve) => {
          frame.onload = resolve;
        });
      }, url);
      return page.frames().at(-1).evaluate(() => document.title).catch(() => undefined);
    };
    assert.notEqual(await framed(`${server.url}/console/`), "Skep");
    // Control: another page is.
    assert.equal(await framed(`${beacon.url}/other`), "");
    await context.close();
    beacon.close();
  },
};
