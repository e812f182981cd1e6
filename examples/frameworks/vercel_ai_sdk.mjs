// A tool of the Vercel AI SDK that runs code in a sandbox and keeps its variables.
//
//     npm install ai zod @e2b/code-interpreter
//
// A list stands in for the model.

import { Sandbox } from '@e2b/code-interpreter'
import { generateText, stepCountIs, tool } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { z } from 'zod'

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}
const call = (code) => ({
  content: [{ type: 'tool-call', toolCallId: code, toolName: 'runPython', input: JSON.stringify({ code }) }],
  finishReason: { unified: 'tool-calls', raw: undefined },
  usage,
  warnings: [],
})
const said = [
  call('prices = [4, 8, 15]'),
  call('prices[3]'),
  call('print(sum(prices))'),
  {
    content: [{ type: 'text', text: 'They cost 27.' }],
    finishReason: { unified: 'stop', raw: undefined },
    usage,
    warnings: [],
  },
]

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
const runPython = tool({
  description: 'Runs Python; variables stay.',
  inputSchema: z.object({ code: z.string() }),
  async execute({ code }) {
    const { logs, results, error } = await sandbox.runCode(code)
    return { printed: logs.stdout.join(''), results: results.map((result) => result.text), error: error?.name }
  },
})

try {
  const answer = await generateText({
    model: new MockLanguageModelV4({ doGenerate: async () => said.shift() }),
    tools: { runPython },
    stopWhen: stepCountIs(5),
    prompt: 'What do they cost together?',
  })
  for (const step of answer.steps) for (const result of step.toolResults) console.log('heard:', JSON.stringify(result.output))
  console.log('answer:', answer.text)
} finally {
  await sandbox.kill()
}
