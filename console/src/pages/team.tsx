/** The team: how much of what it may have it has, and had. */
import { call, team } from "../api";
import { count } from "../format";
import { records } from "../live";
import { Plot } from "../sandbox/metrics";
import { Empty, Fact, Head, Pending, useLoaded } from "../widgets";

type Point = { timestamp: string; concurrentSandboxes: number; sandboxStartRate: number };
const DAY = 86_400;

export function Team() {
  const id = team.value?.teamID ?? "";
  const { value, error } = useLoaded(() => call<Point[]>("GET", `/teams/${id}/metrics?start=${Math.floor(Date.now() / 1000) - DAY}&end=${Math.floor(Date.now() / 1000)}`), [id], 10_000);
  const living = (records.value ?? []).filter((record) => record.state !== "ended");
  const cores = living.reduce((sum, record) => sum + record.cpuCount, 0);
  return (
    <>
      <Head title={team.value?.name ?? "Team"} sub={<span class="mono">{id}</span>} />
      <div class="columns">
        <div class="card">
          <h2>Now</h2>
          <dl>
            <Fact name="Sandboxes">{count(living.length, "lives", "live")}</Fact>
            <Fact name="Running">{living.filter((record) => record.state === "running").length}</Fact>
            <Fact name="Paused">{living.filter((record) => record.state === "paused").length}</Fact>
            <Fact name="Cores promised">{cores}</Fact>
          </dl>
        </div>
      </div>
      {value === undefined ? (
        <Pending error={error} />
      ) : value.length < 2 ? (
        <Empty title="No day to show yet">
          <p>How many sandboxes ran, and how fast they were made, is drawn here as soon as there is some of it.</p>
        </Empty>
      ) : (
        <div class="plots">
          <Plot title="Sandboxes at a time" now={String(value.at(-1)?.concurrentSandboxes ?? 0)} at={value.map((point) => Date.parse(point.timestamp) / 1000)} unit={(number) => number.toFixed(0)} least={4} lines={[{ name: "sandboxes", color: "--series-1", values: value.map((point) => point.concurrentSandboxes) }]} />
          <Plot title="Made per second" now={(value.at(-1)?.sandboxStartRate ?? 0).toFixed(2)} at={value.map((point) => Date.parse(point.timestamp) / 1000)} unit={(number) => number.toFixed(2)} least={0.1} lines={[{ name: "made", color: "--series-2", values: value.map((point) => point.sandboxStartRate) }]} />
        </div>
      )}
    </>
  );
}
