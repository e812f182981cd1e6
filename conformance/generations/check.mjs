// Runs the checks in Node, Bun or Deno, with the packages that the runner installed.

import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { pathToFileURL } from 'node:url'

import { run } from './checks.mjs'

const { CONFORMANCE_NODE_MODULES, CONFORMANCE_RESULTS, CONFORMANCE_RUNTIME = 'node' } = process.env
const mode = process.env.CONFORMANCE_MODE ?? 'domain'
const version = (name) => JSON.parse(readFileSync(join(CONFORMANCE_NODE_MODULES, name, 'package.json'))).version
const entry = join(CONFORMANCE_NODE_MODULES, '@e2b/code-interpreter/dist/index.mjs')
const sdk = await import(pathToFileURL(entry).href)
const [interpreter, base] = [version('@e2b/code-interpreter'), version('e2b')]

// With two addresses instead of a domain a port is found by headers.
async function ask(box, port, path) {
  const headers = { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': String(port) }
  const answer =
    mode === 'domain'
      ? await fetch(`https://${box.getHost(port)}${path}`)
      : await fetch(process.env.E2B_SANDBOX_URL + path, { headers })
  return answer.text()
}

function record(feature, outcome, seconds, detail) {
  const line = {
    sdk: CONFORMANCE_RUNTIME === 'node' ? 'generation js' : CONFORMANCE_RUNTIME,
    version: `${interpreter} (${base})`,
    generation: 'all',
    mode,
    feature,
    case: `${feature} works as that release has it`,
    outcome,
    seconds,
    detail,
  }
  if (CONFORMANCE_RESULTS) appendFileSync(CONFORMANCE_RESULTS, JSON.stringify(line) + '\n')
  else console.log(feature, outcome, detail)
}

const words = (process.env.CONFORMANCE_PATTERN ?? '').split(' or ').map((word) => word.trim())
const wants = (feature) => words.some((word) => feature.includes(word))
// Before 2.7 interpreters knew names below a domain alone.
const [major, minor] = interpreter.split('.').map(Number)
const hasInterpreter = mode === 'domain' || major > 2 || (major === 2 && minor >= 7)
await run({ sdk, ask, record, wants, hasInterpreter })
// Not by the usual way out: connections that are kept would be waited for.
process.exit(0)
