/** Templates: what sandboxes are made of, their versions, and builds as they go. */
import { useEffect, useRef, useState } from "preact/hooks";
import { call, messageOf } from "../api";
import { bytes, mebibytes, moment } from "../format";
import { href } from "../route";
import { utc } from "../state";
import type { Template } from "../types";
import { Act, Badge, Code, Empty, Fact, Head, Pending, useLoaded, When } from "../widgets";

const STATUS: Record<string, string> = { ready: "good", building: "wait", waiting: "wait", error: "bad" };

export function Templates({ id, tab }: { id?: string; tab?: string }) {
  return id === undefined ? <List /> : <Versions id={id} build={tab} />;
}

function nameOf(template: { names: string[]; templateID: string; aliases?: string[] }): string {
  return template.aliases?.[0] ?? template.names[0] ?? template.templateID;
}

function List() {
  const { value, error } = useLoaded(() => call<Template[]>("GET", "/templates"), [], 5000);
  return (
    <>
      <Head title="Templates" sub="What sandboxes are made of." />
      {value === undefined ? (
        <Pending error={error} />
      ) : value.length === 0 ? (
        <Empty title="No templates">
          <p>
            <code>skep up</code> builds the usual ones. One of your own is a Dockerfile:
          </p>
          <Code text="skep template build . -n my-agent" />
        </Empty>
      ) : (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th>State</th>
                <th>Limits</th>
                <th class="number">Builds</th>
                <th class="number">Sandboxes made</th>
                <th>Last used</th>
                <th>Changed</th>
              </tr>
            </thead>
            <tbody>
              {value.map((template) => (
                <tr key={template.templateID}>
                  <td>
                    <a href={href("templates", template.templateID)}>{nameOf(template)}</a> {template.public ? <Badge kind="info">public</Badge> : null}
                  </td>
                  <td>
                    <Badge kind={STATUS[template.buildStatus] ?? "off"}>{template.buildStatus}</Badge>
                  </td>
                  <td class="faint">
                    {template.cpuCount} cores, {mebibytes(template.memoryMB)}
                  </td>
                  <td class="number">{template.buildCount}</td>
                  <td class="number">{template.spawnCount}</td>
                  <td>
                    <When at={template.lastSpawnedAt} />
                  </td>
                  <td>
                    <When at={template.updatedAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

type Summary = { buildID: string; contentID?: string; status: string; tags: string[]; bytes?: number; createdAt: string; finishedAt?: string; reason?: string };
type AllVersions = { templateID: string; names: string[]; public: boolean; builds: Summary[] };
type Version = { templateID: string; names: string[]; buildID: string; fromImage?: string; fromTemplate?: string; steps: { type: string; args?: string[] }[]; user?: string; workdir?: string; envVars: Record<string, string>; startCmd?: string; readyCmd?: string; layers: { key: string; title?: string; bytes: number }[] };

function Versions({ id, build }: { id: string; build: string | undefined }) {
  const { value, error, again } = useLoaded(() => call<AllVersions>("GET", `/skep/templates/${encodeURIComponent(id)}/builds`), [id], 4000);
  if (value === undefined) return <Pending error={error} />;
  const chosen = value.builds.find((one) => one.buildID === build) ?? value.builds[0];
  return (
    <>
      <Head title={value.names[0] ?? id} sub={<span class="mono">{value.templateID}</span>}>
        <a class="button" href={href("templates")}>
          All templates
        </a>
      </Head>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>Version</th>
              <th>State</th>
              <th>Tags</th>
              <th class="number">Size</th>
              <th>Asked for</th>
              <th>
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {value.builds.map((one) => (
              <tr key={one.buildID} class={one === chosen ? "chosen" : ""}>
                <td class="mono">
                  <a href={href("templates", id, one.buildID)}>{one.buildID.slice(0, 13)}</a>
                </td>
                <td title={one.reason}>
                  <Badge kind={STATUS[one.status] ?? "off"}>{one.status}</Badge>
                </td>
                <td>
                  {one.tags.map((tag) => (
                    <Badge kind="info" key={tag}>
                      {tag}
                    </Badge>
                  ))}
                </td>
                <td class="number">{one.bytes === undefined ? "" : bytes(one.bytes)}</td>
                <td>
                  <When at={one.createdAt} />
                </td>
                <td class="row-actions">
                  {one.status === "building" || one.status === "waiting" ? (
                    <Act class="small danger" run={() => call("POST", `/skep/templates/${encodeURIComponent(id)}/builds/${one.buildID}/cancel`).then(again)}>
                      Cancel
                    </Act>
                  ) : null}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {chosen ? (
        <>
          {chosen.status === "ready" ? <Made template={value.templateID} build={chosen.buildID} /> : null}
          <BuildLog key={chosen.buildID} template={value.templateID} build={chosen} />
        </>
      ) : (
        <Empty title="No versions">
          <p>Nothing was built of this template yet.</p>
        </Empty>
      )}
    </>
  );
}

function Made({ template, build }: { template: string; build: string }) {
  const { value } = useLoaded(() => call<Version>("GET", `/skep/templates/${encodeURIComponent(`${template}:${build}`)}`), [template, build]);
  if (!value) return null;
  return (
    <div class="columns">
      <div class="card">
        <h2>Made of</h2>
        <dl>
          {value.fromImage ? <Fact name="From image">{value.fromImage}</Fact> : null}
          {value.fromTemplate ? <Fact name="From template">{value.fromTemplate}</Fact> : null}
          {value.user ? <Fact name="User">{value.user}</Fact> : null}
          {value.workdir ? <Fact name="Folder">{value.workdir}</Fact> : null}
          {value.startCmd ? (
            <Fact name="Starts">
              <code>{value.startCmd}</code>
            </Fact>
          ) : null}
          {Object.entries(value.envVars).map(([name, text]) => (
            <Fact key={name} name={name}>
              <span class="mono">{text}</span>
            </Fact>
          ))}
        </dl>
        {value.steps.length > 0 ? <pre>{value.steps.map((step) => `${step.type} ${(step.args ?? []).join(" ")}`).join("\n")}</pre> : null}
      </div>
      <div class="card">
        <h2>Layers</h2>
        <table class="plain">
          <tbody>
            {value.layers.map((layer) => (
              <tr key={layer.key}>
                <td>{layer.title ?? <span class="mono faint">{layer.key.slice(0, 16)}</span>}</td>
                <td class="number">{bytes(layer.bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

type LogLine = { timestamp: string; level: string; message: string; step?: string };

function BuildLog({ template, build }: { template: string; build: Summary }) {
  const [lines, setLines] = useState<LogLine[] | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const box = useRef<HTMLDivElement>(null);
  const goes = build.status === "building" || build.status === "waiting";
  useEffect(() => {
    let current = true;
    let seen = 0;
    const ask = async () => {
      try {
        const found = await call<{ logEntries: LogLine[] }>("GET", `/templates/${encodeURIComponent(template)}/builds/${build.buildID}/status?logsOffset=${seen}&limit=100`);
        if (!current) return;
        seen += found.logEntries.length;
        setLines((before) => [...(before ?? []), ...found.logEntries].slice(-5000));
        if (found.logEntries.length === 100) await ask();
      } catch (error) {
        if (current) setWrong(messageOf(error));
      }
    };
    void ask();
    const timer = goes ? setInterval(() => void (document.hidden || ask()), 1000) : undefined;
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [goes]);
  useEffect(() => {
    if (goes && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return (
    <section class="build-log">
      <h2>Log of the build</h2>
      {build.reason ? <p class="notice error">{build.reason}</p> : null}
      {wrong ? <p class="faint">{wrong}</p> : null}
      {lines && lines.length > 0 ? (
        <div class="log" ref={box} tabIndex={0} role="log" aria-label="Log of the build">
          {lines.map((line, index) => (
            <div key={index} class={`line ${line.level}`}>
              <time class="faint">{moment(line.timestamp, utc.value, "time")}</time>
              <span class="level">{line.step ?? line.level}</span>
              <span class="message">{line.message}</span>
            </div>
          ))}
        </div>
      ) : wrong ? null : (
        <p class="faint">Nothing is kept of it. Built-in templates are built by the server's own command.</p>
      )}
    </section>
  );
}
