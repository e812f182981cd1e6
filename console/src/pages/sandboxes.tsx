/** All sandboxes of the team, as they are now. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { call } from "../api";
import { bytes, count, duration, isTrouble, mebibytes, percent, reason } from "../format";
import { inView, killLater, leaving, loads, measure, records, refresh } from "../live";
import { isMeant } from "../match";
import { go, href } from "../route";
import { now, toast } from "../state";
import type { SandboxRecord, Template } from "../types";
import { inSight } from "../virtual";
import { Badge, Code, Dialog, Empty, Head, Pending, Spark, useActions, useLoaded, When } from "../widgets";

const ROW = 44;

export function StateBadge({ record }: { record: SandboxRecord }) {
  if (leaving.value.has(record.sandboxID)) return <Badge kind="wait">going</Badge>;
  if (record.state === "ended") {
    return (
      <Badge kind={isTrouble(record.endReason) ? "bad" : "off"} title={record.endReason ?? ""}>
        {reason(record.endReason)}
      </Badge>
    );
  }
  const kind = { running: "good", paused: "info", starting: "wait", stopping: "wait", stuck: "bad" }[record.state];
  return <Badge kind={kind}>{record.state}</Badge>;
}

/** What is left of a sandbox's time, counting down. */
export function Left({ record }: { record: SandboxRecord }) {
  if (record.state !== "running" || !record.endAt) return <span class="faint">–</span>;
  const seconds = (Date.parse(record.endAt) - now.value) / 1000;
  return <span class={seconds < 60 ? "warn-text" : ""}>{duration(seconds)}</span>;
}

export function Sandboxes() {
  const [filter, setFilter] = useState("");
  const [ended, setEnded] = useState(true);
  const [creating, setCreating] = useState(false);
  const all = records.value;
  const shown = useMemo(() => (all ?? []).filter((record) => (ended || record.state !== "ended") && isMeant(filter, record)), [all, filter, ended]);
  const living = (all ?? []).filter((record) => record.state !== "ended").length;
  const search = useRef<HTMLInputElement>(null);
  useActions([{ title: "New sandbox", hint: "n", run: () => setCreating(true) }], []);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) || document.querySelector("dialog[open]")) return;
      if (event.key === "n") setCreating(true);
      else if (event.key === "/") search.current?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return (
    <>
      <Head title="Sandboxes" sub={all ? `${count(living, "lives", "live")}, ${count(all.length - living, "has ended", "have ended")}` : undefined}>
        <button type="button" class="primary" onClick={() => setCreating(true)}>
          New sandbox <kbd>N</kbd>
        </button>
      </Head>
      {all === undefined ? (
        <Pending error={undefined} />
      ) : all.length === 0 ? (
        <First create={() => setCreating(true)} />
      ) : (
        <>
          <div class="bar">
            <input
              ref={search}
              type="search"
              aria-label="Filter"
              placeholder="Filter: id, template, state, reason, key=value  ( / )"
              value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
            />
            <label class="check">
              <input type="checkbox" checked={ended} onChange={(event) => setEnded(event.currentTarget.checked)} /> Ended ones
            </label>
            <span class="faint">{filter || !ended ? `${shown.length} of ${all.length}` : ""}</span>
          </div>
          {shown.length === 0 ? (
            <Empty title="None of these">
              <p>No sandbox is what the filter means.</p>
            </Empty>
          ) : (
            <Rows shown={shown} />
          )}
        </>
      )}
      {creating ? <Create close={() => setCreating(false)} /> : null}
    </>
  );
}

