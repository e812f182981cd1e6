import {
  type ConnectionOpts,
  ConnectionConfig,
  type CreateCodeContextOpts,
  InvalidArgumentError,
  NotFoundError,
  type Context as OfficialContext,
  Sandbox as OfficialSandbox,
  type RunCodeLanguage,
  type RunCodeOpts,
  SandboxError,
  type SandboxOpts as OfficialSandboxOpts,
  TimeoutError,
} from '@e2b/code-interpreter'

import { call, fetched, requireSkep } from './api.js'
import { Context, type ContextHost } from './context.js'
import { NotSkepError } from './errors.js'
import { Execution, ExecutionError, type Receipt, Result, type RunningExecution, usageFrom, type Wire } from './execution.js'
import { type Limits, limitsToWire } from './limits.js'
import { lines } from './lines.js'
import { Notebook } from './notebook.js'
import {
  recordFrom,
  requestFrom,
  type Resumed,
  type SandboxRecord,
  type SandboxRequest,
  type Snapshot,
  tree,
} from './record.js'

const INTERPRETER_PORT = 49999
const USUAL_TIMEOUT_MS = 60_000

/** What a sandbox can be created with. */
export interface SandboxOpts extends OfficialSandboxOpts {
  /** Names of variables in `envs` whose values are masked in all that code shows. */
  secrets?: string[]
}

/** What an execution may be asked for beyond the official options. */
export interface Extras {
  /** What this execution may use. */
  limits?: Limits
  /** Values that are masked in all that code of this context shows from now on. */
  secrets?: string[]
  /** Names of variables in `envs` whose values are such. */
  secretEnvs?: string[]
  /** Interrupts the code when it is aborted, as Ctrl-C would: the execution has an error of the kind `interrupted`. */
  signal?: AbortSignal
}

/** What code asks of whoever runs it. */
export interface InputRequest {
  prompt: string
  /** Whether what is typed must not be shown. */
  password: boolean
}

/** Options of `runCode`. */
export interface RunOpts extends Omit<RunCodeOpts, 'onError'>, Extras {
  onError?: (error: ExecutionError) => unknown
  onReceipt?: (receipt: Receipt) => unknown
  /** Is told the id of the execution, by which `interrupt` knows it. */
  onStart?: (executionId: string) => unknown
  /** Answers `input()`; `null` is the end of input. */
  onInput?: (request: InputRequest) => string | null | Promise<string | null>
}

/** Options of `stream`. */
export interface StreamOpts extends Extras, Pick<RunCodeOpts, 'envs' | 'timeoutMs' | 'requestTimeoutMs'> {
  language?: RunCodeLanguage
  context?: OfficialContext
  /** Whether code may ask for input: then an `input` event comes, and the code waits for its `answer`. */
  input?: boolean
}

/** What happens while code runs. */
export type ExecutionEvent =
  | { type: 'start'; executionId?: string }
  | { type: 'count'; executionCount: number }
  | { type: 'stdout' | 'stderr'; text: string; timestamp: number }
  | { type: 'result'; result: Result }
  | { type: 'error'; error: ExecutionError }
  | ({ type: 'input'; answer: (value: string | null) => Promise<void> } & InputRequest)
  | { type: 'restarted'; reason: string }
  | { type: 'lost'; bytes: number }
  | { type: 'receipt'; receipt: Receipt }

const outputMessage = (line: string, timestamp: number, error: boolean) => ({ line, timestamp, error, toString: () => line })

/**
 * A sandbox, with everything that the official class has.
 *
 * @example
 * ```ts
 * import { Sandbox } from '@skep/sdk'
 *
 * const sandbox = await Sandbox.create()
 * const run = await sandbox.runCode('sum(range(10**6))', { limits: { time: 10, memory: '512M' } })
 * console.log(run.text, run.receipt.cpu)
 * ```
 */
