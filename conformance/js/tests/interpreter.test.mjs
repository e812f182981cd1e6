// Running code: what it prints, shows and raises, where it runs, and how it ends.

import assert from 'node:assert/strict'
import { after } from 'node:test'

import { check, expectError, failure, group } from '../harness.mjs'
import { interpreter, isYear } from '../sdk.mjs'

const TEMPLATE = 'code-interpreter-slim'
const VALUE = 'it\'s "quoted" \\ back\nline — 日本語 🐝\u2028'

// The year-old interpreter SDK knows no address but names below a domain.
const reachable = !isYear || process.env.CONFORMANCE_MODE === 'domain'

const own = {}
const opened = async () => {
  own.sandbox ??= await interpreter.Sandbox.create(TEMPLATE, { timeoutMs: 300_000, envs: { GLOBAL: VALUE } })
  return own.sandbox
}
const run = async (code, options) => (await opened()).runCode(code, options)

if (reachable)
  group('interpreter', () => {
    after(() => own.sandbox?.kill())

    check('interpreter.run', 'the value of the last expression is the result', async () => {
      const execution = await run('x = 20\nx + 1')
      assert.deepEqual([execution.text, execution.error], ['21', undefined])
      assert.equal((await run('x + 2')).text, '22')
    })

    check('interpreter.run', 'executions are counted, failing ones too', async () => {
      const context = await (await opened()).createCodeContext()
      const counts = []
      for (const code of ['1', '1/0', '2']) counts.push((await run(code, { context })).executionCount)
      assert.deepEqual(counts, [1, 2, 3])
    })

    check('interpreter.stream', 'output comes when it is printed', async () => {
      const seen = []
      const execution = await run("import sys\nprint('a')\nprint('b', file=sys.stderr)\n5", {
        onStdout: (message) => seen.push(['out', message.line]),
        onStderr: (message) => seen.push(['err', message.line]),
        onResult: (result) => seen.push(['result', result.text]),
      })
      assert.deepEqual(seen, [['out', 'a\n'], ['err', 'b\n'], ['result', '5']])
      assert.deepEqual(execution.logs, { stdout: ['a\n'], stderr: ['b\n'] })
    })

    check('interpreter.stream', 'every character arrives, however the network cuts it', async () => {
      for (const text of ['\u2028\u2029\x85\x0b\x0c', '🐝'.repeat(50_000), '\x1b[31mred\x1b[0m']) {
        const execution = await run(`import json\nprint(json.loads(${JSON.stringify(JSON.stringify(text))}), end='')`)
        assert.equal(execution.logs.stdout.join(''), text)
      }
    })

    check('interpreter.results', 'a data frame and a plot have all their forms', async () => {
      const frame = (await run("import pandas as pd\npd.DataFrame({'n': [1.5, None]})")).results[0]
      assert.ok(frame.html.includes('<table') && frame.isMainResult)
      assert.deepEqual(frame.data, { n: [1.5, null] })
      assert.deepEqual(frame.extra, {})
      const plot = (await run("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.show()")).results[0]
      assert.ok(Buffer.from(plot.png, 'base64').subarray(1, 4).equals(Buffer.from('PNG')))
      assert.equal(plot.chart.type, 'bar')
    })

    check('interpreter.errors', 'an exception has its name, value and traceback', async () => {
      const { error } = await run('missing')
      assert.deepEqual([error.name, error.value], ['NameError', "name 'missing' is not defined"])
      assert.ok(error.traceback.includes('Traceback (most recent call last)'))
    })

    check('interpreter.environment', 'variables of the sandbox and of an execution are seen', async () => {
      await run('import os')
      assert.equal((await run("print(os.environ['GLOBAL'], end='')")).logs.stdout.join(''), VALUE)
      const show = "print(os.environ.get('OWN', 'unset'), end='')"
      assert.equal((await run(show, { envs: { OWN: VALUE } })).logs.stdout.join(''), VALUE)
      assert.equal((await run(show)).logs.stdout.join(''), 'unset')
    })

    check('interpreter.contexts', 'contexts share nothing and start where they are told', async () => {
      const context = await (await opened()).createCodeContext({ cwd: '/root' })
      assert.equal(context.cwd, '/root')
      await run('mine = 1')
      assert.equal((await run('mine', { context })).error.name, 'NameError')
      assert.equal((await run('import os; os.getcwd()', { context })).text, '/root')
    })

    check('interpreter.contexts', 'contexts are listed, restarted and removed', { newOnly: true }, async () => {
      const sandbox = await opened()
      const context = await sandbox.createCodeContext()
      assert.equal((await sandbox.listCodeContexts()).at(-1).id, context.id)
      await run('kept = 1', { context })
      await sandbox.restartCodeContext(context)
      assert.equal((await run('kept', { context })).error.name, 'NameError')
      await sandbox.removeCodeContext(context.id)
      expectError(await failure(run('1', { context })), { new: 'NotFoundError', says: `Context ${context.id} not found` })
    })

    check('interpreter.interrupt', 'a caller that gives up frees the context and keeps its variables', async () => {
      await run('kept = 41')
      await failure(run('import time\ntime.sleep(300)', { timeoutMs: 1500 }))
      assert.equal((await run('kept + 1', { timeoutMs: 10_000 })).text, '42')
    })

    check('interpreter.death', 'the death of a kernel is one error and the next execution works', async () => {
      const seen = []
      await run("print('bye')\nimport os; os._exit(3)", { onError: (error) => seen.push(error.name) })
      assert.deepEqual(seen, ['ContextRestarting'])
      const execution = await run('1 + 1')
      assert.deepEqual([execution.text, execution.executionCount], ['2', 1])
    })

    check('interpreter.refusals', 'code that is no text is refused', async () => {
      const error = await failure(run({ code: 1 }))
      assert.ok(error.message.includes('422'), error.message)
    })
  })
