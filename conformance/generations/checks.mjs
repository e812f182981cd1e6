// What every generation of the JavaScript SDK can do, in one list of checks. They use nothing but the SDK and what all
// runtimes have, so that they also run where there are neither files nor processes.

const TEMPLATE = 'code-interpreter-slim'
const DEADLINE = 60_000

const same = (seen, wanted) => {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(wanted)]
  if (left !== right) throw new Error(`expected ${right}, got ${left}`)
}
const holds = (condition, what) => {
  if (!condition) throw new Error(`${what} does not hold`)
}
const thrown = async (promise) => {
  const value = await promise.then(
    (value) => ({ value }),
    (error) => ({ error }),
  )
  if (!('error' in value)) throw new Error(`expected an error, got ${JSON.stringify(value.value)}`)
  return value.error
}
const eventually = async (look) => {
  const deadline = Date.now() + 10_000
  while (!(await look())) {
    holds(Date.now() < deadline, 'that it happens in time')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
// The first releases say `<sandbox>-<client>`.
const plain = (sandboxId) => sandboxId.split('-')[0]
// Names of classes do not survive every bundler.
const isA = (error, kind) => holds(error instanceof kind, `that ${error} is the right class`)

/** Name, what is checked, and whether it needs the interpreter. */
const checks = [
  ['create', async ({ box }) => holds(box.sandboxId, 'that it has an id')],
  ['running', async ({ box }) => same(await box.isRunning(), true)],
  [
    'list',
    async ({ box, sdk }) => {
      const listed = await sdk.Sandbox.list()
      const found = Array.isArray(listed) ? listed : await listed.nextItems()
      holds(found.some((entry) => plain(entry.sandboxId) === plain(box.sandboxId)), 'that it is listed')
    },
  ],
  ['timeout', async ({ box }) => box.setTimeout(150_000)],
  [
    'connect',
    async ({ box, sdk }) => {
      const again = await sdk.Sandbox.connect(box.sandboxId)
      same((await again.commands.run('echo again')).stdout, 'again\n')
    },
  ],
  [
    'host',
    async ({ box, ask }) => {
      const serving = await box.commands.run('python3 -m http.server 8123 --directory /usr/share', { background: true })
      await eventually(async () => (await ask(box, 8123, '/').catch(() => '')).includes('Directory listing'))
      await serving.kill()
    },
  ],
  [
    'run',
    async ({ box }) => {
      const { stdout, stderr, exitCode } = await box.commands.run('echo out; echo err >&2')
      same([stdout, stderr, exitCode], ['out\n', 'err\n', 0])
    },
  ],
  [
    'exit',
    async ({ box, sdk }) => {
      const error = await thrown(box.commands.run('echo told; exit 3'))
      isA(error, sdk.CommandExitError)
      same([error.exitCode, error.stdout], [3, 'told\n'])
      same((await thrown(box.commands.run("setsid sh -c 'exit 4'"))).exitCode, 4)
    },
  ],
  [
    'options',
    async ({ box }) => {
      const said = []
      const options = { envs: { A: '1' }, cwd: '/tmp', user: 'root', onStdout: (data) => said.push(data) }
      await box.commands.run('echo "$A $(pwd) $(id -un)"', options)
      same(said, ['1 /tmp root\n'])
    },
  ],
  [
    'background',
    async ({ box }) => {
      const handle = await box.commands.run('sleep 100', { background: true })
      holds((await box.commands.list()).some((process) => process.pid === handle.pid), 'that it is listed')
      same(await box.commands.kill(handle.pid), true)
      same(await box.commands.kill(handle.pid), false)
    },
  ],
  [
    'stdin',
    async ({ box }) => {
      const handle = await box.commands.run('read line; echo got $line', { background: true, stdin: true })
      await box.commands.sendStdin(handle.pid, 'it\n')
      same((await handle.wait()).stdout, 'got it\n')
    },
  ],
  [
    'late',
    async ({ box, sdk }) => isA(await thrown(box.commands.run('sleep 30', { timeoutMs: 2000 })), sdk.TimeoutError),
  ],
  [
    'terminal',
    async ({ box }) => {
      let seen = ''
      const text = new TextDecoder()
      const handle = await box.pty.create({ rows: 20, cols: 70, onData: (data) => (seen += text.decode(data)) })
      await box.pty.sendInput(handle.pid, new TextEncoder().encode('stty size; exit\n'))
      await handle.wait()
      holds(seen.includes('20 70'), `that ${seen} has the size`)
    },
  ],
  [
    'files',
    async ({ box }) => {
      await box.files.write('kept/a.txt', 'naïve 🐝')
      same(await box.files.read('kept/a.txt'), 'naïve 🐝')
      const bytes = await box.files.read('kept/a.txt', { format: 'bytes' })
      same(new TextDecoder().decode(bytes), 'naïve 🐝')
    },
  ],
  [
    'directories',
    async ({ box }) => {
      same([await box.files.makeDir('made'), await box.files.makeDir('made')], [true, false])
      await box.files.write('made/old', '1')
      same((await box.files.rename('made/old', 'made/new')).path, '/home/user/made/new')
      same((await box.files.list('made')).map((entry) => entry.name), ['new'])
      await box.files.remove('made/new')
      same([await box.files.exists('made/new'), await box.files.exists('made')], [false, true])
    },
  ],
  ['missing', async ({ box, sdk }) => isA(await thrown(box.files.read('/nope')), sdk.NotFoundError)],
  [
    'watch',
    async ({ box }) => {
      await box.files.makeDir('watched')
      const names = []
      const handle = await box.files.watchDir('watched', (event) => names.push(event.name))
      await box.files.write('watched/new.txt', '1')
      await eventually(() => names.includes('new.txt'))
      await handle.stop()
    },
  ],
  [
    'code',
    async ({ box }) => {
      same((await box.runCode('kept = 6 * 7\nkept')).text, '42')
      same((await box.runCode('kept + 1')).text, '43')
    },
    true,
  ],
  [
    'code_streams',
    async ({ box }) => {
      const [out, results] = [[], []]
      await box.runCode("print('out')\n'value'", {
        onStdout: (message) => out.push(message.line),
        onResult: (result) => results.push(result.text),
      })
      same([out.join(''), results], ['out\n', ['value']])
    },
    true,
  ],
  [
    'code_errors',
    async ({ box }) => {
      const { error } = await box.runCode('1 / 0')
      same([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
    },
    true,
  ],
  [
    'code_languages',
    async ({ box }) => {
      same((await box.runCode('console.log([1, 2].length)', { language: 'js' })).logs.stdout, ['2\n'])
      const bash = await box.runCode('echo $A', { language: 'bash', envs: { A: 'set' } })
      same(bash.logs.stdout, ['set\n'])
    },
    true,
  ],
  [
    'code_charts',
    async ({ box }) => {
      const drawing = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.title('t')\nplt.show()"
      const [result] = (await box.runCode(drawing)).results
      holds(result.png, 'that there is a picture')
      same(result.chart.title, 't')
    },
    true,
  ],
  [
    'contexts',
    async ({ box }) => {
      const context = await box.createCodeContext({ cwd: '/tmp' })
      await box.runCode('own = 1', { context })
      same((await box.runCode("own, __import__('os').getcwd()", { context })).text, "(1, '/tmp')")
      same((await box.runCode('own')).error.name, 'NameError')
    },
    true,
  ],
  [
    'variables',
    async ({ sdk }) => {
      const own = await sdk.Sandbox.create(TEMPLATE, { timeoutMs: 60_000, envs: { GIVEN: 'yes' } })
      try {
        same((await own.commands.run('echo $GIVEN')).stdout, 'yes\n')
      } finally {
        await own.kill()
      }
    },
  ],
  // The last: it ends the sandbox of all.
  [
    'kill',
    async ({ box }) => {
      await box.kill()
      same(await box.isRunning(), false)
    },
  ],
]

/**
 * Runs the checks and tells `record` what became of each.
 *
 * `ask` fetches a path at a port of a sandbox; `wants` says which features are asked for; without `hasInterpreter` those
 * of the interpreter are absent, since this release cannot reach it.
 */
export async function run({ sdk, ask, record, wants = () => true, hasInterpreter = true }) {
  const chosen = checks.filter(([name]) => wants(`generation.${name}`))
  if (chosen.length === 0) return
  const box = await sdk.Sandbox.create(TEMPLATE, { timeoutMs: 120_000 })
  for (const [name, body, interpreter] of chosen) {
    const feature = `generation.${name}`
    if (interpreter && !hasInterpreter) {
      record(feature, 'absent', 0, '')
      continue
    }
    const start = Date.now()
    const detail = await within(body({ box, sdk, ask })).then(
      () => '',
      (error) => `${error?.stack ?? error}`,
    )
    record(feature, detail ? 'failed' : 'passed', (Date.now() - start) / 1000, detail)
  }
}

function within(promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${DEADLINE} ms`)), DEADLINE)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
