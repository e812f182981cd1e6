// One conversation with an official client for TypeScript: client.mjs CLIENT TRANSPORT URL KEY SKEP
//
// CLIENT is `1`, the package of the revisions until 2025, or `auto` or `legacy`, the mode in which the one of the newest
// revision finds out what it talks to.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [kind, transport, url, key, skep] = process.argv.slice(2);
const require = createRequire(path.join(process.env.CONFORMANCE_NODE_MODULES, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/${name}`)).href);
const [core, http, stdio] = await Promise.all(
  kind === "1"
    ? ["client/index.js", "client/streamableHttp.js", "client/stdio.js"].map((name) => load(`sdk/${name}`))
    : ["client", "client", "client/stdio"].map(load),
);

const client = new core.Client({ name: `typescript-${kind}`, version: "1" }, { versionNegotiation: { mode: kind } });
const headers = { Authorization: `Bearer ${key}` };
const connection =
  transport === "http"
    ? new http.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
    : new stdio.StdioClientTransport({ command: skep, args: ["mcp"], env: process.env });
await client.connect(connection);

const tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (code, ...options) => client.callTool({ name: "run_code", arguments: { code } }, ...options);
await call("x = 42");
let progress = 0;
const steps = "import time\nfor i in range(2):\n    print('step', i, flush=True)\n    time.sleep(0.4)\nx";
const told = { onprogress: () => (progress += 1) };
const ran = await call(steps, ...(kind === "1" ? [undefined, told] : [told]));
const plotted = await call("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()");
await client.callTool({ name: "write_file", arguments: { path: "typescript.txt", content: "hello" } });
const file = (await client.listResources()).resources.find((resource) => resource.name === "typescript.txt");
const read = await client.readResource({ uri: file.uri });
console.log(
  JSON.stringify({
    tools,
    progress,
    text: ran.content[0].text,
    structured: ran.structuredContent,
    image: plotted.content.find((block) => block.type === "image")?.mimeType,
    resource: read.contents[0].text,
    version: client.getNegotiatedProtocolVersion?.() ?? connection.protocolVersion ?? "2025",
  }),
);
await client.callTool({ name: "stop_sandbox", arguments: {} });
await client.close();
