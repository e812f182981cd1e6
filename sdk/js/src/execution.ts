// What code produced. The official package exports these classes as types alone, so the values are ours.

import type {
  ChartTypes,
  Execution as OfficialExecution,
  ExecutionError as OfficialExecutionError,
  Logs,
  RawData,
  Result as OfficialResult,
} from '@e2b/code-interpreter'

import { NotSkepError } from './errors.js'

/** What happened to code that failed, in a word that is the same in every language. */
export type Kind =
  | 'syntax'
  | 'runtime'
  | 'interrupted'
  | 'timeout'
  | 'out_of_memory'
  | 'kernel_died'
  | 'disk_full'
  | 'killed'

export type Outcome = 'ok' | Kind

/** What an execution used, with everything that the code started. What is missing is not known. */
export interface Usage {
  /** How long it ran, in seconds. */
  wall: number
  /** How long it waited for its turn and for its kernel, in seconds. */
  queued: number
  /** Processor time, in seconds. */
  cpu?: number
  /** Memory that it has now, in bytes; only while it runs. */
  memory?: number
  /** The most memory that it had at once, in bytes. */
  peakMemory?: number
  /** Bytes read from storage. */
  read?: number
  /** Bytes written to storage. */
  written?: number
  /** How many of its processes were killed for want of memory. */
  outOfMemoryKills: number
}

/** What an execution used in the end, measured by the host's kernel, and how it ended. */
export interface Receipt extends Usage {
  outcome: Outcome
}

/** An execution that waits or runs. */
export interface RunningExecution extends Usage {
  id: string
  contextId: string
  state: 'queued' | 'running'
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Wire = Record<string, any>

export function usageFrom(data: Wire): Usage {
  return {
    wall: data.wall_us / 1e6,
    queued: data.queued_us / 1e6,
    cpu: data.cpu_us === undefined ? undefined : data.cpu_us / 1e6,
    memory: data.memory_bytes,
    peakMemory: data.peak_memory_bytes,
    read: data.read_bytes,
    written: data.written_bytes,
    outOfMemoryKills: data.out_of_memory_kills ?? 0,
  }
}

export class ExecutionError implements OfficialExecutionError {
  #kind: Kind | undefined
  #server: string

  constructor(
    public name: string,
    public value: string,
    public traceback: string,
    more: { kind?: Kind; exitStatus?: number; server?: string } = {},
  ) {
    this.#kind = more.kind
    this.#server = more.server ?? 'the server'
    this.exitStatus = more.exitStatus
  }

  /** The exit status of the kernel, if the code ended that. */
  exitStatus?: number

  /** What happened, in a word for programs. Throws `NotSkepError` where the server is not Skep. */
  get kind(): Kind {
    if (this.#kind === undefined) throw new NotSkepError('`error.kind`', this.#server)
    return this.#kind
  }
}

const FORMATS = ['html', 'markdown', 'svg', 'png', 'jpeg', 'pdf', 'latex', 'json', 'javascript'] as const
const KNOWN = new Set<string>(['plain', 'text', 'data', 'chart', 'extra', ...FORMATS])

/** A value or a display, in all representations that it has. */
export class Result implements OfficialResult {
  readonly text?: string
  readonly html?: string
  readonly markdown?: string
  readonly svg?: string
  readonly png?: string
  readonly jpeg?: string
  readonly pdf?: string
  readonly latex?: string
  readonly json?: string
  readonly javascript?: string
  readonly data?: Record<string, unknown>
  readonly chart?: ChartTypes
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly extra?: any
  readonly raw: RawData

  constructor(
    line: Wire,
    readonly isMainResult: boolean,
  ) {
    const { type: _type, is_main_result: _main, ...raw } = line
    this.raw = raw as RawData
    this.text = raw.text
    for (const format of FORMATS) this[format] = raw[format]
    this.data = raw.data
    this.chart = raw.chart
    this.extra = Object.fromEntries(Object.entries(raw).filter(([name]) => !KNOWN.has(name)))
  }

  /** The representations that there are. */
  formats(): string[] {
    const there = FORMATS.filter((format) => this[format])
    return [...there, ...(this.data ? ['data'] : []), ...Object.keys(this.extra)]
  }

  toJSON() {
    const extra = Object.keys(this.extra).length > 0 ? { extra: this.extra } : {}
    return {
      text: this.text,
      html: this.html,
      markdown: this.markdown,
      svg: this.svg,
      png: this.png,
      jpeg: this.jpeg,
      pdf: this.pdf,
      latex: this.latex,
      json: this.json,
      javascript: this.javascript,
      ...extra,
    }
  }
}

/** What code produced, and its receipt. */
export class Execution implements OfficialExecution {
  results: Result[] = []
  logs: Logs = { stdout: [], stderr: [] }
  error?: ExecutionError
  executionCount?: number
  /** By this id the server knew it. */
  id?: string
  /** Why variables of earlier executions were gone when this one began, if they were. */
  restarted?: string
  /** Bytes of output that were neither delivered nor kept, because there was no connection. */
  lostOutput = 0
  #receipt?: Receipt
  #server: string

  constructor(server = 'the server') {
    this.#server = server
  }

  /** The text of the value of the code. */
  get text(): string | undefined {
    return this.results.find((result) => result.isMainResult)?.text
  }

  /** What it used. Throws `NotSkepError` where the server is not Skep. */
  get receipt(): Receipt {
    if (this.#receipt === undefined) throw new NotSkepError('`execution.receipt`', this.#server)
    return this.#receipt
  }

  /** @internal */
  settle(receipt: Receipt) {
    this.#receipt = receipt
  }

  toJSON() {
    return { results: this.results, logs: this.logs, error: this.error }
  }
}
