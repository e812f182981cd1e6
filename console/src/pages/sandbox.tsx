/** One sandbox, alive or not. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { killLater, records, refresh } from "../live";
import { go, href } from "../route";
import { toast } from "../state";
import type { SandboxRecord } from "../types";
import { Act, Copy, Dialog, Empty, Head, Pending, useActions, When } from "../widgets";
import { Left, StateBadge } from "./sandboxes";
import { reason } from "../format";

export type TabProps = { record: SandboxRecord };

type Tab = { name: string; title: string; needsLife: boolean; load: () => Promise<ComponentType<TabProps>> };

const TABS: Tab[] = [
  { name: "notebook", title: "Notebook", needsLife: false, load: async () => (await import("../notebook/notebook")).Notebook },
  { name: "terminal", title: "Terminal", needsLife: true, load: async () => (await import("../sandbox/terminal")).Terminals },
  { name: "files", title: "Files", needsLife: true, load: async () => (await import("../sandbox/files")).Files },
  { name: "logs", title: "Logs", needsLife: false, load: async () => (await import("../sandbox/logs")).Logs },
  { name: "metrics", title: "Metrics", needsLife: false, load: async () => (await import("../sandbox/metrics")).Metrics },
  { name: "network", title: "Network", needsLife: false, load: async () => (await import("../sandbox/network")).Network },
  { name: "snapshots", title: "Snapshots", needsLife: false, load: async () => (await import("../sandbox/snapshots")).Snapshots },
  { name: "info", title: "Info", needsLife: false, load: async () => (await import("../sandbox/info")).Info },
];

const loaded = new Map<string, ComponentType<TabProps>>();

export function SandboxPage({ id = "", tab }: { id?: string; tab?: string }) {
  const all = records.value;
  const record = all?.find((one) => one.sandboxID === id);
  const [extending, setExtending] = useState(false);
  const lives = record?.state === "running";
  useActions(
    [
      ...TABS.map((one) => ({ title: `${one.title} of ${id}`, hint: "tab", run: () => go("sandboxes", id, one.name) })),
      ...(lives
        ? [
            { title: `Extend ${id}`, hint: "action", run: () => setExtending(true) },
            { title: `Kill ${id}`, hint: "action", run: () => killLater(id) },
          ]
        : []),
    ],
    [id, lives],
  );
  if (all === undefined) return <Pending error={undefined} />;
  if (!record) {
    return (
      <Empty title={`There is no sandbox ${id}`}>
        <p>
          It is another team's, or ended so long ago that it is forgotten. <a href={href("sandboxes")}>All sandboxes</a>
        </p>
      </Empty>
    );
  }
  const usual = record.state === "ended" ? "info" : "notebook";
  const chosen = TABS.find((one) => one.name === (tab ?? usual)) ?? TABS[0]!;
  return (
    <>
      <Head
        title={
          <>
            <span class="mono">{id}</span> <StateBadge record={record} />
          </>
        }
        sub={
          <>
            {record.alias} · made <When at={record.createdAt} />
            {lives ? (
              <>
                {" "}
                · <Left record={record} /> left
              </>
            ) : record.state === "ended" ? (
              <>
                {" "}
                · ended <When at={record.endAt} />
                {record.endReason ? `: ${reason(record.endReason)}` : ""}
              </>
            ) : null}
          </>
        }
      >
        <Copy text={id} label="Copy id" />
        {lives ? (
          <>
            <button type="button" onClick={() => setExtending(true)}>
              Extend
            </button>
            <Act run={() => call("POST", `/sandboxes/${id}/pause`, {}).then(refresh)}>Pause</Act>
          </>
        ) : null}
        {record.state === "paused" ? (
          <Act class="primary" run={() => call("POST", `/v2/sandboxes/${id}/connect`, {}).then(refresh)}>
            Resume
          </Act>
        ) : null}
        {record.state === "ended" ? null : (
          <button type="button" class="danger" onClick={() => killLater(id)}>
            Kill
          </button>
        )}
      </Head>
      <div class="tabs" role="tablist" aria-label="Parts of this sandbox">
        {TABS.map((one) => (
          <a key={one.name} role="tab" aria-selected={one === chosen} href={href("sandboxes", id, one.name)}>
            {one.title}
          </a>
        ))}
      </div>
      {chosen.needsLife && record.state !== "running" ? <NotRunning record={record} title={chosen.title} /> : <Part key={chosen.name} tab={chosen} record={record} />}
      {extending ? <Extend id={id} close={() => setExtending(false)} /> : null}
    </>
  );
}

function NotRunning({ record, title }: { record: SandboxRecord; title: string }) {
  if (record.state === "paused") {
    return (
      <Empty title="The sandbox is paused">
        <p>{title} needs it to run. Resume it, and it goes on where it was.</p>
      </Empty>
    );
  }
  return (
    <Empty title={record.state === "ended" ? "The sandbox has ended" : `The sandbox is ${record.state}`}>
      <p>
        {record.endReason ? `Reason: ${reason(record.endReason)}. ` : ""}Its <a href={href("sandboxes", record.sandboxID, "logs")}>logs</a> and its{" "}
        <a href={href("sandboxes", record.sandboxID, "info")}>record</a> are kept.
      </p>
    </Empty>
  );
}

function Part({ tab, record }: { tab: Tab; record: SandboxRecord }) {
  const [Component, setComponent] = useState<ComponentType<TabProps> | undefined>(() => loaded.get(tab.name));
  useEffect(() => {
    if (Component) return;
    tab.load().then(
      (component) => {
        loaded.set(tab.name, component);
        setComponent(() => component);
      },
      () => toast("a part of this page could not be loaded; reload the page", "error", 10_000),
    );
  }, []);
  return (
    <section role="tabpanel" aria-label={tab.title} class={`panel panel-${tab.name}`}>
      {Component ? <Component record={record} /> : <Pending error={undefined} />}
    </section>
  );
}

function Extend({ id, close }: { id: string; close: () => void }) {
  const [minutes, setMinutes] = useState(60);
  return (
    <Dialog title="Time to live" close={close}>
      <div class="form">
        <label>
          Ends so many minutes from now
          <input type="number" min={1} max={1440} value={minutes} onInput={(event) => setMinutes(event.currentTarget.valueAsNumber)} />
        </label>
        <div class="form-end">
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <Act
            class="primary"
            run={async () => {
              await call("POST", `/sandboxes/${id}/timeout`, { timeout: Math.round(minutes * 60) });
              await refresh();
              close();
            }}
          >
            Set
          </Act>
        </div>
      </div>
    </Dialog>
  );
}
