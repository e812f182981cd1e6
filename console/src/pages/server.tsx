/** The server: whether all is well, what the host has left, and how fast it is. */
import { call, request } from "../api";
import { bytes, micros } from "../format";
import { quantile, samples, type Sample } from "../prometheus";
import { Badge, Fact, Head, Pending, useLoaded } from "../widgets";

type Check = { name: string; status: "ok" | "limited" | "missing"; detail: string; cure?: string };
type Health = { status: string; problems?: { code: string; message: string }[] };

const TIMES: [string, string][] = [
  ["skep_sandbox_create_seconds", "Create a sandbox"],
  ["skep_execute_seconds", "Begin to answer code"],
  ["skep_proxy_answer_seconds", "Answer of a sandbox"],
  ["skep_store_commit_seconds", "Write the record"],
];
const IN_BYTES = ["memory", "disk"];

export function Server() {
  const { value, error } = useLoaded(
    async () => {
      const health = await fetchHealth();
      const text = await (await request("GET", "/skep/metrics")).text();
      return { health, all: samples(text) };
    },
    [],
    5000,
  );
  return (
    <>
      <Head title="Server" sub={
          <>
            What the server counts, for its operator. <code>/skep/metrics</code> is the same for Prometheus.
          </>
        } />
      {value === undefined ? <Pending error={error} /> : <Shown {...value} />}
      <Doctor />
    </>
  );
}

async function fetchHealth(): Promise<Health> {
  return call<Health>("GET", "/health");
}

function Shown({ health, all }: { health: Health; all: Sample[] }) {
  const one = (name: string) => all.find((sample) => sample.name === name)?.value;
  const by = (name: string, label: string) => all.filter((sample) => sample.name === name).map((sample) => ({ label: sample.labels[label] ?? "", value: sample.value }));
  const totals = by("skep_host_total", "resource").filter((resource) => resource.value > 0);
  const available = new Map(by("skep_host_available", "resource").map((resource) => [resource.label, resource.value]));
  const endings = by("skep_sandbox_endings_total", "reason").filter((ending) => ending.value > 0);
  const found = by("skep_pool_requests_total", "found");
  const tiers = by("skep_isolation_tier", "tier").filter((tier) => tier.value > 0);
  const kernels = by("skep_zygote_kernels_total", "outcome").filter((kernel) => kernel.value > 0);
  return (
    <>
      {(health.problems ?? []).map((problem) => (
        <p class="notice error" key={problem.code}>
          <strong>{problem.code}</strong> {problem.message}
        </p>
      ))}
      <div class="columns">
        <div class="card">
          <h2>State</h2>
          <dl>
            <Fact name="Health">
              <Badge kind={health.status === "ok" ? "good" : "bad"}>{health.status ?? "ok"}</Badge>
            </Fact>
            <Fact name="Isolation">{tiers.map((tier) => tier.label).join(", ") || "–"}</Fact>
            <Fact name="Room for more sandboxes">{one("skep_host_room")?.toFixed(0) ?? "–"}</Fact>
            <Fact name="Stuck">{all.filter((sample) => sample.name === "skep_sandboxes_stuck").reduce((sum, sample) => sum + sample.value, 0)}</Fact>
            <Fact name="Its own memory">{bytes(one("process_resident_memory_bytes") ?? 0)}</Fact>
            <Fact name="Its own processor time">{micros((one("process_cpu_seconds_total") ?? 0) * 1e6)}</Fact>
            <Fact name="Writes that wait">{one("skep_store_queue") ?? 0}</Fact>
          </dl>
        </div>
        <div class="card">
          <h2>Times</h2>
          <table class="plain">
            <thead>
              <tr>
                <th>
                  <span class="hidden">What</span>
                </th>
                <th class="number">half</th>
                <th class="number">95 of 100</th>
              </tr>
            </thead>
            <tbody>
              {TIMES.map(([name, title]) => (
                <tr key={name}>
                  <td>{title}</td>
                  {[0.5, 0.95].map((part) => {
                    const seconds = quantile(all, name, part);
                    return (
                      <td class="number" key={part}>
                        {seconds === undefined ? "–" : micros(Math.round(seconds * 1e6))}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div class="card">
          <h2>Host</h2>
          <dl>
            {totals.map((resource) => {
              const left = available.get(resource.label) ?? 0;
              const show = (number: number) => (IN_BYTES.includes(resource.label) ? bytes(number) : number.toLocaleString("en"));
              return (
                <Fact name={resource.label.replaceAll("_", " ")} key={resource.label}>
                  <meter min={0} max={resource.value} value={resource.value - left} aria-label={`${resource.label} in use`} /> {show(left)} left of {show(resource.value)}
                </Fact>
              );
            })}
          </dl>
        </div>
        <div class="card">
          <h2>Kept ready</h2>
          <dl>
            <Fact name="Spare sandboxes">{one("skep_pool_ready") ?? 0}</Fact>
            {found.map((request) => (
              <Fact name={request.label === "ready" ? "Asked for and there" : "Asked for and not there"} key={request.label}>
                {request.value}
              </Fact>
            ))}
            <Fact name="Zygotes">{one("skep_zygotes") ?? 0}</Fact>
            {kernels.map((kernel) => (
              <Fact name={`Kernels ${kernel.label}`} key={kernel.label}>
                {kernel.value}
              </Fact>
            ))}
          </dl>
        </div>
        <div class="card">
          <h2>How sandboxes ended</h2>
          {endings.length === 0 ? (
            <p class="faint">None has ended since the server was started.</p>
          ) : (
            <dl>
              {endings.map((ending) => (
                <Fact name={ending.label.replaceAll("_", " ")} key={ending.label}>
                  {ending.value}
                </Fact>
              ))}
            </dl>
          )}
        </div>
      </div>
    </>
  );
}

const FOUND: Record<Check["status"], string> = { ok: "good", limited: "wait", missing: "bad" };

/** What the host lacks, and how that is cured: the words of `skep doctor`. */
function Doctor() {
  const { value, error } = useLoaded(() => call<Check[]>("GET", "/skep/doctor"), [], 60_000);
  // What needs somebody comes first.
  const order = Object.keys(FOUND).reverse();
  const sorted = value?.toSorted((one, other) => order.indexOf(one.status) - order.indexOf(other.status));
  return (
    <section class="doctor">
      <h2>What the host can do</h2>
      {sorted === undefined ? (
        <Pending error={error} />
      ) : (
        <div class="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>Check</th>
                <th>Result</th>
                <th>Found</th>
              </tr>
            </thead>
            <tbody>
              {sorted.map((check) => (
                <tr key={check.name}>
                  <td>{check.name}</td>
                  <td>
                    <Badge kind={FOUND[check.status]}>{check.status}</Badge>
                  </td>
                  <td>
                    {check.detail}
                    {check.cure ? <div class="faint">{check.cure}</div> : null}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="faint">
        <code>sudo skep doctor</code> says the same without a server.
      </p>
    </section>
  );
}
