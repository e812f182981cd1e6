// One conversation with the official client for TypeScript: client.mjs TRANSPORT URL KEY SKEP
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.CONFORMANCE_NODE_MODULES;
const require = createRequire(path.join(modules, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");

const [transport, url, key, skep] = process.argv.slice(2);
const client = new Client({ name: "typescript", version: "1" });
const headers = { Authorization: `Bearer ${key}` };
const connection =
  transport === "http"
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
    : new StdioClientTransport({ command: skep, args: ["mcp"], env: process.env });
await client.connect(connection);

const tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (code, options) => client.callTool({ name: "run_code", arguments: { code } }, undefined, options);
await call("x = 42");
let progress = 0;
const steps = "import time\nfor i in range(2):\n    print('step', i, flush=True)\n    time.sleep(0.4)\nx";
const ran = await call(steps, { onprogress: () => (progress += 1) });
const plotted = await call("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()");
console.log(
  JSON.stringify({
    tools,
    progress,
    text: ran.content[0].text,
    structured: ran.structuredContent,
    image: plotted.content.find((block) => block.type === "image")?.mimeType,
    version: connection.protocolVersion ?? "2025",
  }),
);
await client.close();
