// A sandbox agent of the OpenAI Agents SDK for JavaScript: its workspace and its shell are in a sandbox.
//
//     npm install @openai/agents @openai/agents-extensions e2b
//
// A list stands in for the model.

import { Runner, Usage, setTracingDisabled } from '@openai/agents'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'
import { Manifest, SandboxAgent, shell } from '@openai/agents/sandbox'

setTracingDisabled(true)

const call = (cmd) => ({
  type: 'function_call',
  callId: cmd,
  name: 'exec_command',
  status: 'completed',
  arguments: JSON.stringify({ cmd }),
})
const message = (text) => ({
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text }],
})

const said = [call('cat notes.md'), call("sh -c 'exit 3'"), message('Renewal is in April.')]
// Says what it was told to say, and shows what it hears.
const model = {
  async getResponse({ input }) {
    for (const item of Array.isArray(input) ? input : [])
      if (item.type === 'function_call_result') console.log('heard:', item.output?.text ?? item.output)
    return { usage: new Usage(), output: [said.shift()] }
  },
  getStreamedResponse() {
    throw new Error('this program does not stream')
  },
}

const agent = new SandboxAgent({
  name: 'clerk',
  model,
  instructions: 'Answer from the workspace.',
  defaultManifest: new Manifest({ entries: { 'notes.md': { type: 'file', content: 'Renewal: 15 April.\n' } } }),
  capabilities: [shell()],
})
const runner = new Runner({ sandbox: { client: new E2BSandboxClient({ timeout: 120 }) } })
console.log('answer:', (await runner.run(agent, 'When is the renewal?')).finalOutput)
