/** What happened to the sandboxes of the team, as it happens. */
import { useEffect, useState } from "preact/hooks";
import { call, messageOf } from "../api";
import { isTrouble, moment, reason } from "../format";
import { events as heard } from "../live";
import { matches } from "../match";
import { href } from "../route";
import { utc } from "../state";
import type { SandboxEvent } from "../types";
import { Badge, Empty, Head, Pending } from "../widgets";

const PAST = 100;
const KINDS: Record<string, string> = { created: "good", resumed: "good", killed: "off", paused: "info", updated: "wait", checkpointed: "info" };

export function Events() {
  const [past, setPast] = useState<SandboxEvent[] | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const [filter, setFilter] = useState("");
  useEffect(() => {
    call<SandboxEvent[]>("GET", `/events/sandboxes?limit=${PAST}`).then(setPast, (error: unknown) => setWrong(messageOf(error)));
  }, []);
  const known = new Set<string>();
  const all = [...heard.value, ...(past ?? [])].filter((event) => !known.has(event.id) && known.add(event.id));
  const shown = all.filter((event) => matches(filter, `${event.eventLabel} ${event.sandboxId} ${event.sandboxTemplateId} ${event.eventData.end_reason ?? ""} ${Object.values(event.eventData.sandbox_metadata).join(" ")}`));
  return (
    <>
      <Head title="Events" sub="New ones appear by themselves. Webhooks are sent the same." />
      {past === undefined ? (
        <Pending error={wrong} />
      ) : all.length === 0 ? (
        <Empty title="Nothing has happened yet">
          <p>Sandboxes that are made, paused, resumed and killed are noted here.</p>
        </Empty>
      ) : (
        <>
          <div class="bar">
            <input type="search" aria-label="Filter" placeholder="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
            <span class="faint">{shown.length} events, the newest first</span>
          </div>
          <div class="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>Time</th>
                  <th>What</th>
                  <th>Sandbox</th>
                  <th>Template</th>
                  <th>Why</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((event) => (
                  <tr key={event.id}>
                    <td class="mono">{moment(event.timestamp, utc.value)}</td>
                    <td>
                      <Badge kind={KINDS[event.eventLabel] ?? "off"}>{event.eventLabel}</Badge>
                    </td>
                    <td class="mono">
                      <a href={href("sandboxes", event.sandboxId)}>{event.sandboxId}</a>
                    </td>
                    <td class="mono cut faint">{event.sandboxTemplateId}</td>
                    <td class={isTrouble(event.eventData.end_reason) ? "bad-text" : ""}>{reason(event.eventData.end_reason)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}