export class Sandbox extends OfficialSandbox {
  static override create<S extends typeof OfficialSandbox>(this: S, opts?: SandboxOpts): Promise<InstanceType<S>>
  static override create<S extends typeof OfficialSandbox>(
    this: S,
    template: string,
    opts?: SandboxOpts,
  ): Promise<InstanceType<S>>
  static override async create<S extends typeof OfficialSandbox>(
    this: S,
    first?: string | SandboxOpts,
    second?: SandboxOpts,
  ): Promise<InstanceType<S>> {
    const { secrets, ...opts } = (typeof first === 'string' ? second : first) ?? {}
    if (secrets && secrets.length > 0) {
      const missing = secrets.filter((name) => !(name in (opts.envs ?? {})))
      if (missing.length > 0) {
        throw new InvalidArgumentError(`secrets are names of variables in \`envs\`, and ${missing.join(', ')} is not there`)
      }
      await requireSkep(new ConnectionConfig({ ...boundTo(this), ...opts }), '`secrets`')
      opts.headers = { ...opts.headers, 'X-Skep-Secret-Envs': secrets.join(', ') }
    }
    const create = OfficialSandbox.create as unknown as (this: S, ...all: unknown[]) => Promise<InstanceType<S>>
    return typeof first === 'string' ? create.call(this, first, opts) : create.call(this, opts)
  }

  /** Creates a sandbox on the server of this host, or starts one that ends with this process. See `localServer`. */
  static async local<S extends typeof OfficialSandbox>(
    this: S,
    template?: string,
    opts: SandboxOpts = {},
  ): Promise<InstanceType<S>> {
    const { localServer } = await import('./local.js')
    const options = { ...(await localServer(template)).connection(), ...opts }
    const create = Sandbox.create as unknown as (this: S, ...all: unknown[]) => Promise<InstanceType<S>>
    return template === undefined ? create.call(this, options) : create.call(this, template, options)
  }

  protected override get jupyterUrl(): string {
    // The oldest interpreters know names alone, and not where their own sandboxes are told to be.
    return this.connectionConfig.sandboxUrl ?? super.jupyterUrl
  }

