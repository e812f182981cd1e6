// Running code: what it gives back, prints and raises, and what a caller may say.

import assert from 'node:assert/strict'

import { check, expectError, failure } from '../harness.mjs'
import { AWKWARD, LARGE_OUTPUT, interpreterGroup } from '../interpreters.mjs'

interpreterGroup('interpreter', ({ opened, run, printed, context }) => {
  check('interpreter.run', 'the value of the last expression is the result', async () => {
    const execution = await run('x = 20\nx + 1')
    assert.deepEqual([execution.text, execution.error], ['21', undefined])
    assert.equal((await run('x + 2')).text, '22')
  })

  check('interpreter.run', 'code without a value has no result', async () => {
    for (const code of ['x = 1', 'None', '1;', '', '# nothing']) {
      const execution = await run(code)
      assert.deepEqual([execution.results, execution.text, execution.error], [[], undefined, undefined], code)
    }
  })

  check('interpreter.run', 'whatever writes is heard', async () => {
    assert.equal(await printed('!echo out; echo err >&2'), 'out\r\nerr\r\n')
    assert.equal(await printed('%%bash\necho in bash'), 'in bash\n')
    assert.equal(await printed("import subprocess\nsubprocess.run(['echo', 'child']);"), 'child\n')
    assert.equal((await run("import asyncio\nawait asyncio.sleep(0.01, 'slept')")).text, 'slept')
  })

  check('interpreter.run', 'executions are counted, failing ones too', async () => {
    const own = await context()
    const counts = []
    for (const code of ['1', '1/0', '(', '2']) counts.push((await run(code, { context: own })).executionCount)
    assert.deepEqual(counts, [1, 2, 3, 4])
  })

  check('interpreter.run', 'an execution can be written as JSON', async () => {
    const said = JSON.parse(JSON.stringify(await run("print('out')\n[1, 2]")))
    assert.deepEqual(said.logs, { stdout: ['out\n'], stderr: [] })
    assert.deepEqual([said.results[0].text, said.results[0].json], ['[1, 2]', [1, 2]])
    assert.equal(JSON.parse(JSON.stringify(await run('1/0'))).error.name, 'ZeroDivisionError')
  })

  check('interpreter.callbacks', 'callbacks hear everything in order and when it happens', async () => {
    const seen = []
    const start = performance.now()
    const code = "import sys, time\nprint('a')\ntime.sleep(1)\nprint('b', file=sys.stderr)\ndisplay('shown')\n5"
    const execution = await run(code, {
      onStdout: (message) => seen.push(['out', message.line, message.error, performance.now() - start]),
      onStderr: (message) => seen.push(['err', message.line, message.error]),
      onResult: (result) => seen.push(['result', result.text, result.isMainResult]),
      onError: (error) => seen.push(['error', error.name]),
    })
    const shown = [['result', 'shown', false], ['result', '5', true]]
    assert.deepEqual(seen.map((entry) => entry.slice(0, 3)), [['out', 'a\n', false], ['err', 'b\n', true], ...shown])
    assert.ok(seen[0][3] < 900, 'the first line waited for the rest')
    assert.deepEqual(execution.logs, { stdout: ['a\n'], stderr: ['b\n'] })
  })

  check('interpreter.callbacks', 'the error is told once and after what was printed', async () => {
    const seen = []
    await run("print('before')\n1/0", { onStdout: (message) => seen.push(message.line), onError: (error) => seen.push(error.value) })
    assert.deepEqual(seen, ['before\n', 'division by zero'])
  })

  check('interpreter.callbacks', 'callbacks that are asynchronous are awaited in order', async () => {
    const seen = []
    const note = async (message) => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      seen.push(message.line)
    }
    await run('import time\nfor i in range(3):\n    print(i)\n    time.sleep(0.05)', { onStdout: note })
    assert.deepEqual(seen, ['0\n', '1\n', '2\n'])
  })

  check('interpreter.stream', 'every character arrives, however the network cuts it', async () => {
    for (const text of ['\u2028\u2029\x85\x0b\x0c\x1c\x1e', '🐝'.repeat(50_000), '\x1b[31mred\x1b[0m', '\r\n\t\0', 'a\rb']) {
      const code = `import json\nprint(json.loads(${JSON.stringify(JSON.stringify(text))}), end='')`
      assert.equal(await printed(code), text)
    }
  })

  check('interpreter.stream', 'a hundred mebibytes of output arrive, or ten with TLS', { deadline: 240_000 }, async () => {
    let length = 0
    const code = `for _ in range(${LARGE_OUTPUT} * 16): print('x' * 65535)`
    await run(code, { onStdout: (message) => (length += message.line.length), timeoutMs: 200_000 })
    assert.equal(length, LARGE_OUTPUT << 20)
  })

  check('interpreter.errors', 'an exception has its name, value and traceback, and the context lives', async () => {
    await run('alive = 1')
    const expected = [
      ['def f():\n    return missing\nf()', 'NameError', "name 'missing' is not defined"],
      ['1 +* 2', 'SyntaxError', 'invalid syntax'],
      ['input()', 'StdinNotImplementedError', 'does not support input requests'],
      ['import sys; sys.exit(3)', 'SystemExit', '3'],
      ["raise ValueError('日本語 🐝\\u2028')", 'ValueError', '日本語 🐝\u2028'],
    ]
    for (const [code, name, value] of expected) {
      const { error } = await run(code)
      assert.equal(error.name, name)
      assert.ok(error.value.includes(value), error.value)
    }
    const { error } = await run('def f():\n    return missing\nf()')
    assert.ok(error.traceback.includes('Traceback (most recent call last)') && error.traceback.includes('line 2'))
    assert.equal((await run('alive + 1')).text, '2')
  })

  check('interpreter.environment', 'variables of the sandbox and of an execution are seen and restored', async () => {
    await run('import os')
    assert.equal(await printed("print(os.environ['GLOBAL'], end='')"), AWKWARD)
    const show = "print(os.environ.get('OWN', 'unset'), os.environ['GLOBAL'][:4], end='')"
    assert.equal(await printed(show, { envs: { OWN: AWKWARD, GLOBAL: 'over' } }), `${AWKWARD} over`)
    assert.equal(await printed(show), "unset it's")
    const long = { LONG: 'x'.repeat(1 << 20) }
    assert.equal((await run("len(os.environ['LONG'])", { envs: long })).text, String(1 << 20))
  })

  check('interpreter.language', 'python by name is the default context', async () => {
    await (await opened()).runCode("shared = 'the same'")
    assert.equal((await run('shared', { language: 'python' })).text, 'the same')
  })

  check('interpreter.language', 'a context and a language exclude each other', async () => {
    const own = await context()
    const error = await failure((await opened()).runCode('1', { context: own, language: 'python' }))
    expectError(error, { new: 'InvalidArgumentError', year: 'InvalidArgumentError', says: 'context or language' })
  })

  check('interpreter.refusals', 'code that is no text, unknown contexts and languages are refused', async () => {
    const error = await failure(run({ code: 1 }))
    assert.ok(error.message.includes('422'), error.message)
    expectError(await failure(run('1', { language: 'cobol' })), { new: 'SandboxError', says: '500' })
    const missing = { id: 'nope', language: 'python', cwd: '/' }
    expectError(await failure(run('1', { context: missing })), { new: 'NotFoundError', says: 'Context nope not found' })
  })
})
