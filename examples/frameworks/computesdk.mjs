// ComputeSDK with its provider for E2B: commands, files and the URL of a port.
//
//     npm install computesdk @computesdk/e2b

import { e2b } from '@computesdk/e2b'
import { compute } from 'computesdk'

compute.setConfig({ provider: e2b({ apiKey: process.env.E2B_API_KEY }) })
const sandbox = await compute.sandbox.create({ timeout: 120_000 })
try {
  const done = await sandbox.runCommand('echo out; echo err >&2; exit 3')
  console.log('command:', done.stdout.trim(), done.stderr.trim(), done.exitCode)
  await sandbox.filesystem.mkdir('/home/user/data')
  await sandbox.filesystem.writeFile('/home/user/data/sum.py', 'print(6 * 7)')
  console.log('listed:', (await sandbox.filesystem.readdir('/home/user/data')).map((entry) => entry.name))
  console.log('script:', (await sandbox.runCommand('python3 /home/user/data/sum.py')).stdout.trim())
  console.log('url:', await sandbox.getUrl({ port: 3000 }))
  console.log('running:', (await compute.sandbox.list()).length > 0)
} finally {
  await sandbox.destroy()
}
