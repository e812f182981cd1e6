/** Bodies of the API, as far as pages use them. */

export type Usage = {
  cpuSeconds: number;
  memoryPeakBytes: number;
  memoryAverageBytes: number;
  diskBytes: number;
  diskReadBytes: number;
  diskWrittenBytes: number;
  receivedBytes: number;
  sentBytes: number;
  outOfMemoryKills: number;
};

export type State = "starting" | "running" | "paused" | "stopping" | "stuck" | "ended";

export type SandboxRecord = {
  sandboxID: string;
  templateID: string;
  alias: string;
  state: State;
  createdAt: string;
  startedAt?: string;
  endAt?: string;
  endReason?: string;
  usage?: Usage;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  metadata: Record<string, string>;
};

export type Metric = {
  timestamp: string;
  timestampUnix: number;
  cpuCount: number;
  cpuUsedPct: number;
  memUsed: number;
  memTotal: number;
  memCache: number;
  diskUsed: number;
  diskTotal: number;
  netReceived: number;
  netSent: number;
};

export type SandboxEvent = {
  id: string;
  type: string;
  timestamp: string;
  eventLabel: string;
  eventData: { sandbox_metadata: Record<string, string>; end_reason?: string; kill_reason?: string };
  sandboxId: string;
  sandboxTemplateId: string;
};

export type LogEntry = { timestamp: string; message: string; level: "debug" | "info" | "warn" | "error"; fields: Record<string, string> };

export type Template = {
  templateID: string;
  buildID: string;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  public: boolean;
  names: string[];
  aliases: string[];
  createdAt: string;
  updatedAt: string;
  lastSpawnedAt?: string | null;
  spawnCount: number;
  buildCount: number;
  buildStatus: "building" | "waiting" | "ready" | "error";
};
