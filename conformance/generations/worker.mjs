// The checks as a Worker. What became of them is printed, since a Worker has no files.

import * as sdk from '@e2b/code-interpreter'

import { run } from './checks.mjs'

async function ask(box, port, path, env) {
  const headers = { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': String(port) }
  const answer = env.E2B_SANDBOX_URL
    ? await fetch(env.E2B_SANDBOX_URL + path, { headers })
    : await fetch(`https://${box.getHost(port)}${path}`)
  return answer.text()
}

export default {
  async test(_controller, env) {
    const record = (...outcome) => console.log(`OUTCOME ${JSON.stringify(outcome)}`)
    const words = env.PATTERN.split(' or ').map((word) => word.trim())
    const wants = (feature) => words.some((word) => feature.includes(word))
    await run({ sdk, ask: (box, port, path) => ask(box, port, path, env), record, wants })
  },
}
