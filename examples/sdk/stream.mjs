// Follows code as a stream of events, interrupts it by a signal, and goes back to a checkpoint.
//
// npm install @skep/sdk @e2b/code-interpreter

import { Sandbox } from '@skep/sdk'

const sandbox = await Sandbox.create()
const context = await sandbox.createCodeContext()

for await (const event of sandbox.stream('total = 0\nfor i in range(3): total += i; print("step", i)', { context })) {
  if (event.type === 'stdout') process.stdout.write(event.text)
  if (event.type === 'receipt') console.log(`done after ${event.receipt.wall.toFixed(2)} s`)
}

const point = await context.checkpoint()
const run = await sandbox.runCode('while True: total += 1', { context, signal: AbortSignal.timeout(500) })
console.log('stopped:', run.error.kind)
await context.rollback(point)
console.log('total:', (await sandbox.runCode('total', { context })).text)

await sandbox.kill()
