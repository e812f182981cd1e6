// The life of a sandbox: create, connect, list, info, deadline, end.

import assert from 'node:assert/strict'

import { check, eventually, expectError, failure, group } from '../harness.mjs'
import { Sandbox, e2b } from '../sdk.mjs'

const life = (info) => (info.endAt - info.startedAt) / 1000
const near = (seen, wanted, slack) => assert.ok(Math.abs(seen - wanted) <= slack, `${seen} is not near ${wanted}`)

async function every(pages) {
  const items = []
  while (pages.hasNext) items.push(...(await pages.nextItems()))
  return items
}

const ids = (sandboxes) => sandboxes.map((sandbox) => sandbox.sandboxId)

group('sandbox', (box) => {
  check('sandbox.create', 'a sandbox made with no options runs the base template', async ({ fresh }) => {
    const info = await (await fresh()).getInfo()
    assert.equal(info.name, 'base')
    assert.deepEqual(info.metadata ?? {}, {})
    assert.equal(info.state, 'running')
  })

  check('sandbox.create', 'the default timeout is five minutes', async ({ fresh }) => {
    near(life(await (await fresh({ timeoutMs: undefined })).getInfo()), 300, 2)
  })

  check('sandbox.create', 'template, metadata, envs and timeout take effect', async () => {
    const metadata = { 'naïve key': 'välue & more' }
    const sandbox = await Sandbox.create('base', { timeoutMs: 77_500, metadata, envs: { GREETING: "hello 'world'" } })
    try {
      const info = await sandbox.getInfo()
      assert.deepEqual(info.metadata, metadata)
      near(life(info), 78, 2)
      assert.equal((await sandbox.commands.run('printf "%s" "$GREETING"')).stdout, "hello 'world'")
    } finally {
      await sandbox.kill()
    }
  })

  check('sandbox.create', 'a sandbox asked to be insecure still works', async ({ fresh }) => {
    const sandbox = await fresh({ secure: false })
    await sandbox.files.write('note.txt', 'open')
    assert.equal(await sandbox.files.read('note.txt'), 'open')
  })

  check('sandbox.internet', 'without internet access nothing outside is reached', { deadline: 120_000 }, async ({ fresh }) => {
    const sandbox = await fresh({ allowInternetAccess: false })
    const error = await failure(sandbox.commands.run('pip download --no-deps --retries 0 --timeout 5 iniconfig'))
    assert.match(error.stderr, /No matching distribution found for iniconfig/)
  })

  check('sandbox.connect', 'connecting by id reaches the same sandbox', async ({ place }) => {
    await box.sandbox.files.write(`${place}/a.txt`, 'written before')
    const again = await Sandbox.connect(box.sandbox.sandboxId)
    assert.equal(again.sandboxId, box.sandbox.sandboxId)
    assert.equal(await again.files.read(`${place}/a.txt`), 'written before')
  })

  check('sandbox.connect', 'connecting again on an instance keeps it usable', async () => {
    const same = await box.sandbox.connect({ timeoutMs: 100_000 })
    assert.equal((await same.commands.run('echo again')).stdout, 'again\n')
  })

  check('sandbox.connect', 'connecting never shortens and does extend the life of a sandbox', async ({ fresh }) => {
    const sandbox = await fresh({ timeoutMs: 100_000 })
    const before = await sandbox.getInfo()
    await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 20_000 })
    assert.deepEqual((await sandbox.getInfo()).endAt, before.endAt)
    await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 200_000 })
    near(((await sandbox.getInfo()).endAt - before.endAt) / 1000, 100, 5)
  })

  check('sandbox.kill', 'killing twice by id says true then false', async ({ fresh }) => {
    const sandbox = await fresh()
    assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
    assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
    assert.equal(await Sandbox.kill('nonexistingsandbox'), false)
  })

  check('sandbox.kill', 'a sandbox killed by its instance is gone when the call returns', async ({ fresh, tag }) => {
    const sandbox = await fresh({ metadata: { tag } })
    await sandbox.kill()
    assert.equal(await sandbox.isRunning(), false)
    assert.deepEqual(await every(Sandbox.list({ query: { metadata: { tag } } })), [])
  })

  check('sandbox.running', 'a living sandbox is running and a killed one is not', async ({ fresh }) => {
    const sandbox = await fresh()
    assert.equal(await sandbox.isRunning(), true)
    await sandbox.kill()
    assert.equal(await sandbox.isRunning(), false)
  })

  check('sandbox.info', 'info by id and by instance agree', async () => {
    const mine = await box.sandbox.getInfo()
    assert.deepEqual(await Sandbox.getInfo(box.sandbox.sandboxId), mine)
    assert.equal(mine.sandboxId, box.sandbox.sandboxId)
    assert.ok(mine.templateId && mine.startedAt <= new Date() && new Date() < mine.endAt)
  })

  check('sandbox.info', 'info tells the machine and what happens at the deadline', { newOnly: true }, async () => {
    const info = await box.sandbox.getInfo()
    assert.ok(info.cpuCount > 0 && info.memoryMB > 0 && info.envdVersion)
    assert.deepEqual(info.lifecycle, { autoResume: false, onTimeout: 'kill' })
  })

  check('sandbox.timeout', 'set timeout moves the deadline both ways', async ({ fresh }) => {
    const sandbox = await fresh({ timeoutMs: 60_000 })
    await sandbox.setTimeout(200_000)
    near(life(await sandbox.getInfo()), 200, 5)
    await Sandbox.setTimeout(sandbox.sandboxId, 30_000)
    near(life(await sandbox.getInfo()), 30, 5)
  })

  check('sandbox.timeout', 'a sandbox dies at its deadline and not before', async ({ fresh }) => {
    const sandbox = await fresh()
    await sandbox.setTimeout(3_000)
    const { endAt } = await sandbox.getInfo()
    await eventually(async () => !(await sandbox.isRunning()), 'the end of the sandbox', 8_000)
    const late = Date.now() - endAt.getTime()
    assert.ok(late >= 0 && late < 1_500, `${late} ms late`)
  })

  check('sandbox.metrics', 'a measurement appears with plausible numbers', async () => {
    const newest = (await eventually(async () => {
      const all = await box.sandbox.getMetrics()
      return all.length > 0 && all
    }, 'the first measurement', 20_000)).at(-1)
    assert.ok(newest.cpuCount > 0 && newest.cpuUsedPct >= 0)
    assert.ok(newest.memUsed > 0 && newest.memUsed <= newest.memTotal)
    assert.ok(newest.diskUsed > 0 && newest.diskUsed <= newest.diskTotal)
  })

  check('sandbox.client', 'a client object carries its options to its sandboxes', { newOnly: true }, async () => {
    const client = new e2b.E2B({ apiKey: process.env.E2B_API_KEY })
    const sandbox = await client.Sandbox.create({ timeoutMs: 60_000 })
    try {
      assert.equal((await sandbox.commands.run('echo bound')).stdout, 'bound\n')
    } finally {
      assert.equal(await sandbox.kill(), true)
    }
  })
})