  /** Runs code, as the official method does. What is beyond it throws `NotSkepError` where the server is not Skep. */
  override async runCode(
    code: string,
    opts: RunOpts & { language?: RunCodeLanguage; context?: OfficialContext } = {},
  ): Promise<Execution> {
    const execution = new Execution(this.#server)
    const { onStdout, onStderr, onResult, onError, onReceipt, onStart, onInput, ...rest } = opts
    if (onStart || onReceipt) await this.#require(onStart ? '`onStart`' : '`onReceipt`')
    for await (const event of this.stream(code, { ...rest, input: onInput !== undefined })) {
      switch (event.type) {
        case 'start':
          execution.id = event.executionId
          if (event.executionId !== undefined) await onStart?.(event.executionId)
          break
        case 'count':
          execution.executionCount = event.executionCount
          break
        case 'stdout':
          execution.logs.stdout.push(event.text)
          await onStdout?.(outputMessage(event.text, event.timestamp, false))
          break
        case 'stderr':
          execution.logs.stderr.push(event.text)
          await onStderr?.(outputMessage(event.text, event.timestamp, true))
          break
        case 'result':
          execution.results.push(event.result)
          await onResult?.(event.result)
          break
        case 'error':
          execution.error = event.error
          await onError?.(event.error)
          break
        case 'input':
          await event.answer((await onInput?.(event)) ?? null)
          break
        case 'restarted':
          execution.restarted = event.reason
          break
        case 'lost':
          execution.lostOutput += event.bytes
          break
        case 'receipt':
          execution.settle(event.receipt)
          await onReceipt?.(event.receipt)
          break
      }
    }
    return execution
  }

  /**
   * Runs code, and gives what happens as it happens. Whoever leaves the loop early interrupts the code.
   *
   * @example
   * ```ts
   * for await (const event of sandbox.stream('for i in range(3): print(i)')) {
   *   if (event.type === 'stdout') process.stdout.write(event.text)
   * }
   * ```
   */
  async *stream(code: string, opts: StreamOpts = {}): AsyncGenerator<ExecutionEvent, void, undefined> {
    if (opts.context && opts.language) {
      throw new InvalidArgumentError('code runs in a context or language: give one of them')
    }
    const skep = extrasToWire(opts)
    const asked = [...Object.keys(skep), ...(opts.signal ? ['signal'] : [])]
    if (asked.length > 0) await this.#require(asked.map((name) => `\`${name}\``).join(', '))
    opts.signal?.throwIfAborted()

    const controller = new AbortController()
    let timer = after(opts.requestTimeoutMs ?? this.connectionConfig.requestTimeoutMs, controller)
    let running = false
    let interrupt: (() => void) | undefined
    try {
      const body = { code, context_id: opts.context?.id, language: opts.language, env_vars: opts.envs }
      const response = await fetch(`${this.jupyterUrl}/execute`, {
        method: 'POST',
        headers: { ...this.#interpreterHeaders(), 'Content-Type': 'application/json' },
        body: JSON.stringify(asked.length > 0 && Object.keys(skep).length > 0 ? { ...body, skep } : body),
        signal: controller.signal,
      })
      clearTimeout(timer)
      await check(response)
      const executionId = response.headers.get('X-Skep-Execution') ?? undefined
      if (executionId === undefined && asked.length > 0) {
        // The server in between was Skep, and whoever answered is not.
        controller.abort()
        throw new NotSkepError(asked.map((name) => `\`${name}\``).join(', '), this.#server)
      }
      running = true
      timer = after(opts.timeoutMs ?? USUAL_TIMEOUT_MS, controller)
      if (opts.signal && executionId !== undefined) {
        // One that has ended meanwhile is not found, which is what was wanted.
        interrupt = () => void this.interrupt(executionId).catch(() => undefined)
        if (opts.signal.aborted) interrupt()
        opts.signal.addEventListener('abort', interrupt)
      }
      yield { type: 'start', executionId }
      if (!response.body) throw new SandboxError('the answer of the interpreter has no body')
      for await (const line of lines(response.body)) {
        const event = this.#event(JSON.parse(line), executionId)
        if (event) yield event
      }
    } catch (error) {
      throw await this.#told(error, running)
    } finally {
      clearTimeout(timer)
      if (interrupt) opts.signal?.removeEventListener('abort', interrupt)
    }
  }

  #event(line: Wire, executionId: string | undefined): ExecutionEvent | undefined {
    switch (line.type) {
      case 'number_of_executions':
        return { type: 'count', executionCount: line.execution_count }
      case 'stdout':
      case 'stderr':
        return { type: line.type, text: line.text, timestamp: Date.now() * 1000 }
      case 'result':
        return { type: 'result', result: new Result(line, line.is_main_result) }
      case 'error': {
        const more = { kind: line.kind, exitStatus: line.exit_status, server: this.#server }
        return { type: 'error', error: new ExecutionError(line.name, line.value, line.traceback, more) }
      }
      case 'input_request': {
        const answer = (value: string | null) => this.answerInput(executionId ?? '', value)
        return { type: 'input', prompt: line.prompt, password: line.password, answer }
      }
      case 'context_restarted':
        return { type: 'restarted', reason: line.reason }
      case 'output_lost':
        return { type: 'lost', bytes: line.bytes }
      case 'receipt':
        return { type: 'receipt', receipt: { ...usageFrom(line), outcome: line.outcome } }
      default:
        return undefined
    }
  }

  /** What waits or runs in this sandbox, with what it has used until now. */
  async executions(): Promise<RunningExecution[]> {
    const listed: Wire[] = await (await this.#ask('`executions`', 'GET', '/executions')).json()
    return listed.map((data) => ({ ...usageFrom(data), id: data.id, contextId: data.context_id, state: data.state }))
  }

  /** Interrupts an execution, as Ctrl-C would. One that waits is not run. */
  async interrupt(execution: RunningExecution | string): Promise<void> {
    const id = typeof execution === 'string' ? execution : execution.id
    await this.#ask('`interrupt`', 'POST', `/executions/${encodeURIComponent(id)}/interrupt`)
  }

  /** Answers an execution that asks for input; `null` is the end of input. `onInput` does that by itself. */
  async answerInput(executionId: string, value: string | null): Promise<void> {
    await this.#ask('`answerInput`', 'POST', `/executions/${encodeURIComponent(executionId)}/input`, { value })
  }

  /** Everything that was run in a context; without one, in the oldest, which is the default one of most sandboxes. */
  async notebook(context?: OfficialContext | string): Promise<Notebook> {
    const found = context ?? (await this.listCodeContexts())[0]
    if (found === undefined) {
      throw new NotFoundError('no code was run in this sandbox yet, so there is no context with a history')
    }
    const id = typeof found === 'string' ? found : found.id
    const answer = await this.#ask('`notebook`', 'GET', `/contexts/${encodeURIComponent(id)}/notebook`)
    return new Notebook(await answer.text())
  }

  /** Creates a context; `secrets` are values that are masked in all that its code shows. */
  override async createCodeContext(opts: CreateCodeContextOpts & { secrets?: string[] } = {}): Promise<Context> {
    const { language, cwd, secrets } = opts
    if (secrets && secrets.length > 0) await this.#require('`secrets`')
    const skep = secrets && secrets.length > 0 ? { secrets } : undefined
    const body = { language, cwd, skep }
    return Context.from(this.#host, await (await this.#interpreter('POST', '/contexts', body, opts.requestTimeoutMs)).json())
  }

  /** All contexts, the newest last. */
  override async listCodeContexts(): Promise<Context[]> {
    const listed: Wire[] = await (await this.#interpreter('GET', '/contexts')).json()
    return listed.map((data) => Context.from(this.#host, data))
  }

  /** This sandbox in the server's record: also after its end, with the reason and what it used. */
  async record(): Promise<SandboxRecord> {
    return find(this.sandboxId, recordsOf(this.connectionConfig))
  }

  /** A sandbox in the server's record, by its id. */
  static async recordOf(sandboxId: string, opts?: ConnectionOpts): Promise<SandboxRecord> {
    return find(sandboxId, this.records(opts))
  }

  /** All sandboxes of the team, the newest first, the ended ones included. */
  static records(opts?: ConnectionOpts): AsyncGenerator<SandboxRecord> {
    return recordsOf(new ConnectionConfig({ ...boundTo(this), ...opts }))
  }

  /** What this sandbox asked hosts for that it reaches by name, the oldest first, from behind a number on. */
  async requests(after = 0): Promise<SandboxRequest[]> {
    const listed: Wire[] = await (await this.#call('`requests`', 'GET', `requests?after=${after}`)).json()
    return listed.map(requestFrom)
  }

  /**
   * Puts this sandbox back to a snapshot, in place: its id, tokens and deadline stay.
   *
   * @param opts.timeoutMs time to live, if it was paused
   */
  async rollback(snapshot: Snapshot | string, opts: { timeoutMs?: number } = {}): Promise<Resumed> {
    const timeout = opts.timeoutMs === undefined ? undefined : Math.ceil(opts.timeoutMs / 1000)
    const snapshotID = typeof snapshot === 'string' ? snapshot : snapshot.snapshotId
    const answer: Wire = await (await this.#call('`rollback`', 'POST', 'rollback', { snapshotID, timeout })).json()
    return { keptIn: answer.keptIn, lost: answer.lost ?? [] }
  }

  /** The snapshots of this sandbox: the first ones, and below each those that were taken after going on from it. */
  async snapshotTree(): Promise<Snapshot[]> {
    return tree(await (await this.#call('`snapshotTree`', 'GET', 'checkpoints')).json())
  }

  get #server(): string {
    return this.connectionConfig.apiUrl
  }

  get #host(): ContextHost {
    return {
      ask: (wanted, method, path, body) => this.#ask(wanted, method, path, body),
      notebook: (context) => this.notebook(context),
    }
  }

  #require(wanted: string): Promise<void> {
    return requireSkep(this.connectionConfig, wanted)
  }

  #call(wanted: string, method: string, rest: string, body?: unknown): Promise<Response> {
    return call(this.connectionConfig, wanted, method, `/skep/sandboxes/${encodeURIComponent(this.sandboxId)}/${rest}`, body)
  }

  /** A request to a route of the interpreter that only Skep has. */
  async #ask(wanted: string, method: string, path: string, body?: unknown): Promise<Response> {
    await this.#require(wanted)
    return this.#interpreter(method, path, body)
  }

  async #interpreter(method: string, path: string, body?: unknown, timeoutMs?: number): Promise<Response> {
    const headers = this.#interpreterHeaders()
    if (body !== undefined) headers['Content-Type'] = 'application/json'
    const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }
    try {
      const milliseconds = timeoutMs ?? this.connectionConfig.requestTimeoutMs
      return await check(await fetched(this.jupyterUrl + path, milliseconds, init))
    } catch (error) {
      throw await this.#told(error, false)
    }
  }

  #interpreterHeaders(): Record<string, string> {
    const headers: Record<string, string> = {
      'E2b-Sandbox-Id': this.sandboxId,
      'E2b-Sandbox-Port': String(INTERPRETER_PORT),
    }
    if (this.envdAccessToken) headers['X-Access-Token'] = this.envdAccessToken
    if (this.trafficAccessToken) headers['E2B-Traffic-Access-Token'] = this.trafficAccessToken
    return headers
  }

  /** What a caller is told of a request that failed. */
  async #told(error: unknown, running: boolean): Promise<unknown> {
    if (!(error instanceof Error) || error instanceof SandboxError) return error
    if (error.name === 'AbortError') {
      return running
        ? new TimeoutError("Execution timed out: the 'timeoutMs' option allows it more")
        : new TimeoutError("Request timed out: the 'requestTimeoutMs' option allows it more")
    }
    const broke = error instanceof TypeError
    if (broke && (await this.isRunning().catch(() => true)) === false) {
      return new TimeoutError(
        "the sandbox was killed while the request was in progress; 'timeoutMs' and `setTimeout` let one live longer",
      )
    }
    return error
  }
}

function after(milliseconds: number, controller: AbortController) {
  return milliseconds > 0 ? setTimeout(() => controller.abort(), milliseconds) : undefined
}

function extrasToWire(opts: StreamOpts): Wire {
  const skep: Wire = {}
  const limits = limitsToWire(opts.limits ?? {})
  if (Object.keys(limits).length > 0) skep.limits = limits
  if (opts.secrets && opts.secrets.length > 0) skep.secrets = opts.secrets
  if (opts.secretEnvs && opts.secretEnvs.length > 0) skep.secret_envs = opts.secretEnvs
  if (opts.input) skep.allow_stdin = true
  return skep
}

/** The answer, if it is a good one; the official SDK's error for it if not. */
async function check(response: Response): Promise<Response> {
  if (response.ok) return response
  const text = (await response.text()).trim()
  if (response.status === 404) throw new NotFoundError(text)
  if (response.status === 502) {
    throw new TimeoutError(`${text}: most likely a sandbox timeout; 'timeoutMs' and \`setTimeout\` let one live longer`)
  }
  throw new SandboxError(`${response.status} ${response.statusText}${text ? `: ${text}` : ''}`)
}

async function* recordsOf(config: ConnectionConfig): AsyncGenerator<SandboxRecord> {
  let token: string | null = null
  do {
    const page = `/skep/sandboxes?all=true&limit=100${token ? `&nextToken=${encodeURIComponent(token)}` : ''}`
    const answer = await call(config, '`record`', 'GET', page)
    for (const data of await answer.json()) yield recordFrom(data)
    token = answer.headers.get('X-Next-Token')
  } while (token)
}

async function find(sandboxId: string, records: AsyncIterable<SandboxRecord>): Promise<SandboxRecord> {
  for await (const record of records) if (record.sandboxId === sandboxId) return record
  throw new NotFoundError(`there is no sandbox ${sandboxId} in the record of this team, or no longer`)
}

/** The options that an `E2B` client has bound to a class. */
function boundTo(sandbox: object): ConnectionOpts {
  return (sandbox as { boundOpts?: ConnectionOpts }).boundOpts ?? {}
}