function Rows({ shown }: { shown: SandboxRecord[] }) {
  const box = useRef<HTMLDivElement>(null);
  const range = useSignal({ first: 0, last: 30 });
  const look = () => {
    const element = box.current;
    if (!element) return;
    const next = inSight(element.scrollTop, element.clientHeight, ROW, shown.length);
    if (next.first !== range.value.first || next.last !== range.value.last) range.value = next;
  };
  useLayoutEffect(look, [shown.length]);
  useEffect(() => {
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, [shown.length]);
  const { first, last } = range.value;
  const drawn = shown.slice(first, last);
  const running = drawn.filter((record) => record.state === "running").map((record) => record.sandboxID);
  const key = running.join();
  useEffect(() => {
    inView.value = running;
    void measure();
    return () => {
      inView.value = [];
    };
  }, [key]);
  return (
    <div class="rows" ref={box} onScroll={look} role="table" aria-label="Sandboxes" aria-rowcount={shown.length} tabIndex={0}>
      <div class="row row-head" role="row">
        {["Sandbox", "State", "Template", "Age", "Time left", "Use", "Metadata", ""].map((name) => (
          <span key={name} role="columnheader">
            {name || <span class="hidden">Actions</span>}
          </span>
        ))}
      </div>
      <div style={{ height: `${shown.length * ROW}px`, position: "relative" }} role="rowgroup">
        <div style={{ transform: `translateY(${first * ROW}px)` }} role="presentation">
          {drawn.map((record) => (
            <Row key={record.sandboxID} record={record} />
          ))}
        </div>
      </div>
    </div>
  );
}

function Row({ record }: { record: SandboxRecord }) {
  const load = loads.value.get(record.sandboxID);
  const isRunning = record.state === "running";
  return (
    <div class={`row ${record.state === "ended" ? "ended" : ""}`} role="row">
      <span role="cell">
        <a class="mono" href={href("sandboxes", record.sandboxID)}>
          {record.sandboxID}
        </a>
      </span>
      <span role="cell">
        <StateBadge record={record} />
      </span>
      <span role="cell" class="cut" title={record.templateID}>
        {record.alias}
      </span>
      <span role="cell">
        <When at={record.createdAt} />
      </span>
      <span role="cell">
        <Left record={record} />
      </span>
      <span role="cell" class="use">
        {isRunning && load ? (
          <>
            <Spark values={load.cpu} most={100} label={`processor ${percent(load.cpu.at(-1) ?? 0)}`} />
            <span class="small-text">
              {percent(load.cpu.at(-1) ?? 0)} · {bytes(load.memory)}
            </span>
          </>
        ) : record.usage ? (
          <span class="small-text faint">
            {record.usage.cpuSeconds.toFixed(1)} s · {bytes(record.usage.memoryPeakBytes)}
          </span>
        ) : (
          <span class="faint">–</span>
        )}
      </span>
      <span role="cell" class="cut small-text faint">
        {Object.entries(record.metadata)
          .map(([name, value]) => `${name}=${value}`)
          .join("  ")}
      </span>
      <span role="cell" class="row-actions">
        {record.state === "ended" || record.state === "stopping" ? null : (
          <button type="button" class="small quiet danger" aria-label={`Kill ${record.sandboxID}`} onClick={() => killLater(record.sandboxID)}>
            Kill
          </button>
        )}
      </span>
    </div>
  );
}

function First({ create }: { create: () => void }) {
  const origin = location.origin;
  return (
    <Empty title="No sandboxes yet">
      <p>Make one here, or from a program. What an agent does in it can be watched on its page, also after it has ended.</p>
      <p>
        <button type="button" class="primary" onClick={create}>
          New sandbox
        </button>
      </p>
      <p class="faint">
        In Python, with the key that <code>skep up</code> printed or <code>skep key create</code> makes:
      </p>
      <Code
        text={`export E2B_API_KEY=e2b_…
export E2B_API_URL=${origin}
export E2B_SANDBOX_URL=${origin}

python3 -c '
from e2b_code_interpreter import Sandbox
with Sandbox.create() as sandbox:
    print(sandbox.run_code("sum(range(10))").text)
'`}
      />
    </Empty>
  );
}

function Create({ close }: { close: () => void }) {
  const { value: templates, error } = useLoaded(() => call<Template[]>("GET", "/templates"), []);
  const usable = (templates ?? []).filter((template) => template.buildStatus === "ready");
  const usual = usable.find((template) => template.names.concat(template.aliases).includes("code-interpreter-v1")) ?? usable[0];
  const [template, setTemplate] = useState("");
  const [minutes, setMinutes] = useState(60);
  const [internet, setInternet] = useState(true);
  const [variables, setVariables] = useState("");
  const [metadata, setMetadata] = useState("");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string | undefined>();
  const create = async () => {
    setBusy(true);
    try {
      const made = await call<{ sandboxID: string }>("POST", "/sandboxes", {
        templateID: template || nameOf(usual),
        timeout: Math.round(minutes * 60),
        secure: true,
        allow_internet_access: internet,
        envVars: pairs(variables),
        metadata: pairs(metadata),
      });
      void refresh();
      close();
      go("sandboxes", made.sandboxID, "notebook");
      toast(`${made.sandboxID} runs`);
    } catch (problem) {
      setWrong(problem instanceof Error ? problem.message : String(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title="New sandbox" close={close}>
      {templates === undefined ? (
        <Pending error={error} />
      ) : usable.length === 0 ? (
        <p>No template is built yet. <code>skep up</code> builds them.</p>
      ) : (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void create();
          }}
        >
          <label>
            Template
            <select value={template || nameOf(usual)} onChange={(event) => setTemplate(event.currentTarget.value)}>
              {usable.map((one) => (
                <option key={one.templateID} value={nameOf(one)}>
                  {nameOf(one)} · {one.cpuCount} cores, {mebibytes(one.memoryMB)}
                </option>
              ))}
            </select>
          </label>
          <label>
            Lives for (minutes)
            <input type="number" min={1} max={1440} value={minutes} onInput={(event) => setMinutes(event.currentTarget.valueAsNumber)} />
          </label>
          <label class="check">
            <input type="checkbox" checked={internet} onChange={(event) => setInternet(event.currentTarget.checked)} /> Reaches the internet
          </label>
          <label>
            Variables <span class="faint">NAME=value, one in a line</span>
            <textarea rows={2} class="mono" spellcheck={false} value={variables} onInput={(event) => setVariables(event.currentTarget.value)} />
          </label>
          <label>
            Metadata <span class="faint">key=value, one in a line</span>
            <textarea rows={2} class="mono" spellcheck={false} value={metadata} onInput={(event) => setMetadata(event.currentTarget.value)} />
          </label>
          {wrong ? (
            <p class="notice error" role="alert">
              {wrong}
            </p>
          ) : null}
          <div class="form-end">
            <button type="button" class="quiet" onClick={close}>
              Cancel
            </button>
            <button type="submit" class="primary" disabled={busy} aria-busy={busy}>
              Create
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

function nameOf(template: Template | undefined): string {
  return template?.aliases[0] ?? template?.names[0] ?? template?.templateID ?? "";
}

/** `name=value` lines. */
export function pairs(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.includes("="));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1)]));
}
