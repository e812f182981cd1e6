// A server of this build with data of its own, and Chromium.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const EXECUTABLE = process.env.SKEP ?? resolve("../target/debug/skep");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Starts a server; `stop` ends it and its sandboxes. */
export async function startServer(data, port = 0) {
  const folder = data ?? (await mkdtemp(join(tmpdir(), "skep-console-")));
  const child = spawn(EXECUTABLE, ["serve", "--json", "--listen", `127.0.0.1:${port}`, "--data-dir", folder], { stdio: ["ignore", "pipe", process.env.SHOW_LOG ? "inherit" : "ignore"] });
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, "line"),
    once(child, "exit").then(() => {
      throw new Error("the server did not start; SHOW_LOG=1 shows why");
    }),
  ]);
  const { apiUrl, apiKey } = JSON.parse(line);
  const server = { url: apiUrl, key: apiKey, folder, port: Number(new URL(apiUrl).port) };
  server.hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  server.call = async (method, path, body) => {
    const response = await fetch(apiUrl + path, { method, headers: { "X-API-Key": apiKey, "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  };
  server.halt = async (signal = "SIGTERM") => {
    if (!server.hasEnded()) {
      child.kill(signal);
      await once(child, "exit");
    }
  };
  server.stop = async () => {
    for (const sandbox of await server.call("GET", "/v2/sandboxes?state=running,paused")) await server.call("DELETE", `/sandboxes/${sandbox.sandboxID}`).catch(() => undefined);
    await server.halt();
    for (const left of [folder, `${folder}-ca`, `${folder}.vault-key`]) await rm(left, { recursive: true, force: true });
  };
  return server;
}

export async function startBrowser() {
  const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path));
  if (!executablePath) throw new Error("there is no Chromium; `scripts/host-packages test` installs it");
  return chromium.launch({ executablePath, args: FLAGS });
}

/** A page that was let in by a ticket, and that fails its test by whatever it complains of. */
export async function openConsole(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  await context.grantPermissions([]);
  const page = await context.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.complaints.push(message.text());
  });
  const { ticket } = await server.call("POST", "/skep/console/tickets");
  await page.goto(`${server.url}/console/#ticket=${ticket}`);
  await page.getByRole("heading", { name: "Sandboxes", exact: true }).waitFor();
  return page;
}
