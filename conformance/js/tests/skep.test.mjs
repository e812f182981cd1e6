// What our own package has beyond the official one it extends.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { createRequire } from 'node:module'
import { mkdtempSync, readFileSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { check, eventually, failure } from '../harness.mjs'
import { TEMPLATE, interpreterGroup } from '../interpreters.mjs'
import { interpreter, isOurs } from '../sdk.mjs'

const { Sandbox, NotSkepError } = interpreter

/** A server that is not Skep: the same sentence to whoever asks for its health, 404 to the rest. */
async function stranger() {
  const server = http.createServer((request, response) => {
    const isHealth = request.url === '/health'
    response.writeHead(isHealth ? 200 : 404)
    response.end(isHealth ? 'Health check successful' : '{"code": 404, "message": "no such path"}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

if (isOurs) {
  interpreterGroup('skep', ({ opened, run, printed, context }) => {
    check('skep.receipts', 'an execution has a receipt', async () => {
      const receipts = []
      const options = { onReceipt: (receipt) => receipts.push(receipt) }
      const execution = await run('held = bytearray(64 << 20); sum(range(10**6))', options)
      assert.equal(execution.receipt.outcome, 'ok')
      assert.ok(execution.receipt.wall > 0 && execution.receipt.cpu > 0)
      assert.ok(execution.receipt.peakMemory > 64 << 20)
      assert.deepEqual(receipts, [execution.receipt])
      assert.equal(execution.text, '499999500000')
    })

    check('skep.limits', 'limits of time are kept and variables stay', async () => {
      await run('kept = 1')
      for (const limits of [{ time: 0.3 }, { cpu: 0.3 }]) {
        const { error, receipt } = await run('while True: pass', { limits })
        assert.deepEqual([error.kind, receipt.outcome], ['timeout', 'timeout'])
      }
      assert.equal((await run('kept')).text, '1')
    })

    check('skep.limits', 'memory is a wall and the next execution says what was lost', async () => {
      const own = await context()
      const code = "block = bytearray(400 << 20); block[::4096] = b'x' * len(block[::4096])"
      const { error, receipt } = await run(code, { limits: { memory: '128M' }, context: own })
      assert.equal(error.kind, 'out_of_memory')
      assert.ok(receipt.peakMemory <= 128 << 20)
      assert.equal((await run('1', { context: own })).restarted, 'out_of_memory')
    })

    check('skep.limits', 'a limit that is none is refused before anything is sent', async () => {
      for (const [limits, words] of [[{ memory: '12 apples' }, "'512M'"], [{ time: 0 }, 'above 0'], [{ tiem: 1 }, 'not tiem']]) {
        const error = await failure(run('1', { limits }))
        assert.ok(error instanceof RangeError && error.message.includes(words), String(error))
      }
    })

    check('skep.kinds', 'an error has its kind, also in the callback', async () => {
      for (const [code, kind] of [['1 +', 'syntax'], ['1 / 0', 'runtime'], ['import os; os._exit(3)', 'kernel_died']]) {
        const told = []
        const { error } = await run(code, { onError: (raised) => told.push(raised.kind) })
        assert.equal(error.kind, kind)
        assert.deepEqual(told, [kind])
        assert.equal(error.exitStatus, kind === 'kernel_died' ? 3 : undefined)
      }
    })

    check('skep.secrets', 'secrets of a context, an execution and a variable are masked', async () => {
      const own = await context({ secrets: ['of-the-context'] })
      const code = "import os; print('of-the-context', 'of-the-run', os.environ['KEY'])"
      const options = { secrets: ['of-the-run'], envs: { KEY: 'of-a-variable' }, secretEnvs: ['KEY'] }
      assert.equal(await printed(code, { context: own, ...options }), '*** *** ***\n')
    })

    check('skep.secrets', 'secrets of a sandbox are masked in all that its code shows', async () => {
      const options = { timeoutMs: 60_000, envs: { KEY: 'value-of-the-key' } }
      const made = await Sandbox.create(TEMPLATE, { ...options, secrets: ['KEY'] })
      try {
        const { text } = await made.runCode("import os; print(os.environ['KEY']); os.environ['KEY']")
        assert.ok(text.includes('***') && !text.includes('value-of'), text)
      } finally {
        await made.kill()
      }
      const error = await failure(Sandbox.create(TEMPLATE, { ...options, secrets: ['NOPE'] }))
      assert.ok(error.message.includes('NOPE is not there'), error.message)
    })

    check('skep.interrupt', 'a signal interrupts, and an execution is listed and interrupted by its id', async () => {
      const sandbox = await opened()
      const endless = 'import time; time.sleep(300)'
      const controller = new AbortController()
      const signalled = await run(endless, { signal: controller.signal, onStart: () => controller.abort() })
      assert.equal(signalled.error.kind, 'interrupted')
      let id
      const running = run(endless, { onStart: (begun) => (id = begun) })
      await eventually(() => id, 'the start of the execution')
      assert.deepEqual((await sandbox.executions()).map((one) => [one.id, one.state]), [[id, 'running']])
      await sandbox.interrupt(id)
      assert.equal((await running).error.kind, 'interrupted')
      assert.equal((await failure(sandbox.interrupt(id))).constructor.name, 'NotFoundError')
      const late = await failure(run('1', { signal: controller.signal }))
      assert.equal(late.name, 'AbortError')
    })

    check('skep.input', 'code asks and is answered', async () => {
      const asked = []
      const onInput = async ({ prompt, password }) => {
        asked.push([prompt, password])
        return asked.length === 1 ? 'Ada' : null
      }
      const code = "import getpass\nname = input('Name? ')\ntry: getpass.getpass('Word? ')\nexcept EOFError: name += '!'\nname"
      assert.equal((await run(code, { onInput })).text, 'Ada!')
      assert.deepEqual(asked, [['Name? ', false], ['Word? ', true]])
    })

    check('skep.stream', 'an execution is a stream, and who leaves it interrupts the code', async () => {
      const sandbox = await opened()
      const seen = []
      for await (const event of sandbox.stream("print('a'); 6 * 7")) seen.push(event)
      assert.deepEqual(seen.map((event) => event.type), ['start', 'count', 'stdout', 'result', 'receipt'])
      assert.equal(seen[3].result.text, '42')
      for await (const event of sandbox.stream("import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)")) {
        if (event.type === 'stdout') break
      }
      await eventually(async () => (await sandbox.executions()).length === 0, 'the end of the execution')
    })

    check('skep.contexts', 'a context is forked and rolled back', async () => {
      const sandbox = await opened()
      const own = await context()
      await run('rows = [1, 2, 3]', { context: own })
      const point = await own.checkpoint()
      const child = await own.fork()
      await run('rows.clear()', { context: own })
      assert.equal((await run('rows', { context: child })).text, '[1, 2, 3]')
      await own.rollback(point)
      assert.equal((await run('rows', { context: own })).text, '[1, 2, 3]')
      assert.deepEqual((await own.checkpoints()).map((one) => [one.id, one.current, one.lost]), [[point.id, true, undefined]])
      await own.removeCheckpoint(point)
      assert.equal((await failure(own.rollback(point))).constructor.name, 'NotFoundError')
      const ids = (await sandbox.listCodeContexts()).map((one) => one.id)
      assert.ok(ids.includes(own.id) && ids.includes(child.id))
    })

    check('skep.notebook', 'a context is saved as a notebook', async () => {
      const own = await context()
      await run("print('kept')", { context: own })
      const path = join(mkdtempSync(join(tmpdir(), 'notebook-')), 'session.ipynb')
      await (await own.notebook()).save(path)
      const saved = JSON.parse(readFileSync(path))
      assert.deepEqual([saved.nbformat, saved.nbformat_minor], [4, 5])
      const sources = saved.cells.filter((cell) => cell.cell_type === 'code').map((cell) => [cell.source].flat().join(''))
      assert.deepEqual(sources, ["print('kept')"])
    })

    check('skep.record', 'the record tells of a sandbox after its end', async () => {
      const made = await Sandbox.create(TEMPLATE, { timeoutMs: 60_000, metadata: { of: 'record' } })
      const before = await made.record()
      assert.deepEqual([before.state, before.endReason, before.metadata], ['running', undefined, { of: 'record' }])
      assert.deepEqual(await made.requests(), [])
      await made.kill()
      const after = await Sandbox.recordOf(made.sandboxId)
      assert.deepEqual([after.state, after.endReason], ['ended', 'killed'])
      assert.ok(after.usage.cpu > 0 && after.startedAt < after.endAt)
    })

    check('skep.snapshots', 'a sandbox is rolled back and its snapshots are a tree', { newOnly: true, deadline: 180_000 }, async () => {
      const made = await Sandbox.create(TEMPLATE, { timeoutMs: 170_000 })
      try {
        await made.files.write('/home/user/kept', 'first')
        const first = await made.createSnapshot()
        await made.files.write('/home/user/kept', 'second')
        const second = await made.createSnapshot()
        assert.deepEqual(await made.rollback(first.snapshotId), { keptIn: 'checkpoint', lost: ['tcp_connections'] })
        assert.equal(await made.files.read('/home/user/kept'), 'first')
        const third = await made.createSnapshot()
        const roots = await made.snapshotTree()
        assert.deepEqual(roots.map((root) => root.snapshotId), [first.snapshotId])
        const children = roots[0].children.map((child) => child.snapshotId)
        assert.deepEqual(children, [second.snapshotId, third.snapshotId])
      } finally {
        await made.kill()
      }
    })

    check('skep.not_skep', 'the first extra on another server is an error', async () => {
      const other = await stranger()
      const sandbox = await opened()
      const config = sandbox.connectionConfig
      const mine = config.apiUrl
      try {
        Object.assign(config, { apiUrl: other.url })
        const extras = [
          () => sandbox.runCode('1', { limits: { time: 1 } }),
          () => sandbox.runCode('1', { secrets: ['not-to-be-told'] }),
          () => sandbox.runCode('1', { signal: new AbortController().signal }),
          () => sandbox.runCode('1', { onReceipt: () => {} }),
          () => sandbox.executions(),
          () => sandbox.requests(),
          () => sandbox.record(),
          () => sandbox.snapshotTree(),
        ]
        for (const extra of extras) {
          const error = await failure(extra())
          assert.ok(error instanceof NotSkepError, String(error))
          assert.ok(error.message.includes(other.url), error.message)
        }
        assert.equal((await sandbox.runCode('6 * 7')).text, '42')
      } finally {
        Object.assign(config, { apiUrl: mine })
        other.close()
      }
      assert.throws(() => new interpreter.Execution().receipt, NotSkepError)
      assert.throws(() => new interpreter.ExecutionError('', '', '').kind, NotSkepError)
    })

    check('skep.local', 'a server of this host is found or started', { deadline: 180_000 }, async () => {
      const executable = process.env.CONFORMANCE_EXECUTABLE
      // Only where a server of this host is tested, and not one outside.
      if (!executable || process.geteuid() !== 0) return
      const before = { ...process.env }
      try {
        if (before.E2B_API_URL) {
          const named = await Sandbox.local(TEMPLATE, { timeoutMs: 30_000 })
          assert.equal(named.connectionConfig.apiUrl, before.E2B_API_URL)
          await named.kill()
        }
        for (const name of ['E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_API_KEY']) delete process.env[name]
        // Nobody listens there, so one is started.
        const folder = mkdtempSync(join(tmpdir(), 'executable-'))
        symlinkSync(executable, join(folder, 'skep'))
        const own = { SKEP_LISTEN: '127.0.0.1:1', PATH: `${folder}:${before.PATH}`, SKEP_CACHE_DIR: before.CONFORMANCE_CACHE }
        Object.assign(process.env, own)
        const made = await Sandbox.local(TEMPLATE, { timeoutMs: 60_000 })
        const server = await interpreter.localServer()
        assert.ok(server.isOwn)
        assert.equal((await made.runCode('6 * 7')).text, '42')
        await server.stop()
        await failure(made.runCode('1'))
      } finally {
        for (const name of ['SKEP_LISTEN', 'SKEP_CACHE_DIR']) delete process.env[name]
        Object.assign(process.env, before)
      }
    })

    check('skep.package', 'the package is there for import and for require', async () => {
      const require = createRequire(join(process.env.CONFORMANCE_NODE_MODULES, 'here.js'))
      const required = require('@skep/sdk')
      assert.equal(typeof required.Sandbox.create, 'function')
      assert.equal(typeof required.Template, 'function')
      assert.equal(required.VERSION, interpreter.VERSION)
    })
  })
}
