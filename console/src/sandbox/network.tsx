/** What a sandbox asked hosts for, of those that it reaches by name. */
import { useEffect, useState } from "preact/hooks";
import { call, messageOf } from "../api";
import { bytes, moment } from "../format";
import type { TabProps } from "../pages/sandbox";
import { utc } from "../state";
import { Badge, Empty, Pending } from "../widgets";

type Asked = { number: number; timestamp: string; host?: string; port: number; method?: string; path?: string; status?: number; sentBytes: number; receivedBytes: number; rule?: string; refusal?: string };

export function Network({ record }: TabProps) {
  const [asked, setAsked] = useState<Asked[] | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const [refusedOnly, setRefusedOnly] = useState(false);
  const isOver = record.state === "ended";
  useEffect(() => {
    let last = 0;
    let current = true;
    const ask = async () => {
      try {
        const found = await call<Asked[]>("GET", `/skep/sandboxes/${record.sandboxID}/requests?after=${last}`);
        if (!current) return;
        last = found.at(-1)?.number ?? last;
        setAsked((before) => [...(before ?? []), ...found].slice(-1000));
      } catch (error) {
        if (current) setWrong(messageOf(error));
      }
    };
    void ask();
    const timer = isOver ? undefined : setInterval(() => void (document.hidden || ask()), 2000);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [record.sandboxID, isOver]);
  if (asked === undefined) return <Pending error={wrong} />;
  const shown = asked.filter((one) => !refusedOnly || one.refusal).reverse();
  if (asked.length === 0) {
    return (
      <Empty title={isOver ? "No requests are kept" : "No requests"}>
        <p>
          Sandboxes with rules that name hosts reach them through a proxy, which writes down every request: host, path, sizes, and the rule that decided. Without such rules nobody looks inside what a sandbox sends.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <div class="bar">
        <label class="check">
          <input type="checkbox" checked={refusedOnly} onChange={(event) => setRefusedOnly(event.currentTarget.checked)} /> Refused only
        </label>
        <span class="faint">{shown.length} requests, the newest first</span>
      </div>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>Time</th>
              <th>Host</th>
              <th>Request</th>
              <th>Answer</th>
              <th class="number">Sent</th>
              <th class="number">Received</th>
              <th>Rule</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <tr key={one.number}>
                <td class="mono">{moment(one.timestamp, utc.value, "time")}</td>
                <td class="mono">
                  {one.host ?? "?"}:{one.port}
                </td>
                <td class="mono cut">
                  {one.method} {one.path}
                </td>
                <td>{one.refusal ? <Badge kind="bad">{one.refusal}</Badge> : (one.status ?? "")}</td>
                <td class="number">{bytes(one.sentBytes)}</td>
                <td class="number">{bytes(one.receivedBytes)}</td>
                <td class="mono">{one.rule}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
