/** What a sandbox is, how to reach it, and what it has used. */
import { call } from "../api";
import { bytes, mebibytes, moment, reason } from "../format";
import type { TabProps } from "../pages/sandbox";
import { utc } from "../state";
import { Code, Fact, useLoaded } from "../widgets";

type Detail = { domain?: string; envdVersion: string; allowInternetAccess?: boolean; network?: unknown; lifecycle?: { autoResume: boolean; onTimeout: string } };

export function Info({ record }: TabProps) {
  const lives = record.state !== "ended";
  const { value: detail } = useLoaded(async () => (lives ? call<Detail>("GET", `/sandboxes/${record.sandboxID}`) : undefined), [record.sandboxID, record.state]);
  const usage = record.usage;
  return (
    <div class="columns">
      <div class="card">
        <h2>Sandbox</h2>
        <dl>
          <Fact name="Id">
            <span class="mono">{record.sandboxID}</span>
          </Fact>
          <Fact name="Template">
            {record.alias} <span class="faint mono">{record.templateID}</span>
          </Fact>
          <Fact name="Made">{moment(record.createdAt, utc.value)}</Fact>
          <Fact name="Ready">{record.startedAt ? moment(record.startedAt, utc.value) : "never"}</Fact>
          <Fact name={lives ? "Ends" : "Ended"}>{record.endAt ? moment(record.endAt, utc.value) : "–"}</Fact>
          {record.endReason ? (
            <Fact name="Reason">
              {reason(record.endReason)} <span class="faint mono">{record.endReason}</span>
            </Fact>
          ) : null}
          <Fact name="Limits">
            {record.cpuCount} cores, {mebibytes(record.memoryMB)} memory, {mebibytes(record.diskSizeMB)} disk
          </Fact>
          {detail?.lifecycle ? <Fact name="When time is over">{detail.lifecycle.onTimeout}</Fact> : null}
          {detail?.allowInternetAccess === undefined ? null : <Fact name="Internet">{detail.allowInternetAccess ? "yes" : "no"}</Fact>}
        </dl>
      </div>
      {usage ? (
        <div class="card">
          <h2>Used</h2>
          <dl>
            <Fact name="Processor">{usage.cpuSeconds.toFixed(2)} s</Fact>
            <Fact name="Memory, most">{bytes(usage.memoryPeakBytes)}</Fact>
            <Fact name="Memory, average">{bytes(usage.memoryAverageBytes)}</Fact>
            <Fact name="Disk">{bytes(usage.diskBytes)}</Fact>
            <Fact name="Read, written">
              {bytes(usage.diskReadBytes)}, {bytes(usage.diskWrittenBytes)}
            </Fact>
            <Fact name="Received, sent">
              {bytes(usage.receivedBytes)}, {bytes(usage.sentBytes)}
            </Fact>
            <Fact name="Killed for memory">{usage.outOfMemoryKills}</Fact>
          </dl>
        </div>
      ) : null}
      <div class="card">
        <h2>Metadata</h2>
        {Object.keys(record.metadata).length === 0 ? (
          <p class="faint">None. Whoever makes a sandbox can attach pairs, and find it by them.</p>
        ) : (
          <dl>
            {Object.entries(record.metadata).map(([name, value]) => (
              <Fact key={name} name={name}>
                {value}
              </Fact>
            ))}
          </dl>
        )}
      </div>
      {lives ? (
        <div class="card wide-card">
          <h2>From a program</h2>
          <Code
            text={`from e2b_code_interpreter import Sandbox
sandbox = Sandbox.connect("${record.sandboxID}")`}
          />
          <p class="faint">In a terminal:</p>
          <Code text={`skep sandbox exec -it ${record.sandboxID} bash`} />
          <Ports domain={detail?.domain} id={record.sandboxID} />
        </div>
      ) : null}
    </div>
  );
}

function Ports({ domain, id }: { domain: string | undefined; id: string }) {
  if (!domain) return <p class="faint">Ports have names of their own where the server has a domain.</p>;
  const host = `8000-${id}.${domain}`;
  return (
    <p class="faint">
      A service on port 8000 is at{" "}
      <a href={`${location.protocol}//${host}/`} target="_blank" rel="noopener noreferrer">
        {host}
      </a>
      , if its names are found from here.
    </p>
  );
}
