/** Processor, memory, disk and network of a sandbox, as lines with their limits. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { call, messageOf } from "../api";
import { bytes, percent } from "../format";
import type { TabProps } from "../pages/sandbox";
import { isDark, theme, utc } from "../state";
import type { Metric } from "../types";
import { Empty, Pending } from "../widgets";
import { Info } from "./info";

const EVERY = 2000;
/** Steps of an axis of bytes. */
const BINARY = Array.from({ length: 42 }, (_, power) => 2 ** power);
/** An hour of them. */
const MOST_POINTS = 1800;

export type Line = { name: string; color: string; values: (number | null)[]; isLimit?: boolean };

export function Metrics({ record }: TabProps) {
  const [points, setPoints] = useState<Metric[] | undefined>();
  const [wrong, setWrong] = useState<string | undefined>();
  const isRunning = record.state === "running";
  useEffect(() => {
    if (!isRunning) return undefined;
    let current = true;
    const ask = async () => {
      try {
        const found = await call<Metric[]>("GET", `/sandboxes/${record.sandboxID}/metrics`);
        if (current) setPoints((before) => merged(before ?? [], found));
      } catch (error) {
        if (current) setWrong(messageOf(error));
      }
    };
    void ask();
    const timer = setInterval(() => void (document.hidden || ask()), EVERY);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [record.sandboxID, isRunning]);
  if (!isRunning && points === undefined) {
    return record.usage ? (
      <Info record={record} />
    ) : (
      <Empty title="Nothing to measure">
        <p>The sandbox does not run. What it used is here when it has ended.</p>
      </Empty>
    );
  }
  if (points === undefined) return <Pending error={wrong} />;
  const at = points.map((point) => Date.parse(point.timestamp) / 1000);
  const rates = perSecond(points);
  const last = points.at(-1);
  return (
    <div class="plots">
      <Plot title="Processor" now={last ? percent(last.cpuUsedPct) : ""} at={at} unit={percent} least={100} lines={[{ name: "used", color: "--series-1", values: points.map((p) => p.cpuUsedPct) }]} />
      <Plot
        title="Memory"
        now={last ? `${bytes(last.memUsed)} of ${bytes(last.memTotal)}` : ""}
        at={at}
        unit={bytes}
        lines={[
          { name: "used", color: "--series-2", values: points.map((p) => p.memUsed) },
          { name: "cache", color: "--series-4", values: points.map((p) => p.memCache) },
          { name: "limit", color: "--faint", values: points.map((p) => p.memTotal), isLimit: true },
        ]}
      />
      <Plot
        title="Disk"
        now={last ? `${bytes(last.diskUsed)} of ${bytes(last.diskTotal)}` : ""}
        at={at}
        unit={bytes}
        lines={[
          { name: "used", color: "--series-3", values: points.map((p) => p.diskUsed) },
          { name: "limit", color: "--faint", values: points.map((p) => p.diskTotal), isLimit: true },
        ]}
      />
      <Plot
        title="Network, per second"
        now={last ? `${bytes(last.netReceived)} in, ${bytes(last.netSent)} out` : ""}
        at={at}
        unit={bytes}
        least={1024}
        lines={[
          { name: "received", color: "--series-1", values: rates.map((rate) => rate?.received ?? null) },
          { name: "sent", color: "--series-4", values: rates.map((rate) => rate?.sent ?? null) },
        ]}
      />
    </div>
  );
}

function merged(before: Metric[], found: Metric[]): Metric[] {
  const newest = before.at(-1)?.timestamp ?? "";
  return [...before, ...found.filter((point) => point.timestamp > newest)].slice(-MOST_POINTS);
}

/** What came and went between two points, by the second. */
export function perSecond(points: Metric[]): ({ received: number; sent: number } | undefined)[] {
  return points.map((point, index) => {
    const before = points[index - 1];
    if (!before) return undefined;
    const seconds = (Date.parse(point.timestamp) - Date.parse(before.timestamp)) / 1000;
    if (seconds <= 0) return undefined;
    const rate = (now: number, then: number) => Math.max(0, now - then) / seconds;
    return { received: rate(point.netReceived, before.netReceived), sent: rate(point.netSent, before.netSent) };
  });
}

export function Plot({ title, now, at, lines, unit, least }: { title: string; now: string; at: number[]; lines: Line[]; unit: (value: number) => string; least?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const dark = isDark();
  const data = (): uPlot.AlignedData => [at, ...lines.map((line) => line.values)];
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => resolved(style.getPropertyValue(name).trim(), element);
    const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: 180,
        legend: { live: true },
        cursor: { y: false },
        tzDate: (seconds) => (utc.value ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
        scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.05, least ?? 1)] } },
        axes: [axis, { ...axis, size: 70, ...(unit === bytes ? { incrs: BINARY } : {}), values: (_plot, splits) => splits.map(unit) }],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.name,
            stroke: color(line.color),
            width: 1.5,
            points: { show: false },
            value: (_plot: uPlot, value: number | null) => (value === null ? "–" : unit(value)),
            ...(line.isLimit ? { dash: [4, 4] } : {}),
          })),
        ],
      },
      data(),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: 180 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [dark, theme.value]);
  useEffect(() => plot.current?.setData(data()), [at.length, at.at(-1)]);
  return (
    <figure class="plot">
      <figcaption>
        <h2>{title}</h2> <span>{now}</span>
      </figcaption>
      <div ref={box} />
    </figure>
  );
}

/** A colour as a canvas takes it. */
function resolved(value: string, element: HTMLElement): string {
  const probe = document.createElement("i");
  probe.style.color = value;
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}
