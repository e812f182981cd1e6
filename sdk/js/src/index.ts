/**
 * Skep's client for JavaScript: the official E2B code interpreter SDK, and what a Skep server can do beyond it.
 *
 * `Sandbox` is a subclass of the official one, so that everything official works, against every server. What is beyond
 * it throws `NotSkepError` where the server is not Skep.
 */

export * from '@e2b/code-interpreter'

export { type Checkpoint, Context } from './context.js'
export { LocalServerError, NotSkepError } from './errors.js'
export {
  Execution,
  ExecutionError,
  type Kind,
  type Outcome,
  type Receipt,
  Result,
  type RunningExecution,
  type Usage,
} from './execution.js'
export type { Limits } from './limits.js'
export { LocalServer, localServer } from './local.js'
export { Notebook } from './notebook.js'
export type { Resumed, SandboxRecord, SandboxRequest, SandboxUsage, Snapshot } from './record.js'
export {
  type ExecutionEvent,
  type Extras,
  type InputRequest,
  type RunOpts,
  Sandbox,
  Sandbox as default,
  type SandboxOpts,
  type StreamOpts,
} from './sandbox.js'
export { VERSION } from './version.js'
