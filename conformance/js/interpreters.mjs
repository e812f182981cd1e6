// A sandbox with an interpreter, as the cases use it.

import assert from 'node:assert/strict'
import { after } from 'node:test'

import { group } from './harness.mjs'
import { interpreter, isOurs, isYear } from './sdk.mjs'

export const TEMPLATE = 'code-interpreter-slim'
/** The one with every language. */
export const LANGUAGES = 'code-interpreter-languages'
/** How much output is large, in mebibytes. With TLS in a build for debugging the same would take a minute for each SDK. */
export const LARGE_OUTPUT = process.env.CONFORMANCE_MODE === 'domain' ? 10 : 100
/** What a shell, a parser or a line splitter would trip over. */
export const AWKWARD = 'it\'s "quoted" \\ back\nline — 日本語 🐝\u2028'

const language = process.env.CONFORMANCE_LANGUAGE || undefined
// The year-old interpreter SDK knows no address but names below a domain; ours teaches it one.
const reachable = !isYear || isOurs || process.env.CONFORMANCE_MODE === 'domain'

/** Cases that share a sandbox with an interpreter, which `define` gets the means to use. */
export function interpreterGroup(title, define, template = TEMPLATE) {
  if (!reachable) return
  const cases = () => {
    const own = {}
    after(() => own.sandbox?.kill())
    const opened = async () => {
      own.sandbox ??= await interpreter.Sandbox.create(template, { timeoutMs: 300_000, envs: { GLOBAL: AWKWARD } })
      return own.sandbox
    }
    const run = async (code, options = {}) => {
      const where = options.context || options.language ? {} : { language }
      return (await opened()).runCode(code, { ...where, ...options })
    }
    const printed = async (code, options) => {
      const execution = await run(code, options)
      assert.equal(execution.error, undefined, execution.error?.traceback)
      return execution.logs.stdout.join('')
    }
    const context = async (options = {}) => (await opened()).createCodeContext({ language, ...options })
    define({ opened, run, printed, context })
  }
  // They have a sandbox of their own kind.
  group(title, cases, { withSandbox: false })
}
