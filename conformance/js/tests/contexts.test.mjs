// Contexts: made, listed, restarted and removed; interrupted, out of time, and dead.

import assert from 'node:assert/strict'

import { check, expectError, failure } from '../harness.mjs'
import { TEMPLATE, interpreterGroup } from '../interpreters.mjs'
import { interpreter, isYear, isOurs } from '../sdk.mjs'

const FOREVER = 'import time\nwhile True: time.sleep(0.1)'

interpreterGroup('contexts', ({ opened, run, context }) => {
  check('interpreter.default', 'the SDK starts an interpreter when nobody names a template', async () => {
    const sandbox = await interpreter.Sandbox.create()
    try {
      assert.equal((await sandbox.runCode('import getpass; getpass.getuser()')).text, 'user')
      const again = await interpreter.Sandbox.connect(sandbox.sandboxId)
      await sandbox.runCode('remembered = 7')
      assert.equal((await again.runCode('remembered')).text, '7')
    } finally {
      await sandbox.kill()
    }
  })

  check('interpreter.contexts', 'contexts share nothing and start where they are told', async () => {
    const own = await context({ cwd: '/root' })
    assert.equal(own.cwd, '/root')
    await run('mine = 1')
    assert.equal((await run('mine', { context: own })).error.name, 'NameError')
    assert.equal((await run('import os; os.getcwd()', { context: own })).text, '/root')
    assert.equal((await run('import os; os.getcwd()')).text, '/home/user')
  })

  check('interpreter.contexts', 'contexts run beside each other and one runs in order', async () => {
    const own = await context()
    const start = performance.now()
    const code = 'import time; time.sleep(1.5)'
    await Promise.all([run(code), run(code, { context: own })])
    assert.ok(performance.now() - start < 2800)
    await run('order = []', { context: own })
    const work = 'import time; order.append(1); time.sleep(0.1); order.append(0)'
    await Promise.all([1, 2, 3].map(() => run(work, { context: own })))
    assert.equal((await run('order', { context: own })).text, '[1, 0, 1, 0, 1, 0]')
  })

  check('interpreter.contexts', 'contexts are listed, restarted and removed', { newOnly: true }, async () => {
    const sandbox = await opened()
    const own = await context({ cwd: '/tmp' })
    const listed = await sandbox.listCodeContexts()
    assert.deepEqual([listed.at(-1).id, listed.at(-1).cwd, listed[0].language], [own.id, '/tmp', 'python'])
    await run('kept = 1', { context: own })
    await sandbox.restartCodeContext(own)
    const execution = await run('kept', { context: own })
    assert.deepEqual([execution.error.name, execution.executionCount], ['NameError', 1])
    assert.equal((await run('import os; os.getcwd()', { context: own })).text, '/tmp')
    await sandbox.removeCodeContext(own.id)
    const gone = { new: 'NotFoundError', says: `Context ${own.id} not found` }
    expectError(await failure(run('1', { context: own })), gone)
    expectError(await failure(sandbox.removeCodeContext(own)), gone)
    expectError(await failure(sandbox.restartCodeContext(own.id)), gone)
  })

  check('interpreter.timeouts', 'an execution that takes too long is told so', async () => {
    const start = performance.now()
    const error = await failure(run(FOREVER, { timeoutMs: 1500 }))
    expectError(error, { new: 'TimeoutError', says: ['Execution timed out', "'timeoutMs' option"] })
    assert.ok(performance.now() - start < 5000)
  })

  check('interpreter.timeouts', 'a request that takes too long is told so', async () => {
    // No kernel for Bash waits to be used, so it takes longer than that.
    const error = await failure(context({ language: 'bash', requestTimeoutMs: 1 }))
    // Both SDKs hand on what the platform throws, which has no class of theirs; ours says what allows it more.
    const says = isOurs ? "Request timed out: the 'requestTimeoutMs' option allows it more" : 'The operation was aborted due to timeout'
    assert.deepEqual([error.name, error.message], ['TimeoutError', says])
    assert.equal((await run("'done'", { timeoutMs: 0, requestTimeoutMs: 5000 })).text, 'done')
  })

  check('interpreter.interrupt', 'a caller that gives up frees the context and keeps its variables', async () => {
    await run('kept = 41')
    await failure(run('import time\ntime.sleep(300)', { timeoutMs: 1500 }))
    assert.equal((await run('kept + 1', { timeoutMs: 10_000 })).text, '42')
  })

  check('interpreter.interrupt', 'code that does not hear an interrupt does not hold its context', async () => {
    const own = await context()
    const deaf = 'import time\nwhile True:\n    try:\n        time.sleep(100)\n    except BaseException:\n        pass'
    await failure(run(deaf, { context: own, timeoutMs: 1000 }))
    const execution = await run('1 + 1', { context: own, timeoutMs: 30_000 })
    assert.deepEqual([execution.text, execution.executionCount], ['2', 1])
  })

  for (const code of ['import os; os._exit(3)', 'import ctypes; ctypes.string_at(0)'])
    check('interpreter.death', `the death of a kernel is one error and the next execution works [${code}]`, async () => {
      const own = await context()
      const seen = []
      const execution = await run(`print('bye')\n${code}`, { context: own, onError: (error) => seen.push([error.name, error.value]) })
      assert.deepEqual(seen, [['ContextRestarting', 'Context was restarted']])
      assert.deepEqual(execution.logs.stdout, ['bye\n'])
      const next = await run('1 + 1', { context: own })
      assert.deepEqual([next.text, next.executionCount], ['2', 1])
    })

  check('interpreter.killed', 'a sandbox killed during an execution says so', async () => {
    const sandbox = await interpreter.Sandbox.create(TEMPLATE)
    let begun
    const heard = new Promise((resolve) => (begun = resolve))
    const running = failure(sandbox.runCode(`print('begun')\n${FOREVER}`, { onStdout: begun }))
    await heard
    await sandbox.kill()
    const error = await running
    // The year-old SDK hands on what its HTTP client says of a connection that is cut.
    if (isYear && !isOurs) assert.equal(error.message, 'terminated')
    else expectError(error, { new: 'TimeoutError', says: 'sandbox was killed while the request was in progress' })
    const next = await failure(sandbox.runCode('1'))
    expectError(next, { new: 'TimeoutError', says: 'sandbox timeout' })
  })
})
