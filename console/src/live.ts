/** The team's sandboxes as they are now, and what has just happened. */
import { signal } from "@preact/signals";
import { call, messageOf, pages, reachable, socketProtocols } from "./api";
import { socketUrl, type Waiting } from "./socket";
import { toast } from "./state";
import type { Metric, SandboxEvent, SandboxRecord } from "./types";

/** Most records that are held; the server forgets old ones by itself. */
const MOST_RECORDS = 5000;
const MOST_EVENTS = 500;
const MOST_POINTS = 40;
const METRICS_EVERY = 4000;

export const records = signal<SandboxRecord[] | undefined>(undefined);
export const connected = signal(false);
export const events = signal<SandboxEvent[]>([]);
/** Latest processor use of sandboxes that are looked at, in percent of what they have. */
export const loads = signal<Map<string, { cpu: number[]; memory: number; memoryTotal: number }>>(new Map());
/** Sandboxes that are in view, whose metrics are asked for. */
export const inView = signal<string[]>([]);
/** Sandboxes that are about to be killed unless somebody changes their mind. */
export const leaving = signal<Set<string>>(new Set());

let socket: WebSocket | undefined;
let delay = 500;
let refreshing: Promise<void> | undefined;
let again = false;

/** Asks for all records. Questions that come while one is under way become one more. */
export function refresh(): Promise<void> {
  if (refreshing) {
    again = true;
    return refreshing;
  }
  refreshing = (async () => {
    do {
      again = false;
      try {
        records.value = await pages<SandboxRecord>("/skep/sandboxes?all=true", MOST_RECORDS);
      } catch (error) {
        if (records.value === undefined) toast(messageOf(error), "error");
      }
    } while (again);
    refreshing = undefined;
  })();
  return refreshing;
}

let soon: ReturnType<typeof setTimeout> | undefined;

function refreshSoon(): void {
  soon ??= setTimeout(() => {
    soon = undefined;
    void refresh();
  }, 150);
}

/** Follows events from now on, and connects again whenever that ends. */
export function follow(): () => void {
  let over = false;
  const connect = () => {
    if (over) return;
    const own = new WebSocket(socketUrl("/skep/console/events"), socketProtocols());
    socket = own;
    own.onmessage = (message: MessageEvent<string>) => heard(JSON.parse(message.data) as Waiting | SandboxEvent);
    own.onclose = () => {
      connected.value = false;
      if (over) return;
      setTimeout(connect, delay);
      delay = Math.min(delay * 2, 10_000);
    };
  };
  connect();
  const timer = setInterval(() => void measure(), METRICS_EVERY);
  return () => {
    over = true;
    clearInterval(timer);
    socket?.close();
  };
}

function heard(message: Waiting | SandboxEvent): void {
  if (message.type === "ready") {
    connected.value = true;
    reachable.value = true;
    delay = 500;
    // What happened while nobody listened.
    refreshSoon();
    return;
  }
  events.value = [message as SandboxEvent, ...events.value].slice(0, MOST_EVENTS);
  refreshSoon();
}

export async function measure(): Promise<void> {
  const ids = inView.value.slice(0, 100);
  if (ids.length === 0 || document.hidden) return;
  try {
    const found = await call<{ sandboxes: Record<string, Metric> }>("GET", `/sandboxes/metrics?sandbox_ids=${ids.join(",")}`);
    const next = new Map(loads.value);
    for (const [id, metric] of Object.entries(found.sandboxes)) {
      const before = next.get(id)?.cpu ?? [];
      next.set(id, { cpu: [...before, metric.cpuUsedPct].slice(-MOST_POINTS), memory: metric.memUsed, memoryTotal: metric.memTotal });
    }
    loads.value = next;
  } catch {
    // The next question may be answered; the line at the top says that the server is away.
  }
}

const UNDO_TIME = 3000;

/** Kills a sandbox unless that is undone within three seconds. */
export function killLater(id: string): void {
  if (leaving.value.has(id)) return;
  leaving.value = new Set([...leaving.value, id]);
  const stay = () => {
    leaving.value = new Set([...leaving.value].filter((one) => one !== id));
  };
  const timer = setTimeout(async () => {
    try {
      await call("DELETE", `/sandboxes/${id}`);
    } catch (error) {
      toast(messageOf(error), "error");
    }
    await refresh();
    stay();
  }, UNDO_TIME);
  toast(`${id} is killed in 3 seconds`, "note", UNDO_TIME, () => {
    clearTimeout(timer);
    stay();
  });
}
