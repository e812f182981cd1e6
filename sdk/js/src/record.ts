import type { Wire } from './execution.js'

/** What a sandbox has used, from its beginning on: bytes, and seconds of processor time. */
export interface SandboxUsage {
  cpu: number
  peakMemory: number
  averageMemory: number
  disk: number
  diskRead: number
  diskWritten: number
  received: number
  sent: number
  outOfMemoryKills: number
}

/** A sandbox in the server's record, which is there after its end, too. */
export interface SandboxRecord {
  sandboxId: string
  /** First name of its template. */
  template: string
  templateId: string
  state: 'starting' | 'running' | 'paused' | 'stopping' | 'stuck' | 'ended'
  createdAt: Date
  startedAt?: Date
  /** When it ends, or ended. */
  endAt?: Date
  /** Why it ended: `killed`, `timeout`, `out_of_memory`, `disk_full`, `crashed` … */
  endReason?: string
  usage?: SandboxUsage
  cpuCount: number
  memoryMB: number
  diskSizeMB: number
  metadata: Record<string, string>
}

const time = (text: string | undefined) => (text === undefined ? undefined : new Date(text))

export function recordFrom(data: Wire): SandboxRecord {
  return {
    sandboxId: data.sandboxID,
    template: data.alias,
    templateId: data.templateID,
    state: data.state,
    createdAt: new Date(data.createdAt),
    startedAt: time(data.startedAt),
    endAt: time(data.endAt),
    endReason: data.endReason,
    usage: data.usage && {
      cpu: data.usage.cpuSeconds,
      peakMemory: data.usage.memoryPeakBytes,
      averageMemory: data.usage.memoryAverageBytes,
      disk: data.usage.diskBytes,
      diskRead: data.usage.diskReadBytes,
      diskWritten: data.usage.diskWrittenBytes,
      received: data.usage.receivedBytes,
      sent: data.usage.sentBytes,
      outOfMemoryKills: data.usage.outOfMemoryKills,
    },
    cpuCount: data.cpuCount,
    memoryMB: data.memoryMB,
    diskSizeMB: data.diskSizeMB,
    metadata: data.metadata,
  }
}

/** A request of a sandbox to a host that it reaches by name. */
export interface SandboxRequest {
  /** Its place among them, from 1. */
  number: number
  /** When it had ended. */
  at: Date
  host?: string
  port: number
  /** Missing, as path and status, where it is encrypted. */
  method?: string
  path?: string
  status?: number
  sent: number
  received: number
  /** The rule that allowed it. */
  rule?: string
  /** Why it was refused, or did not come about. */
  refusal?: string
}

export function requestFrom(data: Wire): SandboxRequest {
  const { number, host, port, method, path, status, rule, refusal } = data
  const at = new Date(data.timestamp)
  return { number, at, host, port, method, path, status, sent: data.sentBytes, received: data.receivedBytes, rule, refusal }
}

/** A snapshot of a sandbox, with those that were taken after going on from it. */
export interface Snapshot {
  /** Make sandboxes of it by this, or roll back to it. */
  snapshotId: string
  names: string[]
  checkpointId: string
  parentId?: string
  /** Whether the memory is in it. */
  memory: boolean
  size: number
  createdAt: Date
  children: Snapshot[]
}

/** The first snapshots, with the others below them, each list the oldest first. */
export function tree(listed: Wire[]): Snapshot[] {
  const snapshots = new Map<string, Snapshot>()
  for (const data of [...listed].reverse()) {
    snapshots.set(data.checkpointID, {
      snapshotId: data.snapshotID,
      names: data.names,
      checkpointId: data.checkpointID,
      parentId: data.parentID,
      memory: data.memory,
      size: data.sizeBytes,
      createdAt: new Date(data.createdAt),
      children: [],
    })
  }
  const roots: Snapshot[] = []
  for (const snapshot of snapshots.values()) {
    const parent = snapshots.get(snapshot.parentId ?? '')
    ;(parent?.children ?? roots).push(snapshot)
  }
  return roots
}

/** What was kept of a sandbox that went on from an image of it. */
export interface Resumed {
  keptIn?: 'memory' | 'checkpoint' | 'files'
  /** What was not: `processes`, `memory`, `memory_files`, `tcp_connections`. */
  lost: string[]
}
