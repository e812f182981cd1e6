// How a case is written here: `check(feature, sentence, body)`, inside a `group` that owns one sandbox.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { appendFileSync, readFileSync } from 'node:fs'
import { after, describe, test } from 'node:test'

import { Sandbox, byGeneration, isOurs, isYear, version } from './sdk.mjs'

const USUAL_DEADLINE = 60_000
const groups = JSON.parse(readFileSync(new URL('../features.json', import.meta.url)))
const features = new Set(groups.flatMap((group) => Object.keys(group.features)))

let current

/** Cases that share a sandbox; `box.sandbox` is there when they run. */
export function group(title, define, { withSandbox = true } = {}) {
  describe(title, () => {
    const box = { withSandbox }
    after(() => box.sandbox?.kill())
    current = box
    define(box)
  })
}

// Each case asks, so that a sandbox that cannot be made fails them all instead of leaving them out.
async function opened(box) {
  if (!box.withSandbox) return
  box.sandbox ??= await Sandbox.create({ timeoutMs: 240_000, metadata: { suite: 'conformance' } })
}

/** One case. `newOnly`: the year-old SDK has no such method. */
export function check(feature, sentence, ...rest) {
  const body = rest.pop()
  const { newOnly = false, deadline = USUAL_DEADLINE } = rest.pop() ?? {}
  assert.ok(features.has(feature), `${feature} is no feature of features.json`)
  if (newOnly && isYear) {
    record(feature, sentence, 'absent', 0, '')
    return
  }
  const box = current
  test(`${feature}: ${sentence}`, async () => {
    const start = performance.now()
    const seconds = () => Math.round(performance.now() - start) / 1000
    const killed = []
    try {
      await withDeadline(opened(box), USUAL_DEADLINE)
      await withDeadline(body({ fresh: fresh(killed), place: place(), tag: randomUUID() }), deadline)
      record(feature, sentence, 'passed', seconds(), '')
    } catch (error) {
      record(feature, sentence, 'failed', seconds(), error?.stack ?? String(error))
      throw error
    } finally {
      await Promise.allSettled(killed.map((sandbox) => sandbox.kill()))
    }
  })
}

function record(feature, sentence, outcome, seconds, detail) {
  const target = process.env.CONFORMANCE_RESULTS
  if (!target) return
  const line = {
    sdk: isOurs ? 'skep js' : 'js',
    version,
    generation: isYear ? 'year' : 'new',
    mode: process.env.CONFORMANCE_MODE ?? 'url',
    feature,
    case: sentence,
    outcome,
    seconds,
    detail,
  }
  appendFileSync(target, JSON.stringify(line) + '\n')
}

function withDeadline(promise, milliseconds) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${milliseconds} ms`)), milliseconds)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

const fresh = (killed) => async (options = {}) => {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000, ...options })
  killed.push(sandbox)
  return sandbox
}

const place = () => `/home/user/place-${randomUUID().slice(0, 8)}`

/** What a call that must fail failed with. */
export async function failure(promise) {
  let value
  try {
    value = await promise
  } catch (error) {
    return error
  }
  throw new assert.AssertionError({ message: `expected an error, got ${JSON.stringify(value)}` })
}

/** Checks the class a user would catch and the words a user would read. */
export function expectError(error, expected) {
  const wanted = byGeneration({ new: expected.new, year: expected.year ?? expected.new })
  assert.equal(error?.constructor?.name, wanted, `${error?.constructor?.name}: ${error?.message}`)
  for (const words of [expected.says].flat()) {
    assert.ok(error.message.includes(words), `expected "${words}" in: ${error.message}`)
  }
}

/** Waits until `look` gives something true. */
export async function eventually(look, what, milliseconds = 10_000) {
  const deadline = Date.now() + milliseconds
  for (;;) {
    const seen = await look()
    if (seen) return seen
    assert.ok(Date.now() < deadline, `${what} did not happen within ${milliseconds} ms`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
