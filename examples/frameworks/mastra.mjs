// A workspace of Mastra whose commands run in a sandbox.
//
//     npm install @mastra/core @mastra/e2b

import { Workspace } from '@mastra/core/workspace'
import { E2BSandbox } from '@mastra/e2b'

// Without a template it would build one of its own, which needs template builds.
const sandbox = new E2BSandbox({ template: 'base', timeout: 120_000 })
const workspace = new Workspace({ sandbox })
await workspace.init()
try {
  const done = await sandbox.executeCommand('sh', ['-c', 'echo out'])
  console.log('command:', done.stdout.trim(), done.exitCode)
  // What a failing command prints, @mastra/e2b 0.8.0 has twice in its result.
  const failed = await sandbox.executeCommand('sh', ['-c', 'exit 3'])
  console.log('failed:', failed.exitCode)
} finally {
  await workspace.destroy()
}
