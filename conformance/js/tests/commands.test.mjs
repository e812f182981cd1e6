// Commands in the foreground and in the background, and terminals.

import assert from 'node:assert/strict'

import { check, eventually, expectError, failure, group } from '../harness.mjs'

const run = (box, command, options) => box.sandbox.commands.run(command, options)
const start = (box, command, options) => run(box, command, { ...options, background: true })

group('commands', (box) => {
  check('commands.run', 'a command gives its output and exit code', async () => {
    const result = await run(box, 'echo out; echo err >&2')
    assert.equal(result.stdout, 'out\n')
    assert.equal(result.stderr, 'err\n')
    assert.equal(result.exitCode, 0)
  })

  check('commands.run', 'quotes, newlines and unicode pass unchanged', async () => {
    const text = 'it\'s "quoted" $HOME `date`\n\ttab — naïve 日本語 🐝'
    assert.equal((await run(box, `cat <<'END'\n${text}\nEND`)).stdout, text + '\n')
  })

  check('commands.run', 'a non-zero exit throws with everything the command said', async () => {
    for (const code of [1, 2, 127, 255]) {
      const error = await failure(run(box, `echo out; echo err >&2; exit ${code}`))
      expectError(error, { new: 'CommandExitError', says: `exit status ${code}` })
      assert.deepEqual([error.exitCode, error.stdout, error.stderr], [code, 'out\n', 'err\n'])
    }
  })

  check('commands.run', 'setsid hands the exit code of its program on', async () => {
    const error = await failure(run(box, "setsid sh -c 'exit 3'"))
    assert.equal(error.exitCode, 3)
  })

  check('commands.run', 'a child left behind with its own output does not delay the end', async () => {
    const result = await run(box, 'sleep 30 >/dev/null 2>&1 & echo done', { timeoutMs: 10_000 })
    assert.equal(result.stdout, 'done\n')
  })

  check('commands.output', 'callbacks see the output in order and as it comes', async () => {
    const out = []
    const err = []
    const result = await run(box, 'for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.1; done', {
      onStdout: (data) => out.push(data),
      onStderr: (data) => err.push(data),
    })
    assert.equal(out.join(''), 'out1\nout2\nout3\n')
    assert.equal(result.stdout, out.join(''))
    assert.equal(result.stderr, err.join(''))
    assert.ok(out.length > 1)
  })

  check('commands.output', 'bytes that are not UTF-8 become replacement characters', async () => {
    assert.equal((await run(box, String.raw`printf 'a\xff\xfeb'`)).stdout, 'a\ufffd\ufffdb')
  })

  check('commands.output', 'sixteen megabytes arrive complete', { deadline: 90_000 }, async () => {
    const size = 16 << 20
    const { stdout } = await run(box, `head -c ${size} /dev/zero | tr '\\0' x`)
    assert.equal(stdout.length, size)
  })

  check('commands.environment', 'envs are seen by their command and by no later one', async () => {
    const VALUE = 'a \'b\' "c" $D\nsecond line'
    assert.equal((await run(box, 'printf "%s" "$VALUE"', { envs: { VALUE } })).stdout, VALUE)
    assert.equal((await run(box, 'echo "[$VALUE]"')).stdout, '[]\n')
  })

  check('commands.environment', 'envs of a command win over those of the sandbox', async ({ fresh }) => {
    const sandbox = await fresh({ envs: { COLOUR: 'blue', SHAPE: 'round' } })
    const result = await sandbox.commands.run('echo "$COLOUR $SHAPE"', { envs: { COLOUR: 'red' } })
    assert.equal(result.stdout, 'red round\n')
  })

  check('commands.environment', 'user and working directory are those asked for', async () => {
    assert.equal((await run(box, 'id -un; pwd')).stdout, 'user\n/home/user\n')
    assert.equal((await run(box, 'id -un; pwd', { user: 'root' })).stdout, 'root\n/root\n')
    assert.equal((await run(box, 'pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  })

  check('commands.timeout', 'a command over its time is killed and reported', async () => {
    const error = await failure(run(box, 'sleep 60', { timeoutMs: 1_000 }))
    expectError(error, { new: 'TimeoutError', says: "exceeding 'timeoutMs'" })
  })

  check('commands.timeout', 'zero means no limit', async () => {
    assert.equal((await run(box, 'sleep 0.5; echo ok', { timeoutMs: 0 })).stdout, 'ok\n')
  })

  check('commands.background', 'a background command can be waited for', async () => {
    const seen = []
    const handle = await start(box, 'sleep 0.3; echo later', { onStdout: (data) => seen.push(data) })
    assert.ok(handle.pid > 0)
    assert.equal(handle.exitCode, undefined)
    const result = await handle.wait()
    assert.deepEqual([result.stdout, result.exitCode, handle.exitCode, seen], ['later\n', 0, 0, ['later\n']])
  })

  check('commands.background', 'a disconnected command goes on', async ({ place }) => {
    const handle = await start(box, `mkdir -p ${place}; sleep 0.5; echo finished > ${place}/end`)
    await handle.disconnect()
    await eventually(() => box.sandbox.files.exists(`${place}/end`), 'the file written after the client left')
  })

  check('commands.kill', 'killing by handle and by pid', async () => {
    for (const kill of [(handle) => handle.kill(), (handle) => box.sandbox.commands.kill(handle.pid)]) {
      const handle = await start(box, 'sleep 60')
      assert.equal(await kill(handle), true)
      const error = await failure(handle.wait())
      expectError(error, { new: 'CommandExitError', says: 'signal: killed' })
      assert.equal(error.exitCode, -1)
    }
    assert.equal(await box.sandbox.commands.kill(999999), false)
  })

  check('commands.list', 'running commands are listed with their configuration', async () => {
    const handle = await start(box, 'sleep 61', { envs: { LISTED: 'yes' }, cwd: '/tmp' })
    const listed = (await box.sandbox.commands.list()).find((process) => process.pid === handle.pid)
    assert.equal(listed.cmd, '/bin/bash')
    assert.deepEqual(listed.args, ['-l', '-c', 'sleep 61'])
    assert.deepEqual({ ...listed.envs }, { LISTED: 'yes' })
    assert.equal(listed.cwd, '/tmp')
    await handle.kill()
    await failure(handle.wait())
    assert.ok(!(await box.sandbox.commands.list()).some((process) => process.pid === handle.pid))
  })

  check('commands.connect', 'a second client hears what follows and the end', async () => {
    const first = await start(box, 'read line; echo heard $line', { stdin: true })
    const second = await box.sandbox.commands.connect(first.pid)
    await box.sandbox.commands.sendStdin(first.pid, 'hello\n')
    assert.equal((await first.wait()).stdout, 'heard hello\n')
    assert.equal((await second.wait()).stdout, 'heard hello\n')
  })

  check('commands.connect', 'an unknown pid is named', async () => {
    const error = await failure(box.sandbox.commands.connect(999999))
    expectError(error, { new: 'NotFoundError', says: 'process with pid 999999 not found' })
  })

  check('commands.stdin', 'text sent is read by the command', async () => {
    const handle = await start(box, 'read first; read second; echo "$second $first"', { stdin: true })
    await box.sandbox.commands.sendStdin(handle.pid, "naïve 'quoted'\n")
    await box.sandbox.commands.sendStdin(handle.pid, '')
    await box.sandbox.commands.sendStdin(handle.pid, '日本\n')
    assert.equal((await handle.wait()).stdout, "日本 naïve 'quoted'\n")
  })

  check('commands.stdin', 'without stdin a command reads its end at once', async () => {
    assert.equal((await run(box, 'cat; echo end', { timeoutMs: 10_000 })).stdout, 'end\n')
  })

  check('commands.stdin', 'input for an unknown pid is refused', async () => {
    const error = await failure(box.sandbox.commands.sendStdin(999999, 'hello'))
    expectError(error, { new: 'NotFoundError', says: 'process with pid 999999 not found' })
  })

  check('commands.close_stdin', 'closing stdin ends a reader', { newOnly: true }, async () => {
    assert.equal(box.sandbox.commands.supportsStdinClose, true)
    const handle = await start(box, 'cat', { stdin: true })
    await handle.sendStdin(new TextEncoder().encode('all of it'))
    await handle.closeStdin()
    assert.equal((await handle.wait()).stdout, 'all of it')
  })
})

group('terminals', (box) => {
  const open = async (options) => {
    const screen = { shown: '' }
    const decoder = new TextDecoder()
    const show = (data) => (screen.shown += decoder.decode(data, { stream: true }))
    screen.show = show
    screen.handle = await box.sandbox.pty.create({ cols: 80, rows: 24, onData: show, ...options })
    screen.type = (text) => box.sandbox.pty.sendInput(screen.handle.pid, new TextEncoder().encode(text))
    screen.expect = (text) => eventually(() => screen.shown.includes(text), `${text} on the terminal`)
    return screen
  }

  check('pty.create', 'a terminal is a login shell of the user', async () => {
    const screen = await open({ envs: { SHOWN: 'from-envs' }, cwd: '/tmp' })
    await screen.type('echo "<$SHOWN $PWD $(id -un) $TERM>"\n')
    await screen.expect('<from-envs /tmp user xterm-256color>')
    await screen.type('exit\n')
    assert.equal((await screen.handle.wait()).exitCode, 0)
  })

  check('pty.resize', 'the size is the one asked for and follows a resize', async () => {
    const screen = await open()
    await screen.type('echo =$(stty size)=\n')
    await screen.expect('=24 80=')
    await box.sandbox.pty.resize(screen.handle.pid, { cols: 132, rows: 40 })
    await screen.type('echo =$(stty size)= =$(tput cols)=\n')
    await screen.expect('=40 132= =132=')
    await box.sandbox.pty.kill(screen.handle.pid)
  })

  check('pty.connect', 'a terminal can be left and joined again', { newOnly: true }, async () => {
    const screen = await open()
    await screen.type('marker=kept; echo =$((6*7))=\n')
    await screen.expect('=42=')
    await screen.handle.disconnect()
    screen.shown = ''
    const again = await box.sandbox.pty.connect(screen.handle.pid, { onData: screen.show })
    await screen.type('echo "=$marker="; exit\n')
    await screen.expect('=kept=')
    assert.equal((await again.wait()).exitCode, 0)
  })

  check('pty.kill', 'a killed terminal is gone and an unknown one is false', async () => {
    const screen = await open()
    assert.equal(await box.sandbox.pty.kill(screen.handle.pid), true)
    assert.equal((await failure(screen.handle.wait())).exitCode, -1)
    assert.equal(await box.sandbox.pty.kill(999999), false)
  })
})
