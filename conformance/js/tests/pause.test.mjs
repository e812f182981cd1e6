// Sandboxes that sleep: pause, connect, auto-pause, auto-resume.

import assert from 'node:assert/strict'

import { check, eventually, group } from '../harness.mjs'
import { Sandbox } from '../sdk.mjs'
import { fetchPlain, fetchPort } from '../web.mjs'

const BOOT_ID = 'cat /proc/sys/kernel/random/boot_id'
const pause = (sandbox) => (sandbox.pause ? sandbox.pause() : sandbox.betaPause())
const output = async (sandbox, command) => (await sandbox.commands.run(command)).stdout.trim()

async function paused(sandbox) {
  const pages = Sandbox.list({ query: { state: ['paused'] } })
  while (pages.hasNext) {
    for (const item of await pages.nextItems()) if (item.sandboxId === sandbox.sandboxId) return true
  }
  return false
}

/** A snapshot of files alone, for which this SDK has no option. */
async function snapshot(sandbox) {
  const base = process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}`
  const headers = { 'X-API-KEY': process.env.E2B_API_KEY, 'Content-Type': 'application/json' }
  const body = JSON.stringify({ memory: false })
  const answer = await fetchPlain(`${base}/sandboxes/${sandbox.sandboxId}/snapshots`, { method: 'POST', headers, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.json()
}

group('pause', () => {
  check('pause.pause', 'a paused sandbox goes on as it was', async ({ fresh }) => {
    const sandbox = await fresh({ envs: { COLOUR: 'green' } })
    await sandbox.files.write('note.txt', 'kept')
    const boot = await output(sandbox, BOOT_ID)
    const command = await sandbox.commands.run('sleep 600', { background: true })
    await pause(sandbox)
    assert.equal(await sandbox.isRunning(), false)
    assert.equal(await paused(sandbox), true)
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal(await again.files.read('note.txt'), 'kept')
    assert.equal(await output(again, 'echo $COLOUR'), 'green')
    assert.equal(await output(sandbox, BOOT_ID), boot)
    assert.equal(await again.commands.kill(command.pid), true)
    assert.equal(await paused(sandbox), false)
  })

  check('pause.pause', 'a second pause says that it was paused already', { newOnly: true }, async ({ fresh }) => {
    const sandbox = await fresh()
    assert.equal(await pause(sandbox), true)
    assert.equal(await pause(sandbox), false)
    await Sandbox.kill(sandbox.sandboxId)
    await assert.rejects(Sandbox.connect(sandbox.sandboxId))
  })

  check('pause.races', 'many who connect get a sandbox that runs', async ({ fresh }) => {
    const sandbox = await fresh()
    await pause(sandbox)
    const connected = await Promise.all([1, 2, 3, 4, 5].map(() => Sandbox.connect(sandbox.sandboxId)))
    const outputs = await Promise.all(connected.map((one) => output(one, 'echo alive')))
    assert.deepEqual(outputs, Array(5).fill('alive'))
  })

  check('pause.filesystem', 'a pause without memory keeps the files and starts anew', { newOnly: true }, async ({ fresh }) => {
    const sandbox = await fresh({ envs: { COLOUR: 'green' } })
    await sandbox.files.write('note.txt', 'kept')
    const boot = await output(sandbox, BOOT_ID)
    assert.equal(await sandbox.pause({ keepMemory: false }), true)
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal(await again.files.read('note.txt'), 'kept')
    assert.notEqual(await output(again, BOOT_ID), boot)
    assert.equal(await output(again, 'echo $COLOUR'), 'green')
  })

  check('pause.auto_pause', 'a sandbox is paused when its time is over', { newOnly: true }, async ({ fresh }) => {
    const sandbox = await fresh({ timeoutMs: 2_000, lifecycle: { onTimeout: 'pause' } })
    await eventually(() => paused(sandbox), 'the pause at the deadline', 5_000)
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 })
    assert.equal(await output(again, 'echo alive'), 'alive')
  })

  check('pause.auto_resume', 'a request wakes a sandbox that was made so', { newOnly: true }, async ({ fresh }) => {
    const sandbox = await fresh({ lifecycle: { onTimeout: 'pause', autoResume: true } })
    await sandbox.commands.run('python3 -m http.server 8000', { background: true })
    await eventually(async () => (await fetchPort(sandbox, 8000)).status === 200, 'a service inside')
    await pause(sandbox)
    assert.equal((await fetchPort(sandbox, 8000)).status, 200)
    assert.equal(await paused(sandbox), false)
    await pause(sandbox)
    assert.equal(await output(sandbox, 'echo awake'), 'awake')
  })
})

group('snapshots', () => {
  check('snapshots.files', 'many sandboxes are made of a snapshot of files', { newOnly: true, deadline: 120_000 }, async ({ fresh }) => {
    const source = await fresh()
    await source.files.write('note.txt', 'before')
    const taken = await snapshot(source)
    await source.files.write('note.txt', 'after')
    const made = await Promise.all([1, 2].map(() => Sandbox.create(taken.snapshotID, { timeoutMs: 60_000 })))
    try {
      for (const sandbox of made) assert.equal(await sandbox.files.read('note.txt'), 'before')
      assert.equal(await source.files.read('note.txt'), 'after')
      assert.equal(await Sandbox.deleteSnapshot(taken.snapshotID), true)
      assert.equal(await Sandbox.deleteSnapshot(taken.snapshotID), false)
    } finally {
      for (const sandbox of made) await sandbox.kill()
    }
  })

  check('snapshots.memory', 'a snapshot keeps what runs', { newOnly: true, deadline: 120_000 }, async ({ fresh }) => {
    const source = await fresh()
    const command = await source.commands.run('sleep 600', { background: true })
    const taken = await source.createSnapshot()
    const made = await Sandbox.create(taken.snapshotId, { timeoutMs: 60_000 })
    try {
      assert.equal(await made.commands.kill(command.pid), true)
      assert.equal(await source.commands.kill(command.pid), true)
    } finally {
      await made.kill()
      await Sandbox.deleteSnapshot(taken.snapshotId)
    }
  })
})

group('fork', () => {
  check('fork.fork', 'copies go on from the same point, each by itself', { newOnly: true, deadline: 120_000 }, async ({ fresh }) => {
    const source = await fresh()
    await source.files.write('note.txt', 'before')
    const command = await source.commands.run('sleep 600', { background: true })
    const copies = await source.fork({ count: 2 })
    try {
      assert.equal(copies.length, 2)
      for (const copy of copies) {
        assert.ok(copy instanceof Sandbox, String(copy))
        assert.equal(await copy.files.read('note.txt'), 'before')
        assert.equal(await output(copy, 'echo $E2B_SANDBOX_ID'), copy.sandboxId)
        assert.equal(await copy.commands.kill(command.pid), true)
        await copy.files.write('note.txt', copy.sandboxId)
      }
      assert.equal(await source.files.read('note.txt'), 'before')
      assert.equal(await source.commands.kill(command.pid), true)
    } finally {
      for (const copy of copies) if (copy instanceof Sandbox) await copy.kill()
    }
  })

  check('fork.fork', 'more copies than there may be are refused', { newOnly: true }, async ({ fresh }) => {
    const source = await fresh()
    for (const count of [0, 101]) await assert.rejects(source.fork({ count }))
    assert.equal(await source.isRunning(), true)
  })
})