group('listing', () => {
  const three = async (fresh, tag) => [
    await fresh({ metadata: { tag } }),
    await fresh({ metadata: { tag } }),
    await fresh({ metadata: { tag } }),
  ]

  check('sandbox.list', 'the list shows a new sandbox with its details', async ({ fresh, tag }) => {
    const sandbox = await fresh({ metadata: { tag } })
    const listed = (await every(Sandbox.list())).find((item) => item.sandboxId === sandbox.sandboxId)
    assert.deepEqual(listed.metadata, { tag })
    assert.equal(listed.state, 'running')
    assert.equal(listed.name, 'base')
  })

  check('sandbox.list', 'a metadata filter matches every pair and odd characters', async ({ fresh, tag }) => {
    const metadata = { tag, 'a b&c=d': '50% / é' }
    const sandbox = await fresh({ metadata })
    await fresh({ metadata: { tag } })
    assert.deepEqual(ids(await every(Sandbox.list({ query: { metadata } }))), [sandbox.sandboxId])
  })

  check('sandbox.list', 'pages are complete, newest first, and end', async ({ fresh, tag }) => {
    const made = await three(fresh, tag)
    const pages = Sandbox.list({ query: { metadata: { tag } }, limit: 1 })
    const seen = []
    while (pages.hasNext) {
      const page = await pages.nextItems()
      assert.equal(page.length, 1)
      seen.push(...page)
      assert.equal(pages.hasNext, seen.length < 3)
    }
    assert.deepEqual(ids(seen), ids(made).reverse())
    assert.match((await failure(pages.nextItems())).message, /No more items to fetch/)
  })

  check('sandbox.list', 'a page can be resumed by its token', async ({ fresh, tag }) => {
    const made = await three(fresh, tag)
    const query = { metadata: { tag } }
    const pages = Sandbox.list({ query, limit: 2 })
    await pages.nextItems()
    const rest = Sandbox.list({ query, limit: 2, nextToken: pages.nextToken })
    assert.deepEqual(ids(await rest.nextItems()), [made[0].sandboxId])
    assert.equal(rest.hasNext, false)
  })

  check('sandbox.list', 'the order can be turned around', { newOnly: true }, async ({ fresh, tag }) => {
    const made = await three(fresh, tag)
    const query = { metadata: { tag } }
    assert.deepEqual(ids(await every(Sandbox.list({ query, order: 'asc', limit: 2 }))), ids(made))
    assert.deepEqual(ids(await every(Sandbox.list({ query, order: 'desc' }))), ids(made).reverse())
  })

  check('sandbox.list', 'a state filter selects running or paused', async ({ fresh, tag }) => {
    const sandbox = await fresh({ metadata: { tag } })
    const found = async (state) => ids(await every(Sandbox.list({ query: { metadata: { tag }, state } })))
    assert.deepEqual(await found(['running']), [sandbox.sandboxId])
    assert.deepEqual(await found(['running', 'paused']), [sandbox.sandboxId])
    assert.deepEqual(await found(['paused']), [])
  })

  check('sandbox.list', 'a token that is none is refused', async () => {
    const error = await failure(Sandbox.list({ nextToken: 'not a token' }).nextItems())
    expectError(error, { new: 'SandboxError', says: ['400', 'Invalid next token'] })
  })
})
