// What a user reads when something about the request is wrong.

import assert from 'node:assert/strict'

import { check, expectError, failure, group } from '../harness.mjs'
import { Sandbox, byGeneration, e2b } from '../sdk.mjs'

const apiKey = 'e2b_' + '0'.repeat(40)

group('failures', (box) => {
  check('errors.key', 'a wrong key is refused everywhere', async () => {
    const id = box.sandbox.sandboxId
    const calls = [
      Sandbox.create({ apiKey }),
      Sandbox.connect(id, { apiKey }),
      Sandbox.getInfo(id, { apiKey }),
      Sandbox.kill(id, { apiKey }),
      Sandbox.setTimeout(id, 10_000, { apiKey }),
      Sandbox.list({ apiKey }).nextItems(),
    ]
    for (const error of await Promise.all(calls.map(failure))) {
      expectError(error, { new: 'AuthenticationError', says: ['Unauthorized', 'Invalid API key'] })
    }
    assert.equal(await box.sandbox.isRunning(), true)
  })

  check('errors.template', 'an unknown template is named', async () => {
    const error = await failure(Sandbox.create('no-such-template'))
    expectError(error, { new: 'SandboxError', says: "404: template 'no-such-template' not found" })
  })

  check('errors.sandbox', 'an unknown sandbox is named', async () => {
    for (const id of ['nonexistingsandbox', 'i00000000000000000000', 'non-existing']) {
      const kinds = { new: 'SandboxNotFoundError', year: 'NotFoundError' }
      expectError(await failure(Sandbox.connect(id)), { ...kinds, says: `Paused sandbox ${id} not found` })
      expectError(await failure(Sandbox.getInfo(id)), { ...kinds, says: `Sandbox ${id} not found` })
      expectError(await failure(Sandbox.setTimeout(id, 10_000)), { ...kinds, says: `Sandbox ${id} not found` })
    }
  })

  check('errors.sandbox', 'a malformed id is refused', async () => {
    const error = await failure(Sandbox.getInfo('two-many-dashes'))
    expectError(error, { new: 'SandboxError', says: ['400', 'Invalid sandbox ID'] })
  })

  check('errors.killed', 'killing the sandbox ends a running command with a clear error', async ({ fresh }) => {
    const sandbox = await fresh()
    const handle = await sandbox.commands.run('sleep 60', { background: true, timeoutMs: 0 })
    const ended = failure(handle.wait())
    await sandbox.kill()
    const error = await ended
    assert.equal(error.constructor.name, 'TimeoutError', `${error.constructor.name}: ${error.message}`)
  })

  check('errors.killed', 'a command on a killed sandbox says that it is gone', async ({ fresh }) => {
    const sandbox = await fresh()
    await sandbox.kill()
    const error = await failure(sandbox.commands.run('echo hello'))
    const kinds = { new: 'SandboxNotFoundError', year: 'NotFoundError' }
    expectError(error, { ...kinds, says: 'Sandbox is probably not running anymore' })
  })

  check('errors.killed', 'a file of a killed sandbox says that it is gone', async ({ fresh }) => {
    const sandbox = await fresh()
    await sandbox.kill()
    const error = await failure(sandbox.files.read('/etc/hostname'))
    // The year-old SDK has a sentence of its own after the first words.
    const says = byGeneration({ new: 'The sandbox was not found: it ended', year: 'The sandbox was not found' })
    expectError(error, { new: 'TimeoutError', says })
  })

  check('errors.user', 'an unknown user is named', async () => {
    const run = await failure(box.sandbox.commands.run('whoami', { user: 'nobody2' }))
    expectError(run, { new: 'AuthenticationError', says: "invalid username: 'nobody2'" })
    const read = await failure(box.sandbox.files.read('a.txt', { user: 'nobody2' }))
    expectError(read, { new: 'AuthenticationError', says: 'nobody2' })
  })

  check('errors.cwd', 'a missing working directory is named', async () => {
    const error = await failure(box.sandbox.commands.run('pwd', { cwd: '/no/such/place' }))
    expectError(error, { new: 'InvalidArgumentError', says: "cwd '/no/such/place' does not exist" })
  })

  check('errors.files', 'a missing file is named', async () => {
    for (const format of ['text', 'bytes', 'blob', 'stream']) {
      const error = await failure(box.sandbox.files.read('/no/such/file', { format }))
      const kinds = { new: 'FileNotFoundError', year: 'NotFoundError' }
      expectError(error, { ...kinds, says: "path '/no/such/file' does not exist" })
    }
  })

  check('errors.files', 'reading or writing a directory as a file is refused', async ({ place }) => {
    const read = await failure(box.sandbox.files.read('/etc'))
    expectError(read, { new: 'InvalidArgumentError', says: "path '/etc' is a directory" })
    await box.sandbox.files.makeDir(place)
    const write = await failure(box.sandbox.files.write(place, 'x'))
    expectError(write, { new: 'InvalidArgumentError', says: 'path is a directory' })
  })

  check('errors.disk', 'a full disk is told', async ({ fresh }) => {
    const sandbox = await fresh()
    const fill = 'fallocate -l $(df --output=avail -B1 / | tail -1) /fill; while fallocate -l 64K /more.$((number++)); do :; done'
    await sandbox.commands.run(`(${fill}) 2>/dev/null; true`, { user: 'root' })
    const error = await failure(sandbox.files.write('big.txt', 'x'.repeat(2_000_000)))
    expectError(error, { new: 'NotEnoughSpaceError', says: 'not enough disk space available' })
  })

  check('network.rules', 'what is denied is refused at once', async ({ fresh }) => {
    const sandbox = await fresh({ network: { denyOut: [e2b.ALL_TRAFFIC], allowOut: ['198.51.100.0/24'] } })
    const said = await sandbox.commands.run("bash -c 'exec 3<>/dev/tcp/192.0.2.7/9' 2>&1; true", { timeoutMs: 10_000 })
    assert.match(said.stdout, /Connection refused/)
  })

  check('network.update', 'rules are replaced, and cleared', { newOnly: true }, async ({ fresh }) => {
    const sandbox = await fresh()
    await sandbox.updateNetwork({ denyOut: ['192.0.2.7'] })
    assert.deepEqual((await sandbox.getInfo()).network?.denyOut, ['192.0.2.7'])
    await sandbox.updateNetwork({})
    assert.equal((await sandbox.getInfo()).network, undefined)
  })

  check('network.names', 'a host that no rule names is refused', async ({ fresh }) => {
    const sandbox = await fresh({ network: { denyOut: [e2b.ALL_TRAFFIC], allowOut: ['example.com'] } })
    const ask = 'printf "GET / HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n"'
    const said = await sandbox.commands.run(`bash -c 'exec 3<>/dev/tcp/192.0.2.7/80; ${ask} >&3; cat <&3'`, { timeoutMs: 30_000 })
    assert.match(said.stdout, /^HTTP\/1.1 403 [^]*network rules do not allow this host/)
  })
})
