/** What a sandbox said, followed and filtered. */
import { useEffect, useRef, useState } from "preact/hooks";
import { call, messageOf } from "../api";
import { moment } from "../format";
import type { TabProps } from "../pages/sandbox";
import { utc } from "../state";
import type { LogEntry } from "../types";
import { Empty } from "../widgets";

const MOST_LINES = 2000;
const EVERY = 1500;

export function Logs({ record }: TabProps) {
  const [level, setLevel] = useState("debug");
  const [search, setSearch] = useState("");
  const [lines, setLines] = useState<LogEntry[] | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const id = record.sandboxID;
  const isOver = record.state === "ended";
  useEffect(() => {
    let current = true;
    const ask = async () => {
      const query = new URLSearchParams({ limit: "1000", level, direction: "backward" });
      if (search) query.set("search", search);
      try {
        const found = await call<{ logs: LogEntry[] }>("GET", `/v2/sandboxes/${id}/logs?${query}`);
        if (!current) return;
        setLines(found.logs.reverse().slice(-MOST_LINES));
        setWrong(undefined);
      } catch (error) {
        if (current) setWrong(messageOf(error));
      }
    };
    void ask();
    const timer = isOver ? undefined : setInterval(() => void (document.hidden || ask()), EVERY);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [id, level, search, isOver]);
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follows]);
  return (
    <>
      <div class="bar">
        <input type="search" aria-label="Search the log" placeholder="Search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <select aria-label="Least level" value={level} onChange={(event) => setLevel(event.currentTarget.value)}>
          <option value="debug">All</option>
          <option value="info">Info and above</option>
          <option value="warn">Warnings and errors</option>
          <option value="error">Errors</option>
        </select>
        <label class="check">
          <input type="checkbox" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} /> Follow
        </label>
        <span class="faint">{lines ? `${lines.length} lines` : ""}</span>
      </div>
      {wrong ? <p class="notice error">{wrong}</p> : null}
      {lines?.length === 0 ? (
        <Empty title="Nothing said">
          <p>Processes that are started through the agent are noted here with their output. What appears on a terminal is not.</p>
        </Empty>
      ) : (
        <div class="log" ref={box} tabIndex={0} role="log" aria-label="Log">
          {(lines ?? []).map((line, index) => (
            <div key={index} class={`line ${line.level}`}>
              <time class="faint">{moment(line.timestamp, utc.value, "time")}</time>
              <span class="level">{line.level}</span>
              <span class="message">{line.message}</span>
              <span class="faint fields">
                {Object.entries(line.fields)
                  .map(([name, value]) => `${name}=${value}`)
                  .join(" ")}
              </span>
            </div>
          ))}
        </div>
      )}
    </>
  );
}
